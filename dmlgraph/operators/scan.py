"""Running sums and products along an axis."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from dmlgraph import operators as ops
from dmlgraph.operators.declaration.derivative import Backward, Gradients
from dmlgraph.operators.declaration.fields import Axis, Bool, Input, Output, inferred
from dmlgraph.operators.declaration.operator import Array, Operator
from dmlgraph.operators.directml_enums import AxisDirection

_OPPOSITE = {
    AxisDirection.INCREASING: AxisDirection.DECREASING,
    AxisDirection.DECREASING: AxisDirection.INCREASING,
}


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

    def derivative(self, back: Backward) -> Gradients:
        fields = {**self.attributes, "axis_direction": _OPPOSITE[self.axis_direction]}
        return [back(ops.CumulativeSummation, back.g, **fields)]


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

    def derivative(self, back: Backward) -> Gradients:
        """Σ over the totals with an element of the gradient times the other factors, also where one is zero.

        The factors before the element are an exclusive total; those after it, up to each total, the columns of a matrix
        with ones up to the element.
        """
        size, upwards = self.input.sizes[self.axis], self.axis_direction is AxisDirection.INCREASING
        order = [*(axis for axis in range(self.input.rank) if axis != self.axis), self.axis]
        x, g = (each.transpose(order).reshape(-1, size, 1) for each in (back.x, back.g))
        later = np.tri(size, k=-1, dtype=bool) if upwards else ~np.tri(size, dtype=bool)  # [total, element]
        counted = later if self.has_exclusive_product else later | np.eye(size, dtype=bool)
        dtype = self.input.dtype.numpy
        mask = back.builder.constant(later.astype(np.uint8).reshape(1, size, size))
        along = {"axis": 1, "axis_direction": self.axis_direction}
        after = back(
            ops.CumulativeProduct,
            back.choose(mask, x.broadcast_to(x.sizes[0], size, size), 1),
            has_exclusive_product=self.has_exclusive_product,
            **along,
        )
        before = back(ops.CumulativeProduct, x, has_exclusive_product=True, **along)
        used = back.builder.constant(counted.astype(dtype).reshape(1, size, size))
        total = back.total(after * used * g, [1]).reshape(x.sizes)
        back_order = [order.index(axis) for axis in range(len(order))]
        moved = tuple(self.input.sizes[axis] for axis in order)
        return [(before * total).reshape(moved).transpose(back_order)]
