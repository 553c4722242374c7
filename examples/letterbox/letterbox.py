"""The graphs of this folder in Python: a letterboxed photo, and boxes and pictures mapped back to the photo's pixels.

    python examples/letterbox/letterbox.py

A photo is uint8 [1, 3, height, width], in memory rows of interleaved channels; a letterboxed picture is float16
[1, 3, side, side] from 0 to 1; boxes are float32 [N, 4], left, top, right and bottom in pixels.
"""

import dataclasses
import pathlib

import numpy as np

import dmlgraph as dg

FOLDER = pathlib.Path(__file__).parent
GREY = 114


@dataclasses.dataclass(frozen=True)
class Geometry:
    """The position of a photo in its letterboxed picture, a square of `side` pixels."""

    height: int
    width: int
    side: int = 64

    @property
    def scale(self) -> float:
        """Pixels of the picture per pixel of the photo."""
        return self.side / max(self.height, self.width)

    @property
    def resized(self) -> list[int]:
        """Height and width of the photo in the picture."""
        return [round(size * self.scale) for size in (self.height, self.width)]

    @property
    def start(self) -> list[int]:
        """Rows above and columns left of the photo in the picture."""
        return [(self.side - size) // 2 for size in self.resized]

    @property
    def end(self) -> list[int]:
        """Rows below and columns right of the photo in the picture."""
        return [self.side - size - before for size, before in zip(self.resized, self.start, strict=True)]

    @property
    def strides(self) -> list[int]:
        """Strides of [1, 3, height, width] for rows of interleaved channels in memory."""
        return [self.height * self.width * 3, 1, self.width * 3, 3]


def letterbox(at: Geometry) -> dg.Graph:
    g = dg.Graph("letterbox", target="2.1")
    photo = g.input("photo", sizes=[1, 3, at.height, at.width], dtype="uint8", strides=[0, *at.strides[1:]])
    resized = dg.resample1(dg.cast(photo, dtype="float32"), sizes=[1, 3, *at.resized], interpolation_mode="linear")
    padded = dg.padding(
        resized,
        padding_mode="constant",
        padding_value=GREY,
        start_padding=[0, 0, *at.start],
        end_padding=[0, 0, *at.end],
    )
    g.output("planes", dg.cast(padded / 255, dtype="float16"))
    return g


def boxes_to_photo(at: Geometry, count: int = 1) -> dg.Graph:
    g = dg.Graph("boxes_to_photo", target="4.0")
    boxes = g.input("boxes", sizes=[count, 4], dtype="float32")
    top, left = at.start
    start = g.constant("start", np.array([[left, top, left, top]], np.float32))
    edge = g.constant("edge", np.array([[at.width, at.height, at.width, at.height]], np.float32))
    scaled = (boxes - start) * (1 / at.scale)
    g.output("in_photo", dg.activation_relu(dg.min(scaled, edge)))
    return g


def picture_to_photo(at: Geometry) -> dg.Graph:
    g = dg.Graph("picture_to_photo", target="4.1")
    planes = g.input("planes", sizes=[1, 3, at.side, at.side], dtype="float16")
    cut = dg.slice(planes, offsets=[0, 0, *at.start], sizes=[1, 3, *at.resized], strides=[1, 1, 1, 1])
    wide = dg.cast(cut, dtype="float32")
    resized = dg.resample1(wide, sizes=[1, 3, at.height, at.width], interpolation_mode="linear")
    whole = dg.round(resized * 255)
    g.output("photo", dg.cast(whole, dtype="uint8", output={"strides": at.strides}))
    return g


if __name__ == "__main__":
    photo, boxes = np.load(FOLDER / "photo.npy"), np.load(FOLDER / "boxes.npy")
    at = Geometry(*photo.shape[2:])
    planes = letterbox(at).compile().run({"photo": photo})["planes"]
    back = picture_to_photo(at).compile().run({"planes": planes})["photo"]
    print(f"planes: {planes.dtype} {list(planes.shape)}, grey {planes[0, 0, 0, 0]}")
    print(f"photo: the greatest difference after both ways is {np.abs(back.astype(int) - photo).max()} of 255")
    print("boxes in the photo:")
    print(boxes_to_photo(at, len(boxes)).compile().run({"boxes": boxes})["in_photo"])
