"""Operators on shapes: views, parts, joints, padding, masks; and the layouts of images."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dmlgraph.base.levels import FeatureLevel
from dmlgraph.formats.onnx.export.emitter import Emitter, Sizes, Symbol
from dmlgraph.formats.onnx.node import Ints, Maybe, Node, Result, at_axis, broadcast
from dmlgraph.formats.onnx.refusals import ByDefinition, Refusal, one_of
from dmlgraph.formats.onnx.table import exports, imports
from dmlgraph.formats.onnx.tensors import Appended, Array, Calls, Tensor, repeated
from dmlgraph.graph.value import Value
from dmlgraph.operators.common.numerics import cut
from dmlgraph.operators.common.subscripts import take
from dmlgraph.operators.directml_enums import DepthSpaceOrder

_TO_THE_START = -(2**63) + 1  # the end of a slice that goes back to the first element


@imports(how="reshape")
def Reshape(node: Node, data: Tensor, shape: Ints, *, allowzero: int = 0) -> Tensor:
    wanted = node.ints("shape", shape, [])
    if not allowzero:
        if any(size == 0 and axis >= data.rank for axis, size in enumerate(wanted)):
            raise Refusal("0 keeps the size of a dimension that the input lacks", code="sizes", field="shape")
        wanted = [size or data.shape[axis] for axis, size in enumerate(wanted)]
    if wanted.count(-1) == 1:
        rest = math.prod(size for size in wanted if size != -1)
        wanted[wanted.index(-1)] = data.count // rest if rest else 0
    return viewed(node, data, wanted)


def viewed(node: Node, x: Tensor, shape: Sequence[int]) -> Tensor:
    """The elements in another shape.

    Raises:
        Refusal: the shape has another number of elements.
    """
    if math.prod(shape) != x.count or min(shape, default=0) < 0:
        message = "the shape has another number of elements"
        raise Refusal(message, code="sizes", got=list(shape), allowed=f"{x.count} elements, of {list(x.shape)}")
    made = node.reshaped(x, tuple(shape) or (1,))
    return Tensor(x.dtype, tuple(shape), made=made)


@exports("reshape", "flatten", "squeeze", "expand_dims", how="Reshape")
def _reshape(node: Emitter) -> Symbol:
    return node.reshape(node["input"], node.output.sizes, node.desc("input").sizes)


@exports("stop_gradient", how="Identity")
def _still(node: Emitter) -> Symbol:
    return node.call("Identity", node["input"])


@imports(how="reshape")
def Flatten(node: Node, input: Tensor, *, axis: int = 1) -> Result:
    axis = at_axis(axis, input.rank + 1) if axis >= 0 else at_axis(axis, input.rank)
    return viewed(node, input, [math.prod(input.shape[:axis]), math.prod(input.shape[axis:])])


@imports(how="known")
def Size(node: Node, data: Tensor) -> Tensor:
    return Tensor.of(np.int64(data.count))


@imports(how="known")
def Shape(node: Node, data: Tensor, *, start: int = 0, end: int | None = None) -> Array:
    return np.asarray(data.shape[start:end], np.int64)


@imports(how="reshape")
def Squeeze(node: Node, data: Tensor, axes: Ints = None) -> Tensor:
    places = node.ints("axes", axes)
    if places is None:
        return viewed(node, data, [size for size in data.shape if size != 1])
    gone = {at_axis(axis, data.rank) for axis in places}
    return viewed(node, data, [size for axis, size in enumerate(data.shape) if axis not in gone])


@imports(how="reshape")
def Unsqueeze(node: Node, data: Tensor, axes: Ints) -> Tensor:
    places = node.ints("axes", axes, [])
    rank = data.rank + len(places)
    new = {at_axis(axis, rank) for axis in places}
    if len(new) < len(places):
        raise Refusal("an axis is given twice", code="duplicate", field="axes", got=places)
    sizes = iter(data.shape)
    return viewed(node, data, [1 if axis in new else next(sizes) for axis in range(rank)])


@imports(how="transpose")
def Transpose(node: Node, data: Tensor, *, perm: list[int] | None = None) -> Result:
    order = perm or list(reversed(range(data.rank)))
    if sorted(order) != list(range(data.rank)):
        raise Refusal("is not an order of the dimensions", code="range", field="perm", got=order)
    return data if data.rank < 2 else node.transposed(data, order)


@exports("transpose", how="Transpose")
def _transpose(node: Emitter) -> Symbol:
    return node.transpose(node["input"], node.field("permutation"))


@imports(since=8, how="broadcast_to")
def Expand(node: Node, input: Tensor, shape: Tensor) -> Result:
    whole = broadcast([input, Tensor(input.dtype, tuple(node.ints("shape", shape, [])))])
    is_weight = input.dtype.kind == "f" and math.prod(input.shape) > 1 and 0 not in whole
    if input.known is not None and not is_weight:  # a weight that is repeated for a batch can follow the dim as a node
        return repeated(input.known, whole)
    if 0 in whole:
        return np.empty(whole, input.dtype)
    return node.tensor(node.expanded(input, whole or (1,)), whole)


@exports("broadcast_to", how="Expand")
def _broadcast(node: Emitter) -> Symbol:
    return node.expand(node["input"], node.output.sizes, node.desc("input").sizes)


@imports(how="join")
def Concat(node: Node, *inputs: Tensor, axis: int) -> Tensor:
    node.there(0, node.inputs[0])
    return concatenated(node, inputs, at_axis(axis, inputs[0].rank))


def concatenated(node: Node, tensors: Sequence[Tensor], axis: int) -> Tensor:
    """Tensors one after another along an axis; those without elements add none."""
    if all(each.known is not None for each in tensors):
        return Tensor.of(np.concatenate([each.known for each in tensors if each.known is not None], axis))
    parts = [each for each in tensors if 0 not in each.shape]
    if len(parts) == 1:
        return parts[0]
    made = node.tensor(node.join(parts, axis=axis))
    made.appended = appended(parts[0], parts[1:], axis)
    return made


def appended(past: Tensor, rows: Sequence[Tensor], axis: int) -> Appended:
    """Past rows, and new ones of one or several tensors."""

    def together(calls: Calls) -> Value:
        return calls.value(rows[0]) if len(rows) == 1 else calls.join(rows, axis=axis)

    return Appended(past, together, axis)


@exports("join", how="Concat")
def _join(node: Emitter) -> Symbol:
    parts = node.all("inputs")
    return parts[0] if len(parts) == 1 else node.call("Concat", *parts, axis=node.field("axis"))


@imports(how="split")
def Split(node: Node, input: Tensor, split: Ints = None, *, axis: int = 0, num_outputs: int | None = None) -> Result:
    x, axis = input, at_axis(axis, input.rank)
    whole, count = x.shape[axis], len(node.outputs)
    sizes = node.ints("split", split)
    if sizes is None:
        if num_outputs is None and whole % count:
            raise Refusal("cannot be split into equal parts", code="sizes", got=whole, allowed=f"a multiple of {count}")
        part = -(-whole // max(count, 1))
        sizes = [max(0, min(part, whole - index * part)) for index in range(count)]
    if sum(sizes) != whole or min(sizes) < 0 or len(sizes) != count:
        raise Refusal("the parts do not add up to the size", code="sizes", got=sizes, allowed=str(whole))
    parts: Iterator[Any] = iter(
        [x] if sizes.count(0) == count - 1 else node.split(x, axis=axis, outputs=[*filter(None, sizes)])
    )
    empty = [0 if each == axis else size for each, size in enumerate(x.shape)]
    return [next(parts) if size else np.empty(empty, x.dtype) for size in sizes]


@exports("split", how="Split")
def _split(node: Emitter) -> list[Symbol]:
    parts, axis = node.field("outputs"), node.field("axis")
    if len(parts) == 1:
        return [node["input"]]
    lengths = node.ints([part.sizes[axis] for part in parts])
    return node.calls("Split", node["input"], lengths, dtypes=[node.dtype] * len(parts), axis=axis)


@imports(how="slice1")
def Slice(node: Node, data: Tensor, starts: Ints, ends: Ints, axes: Ints = None, steps: Ints = None) -> Tensor:
    first = node.ints("starts", starts, [])
    count = [len(first)]
    last = node.ints("ends", ends, [], counts=count)
    along = node.ints("axes", axes, range(len(first)), counts=count)
    by = node.ints("steps", steps, [1] * len(first), counts=count)
    places = [slice(None)] * data.rank
    for axis, start, end, step in zip(along, first, last, by, strict=True):
        if step == 0:
            raise Refusal("a step must not be 0", code="range", field="steps", got=by)
        size = data.shape[at_axis(axis, data.rank)]
        stop = None if step < 0 and end < -size else end  # beyond the first element
        places[at_axis(axis, data.rank)] = slice(start, stop, step)
    return sliced(node, data, places)


def sliced(node: Node, x: Tensor, places: Sequence[slice]) -> Tensor:
    """NumPy's basic slicing."""
    ranges = [range(size)[place] for size, place in zip(x.shape, places, strict=True)]
    shape = tuple(map(len, ranges))
    if shape == x.shape and all(each.step > 0 for each in ranges):
        return x
    if 0 in shape:
        return Tensor.of(np.empty(shape, x.dtype))
    made = node.slice1(
        x,
        input_window_offsets=[min(each[0], each[-1]) for each in ranges],
        input_window_sizes=[abs(each[-1] - each[0]) + 1 for each in ranges],
        input_window_strides=[each.step if len(each) > 1 else 1 for each in ranges],
    )
    return Tensor(x.dtype, shape, made=made)


