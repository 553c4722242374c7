"""Comparisons: 1 where true, 0 where false, in uint8 unless uint32 is asked for."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from dmlgraph.operators.element_wise import Binary
from dmlgraph.operators.operator import Array
from dmlgraph.operators.outputs import Given, Outcome
from dmlgraph.tensor import DataType


class Comparison(Binary):
    """Base of the comparisons; comparing with NaN is false."""

    output_keywords: ClassVar = ("dtype",)

    def infer(self, given: Given) -> Outcome:
        return {"output": self.a.like(dtype=given["output"].dtype or DataType.UINT8)}


class LogicalEquals(Comparison, dml="ELEMENT_WISE_LOGICAL_EQUALS"):
    """a = b"""

    def function(self, a: Array, b: Array) -> Array:
        return np.equal(a, b)


class LogicalLessThan(Comparison, dml="ELEMENT_WISE_LOGICAL_LESS_THAN"):
    """a < b"""

    def function(self, a: Array, b: Array) -> Array:
        return np.less(a, b)
