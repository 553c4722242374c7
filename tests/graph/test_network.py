"""Network: for NetworkX, inserted nodes are the same as nodes added by its own methods."""

from __future__ import annotations

import networkx as nx
import pytest
from support.random_graphs import FOCUSES, graph_of

from dmlgraph.base.tensor import TensorDesc
from dmlgraph.graph.network import Network, Outputs
from dmlgraph.graph.nodes import InputNode, OperatorNode


def by_networkx(network: Network) -> nx.MultiDiGraph[str]:
    """The same graph, made by NetworkX."""
    made: nx.MultiDiGraph[str] = nx.MultiDiGraph()
    for node in network.all_nodes():
        made.add_node(node.name, node=node, outputs=network.outputs_of(node.name))
        for source, from_port, to_port in network.producers(node.name):
            made.add_edge(source, node.name, from_port=from_port, to_port=to_port)
    return made


@pytest.mark.parametrize("focus", FOCUSES)
def test_networkx_finds_the_same(focus: str) -> None:
    for seed in range(40):
        graph = graph_of(seed, focus).graph
        network = graph._network
        expected = by_networkx(network)
        assert list(network.nodes) == list(expected.nodes)
        assert sorted(network.edges(data="to_port", keys=True)) == sorted(expected.edges(data="to_port", keys=True))
        assert sorted(network.edges(data="from_port", keys=True)) == sorted(expected.edges(data="from_port", keys=True))
        assert nx.is_directed_acyclic_graph(network)
        for node in graph.nodes:
            inputs = node.operator.input_descs if isinstance(node, OperatorNode) else ()
            ports = [port for port, desc in enumerate(inputs) if desc is not None]
            assert [port for _, _, port in network.producers(node.name)] == ports
            assert list(network.predecessors(node.name)) == list(expected.predecessors(node.name))
            assert network.upstream([node.name]) == {node.name} | nx.ancestors(expected, node.name)
        copied = network.copy()
        assert type(copied) is Network
        assert nx.utils.graphs_equal(copied, network)


def test_removed_nodes_take_their_edges_with_them_and_leave_copies_alone() -> None:
    network = Network()
    desc = TensorDesc(dtype="float32", sizes=[2])
    for name, sources in (("x", ()), ("y", (("x", 0), None, ("x", 0))), ("z", (("y", 0),))):
        node = InputNode(name, desc, {})
        network.insert(node, Outputs.of(node), sources)
    assert network.producers("y") == [("x", 0, 0), ("x", 0, 2)]
    copied = network.copy()
    network.remove_nodes_from(["z", "y"])
    assert list(network.edges) == []
    assert list(network.successors("x")) == []
    assert copied.producers("z") == [("y", 0, 0)]
    assert list(copied.successors("x")) == ["y"]
    assert network.writes("x", 0, desc)
    assert not network.writes("y", 0, desc)
