"""Operators on shapes: views, parts, joints, padding, fills, masks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from dmlgraph.base.levels import FeatureLevel
from dmlgraph.formats.onnx.node import Ints, Maybe, Node, Result, at_axis, broadcast, numbered_dtype
from dmlgraph.formats.onnx.refusals import ByDefinition, Refusal, unsupported
from dmlgraph.formats.onnx.table import imports
from dmlgraph.formats.onnx.tensors import Array, Calls, Tensor, stored
from dmlgraph.graph.value import Value


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
    made = node.dml.reshaped(x, tuple(shape) or (1,))
    return Tensor(x.dtype, tuple(shape), made=made)


@imports(how="reshape")
def Flatten(node: Node, input: Tensor, *, axis: int = 1) -> Result:
    axis = at_axis(axis, input.rank + 1) if axis >= 0 else at_axis(axis, input.rank)
    return viewed(node, input, [math.prod(input.shape[:axis]), math.prod(input.shape[axis:])])


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
    return data if data.rank < 2 else node.dml.transposed(data, order)


@imports(since=8, how="broadcast_to")
def Expand(node: Node, input: Tensor, shape: Tensor) -> Result:
    whole = broadcast([input, Tensor(input.dtype, tuple(node.ints("shape", shape, [])))])
    if input.known is not None:
        return np.broadcast_to(input.known, whole)
    if 0 in whole:
        return np.empty(whole, input.dtype)
    return node.tensor(node.dml.expanded(input, whole or (1,)), whole)


@imports(how="join")
def Concat(node: Node, *inputs: Tensor, axis: int) -> Tensor:
    node.there(0, node.inputs[0])
    return concatenated(node, inputs, at_axis(axis, inputs[0].rank))


def concatenated(node: Node, tensors: Sequence[Tensor], axis: int) -> Tensor:
    """Tensors one after another along an axis; those without elements add none."""
    if all(each.known is not None for each in tensors):
        return Tensor.of(np.concatenate([each.known for each in tensors if each.known is not None], axis))
    parts = [each for each in tensors if 0 not in each.shape]
    return parts[0] if len(parts) == 1 else node.tensor(node.dml.join(parts, axis=axis))


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
    parts = iter([x] if sizes.count(0) == count - 1 else node.dml.split(x, axis=axis, outputs=[*filter(None, sizes)]))
    empty = [0 if each == axis else size for each, size in enumerate(x.shape)]
    return [next(parts) if size else np.empty(empty, x.dtype) for size in sizes]


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
    return sliced(node.dml, data, places)


def sliced(dml: Calls, x: Tensor, places: Sequence[slice]) -> Tensor:
    """NumPy's basic slicing."""
    ranges = [range(size)[place] for size, place in zip(x.shape, places, strict=True)]
    shape = tuple(map(len, ranges))
    if shape == x.shape and all(each.step > 0 for each in ranges):
        return x
    if 0 in shape:
        return Tensor.of(np.empty(shape, x.dtype))
    made = dml.slice1(
        x,
        input_window_offsets=[min(each[0], each[-1]) for each in ranges],
        input_window_sizes=[abs(each[-1] - each[0]) + 1 for each in ranges],
        input_window_strides=[each.step if len(each) > 1 else 1 for each in ranges],
    )
    return Tensor(x.dtype, shape, made=made)


@imports(how="tile")
def Tile(node: Node, input: Tensor, repeats: Tensor) -> Result:
    counts = node.ints("repeats", repeats, [])
    if len(counts) != input.rank or min(counts, default=1) < 0:
        raise Refusal("needs a number of at least 0 for each dimension", code="range", field="repeats", got=counts)
    if 0 in counts:
        return np.empty([size * count for size, count in zip(input.shape, counts, strict=True)], input.dtype)
    return input if not counts else node.dml.tile(input, repeats=counts)


_MODES = {"constant": "constant", "reflect": "reflection", "edge": "edge", "wrap": "wrap"}


_PADDING = "padding, slice1; wrap below level 6.4: slice1, join"


@imports(until=10, how=_PADDING)
def Pad_2(node: Node, data: Tensor, *, pads: list[int], mode: str = "constant", value: float = 0.0) -> Tensor:
    _check_mode(mode, _MODES)
    return _padded(node, data, pads, range(data.rank), mode, value)


@imports(since=11, how=_PADDING)
def Pad(
    node: Node,
    data: Tensor,
    pads: Tensor,
    constant_value: Maybe = None,
    axes: Maybe = None,
    *,
    mode: str = "constant",
) -> Tensor:
    _check_mode(mode, _MODES)
    widths = node.ints("pads", pads, [])
    places = [at_axis(axis, data.rank) for axis in node.ints("axes", axes, range(data.rank))]
    return _padded(node, data, widths, places, mode, node.scalar(constant_value, 0))


