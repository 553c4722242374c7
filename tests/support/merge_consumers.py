"""Consumers for merge_cases: each reads a value, or a value and another one of the same sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from support.merge_producers import (
    ACTIVATIONS,
    PADDED,
    Combine,
    Maker,
    Read,
    Value,
    activated,
    attributes,
    doubled,
    flat,
    operator_name,
    swapped,
)

import dmlgraph as dg


def weights(maker: Maker, value: Value) -> Value:
    return maker.given([*value.sizes[:-2], value.sizes[-1], 3])


def _normalized(maker: Maker, value: Value) -> Value:
    each = [1, value.sizes[1], *[1] * (value.rank - 2)]
    return dg.batch_normalization(
        value, maker.given(each), maker.given(each, positive=True), maker.given(each), maker.given(each),
        spatial=True, epsilon=0.01,
    )  # fmt: skip


def _of_padded(mode: Literal["constant", "edge", "reflection"], number: float, reader: Read) -> Read:
    """The reader, of a value that is padded."""
    def padded(value: Value) -> Value:
        start = [0, 0, *[1] * (value.rank - 2)]
        return dg.padding(value, padding_mode=mode, padding_value=number, start_padding=start, end_padding=0)

    return lambda m, v: reader(m, padded(v))


def _of_both(function: str) -> Combine:
    return lambda m, a, b: getattr(dg, function)(a, b)


def _activated_sum(name: str) -> Combine:
    return lambda m, a, b: dg.add1(a, b, fused_activation={"op": operator_name(name), **attributes(name, a.rank)})


def _swapped(reader: Read) -> Read:
    return lambda m, v: swapped(reader(m, v))


def _with_second_read(combination: str, reader: Read) -> Combine:
    return lambda m, a, b: getattr(dg, combination)(a, reader(m, b))


PADDINGS: tuple[tuple[Literal["constant", "edge", "reflection"], float], ...] = (
    ("constant", 0.0),
    ("constant", 0.5),
    ("edge", 0.0),
    ("reflection", 0.0),
)
POOLED_OR_CONVOLVED: Mapping[str, Read] = {
    "convolution": lambda m, v: dg.convolution(
        v, m.given([2, v.sizes[1], *[2] * (v.rank - 2)]), start_padding=1, end_padding=0
    ),
    "average pooling": lambda m, v: dg.average_pooling(
        v, window_size=2, include_padding=False, start_padding=1, end_padding=0
    ),
    "max pooling": lambda m, v: dg.max_pooling(v, window_size=2, start_padding=1, end_padding=0),
}
UNARY_CONSUMERS: Mapping[str, Read] = {
    **{f"activation {name}": activated(name) for name in ACTIVATIONS},
    "sin": lambda m, v: dg.sin(v),
    "tanh": lambda m, v: dg.tanh(v),
    "exp": lambda m, v: dg.exp(v),
    "abs": lambda m, v: dg.abs(v),
    "negate": lambda m, v: dg.negate(v),
    "identity": lambda m, v: dg.identity(v),
    "identity scaled": lambda m, v: dg.identity(v, scale_bias={"scale": 0.5, "bias": 0.75}),
    "abs scaled": lambda m, v: dg.abs(v, scale_bias={"scale": -0.5, "bias": 0.75}),
    "clip scaled": lambda m, v: dg.clip(v, min=-0.5, max=0.5, scale_bias={"scale": 0.5, "bias": 0.25}),
    "threshold": lambda m, v: dg.threshold(v, min=0.25),
    "cast": lambda m, v: dg.cast(v, dtype="float16" if m.dtype == "float32" else "float32"),
    "cast to integers": lambda m, v: dg.cast(v, dtype="int32"),
    "round": lambda m, v: dg.round(v, rounding_mode="halves_to_nearest_even"),
    "is nan": lambda m, v: dg.is_nan(v),
    "sum with itself": lambda m, v: dg.add(v, v),
    "product with itself": lambda m, v: dg.multiply(v, v),
    "swish by hand": lambda m, v: dg.multiply(v, dg.activation_sigmoid(v)),
    "sum with its sine": lambda m, v: dg.add(v, dg.sin(v)),
    "sum with its activation": lambda m, v: dg.add(dg.activation_relu(v), v),
    "swish": lambda m, v: dg.activation_swish(v, sigmoid_input_scale=1.5),
    "hardmax": lambda m, v: dg.activation_hardmax1(v, axes=[v.rank - 1]),
    "softmax": lambda m, v: dg.activation_softmax1(v, axes=[v.rank - 1]),
    "log softmax": lambda m, v: dg.activation_log_softmax1(v, axes=[v.rank - 1]),
    "reduce sum": lambda m, v: dg.reduce(v, function="sum", axes=[v.rank - 1]),
    "reduce average": lambda m, v: dg.reduce(v, function="average", axes=[0]),
    "average pooling": lambda m, v: dg.average_pooling(v, window_size=2, include_padding=True),
    "max pooling": lambda m, v: dg.max_pooling(v, **PADDED),
    "gemm as a": lambda m, v: dg.gemm(v, weights(m, v)),
    "gemm as b": lambda m, v: dg.gemm(m.given([*v.sizes[:-2], 3, v.sizes[-2]]), v),
    "gemm transposed": lambda m, v: dg.gemm(v, m.given([*v.sizes[:-2], 3, v.sizes[-1]]), trans_b="transpose"),
    "gemm as c": lambda m, v: dg.gemm(
        m.given([*v.sizes[:-1], 5]), m.given([*v.sizes[:-2], 5, v.sizes[-1]]), v, beta=0.75
    ),
    "gemm as c, activated": lambda m, v: dg.gemm(
        m.given([*v.sizes[:-1], 5]), m.given([*v.sizes[:-2], 5, v.sizes[-1]]), v, fused_activation="activation_tanh"
    ),
    "convolution": lambda m, v: dg.convolution(v, m.given([2, v.sizes[1], *[1] * (v.rank - 2)])),
    "convolution activated": lambda m, v: dg.convolution(
        v, m.given([2, v.sizes[1], *[1] * (v.rank - 2)]), fused_activation="activation_relu"
    ),
    "convolution as filter": lambda m, v: dg.convolution(m.given([1, v.sizes[1], *[4] * (v.rank - 2)]), v),
    "batch normalization": lambda m, v: dg.batch_normalization(
        v,
        m.given(m.channels()),
        m.given(m.channels(), positive=True),
        m.given(m.channels()),
        m.given(m.channels()),
        spatial=True,
        epsilon=0.01,
    ),
    "batch normalization training": lambda m, v: (
        dg.batch_normalization_training(v, m.given(m.channels()), m.given(m.channels()), epsilon=0.01).output
    ),
    "batch normalization training as sum": lambda m, v: (
        dg.batch_normalization_training(m.given(), m.given(m.channels()), m.given(m.channels()), v, epsilon=0.01).output
    ),
    "mean variance normalization": lambda m, v: dg.mean_variance_normalization1(
        v, axes=[v.rank - 1], normalize_variance=True, epsilon=0.1
    ),
    "local response": lambda m, v: dg.local_response_normalization(
        v, cross_channel=True, local_size=3, alpha=0.5, beta=0.75, bias=1.0
    ),
    "lp normalization": lambda m, v: dg.lp_normalization(v, axis=v.rank - 1, epsilon=0.1, p=2),
    "transposed": lambda m, v: dg.identity(v.transpose(*reversed(range(v.rank)))),
    "reshaped": lambda m, v: dg.sin(v.reshape(flat(m))),
    "slice": lambda m, v: dg.slice(v, offsets=0, sizes=[*v.sizes[:-1], m.half()], strides=[1] * v.rank),
    "split": lambda m, v: dg.sin(dg.split(v, axis=v.rank - 1, outputs=[m.half(), v.sizes[-1] - m.half()])[1]),
    "padding": lambda m, v: dg.padding(v, padding_mode="edge", start_padding=1, end_padding=0),
    **{
        f"padding ({mode} {number}) and {name}": _of_padded(mode, number, reader)
        for mode, number in PADDINGS
        for name, reader in POOLED_OR_CONVOLVED.items()
    },
    "cast twice": lambda m, v: dg.cast(dg.cast(v, dtype="int8"), dtype=m.dtype),
    "sigmoid and product": lambda m, v: dg.activation_sigmoid(v) * m.given(),
    "reduced twice": lambda m, v: dg.reduce(
        dg.reduce(v, function="average", axes=[v.rank - 1]), function="sum", axes=[v.rank - 2]
    ),
    "normalized by hand": lambda m, v: (
        (v - dg.reduce(v, function="average", axes=[v.rank - 1]).broadcast_to(v.sizes))
        * dg.recip(dg.sqrt(dg.reduce(v * v, function="average", axes=[v.rank - 1]))).broadcast_to(v.sizes)
    ),
    "softmax by hand": lambda m, v: (
        dg.exp(v) / dg.reduce(dg.exp(v), function="sum", axes=[v.rank - 1]).broadcast_to(v.sizes)
    ),
    "quantized and back": lambda m, v: dg.dequantize_linear(
        dg.quantize_linear(v, m.constant([1] * v.rank), m.given([1] * v.rank, "int8")), m.constant([1] * v.rank)
    ),
    "convolution and batch normalization": lambda m, v: _normalized(
        m, dg.convolution(v, m.given([2, v.sizes[1], *[1] * (v.rank - 2)]))
    ),
    "convolution activated and batch normalization": lambda m, v: _normalized(
        m,
        dg.convolution(
            v,
            m.given([2, v.sizes[1], *[1] * (v.rank - 2)]),
            m.given([1, 2, *[1] * (v.rank - 2)]),
            fused_activation="activation_relu",
        ),
    ),
    "two products": lambda m, v: dg.gemm(
        dg.gemm(v, m.given([*v.sizes[:-2], v.sizes[-1], 3])), m.given([*v.sizes[:-2], 3, 2])
    ),
    "slice of slice": lambda m, v: dg.slice(
        dg.slice(v, offsets=0, sizes=[*v.sizes[:-1], m.half()], strides=1),
        offsets=[*[0] * (v.rank - 2), v.sizes[-2] // 2, 0],
        sizes=[*v.sizes[:-2], v.sizes[-2] - v.sizes[-2] // 2, m.half()],
        strides=1,
    ),
    "join of parts": lambda m, v: dg.join(
        dg.split(v, axis=v.rank - 1, outputs=[m.half(), v.sizes[-1] - m.half()])[::-1], axis=v.rank - 1
    ),
    "tile": lambda m, v: dg.tile(v, repeats=2),
    "gather": lambda m, v: dg.gather(
        v, m.indices([1] * (v.rank - 1) + [3], v.sizes[-1]), axis=v.rank - 1, index_dimensions=1
    ),
    "cumulative summation": lambda m, v: dg.cumulative_summation(v, axis=v.rank - 1),
    "space to depth": lambda m, v: dg.space_to_depth(v, block_size=2),
    "resample": lambda m, v: dg.resample1(v, sizes=doubled(m), interpolation_mode="linear"),
    "quantize": lambda m, v: dg.quantize_linear(v, m.constant([1] * v.rank), m.given([1] * v.rank, "int8")),
    "value scale": lambda m, v: dg.value_scale_2d(v, scale=0.5, bias=[0.25] * v.sizes[1]),
    "attention": lambda m, v: dg.multihead_attention(
        *[v.reshape(-1, *v.sizes[-2:])] * 3, head_count=1, scale=0.5, mask_type="none"
    ),
}
BINARY_CONSUMERS: Mapping[str, Combine] = {
    **{
        name: _of_both(name)
        for name in (
            *("add", "subtract", "multiply", "divide", "max", "min", "mean", "pow", "difference_square", "atan_yx"),
            *("modulus_floor", "logical_greater_than", "activation_parameterized_relu", "activation_relu_grad"),
        )
    },
    "add1": lambda m, a, b: dg.add1(a, b),
    **{
        f"add1 {name}": _activated_sum(name)
        for name in ("relu", "sigmoid", "leaky_relu", "linear")
    },
    "if": lambda m, a, b: dg.if_(m.given(dtype="uint8"), a, b),
    "join": lambda m, a, b: dg.join([a, b], axis=a.rank - 1),
    "join of rows": lambda m, a, b: dg.join([a, b], axis=0),
    "gate": lambda m, a, b: dg.multiply(a, dg.activation_sigmoid(b)),
    "activated sum": lambda m, a, b: dg.activation_relu(dg.add(a, b)),
    "scaled sum": lambda m, a, b: dg.identity(dg.add(a, b), scale_bias={"scale": 0.5, "bias": 0.25}),
    "sum of three": lambda m, a, b: dg.add(dg.add(a, b), m.given()),
    "sum by channel": lambda m, a, b: dg.add(dg.add(a, m.given(m.channels()).broadcast_to(m.sizes)), b),
    "sum of scaled": lambda m, a, b: dg.add(a, dg.identity(b, scale_bias={"scale": 0.5, "bias": 0.25})),
    "sum of activated": lambda m, a, b: dg.add(a, dg.activation_tanh(b)),
    "sum of views": lambda m, a, b: dg.add(a.reshape(flat(m)), b.reshape(flat(m))),
    "sum of transposed": lambda m, a, b: dg.add(
        a.transpose(*reversed(range(a.rank))), b.transpose(*reversed(range(b.rank)))
    ),
    "product": lambda m, a, b: dg.gemm(a, b, trans_b="transpose"),
    "product activated": lambda m, a, b: dg.gemm(a, b, trans_b="transpose", fused_activation="activation_relu"),
}
FUNCTIONS: Mapping[str, Read] = {
    **{name: activated(name) for name in ACTIVATIONS},
    **{
        f"{name}, transposed": _swapped(activated(name))
        for name in ("sigmoid", "relu", "hard_sigmoid")
    },
    "exp": lambda m, v: dg.exp(v),
    "sin": lambda m, v: dg.sin(v),
    "tanh of the other kind": lambda m, v: dg.tanh(v),
    "erf": lambda m, v: dg.erf(v),
    "sqrt": lambda m, v: dg.sqrt(dg.abs(v)),
    "recip": lambda m, v: dg.recip(v),
    "abs": lambda m, v: dg.abs(v),
    "negate": lambda m, v: dg.negate(v),
    "scaled": lambda m, v: dg.identity(v, scale_bias={"scale": 0.5, "bias": 0.25}),
    "softmax": lambda m, v: dg.activation_softmax1(v, axes=[v.rank - 1]),
    "swish": lambda m, v: dg.activation_swish(v, sigmoid_input_scale=1.5),
    "reduced": lambda m, v: dg.reduce(v, function="average", axes=[v.rank - 1]).broadcast_to(v.sizes),
    "squared": lambda m, v: dg.multiply(v, v),
    "softplus and tanh": lambda m, v: dg.activation_tanh(dg.activation_softplus(v, steepness=1.0)),
    "scaled sigmoid": lambda m, v: dg.activation_sigmoid(dg.identity(v, scale_bias={"scale": 1.702, "bias": 0.0})),
    "erf and 1": lambda m, v: dg.identity(
        dg.erf(v, scale_bias={"scale": 0.70710678, "bias": 0}), scale_bias={"scale": 0.5, "bias": 0.5}
    ),
    "six steps": lambda m, v: dg.clip(v, min=0, max=1, scale_bias={"scale": 1 / 6, "bias": 0.5}),
    "cast and back": lambda m, v: dg.cast(
        dg.cast(v, dtype="float16" if m.dtype == "float32" else "float32"), dtype=m.dtype
    ),
}
COMBINATIONS = ("add", "subtract", "multiply", "divide")
FUNCTION_CONSUMERS: Mapping[str, Combine] = {
    f"{combination} of {function}": _with_second_read(combination, FUNCTIONS[function])
    for combination in COMBINATIONS
    for function in FUNCTIONS
}
ORDERS = ("left", "right")
