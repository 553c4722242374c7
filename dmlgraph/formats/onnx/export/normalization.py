"""Normalizations, by ONNX's operators where these are the same, else by means and square roots."""

from __future__ import annotations

import numpy as np

from dmlgraph.formats.onnx.export.emitter import Emitter, Symbol
from dmlgraph.formats.onnx.export.reduction import reduced
from dmlgraph.formats.onnx.table import exports


@exports("batch_normalization", how="BatchNormalization; parameters of other sizes: Sub, Sqrt, Div, Mul, Add")
def _batch(node: Emitter) -> Symbol:
    sizes, fields = node.output.sizes, ("scale", "bias", "mean", "variance")
    by_channel = (1, *sizes[1:2], *(1,) * (len(sizes) - 2))
    if len(sizes) > 1 and all(node.desc(field).sizes == by_channel for field in fields):
        parameters = [node.flat(field, sizes[1]) for field in fields]
        made = node.call("BatchNormalization", node["input"], *parameters, epsilon=node.field("epsilon"))
        return node.activated(made)
    centred = node.call("Sub", node.wide("input"), node.wide("mean"))
    return _finished(node, _divided(node, centred, node.wide("variance")))


def _divided(node: Emitter, centred: Symbol, variance: Symbol) -> Symbol:
    """centred / √(variance + epsilon)"""
    return node.call("Div", centred, _deviation(node, variance))


def _deviation(node: Emitter, variance: Symbol) -> Symbol:
    return node.call("Sqrt", node.line(variance, 1, node.field("epsilon")))


def _finished(node: Emitter, x: Symbol) -> Symbol:
    """activation(x · scale + bias), without what is left out."""
    x = x if node.field("scale") is None else node.call("Mul", x, node.wide("scale"))
    x = x if node.field("bias") is None else node.call("Add", x, node.wide("bias"))
    return node.cast(node.activated(x), node.dtype)


def _means(node: Emitter, x: Symbol, axes: tuple[int, ...]) -> Symbol:
    return reduced(node, "ReduceMean", x, axes)


@exports("batch_normalization_training", how="ReduceMean, Sub, Sqrt, Div, Mul, Add")
def _batch_training(node: Emitter) -> list[Symbol]:
    x, axes = node.wide("input"), _ones(node.desc("scale").sizes)
    mean = _means(node, x, axes)
    centred = node.call("Sub", x, mean)
    variance = _means(node, node.call("Mul", centred, centred), axes)
    made = node.call("Mul", _divided(node, centred, variance), node.wide("scale"))
    made = node.call("Add", made, node.wide("bias"))
    made = made if node.field("fused_add") is None else node.call("Add", made, node.wide("fused_add"))
    return [node.cast(each, node.dtype) for each in (node.activated(made), mean, variance)]


def _ones(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The dimensions of size 1."""
    return tuple(axis for axis, size in enumerate(sizes) if size == 1)


@exports(
    "mean_variance_normalization",
    "mean_variance_normalization1",
    "mean_variance_normalization2",
    how="LayerNormalization; other axes: ReduceMean, Sub, Sqrt, Div, Mul, Add",
)
def _mean_variance(node: Emitter) -> Symbol:
    operator: object = node.operator
    axes: tuple[int, ...] = operator.reduced  # type: ignore[attr-defined]
    use_mean, use_variance = operator.uses  # type: ignore[attr-defined]
    layer = _layer(node, axes) if use_mean and use_variance else None
    if layer is not None:
        return node.activated(layer)
    x = node.wide("input")
    if use_mean:
        x = node.call("Sub", x, _means(node, x, axes))
    if use_variance:
        x = _divided(node, x, _means(node, node.call("Mul", x, x), axes))
    return _finished(node, x)


def _layer(node: Emitter, axes: tuple[int, ...]) -> Symbol | None:
    """As LayerNormalization, if the axes are the last ones and the scale has their sizes."""
    sizes, rank = node.output.sizes, node.output.rank
    start = rank - len(axes)
    wanted = (*(1,) * start, *sizes[start:])
    present = [node.desc(field) for field in ("scale", "bias") if node.field(field) is not None]
    if not axes or sorted(axes) != list(range(start, rank)) or any(desc.sizes != wanted for desc in present):
        return None
    scale = node.number(np.ones(sizes[start:]), node.dtype) if node.field("scale") is None else None
    scale = node.flat("scale", *sizes[start:]) if scale is None else scale
    bias = None if node.field("bias") is None else node.flat("bias", *sizes[start:])
    return node.call("LayerNormalization", node["input"], scale, bias, axis=start, epsilon=node.field("epsilon"))


@exports(
    "local_response_normalization",
    how="LRN; others than across an odd number of channels: AveragePool, Mul, Add, Pow, Div",
)
def _local_response(node: Emitter) -> Symbol:
    alpha, beta, bias = (node.field(name) for name in ("alpha", "beta", "bias"))
    if node.field("cross_channel") and node.field("local_size") % 2:
        return node.call("LRN", node["input"], alpha=alpha, beta=beta, bias=bias, size=node.field("local_size"))
    bases = local_bases(node)
    power = node.call("Pow", bases, node.number(beta, bases.dtype))
    return node.cast(node.call("Div", node.wide("input"), power), node.dtype)


def local_bases(node: Emitter) -> Symbol:
    """bias + alpha / size · Σ x² over the neighbourhoods."""
    x = node.wide("input")
    sums = local_sums(node, node.call("Mul", x, x))
    return node.line(sums, node.field("alpha") / node.field("local_size"), node.field("bias"))


def local_sums(node: Emitter, x: Symbol) -> Symbol:
    """Sums over the neighbourhood of each element: averages that count the padding, times their number."""
    size, rank = node.field("local_size"), node.output.rank
    before, after = (size - 1) // 2, size // 2
    if node.field("cross_channel"):  # the channels as rows
        x = node.transpose(x, (0, 2, 1, *range(3, rank)))
        kernel, starts, ends = [size, 1], [before, 0], [after, 0]
    else:
        kernel, starts, ends = [size, size], [before] * 2, [after] * 2
    made = node.call("AveragePool", x, kernel_shape=kernel, pads=[*starts, *ends], count_include_pad=1)
    made = node.line(made, float(np.prod(kernel)), 0)
    return node.transpose(made, (0, 2, 1, *range(3, rank))) if node.field("cross_channel") else made


@exports("lp_normalization", how="ReduceL1, ReduceSumSquare, Mul, Add, Sqrt, Div")
def _lp(node: Emitter) -> Symbol:
    x, axes = node["input"], (node.field("axis"),)
    if node.field("p") == 1:
        norm = reduced(node, "ReduceL1", x, axes)
        square = node.call("Mul", norm, norm)
    else:
        square = reduced(node, "ReduceSumSquare", x, axes)
    return _divided(node, x, square)
