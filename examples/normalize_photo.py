"""The graph of normalize_photo.yaml, built in Python and run on a photo.

    python examples/normalize_photo.py photo.npy planes.npy

photo.npy holds a uint8 array of [height, width, 3]; planes.npy receives float16 [1, 3, height, width].
"""

import sys

import numpy as np

import dmlgraph as dg

MEAN = (0.485, 0.456, 0.406)
DEVIATION = (0.229, 0.224, 0.225)


def per_channel(g: dg.Graph, values: tuple[float, ...]) -> dg.Value:
    """One float32 per channel, sizes [1, 3, 1, 1], which broadcasts over the planes."""
    fills = [g.fill_value_constant(sizes=[1, 1, 1, 1], dtype="float32", value=value) for value in values]
    return dg.join(fills, axis=1)


def build(height: int, width: int) -> dg.Graph:
    """(photo / 255 - mean) / deviation; the photo is read in place, as rows of interleaved channels."""
    g = dg.Graph("normalize_photo", target="4.1")
    photo = g.input("photo", sizes=[1, 3, height, width], dtype="uint8", strides=[0, 1, 3 * width, 3])
    unit = dg.cast(photo, dtype="float32") / 255
    scaled = (unit - per_channel(g, MEAN)) / per_channel(g, DEVIATION)
    g.output("planes", dg.cast(scaled, dtype="float16"))
    return g


def main(source: str, target: str) -> None:
    photo = np.load(source, allow_pickle=False)
    executable = build(*photo.shape[:2]).compile()
    planes = executable.run({"photo": photo.transpose(2, 0, 1)[None]})["planes"]
    np.save(target, planes)
    print(f"{planes.dtype} {planes.shape}, mean per channel {planes.mean(axis=(0, 2, 3), dtype=np.float32)}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python examples/normalize_photo.py photo.npy planes.npy")
    main(*sys.argv[1:])
