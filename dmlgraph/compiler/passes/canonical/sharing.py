"""Sharing: values computed twice from the same values are computed once."""

from __future__ import annotations

from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import IrNode, Operand, Source
from dmlgraph.compiler.rule import Outcome, Rewrite, rule
from dmlgraph.graph.nodes import InputNode


@rule(effect="bit-exact")
def share(ir: IrGraph, node: IrNode) -> Outcome:
    """Two nodes with the same operator, fields and sources, or two equal constants → one."""
    twin = None if isinstance(node.content, InputNode) else ir.twin(node)
    if twin is None:
        return None
    ports = [port for port in range(node.output_count) if ir.use_count(Source(node.name, port))]
    return Rewrite(
        {port: Operand(Source(twin.name, port), twin.output_desc(port)) for port in ports},
        f"'{twin.name}' computes the same",
    )


RULES = (share,)
