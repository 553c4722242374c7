"""Views, joins, splits, slices, tiles, blocks of images: elements that move and stay as they are."""

from __future__ import annotations

import numpy as np

from dmlgraph.formats.onnx.export.emitter import INT64, Emitter, Sizes, Symbol
from dmlgraph.formats.onnx.table import exports
from dmlgraph.operators.common.subscripts import take
from dmlgraph.operators.directml_enums import DepthSpaceOrder

_TO_THE_START = -(2**63) + 1  # the end of a slice that goes back to the first element


@exports("reshape", "flatten", "squeeze", "expand_dims", how="Reshape")
def _reshape(node: Emitter) -> Symbol:
    return node.reshape(node["input"], node.output.sizes, node.desc("input").sizes)


@exports("transpose", how="Transpose")
def _transpose(node: Emitter) -> Symbol:
    return node.transpose(node["input"], node.field("permutation"))


@exports("broadcast_to", how="Expand")
def _broadcast(node: Emitter) -> Symbol:
    return node.expand(node["input"], node.output.sizes, node.desc("input").sizes)


@exports("subscript", how="Slice, Reshape")
def _subscript(node: Emitter) -> Symbol:
    sizes = node.desc("input").sizes
    taken = take(node.field("index"), sizes)
    made = sliced(node, node["input"], sizes, taken.starts, taken.steps, taken.counts)
    return node.reshape(made, taken.sizes, taken.counts)


def sliced(node: Emitter, x: Symbol, sizes: Sizes, starts: Sizes, steps: Sizes, counts: Sizes) -> Symbol:
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
    return sliced(node, node["input"], node.desc("input").sizes, starts, steps, counts)


@exports("slice1", how="Slice")
def _slice1(node: Emitter) -> Symbol:
    return sliced(node, node["input"], node.desc("input").sizes, *_window(node), node.output.sizes)


def _window(node: Emitter) -> tuple[list[int], list[int]]:
    """Where a window with strides starts in every dimension, and its steps."""
    offsets, sizes, strides = (node.field(f"input_window_{each}") for each in ("offsets", "sizes", "strides"))
    starts = [
        offset if stride > 0 else offset + size - 1
        for offset, size, stride in zip(offsets, sizes, strides, strict=True)
    ]
    return starts, list(strides)


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


@exports("join", how="Concat")
def _join(node: Emitter) -> Symbol:
    parts = node.all("inputs")
    return parts[0] if len(parts) == 1 else node.call("Concat", *parts, axis=node.field("axis"))


@exports("split", how="Split")
def _split(node: Emitter) -> list[Symbol]:
    parts, axis = node.field("outputs"), node.field("axis")
    if len(parts) == 1:
        return [node["input"]]
    lengths = node.ints([part.sizes[axis] for part in parts])
    return node.calls("Split", node["input"], lengths, dtypes=[node.dtype] * len(parts), axis=axis)


@exports("tile", how="Tile")
def _tile(node: Emitter) -> Symbol:
    return node.call("Tile", node["input"], node.ints(node.field("repeats")))


@exports("reverse_subsequences", how="Range, Sub, Where, GatherElements")
def _reverse(node: Emitter) -> Symbol:
    sizes, axis = node.output.sizes, node.field("axis")
    size = sizes[axis]
    shape = [size if each == axis else 1 for each in range(len(sizes))]
    place = node.constant(np.arange(size).reshape(shape), INT64)
    lengths = node.cast(node["sequence_lengths"], INT64)
    one, last = node.number(1, INT64), node.number(size - 1, INT64)
    mirrored = node.call("Min", node.call("Sub", node.call("Sub", lengths, one), place), last)
    inside = node.call("Less", place, lengths, dtype=np.dtype(bool))
    source = node.expand(node.call("Where", inside, mirrored, place, dtype=INT64), sizes)
    return node.call("GatherElements", node["input"], source, axis=axis)


# Blocks of pixels.


@exports("depth_to_space", "depth_to_space1", how="DepthToSpace")
def _depth_to_space(node: Emitter) -> Symbol:
    mode = "CRD" if node.field("order") is DepthSpaceOrder.COLUMN_ROW_DEPTH else "DCR"
    sizes = node.desc("input").sizes
    x = node.reshape(node["input"], (int(np.prod(sizes[:-3])), *sizes[-3:]), sizes)
    made = node.call("DepthToSpace", x, blocksize=node.field("block_size"), mode=mode)
    return made if len(sizes) == 4 else node.reshape(made, node.output.sizes)


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


@exports("value_scale_2d", how="Mul, Add")
def _value_scale(node: Emitter) -> Symbol:
    x = node.call("Mul", node["input"], node.number(node.field("scale"), node.dtype))
    return node.call("Add", x, node.number(np.reshape(node.field("bias"), (-1, 1, 1)), node.dtype))
