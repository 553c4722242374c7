"""Sharing: values computed twice from the same values are computed once."""

from __future__ import annotations

from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import IrNode, Operand, Source
from dmlgraph.compiler.rule import Declined, Outcome, Rewrite, rule
from dmlgraph.graph.nodes import InputNode
from dmlgraph.graph.scopes import is_again


@rule(effect="bit-exact")
def share(ir: IrGraph, node: IrNode) -> Outcome:
    """Two nodes with the same operator, fields and sources, or two equal constants → one."""
    twin = None if isinstance(node.content, InputNode) else ir.twin(node)
    if twin is None:
        return None
    if any(map(is_again, node.origins)) != any(map(is_again, twin.origins)):
        raise Declined("it is computed again, so that it is not kept")
    ports = [port for port in range(node.output_count) if ir.use_count(Source(node.name, port))]
    return Rewrite(
        {port: Operand(Source(twin.name, port), twin.output_desc(port)) for port in ports},
        f"'{twin.name}' computes the same",
    )


RULES = (share,)
