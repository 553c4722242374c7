"""Functions element by element, reductions, products of matrices, and views."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from support.derivatives.case import Case, away

import dmlgraph as dg


def unary(name: str, low: float = -2.0, high: float = 2.0, **fields: Any) -> Case:
    function = getattr(dg, name)
    return Case(name, lambda x: function(x, **fields), [np.linspace(low, high, 22)], low, high)


def scaled(name: str, low: float = -1.9, high: float = 2.1) -> Case:
    """f(x · 0.5 + 0.25)."""
    scale_bias = dg.ScaleBias(scale=0.5, bias=0.25)
    return unary(name, (low - 0.25) * 2, (high - 0.25) * 2, scale_bias=scale_bias)


ELEMENT_WISE = [
    *map(scaled, ("identity", "abs", "exp", "erf", "sin", "cos", "atan", "sinh", "cosh", "tanh", "asinh")),
    *(scaled(name, 0.3, 2.0) for name in ("log", "sqrt", "recip")),
    *(scaled(name, -0.9, 0.9) for name in ("asin", "acos", "atanh", "tan")),
    scaled("acosh", 1.2, 3.0),
    *(unary(name, -1.9, 1.9) for name in ("floor", "ceil", "round", "sign", "negate")),
    unary("clip", min=-0.7, max=1.2, scale_bias=dg.ScaleBias(scale=0.5, bias=0.25)),
    unary("clip1", min=-0.7, max=1.2),
    unary("threshold", min=0.3),
    *(unary("constant_pow", 0.3, 2.0, exponent=exponent) for exponent in (0.0, 1.0, 2.0, 2.5, -1.0)),
    *(
        Case(name, getattr(dg, name), [away([3, 4]), away([1, 4], seed=1, scale=1.3)])
        for name in ("add", "subtract", "multiply", "divide", "max", "min", "mean", "difference_square", "atan_yx")
    ),
    *(
        Case(name, getattr(dg, name), [away([4, 4], scale=2.3), np.array([[0.7], [0.9], [1.1], [1.3]])])
        for name in ("modulus_truncate", "modulus_floor")
    ),
    Case("add1", lambda a, b: dg.add1(a, b, fused_activation="activation_sigmoid"), [[3, 2], [3, 2]]),
    Case("pow", dg.pow, [[3, 4], [3, 1]], 0.5, 2.0),
    Case(
        "pow scaled",
        lambda x, y: dg.pow(x, y, scale_bias=dg.ScaleBias(scale=0.5, bias=0.25)),
        [[3, 4], [3, 1]],
        0.5,
        2.0,
    ),
    Case("pow of integers", dg.pow, [away([2, 3]), np.array([[2, 3, 1]], np.int32)]),
    Case("if", dg.if_, [np.array([[1, 0, 1, 0]], np.uint8), [3, 4], [1, 4]]),
    Case("cast", lambda x: dg.cast(x, dtype="float32") * x, [[5]]),
    Case("relu grad", dg.activation_relu_grad, [away([7]), [7]]),
    Case("clip grad", lambda x, g: dg.clip_grad(x, g, min=-1, max=0.6), [away([7]), [7]]),
    Case("clip grad 1", lambda x, g: dg.clip_grad1(x, g, min=-1, max=0.6), [away([7]), [7]]),
]
ACTIVATIONS = [
    *(
        unary(f"activation_{name}")
        for name in (
            "identity",
            "relu",
            "leaky_relu",
            "elu",
            "scaled_elu",
            "sigmoid",
            "tanh",
            "softplus",
            "softsign",
            "gelu",
            "hard_sigmoid",
        )
    ),
    unary("activation_leaky_relu", alpha=-0.3),
    unary("activation_elu", alpha=0.6),
    unary("activation_celu", alpha=0.7),
    unary("activation_celu", alpha=0.0),
    unary("activation_linear", alpha=0.7, beta=0.2),
    unary("activation_scaled_tanh", alpha=0.7, beta=0.3),
    unary("activation_softplus", steepness=1.7),
    unary("activation_parametric_softplus", alpha=0.7, beta=1.3),
    unary("activation_thresholded_relu", alpha=0.4),
    unary("activation_shrink", bias=0.2, threshold=0.6),
    unary("activation_swish", sigmoid_input_scale=1.3),
    unary("activation_hard_sigmoid", alpha=0.4, beta=0.3),
    unary("activation_hard_swish", alpha=0.4, beta=0.3),
    Case("activation_parameterized_relu", dg.activation_parameterized_relu, [away([3, 5]), [1, 5]]),
    *(
        Case(f"activation_{name}", getattr(dg, f"activation_{name}"), [[3, 5]])
        for name in ("softmax", "log_softmax", "hardmax")
    ),
    *(
        Case(f"activation_{name}1", functools.partial(getattr(dg, f"activation_{name}1"), axes=[0, 2]), [[2, 3, 4]])
        for name in ("softmax", "log_softmax", "hardmax")
    ),
]
FUNCTIONS: Any = ("average", "l1", "l2", "log_sum", "log_sum_exp", "max", "min", "multiply", "sum", "sum_square")
REDUCTIONS = [
    Case(
        f"reduce {function} {axes}",
        functools.partial(dg.reduce, function=function, axes=axes),
        [np.abs(away([2, 3, 4])) + 0.3 if "log" in function else away([2, 3, 4])],
    )
    for function in FUNCTIONS
    for axes in ([1], [0, 2])
] + [
    Case("reduce with zeros", lambda x: dg.reduce(x, function="multiply", axes=[1]), [np.array([[0, 2], [0, 0]]) * 1.0])
]
MATRICES = [
    Case(
        f"gemm {turn_a}{turn_b}",
        lambda a, b, c, ta=turn_a, tb=turn_b: dg.gemm(
            a,
            b,
            c,
            trans_a="transpose" if ta else "none",
            trans_b="transpose" if tb else "none",
            alpha=0.5,
            beta=2,
            fused_activation="activation_tanh" if ta else None,
        ),
        [[4, 3] if turn_a else [3, 4], [2, 4] if turn_b else [4, 2], [1, 2]],
        -1,
        1,
    )
    for turn_a in (0, 1)
    for turn_b in (0, 1)
] + [
    Case("gemm of batches", lambda a, b: a @ b, [[2, 1, 2, 3], [3, 3, 2]]),
    Case("gemm of rows", lambda a, b: a @ b, [[2, 2, 2, 3], [1, 3, 2]]),
    Case("gemm of rows, turned", lambda a, b: dg.gemm(a, b, trans_b="transpose"), [[2, 2, 3], [2, 3]]),
    Case("gemm of columns", lambda a, b: dg.gemm(a, b, trans_a="transpose"), [[2, 3, 2], [3, 2]]),
]
VIEWS = [
    Case("reshape", lambda x: x.reshape(3, 4) * x.reshape(12)[:4], [[2, 6]]),
    Case("transpose", lambda x: x.transpose(2, 0, 1), [[2, 3, 4]]),
    Case("flatten", lambda x: x.flatten(1), [[2, 3, 2]]),
    Case("squeeze", lambda x: x.squeeze(1), [[2, 1, 2]]),
    Case("expand_dims", lambda x: x.expand_dims(0, -1), [[2, 3]]),
    Case("broadcast_to", lambda x: x.broadcast_to(4, 2, 3), [[2, 1]]),
    Case("subscript", lambda x: x[1:, 0, ::2, None, ...], [[3, 2, 5]]),
    Case("subscript back", lambda x: x[::-1, -2:0:-2], [[3, 6]]),
]
CASES = [*ELEMENT_WISE, *ACTIVATIONS, *REDUCTIONS, *MATRICES, *VIEWS]
