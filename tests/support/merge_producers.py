"""Producers for merge_cases: each makes a value of the sizes and the type of a case."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import dmlgraph as dg
from dmlgraph.base.tensor import DataType, DataTypeLike, DataTypeName

Array = np.ndarray[Any, Any]
Value = dg.Value


class Maker:
    """A graph under construction.  Numbers are of both signs and not repeated, so that formulas differ."""

    def __init__(self, sizes: Sequence[int], dtype: DataTypeName) -> None:
        self.graph = dg.Graph("merges")
        self.sizes, self.dtype = tuple(sizes), dtype
        self.inputs: dict[str, Array] = {}
        self.sibling: Value | None = None  # another output of the producer
        self._random = np.random.default_rng(11)

    @classmethod
    def like(cls, maker: Maker, sizes: Sequence[int]) -> Maker:
        """A maker of other sizes for the same graph."""
        other = cls.__new__(cls)
        vars(other).update(vars(maker), sizes=tuple(sizes))
        return other

    def numbers(self, sizes: Sequence[int], dtype: DataTypeLike) -> Array:
        kind = DataType.parse(dtype)
        if kind.is_float:
            return np.asarray(self._random.uniform(0.2, 2, sizes) * self._random.choice([-1, 1], sizes)).astype(
                kind.numpy
            )
        return self._random.integers(0, 9, sizes).astype(kind.numpy)

    def given(
        self, sizes: Sequence[int] | None = None, dtype: DataTypeLike | None = None, *, positive: bool = False
    ) -> Value:
        """A graph input, of the case's sizes and type if none are given."""
        sizes = self.sizes if sizes is None else sizes
        dtype = dtype or self.dtype
        name = f"x{len(self.inputs)}"
        data = self.numbers(sizes, dtype)
        self.inputs[name] = abs(data) if positive else data
        return self.graph.input(name, dtype=dtype, sizes=sizes)

    def indices(self, sizes: Sequence[int], below: int) -> Value:
        name = f"x{len(self.inputs)}"
        self.inputs[name] = self._random.integers(0, below, sizes).astype(np.uint32)
        return self.graph.input(name, dtype="uint32", sizes=sizes)

    def constant(self, sizes: Sequence[int] | None = None) -> Value:
        sizes = self.sizes if sizes is None else sizes
        return self.graph.constant(f"c{len(list(self.graph.nodes))}", self.numbers(sizes, self.dtype))

    def changed(self, **sizes: int) -> list[int]:
        """The case's sizes with another one for the `last` dimension, that `before` it, or the `channels`."""
        found = list(self.sizes)
        for name, size in sizes.items():
            found[{"last": -1, "before": -2, "channels": 1}[name]] = size
        return found

    def channels(self) -> list[int]:
        """The sizes of one number per channel."""
        return [size if axis == 1 else 1 for axis, size in enumerate(self.sizes)]

    def half(self, axis: int = -1) -> int:
        axis %= len(self.sizes)
        return max(1, self.sizes[axis] // 2)


def ones(maker: Maker) -> list[int]:
    return [1] * len(maker.sizes)


def swapped_sizes(sizes: Sequence[int]) -> list[int]:
    return [*sizes[:-2], sizes[-1], sizes[-2]]


def swapped(value: Value) -> Value:
    """With the last two dimensions exchanged."""
    return value.transpose(*swapped_sizes(range(value.rank)))


Make = Callable[[Maker], Value]
Read = Callable[[Maker, Value], Value]
Combine = Callable[[Maker, Value, Value], Value]

# ---- Operators that can apply an activation themselves, if they are called with a `fused_activation`


def _gemm(maker: Maker, *, c: Sequence[int] | str | None = None, **fields: Any) -> Value:
    inner = 5
    a = maker.changed(last=inner) if "trans_a" not in fields else [*maker.sizes[:-2], inner, maker.sizes[-2]]
    b = maker.changed(before=inner) if "trans_b" not in fields else [*maker.sizes[:-2], maker.sizes[-1], inner]
    third = None if c is None else maker.given(None if isinstance(c, str) else c)
    return dg.gemm(maker.given(a), maker.given(b), third, **fields)


def _convolution(maker: Maker, *, width: int = 1, bias: bool = False, groups: int = 1, **fields: Any) -> Value:
    spatial = len(maker.sizes) - 2
    channels = maker.sizes[1]
    if fields.get("direction") == "backward":
        sizes = [3, channels // groups]
    else:
        sizes = [channels, (3 if groups == 1 else channels) // groups]
    window = [width] * spatial
    given = maker.given([maker.sizes[0], 3 if groups == 1 else channels, *maker.sizes[2:]])
    weights = maker.given([*sizes, *window])
    number = maker.given([1, channels, *[1] * spatial]) if bias else None
    pads: dict[str, Any] = {"start_padding": [width // 2] * spatial, "end_padding": [width // 2] * spatial}
    return dg.convolution(given, weights, number, group_count=groups, **pads, **fields)


def _batch_normalization(maker: Maker, **fields: Any) -> Value:
    each = maker.channels()
    positive = maker.given(each, positive=True)
    return dg.batch_normalization(
        maker.given(), maker.given(each), positive, maker.given(each), maker.given(each),
        spatial=True, epsilon=0.01, **fields,
    )  # fmt: skip


def _batch_training(maker: Maker, *, fused_add: bool = False, **fields: Any) -> Value:
    each = maker.channels()
    added = maker.given() if fused_add else None
    return dg.batch_normalization_training(
        maker.given(), maker.given(each), maker.given(each), added, epsilon=0.01, **fields
    ).output


def _mean_variance(maker: Maker, *, scaled: bool = True, **fields: Any) -> Value:
    both = (maker.given(maker.channels()), maker.given(maker.channels())) if scaled else (None, None)
    return dg.mean_variance_normalization1(
        maker.given(), *both, axes=[len(maker.sizes) - 1], normalize_variance=True, epsilon=0.1, **fields
    )


HOSTS: Mapping[str, Callable[..., Value]] = {
    "gemm": _gemm,
    "gemm with transposes": lambda m, **f: _gemm(m, trans_a="transpose", trans_b="transpose", **f),
    "gemm with alpha": lambda m, **f: _gemm(m, alpha=0.5, **f),
    "gemm with c": lambda m, **f: _gemm(m, c="whole", beta=0.75, **f),
    "gemm with c by column": lambda m, **f: _gemm(m, c=[*[1] * (len(m.sizes) - 1), m.sizes[-1]], **f),
    "gemm read transposed": lambda m, **f: swapped(_gemm(Maker.like(m, swapped_sizes(m.sizes)), **f)),
    "gemm of a row, reshaped": lambda m, **f: _gemm(Maker.like(m, flat(m)), **f).reshape(m.sizes),
    "gemm of matrices, reshaped": lambda m, **f: _gemm(Maker.like(m, m.sizes[-2:]), **f).reshape(m.sizes),
    "convolution": _convolution,
    "convolution 3": lambda m, **f: _convolution(m, width=3, **f),
    "convolution with bias": lambda m, **f: _convolution(m, width=3, bias=True, **f),
    "convolution by channel": lambda m, **f: _convolution(m, width=3, groups=m.sizes[1], **f),
    "convolution backward": lambda m, **f: _convolution(m, width=3, direction="backward", **f),
    "convolution backward with bias": lambda m, **f: _convolution(m, direction="backward", bias=True, **f),
    "convolution mirrored": lambda m, **f: _convolution(m, width=3, mode="convolution", **f),
    "batch normalization": _batch_normalization,
    "batch normalization training": _batch_training,
    "batch normalization training with sum": lambda m, **f: _batch_training(m, fused_add=True, **f),
    "mean variance normalization": lambda m, **f: dg.mean_variance_normalization(
        m.given(), cross_channel=False, normalize_variance=True, epsilon=0.1, **f
    ),
    "mean variance normalization 1": _mean_variance,
    "mean variance normalization 1 unscaled": lambda m, **f: _mean_variance(m, scaled=False, **f),
    "add1": lambda m, **f: dg.add1(m.given(), m.given(), **f),
}
ACTIVATIONS: Mapping[str, Mapping[str, Any]] = {
    "relu": {},
    "sigmoid": {},
    "tanh": {},
    "identity": {},
    "leaky_relu": {"alpha": 0.25},
    "linear": {"alpha": 0.5, "beta": 0.25},
    "elu": {"alpha": 0.75},
    "celu": {"alpha": 0.75},
    "scaled_elu": {"alpha": 0.75, "gamma": 1.25},
    "hard_sigmoid": {"alpha": 0.25, "beta": 0.5},
    "scaled_tanh": {"alpha": 0.75, "beta": 0.5},
    "softplus": {"steepness": 1.5},
    "parametric_softplus": {"alpha": 0.75, "beta": 0.5},
    "softsign": {},
    "thresholded_relu": {"alpha": 0.5},
    "shrink": {"bias": 0.25, "threshold": 0.5},
    "gelu": {},
    "clip": {"min": -0.5, "max": 0.75},
    "softmax": {},
    "softmax1": {"axes": [-1]},
}


def operator_name(activation: str) -> str:
    return activation if activation == "clip" else f"activation_{activation}"


def attributes(activation: str, rank: int) -> dict[str, Any]:
    return {key: [rank - 1] if key == "axes" else each for key, each in ACTIVATIONS[activation].items()}


def activated(activation: str) -> Read:
    return lambda maker, value: getattr(dg, operator_name(activation))(
        value, **attributes(activation, len(maker.sizes))
    )


# ---- Other producers


def _attention(maker: Maker) -> Value:
    batch, length, width = math.prod(maker.sizes[:-2]), maker.sizes[-2], maker.sizes[-1]
    parts = [maker.given([batch, length, width]) for _ in range(3)]
    made = dg.multihead_attention(*parts, head_count=1, scale=0.5, mask_type="none")
    return made.reshape(maker.sizes)


def _recurrent(maker: Maker, kind: str, output: str) -> Value:
    count = {"rnn": 1, "gru": 3, "lstm": 4}[kind]
    batch, width = maker.sizes[-2:]
    steps = math.prod(maker.sizes[:-2])
    made = getattr(dg, kind)(
        maker.given([1, steps, batch, 2]),
        maker.given([1, 1, count * width, 2]),
        maker.given([1, 1, count * width, width]),
        activation_descs=["activation_sigmoid", *["activation_tanh"] * {"rnn": 0, "gru": 1, "lstm": 2}[kind]],
        output_sequence=True, output_single=True,
    )  # fmt: skip
    value: Value = made.output_sequence if output == "sequence" else made.output_single
    if steps == 1:
        maker.sibling = (made.output_single if output == "sequence" else made.output_sequence).reshape(value.sizes)
    return value.reshape(maker.sizes) if output == "sequence" else value.broadcast_to(maker.sizes)


def _cell(maker: Maker) -> Value:
    batch, width = maker.sizes[-2:]
    made = dg.lstm(
        maker.given([1, 2, batch, 2]), maker.given([1, 1, 4 * width, 2]), maker.given([1, 1, 4 * width, width]),
        activation_descs=["activation_sigmoid", "activation_tanh", "activation_tanh"],
        output_sequence=False, output_single=True, output_cell_single=True,
    )  # fmt: skip
    assert isinstance(made, tuple)
    assert made.output_single is not None
    assert made.output_cell_single is not None
    maker.sibling = made.output_single.broadcast_to(maker.sizes)
    return made.output_cell_single.broadcast_to(maker.sizes)


def _quantized(maker: Maker, kind: str) -> Value:
    a, b = maker.given(maker.changed(last=4), "uint8"), maker.given(maker.changed(before=4), "uint8")
    one = ones(maker)
    if kind == "to float":
        scale = maker.given(one)
        return dg.matrix_multiply_integer_to_float(a, scale, None, b, maker.given(one))
    if kind == "integer":
        return dg.cast(dg.matrix_multiply_integer(a, None, b), dtype=maker.dtype)
    scales = [maker.given(one, positive=True) for _ in range(3)]
    made = dg.quantized_linear_matrix_multiply(a, scales[0], None, b, scales[1], None, scales[2], None, dtype="uint8")
    return dg.dequantize_linear(made, maker.given(one))


def _dequantized(maker: Maker) -> Value:
    return dg.dequantize_linear(maker.given(dtype="int8"), maker.given(ones(maker)))


def _convolution_integer(maker: Maker) -> Value:
    given = maker.given(maker.changed(channels=3), "uint8")
    weights = maker.given([maker.sizes[1], 3, *[1] * (len(maker.sizes) - 2)], "uint8")
    return dg.cast(dg.convolution_integer(given, None, weights), dtype=maker.dtype)


def _split(maker: Maker, source: Value, axis: int = -1, part: int = 1) -> Value:
    axis %= len(maker.sizes)
    size = maker.sizes[axis]
    parts = dg.split(source, axis=axis, outputs=[size] * (source.sizes[axis] // size))
    maker.sibling = parts[1 - part]
    return parts[part]


def doubled(maker: Maker, axis: int = -1) -> list[int]:
    return [size * 2 if index == axis % len(maker.sizes) else size for index, size in enumerate(maker.sizes)]


def _joined(maker: Maker, axis: int = -1) -> Value:
    axis %= len(maker.sizes)
    first, rest = maker.half(axis), maker.sizes[axis] - maker.half(axis)
    parts = [[count if index == axis else each for index, each in enumerate(maker.sizes)] for count in (first, rest)]
    return dg.join([dg.cos(maker.given(part)) for part in parts if part[axis]], axis=axis)


def _sliced(maker: Maker, source: Value, axis: int = -1) -> Value:
    axis %= len(maker.sizes)
    offsets = [maker.sizes[axis] if index == axis else 0 for index in range(len(maker.sizes))]
    return dg.slice(source, offsets=offsets, sizes=maker.sizes, strides=ones(maker))


def flat(maker: Maker) -> list[int]:
    return [1] * (len(maker.sizes) - 1) + [math.prod(maker.sizes)]


PADDED: dict[str, Any] = {"window_size": 3, "start_padding": 1, "end_padding": 1}

OTHER_PRODUCERS: Mapping[str, Make] = {
    "input": lambda m: m.given(),
    "add": lambda m: dg.add(m.given(), m.given()),
    "multiply": lambda m: dg.multiply(m.given(), m.given()),
    "subtract": lambda m: dg.subtract(m.given(), m.given()),
    "divide": lambda m: dg.divide(m.given(), m.given()),
    "max": lambda m: dg.max(m.given(), m.given()),
    "pow": lambda m: dg.pow(m.given(positive=True), m.given()),
    "if": lambda m: dg.if_(dg.logical_greater_than(m.given(), m.given()), m.given(), m.given()),
    "sin": lambda m: dg.sin(m.given()),
    "abs scaled": lambda m: dg.abs(m.given(), scale_bias={"scale": 0.5, "bias": 0.25}),
    "identity scaled": lambda m: dg.identity(m.given(), scale_bias={"scale": 0.5, "bias": 0.25}),
    "exp": lambda m: dg.exp(m.given()),
    "sigmoid": lambda m: dg.activation_sigmoid(m.given()),
    "relu": lambda m: dg.activation_relu(m.given()),
    "prelu": lambda m: dg.activation_parameterized_relu(m.given(), m.given(m.channels()).broadcast_to(m.sizes)),
    "swish": lambda m: dg.activation_swish(m.given(), sigmoid_input_scale=1.5),
    "hard swish": lambda m: dg.activation_hard_swish(m.given(), alpha=0.25, beta=0.5),
    "softmax": lambda m: dg.activation_softmax1(m.given(), axes=[len(m.sizes) - 1]),
    "log softmax": lambda m: dg.activation_log_softmax1(m.given(), axes=[len(m.sizes) - 1]),
    "negate": lambda m: dg.negate(m.given()),
    "cast": lambda m: dg.cast(m.given(dtype="int32"), dtype=m.dtype),
    "constant": lambda m: m.constant(),
    "fill": lambda m: m.graph.fill_value_constant(sizes=m.sizes, dtype=m.dtype, value=0.625),
    "sequence": lambda m: m.graph.fill_value_sequence(sizes=m.sizes, dtype=m.dtype, value_start=-1.0, value_delta=0.25),
    "reduce sum": lambda m: dg.reduce(m.given(m.changed(last=6)), function="sum", axes=[len(m.sizes) - 1]).broadcast_to(
        m.sizes
    ),
    "reduce": lambda m: dg.reduce(m.given([3, *m.sizes]), function="average", axes=[0]).reshape(m.sizes),
    "average pooling": lambda m: dg.average_pooling(m.given(), include_padding=True, **PADDED),
    "max pooling": lambda m: dg.max_pooling(m.given(), **PADDED),
    "lp pooling": lambda m: dg.lp_pooling(m.given(), p=2, **PADDED),
    "local response": lambda m: dg.local_response_normalization(
        m.given(), cross_channel=True, local_size=3, alpha=0.5, beta=0.75, bias=1.0
    ),
    "lp normalization": lambda m: dg.lp_normalization(m.given(), axis=len(m.sizes) - 1, epsilon=0.1, p=2),
    "attention": _attention,
    "rnn": lambda m: _recurrent(m, "rnn", "single"),
    "gru": lambda m: _recurrent(m, "gru", "single"),
    "lstm": lambda m: _recurrent(m, "lstm", "single"),
    "rnn sequence": lambda m: _recurrent(m, "rnn", "sequence"),
    "matrix multiply integer": lambda m: _quantized(m, "integer"),
    "matrix multiply integer to float": lambda m: _quantized(m, "to float"),
    "quantized matrix multiply": lambda m: _quantized(m, "linear"),
    "convolution integer": _convolution_integer,
    "dequantize": _dequantized,
    "join": _joined,
    "join of rows": lambda m: _joined(m, -2),
    "split": lambda m: _split(m, m.given(doubled(m))),
    "split of rows": lambda m: _split(m, dg.cos(m.given(doubled(m, -2))), -2),
    "first of a split": lambda m: _split(m, m.given(doubled(m)), part=0),
    "first of a computed split": lambda m: _split(m, dg.cos(m.given(doubled(m))), part=0),
    "lstm cell": _cell,
    "top k": lambda m: dg.top_k1(m.given(), axis=len(m.sizes) - 1, k=m.sizes[-1]).output_value,
    "slice": lambda m: _sliced(m, dg.cos(m.given(doubled(m)))),
    "slice of the first": lambda m: _sliced(m, dg.cos(m.given(doubled(m, 0))), 0),
    "tile": lambda m: dg.tile(m.given(m.changed(last=1)), repeats=[*ones(m)[1:], m.sizes[-1]]),
    "padding": lambda m: dg.padding(
        m.given(m.changed(last=1)),
        padding_mode="constant",
        padding_value=0.5,
        start_padding=0,
        end_padding=[0] * (len(m.sizes) - 1) + [m.sizes[-1] - 1],
    ),
    "gather": lambda m: dg.gather(
        m.given(m.changed(before=7)),
        m.indices([1] * (len(m.sizes) - 1) + [m.sizes[-2]], 7),
        axis=len(m.sizes) - 2,
        index_dimensions=1,
    ),
    "cumulative summation": lambda m: dg.cumulative_summation(m.given(), axis=len(m.sizes) - 1),
    "value scale": lambda m: dg.value_scale_2d(m.given(), scale=0.5, bias=[0.25] * m.sizes[1]),
    "depth to space": lambda m: dg.depth_to_space(
        m.given([m.sizes[0], m.sizes[1] * 4, m.sizes[2] // 2, m.sizes[3] // 2]), block_size=2
    ),
    "resample": lambda m: dg.resample1(
        m.given(m.changed(last=m.half())), sizes=m.sizes, interpolation_mode="nearest_neighbor"
    ),
    "one hot": lambda m: dg.one_hot(
        m.indices(m.changed(last=1), m.sizes[-1]),
        m.given([1] * (len(m.sizes) - 1) + [2]),
        sizes=m.sizes,
        axis=len(m.sizes) - 1,
    ),
    "reshaped": lambda m: dg.cos(m.given(flat(m))).reshape(m.sizes),
    "part": lambda m: dg.cos(m.given([m.sizes[0] * 2, *m.sizes[1:]]))[: m.sizes[0]],
    "every second": lambda m: dg.cos(m.given(doubled(m)))[..., ::2],
    "part of an input": lambda m: m.given([m.sizes[0] * 2, *m.sizes[1:]])[: m.sizes[0]],
    "reshaped gemm": lambda m: dg.gemm(m.given([1, 5]), m.given([5, math.prod(m.sizes)])).reshape(m.sizes),
    "transposed": lambda m: swapped(dg.cos(m.given(swapped_sizes(m.sizes)))),
    "transposed input": lambda m: swapped(m.given(swapped_sizes(m.sizes))),
}
PRODUCERS: Mapping[str, Callable[..., Value]] = {**HOSTS, **OTHER_PRODUCERS}


OTHERS: Mapping[str, Make] = {
    **{
        name: OTHER_PRODUCERS[name]
        for name in (
            *(
                "input",
                "constant",
                "fill",
                "sequence",
                "sin",
                "multiply",
                "cast",
                "join",
                "slice",
                "slice of the first",
            ),
            *("split", "first of a split", "split of rows", "part", "every second", "part of an input"),
            *("reshaped", "transposed", "transposed input"),
        )
    },
    "gemm": _gemm,
    "gemm activated": lambda m: _gemm(m, fused_activation="activation_tanh"),
    "gemm with c": HOSTS["gemm with c"],
    "gemm of a row, reshaped": HOSTS["gemm of a row, reshaped"],
    "convolution": _convolution,
    "convolution activated": lambda m: _convolution(m, fused_activation="activation_tanh"),
    "by channel": lambda m: m.given(m.channels()).broadcast_to(m.sizes),
    "by column": lambda m: m.given([*ones(m)[1:], m.sizes[-1]]).broadcast_to(m.sizes),
    "computed by channel": lambda m: dg.sin(m.given(m.channels())).broadcast_to(m.sizes),
    "computed by column": lambda m: dg.sin(m.given([*ones(m)[1:], m.sizes[-1]])).broadcast_to(m.sizes),
    "number": lambda m: m.given(ones(m)).broadcast_to(m.sizes),
    "reshaped input": lambda m: m.given(flat(m)).reshape(m.sizes),
}
