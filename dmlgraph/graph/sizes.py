"""Sizes as expressions over dims, of inner values too.

They are inferred with a few other sizes of the dims, and compared.  What is inferred grows with the graph, as far as
sizes are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from dmlgraph.base.errors import DmlGraphError
from dmlgraph.base.expressions import Expression
from dmlgraph.base.fitting import fitted, probes
from dmlgraph.base.sized import Sized
from dmlgraph.graph.checking import Checker
from dmlgraph.graph.dims import Dims
from dmlgraph.graph.editing import checked
from dmlgraph.graph.network import Network

if TYPE_CHECKING:
    from dmlgraph.graph.graph import Graph


class Sizes:
    """The sizes of a graph's values, and how they follow its dims; a graph that is edited gets a new one."""

    def __init__(self, graph: Graph) -> None:
        fixed = graph.origin.fixed
        self._begin(graph, [dim for dim in graph.dims if dim not in fixed])

    def _begin(self, graph: Graph, dims: Sequence[str]) -> None:
        """Begins anew, with some of the dims: the others cannot have another size."""
        self._samples = probes({dim: graph.dims[dim] for dim in dims})
        self._others = [(Checker(Dims(graph.dims | sample), graph.level), Network()) for sample in self._samples[1:]]

    def of(self, graph: Graph, name: str, port: int) -> tuple[int, ...]:
        """The sizes of a value; those that follow dims are `Sized`."""
        while len(self._samples[0]) and not self._infer(graph, name):
            pass
        sizes = graph.desc(name, port).sizes
        if not self._samples[0]:
            return sizes
        others = [network.outputs_of(name).descs[port] for _, network in self._others]
        return tuple(
            _sized(size, fitted(self._samples, [size, *(each.sizes[axis] for each in others if each is not None)]))
            for axis, size in enumerate(sizes)
        )

    def _infer(self, graph: Graph, name: str) -> bool:
        """Infers what a value needs; if that fails with another size of a dim, begins without it, and returns False."""
        dims = list(self._samples[0])
        for place, (checker, network) in enumerate(self._others):
            try:
                for missing in _missing(graph, network, name):
                    sources = graph.sources(missing)
                    node, outputs = checked(checker, graph.node(missing), sources, network)
                    network.insert(node, outputs, sources)
            except DmlGraphError:
                self._begin(graph, [dim for dim in dims if place < len(dims) and dim != dims[place]])
                return False
        return True


def _missing(graph: Graph, network: Network, name: str) -> Iterator[str]:
    """The nodes that a network lacks of those that a node needs, and that, each after what it reads."""
    waiting = [name]
    while waiting:
        needed = [each[0] for each in graph.sources(waiting[-1]) if each and each[0] not in network]
        if needed:
            waiting += needed
            continue
        last = waiting.pop()
        if last not in network:
            yield last


def _sized(size: int, found: Expression | int | None) -> Any:
    return Sized(size, found) if isinstance(found, Expression) else size
