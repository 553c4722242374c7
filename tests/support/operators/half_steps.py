"""DirectML's formulas of float16 tensors that the reference does not follow, because they lose digits (measured).

Most activations are computed in float16: every step, each power of base 2, and each attribute is rounded to it.
SOFTPLUS, PARAMETRIC_SOFTPLUS, GELU and TANH are computed in float32, of attributes in float16.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from support.operators.harness import Array

from dmlgraph.operators.common import shader

_LINE = 88.0  # softplus is linear from here on: e^89 is infinite in float32


def _exp(x: Array, factor: float = 1.0) -> Array:
    """e^(factor · x); the factor is applied last."""
    scaled = x * x.dtype.type(shader.LOG2_E)
    return shader.exp2(scaled if factor == 1 else scaled * x.dtype.type(factor))


def _tanh(x: Array, factor: float = 1.0) -> Array:
    """tanh(factor · x); near zero it has the rounding error of numbers near 1."""
    one = x.dtype.type(1)
    return np.asarray((one + one) / (_exp(x * x.dtype.type(-2), factor) + one) - one)


def _sigmoid(x: Array, factor: float = 1.0) -> Array:
    one = x.dtype.type(1)
    return np.asarray(one / (_exp(-x, factor) + one))


def _below_exp(x: Array) -> Array:
    return np.asarray(_exp(x) - np.float16(1))


def _line(x: Array, alpha: Any, beta: Any) -> Array:
    return np.asarray(alpha * x + beta)


def _unit(x: Array) -> Array:
    return np.asarray(np.where(x > 0, np.minimum(x, np.float16(1)), np.float16(0)))


def _celu(x: Array, alpha: Any) -> Array:
    zero, below = np.float16(0), _below_exp(x / alpha) * alpha
    return np.asarray(np.where(x > 0, x, zero) + np.where(below < 0, below, zero))


def _softplus(x: Array, steepness: Any) -> Array:
    wide, steepness = x.astype(np.float32), np.float32(steepness)
    steep = steepness * wide
    return np.where(steep > _LINE, wide, shader.log(_exp(steep) + np.float32(1)) / steepness)


def _parametric_softplus(x: Array, alpha: Any, beta: Any) -> Array:
    wide = x.astype(np.float32)
    steep = np.float32(beta) * wide
    bent = shader.log(_exp(wide, float(beta)) + np.float32(1), float(alpha))
    return np.where(steep > _LINE, steep * np.float32(alpha), bent)


def _gelu(x: Array) -> Array:
    wide = x.astype(np.float32)
    return np.asarray(wide * np.float32(0.5) * (shader.erf(wide * np.float32(math.sqrt(0.5))) + np.float32(1)))


def _shrink(x: Array, bias: Any, threshold: Any) -> Array:
    return np.where(x > threshold, x - bias, np.where(x < -threshold, x + bias, np.float16(0)))


# Of x and the attributes, rounded to float16; the result is rounded to it.
STEPS: Mapping[str, Callable[..., Array]] = {
    "log": lambda x: shader.log2(x) * np.float16(math.log(2)),
    "tanh": lambda x: _tanh(x.astype(np.float32)),
    "activation_linear": _line,
    "activation_leaky_relu": lambda x, alpha: np.where(x >= 0, x, alpha * x),
    "activation_thresholded_relu": lambda x, alpha: np.where(x > alpha, x, np.float16(0)),
    "activation_elu": lambda x, alpha: np.where(x >= 0, x, alpha * _below_exp(x)),
    "activation_celu": _celu,
    "activation_scaled_elu": lambda x, alpha, gamma: np.where(x >= 0, x, alpha * _below_exp(x)) * gamma,
    "activation_sigmoid": _sigmoid,
    "activation_hard_sigmoid": lambda x, alpha, beta: _unit(_line(x, alpha, beta)),
    "activation_tanh": _tanh,
    "activation_scaled_tanh": lambda x, alpha, beta: _tanh(x, float(beta)) * alpha,
    "activation_softplus": _softplus,
    "activation_parametric_softplus": _parametric_softplus,
    "activation_softsign": lambda x: x / (np.abs(x) + np.float16(1)),
    "activation_shrink": _shrink,
    "activation_gelu": _gelu,
    "activation_swish": lambda x, sigmoid_input_scale: _sigmoid(x, float(sigmoid_input_scale)) * x,
    "activation_hard_swish": lambda x, alpha, beta: _unit(_line(x, alpha, beta)) * x,
}


def half_steps(operator: type[Any], x: Array, attributes: Mapping[str, Any]) -> Array:
    """An operator of `STEPS` on a float16 tensor."""
    made = operator(input={"dtype": "float16", "sizes": x.shape}, **attributes)
    with np.errstate(all="ignore"):
        numbers = [np.float16(getattr(made, f)) for f in operator.attribute_fields if f != "scale_bias"]
        if getattr(made, "scale_bias", None) is not None:
            x = made.scale_bias.apply(x.astype(np.float32)).astype(operator.half_type)
        return np.asarray(STEPS[operator.function_name()](x, *numbers)).astype(np.float16)
