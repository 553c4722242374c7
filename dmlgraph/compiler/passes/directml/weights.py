"""Weights: the scale of a product with an activation goes into a constant matrix."""

from __future__ import annotations

import numpy as np

from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import IrNode
from dmlgraph.compiler.passes.canonical.matrix import gemm_with
from dmlgraph.compiler.rule import Constant, Declined, Differs, Outcome, Rewrite, rule
from dmlgraph.graph.nodes import ConstantNode
from dmlgraph.operators.declaration.traits import is_power_of_two
from dmlgraph.operators.matrix import Gemm

WEIGHT_BYTES = 1 << 26  # larger weights are not copied for a scale


@rule(
    Gemm,
    after=(ConstantNode,),
    effect="bit-exact, except for products that over- or underflow",
    differs=Differs.ROUNDED,
)
def alpha_into_weights(ir: IrGraph, node: IrNode) -> Outcome:
    """activation(s · A·B) of a constant A or B and a power of two s → activation(A·B) of a scaled constant.

    Measured: DirectML computes a GEMM with an activation in one dispatch only where alpha is 1 and C is absent.
    """
    gemm = node.computing(Gemm)
    if gemm.fused_activation is None or gemm.alpha == 1.0 or gemm.c is not None:
        return None
    for field in ("b", "a"):
        operand = node.operand(field)
        if operand is None or not isinstance(ir.producer(operand).content, ConstantNode):
            continue
        if not is_power_of_two(gemm.alpha):
            return Declined(f"{gemm.alpha:g} is not a power of two: the weights would be rounded")
        if not ir.only_use(operand) or operand.desc.total_bytes > WEIGHT_BYTES:
            return Declined(f"'{operand.source.node}' has other readers, or is too large to be copied")
        values = ir.values(operand)
        if values is None:
            continue
        with np.errstate(all="ignore"):
            scaled = values * values.dtype.type(gemm.alpha)
            is_exact = (scaled / values.dtype.type(gemm.alpha) == values).all()
        if not is_exact:
            return Declined("a scaled weight would be infinite or subnormal")
        return Rewrite.of(
            gemm_with(node, {field: Constant(scaled)}, {"alpha": 1.0}), f"'{operand.source.node}' is scaled in advance"
        )
    return None


RULES = (alpha_into_weights,)
