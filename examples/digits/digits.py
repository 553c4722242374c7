"""The graph of digits.yaml in Python: a small trained convolutional network reads handwritten digits.

    python examples/digits/digits.py

pixels uint8 [N, 1, 8, 8] → digit uint32 [N, 1, 1, 1] and probability float32 [N, 10, 1, 1].  It prints the ten
digits of pixels.npy, which are 0 to 9, and how sure the network is of each.  tools/train_digits.py trains it.
"""

import pathlib

import numpy as np

import dmlgraph as dg

FOLDER = pathlib.Path(__file__).parent


def convolution(x: dg.Value, layer: str, *, padding: int = 0, activation: str | None = None) -> dg.Value:
    """A layer with the weights from its files."""
    filters, bias = (
        x.graph.constant(f"{layer}_{part}", np.load(FOLDER / f"{layer}_{part}.npy")) for part in ("filter", "bias")
    )
    edges = [padding, padding]
    return dg.convolution(x, filters, bias, start_padding=edges, end_padding=edges, fused_activation=activation)


def softmax(x: dg.Value, axis: int) -> dg.Value:
    """e^x / Σ e^x along an axis; the greatest x is subtracted first, so that nothing overflows."""
    exponential = dg.exp(x - dg.reduce(x, function="max", axes=[axis]))
    return exponential / dg.reduce(exponential, function="sum", axes=[axis])


def build(batch: int = 1) -> dg.Graph:
    g = dg.Graph("digits", target="4.0", dims={"N": batch})
    pixels = g.input("pixels", sizes=["N", 1, 8, 8], dtype="uint8")
    ink = dg.cast(pixels, dtype="float32") / 16
    first = convolution(ink, "first", padding=1, activation="activation_relu")
    second = convolution(first, "second", padding=1, activation="activation_relu")
    pooled = dg.max_pooling(second, window_size=[2, 2], strides=[2, 2], start_padding=[0, 0], end_padding=[0, 0])
    score = convolution(pooled, "last")  # a dense layer: the window is the whole image
    g.output("digit", dg.argmax(score, axes=[1], axis_direction="increasing"))
    g.output("probability", softmax(score, axis=1))
    return g


if __name__ == "__main__":
    pixels = np.load(FOLDER / "pixels.npy")
    results = build(len(pixels)).compile().run({"pixels": pixels})
    for digit, probability in zip(results["digit"].ravel(), results["probability"][:, :, 0, 0], strict=True):
        print(f"{digit}  {probability[digit]:.1%}")
