"""Asinh, Acosh and Atanh, of which DirectML's formulas lose digits near zero, below it, and where squares overflow."""

from __future__ import annotations

import math

from dmlgraph.base.tensor import DataType
from dmlgraph.formats.onnx.node import Node
from dmlgraph.formats.onnx.one_to_one import as_unary
from dmlgraph.formats.onnx.table import applies, imports
from dmlgraph.formats.onnx.tensors import Calls, Tensor
from dmlgraph.graph.value import Value

_LARGE = 2.0**12  # from here on √(x² ± 1) is x in float32


@imports(how="log, sqrt, abs, sign, if_, arithmetic; float16: cast")
def Asinh(node: Node, input: Tensor) -> Tensor:
    """The sign of x times ln(1 + a + a² / (1 + √(a² + 1))), where a is |x|."""
    dml, x = node.dml, _single(node, input)
    a = dml.abs(x)
    square = dml.multiply(a, a)
    root = dml.sqrt(square, scale_bias={"scale": 1.0, "bias": 1.0})
    made = _log1p(dml, dml.add(a, dml.divide(square, dml.add(root, 1))))
    return _result(node, input, dml.multiply(dml.sign(x), _unless_large(dml, a, made)))


@imports(how="log, sqrt, if_, arithmetic; float16: cast")
def Acosh(node: Node, input: Tensor) -> Tensor:
    """ln(1 + d + √d · √(d + 2)), where d is x − 1."""
    dml, x = node.dml, _single(node, input)
    above = dml.subtract(x, 1)
    root = dml.multiply(dml.sqrt(above), dml.sqrt(above, scale_bias={"scale": 1.0, "bias": 2.0}))
    return _result(node, input, _unless_large(dml, x, _log1p(dml, dml.add(above, root))))


@imports(how="atanh; near zero log, arithmetic; float16: cast")
def Atanh(node: Node, input: Tensor) -> Tensor:
    """½ ln(1 + 2 x / (1 − x)) up to ½, where DirectML's ½ ln((1 + x) / (1 − x)) loses digits."""
    dml, x = node.dml, _single(node, input)
    one_less = dml.identity(x, scale_bias={"scale": -1.0, "bias": 1.0})
    near = dml.multiply(_log1p(dml, dml.divide(dml.add(x, x), one_less)), 0.5)
    is_near = dml.logical_less_than(dml.abs(x), 0.5, dtype="uint8")
    return _result(node, input, dml.if_(is_near, near, dml.atanh(x)))


def _single(node: Node, x: Tensor) -> Value:
    return node.dml.converted(node.dml.value(x), DataType.FLOAT32)


def _result(node: Node, x: Tensor, made: Value) -> Tensor:
    return node.tensor(node.dml.converted(made, node.dml.value(x).dtype), x.shape)


def _log1p(dml: Calls, t: Value) -> Value:
    """ln(1 + t): the sum's logarithm, and its rounding error."""
    total = dml.add(t, 1)
    lost = dml.subtract(t, dml.subtract(total, 1))
    made: Value = dml.add(dml.log(total), dml.divide(lost, total))
    return made


def _unless_large(dml: Calls, x: Value, made: Value) -> Value:
    """A result; where x is large, ln(2 x)."""
    is_large = dml.logical_greater_than_or_equal(x, _LARGE, dtype="uint8")
    chosen: Value = dml.if_(is_large, dml.add(dml.log(x), math.log(2)), made)
    return chosen


for _name in ("Asinh", "Acosh", "Atanh"):
    applies(_name.lower(), how=_name)(as_unary(_name))
