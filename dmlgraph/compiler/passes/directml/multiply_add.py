"""A product and a sum of tensors become the one operator of DirectML that multiplies and adds."""

from __future__ import annotations

import numpy as np

from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import IrNode
from dmlgraph.compiler.passes.canonical.affine import FLOATS, nearly_affine
from dmlgraph.compiler.passes.canonical.patterns import both_orders
from dmlgraph.compiler.rule import Constant, Differs, New, Outcome, Rewrite, Tensors, alone, rule, through
from dmlgraph.operators.element_wise import Add, Multiply
from dmlgraph.operators.normalization import BatchNormalization


@rule(
    Add,
    after=(Multiply,),
    effect="to the bit on DirectML; saves a rounding of the product elsewhere: at most 1/2 ULP of it",
    differs=Differs.ROUNDED,
)
def multiply_add(ir: IrGraph, node: IrNode) -> Outcome:
    """x · w + b of tensors → BATCH_NORMALIZATION of mean 0 and variance 1.

    DirectML has no other operator that multiplies and adds in one pass: (x − 0) / √(1 + 0) · w + b is x · w + b, each
    step rounded as before in float32 (measured), and x − 0 leaves every x as it is.  In float16 the product is not
    rounded before the sum.
    """
    for product, b in both_orders(node):
        found = ir.made_by(product, Multiply)
        if found is None or product.desc.dtype not in FLOATS:
            continue
        if nearly_affine(ir, found) is not None or ir.number(b) is not None:
            return None  # a ScaleBias is better
        x, w = next(both_orders(found))
        alone(ir, product)
        x_read, w_read = (through(ir, product, each) for each in (x, w))
        ones = (1,) * product.desc.rank
        zero, one = (Constant(np.full(ones, each, product.desc.dtype.numpy)) for each in (0, 1))
        tensors: Tensors = {"input": x_read, "mean": zero, "variance": one, "scale": w_read, "bias": b}
        value = New(BatchNormalization, tensors, {"spatial": True, "epsilon": 0.0})
        return Rewrite.of(value, f"'{found.name}' and this sum become one pass")
    return None


RULES = (multiply_add,)
