"""Network: the NetworkX graph inside a `Graph`, with descriptions on its nodes and ports on its edges.

A node's data are `node` (the `Node`), `outputs` (its `Outputs`) and `sources` (by input port, an `Output` or None); an
edge's are `from_port` and `to_port`.  Data never change, so equal edges and copies of the network share them: a
graph is smaller that way, and faster to build and to walk.

NetworkX's views are several times slower than the dictionaries behind them.  Methods called for every node therefore
use the dictionaries, which NetworkX documents for subclasses.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import networkx as nx

from dmlgraph.base.tensor import TensorDesc
from dmlgraph.graph.nodes import Node, OperatorNode, StateNode, full_output_paths, output_paths

if TYPE_CHECKING:
    Base = nx.MultiDiGraph[str]
else:
    Base = nx.MultiDiGraph


# An output of a node: the node's name, and the number of the output.  Not a named tuple: a graph has hundreds of
# thousands of these, and the garbage collector looks at plain tuples of such values only once.
Output = tuple[str, int]


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
        descs: tuple[TensorDesc | None, ...]
        if isinstance(node, OperatorNode):
            descs = node.operator.output_descs
        else:
            descs = node.output_descs if isinstance(node, StateNode) else (node.desc,)
        full = full_output_paths(node)
        if full == [""]:
            return cls(descs, *_ONE)
        paths = output_paths(node)
        ports = {path: port for each in (full, paths) for port, path in enumerate(each)}
        return cls(descs, paths, ports, tuple(path for path in full if path))


_ONE: tuple[Sequence[str], Mapping[str, int], tuple[str, ...]] = ([""], {"": 0}, ())


class Network(Base):
    """A MultiDiGraph of nodes by name; nodes are inserted with their incoming edges and only removed when unread."""

    _node: dict[str, dict[str, Any]]  # name → data
    _adj: dict[str, dict[str, dict[int, dict[str, int]]]]  # producer → consumer → edge → data
    _pred: dict[str, dict[str, dict[int, dict[str, int]]]]  # consumer → producer → edge → data

    def insert(self, node: Node, outputs: Outputs, sources: Sequence[Output | None]) -> None:
        """Adds a new node and the edges from its sources, which are given by input port."""
        name = node.name
        self._adj[name] = {}
        self._node[name] = {"node": node, "outputs": outputs, "sources": tuple(sources)}
        into = self._pred[name] = {}
        for port, source in enumerate(sources):
            if source is not None:
                producer, from_port = source
                edges = _edge(from_port, port)
                parallel = into.get(producer)
                if parallel is not None:
                    edges = parallel | {len(parallel): edges[0]}
                into[producer] = self._adj[producer][name] = edges

    def replace(self, node: Node) -> None:
        """Puts a node in the place of the one of its name, which has the same sources and outputs."""
        self._node[node.name] = self._node[node.name] | {"node": node}  # copies of the network share the data

    def copy(self, as_view: bool = False) -> Network:
        """A network with the same data; with `as_view` what NetworkX makes."""
        if as_view:
            view: Network = super().copy(as_view=True)
            return view
        other = type(self)()
        other.graph.update(self.graph)
        other._node.update(self._node)
        other._adj.update({name: edges.copy() for name, edges in self._adj.items()})
        other._pred.update({name: edges.copy() for name, edges in self._pred.items()})
        return other

    def node_of(self, name: str) -> Node:
        node: Node = self._node[name]["node"]
        return node

    def outputs_of(self, name: str) -> Outputs:
        outputs: Outputs = self._node[name]["outputs"]
        return outputs

    def find(self, name: str) -> Outputs | None:
        """The outputs of a node; None if it does not exist."""
        data = self._node.get(name)
        return None if data is None else data["outputs"]

    def sources_of(self, name: str) -> tuple[Output | None, ...]:
        """What a node reads, by input port; None where an optional tensor is left out."""
        sources: tuple[Output | None, ...] = self._node[name]["sources"]
        return sources

    def writes(self, name: str, port: int, desc: TensorDesc) -> bool:
        """Whether a node exists and writes this description (the same object)."""
        data = self._node.get(name)
        return data is not None and data["outputs"].descs[port] is desc

    def all_nodes(self) -> list[Node]:
        """All nodes in insertion order."""
        return [data["node"] for data in self._node.values()]

    def producers(self, name: str) -> list[tuple[str, int, int]]:
        """The sources of a node: (node, its output port, the input port here), by input port."""
        sources = self.sources_of(name)
        return [(*source, port) for port, source in enumerate(sources) if source is not None]

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


@functools.lru_cache(maxsize=4096)
def _edge(from_port: int, to_port: int) -> dict[int, dict[str, int]]:
    """The only edge between two nodes, by NetworkX's key for it."""
    return {0: {"from_port": from_port, "to_port": to_port}}
