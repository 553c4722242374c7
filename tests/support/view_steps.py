"""Steps of random graphs with views: chains of them, their readers of every kind, and several readers of each value.

Most sizes are larger than 1, and some are multiples of others, so that reshapes merge and split dimensions.  Other
steps have mostly dimensions of size 1: their order does not matter to memory, but to those who join and pad.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from support.sketches import MAX_ELEMENTS, Sketch, Value, transposed_strides

import dmlgraph as dg
from dmlgraph.base.tensor import MAX_RANK, DataType

SIZES = (1, 2, 2, 3, 4, 6)
ONES = (1, 1, 1, 1, 2, 3, 8)
SMALL = (1, 2, 2, 2)  # of as many dimensions as there may be, which leave none for the words of 64-bit numbers
DTYPES = (DataType.FLOAT32, DataType.FLOAT32, DataType.FLOAT16, DataType.INT32, DataType.UINT8, DataType.INT64)
OUTPUTS = (1, 4)  # of the values that others read


def view(sketch: Sketch) -> None:
    """One to three views in a chain; those between may be read too."""
    value = _value(sketch)
    for _ in range(sketch.integer(1, 3)):
        value = sketch.pick(VIEWS)(sketch, value)
        if sketch.chance(1, 2):
            sketch.keep(value)
    sketch.keep(value)


def reordered(sketch: Sketch) -> None:
    """What an operator writes in another order, as one dimension: the operator can write it so."""
    x = _value(sketch)
    made = sketch.pick((dg.negate, dg.abs, dg.activation_relu))(x)
    if sketch.chance(1, 4):
        sketch.keep(made)
    sketch.keep(permuted(sketch, made).reshape(-1))


def reshaped(sketch: Sketch, x: Value) -> Value:
    """Neighbouring dimensions become one, or one becomes two."""
    sizes = list(x.sizes)
    for _ in range(sketch.integer(1, 2)):
        axis = sketch.integer(0, len(sizes) - 1)
        factors = [each for each in range(1, sizes[axis] + 1) if sizes[axis] % each == 0]
        if sketch.chance(1, 2) and len(sizes) > 1:
            axis = min(axis, len(sizes) - 2)
            sizes[axis : axis + 2] = [sizes[axis] * sizes[axis + 1]]
        elif len(sizes) < MAX_RANK:
            factor = sketch.pick(factors)
            sizes[axis : axis + 1] = [factor, sizes[axis] // factor]
    if sketch.chance(1, 3):
        sizes[sketch.integer(0, len(sizes) - 1)] = -1
    return x.reshape(sizes)


def permuted(sketch: Sketch, x: Value) -> Value:
    """Any order; every third time the last two exchanged."""
    order = sorted(range(x.rank), key=lambda _: sketch.integer(0, 9))
    if sketch.chance(1, 3) and x.rank > 1:
        order = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
    return x.transpose([axis - x.rank if sketch.chance(1, 4) else axis for axis in order])


def repeated(sketch: Sketch, x: Value) -> Value:
    """Broadcast along dimensions of size 1 and new ones."""
    sizes = [sketch.integer(1, 3) if size == 1 else size for size in x.sizes]
    while len(sizes) < MAX_RANK and sketch.chance(1, 2):
        sizes.insert(0, sketch.integer(1, 3))
    return x.broadcast_to(sizes) if math.prod(sizes) <= MAX_ELEMENTS else x


def indexed(sketch: Sketch, x: Value) -> Value:
    """NumPy's basic indexing; every other time a view, which begins at the first element."""
    begins = sketch.chance(1, 2)
    index: list[object] = []
    for size in x.sizes:
        kind = sketch.integer(0, 5)
        if kind == 0:
            index.append(0 if begins else sketch.integer(-size, size - 1))
        elif kind <= 2:
            first = 0 if begins else sketch.integer(0, size - 1)
            last = sketch.integer(first + 1, size)
            step = sketch.pick((None, None, 2, 3))
            if not begins and sketch.chance(1, 3):
                index.append(slice(last - 1, first - 1 if first else None, sketch.pick((-1, -2))))
            else:
                index.append(slice(first, last, step))
        else:
            index.append(slice(None))
        if sketch.chance(1, 8):
            index.append(None)
    if sketch.chance(1, 4):
        while index and index[-1] == slice(None):
            index.pop()
        index.append(Ellipsis)
    return x[tuple(index)]


