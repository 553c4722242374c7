"""Movement: operators that only move elements, as views and copied pieces.

An affine map says how the dimensions of one tensor are steps along those of another, as the tuples (axis, step,
origin): the element at coordinate c is the other tensor's at origin[a] + Σ step[d] · c[d] over the dimensions d with
axis[d] = a.  A dimension with axis −1 repeats.

A view is an output that is such a part of the input: it is copied only if a consumer needs it in memory of its own.
A piece is copied: (input port, or −1 for the node's one element; sizes; affine maps onto the input and the output).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dmlgraph.base.tensor import MAX_RANK, TensorDesc
from dmlgraph.devices.cpu.parts import Part
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.directml_enums import DepthSpaceOrder, PaddingMode
from dmlgraph.operators.image import BlockMove, DepthToSpace, DepthToSpace1, SpaceToDepth, SpaceToDepth1
from dmlgraph.operators.padding import Padding, Padding1
from dmlgraph.operators.patches import Unfold
from dmlgraph.operators.shape import Join, Split, Tile
from dmlgraph.operators.slicing import Slice, Slice1, SliceGrad

Map = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
Piece = tuple[int, tuple[int, ...], Map | None, Map]
Movement = tuple[str, Any]

MOST_PIECES = 256  # of a padding that repeats its input: more take longer than an index for every element


def _part(origin: Sequence[int], steps: Sequence[int] | None = None) -> Map:
    """Maps every dimension onto the same dimension of the other tensor."""
    rank = len(origin)
    return tuple(range(rank)), tuple(steps) if steps is not None else (1,) * rank, tuple(origin)


def _at(rank: int, axis: int, index: int) -> tuple[int, ...]:
    return tuple(index if each == axis else 0 for each in range(rank))


def _whole_bytes(*descs: TensorDesc) -> bool:
    return all(desc.dtype.bits > 4 for desc in descs)


def _slice(operator: Slice) -> Movement | None:
    if not _whole_bytes(operator.input):
        return None
    return "view", (_part(operator.offsets, operator.strides),)


def _slice1(operator: Slice1) -> Movement | None:
    if not _whole_bytes(operator.input):
        return None
    return "view", (_in_window(operator),)


def _in_window(operator: Slice1 | SliceGrad) -> Map:
    """The elements of the window that the strides reach."""
    sizes, strides = operator.input_window_sizes, operator.input_window_strides
    windows = zip(operator.input_window_offsets, sizes, strides, strict=True)
    return _part([offset if stride > 0 else offset + size - 1 for offset, size, stride in windows], strides)


def _slice_gradient(operator: SliceGrad) -> Movement | None:
    """The gradient at the elements that were sliced, and zeros: beside a slice without gaps, or before everywhere."""
    gradient, output = operator.input_gradient, operator.output_gradient
    if not _whole_bytes(output):
        return None
    to, zero = _in_window(operator), bytes(output.dtype.bits // 8)
    steps = zip(operator.input_window_strides, gradient.sizes, strict=True)
    if all(stride == 1 or size == 1 for stride, size in steps):
        return surrounded(to[2], gradient.sizes, output.sizes, zero)
    rank = output.rank
    everywhere: Piece = (-1, output.sizes, None, _part((0,) * rank))
    return "move", (zero, (everywhere, (0, gradient.sizes, _part((0,) * rank), to)))


def _split(operator: Split) -> Movement | None:
    if not _whole_bytes(operator.input):
        return None
    rank, axis = operator.input.rank, operator.axis
    starts = itertools.accumulate((part.sizes[axis] for part in operator.outputs), initial=0)
    return "view", tuple(_part(_at(rank, axis, start)) for start, _ in zip(starts, operator.outputs, strict=False))


def _join(operator: Join) -> Movement | None:
    if not _whole_bytes(operator.output):
        return None
    rank, axis = operator.output.rank, operator.axis
    starts = itertools.accumulate((part.sizes[axis] for part in operator.inputs), initial=0)
    everything = _part((0,) * rank)
    pieces = tuple(
        (port, part.sizes, everything, _part(_at(rank, axis, start)))
        for port, (part, start) in enumerate(zip(operator.inputs, starts, strict=False))
    )
    return "move", (None, pieces)


def _tile(operator: Tile) -> Movement | None:
    """One piece, with an additional dimension for each one that is repeated."""
    sizes: list[int] = []
    source: list[tuple[int, int]] = []  # axis, step
    target: list[tuple[int, int]] = []
    for axis, (size, repeats) in enumerate(zip(operator.input.sizes, operator.repeats, strict=True)):
        if repeats > 1 and size > 1:
            sizes.append(repeats)
            source.append((-1, 0))
            target.append((axis, size))
        sizes.append(size * repeats if size == 1 else size)
        source.append((axis, 1) if size > 1 else (-1, 0))
        target.append((axis, 1))
    if len(sizes) > MAX_RANK or not _whole_bytes(operator.input):
        return None
    origin = (0,) * operator.input.rank
    piece = (0, tuple(sizes), (*_columns(source), origin), (*_columns(target), origin))
    return "move", (None, (piece,))


def _columns(pairs: Sequence[tuple[int, int]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return tuple(axis for axis, _ in pairs), tuple(step for _, step in pairs)


def _pad(operator: Padding | Padding1) -> Movement | None:
    if not _whole_bytes(operator.input):
        return None
    if operator.padding_mode is not PaddingMode.CONSTANT:
        return _continued([indices.tolist() for indices in operator.sources()])
    constant = np.asarray(operator.constant(), operator.input.dtype.numpy)
    return surrounded(operator.start_padding, operator.input.sizes, operator.output.sizes, constant.tobytes())


def _continued(sources: list[list[int]]) -> Movement | None:
    """Elements of the input: `sources` has their indices along each axis."""
    along = [_runs(indices) for indices in sources]
    if math.prod(map(len, along)) > MOST_PIECES:
        return None
    pieces = []
    for runs in itertools.product(*along):
        axes = tuple([axis if run.step else -1 for axis, run in enumerate(runs)])
        origin = tuple([run.first for run in runs])
        source = (axes, tuple([run.step for run in runs]), origin)
        pieces.append((0, tuple([run.length for run in runs]), source, _part([run.at for run in runs])))
    return "move", (None, tuple(pieces))


class _Run(NamedTuple):
    """`length` indices first, first + step, …, of which the first is at `at`; the step is -1, 0 or 1."""

    at: int
    length: int
    first: int
    step: int


def _runs(indices: list[int]) -> list[_Run]:
    runs: list[_Run] = []
    for at, index in enumerate(indices):
        if runs:
            last = runs[-1]
            step = index - last.first if last.length == 1 else last.step
            if abs(step) <= 1 and index == last.first + last.length * step:
                runs[-1] = last._replace(length=last.length + 1, step=step)
                continue
        runs.append(_Run(at, 1, index, 1))
    return runs


def surrounded(start: Sequence[int], sizes: tuple[int, ...], whole: tuple[int, ...], element: bytes) -> Movement:
    """The input, of `sizes`, from the index `start` of the output on, and slabs of the element around it."""
    rank = len(sizes)
    pieces: list[Piece] = [(0, sizes, _part((0,) * rank), _part(start))]
    for axis in range(rank):
        # A slab beside the input along this axis: as wide as the input along earlier axes, as the output along later.
        others = (*sizes[:axis], 0, *whole[axis + 1 :])
        origin = (*start[:axis], 0, *(0,) * (rank - axis - 1))
        after = start[axis] + sizes[axis]
        for index, size in ((0, start[axis]), (after, whole[axis] - after)):
            if size > 0:
                slab = (*others[:axis], size, *others[axis + 1 :])
                pieces.append((-1, slab, None, _part((*origin[:axis], index, *origin[axis + 1 :]))))
    return "move", (element, tuple(pieces))


def _blocks(operator: BlockMove, image: TensorDesc, deep: TensorDesc) -> tuple[tuple[int, ...], Map, Map] | None:
    """Sizes {N…, B, B, C, H, W} of blocks of pixels, and their affine maps onto the image and onto the channels."""
    block, order = operator.block_size, operator.order
    batch = image.sizes[:-3]
    lead, channels = len(batch), image.sizes[-3]
    if lead + 5 > MAX_RANK or not _whole_bytes(image):
        return None
    sizes = (*batch, block, block, channels, *deep.sizes[-2:])
    front, ones = tuple(range(lead)), (1,) * lead
    c, h, w = lead, lead + 1, lead + 2
    origin = (0,) * (lead + 3)
    in_image: Map = ((*front, h, w, c, h, w), (*ones, 1, 1, 1, block, block), origin)
    depth_first = order is DepthSpaceOrder.DEPTH_COLUMN_ROW
    y_x_c = (block * channels, channels, 1) if depth_first else (block, 1, block * block)
    in_channels: Map = ((*front, c, c, c, h, w), (*ones, *y_x_c, 1, 1), origin)
    return sizes, in_image, in_channels


def _unfold(operator: Unfold) -> Movement | None:
    """Of the padded image one piece {N, C, window…, blocks…}, whose dimensions of one element are left out."""
    image, output = operator.input, operator.output
    if not _whole_bytes(image):
        return None
    padded, blocks = operator.padded(image.sizes), operator.blocks(image.sizes)
    whole = TensorDesc(dtype=image.dtype, sizes=(*image.sizes[:2], *padded))
    window = operator.window_sizes
    dimensions = [(image.sizes[0], 0, 1, 0, 1), (image.sizes[1], 1, 1, 1, math.prod(window))]
    for axis, (size, dilation) in enumerate(zip(window, operator.dilations, strict=True)):
        dimensions.append((size, axis + 2, dilation, 1, math.prod(window[axis + 1 :])))
    for axis, (count, stride) in enumerate(zip(blocks, operator.strides, strict=True)):
        dimensions.append((count, axis + 2, stride, 2, math.prod(blocks[axis + 1 :])))
    kept = [each for each in dimensions if each[0] > 1] or dimensions[:1]
    if len(kept) > MAX_RANK:
        return None
    sizes = tuple([size for size, *_ in kept])
    source = _columns([(axis, step) for _, axis, step, _, _ in kept])
    target = _columns([(axis, step) for _, _, _, axis, step in kept])
    piece = (0, sizes, (*source, (0,) * image.rank), (*target, (0,) * output.rank))
    if padded == image.sizes[2:]:
        return "move", (None, (piece,))
    start = (0, 0, *operator.start_padding)
    padding = surrounded(start, image.sizes, whole.sizes, bytes(image.dtype.bits // 8))
    return "parts", (
        Part("move", (0,), (image,), whole, padding[1]),
        Part("move", (~0,), (whole,), output, (None, (piece,))),
    )


def _space_to_depth(operator: SpaceToDepth | SpaceToDepth1) -> Movement | None:
    found = _blocks(operator, operator.input, operator.output)
    return found and ("move", (None, ((0, found[0], found[1], found[2]),)))


def _depth_to_space(operator: DepthToSpace | DepthToSpace1) -> Movement | None:
    found = _blocks(operator, operator.output, operator.input)
    return found and ("move", (None, ((0, found[0], found[2], found[1]),)))


MOVEMENTS: Mapping[type[Operator], Callable[[Any], Movement | None]] = {
    Slice: _slice,
    Slice1: _slice1,
    SliceGrad: _slice_gradient,
    Split: _split,
    Join: _join,
    Tile: _tile,
    Unfold: _unfold,
    Padding: _pad,
    Padding1: _pad,
    SpaceToDepth: _space_to_depth,
    SpaceToDepth1: _space_to_depth,
    DepthToSpace: _depth_to_space,
    DepthToSpace1: _depth_to_space,
}
