"""Element-wise arithmetic, roundings, trigonometric functions, casts and bits."""

from __future__ import annotations

import math

import numpy as np

from dmlgraph.base.tensor import DataType
from dmlgraph.formats.onnx.export.emitter import BOOL, FLOAT32, Emitter, Symbol
from dmlgraph.formats.onnx.export.table import applies, exports
from dmlgraph.operators import Operator
from dmlgraph.operators.common.element_wise import finite_bound
from dmlgraph.operators.common.numerics import convert
from dmlgraph.operators.directml_enums import RoundingMode

_UNARY = {
    **{name.lower(): name for name in ["Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh"]},
    **{name.lower(): name for name in ["Erf", "Exp", "Floor", "Log", "Sin", "Sinh", "Sqrt", "Tan", "Tanh"]},
}
_WHOLE = {"abs": "Abs", "sign": "Sign", "negate": "Neg"}
_BINARY = {"add": "Add", "subtract": "Sub", "multiply": "Mul", "max": "Max", "min": "Min"}


def _unary(node: Emitter, operator: Operator, x: Symbol) -> Symbol:
    if x.dtype == np.int8:  # the opposite of −128 is 127
        x = node.call("Clip", x, node.number(-127, x.dtype))
    return node.widely({**_UNARY, **_WHOLE}[operator.name], x)


def _binary(node: Emitter) -> Symbol:
    return node.widely(_BINARY[node.operator.name], node.raw("a"), node.raw("b"))


for _name, _how in {**_UNARY, **_WHOLE}.items():
    applies(_name, how=_how)(_unary)
for _name, _how in _BINARY.items():
    exports(_name, how=_how)(_binary)


@applies("identity", "activation_identity", how="Identity")
def _identity(_: Emitter, __: Operator, x: Symbol) -> Symbol:
    return x


@applies("recip", how="Reciprocal")
def _reciprocal(node: Emitter, _: Operator, x: Symbol) -> Symbol:
    return node.call("Reciprocal", x)


@exports("add1", how="Add and the activation")
def _add_and_activate(node: Emitter) -> Symbol:
    return node.activated(node.widely("Add", node.raw("a"), node.raw("b")))


@exports("mean", how="Mean; integers: Add, Div")
def _mean(node: Emitter) -> Symbol:
    a, b = node.raw("a"), node.raw("b")
    if a.is_float:
        return node.call("Mean", a, b)
    return node.call("Div", node.call("Add", a, b), node.number(2, a.dtype))


@exports("difference_square", how="Sub, Mul")
def _difference_square(node: Emitter) -> Symbol:
    difference = node.call("Sub", node.raw("a"), node.raw("b"))
    return node.call("Mul", difference, difference)


@applies("clip", "clip1", how="Clip")
def _clip(node: Emitter, operator: Operator, x: Symbol) -> Symbol:
    low, high = (_bound(operator, field, x) for field in ("min", "max"))
    return node.call("Clip", x, node.number(low, x.dtype), node.number(max(low, high), x.dtype))


def _bound(operator: Operator, field: str, x: Symbol) -> float | int:
    """A bound in the type of x."""
    value = getattr(operator, field)
    number = value.value if hasattr(value, "value") else finite_bound(value, DataType.parse(x.dtype))
    found: float | int = np.asarray(number).item()
    return found


@applies("threshold", how="Max")
def _threshold(node: Emitter, operator: Operator, x: Symbol) -> Symbol:
    bound = convert(np.float32(operator.attributes["min"]), DataType.parse(x.dtype))
    return node.widely("Max", x, node.number(bound, x.dtype))


@exports("pow", how="Pow")
def _pow(node: Emitter) -> Symbol:
    x, exponent = node.scaled("input"), node.scaled("exponent")
    wide = FLOAT32 if exponent.is_float and not x.is_float else node.wide_for("Pow", x.dtype)
    return node.converted(node.call("Pow", node.cast(x, wide), exponent), node.dtype)


@applies("constant_pow", how="Pow")
def _constant_pow(node: Emitter, operator: Operator, x: Symbol) -> Symbol:
    exponent: float = operator.exponent  # type: ignore[attr-defined]
    return node.call("Pow", x, node.number(exponent, x.dtype if x.is_float else FLOAT32))


@applies("round", how="Round; Sign, Floor, Abs, Mul")
def _round(node: Emitter, operator: Operator, x: Symbol) -> Symbol:
    mode: RoundingMode = operator.rounding_mode  # type: ignore[attr-defined]
    if mode is RoundingMode.HALVES_TO_NEAREST_EVEN:
        return node.call("Round", x)
    magnitude = node.call("Abs", x)
    if mode is RoundingMode.TOWARD_INFINITY:
        magnitude = node.call("Add", magnitude, node.number(0.5, x.dtype))
    return node.call("Mul", node.call("Sign", x), node.call("Floor", magnitude))


@exports("cast", how="Cast; where 8 bits saturate also Clip")
def _cast(node: Emitter) -> Symbol:
    return node.converted(node.raw("input"), node.dtype)


@exports("if", how="Where")
def _if(node: Emitter) -> Symbol:
    return node.call("Where", node.truth(node.raw("condition")), node.raw("a"), node.raw("b"), dtype=node.dtype)


@exports("atan_yx", how="Atan, Where")
def _atan_yx(node: Emitter) -> Symbol:
    y, x = node.raw("a"), node.raw("b")
    zero, right = node.number(0, x.dtype), node.number(math.pi / 2, x.dtype)
    angle = node.call("Atan", node.call("Div", y, x))
    below = node.call("Less", y, zero, dtype=BOOL)
    half_turn = node.call("Where", below, node.number(-math.pi, x.dtype), node.number(math.pi, x.dtype), dtype=x.dtype)
    turned = node.call("Where", node.call("Less", x, zero, dtype=BOOL), half_turn, zero, dtype=x.dtype)
    upright = node.call("Mul", node.call("Sign", y), right)
    beside = node.call("Add", angle, turned)
    return node.call("Where", node.call("Equal", x, zero, dtype=BOOL), upright, beside, dtype=x.dtype)