def squeezed(sketch: Sketch, x: Value) -> Value:
    """Dimensions of size 1 come or go."""
    ones = [axis for axis, size in enumerate(x.sizes) if size == 1]
    if ones and x.rank > 1 and sketch.chance(1, 2):
        return x.squeeze(sketch.pick(ones))
    return x.expand_dims(sketch.integer(-x.rank - 1, x.rank)) if x.rank < MAX_RANK else x


def flattened(sketch: Sketch, x: Value) -> Value:
    return x.flatten(sketch.integer(-x.rank, x.rank - 1))


VIEWS: tuple[Callable[[Sketch, Value], Value], ...] = (
    reshaped,
    reshaped,
    permuted,
    permuted,
    permuted,
    repeated,
    indexed,
    indexed,
    squeezed,
    flattened,
)


def mostly_ones(sketch: Sketch) -> None:
    """A value most of whose dimensions have size 1, computed from a source."""
    sizes = [sketch.pick(ONES) for _ in range(sketch.integer(2, 5))]
    x = sketch.source(sketch.pick(DTYPES), sizes)
    sketch.keep(sketch.pick((dg.negate, dg.abs, dg.activation_relu, dg.identity))(x))


def other_ones(sketch: Sketch, x: Value) -> Value:
    """The same elements in the same order, with dimensions of size 1 elsewhere."""
    sizes = [size for size in x.sizes if size != 1]
    most = min(MAX_RANK, 5)
    rank = x.rank if sketch.chance(2, 3) else sketch.integer(max(1, len(sizes)), max(most, x.rank))
    while len(sizes) < rank:
        sizes.insert(sketch.integer(0, len(sizes)), 1)
    kind = sketch.integer(0, 2)
    if kind == 0 or rank != x.rank:
        return x.reshape(sizes)
    if kind == 1:  # dimensions of size 1 and others change places
        rest, ones = ([axis for axis in range(x.rank) if (x.sizes[axis] == 1) is one] for one in (False, True))
        return x.transpose([ones.pop(0) if size == 1 else rest.pop(0) for size in sizes])
    for axis in reversed([axis for axis, size in enumerate(x.sizes) if size == 1]):
        if x.rank > 1:
            x = x.squeeze(axis)
    for axis in [axis for axis, size in enumerate(sizes) if size == 1][x.rank - rank :]:
        if x.rank < rank:
            x = x.expand_dims(axis)
    return x


