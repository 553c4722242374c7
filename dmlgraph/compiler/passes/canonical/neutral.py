"""Neutral elements: operations with a number that changes nothing, or that determines the result.

The rules hold for every value: x + 0.0 is not x for −0.0, x · 0.0 is not 0.0 for NaN, and max(x, −∞) is not x for NaN,
so these are not here.  A device that flushes subnormal numbers when it computes keeps them where the operation is
removed; a NaN stays a NaN, but may keep a payload that the operation would have changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from dmlgraph.base.scalar import Scalar
from dmlgraph.base.tensor import DataType
from dmlgraph.compiler.draft import Draft
from dmlgraph.compiler.draft_node import DraftNode
from dmlgraph.compiler.passes.canonical.fills import fill
from dmlgraph.compiler.passes.canonical.redundant import instead
from dmlgraph.compiler.rule import NUMBERS, Outcome, Rewrite, rule
from dmlgraph.operators.bitwise import BitAnd, BitOr, BitShiftLeft, BitShiftRight, BitXor
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.element_wise import Add, Divide, If, Max, Min, Multiply, Subtract
from dmlgraph.operators.logical import LogicalAnd, LogicalOr

Number = Callable[[DataType], Scalar | None]


def _float(value: float) -> Number:
    """A number that is neutral among floats only."""
    return lambda dtype: Scalar.of(value, dtype) if dtype.is_float else None


def _integer(bits: int) -> Number:
    """A bit pattern that is neutral among integers only."""
    return lambda dtype: None if dtype.is_float else Scalar(dtype, bits & ((1 << dtype.bits) - 1))


def _both(floats: Number, integers: Number) -> Number:
    return lambda dtype: floats(dtype) if dtype.is_float else integers(dtype)


def _bound(index: int) -> Number:
    """The least (0) or the greatest (1) integer."""
    return lambda dtype: None if dtype.is_float else Scalar.of(dtype.range[index], dtype)


class Neutral(NamedTuple):
    """The neutral number, and whether it is also neutral on the left."""

    number: Number
    is_on_both_sides: bool


_NEUTRAL: dict[type[Operator], Neutral] = {
    Add: Neutral(_both(_float(-0.0), _integer(0)), True),
    Subtract: Neutral(_both(_float(0.0), _integer(0)), False),
    Multiply: Neutral(_both(_float(1.0), _integer(1)), True),
    Divide: Neutral(_both(_float(1.0), _integer(1)), False),
    Max: Neutral(_bound(0), True),
    Min: Neutral(_bound(1), True),
    BitAnd: Neutral(_integer(-1), True),
    BitOr: Neutral(_integer(0), True),
    BitXor: Neutral(_integer(0), True),
    BitShiftLeft: Neutral(_integer(0), False),
    BitShiftRight: Neutral(_integer(0), False),
}

# An operand's number that determines the result, and that result (None: the same number).
_DECIDING: dict[type[Operator], tuple[Number, int | None]] = {
    Multiply: (_integer(0), None),
    BitAnd: (_integer(0), None),
    BitOr: (_integer(-1), None),
    Max: (_bound(1), None),
    Min: (_bound(0), None),
    LogicalAnd: (_integer(0), 0),
    LogicalOr: (_integer(1), 1),
}


@rule(
    *_NEUTRAL,
    after=NUMBERS,
    effect="bit-exact, except for payloads of NaN and for subnormal numbers that a device flushes",
)
def remove_neutral(draft: Draft, node: DraftNode) -> Outcome:
    """x + (−0.0), x − 0.0, x · 1, x / 1 → x; integers also x + 0, max and min with their bounds, x | 0, x << 0."""
    a, b = node.needed("a"), node.needed("b")
    neutral = _NEUTRAL[type(node.computation)]
    for operand, other in ((a, b), (b, a)) if neutral.is_on_both_sides else ((a, b),):
        number = draft.number(other)
        if number is not None and number == neutral.number(number.dtype):
            return instead(draft, node, operand, f"{number} changes nothing")
    return None


@rule(*_DECIDING, after=NUMBERS, effect="bit-exact")
def decide(draft: Draft, node: DraftNode) -> Outcome:
    """Integers only: x · 0, x & 0 → 0, x | ~0 → ~0, max and min with the other bound, and(x, 0), or(x, 1) → fill."""
    number_of, result = _DECIDING[type(node.computation)]
    for operand in node.needed("a"), node.needed("b"):
        number = draft.number(operand)
        if number is not None and number == number_of(number.dtype):
            value = number if result is None else Scalar.of(result, node.output_desc().dtype)
            return Rewrite.of(fill(draft, node, 0, value), f"{number} makes it {value} everywhere")
    return None


@rule(Max, Min, If, BitAnd, BitOr, Subtract, BitXor, effect="bit-exact")
def same_operands(draft: Draft, node: DraftNode) -> Outcome:
    """max(x, x), min(x, x), if(c, x, x), x & x, x | x → x; integers x − x, x ^ x → 0."""
    a, b = node.needed("a"), node.needed("b")
    if a != b:
        return None
    if not isinstance(node.operator, (Subtract, BitXor)):
        return instead(draft, node, a, "both operands are the same")
    dtype = node.output_desc().dtype
    if dtype.is_float:
        return None  # NaN and infinities
    return Rewrite.of(fill(draft, node, 0, Scalar(dtype, 0)), "both operands are the same")


RULES = (remove_neutral, decide, same_operands)
