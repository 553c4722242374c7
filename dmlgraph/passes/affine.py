"""Straight lines: the nodes that compute x · scale + bias with numbers, and what one line after another is.

A ScaleBias computes x · scale, rounds it, adds bias and rounds again, all in float32; there is no fused multiply-add.
So a bias of −0.0 adds nothing to any x, not even to a zero, where 0.0 would turn −0.0 into 0.0; and a scale of 1
changes nothing.  The line x · 1 + 0.0 is none that a ScaleBias has: DirectML leaves it out as a whole, and −0.0 stays
(measured).  Of float16 the product and the sum are float32, and what comes of them is rounded once.

Lines are of float16 and float32 only: a ScaleBias brings integers through float32, and is refused for 64-bit types.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dmlgraph.operators.activation import ActivationLinear
from dmlgraph.operators.declaration.fields import ScaleBias
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.element_wise import Add, Divide, Identity, Multiply, Negate, Subtract
from dmlgraph.passes.draft import Draft, DraftNode
from dmlgraph.passes.rule import Declined, Operand
from dmlgraph.tensor import DataType

FLOATS = (DataType.FLOAT32, DataType.FLOAT16)
_GREATEST, _LEAST_NORMAL = float(np.finfo(np.float32).max), float(np.finfo(np.float32).tiny)


class Line(NamedTuple):
    """x · scale + bias, both of them float32 numbers."""

    scale: float = 1.0
    bias: float = -0.0

    @property
    def shifts(self) -> bool:
        """Whether the bias does anything; 0.0 does, to −0.0."""
        return self.bias != 0.0 or math.copysign(1.0, self.bias) > 0

    @property
    def is_identity(self) -> bool:
        return self.scale == 1.0 and not self.shifts

    @property
    def is_left_out(self) -> bool:
        """Whether DirectML takes it for nothing, though it turns −0.0 into 0.0."""
        return self.scale == 1.0 and self.bias == 0.0 and self.shifts

    @property
    def scale_bias(self) -> ScaleBias | None:
        """The field's value: None where the line changes nothing."""
        return None if self.is_identity else ScaleBias(scale=self.scale, bias=self.bias)

    def __str__(self) -> str:
        return f"x · {self.scale:g} + {self.bias:g}" if self.shifts else f"x · {self.scale:g}"


class Affine(NamedTuple):
    """A node as a line of one of its operands."""

    operand: Operand
    line: Line


def is_power_of_two(number: float) -> bool:
    """Whether a product with the number is exact, unless it over- or underflows."""
    return number != 0.0 and math.isfinite(number) and abs(math.frexp(number)[0]) == 0.5


def line_of(scale_bias: ScaleBias | None) -> Line:
    """The line of a ScaleBias field."""
    return Line() if scale_bias is None else Line(scale_bias.scale, scale_bias.bias)


def affine(draft: Draft, node: DraftNode) -> Affine | None:
    """The line that a node computes to the bit (in float16: with all roundings but the last left out); else None.

    MULTIPLY, ADD and SUBTRACT with a finite number, DIVIDE by a power of two, NEGATE, IDENTITY with a ScaleBias and
    ACTIVATION_LINEAR.  An identity is none, and neither is a node of nothing but numbers.
    """
    view = _VIEWS.get(type(node.operator))
    found = view(draft, node) if view is not None else None
    if found is None or found.line.is_identity or found.line.is_left_out or not _is_finite(found.line):
        return None
    return found if found.operand.desc.dtype in FLOATS else None


def nearly_affine(draft: Draft, node: DraftNode) -> Affine | None:
    """`affine`, and also DIVIDE by any number: what a pattern that allows for rounding takes for a line."""
    found = affine(draft, node)
    if found is None and isinstance(node.operator, Divide):
        divided = _with_number(draft, node, "a", "b")
        if divided is not None and divided[1] != 0.0 and divided[0].desc.dtype in FLOATS:
            return Affine(divided[0], Line(1.0 / divided[1]))
    return found


