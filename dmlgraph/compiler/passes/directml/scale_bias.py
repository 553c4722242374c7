"""Scale and bias: a multiplication or addition with a number goes into the operator that reads it.

Most element-wise functions take a ScaleBias, which costs nothing: f(x · scale + bias) is one pass over x.  The numbers
then need no tensor either.  See `dmlgraph.compiler.passes.canonical.affine` for affine maps and their composition.

Multiplications and additions are cheap: where several nodes read one, all of them absorb it and it disappears, or, if
one of them cannot absorb it, it stays for all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import IrNode, Operand, Source
from dmlgraph.compiler.passes.canonical.affine import (
    FLOATS,
    Affine,
    affine,
    compose,
    compose_as_reals,
    is_affine,
)
from dmlgraph.compiler.rule import NUMBERS, Anchor, Declined, Differs, New, Outcome, Rewrite, demand, rule, through
from dmlgraph.operators.common.element_wise import ScaledUnary
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.declaration.traits import AffineMap
from dmlgraph.operators.element_wise import Identity

MAX_READERS = 8  # of a value whose producer each of them absorbs; each looks at all the others

Compose = Callable[[AffineMap, AffineMap], AffineMap]


@dataclasses.dataclass(frozen=True, slots=True)
class Consumer:
    """A node as an operator with a ScaleBias, which can absorb another: operator(map(operand))."""

    operator: type[Operator]
    attributes: Mapping[str, Any]
    operand: Operand
    map: AffineMap

    def of(self, operand: Operand, affine_map: AffineMap) -> New:
        """The operator with another affine map."""
        return New(self.operator, {"input": operand}, {**self.attributes, "scale_bias": affine_map.scale_bias})


def _is_map(operator: type[Operator]) -> bool:
    """Whether an operator may be an affine map by itself, without a number beside its operand."""
    return is_affine(operator) and len(operator.input_fields) == 1


_MAPS = (*NUMBERS, _is_map)  # without these nothing is an affine map


def is_scaled(operator: type[Operator]) -> bool:
    """Whether an operator has a ScaleBias that is applied to its only input."""
    return issubclass(operator, ScaledUnary)


def has_twin(operator: type[Operator]) -> bool:
    """Whether there is an operator with a ScaleBias that computes the same."""
    return operator.with_scale_bias is not Operator.with_scale_bias


CONSUMERS: tuple[Anchor, ...] = (is_scaled, has_twin, is_affine)


def consumer(ir: IrGraph, node: IrNode) -> Consumer | None:
    """A node as an operator that first applies a scale and bias; None if it cannot."""
    operator = node.operator
    if operator is None:
        return None
    if is_affine(type(operator)) and (found := affine(ir, node)) is not None:
        return Consumer(Identity, {}, found.operand, found.map)
    twin = operator.with_scale_bias()
    operand = node.operand("input") if twin is not None or isinstance(operator, ScaledUnary) else None
    if operand is None or operand.desc.dtype not in FLOATS:
        return None
    if twin is not None:
        return Consumer(*twin, operand, AffineMap())
    attributes = operator.attributes
    return Consumer(type(operator), attributes, operand, AffineMap.of(attributes["scale_bias"]))


@rule(
    *CONSUMERS,
    after=(is_affine,),
    needs=_MAPS,
    effect="bit-exact, at most 2 ULP for (x·a)·b; float16 is rounded once (1/2 ULP of the product), and TANH "
    "is more exact there; intermediate values do not over- or underflow",
    differs=Differs.ROUNDED | Differs.WIDENED,
)
def absorb_scale_bias(ir: IrGraph, node: IrNode) -> Outcome:
    """f(x · a + b) → f of x with ScaleBias; (x · a) · b → x · ab.

    For every operator with a ScaleBias except POW, which would scale its exponent.  ACTIVATION_RELU becomes THRESHOLD,
    ACTIVATION_TANH becomes TANH, and multiplications and additions with numbers become one IDENTITY.  A product and a
    sum are rounded as before; consecutive affine maps are composed by `affine.compose`.  NaN and infinities do not
    change.  In float16 the product is not rounded before the sum (the sum differs by at most 1/2 ULP of the product
    plus 1/2 ULP of the sum) and does not overflow.  DirectML computes ACTIVATION_TANH in float16, TANH in float32: the
    same function with a smaller error.  The reference does not round the product of ACTIVATION_LINEAR either.
    """
    return _absorb(ir, node, compose)


@rule(
    *CONSUMERS,
    after=(is_affine,),
    needs=_MAPS,
    effect="not bounded in ULP: where terms cancel, no digit may be correct",
    default=False,
    differs=Differs.ROUNDED | Differs.CANCELS,
)
def reassociate(ir: IrGraph, node: IrNode) -> Outcome:
    """(x + a) + b → x + (a + b), and (x + a) · b → x · b + ab, as if numbers were real.

    As `absorb_scale_bias`, for maps that it declines.  The error is a few ULP of the largest term, not of the result:
    (x + 1e9) − 1e9 becomes x, where it was a multiple of 64.
    """
    return _absorb(ir, node, compose_as_reals)


def _absorb(ir: IrGraph, node: IrNode, composed: Compose) -> Outcome:
    found = consumer(ir, node)
    if found is None or (found.operator is Identity and _reader_absorbs(ir, node, found.map, composed)):
        return None
    operand, affine_map = found.operand, found.map
    absorbed: list[str] = []
    # The whole chain at once: one new operator for it, not one for each of its nodes.
    while (inner := affine(ir, producer := ir.producer(operand))) is not None:
        try:
            previous, affine_map = _through(ir, operand, inner, affine_map, composed)
        except Declined:
            if not absorbed:
                raise
            break
        operand = previous
        absorbed.append(f"'{producer.name}'")
    if not absorbed:
        return None
    return Rewrite.of(
        found.of(operand, affine_map), f"absorbs {', '.join(absorbed)} as {affine_map}, which costs nothing"
    )


def _through(
    ir: IrGraph, operand: Operand, inner: Affine, affine_map: AffineMap, composed: Compose
) -> tuple[Operand, AffineMap]:
    """The operand and the map after the previous node has been absorbed; raises Declined where it must not be."""
    previous = through(ir, operand, inner.operand)
    affine_map = composed(affine_map, inner.map)
    stays = _why_it_stays(ir, operand, inner, composed)
    demand(stays is None, f"'{operand.source.node}' {stays}")
    return previous, affine_map


def _reader_absorbs(ir: IrGraph, node: IrNode, affine_map: AffineMap, composed: Compose) -> bool:
    """Whether the map's only reader absorbs it, so that it needs no rewrite of its own."""
    source = Source(node.name, 0)
    readers = ir.users(source) if ir.use_count(source) == 1 else []
    found = consumer(ir, readers[0][0]) if readers else None
    if found is None or found.operand != Operand(source, node.output_desc()):
        return False
    try:
        composed(found.map, affine_map)
    except Declined:
        return False
    return True


