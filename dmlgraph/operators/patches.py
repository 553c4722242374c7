"""Fold and unfold: images as matrices of the patches that a sliding window covers, and back."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from dmlgraph import operators as ops
from dmlgraph.base.errors import Problem, plural
from dmlgraph.operators.common.numerics import convert
from dmlgraph.operators.declaration.constraints import at_least, require, rule, sizes_are
from dmlgraph.operators.declaration.derivative import Backward, Gradients
from dmlgraph.operators.declaration.fields import Input, OnePerSpatial, Output, UIntPerSpatial, ZeroPerSpatial, inferred
from dmlgraph.operators.declaration.operator import Array, Operator
from dmlgraph.operators.declaration.outputs import Given, Outcome, asked_sizes

Sizes = tuple[int, ...]


class Patches(Operator):
    """Base: an image {N, C, spatial…} and its patches {N, C · window elements, blocks}.

    In each of the D spatial dimensions a window of `window_sizes` elements, `dilations` apart, moves by `strides` over
    the image with `start_padding` and `end_padding` zeros around it; it has

        blocks = (size + start + end − dilation · (window − 1) − 1) / stride + 1

    positions.  Patches are in row-major order of the positions, a patch's elements in row-major order of the window.
    """

    meanings: ClassVar = {"window_sizes": "The size of the window in each spatial dimension."}
    heavy: ClassVar = True

    input: Input
    output: Output = inferred()
    window_sizes: UIntPerSpatial
    strides: OnePerSpatial = inferred()
    dilations: OnePerSpatial = inferred()
    start_padding: ZeroPerSpatial = inferred()
    end_padding: ZeroPerSpatial = inferred()

    def _check_window(self) -> None:
        require(*(at_least(field, getattr(self, field)) for field in ("window_sizes", "strides", "dilations")))

    def blocks(self, image: Sizes) -> Sizes:
        """The number of the window's positions, by spatial dimension of an image {N, C, spatial…}.

        Raises:
            OperatorError: the window is larger than the image.
        """
        blocks = []
        spans = zip(self.padded(image), self.window_sizes, self.strides, self.dilations, strict=True)
        for axis, (padded, window, stride, dilation) in enumerate(spans):
            reach = dilation * (window - 1) + 1
            message, got = "the window is larger than the padded image", f"{plural(reach, 'element')} with dilation"
            field, allowed = f"window_sizes.{axis}", f"at most {padded}"
            require(rule(reach <= padded, field, message, "sizes", got=got, allowed=allowed))
            blocks.append((padded - reach) // stride + 1)
        return tuple(blocks)

    def padded(self, image: Sizes) -> Sizes:
        """The spatial sizes including the padding."""
        return tuple(
            start + size + end for start, size, end in zip(self.start_padding, image[2:], self.end_padding, strict=True)
        )

    def _inside(self, image: Sizes) -> tuple[Any, ...]:
        """NumPy's index of the image in the padded image."""
        inside = (slice(start, start + size) for start, size in zip(self.start_padding, image[2:], strict=True))
        return (..., *inside)

    def _taps(self, blocks: Sizes) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """For every element of the window its number, and NumPy's index of its positions in the padded image."""
        for number, tap in enumerate(np.ndindex(*self.window_sizes)):
            starts = (element * dilation for element, dilation in zip(tap, self.dilations, strict=True))
            yield number, (..., *(
                slice(start, start + stride * (count - 1) + 1, stride)
                for start, stride, count in zip(starts, self.strides, blocks, strict=True)
            ))  # fmt: skip


class Unfold(Patches, dml="UNFOLD"):
    """The patches that a sliding window covers: {N, C, spatial…} becomes {N, C · window elements, blocks}.

    In each spatial dimension a window of `window_sizes` elements, `dilations` apart, moves by `strides` over the image
    with `start_padding` and `end_padding` zeros around it.  Output[n, c · window elements + element, block] is the
    image's element at this element of the window in the block; both are counted row-major.

    The documentation names no data types, and demands equal numbers of dimensions, although its own examples do not
    have them.  Every type is accepted here, and the examples work.  Feature level 6.4: no library for Linux has it.
    """

    same_on_bytes: ClassVar = True
    example: ClassVar = (
        "input: {dtype: float32, sizes: [1, 2, 4, 4]}, window_sizes: [2, 2], strides: [2, 2], start_padding: [1, 0]"
    )

    def infer(self, given: Given) -> Outcome:
        self._check_window()
        blocks = self.blocks(self.input.sizes)
        batch, channels = self.input.sizes[:2]
        return {"output": self.input.like(sizes=(batch, channels * math.prod(self.window_sizes), math.prod(blocks)))}

    def evaluate(self, image: Array) -> tuple[Array, ...]:
        blocks = self.blocks(image.shape)
        padded = np.zeros((*image.shape[:2], *self.padded(image.shape)), image.dtype)
        padded[self._inside(image.shape)] = image
        patches = np.empty((*image.shape[:2], math.prod(self.window_sizes), *blocks), image.dtype)
        for number, met in self._taps(blocks):
            patches[:, :, number] = padded[met]
        return (patches.reshape(self.output.sizes),)

    def derivative(self, back: Backward) -> Gradients:
        return [back(ops.Fold, back.g, sizes=back.x.sizes, **self.attributes)]


class Fold(Patches, dml="FOLD"):
    """An image from the patches of a sliding window, added where they overlap: the transpose of unfold.

    {N, C · window elements, blocks} becomes {N, C, spatial…}, whose sizes must be given, because several fit.  In each
    spatial dimension a window of `window_sizes` elements, `dilations` apart, moves by `strides` over the image with
    `start_padding` and `end_padding` around it; elements in the padding are dropped.

    Floats are added in float64 and rounded once, integers wrap.  The documentation names no data types, and demands
    equal numbers of dimensions, although its own examples do not have them.  Every type is accepted here, and the
    examples work.  Feature level 6.4: no library for Linux has it.
    """

    output_keywords: ClassVar = ("sizes",)
    example: ClassVar = (
        "input: {dtype: float32, sizes: [1, 8, 4]}, output: {sizes: [1, 2, 4, 4]}, window_sizes: [2, 2], "
        "strides: [2, 2], start_padding: [1, 0]"
    )

    def entries_of(self, given: Given) -> tuple[str, int | None]:
        return "output", len(asked_sizes(given, "output"))

    def infer(self, given: Given) -> Outcome:
        self._check_window()
        return {"output": self.input.like(sizes=asked_sizes(given, "output"))}

    def constraints(self) -> Iterator[Problem]:
        batch, channels = (*self.output.sizes, 1)[:2]
        blocks = self.blocks(self.output.sizes)
        expected = (batch, channels * math.prod(self.window_sizes), math.prod(blocks))
        return sizes_are("input", self.input, expected, "must be {N, C · window elements, blocks}")

    def evaluate(self, patches: Array) -> tuple[Array, ...]:
        image = self.output.sizes
        blocks = self.blocks(image)
        terms = patches.astype(np.float64) if self.input.dtype.is_float else patches
        terms = terms.reshape(*image[:2], -1, *blocks)
        padded = np.zeros((*image[:2], *self.padded(image)), terms.dtype)
        with np.errstate(all="ignore"):
            for number, met in self._taps(blocks):
                padded[met] += terms[:, :, number]
            return (convert(padded[self._inside(image)], self.output.dtype),)

    def derivative(self, back: Backward) -> Gradients:
        return [back(ops.Unfold, back.g, **self.attributes)]
