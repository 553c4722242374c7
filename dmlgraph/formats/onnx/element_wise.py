"""Arithmetic, comparison, logic, bits and casts, element by element.

ONNX leaves an integer divided by zero undefined, and the least integer divided by −1; on most processors either ends
the process.  So these are replaced before, and DirectML's results are chosen after the division, unless the divisor is
known to be none of them.

Of Asinh, Acosh and Atanh DirectML's formulas lose digits near zero, below it, and where squares overflow.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from dmlgraph.base.tensor import DataType
from dmlgraph.formats.onnx.bits import wrapped
from dmlgraph.formats.onnx.export.emitter import BOOL, Emitter, Symbol
from dmlgraph.formats.onnx.node import Maybe, Node, Result, numbered_dtype
from dmlgraph.formats.onnx.one_to_one import applied, as_logic, as_unary, of_many, of_one
from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.formats.onnx.table import applies, exports, imports
from dmlgraph.formats.onnx.tensors import Tensor, stored
from dmlgraph.graph.value import Value
from dmlgraph.operators import Operator
from dmlgraph.operators.common.element_wise import finite_bound
from dmlgraph.operators.common.numerics import convert
from dmlgraph.operators.directml_enums import IsInfinityMode, RoundingMode

for _name, _function in {"Div": "divide", "Sum": "add"}.items():
    imports(_name, how=_function)(of_many(_function))
imports("Round", since=11, how="round")(of_one("round"))
imports("IsNaN", since=9, how="is_nan")(of_one("is_nan"))


@imports(how="abs; unsigned numbers: none")
def Abs(node: Node, X: Tensor) -> Tensor:
    return X if X.dtype.kind == "u" else applied(node, "abs", X)


applies("abs", how="Abs")(as_unary("Abs"))
applies("tanh", how="Tanh")(as_unary("Tanh"))
imports("Not", how="logical_not")(of_one("logical_not"))
exports("logical_not", how="Not, Cast")(as_logic("Not", "input"))


@imports(how="add, multiply")
def Mean(node: Node, *data: Tensor) -> Tensor:
    node.there(0, node.inputs[0])
    total = functools.reduce(node.add, map(node.value, data)) if len(data) > 1 else node.value(data[0])
    return node.tensor(node.multiply(total, 1 / len(data)), node.broadcast)


@exports("mean", how="Mean; integers: Add, Div")
def _mean(node: Emitter) -> Symbol:
    a, b = node.raw("a"), node.raw("b")
    if a.is_float:
        return node.call("Mean", a, b)
    return (a + b) / node.number(2, a.dtype)


_FINITE = float(np.finfo(np.float32).max)


@imports(until=10, how="clip")
def Clip_6(node: Node, input: Tensor, *, min: float = -_FINITE, max: float = _FINITE) -> Tensor:
    return applied(node, "clip", input, min=min, max=max)


@imports(since=11, how="clip1; with unknown bounds max, min")
def Clip(node: Node, input: Tensor, min: Maybe = None, max: Maybe = None) -> Tensor:
    if min is not None and max is not None and min.known is not None and max.known is not None:
        low, high = node.scalar(min), node.scalar(max)
        return applied(node, "clip1", input, min=high if high < low else low, max=high)  # ONNX: the greater bound wins
    made = node.value(input)
    made = made if min is None else node.max(made, min)
    made = made if max is None else node.min(made, max)
    return node.tensor(made, input.shape)


@imports(since=10, how="is_infinity")
def IsInf(node: Node, X: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Result:
    signs = bool(detect_negative), bool(detect_positive)
    if not any(signs):
        return np.broadcast_to(np.bool_(False), X.shape)
    mode = {(True, True): "either", (True, False): "negative", (False, True): "positive"}[signs]
    return applied(node, "is_infinity", X, infinity_mode=mode)


@imports(since=9, how="if_")
def Where(node: Node, condition: Tensor, X: Tensor, Y: Tensor) -> Result:
    return node.tensor(node.if_(condition, X, Y), node.broadcast)


@imports(how="none: the tensor itself")
def Identity(node: Node, input: Tensor) -> Result:
    return input


@imports(how="none: the tensor itself; the mask is a fill")
def Dropout(node: Node, data: Tensor, ratio: Any = None, training_mode: Maybe = None) -> Result:
    if training_mode is not None and node.scalar(training_mode) and node.scalar(ratio, 0.5) != 0:
        raise Refusal("dropout in training is random; the model is not exported for inference", field="training_mode")
    return [data, np.broadcast_to(np.bool_(True), data.shape)]


@imports(how="cast; bool: logical_equals, logical_not; 4 bits: quantize, dequantize")
def Cast(node: Node, input: Tensor, *, to: int) -> Result:
    return cast(node, input, numbered_dtype("to", to))


@imports(since=15, how="as Cast")
def CastLike(node: Node, input: Tensor, target_type: Tensor) -> Result:
    return cast(node, input, target_type.dtype)


def cast(node: Node, tensor: Tensor, dtype: np.dtype[Any]) -> Tensor:
    """A tensor with another ONNX type."""
    dtype = node.dtype_of(dtype)
    if dtype == tensor.dtype:
        return tensor
    x = node.value(tensor)
    if x.dtype.bits == 4:  # DirectML's cast takes no numbers of 4 bits
        x = node.dequantize(x, [_one(node, tensor)], quantization_type="scale")
    if dtype == BOOL:
        return Tensor(BOOL, tensor.shape, made=node.logical_not(node.logical_equals(x, 0, dtype="uint8")))
    wanted = stored(dtype)
    if wanted.bits == 4:
        whole = node.converted(wrapped(node, node.converted(x, "int32"), wanted), "float32")
        made = node.quantize(whole, [_one(node, tensor)], dtype=wanted, quantization_type="scale")
    else:
        made = node.converted(x, wanted)
    return Tensor(dtype, tensor.shape, made=made)


def _one(node: Node, like: Tensor) -> Value:
    return node.fill_value_constant(sizes=[1] * len(like.sizes), dtype="float32", value=1)


@applies("identity", "activation_identity", how="Identity")
def _identity(_: Emitter, __: Operator, x: Symbol) -> Symbol:
    return x


@exports("add1", how="Add and the activation")
def _add_and_activate(node: Emitter) -> Symbol:
    return node.activated(node.widely("Add", node.raw("a"), node.raw("b")))


@exports("difference_square", how="Sub, Mul")
def _difference_square(node: Emitter) -> Symbol:
    difference = node.raw("a") - node.raw("b")
    return difference * difference


@exports("value_scale_2d", how="Mul, Add")
def _value_scale(node: Emitter) -> Symbol:
    x = node["input"] * node.number(node.field("scale"), node.dtype)
    return x + node.number(np.reshape(node.field("bias"), (-1, 1, 1)), node.dtype)


@applies("clip", "clip1", how="Clip")
def _clip(node: Emitter, operator: Operator, x: Symbol) -> Symbol:
    low, high = (bound(operator, field, x) for field in ("min", "max"))
    return node.call("Clip", x, node.number(low, x.dtype), node.number(max(low, high), x.dtype))


def bound(operator: Operator, field: str, x: Symbol) -> float | int:
    """A bound in the type of x."""
    value = getattr(operator, field)
    number = value.value if hasattr(value, "value") else finite_bound(value, DataType.parse(x.dtype))
    found: float | int = np.asarray(number).item()
    return found


@applies("threshold", how="Max")
def _threshold(node: Emitter, operator: Operator, x: Symbol) -> Symbol:
    bound = convert(np.float32(operator.attributes["min"]), DataType.parse(x.dtype))
    return node.widely("Max", x, node.number(bound, x.dtype))


@applies("round", how="Round; Sign, Floor, Abs, Mul")
def _round(node: Emitter, operator: Operator, x: Symbol) -> Symbol:
    mode: RoundingMode = operator.rounding_mode  # type: ignore[attr-defined]
    if mode is RoundingMode.HALVES_TO_NEAREST_EVEN:
        return node.call("Round", x)
    magnitude = node.call("Abs", x)
    if mode is RoundingMode.TOWARD_INFINITY:
        magnitude = magnitude + node.number(0.5, x.dtype)
    return node.call("Sign", x) * node.call("Floor", magnitude)


@exports("cast", how="Cast; where 8 bits saturate also Clip")
def _cast(node: Emitter) -> Symbol:
    return node.converted(node.raw("input"), node.dtype)


@exports("if", how="Where")
def _if(node: Emitter) -> Symbol:
    return node.call("Where", node.truth(node.raw("condition")), node.raw("a"), node.raw("b"))


@exports("atan_yx", how="Atan, Where")
def _atan_yx(node: Emitter) -> Symbol:
    y, x = node.raw("a"), node.raw("b")
    zero, right = node.number(0, x.dtype), node.number(math.pi / 2, x.dtype)
    angle = node.call("Atan", y / x)
    below = y < zero
    half_turn = node.call("Where", below, node.number(-math.pi, x.dtype), node.number(math.pi, x.dtype))
    turned = node.call("Where", x < zero, half_turn, zero)
    upright = node.call("Sign", y) * right
    beside = angle + turned
    return node.call("Where", node.call("Equal", x, zero), upright, beside)


@exports("is_nan", how="IsNaN, Cast")
def _is_nan(node: Emitter) -> Symbol:
    return node.flags(node.call("IsNaN", node.raw("input")))


@exports("is_infinity", how="IsInf, Cast")
def _is_infinity(node: Emitter) -> Symbol:
    mode = node.field("infinity_mode")
    negative, positive = mode is not IsInfinityMode.POSITIVE, mode is not IsInfinityMode.NEGATIVE
    return node.flags(
        node.call("IsInf", node.raw("input"), detect_negative=int(negative), detect_positive=int(positive))
    )


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
