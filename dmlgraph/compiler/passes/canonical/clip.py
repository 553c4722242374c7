"""Clips: operators that bound a tensor by numbers become one CLIP, THRESHOLD or ACTIVATION_RELU.

MAX and MIN with a number, THRESHOLD, CLIP, CLIP1 and ACTIVATION_RELU all compute max(low, min(x, high)), and so does a
chain of them.  They differ for NaN: MAX, MIN, THRESHOLD and RELU return the other number, CLIP the greater bound
(measured).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from dmlgraph.base.scalar import Scalar
from dmlgraph.base.tensor import DataType
from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import IrNode, Operand
from dmlgraph.compiler.passes.canonical.affine import beside_numbers
from dmlgraph.compiler.rule import NUMBERS, Differs, New, Outcome, Rewrite, alone, demand, rule, through
from dmlgraph.operators.activation import ActivationRelu
from dmlgraph.operators.common.element_wise import EXACT_INTEGERS
from dmlgraph.operators.declaration.fields import ScaleBias
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.declaration.traits import Bounds, Number, greatest, plain
from dmlgraph.operators.element_wise import Clip, Clip1, Max, Min, Threshold

_RELUS = (DataType.FLOAT32, DataType.FLOAT16, DataType.INT32, DataType.INT16, DataType.INT8)


@dataclasses.dataclass(frozen=True, slots=True)
class ClipView:
    """A node as bounds on one of its operands, to which the scale and bias are applied first."""

    operand: Operand
    bounds: Bounds
    scale_bias: ScaleBias | None = None

    def operator(self) -> New:
        """The simplest operator that has these bounds."""
        dtype, bounds = self.operand.desc.dtype, self.bounds
        if self._is_threshold:
            if bounds.low == 0 and self.scale_bias is None and dtype in _RELUS:
                return New(ActivationRelu, {"input": self.operand})
            return self._with(Threshold, {"min": float(bounds.low)})
        if _fits_clip(bounds.low, dtype) and _fits_clip(bounds.high, dtype):
            return self._with(Clip, {"min": float(bounds.low), "max": float(bounds.high)})
        low, high = (Scalar.of(each, dtype) for each in (bounds.low, bounds.high))
        return self._with(Clip1, {"min": low, "max": high})

    @property
    def keeps_nan(self) -> bool:
        """Whether that operator gives the same for NaN as the node."""
        integers = not self.operand.desc.dtype.is_float
        return integers or self._is_threshold or self.bounds.nan == self.bounds.high

    @property
    def _is_threshold(self) -> bool:
        dtype, bounds = self.operand.desc.dtype, self.bounds
        if dtype.bits == 64 or bounds.high != greatest(dtype):
            return False
        return bounds.nan == bounds.low if dtype.is_float else abs(bounds.low) <= EXACT_INTEGERS

    def _with(self, operator: type[Operator], attributes: Mapping[str, Any]) -> New:
        return New(operator, {"input": self.operand}, {**attributes, "scale_bias": self.scale_bias})

    def __str__(self) -> str:
        return f"between {self.bounds.low:g} and {self.bounds.high:g}"


def clip_view(ir: IrGraph, node: IrNode) -> ClipView | None:
    """The bounds that a node sets by numbers; None for other nodes, or where a number is NaN."""
    operator = node.operator
    if operator is None or not is_clip(type(operator)):
        return None
    found = beside_numbers(ir, node)
    if found is None or not all(number is None or _is_bound(number) for number in found.numbers):
        return None
    bounds = operator.bounds(found.numbers)
    return None if bounds is None else ClipView(found.operand, bounds, getattr(operator, "scale_bias", None))


def is_clip(kind: type[Operator]) -> bool:
    """Whether the operator may bound one operand by numbers."""
    return kind.bounds is not Operator.bounds


@rule(
    is_clip,
    after=(is_clip,),
    effect="bit-exact, except for NaN in min(max(x, lo), hi), which becomes hi instead of lo, and the sign of zeros",
    differs=Differs.ROUNDED | Differs.NAN,
)
def merge_clips(ir: IrGraph, node: IrNode) -> Outcome:
    """min(max(x, lo), hi) → CLIP, relu and min → CLIP, clip of clip → CLIP; the inner one's ScaleBias stays.

    The outer bounds limit the inner ones.  NaN becomes the greater bound, as in CLIP of CLIP and max(min(x, hi), lo);
    min(max(x, lo), hi) and min(relu(x), hi) give lo.  Where a bound is zero, a zero of the other sign may change its
    sign or not.  Integers are exact: bounds beyond 2^24 need CLIP1, whose bounds have the tensor's type.
    """
    outer = clip_view(ir, node)
    if outer is None:
        return None
    producer = ir.producer(outer.operand)
    inner = clip_view(ir, producer)
    if inner is None:
        return None
    demand(outer.scale_bias is None, "a scale and bias lie between the two")
    alone(ir, outer.operand)
    operand = through(ir, outer.operand, inner.operand)
    merged = ClipView(operand, outer.bounds.after(inner.bounds), inner.scale_bias)
    nan = "" if merged.keeps_nan else "; NaN becomes the upper bound"
    return Rewrite.of(merged.operator(), f"with '{producer.name}' it keeps values {merged}{nan}")


@rule(
    Max,
    Min,
    after=NUMBERS,
    effect="bit-exact, except for the sign of zeros where the number is a zero",
    differs=Differs.ROUNDED,
)
def number_to_clip(ir: IrGraph, node: IrNode) -> Outcome:
    """max(x, 0) → ACTIVATION_RELU, max(x, c) → THRESHOLD, min(x, c) → CLIP from −∞.

    The number then needs no tensor that is filled and read.  All of them turn NaN into the number.  CLIP has no
    infinite bounds in float16 (they end at ±65504), so float16, and integer bounds beyond 2^24, use CLIP1.
    """
    found = clip_view(ir, node)
    return None if found is None else Rewrite.of(found.operator(), f"it keeps values {found}, which needs no tensor")


def _is_bound(number: Scalar) -> bool:
    return number.dtype is not DataType.FLOAT64 and not math.isnan(plain(number))


def _fits_clip(bound: Number, dtype: DataType) -> bool:
    """Whether CLIP can have this bound: its bounds are float32 numbers, and finite in float16."""
    if dtype.is_float:
        return dtype is DataType.FLOAT32 or math.isfinite(bound)
    return abs(bound) <= EXACT_INTEGERS


RULES = (merge_clips, number_to_clip)
