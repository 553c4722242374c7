"""Operators on images: tensors {batch, channels, height, width}."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from dmlgraph import operators as ops
from dmlgraph.base.errors import Problem
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.operators.declaration.constraints import at_least, count_is, multiple_of, one_of, rank_at_least, require
from dmlgraph.operators.declaration.derivative import Backward, Gradients
from dmlgraph.operators.declaration.fields import Count, Float, Floats, Input, Output, UInt, inferred
from dmlgraph.operators.declaration.operator import Array, Operator
from dmlgraph.operators.declaration.outputs import Given, Outcome
from dmlgraph.operators.directml_enums import DepthSpaceOrder

# The order of the axes (y in the block, x in the block, channel) in the channels of the deep image.
_BLOCK_AXES = {
    DepthSpaceOrder.DEPTH_COLUMN_ROW: "yxc",
    DepthSpaceOrder.COLUMN_ROW_DEPTH: "cyx",
}


class BlockMove(Operator):
    """Base of the operators that turn blocks of `block_size` · `block_size` pixels into channels and back.

    `order` says how: pixel {y, x} of a block's channel c is channel (y · B + x) · C + c of B² · C in depth_column_row,
    and c · B² + y · B + x in column_row_depth.
    """

    meanings: ClassVar = {
        "block_size": "The height and width of a block of pixels.",
        "order": "Whether a block's pixels or the channels come first in the depth.",
    }
    moves: ClassVar = ("input",)
    order_preserving: ClassVar = "input"

    input: Input
    output: Output = inferred()
    block_size: UInt

    if TYPE_CHECKING:  # a field of some subclasses, a constant of the others

        @property
        def order(self) -> DepthSpaceOrder: ...

    def why_copy(self) -> str | None:
        return "moves blocks of one pixel" if self.block_size == 1 else None

    def infer(self, given: Given) -> Outcome:
        _check_image(self.input)
        require(at_least("block_size", self.block_size))
        *batch, channels, height, width = self.input.sizes
        return {"output": self.input.like(sizes=(*batch, *self._moved(channels, height, width)))}

    def _moved(self, channels: int, height: int, width: int) -> tuple[int, int, int]:
        """The output's channels, height and width."""
        raise NotImplementedError

    def _quotient(self, size: int, divisor: int, what: str, of: str) -> int:
        require(multiple_of("input.sizes", size, divisor, f"the {what} must be a multiple of {of}"))
        return size // divisor

    @property
    def _block_axes(self) -> str:
        return _BLOCK_AXES[self.order]


