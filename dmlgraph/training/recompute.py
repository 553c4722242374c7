"""What the backward pass computes again rather than keeps: cheap values, where that takes less memory.

    dg.gradient(loss, parameters, recompute="cheap")

What it reads of the forward pass is kept until then, or is computed again, by element-wise operators, normalizations
and views, from what is kept.  Which values are kept is a minimum cut (Jain et al., 2020) between what cannot be
computed again and what is read, where a value costs its bytes.  All nodes of the backward pass are in the scope
`gradient/again` then: fusion shares none of them with the forward pass, and `cpu` runs them as late as it can.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import networkx as nx

from dmlgraph.graph.nodes import Node, OperatorNode
from dmlgraph.graph.scopes import AGAIN
from dmlgraph.graph.value import Value
from dmlgraph.operators.declaration.fields import Role
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.normalization import Normalization

if TYPE_CHECKING:
    from dmlgraph.graph.graph import Graph

CHEAP: Literal["cheap"] = "cheap"
_KEPT, _READ = "kept", "read"  # the two ends of the cut


def is_cheap(operator: Operator) -> bool:
    """Whether computing an operator again costs about as much as reading what it reads."""
    return operator.inner_dimensions == 0 or operator.is_view or isinstance(operator, Normalization)


def to_recompute(graph: Graph, forward: Sequence[Node], read: Iterable[str]) -> set[str]:
    """The nodes that are computed again, so that the fewest bytes are kept.

    Args:
        graph: has the nodes.
        forward: those of the forward pass.
        read: the names of the nodes that the backward pass reads.
    """
    network: Any = nx.DiGraph()
    network.add_nodes_from((_KEPT, _READ))
    known = {node.name: node for node in forward}
    waiting, seen = [name for name in read if name in known], set[str]()
    network.add_edges_from(((name, "after"), _READ) for name in waiting)
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        node = known[name]
        sources = [source[0] for source in graph.sources(name) if source is not None]
        operator = node.operator if isinstance(node, OperatorNode) and sources else None
        # An input, a state, a constant or a fill is there anyway; of a view, what it shows is kept.
        kept = {"capacity": 0} if operator is None else {} if operator.is_view else {"capacity": _bytes(operator)}
        network.add_edge((name, "before"), (name, "after"), **kept)
        if operator is None or not is_cheap(operator):
            network.add_edge(_KEPT, (name, "before"))
        else:
            network.add_edges_from(((source, "after"), (name, "before")) for source in sources)
            waiting += sources
    _, (_, again) = nx.minimum_cut(network, _KEPT, _READ)  # of those with the fewest bytes, that with the least work
    return {name for name in seen if (name, "before") in again}


def _bytes(operator: Operator) -> int:
    return sum(desc.total_bytes for desc in operator.output_descs if desc is not None)


class Again:
    """The values of a forward pass as its backward pass reads them.

    Args:
        graph: gets the nodes that compute again.
        names: the nodes that are computed again.
    """

    def __init__(self, graph: Graph, names: set[str]) -> None:
        self.graph, self._names = graph, names
        self._made: dict[str, Sequence[Value | None]] = {}

    def __call__(self, value: Value) -> Value:
        """A value as it is, or computed again."""
        waiting = [value.node]
        while waiting:  # a chain may be longer than Python's stack
            name = waiting[-1]
            if name not in self._names or name in self._made:
                waiting.pop()
                continue
            needed = [source[0] for source in self.graph.sources(name) if source is not None]
            missing = [each for each in needed if each in self._names and each not in self._made]
            waiting += missing
            if not missing:
                self._made[waiting.pop()] = self._copy(name)
        return self._read(value)

    def _copy(self, name: str) -> Sequence[Value | None]:
        node = self.graph.node(name)
        assert isinstance(node, OperatorNode)
        sources = {port: Value(self.graph, *source) for port, source in enumerate(self.graph.sources(name)) if source}
        tensors: Mapping[str, Value] = {
            field: self._read(value)
            for field, value in node.operator.by_field(Role.INPUT, sources).items()
            if value is not None
        }
        names = self.graph.names
        outer, names.scopes = names.scopes, ()
        try:
            with self.graph.scope(AGAIN):
                new = names.free(name).removeprefix(names.in_scope(""))
                return self.graph.add(type(node.operator), tensors, node.attributes, node.outputs, new)
        finally:
            names.scopes = outer

    def _read(self, value: Value) -> Value:
        """What was made in the place of a value, or itself."""
        found = self._made[value.node][value.port] if value.node in self._made else value
        assert found is not None
        return found
