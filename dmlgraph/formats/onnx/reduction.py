"""Reductions and running sums."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dmlgraph.formats.onnx.node import Ints, Node, at_axis
from dmlgraph.formats.onnx.one_to_one import applied
from dmlgraph.formats.onnx.refusals import ByDefinition
from dmlgraph.formats.onnx.table import imports
from dmlgraph.formats.onnx.tensors import Array, Tensor

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
_INDICES = ("ArgMax", "ArgMin")
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
        total = node.dml.reduce(x, function="sum", axes=places)
        count = math.prod(x.shape[axis] for axis in gone)
        return node.tensor(node.dml.divide(total, Tensor.of(np.full(1, count, x.dtype))), shape)
    if function != _SHIFTED or not x.is_float:
        return node.tensor(node.dml.reduce(x, function=function, axes=places), shape)
    most = float(np.finfo(node.dml.value(x).dtype.numpy).max)  # a difference from an infinite maximum would be NaN
    greatest = node.dml.clip1(node.dml.reduce(x, function="max", axes=places), min=-most, max=most)
    made = node.dml.reduce(node.dml.subtract(x, greatest), function=function, axes=places)
    return node.tensor(node.dml.add(made, greatest), shape)


def _of_each(node: Node, x: Tensor, function: str) -> Tensor:
    """What the reductions of single elements are: that of a row of one."""
    if function not in _NOT_IDENTITIES:
        return x
    made = node.dml.reduce(node.dml.reshaped(x, (x.count, 1)), function=function, axes=[1])
    return node.tensor(node.dml.reshaped(made, x.sizes), x.shape)


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
        made = getattr(node.dml, function)(data, axes=[axis], axis_direction=direction, dtype="int64")
        shape = [1 if each == axis else size for each, size in enumerate(data.shape)]
        if not keepdims:
            del shape[axis]
        return node.tensor(made, shape)

    return rule


for _name in _INDICES:
    imports(_name, how="argmax, argmin")(_arg(_name.lower()))


def _cumulative(function: str, exclusively: str) -> Callable[..., Tensor]:
    def rule(node: Node, x: Tensor, axis: Tensor, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
        fields = {"axis": at_axis(int(node.scalar(axis)), x.rank), exclusively: bool(exclusive)}
        return applied(node, function, x, axis_direction="decreasing" if reverse else "increasing", **fields)

    return rule


imports("CumSum", since=11, how="cumulative_summation")(_cumulative("cumulative_summation", "has_exclusive_sum"))
imports("CumProd", since=26, how="cumulative_product")(_cumulative("cumulative_product", "has_exclusive_product"))


@imports(how="known")
def Size(node: Node, data: Tensor) -> Tensor:
    return Tensor.of(np.int64(data.count))


@imports(how="known")
def Shape(node: Node, data: Tensor, *, start: int = 0, end: int | None = None) -> Array:
    return np.asarray(data.shape[start:end], np.int64)
