"""Single operators of every family, on special values and with sizes of 1.

case(7)  # the same every time; None if the drawn operator is not legal
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from support.agreement import LIBRARY_LEVEL
from support.random_graphs import FAMILIES
from support.sketches import PLAIN, TYPES, Array, Dice, Sample, Sketch, Value

import dmlgraph as dg
from dmlgraph.base.tensor import DataType
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.operators.directml_enums import ReduceFunction

SPECIAL = (np.inf, -np.inf, np.nan, -0.0, 0.0, 65504.0, -65504.0, 6e-8, -6e-8, 1e-40, 1e20, -1e20, 3.4e38, -3.4e38)
HALF_OR_SINGLE = (DataType.FLOAT32, DataType.FLOAT16)


class Special(Sketch):
    """A sketch of one operator with sizes that are often 1 and numbers that are often special."""

    def __init__(self, seed: int) -> None:
        super().__init__(Dice(random.Random(seed)), str(LIBRARY_LEVEL))
        self.tame = False
        self.sizes = self.shape(self.pick((4, 4, 4, 5, 3, 2, 1)))

    def shape(self, rank: int) -> tuple[int, ...]:
        return tuple(self.pick((1, 1, 2, 3)) for _ in range(rank))

    def axes(self, rank: int) -> list[int]:
        """Some of the axes, preferably of size 1, so that sometimes nothing is reduced."""
        return [axis for axis in range(rank) if self.chance(1, 2)] or [rank - 1]

    def array(self, dtype: DataType, sizes: Sequence[int]) -> Array:
        if not dtype.is_float:
            return super().array(dtype, sizes)
        rng = self.random()
        share = self.pick((0.0, 0.0, 0.1, 0.3, 1.0))
        data = np.where(rng.random(sizes) < share, rng.choice(SPECIAL, sizes), rng.normal(0, 3, sizes))
        with np.errstate(over="ignore"):
            return np.asarray(data.astype(dtype.numpy))

    def tensor(self, dtype: DataType, sizes: Sequence[int]) -> Value:
        return self.input(dtype, sizes)

    def half_or_single(self) -> DataType:
        return self.pick(HALF_OR_SINGLE)

    def few(self, *options: Any) -> Any:
        return self.pick(options)

    def flag(self) -> bool:
        return self.chance(1, 2)

    def direction(self) -> Literal["increasing", "decreasing"]:
        return self.pick(("increasing", "decreasing"))


Maker = Callable[[Special], Any]


# Operators over axes, windows and batches of any size, mostly 1.


def reductions(sketch: Special) -> Any:
    dtype = sketch.pick((*HALF_OR_SINGLE, *HALF_OR_SINGLE, *TYPES))
    x = sketch.tensor(dtype, sketch.sizes)
    function: Any = str(sketch.pick(list(ReduceFunction)))
    return dg.reduce(x, function=function, axes=sketch.axes(len(sketch.sizes)))


def extremes(sketch: Special) -> Any:
    x = sketch.tensor(sketch.pick((*HALF_OR_SINGLE, *TYPES)), sketch.sizes)
    rank = len(sketch.sizes)
    kind = sketch.integer(0, 2)
    if kind < 2:
        return (dg.argmax, dg.argmin)[kind](x, axes=sketch.axes(rank), axis_direction=sketch.direction())
    axis = sketch.integer(0, rank - 1)
    k = sketch.integer(1, sketch.sizes[axis])
    return dg.top_k1(x, axis=axis, k=k, axis_direction=sketch.direction())


def scans(sketch: Special) -> Any:
    x = sketch.tensor(sketch.pick((*HALF_OR_SINGLE, DataType.INT32, DataType.UINT32)), sketch.sizes)
    where: dict[str, Any] = {"axis": sketch.integer(0, len(sketch.sizes) - 1), "axis_direction": sketch.direction()}
    if sketch.flag():
        return dg.cumulative_summation(x, **where, has_exclusive_sum=sketch.flag())
    return dg.cumulative_product(x, **where, has_exclusive_product=sketch.flag())


def softmaxes(sketch: Special) -> Any:
    name = sketch.pick(("softmax", "log_softmax", "hardmax"))
    if sketch.flag():
        x = sketch.tensor(sketch.half_or_single(), sketch.sizes)
        return getattr(dg, f"activation_{name}1")(x, axes=sketch.axes(len(sketch.sizes)))
    return getattr(dg, f"activation_{name}")(sketch.tensor(sketch.half_or_single(), sketch.sizes))


def _parameters(sketch: Special, sizes: Sequence[int]) -> list[int]:
    """Sizes of a scale: 1 or the input's, dimension by dimension."""
    return [sketch.pick((1, size)) for size in sizes]


