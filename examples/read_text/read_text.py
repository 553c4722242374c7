"""Reads the text of a photo with three ONNX models: where text is, which way up it is, and what it says.

The models are PP-OCRv4's, in a package that pip downloads.  A wheel is a zip file; nothing of it is installed:

    pip install "dmlgraph[onnx]" pillow
    pip download --no-deps --dest models rapidocr-onnxruntime==1.4.4
    python examples/read_text/read_text.py models/rapidocr_onnxruntime-1.4.4-py3-none-any.whl

    HarbourMuseum         0.99
    Opendaily10:00-18:00  0.97
    Lastentry at 17:15    0.94
    Tickets:12.50         0.98
    FRAGILEGLASS          0.99

This model for Chinese and English leaves out most spaces.  Another photo, on another device:

    python examples/read_text/read_text.py models/rapidocr_onnxruntime-1.4.4-py3-none-any.whl my.jpg --device directml

Each model takes pictures `x`, float32 [N, 3, height, width], of blue, green and red from -1 to 1.  All sizes but the 3
are open in the models: `dg.load` gets numbers for `x[0]`, `x[2]` and `x[3]`.

    where   [1, 3, H, W], multiples of 32 → [1, 1, H, W], the probability that a pixel is in the middle of a line
    turned  [N, 3, 48, 192]               → [N, 2], the probabilities of 0 and of 180 degrees
    says    [N, 3, 48, W]                 → [N, W / 8, 6625], at each place the probabilities of characters

photo.jpg is drawn: tools/draw_notice.py.
"""

import argparse
import math
import pathlib
import tempfile
import zipfile

import numpy as np
import onnx
from PIL import Image

import dmlgraph as dg

FOLDER = pathlib.Path(__file__).parent
MODELS = {
    "where": "ch_PP-OCRv4_det_infer.onnx",
    "turned": "ch_ppocr_mobile_v2.0_cls_infer.onnx",
    "says": "ch_PP-OCRv4_rec_infer.onnx",
}
HEIGHT = 48  # of a line in pixels, as the models for lines take it
SMALLEST = 736  # the least width and height in pixels in which lines are looked for
TEXT = 0.3  # the probability from which a pixel is text
LINE = 0.5  # the mean probability from which text is a line
GROWTH = 1.6  # the map shows the middle of a line: its edges lie so many times area / perimeter further outside
SURE = 0.9  # the probability from which a line is turned


class Reader:
    """The three models of a folder, on a device."""

    def __init__(self, models: pathlib.Path, device: str = "cpu") -> None:
        self.paths = {name: models / file for name, file in MODELS.items()}
        self.device = device
        metadata = {each.key: each.value for each in onnx.load(self.paths["says"]).metadata_props}
        self.characters = ["", *metadata["character"].splitlines(), " "]

    def run(self, name: str, pictures: np.ndarray) -> np.ndarray:
        """A model's output for pictures [N, 3, height, width], for whose sizes it is compiled."""
        count, _, height, width = pictures.shape
        graph = dg.load(self.paths[name], dims={"x[0]": count, "x[2]": height, "x[3]": width})
        (result,) = graph.compile(self.device).run({"x": pictures}).values()
        return result

    def read(self, photo: Image.Image) -> list[tuple[str, float]]:
        """The lines from top to bottom, and how sure the model is of the characters of each, from 0 to 1."""
        lines = [cut_out(photo, corners) for corners in self.find(photo)]
        if not lines:
            return []
        turned = self.run("turned", as_batch(lines, 192))[:, 1] > SURE
        lines = [line.rotate(180) if flag else line for line, flag in zip(lines, turned, strict=True)]
        width = max(math.ceil(HEIGHT * line.width / line.height / 32) * 32 for line in lines)
        return [self.decode(each) for each in self.run("says", as_batch(lines, max(width, 320)))]

    def find(self, photo: Image.Image) -> list[np.ndarray]:
        """The corners [4, 2] of each line in the photo, clockwise from the top left, as x and y in pixels."""
        larger = max(1.0, SMALLEST / min(photo.size))
        sizes = [max(32, round(size * larger / 32) * 32) for size in photo.size]
        (text,) = self.run("where", as_input(photo.resize(sizes))[None])[0]
        scale = np.array(photo.size) / sizes
        found = [rectangle(points) for points in regions(text > TEXT) if text[points[:, 1], points[:, 0]].mean() > LINE]
        return sorted((corners * scale for corners in found if corners is not None), key=lambda each: each[:, 1].min())

    def decode(self, places: np.ndarray) -> tuple[str, float]:
        """The text of probabilities [places, characters]: the likeliest ones, of repeated ones the first."""
        best = places.argmax(1)
        kept = (best != 0) & (best != np.concatenate([[0], best[:-1]]))
        text = "".join(self.characters[index] for index in best[kept])
        return text, float(places.max(1)[kept].mean()) if kept.any() else 0.0


