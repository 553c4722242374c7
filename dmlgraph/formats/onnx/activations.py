"""Activations and softmaxes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dmlgraph.formats.onnx.bits import wrapped
from dmlgraph.formats.onnx.export.emitter import BOOL, FLOAT32, INT32, UINT32, Emitter, Symbol
from dmlgraph.formats.onnx.node import Node, Result, at_axis
from dmlgraph.formats.onnx.one_to_one import applied, as_unary, of_one
from dmlgraph.formats.onnx.reduction import merged
from dmlgraph.formats.onnx.refusals import ByDefinition
from dmlgraph.formats.onnx.table import applies, exports, imports
from dmlgraph.formats.onnx.tensors import Tensor, stored
from dmlgraph.operators import Operator

_ALONG = {"Softmax": "activation_softmax", "LogSoftmax": "activation_log_softmax", "Hardmax": "activation_hardmax"}

imports("Softplus", how="activation_softplus")(of_one("activation_softplus"))


@imports(how="activation_relu")
def Relu(node: Node, X: Tensor) -> Tensor:
    if X.dtype.itemsize == 8 and not X.is_float:
        return node.tensor(node.max(X, Tensor.of(np.zeros(1, X.dtype))), X.shape)
    return applied(node, "activation_relu", X)


@imports(since=24, how="activation_swish")
def Swish(node: Node, X: Tensor, *, alpha: float = 1.0) -> Tensor:
    return applied(node, "activation_swish", X, sigmoid_input_scale=alpha)


@imports(since=9, how="activation_shrink; of integers in float32; a negative lambd: also negate")
def Shrink(node: Node, input: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Result:
    value = node.value(input)
    if not input.is_float:  # DirectML rounds the result and bounds it; ONNX Runtime cuts its fraction and wraps
        value = node.converted(value, "float32")
    # A number may be on both sides of a negative threshold: DirectML looks at the upper side first, ONNX at the lower.
    turned = lambd < 0
    made = node.activation_shrink(node.negate(value) if turned else value, bias=bias, threshold=lambd)
    result = node.negate(made) if turned else made
    if not input.is_float and input.dtype.itemsize < 4:
        result = wrapped(node, node.converted(result, "int32"), stored(input.dtype))
    return node.tensor(result, input.shape)


@imports(since=14, how="activation_hard_swish")
def HardSwish(node: Node, X: Tensor) -> Result:
    return applied(node, "activation_hard_swish", X, alpha=1 / 6, beta=0.5)


@imports(since=20, how="activation_gelu; the approximation: ONNX's definition")
def Gelu(node: Node, X: Tensor, *, approximate: str = "none") -> Result:
    if approximate != "none":
        raise ByDefinition
    return applied(node, "activation_gelu", X)


@imports(how="activation_parameterized_relu; integers: multiply, if_")
def PRelu(node: Node, X: Tensor, slope: Tensor) -> Result:
    if not X.is_float:
        x, zero = node.value(X), Tensor.of(np.zeros(1, X.dtype))
        below = node.logical_less_than(x, zero, dtype="uint8")
        return node.tensor(node.if_(below, node.multiply(x, slope), x), X.shape)
    return applied(node, "activation_parameterized_relu", X, slope=node.expanded(slope, X.sizes))


BY_AXIS = 13  # the first opset in which they work along one axis


def along_axis(node: Node, function: str, x: Tensor, axis: int) -> Tensor:
    return _along(node, function, x, [at_axis(axis, x.rank)] if x.rank else [0])


def along_the_rest(node: Node, function: str, x: Tensor, axis: int) -> Tensor:
    """The input is taken as a matrix: the dimensions from the axis on count as one."""
    return _along(node, function, x, list(range(at_axis(axis, x.rank), x.rank)))


def _softmax(along: Callable[..., Tensor], function: str, default: int) -> Callable[..., Tensor]:
    def rule(node: Node, input: Tensor, *, axis: int = default) -> Tensor:
        return along(node, function, input, axis)

    return rule


for _name, _function in _ALONG.items():
    imports(_name, how=f"{_function}1", until=BY_AXIS - 1)(_softmax(along_the_rest, _function, 1))
    imports(_name, how=f"{_function}1", since=BY_AXIS)(_softmax(along_axis, _function, -1))


def _along(node: Node, function: str, x: Tensor, axes: list[int]) -> Tensor:
    if node.has(f"{function}1"):
        return applied(node, f"{function}1", x, axes=axes)
    # The earlier version works along the last axis of a matrix.
    order = [*(axis for axis in range(len(x.sizes)) if axis not in axes), *axes]
    moved = node.transposed(x, order)
    columns = math.prod(x.sizes[axis] for axis in axes)
    made = node.apply(function, node.reshaped(moved, (1, 1, x.count // columns, columns)))
    made = node.reshaped(made, moved.sizes)
    return node.tensor(node.transposed(made, [order.index(axis) for axis in range(len(order))]), x.shape)


# What is written.

applies("activation_gelu", how="Gelu")(as_unary("Gelu"))


@applies("activation_relu", how="Relu; unsigned: Identity")
def _relu(node: Emitter, _: Operator, x: Symbol) -> Symbol:
    return x if x.dtype.kind == "u" else node.widely("Relu", x)


def _number(operator: Any, field: str) -> float:
    value: float = getattr(operator, field)
    return value


@applies("activation_linear", how="Mul, Add")
def _linear(node: Emitter, operator: Operator, x: Symbol) -> Symbol:
    return x * _number(operator, "alpha") + _number(operator, "beta")


@applies("activation_scaled_tanh", how="Tanh, Mul")
def _scaled_tanh(node: Emitter, operator: Operator, x: Symbol) -> Symbol:
    bent = node.call("Tanh", x * _number(operator, "beta"))
    return bent * _number(operator, "alpha")


@applies("activation_softplus", how="Softplus, Mul, Div")
def _softplus(node: Emitter, operator: Operator, x: Symbol) -> Symbol:
    steepness = _number(operator, "steepness")
    bent = node.call("Softplus", x * steepness)
    return bent if steepness == 1 else (bent / node.number(steepness, x.dtype))


@applies("activation_parametric_softplus", how="Softplus, Mul")
def _parametric_softplus(node: Emitter, operator: Operator, x: Symbol) -> Symbol:
    bent = node.call("Softplus", x * _number(operator, "beta"))
    return bent * _number(operator, "alpha")


@applies("activation_shrink", how="Shrink; a negative threshold: Greater, Less, Where")
def _shrink(node: Emitter, operator: Operator, x: Symbol) -> Symbol:
    wide = x if x.is_float else node.cast(x, FLOAT32)
    bias, threshold = _number(operator, "bias"), _number(operator, "threshold")
    if threshold >= 0:
        made = node.call("Shrink", wide, bias=bias, lambd=threshold)
    else:  # where both conditions hold, ONNX takes the other
        above = wide > threshold
        below = wide < -threshold
        made = node.call("Where", above, wide + -bias, passing(node, below, wide + bias))
    if x.is_float:
        return made
    made = node.call("Round", made)
    if x.bits == 16:  # the low bits of a 32-bit integer
        made = node.call("Max", made, node.number(0, FLOAT32)) if x.dtype.kind == "u" else made
        return node.cast(node.cast(made, UINT32 if x.dtype.kind == "u" else INT32), x.dtype)
    return node.converted(made, x.dtype)


@applies("activation_swish", how="Sigmoid, Mul")
def _swish(node: Emitter, operator: Operator, x: Symbol) -> Symbol:
    return x * node.call("Sigmoid", x * _number(operator, "sigmoid_input_scale"))


@applies("activation_hard_swish", how="HardSigmoid, Mul")
def _hard_swish(node: Emitter, operator: Operator, x: Symbol) -> Symbol:
    alpha, beta = _number(operator, "alpha"), _number(operator, "beta")
    return x * node.call("HardSigmoid", x, alpha=alpha, beta=beta)


@exports("activation_parameterized_relu", how="PRelu")
def _parameterized_relu(node: Emitter) -> Symbol:
    return node.widely("PRelu", node.raw("input"), node.raw("slope"))


_SOFTMAXES = {function: name for name, function in _ALONG.items()}


def _along_axes(node: Emitter, operator: Operator, x: Symbol) -> Symbol:
    """Over several axes together: as one axis, the last."""
    name = _SOFTMAXES[operator.name.removesuffix("1")]
    sizes = operator.output.sizes  # type: ignore[attr-defined]
    axes: tuple[int, ...] = getattr(operator, "axes", (len(sizes) - 1,))
    if len(axes) == 1:
        return node.call(name, x, axis=axes[0])
    flat, order, moved = merged(node, x, sizes, axes)
    made = node.reshape(node.call(name, flat, axis=-1), moved)
    return node.transpose(made, [order.index(axis) for axis in range(len(order))])


for _name, _function in _ALONG.items():
    applies(_function, f"{_function}1", how=_name)(_along_axes)


def passing(node: Emitter, flags: Symbol, x: Symbol) -> Symbol:
    """x where the bools are true, else 0."""
    assert flags.dtype == BOOL
    return node.call("Where", flags, x, node.number(0, x.dtype))
