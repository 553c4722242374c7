"""Operators of ONNX that are dmlgraph's one to one: tables from which they are read and written."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dmlgraph.formats.onnx.export.emitter import Emitter, Symbol
from dmlgraph.formats.onnx.node import Node
from dmlgraph.formats.onnx.table import OLDEST, applies, exports, imports
from dmlgraph.formats.onnx.tensors import Tensor
from dmlgraph.operators import Operator

# ONNX's operator, dmlgraph's, and the first opset with it.
_UNARY = """
Acos acos 7, Asin asin 7, Atan atan 7, Ceil ceil 1, Cos cos 7, Cosh cosh 9, Erf erf 9, Exp exp 1, Floor floor 1,
Log log 1, Neg negate 1, Reciprocal recip 1, Sign sign 9, Sin sin 7, Sinh sinh 9, Sqrt sqrt 1, Tan tan 7,
BitwiseNot bit_not 18
"""
_BINARY = """
Add add 1, Sub subtract 1, Mul multiply 1, Max max 1, Min min 1,
BitwiseAnd bit_and 18, BitwiseOr bit_or 18, BitwiseXor bit_xor 18
"""
_COMPARISONS = """
Equal logical_equals 1, Greater logical_greater_than 1, Less logical_less_than 1,
GreaterOrEqual logical_greater_than_or_equal 12, LessOrEqual logical_less_than_or_equal 12
"""
_LOGIC = "And logical_and 1, Or logical_or 1, Xor logical_xor 1"

# Activations: ONNX's → dmlgraph's, and the attributes with their defaults, which are fields of the same names.
ACTIVATIONS: dict[str, tuple[str, dict[str, float]]] = {
    "Celu": ("activation_celu", {"alpha": 1.0}),
    "Elu": ("activation_elu", {"alpha": 1.0}),
    "HardSigmoid": ("activation_hard_sigmoid", {"alpha": 0.2, "beta": 0.5}),
    "LeakyRelu": ("activation_leaky_relu", {"alpha": 0.01}),
    "Selu": ("activation_scaled_elu", {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}),
    "Sigmoid": ("activation_sigmoid", {}),
    "Softsign": ("activation_softsign", {}),
    "Tanh": ("activation_tanh", {}),
    "ThresholdedRelu": ("activation_thresholded_relu", {"alpha": 1.0}),
}
_SINCE = {"Celu": 12}


def applied(node: Node, function: str, x: Tensor, **fields: Any) -> Tensor:
    """A function of one tensor, element by element."""
    return node.tensor(node.apply(function, x, **fields), x.shape)


# Rules for operators that are read by a function of dmlgraph.


def of_one(function: str, **defaults: Any) -> Callable[..., Tensor]:
    """Of one tensor; the attributes have defaults."""

    def rule(node: Node, x: Tensor, **attributes: Any) -> Tensor:
        return applied(node, function, x, **defaults | attributes)

    return rule


def of_many(function: str) -> Callable[..., Tensor]:
    """Of two or more tensors; the result of one is the tensor itself."""

    def rule(node: Node, *inputs: Tensor) -> Tensor:
        if len(inputs) == 1:
            return inputs[0]
        return node.tensor(functools.reduce(getattr(node, function), inputs), node.broadcast)

    return rule


# Rules for operators that are written as one of ONNX.


def as_unary(name: str, *attributes: str) -> Callable[[Emitter, Operator, Symbol], Symbol]:
    """The attributes are fields of the operator."""

    def rule(node: Emitter, operator: Operator, x: Symbol) -> Symbol:
        if x.dtype == np.int8 and name != "BitwiseNot":  # the opposite of −128 is 127
            x = node.call("Clip", x, node.number(-127, x.dtype))
        return node.widely(name, x, **{field: getattr(operator, field) for field in attributes})

    return rule


def as_binary(name: str) -> Callable[[Emitter], Symbol]:
    return lambda node: node.widely(name, node.raw("a"), node.raw("b"))


def as_comparison(name: str) -> Callable[[Emitter], Symbol]:
    return lambda node: node.flags(node.call(name, node.raw("a"), node.raw("b")))


def as_logic(name: str, *fields: str) -> Callable[[Emitter], Symbol]:
    return lambda node: node.flags(node.call(name, *(node.truth(node.raw(field)) for field in fields)))


def _pairs(text: str) -> Iterator[tuple[str, str, int]]:
    for row in text.split(","):
        theirs, ours, since = row.split()
        yield theirs, ours, int(since)


for _theirs, _ours, _since in _pairs(_UNARY):
    imports(_theirs, how=_ours, since=_since)(of_one(_ours))
    applies(_ours, how=_theirs)(as_unary(_theirs))
for _theirs, _ours, _since in _pairs(_BINARY):
    imports(_theirs, how=_ours, since=_since)(of_many(_ours))
    exports(_ours, how=_theirs)(as_binary(_theirs))
for _theirs, _ours, _since in _pairs(_COMPARISONS):
    imports(_theirs, how=_ours, since=_since)(of_many(_ours))
    exports(_ours, how=f"{_theirs}, Cast")(as_comparison(_theirs))
for _theirs, _ours, _since in _pairs(_LOGIC):
    imports(_theirs, how=_ours, since=_since)(of_many(_ours))
    exports(_ours, how=f"{_theirs}, Cast")(as_logic(_theirs, "a", "b"))
for _theirs, (_ours, _fields) in ACTIVATIONS.items():
    imports(_theirs, how=_ours, since=_SINCE.get(_theirs, OLDEST))(of_one(_ours, **_fields))
    applies(_ours, how=_theirs)(as_unary(_theirs, *_fields))
