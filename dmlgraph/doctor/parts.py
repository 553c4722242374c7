"""Two executions in place of one: a graph in two parts, of which the second reads what the first writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dmlgraph.base.errors import GraphError
from dmlgraph.devices import Choice
from dmlgraph.devices.compile import compile_graph
from dmlgraph.doctor.cut import cut
from dmlgraph.graph.graph import Graph
from dmlgraph.graph.nodes import Node, is_computed

Array = np.ndarray[Any, Any]


def split(graph: Graph, node: str) -> tuple[Graph, Graph]:
    """The graph before a node, and the rest; after it, where the node reads nothing that is computed.

    Args:
        graph: with its dims resolved, and without states.
        node: the name of an operator.

    Raises:
        GraphError: it has states, or no other operator.
    """
    if graph.states:
        raise GraphError("has states, which two executions do not share here", code="states", node=graph.states[0].name)
    live = graph.live_nodes()
    computed = [each.name for each in graph.nodes if has_work(each) and each.name in live]
    upstream = graph.upstream(node)
    first = [name for name in computed if name in upstream and name != node] or [node]
    rest = [name for name in computed if name not in first]
    if not rest:
        raise GraphError("is the only operator", code="conflict", node=node)
    return cut(graph, first), cut(graph, rest)


def run(
    graph: Graph, parts: tuple[Graph, Graph], inputs: Mapping[str, Array], device: Choice, *, fuse: bool = True
) -> tuple[dict[str, Array], int]:
    """The outputs of a graph of its parts, one after the other, and how many dispatches or nodes both have.

    Raises:
        DmlGraphError: the device cannot run a part.
    """
    known, count = dict(inputs), 0
    for part in parts:
        with compile_graph(part, device, fuse=fuse) as executable:
            known |= executable.run({each.name: known[each.name] for each in part.inputs})
            count += executable.stats.get("dispatches", len(executable.graph.nodes))
    outputs = {name: known[value.reference] for name, value in graph.outputs.items() if value.reference in known}
    return outputs, count


def has_work(node: Node) -> bool:
    """Whether a device computes a node of values that it reads, which it does not for fills."""
    return is_computed(node) and bool(node.operator.input_fields)
