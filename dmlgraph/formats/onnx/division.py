"""Quotients and remainders.

ONNX leaves an integer divided by zero undefined, and the least integer divided by −1; on most processors either ends
the process.  So these are replaced before, and DirectML's results are chosen after the division, unless the divisor is
known to be none of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dmlgraph.formats.onnx.export.emitter import Emitter, Symbol
from dmlgraph.formats.onnx.node import Node
from dmlgraph.formats.onnx.table import exports, imports
from dmlgraph.formats.onnx.tensors import Tensor

_BY_MAGNITUDE = ("int8", "int32")  # types that DirectML divides without their sign


@imports(since=10, how="modulus_floor, modulus_truncate")
def Mod(node: Node, A: Tensor, B: Tensor, *, fmod: int = 0) -> Tensor:
    function = node.modulus_truncate if fmod else node.modulus_floor
    return node.tensor(function(A, B), node.broadcast)


@exports("modulus_truncate", how="Mod; as divide")
def _truncated(node: Emitter) -> Symbol:
    if _is_exact(node):
        return _divided(node, "Mod", fmod=1)
    return node.call("Mod", node.raw("a"), node.raw("b"), fmod=1)


@exports("modulus_floor", how="Mod; as divide; floats: Div, Floor, Mul, Sub")
def _floored(node: Emitter) -> Symbol:
    a, b = node.raw("a"), node.raw("b")
    if _is_exact(node):
        return _divided(node, "Mod", fmod=0)
    return a - b * node.call("Floor", a / b)


def _is_exact(node: Emitter) -> bool:
    return node.dtype.kind in "iu"


def _divided(node: Emitter, operator: str, **attributes: Any) -> Symbol:
    """Integers divided, or what remains."""
    a, b, known = node.raw("a"), node.raw("b"), node.known("b")
    if known is not None and not ((known == 0) | (known.astype(np.int64) == -1)).any():
        return node.call(operator, a, b, **attributes)
    zero, one = node.number(0, b.dtype), node.number(1, b.dtype)
    by_zero = node.call("Equal", b, zero)
    divisor = node.call("Where", by_zero, one, b)
    if b.dtype.kind == "i":
        opposite = node.call("Equal", b, node.number(-1, b.dtype))
        divisor = node.call("Where", opposite, one, divisor)
    made = node.call(operator, a, divisor, **attributes)
    if b.dtype.kind == "i":
        turned = node.call("Neg", a) if operator == "Div" else zero
        made = node.call("Where", opposite, turned, made)
    return node.call("Where", by_zero, _by_zero(node, a), made)


def _by_zero(node: Emitter, a: Symbol) -> Symbol:
    """What DirectML gives for a divided by zero: all bits set, with the sign of a where magnitudes are divided."""
    all_set = node.number(np.invert(np.zeros((), a.dtype)), a.dtype)
    if str(a.dtype) not in _BY_MAGNITUDE:
        return all_set
    if node.operator.name == "modulus_truncate":
        return a
    negative = a < 0
    return node.call("Where", negative, node.number(1, a.dtype), all_set)


@exports("divide", how="Div; integers whose divisor may be 0 or −1 also Equal, Where")
def _divide(node: Emitter) -> Symbol:
    return _divided(node, "Div") if _is_exact(node) else (node.raw("a") / node.raw("b"))