@exports("subscript", how="Slice, Reshape")
def _subscript(node: Emitter) -> Symbol:
    sizes = node.desc("input").sizes
    taken = take(node.field("index"), sizes)
    made = emit_slice(node, node["input"], sizes, taken.starts, taken.steps, taken.counts)
    return node.reshape(made, taken.sizes, taken.counts)


def emit_slice(node: Emitter, x: Symbol, sizes: Sizes, starts: Sizes, steps: Sizes, counts: Sizes) -> Symbol:
    """The elements start + step · i for i below the count, in every dimension."""
    rows = [
        (axis, start, _TO_THE_START if (end := start + step * (count - 1) + (1 if step > 0 else -1)) < 0 else end, step)
        for axis, (size, start, step, count) in enumerate(zip(sizes, starts, steps, counts, strict=True))
        if (start, step, count) != (0, 1, size)
    ]
    if not rows:
        return x
    axes, firsts, ends, strides = (node.ints(each) for each in zip(*rows, strict=True))
    return node.call("Slice", x, firsts, ends, axes, strides)


@exports("slice", how="Slice")
def _slice(node: Emitter) -> Symbol:
    starts, steps, counts = node.field("offsets"), node.field("strides"), node.field("sizes")
    return emit_slice(node, node["input"], node.desc("input").sizes, starts, steps, counts)


