"""Convolutions, poolings and patches: operators with a sliding window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dmlgraph.formats.onnx.export.emitter import FLOAT32, INT64, Emitter, Symbol
from dmlgraph.formats.onnx.export.fills import filled
from dmlgraph.formats.onnx.table import exports
from dmlgraph.operators.directml_enums import ConvolutionDirection, ConvolutionMode


def window(node: Emitter) -> dict[str, Any]:
    """The window's attributes, without its sizes and what is the default."""
    pads = [*node.field("start_padding"), *node.field("end_padding")]
    found = {"strides": list(node.field("strides")), "dilations": list(getattr(node.operator, "dilations", ()))}
    return {name: each for name, each in found.items() if set(each) - {1}} | ({"pads": pads} if any(pads) else {})


def extended(node: Emitter, x: Symbol, more: Sequence[int]) -> Symbol:
    """x {N, C, spatial…} with zeros after its ends."""
    if not any(more):
        return x
    pads = [0] * (len(more) + 2) + [0, 0, *more]
    return node.call("Pad", x, node.ints(pads), node.number(0, x.dtype))


@exports("convolution", how="Conv, ConvTranspose")
def _convolution(node: Emitter) -> Symbol:
    backward = node.field("direction") is ConvolutionDirection.BACKWARD
    weights = node["filter"]
    if node.field("mode") is ConvolutionMode.CONVOLUTION:
        weights = _mirrored(node, weights)
    made = node.call(
        "ConvTranspose" if backward else "Conv",
        node["input"],
        weights,
        None if node.field("bias") is None else node.flat("bias", node.output.sizes[1]),
        group=node.field("group_count"),
        **window(node),
    )
    return node.activated(extended(node, made, node.field("output_padding")))


def _mirrored(node: Emitter, weights: Symbol) -> Symbol:
    """The filter reversed along its spatial dimensions."""
    spatial = range(2, node.desc("filter").rank)
    if node.known("filter") is not None:
        return node.constant(np.flip(node.known("filter"), tuple(spatial)))  # type: ignore[type-var]
    starts, ends = node.ints([-1] * len(spatial)), node.ints([-(2**63) + 1] * len(spatial))
    return node.call("Slice", weights, starts, ends, node.ints(spatial), starts)


# Poolings.


@exports("average_pooling", "average_pooling1", how="AveragePool")
def _average(node: Emitter) -> Symbol:
    return node.widely(
        "AveragePool",
        node["input"],
        kernel_shape=list(node.field("window_size")),
        count_include_pad=int(node.field("include_padding")),
        **window(node),
    )


@exports("lp_pooling", "lp_pooling1", how="LpPool")
def _lp(node: Emitter) -> Symbol:
    return node.call(
        "LpPool", node["input"], kernel_shape=list(node.field("window_size")), p=node.field("p"), **window(node)
    )


@exports("max_pooling", "max_pooling1", "max_pooling2", how="MaxPool")
def _maximum(node: Emitter) -> Symbol | list[Symbol]:
    indices = getattr(node.operator, "output_indices", None)
    if indices is None:
        return node.widely("MaxPool", node["input"], kernel_shape=list(node.field("window_size")), **window(node))
    greatest, places = _maxima(node)
    return [node.cast(greatest, node.dtype), node.cast(places, indices.dtype.numpy)]


def _maxima(node: Emitter) -> list[Symbol]:
    """The maxima, perhaps in a wider type, and their indices in the whole input."""
    x = node["input"]
    wide = node.cast(x, node.wide_for("MaxPool", x.dtype))
    size = list(node.field("window_size"))
    return node.calls("MaxPool", wide, dtypes=[wide.dtype, INT64], kernel_shape=size, **window(node))


@exports("max_unpooling", how="ScatterElements")
def _unpool(node: Emitter) -> Symbol:
    count = node.desc("input").element_count
    places = node.cast(node.flat("indices", count), INT64)
    return _scattered(node, node.flat("input", count), places)


def _scattered(node: Emitter, x: Symbol, places: Symbol, **attributes: Any) -> Symbol:
    """Zeros with the elements of a vector at places of the output, counted row-major."""
    count = node.output.element_count
    zeros = filled(node, 0, (count,), x.dtype)
    made = node.call("ScatterElements", zeros, places, x, axis=0, **attributes)
    return node.cast(node.reshape(made, node.output.sizes, (count,)), node.dtype)


