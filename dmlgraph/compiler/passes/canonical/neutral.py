"""Neutral elements: operations with a number that changes nothing, or that determines the result.

The rules hold for every value: x + 0.0 is not x for −0.0, x · 0.0 is not 0.0 for NaN, and max(x, −∞) is not x for NaN,
so these are not here.  A device that flushes subnormal numbers when it computes keeps them where the operation is
removed; a NaN stays a NaN, but may keep a payload that the operation would have changed.
"""

from __future__ import annotations

from dmlgraph.base.scalar import Scalar
from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import IrNode
from dmlgraph.compiler.passes.canonical.fills import fill
from dmlgraph.compiler.passes.canonical.redundant import instead
from dmlgraph.compiler.rule import NUMBERS, Outcome, Rewrite, rule


@rule(
    lambda kind: kind.neutral is not None,
    after=NUMBERS,
    effect="bit-exact, except for payloads of NaN and for subnormal numbers that a device flushes",
)
def remove_neutral(ir: IrGraph, node: IrNode) -> Outcome:
    """x + (−0.0), x − 0.0, x · 1, x / 1 → x; integers also x + 0, max and min with their bounds, x | 0, x << 0."""
    a, b = node.needed("a"), node.needed("b")
    operator = node.computation
    for operand, other in ((a, b), (b, a)) if operator.commutative else ((a, b),):
        number = ir.number(other)
        if number is not None and operator.neutral is not None and number == operator.neutral.of(number.dtype):
            return instead(ir, node, operand, f"{number} changes nothing")
    return None


@rule(lambda kind: kind.absorbing is not None, after=NUMBERS, effect="bit-exact")
def decide(ir: IrGraph, node: IrNode) -> Outcome:
    """Integers only: x · 0, x & 0 → 0, x | ~0 → ~0, max and min with the other bound, and(x, 0), or(x, 1) → fill."""
    absorbing = node.computation.absorbing
    for operand in node.needed("a"), node.needed("b"):
        number = ir.number(operand)
        if number is not None and absorbing is not None and number == absorbing.of(number.dtype):
            return Rewrite.of(fill(ir, node, 0, number), f"{number} makes it {number} everywhere")
    return None


@rule(lambda kind: (kind.idempotent and kind.input_fields[-2:] == ("a", "b")) or kind.cancels, effect="bit-exact")
def same_operands(ir: IrGraph, node: IrNode) -> Outcome:
    """max(x, x), min(x, x), if(c, x, x), x & x, x | x → x; integers x − x, x ^ x → 0."""
    a, b = node.needed("a"), node.needed("b")
    if a != b:
        return None
    if not node.computation.cancels:
        return instead(ir, node, a, "both operands are the same")
    dtype = node.output_desc().dtype
    if dtype.is_float:
        return None  # NaN and infinities
    return Rewrite.of(fill(ir, node, 0, Scalar(dtype, 0)), "both operands are the same")


RULES = (remove_neutral, decide, same_operands)