@exports("slice1", how="Slice")
def _slice1(node: Emitter) -> Symbol:
    return emit_slice(node, node["input"], node.desc("input").sizes, *_window(node), node.output.sizes)


def _window(node: Emitter) -> tuple[list[int], list[int]]:
    """Where a window with strides starts in every dimension, and its steps."""
    offsets, sizes, strides = (node.field(f"input_window_{each}") for each in ("offsets", "sizes", "strides"))
    starts = [
        offset if stride > 0 else offset + size - 1
        for offset, size, stride in zip(offsets, sizes, strides, strict=True)
    ]
    return starts, list(strides)


@imports(how="tile")
def Tile(node: Node, input: Tensor, repeats: Tensor) -> Result:
    counts = node.ints("repeats", repeats, [])
    if len(counts) != input.rank or min(counts, default=1) < 0:
        raise Refusal("needs a number of at least 0 for each dimension", code="range", field="repeats", got=counts)
    if 0 in counts:
        return np.empty([size * count for size, count in zip(input.shape, counts, strict=True)], input.dtype)
    return input if not counts else node.tile(input, repeats=counts)


@exports("tile", how="Tile")
def _tile(node: Emitter) -> Symbol:
    return node.call("Tile", node["input"], node.ints(node.field("repeats")))


_ORDERS = {"DCR": "depth_column_row", "CRD": "column_row_depth"}


