"""Operators on shapes: views, parts, joints, padding, fills, masks."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dmlgraph.base.levels import FeatureLevel
from dmlgraph.formats.onnx.node import Node, Result, at_axis, broadcast
from dmlgraph.formats.onnx.refusals import ByDefinition, Refusal
from dmlgraph.formats.onnx.table import imports
from dmlgraph.formats.onnx.tensors import Calls, Tensor, stored
from dmlgraph.graph.value import Value


@imports("Reshape", how="reshape")
def _reshape(node: Node) -> Result:
    x = node[0]
    wanted = node.ints("shape", 1, []) or []
    if not node.attribute("allowzero", 0):
        if any(size == 0 and axis >= x.rank for axis, size in enumerate(wanted)):
            raise Refusal("0 keeps the size of a dimension that the input lacks", code="sizes", field="shape")
        wanted = [size or x.shape[axis] for axis, size in enumerate(wanted)]
    if wanted.count(-1) == 1:
        rest = math.prod(size for size in wanted if size != -1)
        wanted[wanted.index(-1)] = x.count // rest if rest else 0
    return viewed(node, x, wanted)


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


@imports("Flatten", how="reshape")
def _flatten(node: Node) -> Result:
    x = node[0]
    axis = at_axis(node.attribute("axis", 1), x.rank + 1) if node.attribute("axis", 1) >= 0 else node.axis(1)
    return viewed(node, x, [math.prod(x.shape[:axis]), math.prod(x.shape[axis:])])


@imports("Squeeze", how="reshape")
def _squeeze(node: Node) -> Result:
    x = node[0]
    axes = node.ints("axes", 1)
    if axes is None:
        return viewed(node, x, [size for size in x.shape if size != 1])
    gone = {at_axis(axis, x.rank) for axis in axes}
    return viewed(node, x, [size for axis, size in enumerate(x.shape) if axis not in gone])


@imports("Unsqueeze", how="reshape")
def _unsqueeze(node: Node) -> Result:
    x = node[0]
    axes = node.ints("axes", 1, []) or []
    new = {at_axis(axis, x.rank + len(axes)) for axis in axes}
    if len(new) < len(axes):
        raise Refusal("an axis is given twice", code="duplicate", field="axes", got=axes)
    sizes = iter(x.shape)
    return viewed(node, x, [1 if axis in new else next(sizes) for axis in range(x.rank + len(axes))])


@imports("Transpose", how="transpose")
def _transpose(node: Node) -> Result:
    x = node[0]
    order = node.attribute("perm") or list(reversed(range(x.rank)))
    if sorted(order) != list(range(x.rank)):
        raise Refusal("is not an order of the dimensions", code="range", field="perm", got=order)
    return x if x.rank < 2 else node.dml.transposed(x, order)


@imports("Expand", since=8, how="broadcast_to")
def _expand(node: Node) -> Result:
    wanted = Tensor(node[0].dtype, tuple(node.ints("shape", 1, []) or []))
    shape = broadcast([node[0], wanted])
    if node[0].known is not None:
        return np.broadcast_to(node[0].known, shape)
    if 0 in shape:
        return np.empty(shape, node[0].dtype)
    return node.tensor(node.dml.expanded(node[0], shape or (1,)), shape)


@imports("Concat", how="join")
def _concat(node: Node) -> Result:
    return concatenated(node, node.given, node.axis(0))


def concatenated(node: Node, tensors: Sequence[Tensor], axis: int) -> Tensor:
    """Tensors one after another along an axis; those without elements add none."""
    if all(each.known is not None for each in tensors):
        return Tensor.of(np.concatenate([each.known for each in tensors if each.known is not None], axis))
    parts = [each for each in tensors if 0 not in each.shape]
    return parts[0] if len(parts) == 1 else node.tensor(node.dml.join(parts, axis=axis))


@imports("Split", how="split")
def _split(node: Node) -> Result:
    x, axis = node[0], node.axis(0)
    whole, count = x.shape[axis], len(node.outputs)
    sizes = node.ints("split", 1)
    if sizes is None:
        if node.attribute("num_outputs") is None and whole % count:
            raise Refusal("cannot be split into equal parts", code="sizes", got=whole, allowed=f"a multiple of {count}")
        part = -(-whole // max(count, 1))
        sizes = [max(0, min(part, whole - index * part)) for index in range(count)]
    if sum(sizes) != whole or min(sizes) < 0 or len(sizes) != count:
        raise Refusal("the parts do not add up to the size", code="sizes", got=sizes, allowed=str(whole))
    parts = iter([x] if sizes.count(0) == count - 1 else node.dml.split(x, axis=axis, outputs=[*filter(None, sizes)]))
    empty = [0 if each == axis else size for each, size in enumerate(x.shape)]
    return [next(parts) if size else np.empty(empty, x.dtype) for size in sizes]


@imports("Slice", how="slice1")
def _slice(node: Node) -> Result:
    x = node[0]
    starts = node.ints("starts", 1, []) or []
    count = [len(starts)]
    ends = node.ints("ends", 2, [], counts=count) or []
    axes = node.ints("axes", 3, range(len(starts)), counts=count) or []
    steps = node.ints("steps", 4, [1] * len(starts), counts=count) or []
    places = [slice(None)] * x.rank
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if step == 0:
            raise Refusal("a step must not be 0", code="range", field="steps", got=steps)
        size = x.shape[at_axis(axis, x.rank)]
        stop = None if step < 0 and end < -size else end  # beyond the first element
        places[at_axis(axis, x.rank)] = slice(start, stop, step)
    return sliced(node.dml, x, places)


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


@imports("Tile", how="tile")
def _tile(node: Node) -> Result:
    repeats = node.ints("repeats", 1, []) or []
    if len(repeats) != node[0].rank or min(repeats, default=1) < 0:
        raise Refusal("needs a number of at least 0 for each dimension", code="range", field="repeats", got=repeats)
    if 0 in repeats:
        return np.empty([size * count for size, count in zip(node[0].shape, repeats, strict=True)], node[0].dtype)
    return node[0] if not repeats else node.dml.tile(node[0], repeats=repeats)


_MODES = {"constant": "constant", "reflect": "reflection", "edge": "edge", "wrap": "wrap"}


@imports("Pad", how="padding, slice1; wrap below level 6.4: slice1, join")
def _pad(node: Node) -> Result:
    x = node[0]
    mode = str(node.attribute("mode", "constant"))
    if mode not in _MODES:
        raise node.refuse("mode", ", ".join(_MODES))
    pads = node.ints("pads", 1, []) or []
    axes = [at_axis(axis, x.rank) for axis in node.ints("axes", 3, range(x.rank)) or []]
    value = node.scalar(2, 0) if node.opset >= 11 else node.attribute("value", 0.0)
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


@imports("DepthToSpace", how="depth_to_space1")
def _depth_to_space(node: Node) -> Result:
    orders = {"DCR": "depth_column_row", "CRD": "column_row_depth"}
    mode = str(node.attribute("mode", "DCR"))
    if mode not in orders:
        raise node.refuse("mode", "DCR, CRD")
    return node.tensor(node.dml.depth_to_space1(node[0], block_size=node.required("blocksize"), order=orders[mode]))


@imports("SpaceToDepth", how="space_to_depth1")
def _space_to_depth(node: Node) -> Result:
    if node.attribute("mode", "DCR") != "DCR":
        raise ByDefinition
    return node.tensor(node.dml.space_to_depth1(node[0], block_size=node.required("blocksize")))


@imports("ConstantOfShape", since=9, how="fill_value_constant")
def _constant_of_shape(node: Node) -> Result:
    value = np.asarray(node.attribute("value", np.zeros(1, np.float32)))
    value = value.astype(node.converted(value.dtype))
    shape = node.ints("shape", 0, []) or []
    if min(shape, default=0) < 0:
        raise Refusal("a size is negative", code="range", got=shape)
    return np.broadcast_to(value.reshape(()), shape)


MOST_COUNTED = 1 << 24  # elements of a sequence


@imports("Range", since=11, how="fill_value_sequence")
def _range(node: Node) -> Result:
    start, limit, delta = (node.scalar(index) for index in range(3))
    if delta == 0:
        raise Refusal("the step must not be 0", code="range", field="delta")
    count = max(0, math.ceil((limit - start) / delta))
    if count > MOST_COUNTED:
        raise Refusal("the sequence is too long", code="too-large", got=count, allowed=f"{MOST_COUNTED} elements")
    dtype = node[0].dtype
    known = (start + np.arange(count) * delta).astype(dtype)

    def make(dml: Calls) -> Value:
        made: Value = dml.fill_value_sequence(sizes=[count], dtype=stored(dtype), value_start=start, value_delta=delta)
        return made

    return Tensor(dtype, (count,), known, make=make)


@imports("EyeLike", since=9, how="diagonal_matrix")
def _eye(node: Node) -> Result:
    x, to = node[0], node.attribute("dtype")
    dtype = node.converted(x.dtype if to is None else node.dtype("dtype"))
    made = node.dml.diagonal_matrix(sizes=x.shape, dtype=stored(dtype), offset=node.attribute("k", 0), value=1)
    return Tensor(dtype, x.shape, made=made)


@imports("Trilu", since=14, how="if_ with a constant mask")
def _trilu(node: Node) -> Result:
    x, k = node[0], int(node.scalar(1, 0))
    rows, columns = x.shape[-2:]
    k = max(-rows, min(k, columns))
    mask = np.tri(rows, columns, k - 1 if node.attribute("upper", 1) else k, dtype=bool)
    kept = Tensor.of(~mask if node.attribute("upper", 1) else mask)
    return node.tensor(node.dml.if_(kept, x, Tensor.of(np.zeros((1, 1), x.dtype))), x.shape)
