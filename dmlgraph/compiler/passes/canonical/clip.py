"""Clips: operators that bound a tensor by numbers become one CLIP, THRESHOLD or ACTIVATION_RELU.

MAX and MIN with a number, THRESHOLD, CLIP, CLIP1 and ACTIVATION_RELU all compute max(low, min(x, high)), and so does a
chain of them.  They differ for NaN: MAX, MIN, THRESHOLD and RELU return the other number, CLIP the greater bound
(measured).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

from dmlgraph.base.scalar import Scalar
from dmlgraph.base.tensor import DataType
from dmlgraph.compiler.draft import Draft
from dmlgraph.compiler.draft_node import DraftNode
from dmlgraph.compiler.rule import NUMBERS, Declined, Differs, New, Operand, Outcome, Rewrite, rule
from dmlgraph.operators.activation import ActivationRelu
from dmlgraph.operators.common.element_wise import finite_bound
from dmlgraph.operators.declaration.fields import ScaleBias
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.element_wise import Clip, Clip1, Max, Min, Threshold

Number = int | float

EXACT_INTEGERS = 1 << 24  # float32, the type of CLIP's and THRESHOLD's bounds, holds all integers up to here
INFINITY = math.inf
_RELUS = (DataType.FLOAT32, DataType.FLOAT16, DataType.INT32, DataType.INT16, DataType.INT8)


@dataclasses.dataclass(frozen=True, slots=True)
class Bounds:
    """max(low, min(x, high)), and the result for NaN; low is at most high."""

    low: Number
    high: Number
    nan: Number

    def __call__(self, number: Number) -> Number:
        return max(self.low, min(number, self.high))

    def after(self, inner: Bounds) -> Bounds:
        """The bounds of both, `inner` applied first."""
        return Bounds(self(inner.low), self(inner.high), self(inner.nan))


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
        if dtype.bits == 64 or bounds.high != _greatest(dtype):
            return False
        return bounds.nan == bounds.low if dtype.is_float else abs(bounds.low) <= EXACT_INTEGERS

    def _with(self, operator: type[Operator], attributes: Mapping[str, Any]) -> New:
        return New(operator, {"input": self.operand}, {**attributes, "scale_bias": self.scale_bias})

    def __str__(self) -> str:
        return f"between {self.bounds.low:g} and {self.bounds.high:g}"


def clip_view(draft: Draft, node: DraftNode) -> ClipView | None:
    """The bounds that a node sets by numbers; None for other nodes, or where a number is NaN."""
    view = _VIEWS.get(type(node.operator))
    return view(draft, node) if view is not None else None


_CLIPS = (Max, Min, Threshold, Clip, Clip1, ActivationRelu)


@rule(
    *_CLIPS,
    after=_CLIPS,
    effect="bit-exact, except for NaN in min(max(x, lo), hi), which becomes hi instead of lo, and the sign of zeros",
    differs=Differs.ROUNDED | Differs.NAN,
)
def merge_clips(draft: Draft, node: DraftNode) -> Outcome:
    """min(max(x, lo), hi) → CLIP, relu and min → CLIP, clip of clip → CLIP; the inner one's ScaleBias stays.

    The outer bounds limit the inner ones.  NaN becomes the greater bound, as in CLIP of CLIP and max(min(x, hi), lo);
    min(max(x, lo), hi) and min(relu(x), hi) give lo.  Where a bound is zero, a zero of the other sign may change its
    sign or not.  Integers are exact: bounds beyond 2^24 need CLIP1, whose bounds have the tensor's type.
    """
    outer = clip_view(draft, node)
    if outer is None:
        return None
    producer = draft.producer(outer.operand)
    inner = clip_view(draft, producer)
    if inner is None:
        return None
    if outer.scale_bias is not None:
        return Declined("a scale and bias lie between the two")
    if not draft.only_use(outer.operand):
        return Declined(f"'{producer.name}' has other readers, and would stay")
    operand = draft.around(outer.operand, draft.produced(outer.operand), inner.operand)
    if operand is None:
        return Declined(f"it reads '{producer.name}' through other strides")
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
def number_to_clip(draft: Draft, node: DraftNode) -> Outcome:
    """max(x, 0) → ACTIVATION_RELU, max(x, c) → THRESHOLD, min(x, c) → CLIP from −∞.

    The number then needs no tensor that is filled and read.  All of them turn NaN into the number.  CLIP has no
    infinite bounds in float16 (they end at ±65504), so float16, and integer bounds beyond 2^24, use CLIP1.
    """
    found = clip_view(draft, node)
    return None if found is None else Rewrite.of(found.operator(), f"it keeps values {found}, which needs no tensor")


# The views.


def _beside_a_number(draft: Draft, node: DraftNode) -> tuple[Operand, Number] | None:
    found = draft.beside_a_number(node)
    if found is None:
        return None
    number = _plain(found.number)
    return None if math.isnan(number) or found.number.dtype is DataType.FLOAT64 else (found.tensor, number)


def _max(draft: Draft, node: DraftNode) -> ClipView | None:
    found = _beside_a_number(draft, node)
    if found is None:
        return None
    operand, number = found
    return ClipView(operand, Bounds(number, _greatest(operand.desc.dtype), number))


def _min(draft: Draft, node: DraftNode) -> ClipView | None:
    found = _beside_a_number(draft, node)
    if found is None:
        return None
    operand, number = found
    return ClipView(operand, Bounds(_least(operand.desc.dtype), number, number))


def _relu(_: Draft, node: DraftNode) -> ClipView | None:
    operand = node.operand("input")
    return operand and ClipView(operand, Bounds(0, _greatest(operand.desc.dtype), 0))


def _threshold(_: Draft, node: DraftNode) -> ClipView | None:
    operand, operator = node.operand("input"), node.computing(Threshold)
    if operand is None or not _within(operator.min, operand.desc.dtype):
        return None
    low = _as_number(operator.min, operand.desc.dtype, finite=False)
    return ClipView(operand, Bounds(low, _greatest(operand.desc.dtype), low), operator.scale_bias)


def _clip(_: Draft, node: DraftNode) -> ClipView | None:
    operand, operator = node.operand("input"), node.computing(Clip)
    if operand is None or math.isnan(operator.min) or math.isnan(operator.max):
        return None
    low, high = (_as_number(each, operand.desc.dtype, finite=True) for each in (operator.min, operator.max))
    return ClipView(operand, Bounds(low, max(low, high), max(low, high)), operator.scale_bias)


def _clip1(_: Draft, node: DraftNode) -> ClipView | None:
    operand, operator = node.operand("input"), node.computing(Clip1)
    low, high = _plain(operator.min), _plain(operator.max)
    if operand is None or math.isnan(low) or math.isnan(high):
        return None
    return ClipView(operand, Bounds(low, max(low, high), max(low, high)), operator.scale_bias)


_VIEWS: dict[type[Operator | None], Callable[[Draft, DraftNode], ClipView | None]] = {
    Max: _max,
    Min: _min,
    ActivationRelu: _relu,
    Threshold: _threshold,
    Clip: _clip,
    Clip1: _clip1,
}


# Bounds as numbers of a type.


def _plain(scalar: Scalar) -> Number:
    return float(scalar.value) if scalar.dtype.is_float else int(scalar.value)


def _greatest(dtype: DataType) -> Number:
    return INFINITY if dtype.is_float else dtype.range[1]


def _least(dtype: DataType) -> Number:
    return -INFINITY if dtype.is_float else dtype.range[0]


def _within(bound: float, dtype: DataType) -> bool:
    """Whether a type can represent a FLOAT attribute as a bound: false for NaN and for non-representable integers."""
    if dtype.is_float:
        return not math.isnan(bound)
    return abs(bound) <= EXACT_INTEGERS and dtype.range[0] <= bound <= dtype.range[1]


def _as_number(bound: float, dtype: DataType, *, finite: bool) -> Number:
    """A FLOAT attribute in a tensor's type; `finite` as in CLIP, whose float16 bounds end at ±65504."""
    if not dtype.is_float:
        return int(finite_bound(bound, dtype))
    if not finite and math.isinf(bound):
        return bound
    return float(finite_bound(bound, dtype))


def _fits_clip(bound: Number, dtype: DataType) -> bool:
    """Whether CLIP can have this bound: its bounds are float32 numbers, and finite in float16."""
    if dtype.is_float:
        return dtype is DataType.FLOAT32 or math.isfinite(bound)
    return abs(bound) <= EXACT_INTEGERS


RULES = (merge_clips, number_to_clip)