@exports("slice_grad", how="Pad, Gather")
def _slice_gradient(node: Emitter) -> Symbol:
    """Along each dimension: a zero after the elements, and each place takes its element or the zero."""
    x, counts, sizes = node["input_gradient"], node.desc("input_gradient").sizes, node.output.sizes
    for axis, (start, step) in enumerate(zip(*_window(node), strict=True)):
        count, size = counts[axis], sizes[axis]
        if (start, step, count) == (0, 1, size):
            continue
        pads = [0] * (2 * len(sizes))
        pads[len(sizes) + axis] = 1
        places = np.full(size, count)
        places[start + step * np.arange(count)] = np.arange(count)
        x = node.taken_along(node.call("Pad", x, node.ints(pads), node.number(0, x.dtype)), axis, places)
    return x


@imports(how="depth_to_space1")
def DepthToSpace(node: Node, input: Tensor, *, blocksize: int, mode: str = "DCR") -> Result:
    one_of("mode", mode, _ORDERS)
    return node.tensor(node.depth_to_space1(input, block_size=blocksize, order=_ORDERS[mode]))


@exports("depth_to_space", "depth_to_space1", how="DepthToSpace")
def _depth_to_space(node: Emitter) -> Symbol:
    mode = "CRD" if node.field("order") is DepthSpaceOrder.COLUMN_ROW_DEPTH else "DCR"
    sizes = node.desc("input").sizes
    x = node.reshape(node["input"], (int(np.prod(sizes[:-3])), *sizes[-3:]), sizes)
    made = node.call("DepthToSpace", x, blocksize=node.field("block_size"), mode=mode)
    return made if len(sizes) == 4 else node.reshape(made, node.output.sizes)


@imports(how="space_to_depth1")
def SpaceToDepth(node: Node, input: Tensor, *, blocksize: int, mode: str = "DCR") -> Result:
    if mode != "DCR":
        raise ByDefinition
    return node.tensor(node.space_to_depth1(input, block_size=blocksize))


