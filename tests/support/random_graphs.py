"""Random graphs: every family of operators, and the patterns of the passes, on data that includes special numbers.

    @given(graphs())                        # or graphs("chains"): the steps of one focus alone
    def test(sample): ...

    sample = graph_of(7)                    # the same graph every time

A graph is a sequence of steps.  Each adds an operator, or a few of them in a pattern of some rule, to the graph; a step
that cannot be built (the data type or the level does not have it) is skipped.
"""

from __future__ import annotations

import contextlib
import functools
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from support.quantized_steps import quantized
from support.sketches import (
    ACTIVATIONS,
    FLOATS,
    PLAIN,
    TYPES,
    Choices,
    Dice,
    Sample,
    Sketch,
    Value,
    transposed_strides,
)
from support.view_steps import along_axes, element_wise, joined_views, mostly_ones, pictures, product, reordered, view
from support.window_steps import any_reader, copied, joined, reader, window

import dmlgraph as dg
from dmlgraph.base.tensor import DataType
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.operators import REGISTRY
from dmlgraph.passes import fuse

Step = Callable[[Sketch], None]

MAX_STEPS = 8
LEVELS = (None, None, None, "6.2", "5.1", "4.1", "3.0", "2.0")
FAMILIES = tuple(
    tuple(operator for operator in REGISTRY.values() if operator.family == family)
    for family in sorted({operator.family for operator in REGISTRY.values()})
)
INTEGER_TYPES = tuple(dtype for dtype in TYPES if not dtype.is_float)


# Single operators.


def plain_operator(sketch: Sketch) -> None:
    """One of the operators whose tensors all have the same type and sizes."""
    sketch.plain(sketch.pick(PLAIN))


def any_operator(sketch: Sketch) -> None:
    """One of any family; operators with different tensors are built as in their example."""
    operator = sketch.pick(sketch.pick(FAMILIES))
    if operator in PLAIN:
        sketch.plain(operator)
    else:
        sketch.example(operator)


def repeated(sketch: Sketch) -> None:
    """An existing node once more: a common subexpression."""
    nodes = [node for node in sketch.graph.nodes if isinstance(node, OperatorNode)]
    if nodes:
        sketch.keep(*sketch.repeat(sketch.graph, sketch.pick(nodes)))


# Numbers that go into attributes.


def line(sketch: Sketch, value: Value, length: int = 3) -> Value:
    """Multiplications and additions by numbers, one after another."""
    for _ in range(sketch.integer(1, length)):
        number = sketch.uniform(value.dtype, value.sizes)
        operator = sketch.pick((dg.multiply, dg.multiply, dg.add, dg.add, dg.subtract, dg.divide))
        left, right = (number, value) if sketch.chance(1, 4) and operator is not dg.divide else (value, number)
        value = dg.negate(value) if sketch.chance(1, 9) else operator(left, right)
        sketch.keep(value)
    return value


def function(sketch: Sketch, value: Value) -> Value:
    """An activation, or a function that takes a ScaleBias."""
    kind = sketch.integer(0, 3)
    if kind == 0:
        return sketch.pick((dg.exp, dg.sqrt, dg.abs, dg.floor, dg.tanh, dg.sin, dg.erf, dg.recip))(value)
    if kind == 1:
        return dg.clip(value, min=sketch.pick((-1.0, 0.0)), max=sketch.pick((0.5, 1.0, 6.0)))
    if kind == 2:
        return dg.threshold(value, min=sketch.pick((0.0, -1.5)))
    return activation(sketch, value)


def activation(sketch: Sketch, value: Value) -> Value:
    result: Value = getattr(dg, f"activation_{sketch.pick(ACTIVATIONS)}")(value)
    return result


def lines(sketch: Sketch) -> None:
    value = line(sketch, sketch.float_value())
    if sketch.chance(2, 3):
        sketch.keep(function(sketch, value))


def integer_lines(sketch: Sketch) -> None:
    line(sketch, sketch.fitting(sketch.pick(INTEGER_TYPES)), 4)


def bounds(sketch: Sketch) -> None:
    """max and min with numbers, clips and relus, one after another."""
    value = sketch.fitting(sketch.pick((*FLOATS, *TYPES)))
    if sketch.chance(1, 3):
        value = line(sketch, value, 2)
    for _ in range(sketch.integer(1, 3)):
        kind = sketch.integer(0, 5)
        if kind <= 3:
            value = sketch.pick((dg.max, dg.min))(value, sketch.uniform(value.dtype, value.sizes))
        elif kind == 4:
            value = dg.activation_relu(value)
        else:
            value = dg.clip(value, min=sketch.pick((-2.0, 0.0, 1.0)), max=sketch.pick((1.0, 2.0, 6.0)))
        sketch.keep(value)


