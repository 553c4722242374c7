"""Arithmetic, comparison, logic, bits and casts, element by element."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from dmlgraph.base.tensor import DataType
from dmlgraph.formats.onnx.node import Node, Result
from dmlgraph.formats.onnx.refusals import Refusal, give_values
from dmlgraph.formats.onnx.table import OLDEST, imports
from dmlgraph.formats.onnx.tensors import BOOL, Calls, Tensor, stored, type_name
from dmlgraph.graph.value import Value

_UNARY = {
    **{name: name.lower() for name in ["Acos", "Asin", "Atan", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor", "Log"]},
    **{name: name.lower() for name in ["Round", "Sign", "Sin", "Sinh", "Sqrt", "Tan"]},
    "Tanh": "activation_tanh",
    "Neg": "negate",
    "Reciprocal": "recip",
    "Not": "logical_not",
    "BitwiseNot": "bit_not",
    "IsNaN": "is_nan",
}
_BINARY = {
    "Add": "add",
    "Sub": "subtract",
    "Mul": "multiply",
    "Div": "divide",
    "Equal": "logical_equals",
    "Greater": "logical_greater_than",
    "GreaterOrEqual": "logical_greater_than_or_equal",
    "Less": "logical_less_than",
    "LessOrEqual": "logical_less_than_or_equal",
    "And": "logical_and",
    "Or": "logical_or",
    "Xor": "logical_xor",
    "BitwiseAnd": "bit_and",
    "BitwiseOr": "bit_or",
    "BitwiseXor": "bit_xor",
}
_OF_MANY = {"Sum": "add", "Max": "max", "Min": "min"}
_SINCE = {
    **dict.fromkeys(("Acos", "Asin", "Atan", "Cos", "Sin", "Tan"), 7),
    **dict.fromkeys(("Acosh", "Asinh", "Atanh", "Cosh", "Sinh", "Erf", "IsNaN", "Sign"), 9),
    "Round": 11,
    **dict.fromkeys(("GreaterOrEqual", "LessOrEqual"), 12),
    **dict.fromkeys(("BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor"), 18),
}


def _unary(node: Node) -> Result:
    return node.tensor(getattr(node.dml, _UNARY[node.operator])(node[0]), node[0].shape)


def _of_many(node: Node) -> Result:
    """Also of two; the result of one is the tensor itself."""
    function = getattr(node.dml, (_BINARY | _OF_MANY)[node.operator])
    if len(node.given) == 1:
        return node[0]
    return node.tensor(functools.reduce(function, node.given), node.broadcast)


for _name, _function in _UNARY.items():
    imports(_name, how=_function, since=_SINCE.get(_name, OLDEST))(_unary)
for _name, _function in (_BINARY | _OF_MANY).items():
    imports(_name, how=_function, since=_SINCE.get(_name, OLDEST))(_of_many)


@imports("Abs", how="abs; unsigned numbers: none")
def _abs(node: Node) -> Result:
    return node[0] if node[0].dtype.kind == "u" else _unary_of(node, "abs")


def _unary_of(node: Node, function: str, **fields: Any) -> Tensor:
    return node.tensor(getattr(node.dml, function)(node[0], **fields), node[0].shape)


@imports("Mean", how="add, multiply")
def _mean(node: Node) -> Result:
    total = functools.reduce(node.dml.add, node.given) if len(node.given) > 1 else node.dml.value(node[0])
    return node.tensor(node.dml.multiply(total, 1 / len(node.given)), node.broadcast)


@imports("Mod", since=10, how="modulus_floor, modulus_truncate")
def _mod(node: Node) -> Result:
    function = node.dml.modulus_truncate if node.attribute("fmod", 0) else node.dml.modulus_floor
    return node.tensor(function(node[0], node[1]), node.broadcast)


@imports("Clip", until=10, how="clip")
def _clip_by_attributes(node: Node) -> Result:
    least, greatest = float(np.finfo(np.float32).min), float(np.finfo(np.float32).max)
    return _unary_of(node, "clip", min=node.attribute("min", least), max=node.attribute("max", greatest))


@imports("Clip", since=11, how="clip1; with unknown bounds max, min")
def _clip(node: Node) -> Result:
    low, high = node.get(1), node.get(2)
    if low is not None and high is not None and low.known is not None and high.known is not None:
        bounds = node.scalar(1), node.scalar(2)
        return _unary_of(node, "clip1", min=min(bounds), max=bounds[1])  # ONNX: the greater bound wins
    made = node.dml.value(node[0])
    made = made if low is None else node.dml.max(made, low)
    made = made if high is None else node.dml.min(made, high)
    return node.tensor(made, node[0].shape)


@imports("IsInf", since=10, how="is_infinity")
def _is_infinity(node: Node) -> Result:
    signs = bool(node.attribute("detect_negative", 1)), bool(node.attribute("detect_positive", 1))
    if not any(signs):
        return np.broadcast_to(np.bool_(False), node[0].shape)
    mode = {(True, True): "either", (True, False): "negative", (False, True): "positive"}[signs]
    return _unary_of(node, "is_infinity", infinity_mode=mode)


@imports("Where", since=9, how="if_")
def _where(node: Node) -> Result:
    return node.tensor(node.dml.if_(node[0], node[1], node[2]), node.broadcast)


@imports("Identity", how="none: the tensor itself")
def _identity(node: Node) -> Result:
    return node[0]


@imports("Dropout", how="none: the tensor itself; the mask is a fill")
def _dropout(node: Node) -> Result:
    training = node.opset >= 12 and node.get(2) is not None and bool(node.scalar(2))
    if training and (0.5 if node.get(1) is None else node.scalar(1)) != 0:
        raise Refusal("dropout in training is random; the model is not exported for inference", field="training_mode")
    return [node[0], np.broadcast_to(np.bool_(True), node[0].shape)]


@imports("Cast", how="cast; bool: logical_equals, logical_not; 4 bits: quantize, dequantize")
def _cast(node: Node) -> Result:
    return cast(node, node[0], node.dtype("to"))


@imports("BitCast", since=26, how="integers: cast, bit_and; others: known inputs only")
def _bit_cast(node: Node) -> Result:
    x, dtype = node[0], node.dtype("to")
    given, wanted = stored(x.dtype), stored(dtype)
    if given.bits != wanted.bits or given.bits < 8:
        raise node.refuse("to", f"a type of {given.bits} bits", got=type_name(dtype))
    if x.is_float or wanted.is_float or (dtype == BOOL) > (x.dtype == BOOL):
        message = "DirectML does not read the bits of floats as integers, nor those of integers as floats or bools"
        hint = give_values(x.depends)
        raise Refusal(message, field="to", got=type_name(dtype), allowed="another integer type", hint=hint)
    value = node.dml.value(x)
    if wanted.bits < 32:  # a cast to 8 bits clamps
        value = wrapped(node.dml, node.dml.converted(value, "int32"), wanted)
    return Tensor(dtype, x.shape, made=node.dml.converted(value, wanted))


@imports("CastLike", since=15, how="as Cast")
def _cast_like(node: Node) -> Result:
    return cast(node, node[0], node[1].dtype)


def cast(node: Node, tensor: Tensor, dtype: np.dtype[Any]) -> Tensor:
    """A tensor with another ONNX type."""
    dtype = node.converted(dtype)
    if dtype == tensor.dtype:
        return tensor
    dml, x = node.dml, node.dml.value(tensor)
    if x.dtype.bits == 4:  # DirectML's cast takes no numbers of 4 bits
        x = dml.dequantize(x, [_one(node, tensor)], quantization_type="scale")
    if dtype == BOOL:
        return Tensor(BOOL, tensor.shape, made=dml.logical_not(dml.logical_equals(x, 0, dtype="uint8")))
    wanted = stored(dtype)
    if wanted.bits == 4:
        whole = dml.converted(wrapped(dml, dml.converted(x, "int32"), wanted), "float32")
        made = dml.quantize(whole, [_one(node, tensor)], dtype=wanted, quantization_type="scale")
    else:
        made = dml.converted(x, wanted)
    return Tensor(dtype, tensor.shape, made=made)


def _one(node: Node, like: Tensor) -> Value:
    made: Value = node.dml.fill_value_constant(sizes=[1] * len(like.sizes), dtype="float32", value=1)
    return made


@imports("BitShift", since=11, how="bit_shift_left, bit_shift_right; signed: cast, bit_not, if_")
def _shift(node: Node) -> Result:
    direction = str(node.required("direction"))
    if direction not in ("LEFT", "RIGHT"):
        raise node.refuse("direction", "LEFT, RIGHT")
    dml, (x, y) = node.dml, node.dml.value([node[0], node[1]])
    bits, signed = x.dtype.bits, x.dtype.is_signed
    wide = max(bits, 32) if signed else bits  # casts to 8 bits do not wrap
    if signed:
        x, y = dml.converted(x, f"int{wide}"), dml.converted(y, f"int{wide}")
    negative = dml.logical_less_than(x, 0, dtype="uint8") if signed and direction == "RIGHT" else None
    if negative is not None:  # ones are shifted in: the opposite bits, and zeros
        x = dml.if_(negative, dml.bit_not(x), x)
    by = dml.converted(y, f"uint{wide}")
    function = dml.bit_shift_left if direction == "LEFT" else dml.bit_shift_right
    made = function(dml.converted(x, f"uint{wide}"), by)
    known = node[1].known
    if known is None or not ((known >= 0) & (known < bits)).all():  # DirectML takes the remainder
        fits = dml.logical_less_than(by, bits, dtype="uint8")
        made = dml.if_(fits, made, Tensor.of(np.zeros(1, f"uint{wide}")))
    if signed:
        made = dml.converted(made, f"int{wide}")
        if negative is not None:
            made = dml.if_(negative, dml.bit_not(made), made)
        elif wide > bits:
            made = wrapped(dml, made, stored(node[0].dtype))
    return node.tensor(dml.converted(made, stored(node[0].dtype)), node.broadcast)


def wrapped(dml: Calls, x: Value, dtype: DataType) -> Value:
    """Whole numbers modulo 2^N, in the range of a type of N bits."""
    lowest, _ = dtype.range
    made: Value = dml.add(dml.bit_and(dml.subtract(x, lowest), 2**dtype.bits - 1), lowest)
    return made