def _check_mode(mode: str, modes: Iterable[str]) -> None:
    if mode not in modes:
        raise unsupported("mode", ", ".join(modes), mode)


def _padded(node: Node, x: Tensor, pads: Sequence[int], axes: Sequence[int], mode: str, value: float) -> Tensor:
    if len(pads) != 2 * len(axes):
        raise Refusal("needs two numbers for each axis", code="count", field="pads", got=pads)
    before, after = [0] * x.rank, [0] * x.rank
    for index, axis in enumerate(axes):
        before[axis], after[axis] = pads[index], pads[index + len(axes)]
    cut = sliced(node.dml, x, [_cut(*each) for each in zip(before, after, x.shape, strict=True)])
    if 0 in cut.shape:
        return _all_padding(cut, before, after, mode, value)
    before, after = [max(each, 0) for each in before], [max(each, 0) for each in after]
    if not any(before) and not any(after):
        return cut
    if mode == "wrap" and node.dml.level < FeatureLevel.V6_4:
        return _wrapped(node, cut, before, after)
    return node.tensor(
        node.dml.padding1(cut, padding_mode=_MODES[mode], padding_value=value, start_padding=before, end_padding=after)
    )


def _wrapped(node: Node, x: Tensor, before: Sequence[int], after: Sequence[int]) -> Tensor:
    """A tensor repeated in all directions, by joining parts: below level 6.4 DirectML's padding cannot."""
    for axis, (first, last) in enumerate(zip(before, after, strict=True)):
        size = x.shape[axis]
        parts, begin = [], -first
        while begin < size + last:
            end = min((begin // size + 1) * size, size + last)
            span = slice(begin % size, begin % size + end - begin)
            parts.append(sliced(node.dml, x, [span if each == axis else slice(None) for each in range(x.rank)]))
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


_ORDERS = {"DCR": "depth_column_row", "CRD": "column_row_depth"}


@imports(how="depth_to_space1")
def DepthToSpace(node: Node, input: Tensor, *, blocksize: int, mode: str = "DCR") -> Result:
    _check_mode(mode, _ORDERS)
    return node.tensor(node.dml.depth_to_space1(input, block_size=blocksize, order=_ORDERS[mode]))


@imports(how="space_to_depth1")
def SpaceToDepth(node: Node, input: Tensor, *, blocksize: int, mode: str = "DCR") -> Result:
    if mode != "DCR":
        raise ByDefinition
    return node.tensor(node.dml.space_to_depth1(input, block_size=blocksize))


@imports(since=9, how="fill_value_constant")
def ConstantOfShape(node: Node, input: Tensor, *, value: Array | None = None) -> Array:
    number = np.zeros(1, np.float32) if value is None else value
    shape = node.ints("shape", input, [])
    if min(shape, default=0) < 0:
        raise Refusal("a size is negative", code="range", got=shape)
    return np.broadcast_to(number.astype(node.converted(number.dtype)).reshape(()), shape)


MOST_COUNTED = 1 << 24  # elements of a sequence


@imports(since=11, how="fill_value_sequence")
def Range(node: Node, start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    first, end, step = (node.scalar(each) for each in (start, limit, delta))
    if step == 0:
        raise Refusal("the step must not be 0", code="range", field="delta")
    count = max(0, math.ceil((end - first) / step))
    if count > MOST_COUNTED:
        raise Refusal("the sequence is too long", code="too-large", got=count, allowed=f"{MOST_COUNTED} elements")
    dtype = start.dtype
    known = (first + np.arange(count) * step).astype(dtype)

    def make(dml: Calls) -> Value:
        made: Value = dml.fill_value_sequence(sizes=[count], dtype=stored(dtype), value_start=first, value_delta=step)
        return made

    return Tensor(dtype, (count,), known, make=make)


@imports(since=9, how="diagonal_matrix")
def EyeLike(node: Node, input: Tensor, *, dtype: int | None = None, k: int = 0) -> Tensor:
    to = node.converted(input.dtype if dtype is None else numbered_dtype("dtype", dtype))
    made = node.dml.diagonal_matrix(sizes=input.shape, dtype=stored(to), offset=k, value=1)
    return Tensor(to, input.shape, made=made)


@imports(since=14, how="if_ with a constant mask")
def Trilu(node: Node, input: Tensor, k: Maybe = None, *, upper: int = 1) -> Tensor:
    rows, columns = input.shape[-2:]
    diagonal = max(-rows, min(int(node.scalar(k, 0)), columns))
    mask = np.tri(rows, columns, diagonal - 1 if upper else diagonal, dtype=bool)
    kept = Tensor.of(~mask if upper else mask)
    return node.tensor(node.dml.if_(kept, input, Tensor.of(np.zeros((1, 1), input.dtype))), input.shape)
