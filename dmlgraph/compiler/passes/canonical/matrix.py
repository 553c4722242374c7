"""Matrix products: a scale and a sum after a GEMM go into its alpha, beta and C.

GEMM computes alpha · (A · B) + beta · C in one kernel's accumulator, so each rule here saves the rounding of the
product to its data type: the result differs by at most 1/2 ULP of that product (more ULP of the result where the sum
cancels).  An intermediate beyond the range of float16 is no longer infinite.  Other infinities and NaN do not change.
"""

from __future__ import annotations

import math

import numpy as np

from dmlgraph.base.tensor import TensorDesc
from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import IrNode, Operand
from dmlgraph.compiler.passes.canonical.affine import affine
from dmlgraph.compiler.rule import Differs, New, Outcome, Rewrite, alone, demand, rule
from dmlgraph.operators.declaration.traits import is_power_of_two
from dmlgraph.operators.directml_enums import MatrixTransform
from dmlgraph.operators.element_wise import Add, Divide, Multiply, Negate, Subtract
from dmlgraph.operators.matrix import Gemm
from dmlgraph.operators.view import with_strides

_SAVES_A_ROUNDING = "saves the rounding of the product: at most 1/2 ULP of it"


@rule(
    Add,
    Subtract,
    after=(Gemm,),
    effect=_SAVES_A_ROUNDING,
    differs=Differs.ROUNDED,
)
def gemm_add(ir: IrGraph, node: IrNode) -> Outcome:
    """A·B + C → GEMM with C; also A·B − C and C − A·B, and a number for C."""
    a, b = node.needed("a"), node.needed("b")
    pairs = [(gemm, product, c) for product, c in ((a, b), (b, a)) if (gemm := ir.made_by(product, Gemm)) is not None]
    pairs.sort(key=lambda pair: pair[0].computing(Gemm).c is not None)  # of two products that without a C
    for gemm, product, c in pairs:
        if not _is_plain(ir, product):
            continue
        operator = gemm.computing(Gemm)
        demand(operator.c is None, f"'{gemm.name}' has a C already")
        _check_changeable(ir, gemm, product)
        alpha, beta = (1.0, 1.0) if isinstance(node.operator, Add) else (1.0, -1.0) if product is a else (-1.0, 1.0)
        new = New.like(gemm, {"c": c}, {"alpha": alpha * operator.alpha, "beta": beta})
        return Rewrite.of(new, f"'{gemm.name}' adds C itself")
    return None


@rule(
    Multiply,
    Divide,
    Negate,
    after=(Gemm,),
    effect=_SAVES_A_ROUNDING + "; at most 2 ULP where alpha was set and is not a power of 2",
    differs=Differs.ROUNDED,
)
def gemm_scale(ir: IrGraph, node: IrNode) -> Outcome:
    """(A·B) · s → GEMM with alpha; also division by a power of two, and negation.

    With a C both alpha and beta are scaled, which is exact for powers of two only; other factors are not folded.
    """
    found = affine(ir, node)
    if found is None or found.map.shifts:
        return None
    product, factor = found.operand, found.map.scale
    gemm = ir.made_by(product, Gemm)
    if gemm is None or not _is_plain(ir, product):
        return None
    operator = gemm.computing(Gemm)
    _check_changeable(ir, gemm, product)
    scales = {"alpha": operator.alpha} if operator.c is None else {"alpha": operator.alpha, "beta": operator.beta}
    is_exact = operator.c is None or is_power_of_two(factor)
    demand(is_exact, f"'{gemm.name}' has a C: scaling both terms by {factor:g} is not exact")
    with np.errstate(over="ignore"):
        changed = {field: float(np.float32(scale) * np.float32(factor)) for field, scale in scales.items()}
    for field, scale in changed.items():
        underflows = scale == 0.0 and factor != 0.0 and scales[field] != 0.0
        demand(math.isfinite(scale) and not underflows, f"{field} would be {scale:g}")
    return Rewrite.of(New.like(gemm, {}, changed), f"'{gemm.name}' scales by {factor:g} itself")


def _check_changeable(ir: IrGraph, gemm: IrNode, product: Operand) -> None:
    """Raises Declined where a product must stay as it is."""
    demand(product.desc.dtype.is_float, "alpha and beta are floats: integers would be rounded")
    alone(ir, product, "and would be computed twice")
    is_last = gemm.computing(Gemm).fused_activation is None
    demand(is_last, f"'{gemm.name}' has an activation before this")


def _is_plain(ir: IrGraph, product: Operand) -> bool:
    """Whether the product is read whole and as it was written."""
    written = ir.produced(product)
    return product.desc.sizes == written.sizes and product.desc.effective_strides == written.effective_strides


@rule(Gemm, effect="bit-exact")
def transpose_into_gemm(_: IrGraph, node: IrNode) -> Outcome:
    """gemm(xᵀ, y), where xᵀ is read through strides → gemm(x, y) with `trans_a`; the same for b."""
    gemm = node.computing(Gemm)
    for field in ("a", "b"):
        operand = node.needed(field)
        desc = operand.desc
        if desc.strides is None or desc.strides[-2] != 1 or desc.strides[-1] <= 1 or 1 in desc.sizes[-2:]:
            continue
        sizes, strides = swapped(desc.sizes), swapped(desc.strides)
        packed = TensorDesc(dtype=desc.dtype, sizes=sizes, owned=desc.owned)
        stored = with_strides(packed, strides)
        transposed = MatrixTransform.TRANSPOSE
        flag = MatrixTransform.NONE if getattr(gemm, f"trans_{field}") is transposed else transposed
        again = New.like(node, {field: Operand(operand.source, stored)}, {f"trans_{field}": flag})
        return Rewrite.of(again, f"it transposes '{operand.source.node}' itself")
    return None


def swapped(numbers: tuple[int, ...]) -> tuple[int, ...]:
    """With the last two exchanged."""
    return (*numbers[:-2], numbers[-1], numbers[-2])


RULES = (transpose_into_gemm, gemm_add, gemm_scale)
