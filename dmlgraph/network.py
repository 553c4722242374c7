"""Network: the NetworkX graph inside a `Graph`, with descriptions on its nodes and ports on its edges.

A node's data are `node` (the `Node`) and `outputs` (its `Outputs`); an edge's are `from_port` and `to_port`.
NetworkX's views are several times slower than the dictionaries behind them.  Methods called for every node therefore
use the dictionaries, which NetworkX documents for subclasses.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import networkx as nx

from dmlgraph.nodes import Node, OperatorNode, full_output_paths, output_paths
from dmlgraph.tensor import TensorDesc

if TYPE_CHECKING:
    Base = nx.MultiDiGraph[str]
else:
    Base = nx.MultiDiGraph


class Outputs(NamedTuple):
    """The outputs of nodes with the same operator and fields.

    Attributes:
        descs: by port, None where an optional output is left out.
        paths: what a reference appends to the node's name, by port; see `nodes.output_paths`.
        ports: by path, including the full ones (`nodes.full_output_paths`).
        named: the paths that are not empty.
    """

    descs: tuple[TensorDesc | None, ...]
    paths: Sequence[str]
    ports: Mapping[str, int]
    named: tuple[str, ...]

    @classmethod
    def of(cls, node: Node) -> Outputs:
        descs = node.operator.output_descs if isinstance(node, OperatorNode) else (node.desc,)
        full = full_output_paths(node)
        if full == [""]:
            return cls(descs, *_ONE)
        paths = output_paths(node)
        ports = {path: port for each in (full, paths) for port, path in enumerate(each)}
        return cls(descs, paths, ports, tuple(path for path in full if path))


_TO_PORT = operator.itemgetter(2)
_ONE: tuple[Sequence[str], Mapping[str, int], tuple[str, ...]] = ([""], {"": 0}, ())


class Network(Base):
    """A MultiDiGraph of nodes by name; nodes are inserted with their incoming edges."""

    _node: dict[str, dict[str, Any]]  # name → data
    _adj: dict[str, dict[str, dict[int, dict[str, int]]]]  # producer → consumer → edge → data
    _pred: dict[str, dict[str, dict[int, dict[str, int]]]]  # consumer → producer → edge → data

    def insert(self, node: Node, outputs: Outputs, sources: Sequence[tuple[str, int] | None]) -> None:
        """Adds a new node and, by input port, edges from (node, port)."""
        name = node.name
        self._node[name] = {"node": node, "outputs": outputs}
        self._adj[name] = {}
        into = self._pred[name] = {}
        for port, source in enumerate(sources):
            if source is not None:
                parallel = into.get(source[0])
                if parallel is None:
                    parallel = into[source[0]] = self._adj[source[0]][name] = {}
                parallel[len(parallel)] = {"from_port": source[1], "to_port": port}

    def node_of(self, name: str) -> Node:
        node: Node = self._node[name]["node"]
        return node

    def outputs_of(self, name: str) -> Outputs:
        outputs: Outputs = self._node[name]["outputs"]
        return outputs

    def writes(self, name: str, port: int, desc: TensorDesc) -> bool:
        """Whether a node exists and writes this description (the same object)."""
        data = self._node.get(name)
        return data is not None and data["outputs"].descs[port] is desc

    def all_nodes(self) -> list[Node]:
        """All nodes in insertion order."""
        return [data["node"] for data in self._node.values()]

    def producers(self, name: str) -> list[tuple[str, int, int]]:
        """The sources of a node: (node, its output port, the input port here), by input port."""
        found = [
            (source, data["from_port"], data["to_port"])
            for source, edges in self._pred[name].items()
            for data in edges.values()
        ]
        if len(found) > 1:
            found.sort(key=_TO_PORT)
        return found

    def upstream(self, names: Iterable[str]) -> set[str]:
        """These nodes and all nodes that they depend on."""
        found: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += self._pred[name]
        return found