class SpaceToDepthMove(BlockMove):
    """Base: {N, C, H, W} becomes {N, B² · C, H / B, W / B}."""

    def _moved(self, channels: int, height: int, width: int) -> tuple[int, int, int]:
        block = self.block_size
        return (
            channels * block * block,
            self._quotient(height, block, "height", "the block size"),
            self._quotient(width, block, "width", "the block size"),
        )

    def evaluate(self, image: Array) -> tuple[Array, ...]:
        block = self.block_size
        *batch, channels, height, width = image.shape
        blocks = image.reshape(*batch, channels, height // block, block, width // block, block)
        return (np.einsum(f"...chywx->...{self._block_axes}hw", blocks).reshape(self.output.sizes),)

    def derivative(self, back: Backward) -> Gradients:
        return [back(ops.DepthToSpace1, back.g, block_size=self.block_size, order=self.order)]


class DepthToSpaceMove(BlockMove):
    """Base: {N, C, H, W} becomes {N, C / B², H · B, W · B}."""

    def _moved(self, channels: int, height: int, width: int) -> tuple[int, int, int]:
        block = self.block_size
        kept = self._quotient(channels, block * block, "number of channels", "the block size squared")
        return kept, height * block, width * block

    def evaluate(self, image: Array) -> tuple[Array, ...]:
        *batch, channels, height, width = image.shape
        extents = {"y": self.block_size, "x": self.block_size, "c": channels // self.block_size**2}
        blocks = image.reshape(*batch, *(extents[axis] for axis in self._block_axes), height, width)
        return (np.einsum(f"...{self._block_axes}hw->...chywx", blocks).reshape(self.output.sizes),)

    def derivative(self, back: Backward) -> Gradients:
        return [back(ops.SpaceToDepth1, back.g, block_size=self.block_size, order=self.order)]


class SpaceToDepth(SpaceToDepthMove, dml="SPACE_TO_DEPTH"):
    """Blocks of pixels into channels: output[n, (y · B + x) · C + c, h, w] = input[n, c, h · B + y, w · B + x].

    {N, C, H, W} becomes {N, B² · C, H / B, W / B}.
    """

    example: ClassVar = "input: [1, 1, 2, 4], block_size: 2"
    order: ClassVar = DepthSpaceOrder.DEPTH_COLUMN_ROW


class SpaceToDepth1(SpaceToDepthMove, dml="SPACE_TO_DEPTH1"):
    """Blocks of pixels into channels, in either order: the inverse of depth_to_space1.

    Pixel {y, x} of a block's channel c goes to channel (y · B + x) · C + c (depth_column_row) or
    c · B² + y · B + x (column_row_depth).  {N, C, H, W} becomes {N, B² · C, H / B, W / B}.
    """

    example: ClassVar = "input: [1, 2, 2, 4], block_size: 2, order: column_row_depth"

    order: DepthSpaceOrder = DepthSpaceOrder.DEPTH_COLUMN_ROW


class DepthToSpace(DepthToSpaceMove, dml="DEPTH_TO_SPACE"):
    """Channels into blocks of pixels: output[n, c, h · B + y, w · B + x] = input[n, (y · B + x) · C + c, h, w].

    {N, B² · C, H, W} becomes {N, C, H · B, W · B}.
    """

    example: ClassVar = "input: [1, 4, 1, 2], block_size: 2"
    order: ClassVar = DepthSpaceOrder.DEPTH_COLUMN_ROW


class DepthToSpace1(DepthToSpaceMove, dml="DEPTH_TO_SPACE1"):
    """Channels into blocks of pixels, in either order.

    Pixel {y, x} of a block's channel c comes from channel (y · B + x) · C + c (depth_column_row) or
    c · B² + y · B + x (column_row_depth).  {N, B² · C, H, W} becomes {N, C, H · B, W · B}.
    """

    example: ClassVar = "input: [1, 8, 1, 2], block_size: 2, order: column_row_depth"

    order: DepthSpaceOrder = DepthSpaceOrder.DEPTH_COLUMN_ROW


class ValueScale2d(Operator, dml="VALUE_SCALE_2D"):
    """scale · x + bias[c], c the channel; images have 1 or 3 channels.

    The product and the sum are each rounded to the tensor's type (measured).
    """

    example: ClassVar = "input: [1, 3, 2, 2], scale: 0.5, bias: [1, 2, 3]"

    input: Input
    output: Output = inferred()
    scale: Float
    bias: Annotated[Floats, Count("ChannelCount")]

    def infer(self, given: Given) -> Outcome:
        _check_image(self.input)
        return {"output": self.input.like()}

    def constraints(self) -> Iterator[Problem]:
        channels = self.input.sizes[-3]
        yield from one_of("input.sizes", channels, (1, 3), "an image has 1 or 3 channels", "sizes")
        yield from count_is("bias", self.bias, channels, "must have one entry for each channel")

    def evaluate(self, image: Array) -> tuple[Array, ...]:
        bias = np.array(self.bias, image.dtype).reshape(-1, 1, 1)
        with np.errstate(all="ignore"):
            return (image * image.dtype.type(self.scale) + bias,)

    def derivative(self, back: Backward) -> Gradients:
        return [back.g * self.scale]


def _check_image(tensor: TensorDesc) -> None:
    """Raises an OperatorError if a tensor has fewer dimensions than channels, height and width; levels require 4."""
    require(rank_at_least("input", tensor, 4, "an image has batch, channels, height and width"))
