"""Reductions and running sums."""

from __future__ import annotations

import math

import numpy as np

from dmlgraph.formats.onnx.node import Node, Result, at_axis
from dmlgraph.formats.onnx.refusals import ByDefinition
from dmlgraph.formats.onnx.table import imports
from dmlgraph.formats.onnx.tensors import Tensor

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
_SHIFTED = "log_sum_exp"  # computed of differences from the maximum, so that no power overflows
_NOT_IDENTITIES = ("l1", "l2", "log_sum", "sum_square")  # where one element is reduced


def _reduce(node: Node) -> Result:
    x, keeps = node[0], bool(node.attribute("keepdims", 1))
    axes = node.ints("axes", 1)
    if not axes and node.attribute("noop_with_empty_axes", 0):
        return _of_each(node)
    reduced = {at_axis(axis, x.rank) for axis in axes or range(x.rank)}
    shape = [1 if axis in reduced else size for axis, size in enumerate(x.shape) if keeps or axis not in reduced]
    if 0 in x.shape:
        raise ByDefinition
    function, axes = _FUNCTIONS[node.operator], sorted(reduced) or [0]
    if function == "average" and not x.is_float:  # of integers the quotient's fraction is dropped
        total = node.dml.reduce(x, function="sum", axes=axes)
        count = math.prod(x.shape[axis] for axis in reduced)
        return node.tensor(node.dml.divide(total, Tensor.of(np.full(1, count, x.dtype))), shape)
    if function != _SHIFTED or not x.is_float:
        return node.tensor(node.dml.reduce(x, function=function, axes=axes), shape)
    most = float(np.finfo(node.dml.value(x).dtype.numpy).max)  # a difference from an infinite maximum would be NaN
    greatest = node.dml.clip1(node.dml.reduce(x, function="max", axes=axes), min=-most, max=most)
    made = node.dml.reduce(node.dml.subtract(x, greatest), function=function, axes=axes)
    return node.tensor(node.dml.add(made, greatest), shape)


def _of_each(node: Node) -> Result:
    """What the reductions of single elements are: that of a row of one."""
    x, function = node[0], _FUNCTIONS[node.operator]
    if function not in _NOT_IDENTITIES:
        return x
    made = node.dml.reduce(node.dml.reshaped(x, (x.count, 1)), function=function, axes=[1])
    return node.tensor(node.dml.reshaped(made, x.sizes), x.shape)


for _name, _function in _FUNCTIONS.items():
    imports(_name, how="reduce" if _function != _SHIFTED else "reduce, clip1, subtract, add")(_reduce)


@imports("ArgMax", "ArgMin", how="argmax, argmin")
def _arg(node: Node) -> Result:
    x, axis = node[0], node.axis(0)
    function = node.dml.argmax if node.operator == "ArgMax" else node.dml.argmin
    direction = "decreasing" if node.attribute("select_last_index", 0) else "increasing"
    made = function(x, axes=[axis], axis_direction=direction, dtype="int64")
    shape = [1 if each == axis else size for each, size in enumerate(x.shape)]
    if not node.attribute("keepdims", 1):
        del shape[axis]
    return node.tensor(made, shape)


@imports("CumSum", since=11, how="cumulative_summation")
@imports("CumProd", since=26, how="cumulative_product")
def _cumulative(node: Node) -> Result:
    fields = {
        "axis": at_axis(int(node.scalar(1)), node[0].rank),
        "axis_direction": "decreasing" if node.attribute("reverse", 0) else "increasing",
    }
    exclusive = bool(node.attribute("exclusive", 0))
    if node.operator == "CumSum":
        made = node.dml.cumulative_summation(node[0], has_exclusive_sum=exclusive, **fields)
    else:
        made = node.dml.cumulative_product(node[0], has_exclusive_product=exclusive, **fields)
    return node.tensor(made, node[0].shape)


@imports("Size", how="known")
def _size(node: Node) -> Result:
    return np.int64(node[0].count)  # type: ignore[return-value]


@imports("Shape", how="known")
def _shape(node: Node) -> Result:
    return np.asarray(node[0].shape[node.attribute("start", 0) : node.attribute("end")], np.int64)
