"""Derivatives of operators that JAX has too are JAX's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.derivatives.beside_jax import Array, assert_same, random

import dmlgraph as dg


class Pair(NamedTuple):
    """A function of dmlgraph and that of JAX, and what they are given."""

    build: Callable[..., Any]
    expected: Callable[..., Any]
    given: tuple[Array, ...]


PLAIN, POSITIVE = random(3, 4), np.abs(random(3, 4)) + 0.5
PICTURE = random(2, 3, 6, 6)
ROWS, PLACES = random(1, 5, 3), np.array([[3, 1, 3, 0]], np.int32)
WINDOW: dict[str, Any] = {"window_size": [2, 2], "strides": [2, 2]}


def unary(*names: str, given: Array = PLAIN, of: Any = jnp) -> dict[str, Pair]:
    """By dmlgraph's names, each with JAX's where that is another."""
    pairs = (name.split("=") for name in names)
    return {own: Pair(getattr(dg, own), getattr(of, other[0] if other else own), (given,)) for own, *other in pairs}


def convolve(x: Any, w: Any, strides: Any = (1, 1), padding: Any = "VALID", **fields: Any) -> Any:
    return jax.lax.conv_general_dilated(x, w, strides, padding, **fields)


def pooled(x: Any, start: float, function: Any) -> Any:
    return jax.lax.reduce_window(x, start, function, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


def normalized(x: Any, scale: Any, bias: Any) -> Any:
    mean, variance = x.mean((0, 2, 3), keepdims=True), x.var((0, 2, 3), keepdims=True)
    return (x - mean) / jnp.sqrt(variance + 1e-5) * scale + bias


PAIRS: dict[str, Pair] = {
    **unary("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "abs", "atan=arctan", "asinh=arcsinh"),
    **unary("log", "sqrt", "recip=reciprocal", given=POSITIVE),
    **unary("erf", of=jax.scipy.special),
    **unary(*(f"activation_{name}={name}" for name in ("relu", "elu", "sigmoid", "softplus")), of=jax.nn),
    "gelu": Pair(dg.activation_gelu, lambda x: jax.nn.gelu(x, approximate=False), (PLAIN,)),
    "divide": Pair(dg.divide, jnp.divide, (PLAIN, POSITIVE)),
    "pow": Pair(dg.pow, jnp.power, (POSITIVE, PLAIN)),
    "atan_yx": Pair(dg.atan_yx, jnp.arctan2, (PLAIN, POSITIVE)),
    "max": Pair(dg.max, jnp.maximum, (PLAIN, random(3, 4, seed=1))),
    "softmax": Pair(lambda x: dg.activation_softmax1(x, axes=[1]), lambda x: jax.nn.softmax(x, 1), (PLAIN,)),
    "log_softmax": Pair(
        lambda x: dg.activation_log_softmax1(x, axes=[1]), lambda x: jax.nn.log_softmax(x, 1), (PLAIN,)
    ),
    "product": Pair(lambda x: dg.reduce(x, function="multiply", axes=[1]), lambda x: x.prod(1), (PLAIN,)),
    "logarithm of a sum": Pair(
        lambda x: dg.reduce(x, function="log_sum_exp", axes=[1]), lambda x: jax.nn.logsumexp(x, 1), (PLAIN,)
    ),
    "greatest": Pair(lambda x: dg.reduce(x, function="max", axes=[1]), lambda x: x.max(1), (PLAIN,)),
    "sum so far": Pair(lambda x: dg.cumulative_summation(x, axis=1), lambda x: jnp.cumsum(x, 1), (PLAIN,)),
    "product so far": Pair(lambda x: dg.cumulative_product(x, axis=1), lambda x: jnp.cumprod(x, 1), (PLAIN,)),
    "top_k": Pair(lambda x: dg.top_k(x, axis=1, k=2).output_value, lambda x: jax.lax.top_k(x, 2)[0], (PLAIN,)),
    "gather": Pair(
        lambda x, at: dg.gather(x, at.reshape(1, 1, 4), axis=1, index_dimensions=1),
        lambda x, at: x[:, at[0]],
        (ROWS, PLACES),
    ),
    "gather of elements": Pair(
        lambda x, at: dg.gather_elements(x, at, axis=1),
        lambda x, at: jnp.take_along_axis(x, at, 1),
        (PLAIN, np.array([[3, 3], [0, 1], [2, 2]], np.int32)),
    ),
    "convolution": Pair(
        lambda x, w: dg.convolution(x, w, strides=[2, 1], start_padding=[1, 0], end_padding=[1, 2]),
        lambda x, w: convolve(x, w, (2, 1), ((1, 1), (0, 2))),
        (PICTURE, random(4, 3, 3, 3, seed=1)),
    ),
    "dilated groups": Pair(
        lambda x, w: dg.convolution(x, w, dilations=[2, 2], group_count=3),
        lambda x, w: convolve(x, w, rhs_dilation=(2, 2), feature_group_count=3),
        (PICTURE, random(6, 1, 2, 2, seed=1)),
    ),
    "transposed convolution": Pair(
        lambda x, w: dg.convolution(x, w, direction="backward", strides=[2, 2]),
        lambda x, w: convolve(
            x, jnp.flip(w, (2, 3)).transpose(1, 0, 2, 3), (1, 1), ((2, 2), (2, 2)), lhs_dilation=(2, 2)
        ),
        (PICTURE, random(3, 2, 3, 3, seed=1)),
    ),
    "max pooling": Pair(lambda x: dg.max_pooling(x, **WINDOW), lambda x: pooled(x, -jnp.inf, jax.lax.max), (PICTURE,)),
    "average pooling": Pair(
        lambda x: dg.average_pooling(x, **WINDOW), lambda x: pooled(x, 0.0, jax.lax.add) / 4, (PICTURE,)
    ),
    "batch normalization": Pair(
        lambda x, scale, bias: dg.batch_normalization_training(x, scale, bias, epsilon=1e-5).output,
        normalized,
        (PICTURE, random(1, 3, 1, 1, seed=1), random(1, 3, 1, 1, seed=2)),
    ),
    "resampling": Pair(
        lambda x: dg.resample(x, scales=[1, 1, 2, 2], interpolation_mode="linear"),
        lambda x: jax.image.resize(x, (2, 3, 12, 12), "linear"),
        (PICTURE,),
    ),
    "product of matrices": Pair(
        lambda a, b: dg.gemm(a, b, trans_a="transpose"),
        lambda a, b: a.swapaxes(-1, -2) @ b,
        (random(2, 4, 3), random(2, 4, 5, seed=1)),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_derivatives_are_those_of_jax(name: str) -> None:
    build, expected, given = PAIRS[name]
    assert_same(build, expected, *given, relative=1e-3)
