"""Steps of random graphs whose values share memory: windows, joins, copies, and several readers of each.

About half of the parts begin at multiples of 16 bytes, where DirectML removes copies.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from support.sketches import MAX_ELEMENTS, PLAIN, Sketch, Value, transposed_strides

import dmlgraph as dg
from dmlgraph.base.tensor import DataType

SIZES = (1, 2, 3, 4, 8, 16)
DTYPES = (DataType.FLOAT32, DataType.FLOAT32, DataType.FLOAT32, DataType.FLOAT16, DataType.INT32, DataType.INT8)


def scaled(x: Value) -> Value:
    """Fused, a copy with a ScaleBias."""
    return x * 2 + 1


UNARY: tuple[Callable[[Value], Value], ...] = (dg.negate, dg.abs, dg.sign, dg.activation_relu, scaled)
BINARY = (dg.add, dg.subtract, dg.max, dg.min)
OUTPUTS = (1, 3)  # of the values that others read


def window(sketch: Sketch) -> None:
    """A slice or a split along one axis, or a slice along any; parts of a split need not be read."""
    x = _value(sketch)
    axes, axis = range(len(x.sizes)), sketch.integer(0, len(x.sizes) - 1)
    if sketch.chance(1, 4):
        parts, rest = [], x.sizes[axis]
        while rest:
            parts.append(sketch.integer(1, rest))
            rest -= parts[-1]
        results = dg.split(x, axis=axis, outputs=parts)
        sketch.keep(*(results if isinstance(results, tuple) else (results,)))
        return
    cut = {axis} if sketch.chance(3, 4) else {each for each in axes if sketch.chance(1, 2)}
    offsets, sizes, steps = [0] * len(axes), list(x.sizes), [1] * len(axes)
    for each in cut:
        sizes[each] = sketch.integer(1, x.sizes[each])
        offsets[each] = sketch.integer(0, x.sizes[each] - sizes[each]) if sketch.chance(2, 3) else 0
        if sketch.chance(1, 6):
            steps[each] = 2
    kept = [(size + step - 1) // step for size, step in zip(sizes, steps, strict=True)]
    if sketch.chance(1, 2):
        sketch.keep(dg.slice(x, offsets=offsets, sizes=kept, strides=steps))
    else:
        sketch.keep(dg.slice1(x, input_window_offsets=offsets, input_window_sizes=sizes, input_window_strides=steps))


def joined(sketch: Sketch) -> None:
    """A join of one value or several, some of them twice."""
    x = _value(sketch)
    axis = sketch.integer(0, len(x.sizes) - 1)
    fitting = [each for each in sketch.values if each.dtype is x.dtype and _without(each, axis) == _without(x, axis)]
    parts = [x, *(sketch.pick(fitting) for _ in range(sketch.pick((0, 0, 0, 1, 2))))]
    first = sketch.integer(0, len(parts) - 1)
    parts = parts[first:] + parts[:first]
    if sum(math.prod(each.sizes) for each in parts) <= MAX_ELEMENTS:
        sketch.keep(dg.join(parts, axis=axis))


def copied(sketch: Sketch) -> None:
    """Copies that DirectML may remove."""
    x = _value(sketch)
    rank = len(x.sizes)
    copies: list[Callable[[], Value]] = [
        lambda: dg.identity(x),
        lambda: dg.identity(x),
        lambda: dg.tile(x, repeats=[1] * rank),
        lambda: dg.cast(x, dtype=x.dtype),
        lambda: dg.slice(x, offsets=[0] * rank, sizes=x.sizes, strides=[1] * rank),
        lambda: dg.identity(x, output={"strides": transposed_strides(x.sizes)}),
    ]
    sketch.keep(sketch.pick(copies)())


def reader(sketch: Sketch) -> None:
    """An element-wise operator: of one value, of two of the same sizes, of two that are broadcast."""
    x = _value(sketch)
    kind = sketch.integer(0, 4)
    if kind <= 2:
        sketch.keep(sketch.pick(UNARY)(x))
        return
    alike = [each for each in sketch.values if each.dtype is x.dtype and each.sizes == x.sizes]
    if kind == 4:
        alike = [each for each in sketch.values if each.dtype is x.dtype and _broadcasts(each, x)]
    other = sketch.pick(alike)
    pair = (x, other) if sketch.chance(1, 2) else (other, x)
    sketch.keep(sketch.pick(BINARY)(*pair))


def any_reader(sketch: Sketch) -> None:
    """Any operator whose tensors all have the same type and sizes, on existing values."""
    x = _value(sketch)
    sketch.sizes = x.sizes
    sketch.plain(sketch.pick(PLAIN))


def _value(sketch: Sketch) -> Value:
    """An existing value, preferably one of the latest; at the beginning a new one."""
    sketch.outputs = OUTPUTS
    if not sketch.values or sketch.chance(1, 12):
        sizes = [sketch.pick(SIZES) for _ in range(sketch.pick((1, 2, 3, 4, 4)))]
        while math.prod(sizes) > MAX_ELEMENTS // 4:
            sizes[sizes.index(max(sizes))] = 1
        source = sketch.source(sketch.pick(DTYPES), sizes)
        sketch.keep(source)
        if sketch.chance(1, 2):
            sketch.keep(sketch.pick(UNARY)(source))
    latest = sketch.values[-3:] if sketch.chance(2, 3) else sketch.values
    return sketch.pick(latest)


def _without(value: Value, axis: int) -> tuple[int, ...]:
    return (len(value.sizes), *value.sizes[:axis], *value.sizes[axis + 1 :])


def _broadcasts(value: Value, to: Value) -> bool:
    return len(value.sizes) == len(to.sizes) and all(
        one in (1, other) for one, other in zip(value.sizes, to.sizes, strict=True)
    )