def normalizations(sketch: Special) -> Any:
    dtype = sketch.half_or_single()
    sizes = sketch.shape(4) if sketch.flag() else sketch.sizes
    x = sketch.tensor(dtype, sizes)
    scale, bias = (sketch.tensor(dtype, _parameters(sketch, sizes)) if sketch.chance(1, 3) else None for _ in range(2))
    epsilon = sketch.few(1e-5, 1e-3, 1.0)
    if len(sizes) == 4 and sketch.chance(1, 3):
        return dg.mean_variance_normalization(
            x, scale, bias, cross_channel=sketch.flag(), normalize_variance=sketch.chance(3, 4), epsilon=epsilon
        )
    axes = sketch.axes(len(sizes))
    return dg.mean_variance_normalization1(
        x, scale, bias, axes=axes, normalize_variance=sketch.chance(3, 4), epsilon=epsilon
    )


def batch_normalizations(sketch: Special) -> Any:
    dtype, sizes = sketch.half_or_single(), sketch.shape(4)
    x = sketch.tensor(dtype, sizes)
    kind = sketch.integer(0, 3)
    shape = _parameters(sketch, sizes) if sketch.flag() else [1, sizes[1], 1, 1]
    epsilon = sketch.few(1e-5, 1e-3, 1.0)
    parameters = [sketch.tensor(dtype, shape) for _ in range(4)]
    if kind == 0:
        return dg.batch_normalization(x, *parameters, spatial=True, epsilon=epsilon)
    if kind == 1:
        return dg.batch_normalization_training(x, *parameters[:2], epsilon=epsilon)
    gradient = sketch.tensor(dtype, sizes)
    function = (dg.batch_normalization_grad, dg.batch_normalization_training_grad)[kind - 2]
    return function(x, gradient, *parameters[:3], epsilon=epsilon)


def neighbourhoods(sketch: Special) -> Any:
    dtype, sizes = sketch.half_or_single(), sketch.shape(4)
    x = sketch.tensor(dtype, sizes)
    kind = sketch.integer(0, 2)
    if kind == 0:
        return dg.lp_normalization(x, axis=sketch.integer(0, 3), epsilon=sketch.few(1e-5, 1.0), p=sketch.few(1, 2))
    attributes = {
        "cross_channel": sketch.flag(),
        "local_size": sketch.integer(1, 3),
        "alpha": sketch.few(0.5, 1e-4),
        "beta": sketch.few(0.75, 1.0),
        "bias": sketch.few(1.0, 0.5),
    }
    if kind == 1:
        return dg.local_response_normalization(x, **attributes)
    return dg.local_response_normalization_grad(x, sketch.tensor(dtype, sizes), **attributes)


def poolings(sketch: Special) -> Any:
    name = sketch.pick(("average_pooling", "average_pooling1", "lp_pooling1", "max_pooling2", "max_pooling1"))
    dtype = sketch.half_or_single()
    sizes = sketch.shape(sketch.pick((4, 4, 5)))
    spatial = sizes[2:]
    window = list(spatial) if sketch.chance(1, 3) else [sketch.integer(1, size) for size in spatial]
    start, end = ([sketch.integer(0, length - 1) for length in window] for _ in range(2))
    fields: dict[str, Any] = {
        "strides": [sketch.integer(1, 2) for _ in spatial],
        "window_size": window,
        "start_padding": start,
        "end_padding": end,
    }
    if name.startswith("average"):
        fields["include_padding"] = sketch.flag()
    if name == "lp_pooling1":
        fields["p"] = sketch.few(1, 2)
    if name in ("lp_pooling1", "max_pooling2", "average_pooling1"):
        fields["dilations"] = [1] * len(spatial)
    return getattr(dg, name)(sketch.tensor(dtype, sizes), **fields)


def pooling_gradients(sketch: Special) -> Any:
    dtype, sizes = sketch.half_or_single(), sketch.shape(4)
    window = [sketch.integer(1, size) for size in sizes[2:]]
    fields: dict[str, Any] = {"strides": [1, 1], "window_size": window, "start_padding": [0, 0], "end_padding": [0, 0]}
    pooled = (*sizes[:2], *(size - length + 1 for size, length in zip(sizes[2:], window, strict=True)))
    gradient = sketch.tensor(dtype, pooled)
    if sketch.flag():
        return dg.average_pooling_grad(gradient, sizes=sizes, **fields, include_padding=sketch.flag())
    return dg.max_pooling_grad(sketch.tensor(dtype, sizes), gradient, **fields, dilations=[1, 1])


