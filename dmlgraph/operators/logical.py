"""Comparisons, tests and logic: 1 where true, 0 where false."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from dmlgraph.base.tensor import DataType
from dmlgraph.operators.common.element_wise import Binary, Unary
from dmlgraph.operators.declaration.operator import Array
from dmlgraph.operators.declaration.outputs import Given, Outcome
from dmlgraph.operators.declaration.traits import NumberOfType
from dmlgraph.operators.directml_enums import IsInfinityMode


class Comparison(Binary):
    """Base of the comparisons; comparing with NaN is false.  The output is uint8 unless uint32 is requested."""

    in_place: ClassVar = False
    is_truth: ClassVar = True
    output_keywords: ClassVar = ("dtype",)

    def infer(self, given: Given) -> Outcome:
        return {"output": self.a.like(dtype=given["output"].dtype or DataType.UINT8)}


class LogicalEquals(Comparison, dml="ELEMENT_WISE_LOGICAL_EQUALS"):
    """Whether a = b."""

    function: ClassVar = np.equal


class LogicalGreaterThan(Comparison, dml="ELEMENT_WISE_LOGICAL_GREATER_THAN"):
    """Whether a > b."""

    function: ClassVar = np.greater


class LogicalLessThan(Comparison, dml="ELEMENT_WISE_LOGICAL_LESS_THAN"):
    """Whether a < b."""

    function: ClassVar = np.less


class LogicalGreaterThanOrEqual(Comparison, dml="ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL"):
    """Whether a ≥ b."""

    function: ClassVar = np.greater_equal


class LogicalLessThanOrEqual(Comparison, dml="ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL"):
    """Whether a ≤ b."""

    function: ClassVar = np.less_equal


class LogicalAnd(Binary, dml="ELEMENT_WISE_LOGICAL_AND"):
    """Whether neither a nor b is zero."""

    is_truth: ClassVar = True
    absorbing: ClassVar = NumberOfType(integers=0)
    function: ClassVar = np.logical_and


class LogicalOr(Binary, dml="ELEMENT_WISE_LOGICAL_OR"):
    """Whether a or b, or both, are not zero."""

    is_truth: ClassVar = True
    absorbing: ClassVar = NumberOfType(integers=1)
    function: ClassVar = np.logical_or


class LogicalXor(Binary, dml="ELEMENT_WISE_LOGICAL_XOR"):
    """Whether one of a and b is zero and the other is not."""

    is_truth: ClassVar = True
    function: ClassVar = np.logical_xor


class LogicalNot(Unary, dml="ELEMENT_WISE_LOGICAL_NOT"):
    """Whether x is zero."""

    is_truth: ClassVar = True
    function: ClassVar = np.logical_not


class Predicate(Unary):
    """Base of predicates of a float; the output is uint8 unless another type is requested."""

    in_place: ClassVar = False
    is_truth: ClassVar = True
    output_keywords: ClassVar = ("dtype",)

    def infer(self, given: Given) -> Outcome:
        return {"output": self.input.like(dtype=given["output"].dtype or DataType.UINT8)}


class IsNan(Predicate, dml="ELEMENT_WISE_IS_NAN"):
    """Whether x is NaN."""

    function: ClassVar = np.isnan


class IsInfinity(Predicate, dml="ELEMENT_WISE_IS_INFINITY"):
    """Whether x is infinite: with any sign, or with the mode's."""

    meanings: ClassVar = {"infinity_mode": "Which infinities count: both, positive or negative ones."}

    infinity_mode: IsInfinityMode = IsInfinityMode.EITHER

    def function(self, x: Array) -> Array:
        return _INFINITIES[self.infinity_mode](x)


_INFINITIES: dict[IsInfinityMode, Callable[[Array], Array]] = {
    IsInfinityMode.EITHER: np.isinf,
    IsInfinityMode.POSITIVE: np.isposinf,
    IsInfinityMode.NEGATIVE: np.isneginf,
}
