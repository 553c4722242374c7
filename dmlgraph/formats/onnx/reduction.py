"""Reductions and running sums."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dmlgraph.formats.onnx.export.emitter import INT64, Emitter, Sizes, Symbol
from dmlgraph.formats.onnx.node import Ints, Node, at_axis
from dmlgraph.formats.onnx.one_to_one import applied
from dmlgraph.formats.onnx.refusals import ByDefinition
from dmlgraph.formats.onnx.table import exports, imports
from dmlgraph.formats.onnx.tensors import Tensor
from dmlgraph.operators.directml_enums import AxisDirection

_FUNCTIONS = {
    "ReduceL1": "l1",
    "ReduceL2": "l2",
    "ReduceLogSum": "log_sum",
    "ReduceLogSumExp": "log_sum_exp",
    "ReduceMax": "max",
    "ReduceMean": "average",
    "ReduceMin": "min",
    "ReduceProd": "multiply",
    "ReduceSum": "sum",
    "ReduceSumSquare": "sum_square",
}
_WRITTEN = {function: name for name, function in _FUNCTIONS.items()}
_INDICES = {"argmax": "ArgMax", "argmin": "ArgMin"}
_SHIFTED = "log_sum_exp"  # computed of differences from the maximum, so that no power overflows
_NOT_IDENTITIES = ("l1", "l2", "log_sum", "sum_square")  # where one element is reduced


def reduced(
    node: Node, x: Tensor, function: str, axes: Ints = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> Tensor:
    """One of ONNX's reductions.

    Raises:
        ByDefinition: there are no elements.
    """
    given = node.ints("axes", axes)
    if not given and noop_with_empty_axes:
        return _of_each(node, x, function)
    gone = {at_axis(axis, x.rank) for axis in given or range(x.rank)}
    shape = [1 if axis in gone else size for axis, size in enumerate(x.shape) if keepdims or axis not in gone]
    if 0 in x.shape:
        raise ByDefinition
    places = sorted(gone) or [0]
    if function == "average" and not x.is_float:  # of integers the quotient's fraction is dropped
        total = node.reduce(x, function="sum", axes=places)
        count = math.prod(x.shape[axis] for axis in gone)
        return node.tensor(node.divide(total, Tensor.of(np.full(1, count, x.dtype))), shape)
    if function != _SHIFTED or not x.is_float:
        return node.tensor(node.reduce(x, function=function, axes=places), shape)
    most = float(np.finfo(node.value(x).dtype.numpy).max)  # a difference from an infinite maximum would be NaN
    greatest = node.clip1(node.reduce(x, function="max", axes=places), min=-most, max=most)
    made = node.reduce(node.subtract(x, greatest), function=function, axes=places)
    return node.tensor(node.add(made, greatest), shape)


def _of_each(node: Node, x: Tensor, function: str) -> Tensor:
    """What the reductions of single elements are: that of a row of one."""
    if function not in _NOT_IDENTITIES:
        return x
    made = node.reduce(node.reshaped(x, (x.count, 1)), function=function, axes=[1])
    return node.tensor(node.reshaped(made, x.sizes), x.shape)


def _reduction(function: str) -> Callable[..., Tensor]:
    def rule(node: Node, data: Tensor, axes: Ints = None, **attributes: int) -> Tensor:
        return reduced(node, data, function, axes, **attributes)

    return rule


for _name, _function in _FUNCTIONS.items():
    imports(_name, how="reduce" if _function != _SHIFTED else "reduce, clip1, subtract, add")(_reduction(_function))


def _arg(function: str) -> Callable[..., Tensor]:
    def rule(node: Node, data: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
        axis = at_axis(axis, data.rank)
        direction = "decreasing" if select_last_index else "increasing"
        made = node.apply(function, data, axes=[axis], axis_direction=direction, dtype="int64")
        shape = [1 if each == axis else size for each, size in enumerate(data.shape)]
        if not keepdims:
            del shape[axis]
        return node.tensor(made, shape)

    return rule


for _function, _name in _INDICES.items():
    imports(_name, how="argmax, argmin")(_arg(_function))


def _cumulative(function: str, exclusively: str) -> Callable[..., Tensor]:
    def rule(node: Node, x: Tensor, axis: Tensor, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
        fields = {"axis": at_axis(int(node.scalar(axis)), x.rank), exclusively: bool(exclusive)}
        return applied(node, function, x, axis_direction="decreasing" if reverse else "increasing", **fields)

    return rule


imports("CumSum", since=11, how="cumulative_summation")(_cumulative("cumulative_summation", "has_exclusive_sum"))
imports("CumProd", since=26, how="cumulative_product")(_cumulative("cumulative_product", "has_exclusive_product"))


@exports("reduce", how="ReduceSum, ReduceMax, ReduceMean, …; ArgMax, ArgMin")
def _reduce(node: Emitter) -> Symbol:
    function, axes = str(node.field("function")), node.field("axes")
    if function in _INDICES:
        return _index(node, _INDICES[function], axes, last=False)
    return emit_reduction(node, _WRITTEN[function], node["input"], axes)


def emit_reduction(node: Emitter, operator: str, x: Symbol, axes: Sizes) -> Symbol:
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
def _arg_reduction(node: Emitter) -> Symbol:
    last = node.field("axis_direction") is AxisDirection.DECREASING
    return _index(node, _INDICES[node.operator.name], node.field("axes"), last=last)


def _index(node: Emitter, operator: str, axes: Sizes, *, last: bool) -> Symbol:
    sizes = node.desc("input").sizes
    flat, _, _ = merged(node, node["input"], sizes, axes)
    made = node.call(operator, flat, axis=-1, keepdims=1, select_last_index=int(last))
    return node.cast(node.reshape(made, node.output.sizes), node.dtype)


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
