"""Reductions, arg-reductions, the greatest elements, running sums and products."""

from __future__ import annotations

import numpy as np

from dmlgraph.formats.onnx.export.emitter import INT64, Emitter, Sizes, Symbol
from dmlgraph.formats.onnx.table import exports
from dmlgraph.operators.directml_enums import AxisDirection, ReduceFunction

_REDUCTIONS = {
    ReduceFunction.AVERAGE: "ReduceMean",
    ReduceFunction.L1: "ReduceL1",
    ReduceFunction.L2: "ReduceL2",
    ReduceFunction.LOG_SUM: "ReduceLogSum",
    ReduceFunction.LOG_SUM_EXP: "ReduceLogSumExp",
    ReduceFunction.MAX: "ReduceMax",
    ReduceFunction.MIN: "ReduceMin",
    ReduceFunction.MULTIPLY: "ReduceProd",
    ReduceFunction.SUM: "ReduceSum",
    ReduceFunction.SUM_SQUARE: "ReduceSumSquare",
}
_INDEX = {
    ReduceFunction.ARGMAX: "ArgMax",
    ReduceFunction.ARGMIN: "ArgMin",
}


@exports("reduce", how="ReduceSum, ReduceMax, ReduceMean, …; ArgMax, ArgMin")
def _reduce(node: Emitter) -> Symbol:
    function, axes = node.field("function"), node.field("axes")
    if function in _INDEX:
        return _index(node, _INDEX[function], axes, last=False)
    return reduced(node, _REDUCTIONS[function], node["input"], axes)


def reduced(node: Emitter, operator: str, x: Symbol, axes: Sizes) -> Symbol:
    """A reduction whose axes stay, with size 1."""
    wide = node.cast(x, node.wide_for(operator, x.dtype))
    if not axes:  # each element by itself: along a new axis
        wide, axes = node.call("Unsqueeze", wide, node.ints([0])), [0]
        return node.cast(node.call(operator, wide, node.ints(axes), keepdims=0), x.dtype)
    return node.cast(node.call(operator, wide, node.ints(axes), keepdims=1), x.dtype)


def merged(node: Emitter, x: Symbol, sizes: Sizes, axes: Sizes) -> tuple[Symbol, list[int], list[int]]:
    """x with the axes as one last axis, row-major; the order of the dimensions, and the sizes in it."""
    kept = [axis for axis in range(len(sizes)) if axis not in axes]
    order = [*kept, *sorted(axes)]
    moved = [sizes[axis] for axis in order]
    flat = [*moved[: len(kept)], int(np.prod(moved[len(kept) :]))]
    return node.reshape(node.transpose(x, order), flat, moved), order, moved


@exports("argmax", how="ArgMax, Cast")
@exports("argmin", how="ArgMin, Cast")
def _arg(node: Emitter) -> Symbol:
    last = node.field("axis_direction") is AxisDirection.DECREASING
    return _index(node, {"argmax": "ArgMax", "argmin": "ArgMin"}[node.operator.name], node.field("axes"), last=last)


def _index(node: Emitter, operator: str, axes: Sizes, *, last: bool) -> Symbol:
    sizes = node.desc("input").sizes
    flat, _, _ = merged(node, node["input"], sizes, axes)
    made = node.call(operator, flat, dtype=INT64, axis=-1, keepdims=1, select_last_index=int(last))
    return node.cast(node.reshape(made, node.output.sizes), node.dtype)


@exports("top_k", "top_k1", how="TopK, Cast")
def _top(node: Emitter) -> list[Symbol]:
    largest = node.field("axis_direction") is AxisDirection.DECREASING
    values, indices = node.calls(
        "TopK",
        node["input"],
        node.ints([node.field("k")]),
        dtypes=[node.dtype, INT64],
        axis=node.field("axis"),
        largest=int(largest),
        sorted=1,
    )
    return [values, node.cast(indices, node.desc("output_index").dtype.numpy)]


@exports("cumulative_summation", how="CumSum")
def _sums(node: Emitter) -> Symbol:
    x, dtype = node["input"], node.dtype
    backwards = node.field("axis_direction") is AxisDirection.DECREASING
    made = node.call(
        "CumSum",
        node.cast(x, node.wide_for("CumSum", dtype)),
        node.number(node.field("axis"), INT64),
        exclusive=int(node.field("has_exclusive_sum")),
        reverse=int(backwards),
    )
    return node.cast(made, dtype)


@exports("cumulative_product", how="Pad, Slice, Mul")
def _products(node: Emitter) -> Symbol:
    """Products of 2, 4, 8, … elements, each from two of half as many."""
    x, axis = node["input"], node.field("axis")
    sizes = node.desc("input").sizes
    count = sizes[axis]
    backwards = node.field("axis_direction") is AxisDirection.DECREASING
    reach = 1
    while reach < count:
        x = node.widely("Mul", x, _shifted(node, x, len(sizes), axis, reach, count, backwards))
        reach *= 2
    return _shifted(node, x, len(sizes), axis, 1, count, backwards) if node.field("has_exclusive_product") else x


def _shifted(node: Emitter, x: Symbol, rank: int, axis: int, by: int, count: int, backwards: bool) -> Symbol:
    """The elements moved along the axis, with ones where none come."""
    pads = [0] * (2 * rank)
    pads[axis + rank if backwards else axis] = by
    moved = node.call("Pad", x, node.ints(pads), node.number(1, x.dtype))
    start = by if backwards else 0
    return node.call("Slice", moved, node.ints([start]), node.ints([start + count]), node.ints([axis]))
