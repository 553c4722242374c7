"""Edits of a lowered graph: operators that are replaced, or inserted around a value."""

from __future__ import annotations

from dmlgraph.compiler.desc import OperatorDescNode
from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import Source, Use
from dmlgraph.operators.declaration.operator import Operator


def put(ir: IrGraph, name: str, operator: Operator) -> None:
    """Replaces a node's operator by one with the same inputs and outputs."""
    ir.put(name, OperatorDescNode(name, operator))


def insert_before(ir: IrGraph, use: Use, step: str, operator: Operator, *others: Source) -> None:
    """Inserts an operator of one output between an input of a node and the value that it reads.

    The operator is named after the node and the step; `others` are what its inputs after the first read.
    """
    node = OperatorDescNode(ir.free_name(f"{use.node}.{step}"), operator)
    ir.read(use, ir.insert(node, [ir.source(use), *others], before=use.node))


def insert_after(ir: IrGraph, source: Source, step: str, operator: Operator, *, before: str | None) -> None:
    """Inserts an operator of one input and one output between a node's output and all that reads it.

    It runs before another node, or after all of them.
    """
    node = OperatorDescNode(ir.free_name(f"{source.node}.{step}"), operator)
    ir.replace_all_uses(source, ir.insert(node, [source], before=before))


def insert_before_output(ir: IrGraph, output: str, step: str, operator: Operator) -> None:
    """Inserts an operator of one input and one output between a graph output and the value that it reads."""
    source = ir.outputs[output]
    node = OperatorDescNode(ir.free_name(f"{source.node}.{step}"), operator)
    ir.set_output(output, ir.insert(node, [source]))
