"""Constants: values computed only from constants are computed once; a tensor of one number is stored as one number.

DirectML computes everything in the graph at every run, fills included; only sequences and constants are made once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import IrNode, Operand, Source
from dmlgraph.compiler.passes.canonical.fills import differs_by_device
from dmlgraph.compiler.rule import NUMBERS, Constant, New, Outcome, Rewrite, Tensor, demand, rule, wanted
from dmlgraph.graph.nodes import ConstantNode, OperatorNode
from dmlgraph.operators.declaration.fields import Role
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.diagonal import DiagonalMatrix, DiagonalMatrix1
from dmlgraph.operators.element_wise import Identity
from dmlgraph.operators.fill import FillValueConstant, FillValueSequence
from dmlgraph.operators.random import RandomGenerator

FOLDED_BYTES = 1 << 16  # the largest constant that is made of fills
FOLDED_WORK = 1 << 24  # the most element-wise operations, roughly, that are done while a graph is built
_SYMBOLIC = (FillValueConstant, FillValueSequence)


@rule(needs=(*NUMBERS, FillValueSequence, DiagonalMatrix, DiagonalMatrix1), effect="the bits that `evaluate` gives")
def fold_constants(ir: IrGraph, node: IrNode) -> Outcome:
    """f(constant, constant, …) → constant, where f is not random and little work.

    The result takes at most FOLDED_BYTES, or as much as the constants it removes.  The numbers are those of `evaluate`,
    which are exact where a device approximates.
    """
    operator = node.operator
    if operator is None or isinstance(operator, (*_SYMBOLIC, RandomGenerator)):
        return None
    if not all(source is None or _is_known(ir, source) for source in node.sources):
        return None
    used = [port for port in range(node.output_count) if ir.use_count(Source(node.name, port))]
    if type(operator) is Identity and ir.is_output(Source(node.name, 0)):
        return None  # it writes a constant to an output of the graph; a constant cannot be one
    made = sum(node.output_desc(port).total_bytes for port in used)
    freed = sum(
        ir.produced(operand).total_bytes
        for operand in node.operands()
        if ir.only_use(operand) and isinstance(ir.producer(operand).content, ConstantNode)
    )
    demand(made <= max(FOLDED_BYTES, freed), f"it would become a constant of {made} bytes")
    demand(work(operator) <= FOLDED_WORK, "computing it in advance is too much work")
    inputs = [
        None if read is None else wanted(ir.values(read), f"'{read.source.node}' is too large to be read")
        for read in map(node.operand_at, range(len(node.sources)))
    ]
    demand(not differs_by_device(operator, inputs), "the activation of NaN and infinities differs by device")
    present = [port for port, desc in enumerate(operator.output_descs) if desc is not None]
    results = dict(zip(present, operator.evaluate(*inputs), strict=True))
    values = {port: _constant(ir, Source(node.name, port), results[port]) for port in used}
    return Rewrite(values, "all its inputs are constants")


@rule(FillValueConstant, ConstantNode, effect="bit-exact")
def one_element(ir: IrGraph, node: IrNode) -> Outcome:
    """A fill, or a constant of equal elements → a constant of one element, read through zero strides.

    A fill is written at every run, a constant is not.  Readers that are not element-wise may choose another algorithm
    by the strides: for them a fill becomes a full-size constant of at most FOLDED_BYTES.  Fills that are outputs of the
    graph stay.
    """
    source = Source(node.name, 0)
    content = node.content
    is_fill = isinstance(content, OperatorNode) and type(content.operator) is FillValueConstant
    if not is_fill and not (isinstance(content, ConstantNode) and content.desc.element_count > 1):
        return None
    desc = node.output_desc()
    number = ir.number(Operand(source, desc))
    if number is None or ir.is_output(source):
        return None
    element = np.full(1, number.value, desc.dtype.numpy)
    whole = [user.name for user, port in ir.users(source) if not _broadcasts(user, port)]
    if not whole or desc.element_count == 1:
        return Rewrite.of(Constant(element, desc.sizes), "its readers read one element through zero strides")
    if not is_fill:
        return None
    demand(desc.total_bytes <= FOLDED_BYTES, f"'{whole[0]}' reads it whole: {desc.total_bytes} bytes")
    return Rewrite.of(Constant(np.full(desc.sizes, element)), f"'{whole[0]}' reads it whole, and it is small")


def _is_known(ir: IrGraph, source: Source) -> bool:
    content = ir[source.node].content
    return isinstance(content, ConstantNode) or (
        isinstance(content, OperatorNode) and isinstance(content.operator, _SYMBOLIC)
    )


def _broadcasts(user: IrNode, port: int) -> bool:
    """Whether a reader may read one element in place of many."""
    operator = user.computation
    return operator.broadcasts or operator.bindings(Role.INPUT)[port].field in operator.repeatable


def work(operator: Operator) -> int:
    """The number of element-wise operations, roughly, that evaluating an operator takes."""
    inputs = [desc.element_count for desc in operator.input_descs if desc is not None]
    outputs = sum(desc.element_count for desc in operator.output_descs if desc is not None)
    return outputs * max(inputs, default=1) if operator.heavy else sum(inputs) + outputs


def _constant(ir: IrGraph, source: Source, values: np.ndarray[Any, Any]) -> Tensor:
    """A constant in place of a value; an output of the graph needs a node that writes it."""
    constant = Constant(values)
    return New(Identity, {"input": constant}) if ir.is_output(source) else constant


RULES = (fold_constants,)
LAST_RULES = (one_element,)
