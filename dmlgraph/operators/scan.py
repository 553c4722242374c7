"""Running sums and products along an axis."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from dmlgraph.operators.declaration.fields import Axis, Bool, Input, Output, inferred
from dmlgraph.operators.declaration.operator import Array, Operator
from dmlgraph.operators.directml_enums import AxisDirection


class Scan(Operator):
    """Base: the elements along `axis` up to each one, accumulated with a NumPy function.

    Floats are accumulated one by one and rounded to the tensor's type each time (measured); integers wrap modulo 2^N.
    """

    meanings: ClassVar = {"axis_direction": "Whether it goes along the axis upwards or downwards."}
    in_place: ClassVar = True
    accumulate: ClassVar[np.ufunc]

    input: Input
    output: Output = inferred()
    axis: Axis
    axis_direction: AxisDirection = AxisDirection.INCREASING

    def evaluate(self, x: Array) -> tuple[Array, ...]:
        lines = np.moveaxis(x, self.axis, -1)
        if self.axis_direction is AxisDirection.DECREASING:
            lines = lines[..., ::-1]
        with np.errstate(all="ignore"):
            totals = self.accumulate.accumulate(lines, axis=-1, dtype=lines.dtype)
            if self._is_exclusive:
                totals = np.roll(totals, 1, axis=-1)
                totals[..., 0] = self.accumulate.identity
            if self.axis_direction is AxisDirection.DECREASING:
                totals = totals[..., ::-1]
            return (np.moveaxis(totals, -1, self.axis),)

    @property
    def _is_exclusive(self) -> bool:
        """Whether each element's total excludes the element itself."""
        raise NotImplementedError


class CumulativeSummation(Scan, dml="CUMULATIVE_SUMMATION"):
    """The sum of the elements along `axis` up to each one, from the first on (increasing) or the last (decreasing).

    With `has_exclusive_sum` each sum excludes the element itself, so the first is 0.
    """

    meanings: ClassVar = {"has_exclusive_sum": "Whether an element is left out of its own sum."}
    accumulate: ClassVar = np.add
    example: ClassVar = "axis: 3, axis_direction: increasing, has_exclusive_sum: false"

    has_exclusive_sum: Bool = False

    @property
    def _is_exclusive(self) -> bool:
        return self.has_exclusive_sum


class CumulativeProduct(Scan, dml="CUMULATIVE_PRODUCT"):
    """The product of the elements along `axis` up to each one, from the first on (increasing) or the last (decreasing).

    With `has_exclusive_product` each product excludes the element itself, so the first is 1.
    """

    meanings: ClassVar = {"has_exclusive_product": "Whether an element is left out of its own product."}
    accumulate: ClassVar = np.multiply
    example: ClassVar = "axis: 3, axis_direction: increasing, has_exclusive_product: false"

    has_exclusive_product: Bool = False

    @property
    def _is_exclusive(self) -> bool:
        return self.has_exclusive_product