@exports("max_pooling_grad", how="MaxPool, ScatterElements")
def _maximum_gradient(node: Emitter) -> Symbol:
    count = node.desc("input_gradient").element_count
    _, places = _maxima(node)
    gradient = node.flat("input_gradient", count)
    gradient = node.cast(gradient, FLOAT32) if gradient.bits == 16 else gradient  # sums are rounded once
    return _scattered(node, gradient, node.reshape(places, (count,)), reduction="add")


@exports("average_pooling_grad", how="Div, ConvTranspose")
def _average_gradient(node: Emitter) -> Symbol:
    """Each element, over the number of its window's, is spread by a filter of ones."""
    sizes, pooled = node.output.sizes, node.desc("input_gradient").sizes
    kernel = list(node.field("window_size"))
    planes = sizes[0] * sizes[1]
    shares = node.call("Div", node["input_gradient"], node.number(_divisors(node, kernel), node.dtype))
    shares = node.reshape(shares, (planes, 1, *pooled[2:]), pooled)
    ones = node.number(np.ones((1, 1, *kernel)), node.dtype)
    made = node.call("ConvTranspose", shares, ones, **window(node))
    parts = zip(sizes[2:], pooled[2:], node.field("strides"), kernel, _padding(node), strict=True)
    more = [size - ((count - 1) * stride + taps - padding) for size, count, stride, taps, padding in parts]
    return node.reshape(extended(node, made, more), sizes)


def _padding(node: Emitter) -> list[int]:
    """The padding at both ends together, by dimension."""
    return [sum(pair) for pair in zip(node.field("start_padding"), node.field("end_padding"), strict=True)]


def _divisors(node: Emitter, kernel: Sequence[int]) -> Any:
    """How many elements of each window count."""
    if node.field("include_padding"):
        return np.prod(kernel)
    inside = np.ones((1, 1))
    dimensions = zip(
        node.output.sizes[2:],
        node.desc("input_gradient").sizes[2:],
        node.field("strides"),
        kernel,
        node.field("start_padding"),
        strict=True,
    )
    for size, count, stride, taps, start in dimensions:
        first = np.arange(count) * stride - start
        inside = np.multiply.outer(inside, np.minimum(first + taps, size) - np.maximum(first, 0))
    return inside


# Patches.


@exports("fold", how="Col2Im")
def _fold(node: Emitter) -> Symbol:
    spatial, block = node.ints(node.output.sizes[2:]), node.ints(node.field("window_sizes"))
    return node.call("Col2Im", node["input"], spatial, block, **window(node))


@exports("unfold", how="Pad, Gather")
def _unfold(node: Emitter) -> Symbol:
    """The padded image as one dimension, and the places of every patch's elements in it."""
    sizes = node.desc("input").sizes
    starts, ends = node.field("start_padding"), node.field("end_padding")
    padded = [start + size + end for start, size, end in zip(starts, sizes[2:], ends, strict=True)]
    x = node["input"]
    if any((*starts, *ends)):
        x = node.call("Pad", x, node.ints([0, 0, *starts, 0, 0, *ends]), node.number(0, x.dtype))
    flat = node.reshape(x, (*sizes[:2], int(np.prod(padded))))
    places = node.constant(_patches(node, padded), INT64)
    return node.reshape(node.call("Gather", flat, places, axis=2), node.output.sizes)


def _patches(node: Emitter, padded: Sequence[int]) -> Any:
    """The row-major places in the padded image: {window elements, blocks}."""
    taps, blocks = [], []
    for size, window_size, stride, dilation in zip(
        padded, node.field("window_sizes"), node.field("strides"), node.field("dilations"), strict=True
    ):
        taps.append(np.arange(window_size) * dilation)
        blocks.append(np.arange(0, size - dilation * (window_size - 1), stride))
    within = np.ravel_multi_index(np.meshgrid(*taps, indexing="ij"), padded).ravel()
    starts = np.ravel_multi_index(np.meshgrid(*blocks, indexing="ij"), padded).ravel()
    return within[:, None] + starts
