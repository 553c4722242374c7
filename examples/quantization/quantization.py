"""The graphs of this folder in Python: numbers to int8 and back, and a convolution in 8-bit integers.

    python examples/quantization/quantization.py

x is float32 [1, 3, 1, 4], picture float32 [1, 1, 5, 5]; all results are float32.
"""

import pathlib

import numpy as np

import dmlgraph as dg

FOLDER = pathlib.Path(__file__).parent
SOBEL = np.array([[-1, -2, -1], [0, 0, 0], [1, 2, 1]], np.int8)


def one(g: dg.Graph, dtype: str, value: float) -> dg.Value:
    """One number for a whole tensor."""
    return g.fill_value_constant(sizes=[1, 1, 1, 1], dtype=dtype, value=value)


def there_and_back(x: dg.Value, scale: dg.Value, zero: dg.Value) -> dg.Value:
    """round(x / scale) · scale, limited to int8's range; the scale is one number or one per channel."""
    return dg.dequantize_linear(dg.quantize_linear(x, scale, zero), scale, zero)


def round_trip() -> dg.Graph:
    g = dg.Graph("quantization_round_trip", target="2.1")
    x = g.input("x", sizes=[1, 3, 1, 4], dtype="float32")
    channel_scale = g.constant("channel_scale", np.float32([0.1, 1, 10]).reshape(1, 3, 1, 1) / 127)
    scale, zero = one(g, "float32", 10 / 127), one(g, "int8", 0)
    g.output("per_tensor", there_and_back(x, scale, zero))
    g.output("per_channel", there_and_back(x, channel_scale, zero))
    return g


def convolution() -> dg.Graph:
    g = dg.Graph("quantized_convolution", target="4.0")
    picture = g.input("picture", sizes=[1, 1, 5, 5], dtype="float32")
    filters = g.constant("filter", np.stack([SOBEL, SOBEL.T])[:, None])
    filter_scale = g.constant("filter_scale", np.full((1, 2, 1, 1), 1 / 8, np.float32))
    picture_step, black = one(g, "float32", 1 / 255), one(g, "uint8", 0)
    code = dg.quantize_linear(picture, picture_step, black)
    slope_step, level = one(g, "float32", 1 / 127), one(g, "uint8", 128)
    slope_code = dg.quantized_linear_convolution(
        code,
        picture_step,
        black,
        filter=filters,
        filter_scale=filter_scale,
        output_scale=slope_step,
        output_zero_point=level,
    )
    g.output("slope", dg.dequantize_linear(slope_code, slope_step, level))
    return g


if __name__ == "__main__":
    for graph, name in ((round_trip(), "x"), (convolution(), "picture")):
        for output, array in graph.compile().run({name: np.load(FOLDER / f"{name}.npy")}).items():
            print(f"{output}:\n{array}")
