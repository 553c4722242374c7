"""Sums of many terms, whose order is free: how far two right results may be apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dmlgraph import operators as ops
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.directml_enums import ReduceFunction
from dmlgraph.operators.reduction import Reduce

Array = np.ndarray[Any, Any]

LINEAR = (ops.Convolution, ops.Gemm)  # sums of products
_OF_ELEMENTS = (ops.AveragePooling, ops.AveragePooling1, ops.CumulativeSummation)  # and REDUCE of some functions
# Where the terms of a sum cancel, this part of the sum of their magnitudes may be left as an error: adding float32 one
# after the other errs by half of 2^-23 of it in the mean, both sides do, and there are many elements.
FREE_ORDER = 4 * 2.0**-23


def magnitudes_of(operator: Operator, inputs: Sequence[Array | None]) -> list[Array]:
    """By output of an operator that adds up, the sums of the magnitudes of its terms, in float64; else nothing.

    A fused activation that is steeper than 1 makes errors of the sum larger, and they count so many times.
    """
    activation = operator.attributes.get("fused_activation")
    steepness = 1.0 if activation is None else max(1.0, abs(activation.attributes.get("alpha", 1.0)))
    numbers = {name: value for name, value in operator.attributes.items() if isinstance(value, float)}
    fields: dict[str, Any] = {name: abs(value) for name, value in numbers.items()}
    kind = type(operator)
    if kind in LINEAR:
        fields["fused_activation"] = None
    elif kind not in _OF_ELEMENTS and not (
        isinstance(operator, Reduce) and operator.function in (ReduceFunction.SUM, ReduceFunction.AVERAGE)
    ):
        return []
    if not operator.first_output.dtype.is_float:
        return []
    with np.errstate(all="ignore"):
        given = (None if each is None else np.abs(each) for each in inputs)
        return [steepness * each.astype(np.float64) for each in operator.replace(**fields).evaluate(*given)]