def resamplings(sketch: Special) -> Any:
    sizes = sketch.shape(4)
    dtype = sketch.half_or_single()
    output = [sizes[0], sizes[1], *(sketch.pick((1, size, 2 * size)) for size in sizes[2:])]
    scales = [o / i for o, i in zip(output, sizes, strict=True)]
    mode: Literal["nearest_neighbor", "linear"] = sketch.pick(("nearest_neighbor", "linear"))
    kind = sketch.integer(0, 2)
    if kind == 0:
        return dg.resample(sketch.tensor(dtype, sizes), sizes=output, scales=scales, interpolation_mode=mode)
    offsets: dict[str, Any] = {"input_pixel_offsets": [0.5] * 4, "output_pixel_offsets": [-0.5] * 4}
    if kind == 1:
        x = sketch.tensor(dtype, sizes)
        return dg.resample1(x, sizes=output, scales=scales, interpolation_mode=mode, **offsets)
    x = sketch.tensor(dtype, output)
    return dg.resample_grad(x, sizes=sizes, scales=scales, interpolation_mode=mode, **offsets)


def products(sketch: Special) -> Any:
    dtype = sketch.half_or_single()
    if sketch.flag():
        rows, inner, columns = sketch.shape(3)
        a, b = sketch.tensor(dtype, (1, 1, rows, inner)), sketch.tensor(dtype, (1, 1, inner, columns))
        c = sketch.tensor(dtype, (1, 1, rows, columns)) if sketch.chance(1, 3) else None
        return dg.gemm(a, b, c, alpha=sketch.few(1.0, 0.5))
    batch, channels, filters, height, width = sketch.shape(5)
    x = sketch.tensor(dtype, (batch, channels, height, width))
    window = (sketch.integer(1, height), sketch.integer(1, width))
    bias = sketch.tensor(dtype, (1, filters, 1, 1)) if sketch.flag() else None
    return dg.convolution(
        x,
        sketch.tensor(dtype, (filters, channels, *window)),
        bias,
        mode=sketch.pick(("convolution", "cross_correlation")),
        direction="forward",
        strides=[1, 1],
        dilations=[1, 1],
        start_padding=[0, 0],
        end_padding=[0, 0],
        output_padding=[0, 0],
        group_count=1,
    )


def recurrences(sketch: Special) -> Any:
    dtype = sketch.half_or_single()
    steps, batch, inner, hidden = sketch.shape(4)
    name = sketch.pick(("rnn", "gru", "lstm"))
    gates = {"rnn": 1, "gru": 3, "lstm": 4}[name]
    tensors = [
        sketch.tensor(dtype, (1, steps, batch, inner)),
        sketch.tensor(dtype, (1, 1, gates * hidden, inner)),
        sketch.tensor(dtype, (1, 1, gates * hidden, hidden)),
    ]
    fields: dict[str, Any] = {"direction": sketch.pick(("forward", "backward"))}
    fields["activation_descs"] = {
        "rnn": ["activation_tanh"],
        "gru": ["activation_sigmoid", "activation_tanh"],
        "lstm": ["activation_sigmoid", "activation_tanh", "activation_tanh"],
    }[name]
    if name == "gru":
        fields["linear_before_reset"] = sketch.flag()
    if name == "lstm":
        fields |= {"clip_threshold": 0.0, "use_clip_threshold": False, "couple_input_forget": False}
        fields["output_cell_single"] = True
    return getattr(dg, name)(*tensors, **fields, output_sequence=True, output_single=True)


def plain_operator(sketch: Special) -> None:
    """Element-wise operators: tensors and attributes of all kinds."""
    sketch.plain(sketch.pick(PLAIN))


def any_example(sketch: Special) -> None:
    """Any other operator, as in its example, on special values."""
    operator = sketch.pick(sketch.pick(FAMILIES))
    if operator not in PLAIN:
        sketch.example(operator)


MAKERS: tuple[Maker, ...] = (
    reductions,
    extremes,
    scans,
    softmaxes,
    normalizations,
    batch_normalizations,
    neighbourhoods,
    poolings,
    pooling_gradients,
    resamplings,
    products,
    recurrences,
    *(plain_operator,) * 6,
    *(any_example,) * 3,
)


def case(seed: int) -> Sample | None:
    """The graph of a seed; None if the drawn operator is not legal."""
    sketch = Special(seed)
    try:
        result = sketch.pick(MAKERS)(sketch)
    except dg.DmlGraphError:
        return None
    if result is not None:
        sketch.keep(*(result if isinstance(result, tuple) else (result,)))
    sample = sketch.finish()
    return sample if any(isinstance(node, OperatorNode) for node in sample.graph.nodes) else None
