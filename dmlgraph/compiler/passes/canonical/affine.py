"""Affine maps: the nodes that compute x · scale + bias with numbers, and the composition of two maps.

A ScaleBias computes x · scale, rounds it, adds bias and rounds again, all in float32, without a fused multiply-add.  So
a bias of −0.0 adds nothing to any x, not even to a zero, where 0.0 would turn −0.0 into 0.0; and a scale of 1 changes
nothing.  A ScaleBias cannot compute x · 1 + 0.0: DirectML skips it as a whole, and −0.0 stays (measured).  In float16
the product and the sum are float32, and their result is rounded once.

Affine maps are float16 and float32 only: a ScaleBias converts integers to float32, and 64-bit types refuse it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dmlgraph.base.tensor import DataType
from dmlgraph.compiler.draft import Draft
from dmlgraph.compiler.draft_node import DraftNode
from dmlgraph.compiler.rule import Declined, Operand
from dmlgraph.operators.activation import ActivationLinear
from dmlgraph.operators.declaration.fields import ScaleBias
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.element_wise import Add, Divide, Identity, Multiply, Negate, Subtract

FLOATS = (DataType.FLOAT32, DataType.FLOAT16)
_GREATEST, _LEAST_NORMAL = float(np.finfo(np.float32).max), float(np.finfo(np.float32).tiny)


class AffineMap(NamedTuple):
    """x · scale + bias, both float32 numbers."""

    scale: float = 1.0
    bias: float = -0.0

    @property
    def shifts(self) -> bool:
        """Whether the bias changes anything; 0.0 changes −0.0."""
        return self.bias != 0.0 or math.copysign(1.0, self.bias) > 0

    @property
    def is_identity(self) -> bool:
        return self.scale == 1.0 and not self.shifts

    @property
    def is_left_out(self) -> bool:
        """Whether DirectML skips it, although it turns −0.0 into 0.0."""
        return self.scale == 1.0 and self.bias == 0.0 and self.shifts

    @property
    def scale_bias(self) -> ScaleBias | None:
        """The field's value; None if the map changes nothing."""
        return None if self.is_identity else ScaleBias(scale=self.scale, bias=self.bias)

    def __str__(self) -> str:
        return f"x · {self.scale:g} + {self.bias:g}" if self.shifts else f"x · {self.scale:g}"


class Affine(NamedTuple):
    """A node as an affine map of one of its operands."""

    operand: Operand
    map: AffineMap


def is_power_of_two(number: float) -> bool:
    """Whether a product with the number is exact, unless it over- or underflows."""
    return number != 0.0 and math.isfinite(number) and abs(math.frexp(number)[0]) == 0.5


def affine_map_of(scale_bias: ScaleBias | None) -> AffineMap:
    """The affine map of a ScaleBias field."""
    return AffineMap() if scale_bias is None else AffineMap(scale_bias.scale, scale_bias.bias)


def affine(draft: Draft, node: DraftNode) -> Affine | None:
    """The affine map that a node computes to the bit (in float16: with the last rounding only); else None.

    MULTIPLY, ADD and SUBTRACT with a finite number, DIVIDE by a power of two, NEGATE, IDENTITY with a ScaleBias and
    ACTIVATION_LINEAR.  Returns None for an identity, and for a node that has only numbers as operands.
    """
    view = _VIEWS.get(type(node.operator))
    found = view(draft, node) if view is not None else None
    if found is None or found.map.is_identity or found.map.is_left_out or not _is_finite(found.map):
        return None
    return found if found.operand.desc.dtype in FLOATS else None


def nearly_affine(draft: Draft, node: DraftNode) -> Affine | None:
    """`affine`, and also DIVIDE by any number: for patterns that tolerate rounding."""
    found = affine(draft, node)
    if found is None and isinstance(node.operator, Divide):
        divided = _with_number(draft, node, "a", "b")
        if divided is not None and divided[1] != 0.0 and divided[0].desc.dtype in FLOATS:
            return Affine(divided[0], AffineMap(1.0 / divided[1]))
    return found