def _why_it_stays(ir: IrGraph, operand: Operand, inner: Affine, composed: Compose) -> str | None:
    """Why a map would not disappear if its readers absorbed it; else None."""
    if ir.only_use(operand):
        return None
    if ir.is_output(operand.source):
        return "is also an output, and would stay"
    readers = ir.users(operand.source)
    if len(readers) > MAX_READERS:
        return f"has more than {MAX_READERS} readers"
    for reader, _ in readers:
        found = consumer(ir, reader)
        if found is None or found.operand.source != operand.source:
            return f"is also read by '{reader.name}', and would stay"
        try:
            composed(found.map, inner.map)
        except Declined as declined:
            return f"would stay for '{reader.name}': {declined.why}"
    return None


@rule(lambda kind: is_affine(kind) and not _is_map(kind), after=NUMBERS, effect="bit-exact")
def number_to_scale_bias(ir: IrGraph, node: IrNode) -> Outcome:
    """x · c, x + c, x − c, c − x, x / 2^k → IDENTITY with a ScaleBias.

    The number then needs no tensor that is filled and read.  A bias of −0.0 keeps the sign of a product's zeros.  What
    its only reader can absorb is left to `absorb_scale_bias`.
    """
    found = affine(ir, node)
    if found is None or _reader_absorbs(ir, node, found.map, compose):
        return None
    value = New(Identity, {"input": found.operand}, {"scale_bias": found.map.scale_bias})
    return Rewrite.of(value, f"{found.map} needs no tensor for its numbers")


RULES = (absorb_scale_bias, reassociate, number_to_scale_bias)
