"""The graph of unet_block.yaml in Python: down to half the resolution and up again, with a skip connection around.

    python examples/unet_block.py

The image is float32 [batch, channels, 2 * rows, 2 * columns].  It prints the class of each pixel of a
random image, with random weights.
"""

import numpy as np

import dmlgraph as dg


def convolution(g: dg.Graph, x: dg.Value, name: str, features: int, size: int = 3) -> dg.Value:
    """A convolution with the weights of this name; one of 3 x 3 keeps the size, and ReLU follows."""
    weights = g.input(f"{name}.filter", sizes=[features, x.sizes[1], size, size], dtype="float32", owned=True)
    bias = g.input(f"{name}.bias", sizes=[features], dtype="float32", owned=True)
    if size == 1:
        return dg.convolution(x, weights, bias)
    return dg.convolution(x, weights, bias, start_padding=1, end_padding=1, fused_activation="activation_relu")


def build(
    batch: int = 1, channels: int = 3, features: int = 8, classes: int = 2, rows: int = 3, columns: int = 4
) -> dg.Graph:
    g = dg.Graph("unet_block", target="5.1")
    image = g.input("image", sizes=[batch, channels, 2 * rows, 2 * columns], dtype="float32")
    first = convolution(g, image, "first", features)
    half = dg.max_pooling(first, window_size=2, strides=2, start_padding=0, end_padding=0)
    deep = convolution(g, half, "deep", 4 * features)
    pixels = deep.reshape(batch, features, 2, 2, rows, columns).transpose(0, 1, 4, 2, 5, 3)
    up = pixels.reshape(batch, features, 2 * rows, 2 * columns)
    last = convolution(g, dg.join([first, up], axis=1), "last", features)
    g.output("score", convolution(g, last, "score", classes, size=1))
    return g


if __name__ == "__main__":
    graph = build()
    random = np.random.default_rng(0)
    inputs = {node.name: random.standard_normal(node.desc.sizes).astype(np.float32) for node in graph.inputs}
    print(graph.compile().run(inputs)["score"].argmax(axis=1)[0])
