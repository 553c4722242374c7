"""Draws examples/read_text/photo.jpg: a notice on a wooden board, seen from the side, with a label upside down.

    python tools/draw_notice.py

The picture follows from the seed and from Pillow's own font.
"""

from __future__ import annotations

import math
import pathlib

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

PHOTO = pathlib.Path(__file__).parent.parent / "examples" / "read_text" / "photo.jpg"
SIZE = (800, 608)  # of the photo
SHEET = (620, 430)
LINES = [("Harbour Museum", 64), ("Open daily 10:00 - 18:00", 40), ("Last entry at 17:15", 40), ("Tickets: 12.50", 40)]
LABEL = "FRAGILE GLASS"
CORNERS = [(92, 64), (668, 40), (716, 474), (62, 418)]  # of the sheet in the photo: from the top left, clockwise
Corners = list[tuple[int, int]]


def board(rng: np.random.Generator) -> Image.Image:
    """Wood with grain."""
    width, height = SIZE
    rows = np.cumsum(rng.normal(0, 2, height)) % 40 - 20
    grain = 14 * np.sin(np.linspace(0, 9, width)[None] + rows[:, None] / 6) + rng.normal(0, 5, (height, width))
    shade = (rows[:, None] / 2 + grain)[..., None] * [0.9, 0.8, 0.6]
    return Image.fromarray(np.clip(np.array([142, 98, 58]) + shade, 0, 255).astype(np.uint8))


def sheet() -> Image.Image:
    image = Image.new("RGB", SHEET, (243, 240, 228))
    draw = ImageDraw.Draw(image)
    top = 30
    for index, (text, size) in enumerate(LINES):
        draw.text(
            (36, top), text, fill=(150, 30, 30) if index == 0 else (30, 34, 48), font=ImageFont.load_default(size)
        )
        top += size + 46
    return image


def label() -> Image.Image:
    """Upside down."""
    font = ImageFont.load_default(38)
    image = Image.new("RGB", (340, 70), (232, 196, 60))
    ImageDraw.Draw(image).text((24, 10), LABEL, fill=(20, 20, 20), font=font)
    return image.rotate(180)


def lay(photo: Image.Image, picture: Image.Image, corners: Corners) -> Image.Image:
    """The photo with a picture in a quadrangle of it, by the map from the photo's points to the picture's."""
    width, height = picture.size
    equations, right = [], []
    for (x, y), (u, v) in zip(corners, [(0, 0), (width, 0), (width, height), (0, height)], strict=True):
        equations += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
        right += [u, v]
    numbers = np.linalg.solve(np.array(equations, float), np.array(right, float)).tolist()
    seen = picture.transform(SIZE, Image.Transform.PERSPECTIVE, numbers, Image.Resampling.BICUBIC)
    mask = Image.new("L", SIZE)
    ImageDraw.Draw(mask).polygon(corners, fill=255)
    shadow = mask.filter(ImageFilter.GaussianBlur(9)).point(lambda value: value * 0.5)
    dark = Image.composite(Image.new("RGB", SIZE), photo, shadow.transform(SIZE, Image.Transform.AFFINE, _MOVED))
    return Image.composite(seen, dark, mask)


_MOVED = (1, 0, -6, 0, 1, -8)  # right and down


def main() -> None:
    rng = np.random.default_rng(4)
    photo = lay(board(rng), sheet(), CORNERS)
    photo = lay(photo, label(), [(404, 504), (742, 522), (738, 592), (400, 574)])
    pixels = np.asarray(photo.filter(ImageFilter.GaussianBlur(0.8)), float)
    y, x = np.mgrid[: SIZE[1], : SIZE[0]]
    light = 1.08 - 0.45 * np.hypot(x - 250, y - 180) / math.hypot(*SIZE)
    pixels = pixels * light[..., None] + rng.normal(0, 5, pixels.shape)
    Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(PHOTO, quality=82)


if __name__ == "__main__":
    main()