def compose(outer: Line, inner: Line) -> Line:
    """outer(inner(x)) as one line, at most 2 ULP away, and to the bit where a scale is a power of two.

    (x·a)·c is x·(a·c): to the bit if a or c is a power of two and nothing over- or underflows; within 2 ULP if
    both are at most 1 or both at least 1, so that the one product does what the two do.  (x·a + b)·c is
    x·(a·c) + b·c to the bit if c is a power of two.

    Raises:
        Declined: the one line is not that near; `reassociate` goes farther.
    """
    exact = is_power_of_two(inner.scale) or is_power_of_two(outer.scale)
    magnitudes = abs(inner.scale), abs(outer.scale)
    if not exact and (inner.shifts or outer.shifts or not (max(magnitudes) <= 1 or min(magnitudes) >= 1)):
        raise Declined(f"({inner}) · {outer.scale:g} is not within 2 ULP of one product")
    if inner.shifts and outer.scale != 1.0 and not (is_power_of_two(outer.scale) and outer.scale > 0):
        raise Declined(f"({inner}) · {outer.scale:g}: the sum would be rounded elsewhere, without a bound in ULP")
    if inner.shifts and outer.shifts:
        raise Declined(f"({inner}) + {outer.bias:g}: sums are not associative")
    line = _composed(outer, inner)
    if line.is_left_out:
        raise Declined("DirectML leaves a scale of 1 and a bias of 0.0 out")
    return line


def compose_as_reals(outer: Line, inner: Line) -> Line:
    """outer(inner(x)) as one line as if numbers were real: where terms cancel no digit may be left.

    Raises:
        Declined: a number of the line is beyond float32.
    """
    line = _composed(outer, inner)
    return Line() if line.is_left_out else line


def _composed(outer: Line, inner: Line) -> Line:
    scale = _rounded(inner.scale * outer.scale)
    if not inner.shifts:
        return Line(scale, outer.bias)
    bias = _rounded(inner.bias * outer.scale)
    return Line(scale, _rounded(bias + outer.bias) if outer.shifts else bias)


def _rounded(number: float) -> float:
    """A number as float32; Declined where it is none, or a subnormal one, whose digits are fewer."""
    if abs(number) > _GREATEST or 0.0 < abs(number) < _LEAST_NORMAL:
        raise Declined(f"{number:g} is not a normal float32")
    return float(np.float32(number))


def _is_finite(line: Line) -> bool:
    return math.isfinite(line.scale) and math.isfinite(line.bias)


# The views.


def _with_number(draft: Draft, node: DraftNode, field: str, other: str) -> tuple[Operand, float] | None:
    """An operand and the number beside it; None where there is no number, or nothing but numbers."""
    number = draft.number(node.operand(other))
    operand = node.operand(field)
    if number is None or operand is None or draft.number(operand) is not None or number.dtype not in FLOATS:
        return None
    return operand, float(number.value)


def _beside_a_number(draft: Draft, node: DraftNode) -> tuple[Operand, float] | None:
    return _with_number(draft, node, "a", "b") or _with_number(draft, node, "b", "a")


def _multiply(draft: Draft, node: DraftNode) -> Affine | None:
    found = _beside_a_number(draft, node)
    return found and Affine(found[0], Line(scale=found[1]))


def _add(draft: Draft, node: DraftNode) -> Affine | None:
    found = _beside_a_number(draft, node)
    return found and Affine(found[0], Line(bias=found[1]))


def _subtract(draft: Draft, node: DraftNode) -> Affine | None:
    if found := _with_number(draft, node, "a", "b"):
        return Affine(found[0], Line(bias=-found[1]))
    found = _with_number(draft, node, "b", "a")
    return found and Affine(found[0], Line(-1.0, found[1]))


def _divide(draft: Draft, node: DraftNode) -> Affine | None:
    found = _with_number(draft, node, "a", "b")
    if found is None or not is_power_of_two(found[1]):
        return None
    inverse = 1.0 / found[1]
    return Affine(found[0], Line(inverse)) if _LEAST_NORMAL <= abs(inverse) <= _GREATEST else None


def _negate(_: Draft, node: DraftNode) -> Affine | None:
    operand = node.operand("input")
    return operand and Affine(operand, Line(-1.0))


def _identity(_: Draft, node: DraftNode) -> Affine | None:
    operand, operator = node.operand("input"), node.operator
    assert isinstance(operator, Identity)
    return operand and Affine(operand, line_of(operator.scale_bias))


def _linear(_: Draft, node: DraftNode) -> Affine | None:
    operand, operator = node.operand("input"), node.operator
    assert isinstance(operator, ActivationLinear)
    return operand and Affine(operand, Line(operator.alpha, operator.beta))


_VIEWS: dict[type[Operator | None], Callable[[Draft, DraftNode], Affine | None]] = {
    Multiply: _multiply,
    Add: _add,
    Subtract: _subtract,
    Divide: _divide,
    Negate: _negate,
    Identity: _identity,
    ActivationLinear: _linear,
}
AFFINE: tuple[type[Operator], ...] = (Multiply, Add, Subtract, Divide, Negate, Identity, ActivationLinear)
