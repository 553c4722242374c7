"""Weights: the scale of a product with an activation goes into a constant matrix."""

from __future__ import annotations

import numpy as np

from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import IrNode
from dmlgraph.compiler.rule import Constant, Differs, New, Outcome, Rewrite, demand, rule
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
        name = operand.source.node
        demand(is_power_of_two(gemm.alpha), f"{gemm.alpha:g} is not a power of two: the weights would be rounded")
        is_copied = ir.only_use(operand) and operand.desc.total_bytes <= WEIGHT_BYTES
        demand(is_copied, f"'{name}' has other readers, or is too large to be copied")
        values = ir.values(operand)
        if values is None:
            continue
        with np.errstate(all="ignore"):
            scaled = values * values.dtype.type(gemm.alpha)
            is_exact = (scaled / values.dtype.type(gemm.alpha) == values).all()
        demand(is_exact, "a scaled weight would be infinite or subnormal")
        new = New.like(node, {field: Constant(scaled)}, {"alpha": 1.0})
        return Rewrite.of(new, f"'{name}' is scaled in advance")
    return None


RULES = (alpha_into_weights,)