def neutral(sketch: Sketch) -> None:
    """Operations with a number that changes nothing, or determines the result; the same operand twice."""
    dtype = sketch.pick(TYPES)
    x = sketch.fitting(dtype)
    if sketch.chance(1, 3):
        pairs = [dg.max, dg.min] if dtype.is_float else [dg.max, dg.min, dg.subtract, dg.bit_xor, dg.bit_and, dg.bit_or]
        sketch.keep(sketch.pick(pairs)(x, x))
        return
    floats: Any = [(dg.add, -0.0), (dg.add, 0.0), (dg.subtract, 0.0), (dg.multiply, 1.0), (dg.divide, 1.0)]
    floats += [(dg.pow, 2.0)]
    integers: Any = [(dg.add, 0), (dg.multiply, 1), (dg.multiply, 0), (dg.max, 0), (dg.min, 0), (dg.bit_and, -1)]
    integers += [(dg.bit_or, 0), (dg.bit_or, -1), (dg.bit_shift_left, 0), (dg.bit_xor, 0), (dg.divide, 1)]
    operator, number = sketch.pick(floats if dtype.is_float else integers)
    sketch.keep(operator(x, sketch.uniform(dtype, x.sizes, number)))


def powers(sketch: Sketch) -> None:
    x = sketch.float_value()
    exponent = sketch.uniform(x.dtype, x.sizes, sketch.pick((2.0, 0.5, -1.0, 3.0, 0.0, 1 / 3)))
    sketch.keep(dg.pow(x, exponent))


# Copies and movements.


def copies(sketch: Sketch) -> None:
    """Operators that return their input, alone or applied twice."""
    x = sketch.fitting(sketch.pick(TYPES))
    rank, last = len(x.sizes), len(x.sizes) - 1
    steps: list[Callable[[Value], Value]] = [
        dg.identity,
        lambda value: dg.negate(dg.negate(value)),
        lambda value: dg.negate(dg.tile(dg.negate(_row(sketch, value)), repeats=[2] + [1] * last)),
        lambda value: dg.bit_not(dg.bit_not(value)),
        lambda value: dg.abs(dg.abs(value)),
        lambda value: dg.activation_relu(dg.activation_relu(value)),
        lambda value: dg.cast(value, dtype=value.dtype),
        lambda value: dg.cast(dg.cast(value, dtype=sketch.pick(TYPES)), dtype=sketch.pick((value.dtype, *TYPES))),
        lambda value: dg.tile(value, repeats=[1] * rank),
        lambda value: dg.slice(value, offsets=[0] * rank, sizes=value.sizes, strides=[1] * rank),
        lambda value: dg.padding(
            value, padding_mode="constant", padding_value=0, start_padding=[0] * rank, end_padding=[0] * rank
        ),
        lambda value: dg.join([value], axis=last),
        lambda value: dg.split(value, axis=last, outputs=[value.sizes[last]])[0],
        lambda value: dg.identity(value, output={"strides": transposed_strides(value.sizes)}),
    ]
    for _ in range(sketch.integer(1, 2)):
        x = sketch.pick(steps)(x)
        sketch.keep(x)
    if sketch.chance(1, 2):
        sketch.keep(dg.add(x, sketch.operand(x.dtype, x.sizes)))


