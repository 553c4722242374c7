"""Movement: operators that only move elements, as views and copied pieces."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dmlgraph.base.tensor import MAX_RANK, TensorDesc
from dmlgraph.devices.cpu.lowering import Lower, Lowerings, lowers
from dmlgraph.devices.cpu.nodes import AffineMap, Lowered, Move, Piece, View
from dmlgraph.devices.cpu.parts import Parts
from dmlgraph.operators.directml_enums import DepthSpaceOrder, PaddingMode
from dmlgraph.operators.image import (
    BlockMove,
    DepthToSpace,
    DepthToSpace1,
    DepthToSpaceMove,
    SpaceToDepth,
    SpaceToDepth1,
    SpaceToDepthMove,
)
from dmlgraph.operators.padding import Padding, Padding1
from dmlgraph.operators.patches import Unfold
from dmlgraph.operators.shape import Join, Split, Tile
from dmlgraph.operators.slicing import Slice, Slice1, SliceGrad

MOST_PIECES = 256  # of a padding that repeats its input: more take longer than an index for every element


def _part(origin: Sequence[int], steps: Sequence[int] | None = None) -> AffineMap:
    """Maps every dimension onto the same dimension of the other tensor."""
    rank = len(origin)
    return AffineMap(tuple(range(rank)), tuple(steps) if steps is not None else (1,) * rank, tuple(origin))


def _at(rank: int, axis: int, index: int) -> tuple[int, ...]:
    return tuple(index if each == axis else 0 for each in range(rank))


def _slice(operator: Slice) -> Lowered | None:
    return View((_part(operator.offsets, operator.strides),))


def _slice1(operator: Slice1) -> Lowered | None:
    return View((_in_window(operator),))


def _in_window(operator: Slice1 | SliceGrad) -> AffineMap:
    """The elements of the window that the strides reach."""
    sizes, strides = operator.input_window_sizes, operator.input_window_strides
    windows = zip(operator.input_window_offsets, sizes, strides, strict=True)
    return _part([offset if stride > 0 else offset + size - 1 for offset, size, stride in windows], strides)


def _slice_gradient(operator: SliceGrad) -> Lowered | None:
    """The gradient at the elements that were sliced, and zeros: beside a slice without gaps, or before everywhere."""
    gradient, output = operator.input_gradient, operator.output_gradient
    to, zero = _in_window(operator), bytes(output.dtype.bits // 8)
    steps = zip(operator.input_window_strides, gradient.sizes, strict=True)
    if all(stride == 1 or size == 1 for stride, size in steps):
        return surrounded(to.origin, gradient.sizes, output.sizes, zero)
    rank = output.rank
    whole = _part((0,) * rank)
    return Move(zero, (Piece(-1, output.sizes, None, whole), Piece(0, gradient.sizes, whole, to)))


def _split(operator: Split) -> Lowered | None:
    rank, axis = operator.input.rank, operator.axis
    starts = itertools.accumulate((part.sizes[axis] for part in operator.outputs), initial=0)
    return View(tuple(_part(_at(rank, axis, start)) for start, _ in zip(starts, operator.outputs, strict=False)))


def _join(operator: Join) -> Lowered | None:
    rank, axis = operator.output.rank, operator.axis
    starts = itertools.accumulate((part.sizes[axis] for part in operator.inputs), initial=0)
    everything = _part((0,) * rank)
    pieces = tuple(
        Piece(port, part.sizes, everything, _part(_at(rank, axis, start)))
        for port, (part, start) in enumerate(zip(operator.inputs, starts, strict=False))
    )
    return Move(None, pieces)


def _tile(operator: Tile) -> Lowered | None:
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
    if len(sizes) > MAX_RANK:
        return None
    origin = (0,) * operator.input.rank
    return Move(None, (Piece(0, tuple(sizes), _map(source, origin), _map(target, origin)),))


def _map(dimensions: Sequence[tuple[int, int]], origin: tuple[int, ...]) -> AffineMap:
    """The map of dimensions, each an axis and a step."""
    return AffineMap(tuple(axis for axis, _ in dimensions), tuple(step for _, step in dimensions), origin)


def _pad(operator: Padding | Padding1) -> Lowered | None:
    if operator.padding_mode is not PaddingMode.CONSTANT:
        return _continued([indices.tolist() for indices in operator.sources()])
    constant = np.asarray(operator.constant(), operator.input.dtype.numpy)
    return surrounded(operator.start_padding, operator.input.sizes, operator.output.sizes, constant.tobytes())


def _continued(sources: list[list[int]]) -> Lowered | None:
    """Elements of the input: `sources` has their indices along each axis."""
    along = [_runs(indices) for indices in sources]
    if math.prod(map(len, along)) > MOST_PIECES:
        return None
    pieces = []
    for runs in itertools.product(*along):
        axes = tuple([axis if run.step else -1 for axis, run in enumerate(runs)])
        origin = tuple([run.first for run in runs])
        source = AffineMap(axes, tuple([run.step for run in runs]), origin)
        pieces.append(Piece(0, tuple([run.length for run in runs]), source, _part([run.at for run in runs])))
    return Move(None, tuple(pieces))


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


def surrounded(start: Sequence[int], sizes: tuple[int, ...], whole: tuple[int, ...], element: bytes) -> Move:
    """The input, of `sizes`, from the index `start` of the output on, and slabs of the element around it."""
    rank = len(sizes)
    pieces = [Piece(0, sizes, _part((0,) * rank), _part(start))]
    for axis in range(rank):
        # A slab beside the input along this axis: as wide as the input along earlier axes, as the output along later.
        others = (*sizes[:axis], 0, *whole[axis + 1 :])
        origin = (*start[:axis], 0, *(0,) * (rank - axis - 1))
        after = start[axis] + sizes[axis]
        for index, size in ((0, start[axis]), (after, whole[axis] - after)):
            if size > 0:
                slab = (*others[:axis], size, *others[axis + 1 :])
                pieces.append(Piece(-1, slab, None, _part((*origin[:axis], index, *origin[axis + 1 :]))))
    return Move(element, tuple(pieces))


def _blocks(
    operator: BlockMove, image: TensorDesc, deep: TensorDesc
) -> tuple[tuple[int, ...], AffineMap, AffineMap] | None:
    """Sizes {N…, B, B, C, H, W} of blocks of pixels, and their affine maps onto the image and onto the channels."""
    block, order = operator.block_size, operator.order
    batch = image.sizes[:-3]
    lead, channels = len(batch), image.sizes[-3]
    if lead + 5 > MAX_RANK:
        return None
    sizes = (*batch, block, block, channels, *deep.sizes[-2:])
    front, ones = tuple(range(lead)), (1,) * lead
    c, h, w = lead, lead + 1, lead + 2
    origin = (0,) * (lead + 3)
    in_image = AffineMap((*front, h, w, c, h, w), (*ones, 1, 1, 1, block, block), origin)
    depth_first = order is DepthSpaceOrder.DEPTH_COLUMN_ROW
    y_x_c = (block * channels, channels, 1) if depth_first else (block, 1, block * block)
    in_channels = AffineMap((*front, c, c, c, h, w), (*ones, *y_x_c, 1, 1), origin)
    return sizes, in_image, in_channels


def _unfold(operator: Unfold) -> Lowered | None:
    """Of the padded image one piece {N, C, window…, blocks…}, whose dimensions of one element are left out."""
    image, output = operator.input, operator.output
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
    source = _map([(axis, step) for _, axis, step, _, _ in kept], (0,) * image.rank)
    target = _map([(axis, step) for _, _, _, axis, step in kept], (0,) * output.rank)
    windows = Move(None, (Piece(0, sizes, source, target),))
    if padded == image.sizes[2:]:
        return windows
    parts = Parts(operator)
    padding = surrounded((0, 0, *operator.start_padding), image.sizes, whole.sizes, bytes(image.dtype.bits // 8))
    return parts.add(windows, [parts.add(padding, [parts.input("input")], whole)], output).finish()


def _space_to_depth(operator: SpaceToDepthMove) -> Lowered | None:
    found = _blocks(operator, operator.input, operator.output)
    return found and Move(None, (Piece(0, *found),))


def _depth_to_space(operator: DepthToSpaceMove) -> Lowered | None:
    found = _blocks(operator, operator.output, operator.input)
    if found is None:
        return None
    sizes, in_image, in_channels = found
    return Move(None, (Piece(0, sizes, in_channels, in_image),))


def _of_whole_bytes(lower: Lower) -> Lower:
    """The same way for tensors whose elements are not parts of bytes."""
    return lambda operator: lower(operator) if operator.first_output.dtype.bits > 4 else None


_MOVEMENTS: Lowerings = {
    **lowers(_slice, Slice),
    **lowers(_slice1, Slice1),
    **lowers(_slice_gradient, SliceGrad),
    **lowers(_split, Split),
    **lowers(_join, Join),
    **lowers(_tile, Tile),
    **lowers(_unfold, Unfold),
    **lowers(_pad, Padding),
    **lowers(_pad, Padding1),
    **lowers(_space_to_depth, SpaceToDepth, SpaceToDepth1),
    **lowers(_depth_to_space, DepthToSpace, DepthToSpace1),
}
MOVEMENTS: Lowerings = {each: _of_whole_bytes(lower) for each, lower in _MOVEMENTS.items()}
