"""Asinh, Acosh and Atanh, of which DirectML's formulas lose digits near zero, below it, and where squares overflow."""

from __future__ import annotations

import math

from dmlgraph.base.tensor import DataType
from dmlgraph.formats.onnx.node import Node
from dmlgraph.formats.onnx.one_to_one import as_unary
from dmlgraph.formats.onnx.table import applies, imports
from dmlgraph.formats.onnx.tensors import Tensor
from dmlgraph.graph.value import Value

_LARGE = 2.0**12  # from here on √(x² ± 1) is x in float32


@imports(how="log, sqrt, abs, sign, if_, arithmetic; float16: cast")
def Asinh(node: Node, input: Tensor) -> Tensor:
    """The sign of x times ln(1 + a + a² / (1 + √(a² + 1))), where a is |x|."""
    x = _single(node, input)
    a = node.abs(x)
    square = node.multiply(a, a)
    root = node.sqrt(square, scale_bias={"scale": 1.0, "bias": 1.0})
    made = _log1p(node, node.add(a, node.divide(square, node.add(root, 1))))
    return _result(node, input, node.multiply(node.sign(x), _unless_large(node, a, made)))


@imports(how="log, sqrt, if_, arithmetic; float16: cast")
def Acosh(node: Node, input: Tensor) -> Tensor:
    """ln(1 + d + √d · √(d + 2)), where d is x − 1."""
    x = _single(node, input)
    above = node.subtract(x, 1)
    root = node.multiply(node.sqrt(above), node.sqrt(above, scale_bias={"scale": 1.0, "bias": 2.0}))
    return _result(node, input, _unless_large(node, x, _log1p(node, node.add(above, root))))


@imports(how="atanh; near zero log, arithmetic; float16: cast")
def Atanh(node: Node, input: Tensor) -> Tensor:
    """½ ln(1 + 2 x / (1 − x)) up to ½, where DirectML's ½ ln((1 + x) / (1 − x)) loses digits."""
    x = _single(node, input)
    one_less = node.identity(x, scale_bias={"scale": -1.0, "bias": 1.0})
    near = node.multiply(_log1p(node, node.divide(node.add(x, x), one_less)), 0.5)
    is_near = node.logical_less_than(node.abs(x), 0.5, dtype="uint8")
    return _result(node, input, node.if_(is_near, near, node.atanh(x)))


def _single(node: Node, x: Tensor) -> Value:
    return node.converted(node.value(x), DataType.FLOAT32)


def _result(node: Node, x: Tensor, made: Value) -> Tensor:
    return node.tensor(node.converted(made, node.value(x).dtype), x.shape)


def _log1p(node: Node, t: Value) -> Value:
    """ln(1 + t): the sum's logarithm, and its rounding error."""
    total = node.add(t, 1)
    lost = node.subtract(t, node.subtract(total, 1))
    return node.add(node.log(total), node.divide(lost, total))


def _unless_large(node: Node, x: Value, made: Value) -> Value:
    """A result; where x is large, ln(2 x)."""
    is_large = node.logical_greater_than_or_equal(x, _LARGE, dtype="uint8")
    return node.if_(is_large, node.add(node.log(x), math.log(2)), made)


for _name in ("Asinh", "Acosh", "Atanh"):
    applies(_name.lower(), how=_name)(as_unary(_name))