def joined_views(sketch: Sketch) -> None:
    """A join or a padding of views of computed values that differ from them in dimensions of size 1."""
    first = other_ones(sketch, _value(sketch))
    axis = sketch.integer(0, first.rank - 1)
    if sketch.chance(1, 4):
        start, end = ([sketch.integer(0, 1) for _ in first.sizes] for _ in range(2))
        sketch.keep(dg.padding(first, padding_mode="constant", padding_value=1, start_padding=start, end_padding=end))
        return

    def fitting(value: Value) -> Value | None:
        """A view of the value that can be joined with the first one, of its length along the axis."""
        rest = math.prod(first.sizes) // first.sizes[axis]
        elements = math.prod(value.sizes)
        if value.dtype is not first.dtype or elements % rest:
            return None
        sizes = [elements // rest if each == axis else size for each, size in enumerate(first.sizes)]
        return value.reshape(sizes)

    others = [view for view in map(fitting, sketch.values[-8:]) if view is not None]
    parts = [first, *(sketch.pick([first, *others]) for _ in range(sketch.integer(1, 3)))]
    at = sketch.integer(0, len(parts) - 1)
    parts = parts[at:] + parts[:at]
    if sum(math.prod(each.sizes) for each in parts) <= MAX_ELEMENTS:
        joined = dg.join(parts, axis=axis)
        sketch.keep(joined if sketch.chance(1, 2) else other_ones(sketch, joined))


def element_wise(sketch: Sketch) -> None:
    """One or two values, broadcast together; every fifth writes with strides."""
    x = _value(sketch)
    kind = sketch.integer(0, 4)
    output = {"strides": transposed_strides(x.sizes)} if sketch.chance(1, 5) else None
    if kind <= 1:
        sketch.keep(sketch.pick((dg.negate, dg.abs, dg.activation_relu, dg.identity))(x, output=output))
    elif kind == 2:
        sketch.keep(dg.cast(x, dtype=sketch.pick(DTYPES)))
    else:
        fitting = [x, *(each for each in sketch.values if each.dtype is x.dtype and _broadcast(each.sizes, x.sizes))]
        pair = [x, sketch.pick(fitting)]
        sketch.keep(sketch.pick((dg.add, dg.subtract, dg.max))(*(pair if sketch.chance(1, 2) else pair[::-1])))


def product(sketch: Sketch) -> None:
    """A matrix with another, or with its own transpose."""
    x = _value(sketch, DataType.FLOAT32)
    if x.rank < 2:
        return
    columns = x.sizes[-1]
    others = [
        each
        for each in sketch.values
        if each.dtype is x.dtype
        and each.rank == x.rank
        and each.sizes[-2] == columns
        and each.sizes[:-2] == x.sizes[:-2]
    ]
    own = x.transpose([*range(x.rank - 2), x.rank - 1, x.rank - 2])
    y = sketch.pick([own, own, *others])
    sketch.keep(x @ y if sketch.chance(3, 4) else dg.gemm(x, own, trans_a="transpose", trans_b="transpose"))


def along_axes(sketch: Sketch) -> None:
    """Operators of one tensor that look along its dimensions."""
    x = _value(sketch, DataType.FLOAT32)
    axis = sketch.integer(-x.rank, x.rank - 1)
    kinds: list[Callable[[], object]] = [
        lambda: dg.reduce(x, function=sketch.pick(("sum", "max", "average", "argmax")), axes=[axis]),
        lambda: dg.activation_softmax1(x, axes=[axis]),
        lambda: dg.cumulative_summation(x, axis=axis, axis_direction="increasing", has_exclusive_sum=False),
        lambda: dg.mean_variance_normalization1(x, axes=[axis], normalize_variance=True, epsilon=1e-2),
        lambda: dg.split(x, axis=axis, outputs=[1] * x.sizes[axis]),
        lambda: dg.join([x, sketch.pick(VIEWS)(sketch, x), x] if sketch.chance(1, 4) else [x, x], axis=axis),
        lambda: dg.tile(x, repeats=[sketch.integer(1, 2) for _ in x.sizes]),
        lambda: dg.top_k(x, axis=axis, k=1),
        lambda: dg.padding(
            x,
            padding_mode="constant",
            padding_value=1,
            start_padding=[sketch.integer(0, 1) for _ in x.sizes],
            end_padding=[0] * x.rank,
        ),
        lambda: dg.gather(
            x,
            sketch.graph.constant(f"i{len(sketch.graph.nodes)}", np.zeros([1] * x.rank, np.uint32)),
            axis=axis,
            index_dimensions=1,
        ),
    ]
    made = sketch.pick(kinds)()
    sketch.keep(*(made if isinstance(made, tuple) else (made,)))


def pictures(sketch: Sketch) -> None:
    """Operators of [N, C, H, W]."""
    x = _value(sketch, DataType.FLOAT32)
    if x.rank != 4:
        return
    channels = x.sizes[1]
    kinds: list[Callable[[], Value]] = [
        lambda: dg.max_pooling(x, window_size=1, strides=1),
        lambda: dg.average_pooling(x, window_size=[1, x.sizes[3]], strides=1),
        lambda: dg.convolution(x, sketch.source(DataType.FLOAT32, (2, channels, 1, 1)), group_count=1),
        lambda: dg.depth_to_space1(x, block_size=1, order="depth_column_row"),
        lambda: dg.upsample_2d(x, scale_size=[2, 2], interpolation_mode="nearest_neighbor"),
    ]
    sketch.keep(sketch.pick(kinds)())


def _value(sketch: Sketch, dtype: DataType | None = None) -> Value:
    """An existing value, preferably one of the latest; at the beginning, or where none fits, a new one."""
    sketch.outputs = OUTPUTS
    fitting = [each for each in sketch.values if dtype in (None, each.dtype)]
    if not fitting or sketch.chance(1, 8):
        rank = sketch.pick((1, 2, 3, 3, 4, 4, 5, MAX_RANK))
        sizes = [sketch.pick(SIZES if rank < MAX_RANK else SMALL) for _ in range(rank)]
        value = sketch.source(dtype or sketch.pick(DTYPES), sizes)
        sketch.keep(value)
        return value
    return sketch.pick(fitting[-4:] if sketch.chance(2, 3) else fitting)


def _broadcast(one: Sequence[int], other: Sequence[int]) -> bool:
    pairs = zip(reversed(one), reversed(other), strict=False)
    return all(a == b or 1 in (a, b) for a, b in pairs)