@exports("space_to_depth", "space_to_depth1", how="SpaceToDepth; column_row_depth: Reshape, Transpose")
def _space_to_depth(node: Emitter) -> Symbol:
    block, sizes = node.field("block_size"), node.desc("input").sizes
    *front, channels, height, width = sizes
    batch = int(np.prod(front))
    if node.field("order") is DepthSpaceOrder.DEPTH_COLUMN_ROW:
        x = node.reshape(node["input"], (batch, channels, height, width), sizes)
        made = node.call("SpaceToDepth", x, blocksize=block)
        return made if len(sizes) == 4 else node.reshape(made, node.output.sizes)
    blocks = node.reshape(node["input"], (batch, channels, height // block, block, width // block, block))
    return node.reshape(node.transpose(blocks, (0, 1, 3, 5, 2, 4)), node.output.sizes)


@imports(since=14, how="if_ with a constant mask")
def Trilu(node: Node, input: Tensor, k: Maybe = None, *, upper: int = 1) -> Tensor:
    rows, columns = input.shape[-2:]
    diagonal = max(-rows, min(int(node.scalar(k, 0)), columns))
    mask = np.tri(rows, columns, diagonal - 1 if upper else diagonal, dtype=bool)
    kept = Tensor.of(~mask if upper else mask)
    return node.tensor(node.if_(kept, input, Tensor.of(np.zeros((1, 1), input.dtype))), input.shape)


def as_channels_first(node: Node, x: Tensor) -> Tensor:
    """{N, spatial…, C} as {N, C, spatial…}."""
    return node.tensor(node.transposed(x, [0, x.rank - 1, *range(1, x.rank - 1)]))


def as_channels_last(node: Node, x: Tensor) -> Tensor:
    """{N, C, spatial…} as {N, spatial…, C}."""
    return node.tensor(node.transposed(x, [0, *range(2, x.rank), 1]))


_PADDING = "padding, slice1; wrap below level 6.4: slice1, join"
_MODES = {"constant": "constant", "reflect": "reflection", "edge": "edge", "wrap": "wrap"}  # ONNX's: dmlgraph's
# NumPy's modes, which repeat where the padding is wider than the tensor, are ONNX's and one more.
_NUMPY = {ours: theirs for theirs, ours in _MODES.items()} | {"symmetric": "symmetric"}


@imports(how=_PADDING)
def Pad(
    node: Node,
    data: Tensor,
    pads: Ints,
    constant_value: Maybe = None,
    axes: Maybe = None,
    *,
    mode: str = "constant",
    value: float = 0,
) -> Tensor:
    one_of("mode", mode, _MODES)
    widths = node.ints("pads", pads, [])
    places = [at_axis(axis, data.rank) for axis in node.ints("axes", axes, range(data.rank))]
    return _padded(node, data, widths, places, mode, node.scalar(constant_value, value))


def _padded(node: Node, x: Tensor, pads: Sequence[int], axes: Sequence[int], mode: str, value: float) -> Tensor:
    if len(pads) != 2 * len(axes):
        raise Refusal("needs two numbers for each axis", code="count", field="pads", got=pads)
    before, after = [0] * x.rank, [0] * x.rank
    for index, axis in enumerate(axes):
        before[axis], after[axis] = pads[index], pads[index + len(axes)]
    cut = sliced(node, x, [_cut(*each) for each in zip(before, after, x.shape, strict=True)])
    if 0 in cut.shape:
        return _all_padding(cut, before, after, mode, value)
    before, after = [max(each, 0) for each in before], [max(each, 0) for each in after]
    if not any(before) and not any(after):
        return cut
    if mode == "wrap" and node.level < FeatureLevel.V6_4:
        return _wrapped(node, cut, before, after)
    return node.tensor(
        node.padding1(cut, padding_mode=_MODES[mode], padding_value=value, start_padding=before, end_padding=after)
    )


def _wrapped(node: Node, x: Tensor, before: Sequence[int], after: Sequence[int]) -> Tensor:
    """A tensor repeated in all directions, by joining parts: below level 6.4 DirectML's padding cannot."""
    for axis, (first, last) in enumerate(zip(before, after, strict=True)):
        size = x.shape[axis]
        parts, begin = [], -first
        while begin < size + last:
            end = min((begin // size + 1) * size, size + last)
            span = slice(begin % size, begin % size + end - begin)
            parts.append(sliced(node, x, [span if each == axis else slice(None) for each in range(x.rank)]))
            begin = end
        x = concatenated(node, parts, axis)
    return x


def _all_padding(cut: Tensor, before: Sequence[int], after: Sequence[int], mode: str, value: float) -> Tensor:
    """A tensor without elements, padded: nothing but the number."""
    shape = [size + max(first, 0) + max(last, 0) for size, first, last in zip(cut.shape, before, after, strict=True)]
    if mode != "constant" and 0 not in shape:
        message = "a tensor without elements has no element to repeat"
        raise Refusal(message, code="empty-tensor", field="mode", got=mode, allowed="constant")
    return Tensor.of(np.broadcast_to(np.asarray(value, cut.dtype), shape))


def _cut(before: int, after: int, size: int) -> slice:
    """What negative padding leaves of a dimension."""
    return slice(max(-before, 0), size - max(-after, 0))


@exports("padding", "padding1", how="Pad; symmetric, and wider than the tensor: Gather")
def _pad(node: Emitter) -> Symbol:
    x, mode = node["input"], _NUMPY[str(node.field("padding_mode"))]
    starts, ends, sizes = node.field("start_padding"), node.field("end_padding"), node.desc("input").sizes
    if not any((*starts, *ends)):
        return x
    pads = node.ints([*starts, *ends])
    if mode == "constant":
        value = node.field("padding_value")
        number = cut(value, node.output.dtype) if isinstance(value, float) else value.value
        return node.call("Pad", x, pads, node.number(number, x.dtype), mode="constant")
    narrow = all(max(pair) < size for *pair, size in zip(starts, ends, sizes, strict=True))
    if mode == "edge" or (mode == "reflect" and narrow):
        return node.call("Pad", x, pads, mode=mode)
    for axis, (start, end, size) in enumerate(zip(starts, ends, sizes, strict=True)):
        if start or end:
            x = node.taken_along(x, axis, np.pad(np.arange(size), (start, end), mode))  # type: ignore[call-overload]
    return x
