"""Activations, by themselves and fused into other operators; softmax and its variants."""

from __future__ import annotations

from typing import Any

from dmlgraph.formats.onnx.export.emitter import BOOL, FLOAT32, INT32, UINT32, Emitter, Symbol
from dmlgraph.formats.onnx.export.reduction import merged
from dmlgraph.formats.onnx.export.table import applies, exports
from dmlgraph.operators import Operator

# Operators of ONNX, with the attributes that are fields of ours: ONNX's name → ours.
_SAME: dict[str, tuple[str, dict[str, str]]] = {
    "activation_leaky_relu": ("LeakyRelu", {"alpha": "alpha"}),
    "activation_elu": ("Elu", {"alpha": "alpha"}),
    "activation_scaled_elu": ("Selu", {"alpha": "alpha", "gamma": "gamma"}),
    "activation_sigmoid": ("Sigmoid", {}),
    "activation_hard_sigmoid": ("HardSigmoid", {"alpha": "alpha", "beta": "beta"}),
    "activation_tanh": ("Tanh", {}),
    "activation_softsign": ("Softsign", {}),
    "activation_thresholded_relu": ("ThresholdedRelu", {"alpha": "alpha"}),
    "activation_gelu": ("Gelu", {}),
}


def _same(node: Emitter, operator: Operator, x: Symbol) -> Symbol:
    name, fields = _SAME[operator.name]
    return node.call(name, x, **{theirs: getattr(operator, ours) for theirs, ours in fields.items()})


for _name, (_how, _) in _SAME.items():
    applies(_name, how=_how)(_same)


@applies("activation_relu", how="Relu; unsigned: Identity")
def _relu(node: Emitter, _: Operator, x: Symbol) -> Symbol:
    return x if x.dtype.kind == "u" else node.widely("Relu", x)


def _number(operator: Any, field: str) -> float:
    value: float = getattr(operator, field)
    return value


@applies("activation_linear", how="Mul, Add")
def _linear(node: Emitter, operator: Operator, x: Symbol) -> Symbol:
    return node.line(x, _number(operator, "alpha"), _number(operator, "beta"))


@applies("activation_celu", how="Celu")
def _celu(node: Emitter, operator: Operator, x: Symbol) -> Symbol:
    return node.widely("Celu", x, alpha=_number(operator, "alpha"))


@applies("activation_scaled_tanh", how="Tanh, Mul")
def _scaled_tanh(node: Emitter, operator: Operator, x: Symbol) -> Symbol:
    bent = node.call("Tanh", node.line(x, _number(operator, "beta"), 0))
    return node.line(bent, _number(operator, "alpha"), 0)


@applies("activation_softplus", how="Softplus, Mul, Div")
def _softplus(node: Emitter, operator: Operator, x: Symbol) -> Symbol:
    steepness = _number(operator, "steepness")
    bent = node.call("Softplus", node.line(x, steepness, 0))
    return bent if steepness == 1 else node.call("Div", bent, node.number(steepness, x.dtype))


@applies("activation_parametric_softplus", how="Softplus, Mul")
def _parametric_softplus(node: Emitter, operator: Operator, x: Symbol) -> Symbol:
    bent = node.call("Softplus", node.line(x, _number(operator, "beta"), 0))
    return node.line(bent, _number(operator, "alpha"), 0)


@applies("activation_shrink", how="Shrink; a negative threshold: Greater, Less, Where")
def _shrink(node: Emitter, operator: Operator, x: Symbol) -> Symbol:
    wide = x if x.is_float else node.cast(x, FLOAT32)
    bias, threshold = _number(operator, "bias"), _number(operator, "threshold")
    if threshold >= 0:
        made = node.call("Shrink", wide, bias=bias, lambd=threshold)
    else:  # where both conditions hold, ONNX takes the other
        above = node.call("Greater", wide, node.number(threshold, wide.dtype), dtype=BOOL)
        below = node.call("Less", wide, node.number(-threshold, wide.dtype), dtype=BOOL)
        made = node.call(
            "Where", above, node.line(wide, 1, -bias), passing(node, below, node.line(wide, 1, bias)), dtype=wide.dtype
        )
    if x.is_float:
        return made
    made = node.call("Round", made)
    if x.bits == 16:  # the low bits of a 32-bit integer
        made = node.call("Max", made, node.number(0, FLOAT32)) if x.dtype.kind == "u" else made
        return node.cast(node.cast(made, UINT32 if x.dtype.kind == "u" else INT32), x.dtype)
    return node.converted(made, x.dtype)


@applies("activation_swish", how="Sigmoid, Mul")
def _swish(node: Emitter, operator: Operator, x: Symbol) -> Symbol:
    return node.call("Mul", x, node.call("Sigmoid", node.line(x, _number(operator, "sigmoid_input_scale"), 0)))


@applies("activation_hard_swish", how="HardSigmoid, Mul")
def _hard_swish(node: Emitter, operator: Operator, x: Symbol) -> Symbol:
    alpha, beta = _number(operator, "alpha"), _number(operator, "beta")
    return node.call("Mul", x, node.call("HardSigmoid", x, alpha=alpha, beta=beta))


@exports("activation_parameterized_relu", how="PRelu")
def _parameterized_relu(node: Emitter) -> Symbol:
    return node.widely("PRelu", node.raw("input"), node.raw("slope"))


_ALONG = {"softmax": "Softmax", "log_softmax": "LogSoftmax", "hardmax": "Hardmax"}


def _along_axes(node: Emitter, operator: Operator, x: Symbol) -> Symbol:
    """Over several axes together: as one axis, the last."""
    name = _ALONG[operator.name.removeprefix("activation_").removesuffix("1")]
    sizes = operator.output.sizes  # type: ignore[attr-defined]
    axes: tuple[int, ...] = getattr(operator, "axes", (len(sizes) - 1,))
    if len(axes) == 1:
        return node.call(name, x, axis=axes[0])
    flat, order, moved = merged(node, x, sizes, axes)
    made = node.reshape(node.call(name, flat, axis=-1), moved)
    return node.transpose(made, [order.index(axis) for axis in range(len(order))])


for _name, _how in _ALONG.items():
    applies(f"activation_{_name}", f"activation_{_name}1", how=_how)(_along_axes)


def passing(node: Emitter, flags: Symbol, x: Symbol) -> Symbol:
    """x where the bools are true, else 0."""
    assert flags.dtype == BOOL
    return node.call("Where", flags, x, node.number(0, x.dtype), dtype=x.dtype)