def movements(sketch: Sketch) -> None:
    """Tiles, slices, splits, joins and pads of anything, including fills and sequences, read by an element-wise
    operator."""
    dtype = sketch.pick(TYPES)
    sizes = tuple(sketch.pick((1, size, size + 1)) for size in sketch.sizes)
    x = sketch.source(dtype, sizes) if sketch.chance(1, 2) else sketch.fitting(dtype)
    axes = range(len(x.sizes))
    kind = sketch.integer(0, 5)
    if kind == 0:
        moved = dg.tile(x, repeats=[sketch.pick((1, 2)) for _ in axes])
    elif kind <= 2:
        steps = [sketch.integer(1, 2) for _ in axes]
        begins = sketch.chance(1, 2)  # at the first element: readers can skip the rest
        offsets = [0 if begins else sketch.integer(0, x.sizes[axis] - 1) for axis in axes]
        kept = [(x.sizes[axis] - offsets[axis] + steps[axis] - 1) // steps[axis] for axis in axes]
        moved = dg.slice(x, offsets=offsets, sizes=kept, strides=steps)
    elif kind == 3:
        axis = sketch.pick(axes)
        first = sketch.integer(1, max(1, x.sizes[axis] - 1))
        moved, *others = dg.split(x, axis=axis, outputs=[first, *filter(None, [x.sizes[axis] - first])])
        sketch.keep(*others)
    elif kind == 4:
        mode: Any = sketch.pick(("constant", "edge", "reflection"))
        start, end = ([sketch.integer(0, 1) for _ in axes] for _ in range(2))
        number = sketch.number(dtype)
        moved = dg.padding1(x, padding_mode=mode, padding_value=number, start_padding=start, end_padding=end)
    else:
        axis = sketch.pick(axes)
        number = sketch.number(dtype)
        sides = [
            sketch.graph.fill_value_constant(
                sizes=[sketch.integer(1, 2) if each == axis else x.sizes[each] for each in axes],
                dtype=dtype,
                value=number,
            )
            for _ in range(2)
        ]
        moved = dg.join([*sides[sketch.integer(0, 1) : 1], x, *sides[sketch.integer(1, 2) :]], axis=axis)
    sketch.keep(moved)
    sketch.keep(dg.max(moved, sketch.operand(dtype, moved.sizes)))


def constants_only(sketch: Sketch) -> None:
    """Operators on fills, sequences and constants."""
    dtype, axis = sketch.pick(TYPES), len(sketch.sizes) - 1
    sources: list[Callable[[], Value]] = [
        lambda: sketch.uniform(dtype, sketch.sizes),
        lambda: sketch.graph.fill_value_constant(sizes=sketch.sizes, dtype=dtype, value=sketch.number(dtype)),
        lambda: sketch.graph.fill_value_sequence(
            sizes=sketch.sizes, dtype=dtype, value_start=sketch.number(dtype), value_delta=sketch.integer(0, 3)
        ),
        lambda: sketch.constant(sketch.array(dtype, sketch.sizes)),
    ]
    value = sketch.pick(sources)()
    steps: list[Callable[[Value], Value]] = [
        lambda x: sketch.pick((dg.add, dg.subtract, dg.multiply))(x, sketch.pick(sources)()),
        lambda x: sketch.pick((dg.add, dg.multiply))(x, sketch.uniform(dtype, x.sizes)),
        dg.negate,
        lambda x: dg.cast(x, dtype=sketch.pick(TYPES)),
        lambda x: dg.reduce(
            x, function=sketch.pick(("sum", "max", "multiply", "argmax", "l2", "average")), axes=[axis]
        ),
        lambda x: dg.argmax(x, axes=[axis], axis_direction="increasing"),
        lambda x: dg.join([x, sketch.pick(sources)()], axis=axis),
        lambda x: dg.slice(
            x, offsets=[0] * (axis + 1), sizes=[*x.sizes[:-1], 1], strides=[1] * axis + [sketch.integer(1, 3)]
        ),
        lambda x: dg.split(x, axis=axis, outputs=[1] * x.sizes[axis])[-1],
        lambda x: dg.tile(x, repeats=[2] * (axis + 1)),
        dg.sqrt,
    ]
    for _ in range(sketch.integer(1, 3)):
        sketch.keep(value)
        value = sketch.pick(steps)(value)
    sketch.keep(value)
    if sketch.chance(1, 2):
        sketch.keep(dg.multiply(sketch.fitting(value.dtype, value.sizes), value))


def chosen(sketch: Sketch) -> None:
    """if, its condition or a branch a number; softmax of a masked tensor."""
    x = sketch.float_value()
    mask = sketch.operand(DataType.UINT8, x.sizes)
    y = dg.if_(mask, x, sketch.uniform(x.dtype, x.sizes, -np.inf if sketch.chance(1, 2) and not sketch.tame else -1.0))
    sketch.keep(y)
    if sketch.chance(1, 2):
        sketch.keep(dg.activation_softmax1(y, axes=[len(y.sizes) - 1]))


# Heavy operators and their consumers.


def products(sketch: Sketch) -> None:
    """A GEMM, then numbers, a C, an activation."""
    dtype = sketch.pick((DataType.FLOAT32, DataType.FLOAT16))
    rows, inner, columns = (sketch.integer(1, 4) for _ in range(3))
    a = sketch.fitting(dtype, (1, 1, rows, inner))
    b = sketch.source(dtype, (1, 1, inner, columns))
    attributes: dict[str, Any] = {}
    if sketch.chance(1, 3):
        attributes = {"alpha": sketch.pick((0.5, 3.0, -1.0)), "beta": sketch.pick((1.0, 0.5))}
    c = sketch.operand(dtype, (1, 1, rows, columns)) if sketch.chance(1, 4) else None
    followed(sketch, dg.gemm(a, b, c, **attributes))


def joined_products(sketch: Sketch) -> None:
    """A thin GEMM with a join of two tensors, along what it sums or along its columns."""
    dtype = sketch.pick((DataType.FLOAT32, DataType.FLOAT16))
    rows, inner, columns = sketch.integer(1, 2), sketch.integer(2, 5), sketch.integer(2, 5)
    axis, right = sketch.integer(2, 3), (1, 1, inner, columns)
    first = sketch.integer(1, right[axis] - 1)
    sizes = [(*right[:axis], size, *right[axis + 1 :]) for size in (first, right[axis] - first)]
    cache = dg.join([sketch.fitting(dtype, each) for each in sizes], axis=axis)
    followed(sketch, dg.gemm(sketch.source(dtype, (1, 1, rows, inner)), cache))


def convolutions(sketch: Sketch) -> None:
    """A convolution, perhaps of taps as far apart as x is high, then a normalization, a bias, an activation."""
    dtype = sketch.pick((DataType.FLOAT32, DataType.FLOAT16))
    channels, filters = sketch.integer(1, 3), sketch.integer(1, 3)
    x = sketch.fitting(dtype, (1, channels, 4, 3))
    weights = (sketch.source if sketch.chance(1, 2) else _constant(sketch))(dtype, (filters, channels, 2, 2))
    far = sketch.chance(1, 3)  # whether a tap may meet padding alone
    start = sketch.pick((0, 2, 4)) if far else sketch.integer(0, 1)
    y = dg.convolution(
        x,
        weights,
        mode=sketch.pick(("cross_correlation", "convolution")) if far else "cross_correlation",
        direction="forward",
        strides=[1, 1],
        dilations=[4, 1] if far else [1, 1],
        start_padding=[start, 0],
        end_padding=[4 - start if far else 0, 0],
        output_padding=[0, 0],
        group_count=1,
    )
    sketch.keep(y)
    if sketch.chance(1, 2):
        shape = (1, filters, 1, 1)
        rng = sketch.random()
        mean, scale, bias = (sketch.constant(rng.normal(0, 1, shape).astype(dtype.numpy)) for _ in range(3))
        variance = sketch.constant(rng.uniform(0.5, 2, shape).astype(dtype.numpy))
        y = dg.batch_normalization(y, mean, variance, scale, bias, spatial=True, epsilon=1e-3)
        sketch.keep(y)
    if sketch.chance(1, 2):
        y = dg.add(y, sketch.pick((sketch.source, _constant(sketch)))(dtype, (1, filters, 1, 1)))
        sketch.keep(y)
    followed(sketch, y)


def sums(sketch: Sketch) -> None:
    """A sum of two tensors, or a product and a sum, then an activation or an affine map."""
    dtype = sketch.pick((DataType.FLOAT32, DataType.FLOAT16))
    a, b = sketch.fitting(dtype), sketch.input(dtype, sketch.sizes)
    followed(sketch, dg.add(dg.multiply(a, b), sketch.operand(dtype, sketch.sizes)) if sketch.chance(1, 3) else a + b)


def normalizations(sketch: Sketch) -> None:
    dtype = sketch.pick((DataType.FLOAT32, DataType.FLOAT16))
    x = sketch.fitting(dtype, (1, 2, 3, 2))
    shape = (1, 2, 1, 1)
    scale, bias = sketch.source(dtype, shape), sketch.source(dtype, shape)
    y = dg.mean_variance_normalization1(x, scale, bias, axes=[1, 2, 3], normalize_variance=True, epsilon=1e-3)
    followed(sketch, y)


def followed(sketch: Sketch, value: Value) -> None:
    """Operators that may follow a heavy operator."""
    sketch.keep(value)
    for _ in range(sketch.integer(0, 3)):
        kind = sketch.integer(0, 4)
        if kind <= 1:
            other = sketch.operand(value.dtype, value.sizes)
            pair = (value, other) if sketch.chance(1, 2) else (other, value)
            value = sketch.pick((dg.add, dg.add, dg.subtract))(*pair)
        elif kind == 2:
            value = line(sketch, value, 1)
        else:
            value = activation(sketch, value)
        sketch.keep(value)


def formulas(sketch: Sketch) -> None:
    """Formulas for which DirectML has an operator."""
    x = sketch.float_value()

    def number(value: float) -> Value:
        return sketch.uniform(x.dtype, x.sizes, value)

    formula = sketch.integer(0, 6)
    if formula == 0:
        sketch.keep(x * dg.activation_sigmoid(x * number(1.702) if sketch.chance(1, 2) else x))
    elif formula == 1:
        sketch.keep(x * dg.activation_hard_sigmoid(x, alpha=1 / 6, beta=0.5))
    elif formula == 2:
        sketch.keep(x * dg.clip(x + number(3.0), min=0, max=6) / number(6.0))
    elif formula == 3:
        sketch.keep(x * dg.min(dg.max(x * number(1 / 6) + number(0.5), number(0.0)), number(1.0)))
    elif formula == 4:
        sketch.keep(number(0.5) * x * (dg.erf(x / number(2**0.5)) + number(1.0)))
    elif formula == 5:
        sketch.keep(dg.max(x, x * number(sketch.pick((0.01, 0.25)))))
    else:
        sketch.keep(dg.add(dg.multiply(x, sketch.operand(x.dtype, x.sizes)), sketch.operand(x.dtype, x.sizes)))


def _row(sketch: Sketch, value: Value) -> Value:
    """A value that can be broadcast along the first dimension."""
    return sketch.fitting(value.dtype, (1, *value.sizes[1:]))


def _constant(sketch: Sketch) -> Callable[[DataType, Sequence[int]], Value]:
    return lambda dtype, sizes: sketch.constant(sketch.array(dtype, sizes))


# Whole graphs.

_SINGLE: tuple[Step, ...] = (plain_operator, any_operator, any_operator)
_NUMBERS: tuple[Step, ...] = (lines, bounds, neutral, integer_lines, powers)
_MOVING: tuple[Step, ...] = (copies, movements, repeated)
_CONSTANT: tuple[Step, ...] = (constants_only, constants_only, chosen, movements)
_WINDOWS: tuple[Step, ...] = (window, window, window, joined, joined, copied, reader, reader, reader, any_reader)
_VIEWS: tuple[Step, ...] = (*(view, view, view, element_wise, element_wise, product, along_axes, reordered, pictures),)
_ONES: tuple[Step, ...] = (mostly_ones, *(joined_views, joined_views, view), element_wise, product, along_axes)
_HEAVY: tuple[Step, ...] = (products, joined_products, convolutions, sums, normalizations)

FOCUSES: dict[str, tuple[Step, ...]] = {
    "operators": (*_SINGLE, repeated),
    "numbers": (*_NUMBERS, plain_operator, repeated),
    "movements": (*_MOVING, plain_operator),
    "constants": (*_CONSTANT, plain_operator),
    "products": (*_HEAVY, lines),
    "windows": (*_WINDOWS, any_operator),
    "views": _VIEWS,
    "ones": _ONES,
    "quantized": (quantized,),
    "formulas": (formulas, formulas, lines, bounds),
    "everything": (*_SINGLE, *_NUMBERS, *_MOVING, *_CONSTANT, *_HEAVY, formulas),
}


def build(choices: Choices, steps: Sequence[Step], level: str | None = None) -> Sample:
    """A graph of a few steps."""
    sketch = Sketch(choices, level)
    for _ in range(sketch.integer(1, MAX_STEPS)):
        with contextlib.suppress(dg.DmlGraphError):
            sketch.pick(steps)(sketch)
    sample = sketch.finish()
    try:
        fuse(sample.graph, rules=False)
    except dg.GraphError:  # the level has no copy for a view of such a tensor
        return build(choices, steps)
    return sample


class _Drawn:
    """Decisions of hypothesis, which searches for the smallest failing ones."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def integer(self, low: int, high: int) -> int:
        return self._draw(_integers(low, high))


@functools.cache
def _integers(low: int, high: int) -> st.SearchStrategy[int]:
    return st.integers(low, high)


@st.composite
def graphs(draw: st.DrawFn, focus: str = "everything", levels: Sequence[str | None] = LEVELS) -> Sample:
    """A graph with its inputs' data, of the steps of a focus, for one of some levels (None: the newest)."""
    choices = _Drawn(draw)
    return build(choices, FOCUSES[focus], levels[choices.integer(0, len(levels) - 1)])


def graph_of(seed: int, focus: str = "everything", level: str | None = None) -> Sample:
    """The graph of a seed."""
    return build(Dice(random.Random(seed)), FOCUSES[focus], level)
