"""Windows that slide over the spatial dimensions, those behind batch and channel: what convolution and pooling share.

Along one dimension, tap k of window o lies at o · stride + k · dilation of the padded tensor, which has
`start_padding` elements in front of the tensor's and `end_padding` behind them.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import numpy as np

from dmlgraph.errors import OperatorError, Problem, plural
from dmlgraph.operators.fields import Count, UInts
from dmlgraph.operators.operator import Array, Operator
from dmlgraph.tensor import TensorDesc

Sizes = tuple[int, ...]

# A list with one entry for each spatial dimension.
PerDimension = Annotated[UInts, Count("DimensionCount")]

# What such a list is filled with where it may be left out.
_DEFAULTS = {"strides": 1, "dilations": 1, "start_padding": 0, "end_padding": 0, "output_padding": 0}


@dataclasses.dataclass(frozen=True, slots=True)
class Windows:
    """Windows of `taps` elements; each attribute has an entry for each spatial dimension."""

    taps: Sizes
    strides: Sizes
    dilations: Sizes
    start: Sizes
    end: Sizes

    @property
    def extents(self) -> Sizes:
        """Elements from a window's first tap to its last, both included."""
        return tuple(1 + (taps - 1) * dilation for taps, dilation in zip(self.taps, self.dilations, strict=True))

    def padded(self, sizes: Sizes) -> Sizes:
        return tuple(sum(each) for each in zip(sizes, self.start, self.end, strict=True))

    def counts(self, sizes: Sizes) -> Sizes:
        """How many windows fit into a tensor of these spatial sizes; below 1 where none does."""
        spans = zip(self.padded(sizes), self.extents, self.strides, strict=True)
        return tuple((padded - extent) // stride + 1 for padded, extent, stride in spans)

    def pad(self, x: Array, value: Any) -> Array:
        """{N, C, sizes…} with `value` around it."""
        return np.pad(x, [(0, 0), (0, 0), *zip(self.start, self.end, strict=True)], constant_values=value)

    def crop(self, padded: Array) -> Array:
        """What `pad` put the padding around."""
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
    """Base of the operators with windows: fills in the lists that were left out, and checks them."""

    def fill_in(self) -> Mapping[str, Any]:
        lists = {field: self.__dict__[field] for field in _DEFAULTS if field in type(self).model_fields}
        # As long as one that was given: if that has a wrong length, it is the one to be told of.
        given = (len(values) for values in lists.values() if values is not None)
        spatial = next(given, self.__dict__[self._sliding].rank - 2)
        return {field: (_DEFAULTS[field],) * spatial for field, values in lists.items() if values is None}

    @property
    def _sliding(self) -> str:
        """The field of the tensor whose dimensions say how many entries the lists have."""
        return self.input_fields[0]

    def windows(self, taps: Sizes) -> Windows:
        """The windows of this many taps.

        Raises:
            OperatorError: a list has not one entry for each spatial dimension, or zero where it cannot be.
        """
        tensor: TensorDesc = self.__dict__[self._sliding]
        problems = list(self._window_problems(tensor))
        if problems:
            raise OperatorError(problems)
        ones = (1,) * (tensor.rank - 2)
        fields = self.__dict__
        return Windows(
            taps, fields["strides"], fields.get("dilations", ones), fields["start_padding"], fields["end_padding"]
        )

    def check_fits(self, windows: Windows, sizes: Sizes) -> None:
        """Raises an OperatorError where not a single window fits into a tensor of these spatial sizes."""
        for dimension, count in enumerate(windows.counts(sizes)):
            if count < 1:
                raise OperatorError(
                    f"the window is larger than the padded tensor along dimension {dimension + 2}",
                    field=self._taps_field(dimension),
                    got=windows.extents[dimension],
                    allowed=f"at most {plural(windows.padded(sizes)[dimension], 'element')}",
                )

    def _taps_field(self, dimension: int) -> str:
        return f"window_size.{dimension}"

    def _window_problems(self, tensor: TensorDesc) -> Iterator[Problem]:
        if tensor.rank < 3:
            yield Problem(
                "needs spatial dimensions behind batch and channel",
                field=f"{self._sliding}.sizes",
                got=plural(tensor.rank, "dimension"),
                allowed="3 dimensions or more",
            )
            return
        for field in ("strides", "window_size", "dilations", "start_padding", "end_padding", "output_padding"):
            values = self.__dict__.get(field)
            if values is None:
                continue
            if len(values) != tensor.rank - 2:
                yield Problem(
                    "must have an entry for each spatial dimension",
                    field=field,
                    got=len(values),
                    allowed=str(tensor.rank - 2),
                )
                return  # the other lists have as many entries
            if not field.endswith("padding"):
                zeros = (dimension for dimension, value in enumerate(values) if value == 0)
                for dimension in zeros:
                    yield Problem("must be at least 1", field=f"{field}.{dimension}", got=0)
