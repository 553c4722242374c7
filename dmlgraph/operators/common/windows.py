"""Windows that slide over the spatial dimensions, which follow batch and channel: for convolution and pooling.

Along one dimension, tap k of window o is at o · stride + k · dilation in the padded tensor, which has `start_padding`
elements before the tensor's and `end_padding` after them.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlgraph.base.errors import plural
from dmlgraph.operators.declaration.constraints import at_least, require, rule
from dmlgraph.operators.declaration.operator import Array, Operator

Sizes = tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Windows:
    """Windows of `taps` elements; each attribute has one entry per spatial dimension."""

    taps: Sizes
    strides: Sizes
    dilations: Sizes
    start: Sizes
    end: Sizes

    @property
    def extents(self) -> Sizes:
        """The number of elements from a window's first tap to its last, both included."""
        return tuple(1 + (taps - 1) * dilation for taps, dilation in zip(self.taps, self.dilations, strict=True))

    def padded(self, sizes: Sizes) -> Sizes:
        return tuple(sum(each) for each in zip(sizes, self.start, self.end, strict=True))

    def counts(self, sizes: Sizes) -> Sizes:
        """How many windows fit into a tensor of these spatial sizes; less than 1 if none does."""
        spans = zip(self.padded(sizes), self.extents, self.strides, strict=True)
        return tuple((padded - extent) // stride + 1 for padded, extent, stride in spans)

    def inside_counts(self, sizes: Sizes) -> Iterator[Array]:
        """Along each dimension, how many taps of every window are inside a tensor of these spatial sizes."""
        fields = zip(sizes, self.counts(sizes), self.taps, self.strides, self.dilations, self.start, strict=True)
        for size, count, taps, stride, dilation, start in fields:
            first = np.arange(count) * stride - start
            begin, end = (np.clip(-((first - bound) // dilation), 0, taps) for bound in (0, size))
            yield end - begin

    def met_taps(self, sizes: Sizes) -> Iterator[range]:
        """Along each dimension, the taps from the first to the last one that some window has inside the tensor.

        The others meet padding alone, as most of a window that is dilated beyond a small picture.  If none is inside,
        all taps.
        """
        fields = zip(sizes, self.counts(sizes), self.taps, self.strides, self.dilations, self.start, strict=True)
        for size, count, taps, stride, dilation, start in fields:
            places = [tap * dilation - start for tap in range(taps)]  # of the first window
            windows = [max(0, -(place // stride)) for place in places]  # the first one that is not before the tensor
            met = [
                tap
                for tap, (place, window) in enumerate(zip(places, windows, strict=True))
                if window < count and place + window * stride < size
            ]
            yield range(met[0], met[-1] + 1) if met else range(taps)

    def pad(self, x: Array, value: Any) -> Array:
        """x {N, C, sizes…} with `value` around it."""
        return np.pad(x, [(0, 0), (0, 0), *zip(self.start, self.end, strict=True)], constant_values=value)

    def crop(self, padded: Array) -> Array:
        """The inverse of `pad`: the tensor without the padding."""
        spans = zip(padded.shape[2:], self.start, self.end, strict=True)
        inside: Any = (..., *(slice(start, size - end) for size, start, end in spans))
        return np.asarray(padded[inside])

    def over(self, padded: Array) -> Array:
        """{N, C, counts…, taps…}: every window of a padded tensor, without a copy."""
        dimensions = range(2, padded.ndim)
        views = np.lib.stride_tricks.sliding_window_view(padded, self.extents, tuple(dimensions))
        steps = (slice(None, None, step) for step in (*self.strides, *self.dilations))
        return views[(slice(None), slice(None), *steps)]

    def places(self, counts: Sizes) -> Iterator[tuple[Any, Any]]:
        """(index of a tap, index of that tap of every window in a padded tensor), for each tap.

        Both index the last dimensions of an array.
        """
        for tap in itertools.product(*map(range, self.taps)):
            starts = (index * dilation for index, dilation in zip(tap, self.dilations, strict=True))
            spans = zip(starts, counts, self.strides, strict=True)
            yield (
                (..., *tap),
                (..., *(slice(start, start + (count - 1) * stride + 1, stride) for start, count, stride in spans)),
            )

    @property
    def tap_count(self) -> int:
        return math.prod(self.taps)

    @property
    def tap_axes(self) -> Sizes:
        """The axes of the taps in what `over` returns."""
        return tuple(range(-len(self.taps), 0))


class Windowed(Operator):
    """Base of the operators with windows."""

    if TYPE_CHECKING:  # fields of the subclasses, each in the order of its struct
        strides: Sizes
        start_padding: Sizes
        end_padding: Sizes

    def windows(self, taps: Sizes) -> Windows:
        """The windows of this many taps.

        Raises:
            OperatorError: a list has a zero that is not legal.
        """
        require(*(at_least(field, getattr(self, field, ())) for field in ("strides", "window_size", "dilations")))
        strides = self.strides
        dilations = getattr(self, "dilations", (1,) * len(strides))
        return Windows(taps, strides, dilations, self.start_padding, self.end_padding)

    def check_fits(self, windows: Windows, sizes: Sizes) -> None:
        """Raises an OperatorError if no window fits into a tensor of these spatial sizes."""
        spans = zip(windows.counts(sizes), windows.extents, windows.padded(sizes), strict=True)
        for dimension, (count, extent, padded) in enumerate(spans):
            message = f"the window is larger than the padded tensor along dimension {dimension + 2}"
            field, allowed = self._taps_field(dimension), f"at most {plural(padded, 'element')}"
            require(rule(count >= 1, field, message, "sizes", got=extent, allowed=allowed))

    def _taps_field(self, dimension: int) -> str:
        return f"window_size.{dimension}"