def as_input(picture: Image.Image) -> np.ndarray:
    """A picture as float32 [3, height, width]: blue, green and red from -1 to 1."""
    pixels = np.asarray(picture.convert("RGB"), np.float32)[:, :, ::-1]
    return np.ascontiguousarray((pixels / 127.5 - 1).transpose(2, 0, 1))


def as_batch(lines: list[Image.Image], width: int) -> np.ndarray:
    """Lines as float32 [N, 3, 48, width]: resized, with grey, 0, on the right."""
    batch = np.zeros((len(lines), 3, HEIGHT, width), np.float32)
    for line, place in zip(lines, batch, strict=True):
        used = min(width, math.ceil(HEIGHT * line.width / line.height))
        place[:, :, :used] = as_input(line.resize((used, HEIGHT), Image.Resampling.BILINEAR))
    return batch


def cut_out(photo: Image.Image, corners: np.ndarray) -> Image.Image:
    """A line, straightened; one that is much higher than wide is turned to the left."""
    across, down = corners[1] - corners[0], corners[3] - corners[0]
    size = [max(1, round(float(np.hypot(*side)))) for side in (across, down)]
    counterclockwise = corners[[0, 3, 2, 1]].ravel().tolist()  # as Pillow wants them
    line = photo.transform(size, Image.Transform.QUAD, counterclockwise, Image.Resampling.BICUBIC)
    return line.rotate(90, expand=True) if line.height >= 1.5 * line.width else line


def regions(mask: np.ndarray) -> list[np.ndarray]:
    """The points [count, 2], as x and y, of each group of true pixels that touch, also by their corners."""
    runs: list[tuple[int, int, int]] = []  # row, first column, end
    same: list[int] = []  # of each run, a run of the same group, itself at the end of the chain

    def group(run: int) -> int:
        while same[run] != run:
            run = same[run]
        return run

    above = range(0)  # the runs of the row before
    for row, pixels in enumerate(mask):
        first = len(runs)
        edges = np.flatnonzero(np.diff(np.concatenate([[0], pixels.astype(np.int8), [0]])))
        for start, end in edges.reshape(-1, 2).tolist():
            same.append(len(runs))
            runs.append((row, start, end))
            for other in above:
                if runs[other][1] <= end and start <= runs[other][2]:
                    same[group(other)] = group(len(runs) - 1)
        above = range(first, len(runs))
    found: dict[int, list[tuple[int, int]]] = {}
    for run, (row, start, end) in enumerate(runs):
        found.setdefault(group(run), []).extend((x, row) for x in range(start, end))
    return [np.array(points) for points in found.values()]


def rectangle(points: np.ndarray) -> np.ndarray | None:
    """The corners of the smallest rectangle, in steps of a degree, around points, grown; None if it is too small."""
    smallest = None
    for angle in np.radians(range(-45, 45)):
        axes = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
        turned = points @ axes.T
        low, high = turned.min(0), turned.max(0) + 1
        if smallest is None or (high - low).prod() < smallest[0]:
            smallest = (high - low).prod(), low, high, axes
    area, low, high, axes = smallest
    if (high - low).min() < 3:
        return None
    margin = GROWTH * area / (2 * (high - low).sum())
    (left, top), (right, bottom) = low - margin, high + margin
    return np.array([[left, top], [right, top], [right, bottom], [left, bottom]]) @ axes


def main() -> None:
    parser = argparse.ArgumentParser(description="Reads the text of a photo.")
    parser.add_argument("wheel", type=pathlib.Path, help="the package with the models, as pip downloads it")
    parser.add_argument("photo", type=pathlib.Path, nargs="?", default=FOLDER / "photo.jpg")
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(given.wheel) as wheel:
        for file in MODELS.values():
            wheel.extract(f"rapidocr_onnxruntime/models/{file}", folder)
        reader = Reader(pathlib.Path(folder, "rapidocr_onnxruntime", "models"), given.device)
        lines = reader.read(Image.open(given.photo).convert("RGB"))
    width = max((len(text) for text, _ in lines), default=0)
    for text, sure in lines:
        print(f"{text:{width}}  {sure:.2f}")


if __name__ == "__main__":
    main()
