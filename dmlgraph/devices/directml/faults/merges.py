"""Operators that CompileGraph merges into one that computes something else.

Measured on DirectML 1.13 (feature level 6.2), by combining every kind of operator with every other
(tools/measure_merges.py).  CompileGraph knows an operand by the node that wrote it.  It forgets which of the node's
outputs is read, and in which sizes and order.  Two of its merges are faults:

- ELEMENT_WISE_ADD of a GEMM without C: the other operand becomes its C.  A fused activation is then applied to the sum.
  The C is the first output of the operand's node, and has the sizes in which the node wrote it; CompileGraph refuses
  the graph (E_INVALIDARG) if they are not the GEMM's.
- ELEMENT_WISE_MULTIPLY by ACTIVATION_SIGMOID of x becomes ACTIVATION_SWISH of x, whatever the other operand is, if it
  comes from the same node as x.

An identity hides the operator before it from this.  CompileGraph removes the identity afterwards, so that it costs
nothing; what the merge would have saved is lost.  Merges that are right stay.
"""

from __future__ import annotations

from collections.abc import Iterator

from dmlgraph.compiler.desc import GraphInput
from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import Use
from dmlgraph.devices.directml.faults.edits import insert_before
from dmlgraph.operators import ActivationSigmoid, Add, Gemm, Identity, Multiply
from dmlgraph.operators.declaration.operator import Operator


def keep_sums_out_of_products(ir: IrGraph) -> int:
    """Hides a GEMM from a sum, unless the GEMM has no activation and the other term is read as it was written."""
    for product, other in _operands(ir, Add):
        gemm = ir[ir.source(product).node].operator
        if not isinstance(gemm, Gemm) or gemm.c is not None:
            continue
        if gemm.fused_activation is not None or not _is_first_as_written(ir, other):
            _hide(ir, product)
    return 0


def keep_gates_apart(ir: IrGraph) -> int:
    """Hides a sigmoid from a product with another value of the node whose value it takes, or with a view of that."""
    for gate, other in _operands(ir, Multiply):
        sigmoid = ir.source(gate).node
        if not isinstance(ir[sigmoid].operator, ActivationSigmoid):
            continue
        taken = Use(sigmoid, 0)
        one, another = ir.source(taken), ir.source(other)
        if one.node != another.node or isinstance(ir[one.node].content, GraphInput):
            continue
        if one.port != another.port or len({ir.read_desc(use) for use in (taken, gate, other)}) > 1:
            _hide(ir, gate)
    return 0


def _operands(ir: IrGraph, kind: type[Operator]) -> Iterator[tuple[Use, Use]]:
    """Both inputs of each operator of a kind, in either order."""
    for node in list(ir):
        if isinstance(node.operator, kind):
            yield Use(node.name, 0), Use(node.name, 1)
            yield Use(node.name, 1), Use(node.name, 0)


def _is_first_as_written(ir: IrGraph, use: Use) -> bool:
    """Whether an input reads a graph input or a node's first output, in the layout in which it is written."""
    source = ir.source(use)
    return source.port == 0 and ir.read_desc(use) == ir.desc(*source)


def _hide(ir: IrGraph, use: Use) -> None:
    """Inserts an identity between an input and the value that it reads; the layout in which it reads stays."""
    written = ir.desc(*ir.source(use))
    insert_before(ir, use, "apart", Identity(input=written, output=written.like(strides=written.strides)))
