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

from dmlgraph.devices.directml.faults.edit import DescEdit, Port
from dmlgraph.operators import ActivationSigmoid, Add, Gemm, Identity, Multiply
from dmlgraph.operators.declaration.operator import Operator


def keep_sums_out_of_products(edit: DescEdit) -> None:
    """Hides a GEMM from a sum, unless the GEMM has no activation and the other term is read as it was written."""
    for product, other in _operands(edit, Add):
        gemm = edit.operator(edit.sources[product].node)
        if not isinstance(gemm, Gemm) or gemm.c is not None:
            continue
        if gemm.fused_activation is not None or not _is_first_as_written(edit, other):
            _hide(edit, product)


def keep_gates_apart(edit: DescEdit) -> None:
    """Hides a sigmoid from a product with another value of the node whose value it takes, or with a view of that."""
    for gate, other in _operands(edit, Multiply):
        sigmoid = edit.sources[gate].node
        if sigmoid is None or not isinstance(edit.operator(sigmoid), ActivationSigmoid):
            continue
        taken = Port(sigmoid, 0)
        one, another = edit.sources[taken], edit.sources[other]
        layouts = {edit.needed_desc(reader) for reader in (taken, gate, other)}
        if one.node is None or one.node != another.node:
            continue
        if one.port != another.port or len(layouts) > 1:
            _hide(edit, gate)


def _operands(edit: DescEdit, kind: type[Operator]) -> Iterator[tuple[Port, Port]]:
    """Both inputs of each operator of a kind, in either order."""
    for node in range(len(edit.nodes)):
        if isinstance(edit.operator(node), kind):
            yield Port(node, 0), Port(node, 1)
            yield Port(node, 1), Port(node, 0)


def _is_first_as_written(edit: DescEdit, reader: Port) -> bool:
    """Whether an input reads a graph input or a node's first output, in the layout in which it is written."""
    value = edit.sources[reader]
    is_first = value.node is None or value.port == 0
    return is_first and edit.needed_desc(reader) == edit.desc(value)


def _hide(edit: DescEdit, reader: Port) -> None:
    """Inserts an identity between an input and the value that it reads; the layout in which it reads stays."""
    written = edit.desc(edit.sources[reader])
    copy = Identity(input=written, output=written.like(strides=written.strides))
    edit.insert(f"{edit.nodes[reader.node].name}.apart", copy, reader, costs_a_dispatch=False)