def compose(outer: AffineMap, inner: AffineMap) -> AffineMap:
    """outer(inner(x)) as one map: within 2 ULP, and to the bit where a scale is a power of two.

    (x·a)·c is x·(a·c): to the bit if a or c is a power of two and nothing over- or underflows; within 2 ULP if both are
    at most 1 or both at least 1, so that the one product over- or underflows where the two do.  (x·a + b)·c is x·(a·c)
    + b·c to the bit if c is a power of two.

    Raises:
        Declined: one map is not that close; `reassociate` accepts more.
    """
    exact = is_power_of_two(inner.scale) or is_power_of_two(outer.scale)
    magnitudes = abs(inner.scale), abs(outer.scale)
    if not exact and (inner.shifts or outer.shifts or not (max(magnitudes) <= 1 or min(magnitudes) >= 1)):
        raise Declined(f"({inner}) · {outer.scale:g} is not within 2 ULP of one product")
    if inner.shifts and outer.scale != 1.0 and not (is_power_of_two(outer.scale) and outer.scale > 0):
        raise Declined(f"({inner}) · {outer.scale:g}: the sum would be rounded elsewhere, without a bound in ULP")
    if inner.shifts and outer.shifts:
        raise Declined(f"({inner}) + {outer.bias:g}: sums are not associative")
    affine_map = _composed(outer, inner)
    if affine_map.is_left_out:
        raise Declined("DirectML skips a scale of 1 with a bias of 0.0")
    return affine_map


def compose_as_reals(outer: AffineMap, inner: AffineMap) -> AffineMap:
    """outer(inner(x)) as one map, computed as in real numbers: where terms cancel, no digit may be correct.

    Raises:
        Declined: a number of the map is beyond float32.
    """
    affine_map = _composed(outer, inner)
    return AffineMap() if affine_map.is_left_out else affine_map


def _composed(outer: AffineMap, inner: AffineMap) -> AffineMap:
    scale = _rounded(inner.scale * outer.scale)
    if not inner.shifts:
        return AffineMap(scale, outer.bias)
    bias = _rounded(inner.bias * outer.scale)
    return AffineMap(scale, _rounded(bias + outer.bias) if outer.shifts else bias)


def _rounded(number: float) -> float:
    """A number as float32.  Raises Declined where float32 overflows, or is subnormal, which has fewer digits."""
    if abs(number) > _GREATEST or 0.0 < abs(number) < _LEAST_NORMAL:
        raise Declined(f"{number:g} is not a normal float32")
    return float(np.float32(number))


def _is_finite(affine_map: AffineMap) -> bool:
    return math.isfinite(affine_map.scale) and math.isfinite(affine_map.bias)


# The views.


def _with_number(draft: Draft, node: DraftNode, field: str, other: str) -> tuple[Operand, float] | None:
    """An operand and the number that is the other one; None if neither or both are numbers."""
    number = draft.number(node.operand(other))
    operand = node.operand(field)
    if number is None or operand is None or draft.number(operand) is not None or number.dtype not in FLOATS:
        return None
    return operand, float(number.value)


def _beside_a_number(draft: Draft, node: DraftNode) -> tuple[Operand, float] | None:
    return _with_number(draft, node, "a", "b") or _with_number(draft, node, "b", "a")


def _multiply(draft: Draft, node: DraftNode) -> Affine | None:
    found = _beside_a_number(draft, node)
    return found and Affine(found[0], AffineMap(scale=found[1]))


def _add(draft: Draft, node: DraftNode) -> Affine | None:
    found = _beside_a_number(draft, node)
    return found and Affine(found[0], AffineMap(bias=found[1]))


def _subtract(draft: Draft, node: DraftNode) -> Affine | None:
    if found := _with_number(draft, node, "a", "b"):
        return Affine(found[0], AffineMap(bias=-found[1]))
    found = _with_number(draft, node, "b", "a")
    return found and Affine(found[0], AffineMap(-1.0, found[1]))


def _divide(draft: Draft, node: DraftNode) -> Affine | None:
    found = _with_number(draft, node, "a", "b")
    if found is None or not is_power_of_two(found[1]):
        return None
    inverse = 1.0 / found[1]
    return Affine(found[0], AffineMap(inverse)) if _LEAST_NORMAL <= abs(inverse) <= _GREATEST else None


def _negate(_: Draft, node: DraftNode) -> Affine | None:
    operand = node.operand("input")
    return operand and Affine(operand, AffineMap(-1.0))


def _identity(_: Draft, node: DraftNode) -> Affine | None:
    operand, operator = node.operand("input"), node.computing(Identity)
    return operand and Affine(operand, affine_map_of(operator.scale_bias))


def _linear(_: Draft, node: DraftNode) -> Affine | None:
    operand, operator = node.operand("input"), node.computing(ActivationLinear)
    return operand and Affine(operand, AffineMap(operator.alpha, operator.beta))


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
