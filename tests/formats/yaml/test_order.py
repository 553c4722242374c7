"""Declarations in any order: each is put after what it reads, and cycles are reported."""

from __future__ import annotations

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from dmlgraph.formats.yaml.order import in_order

GRAPHS = st.integers(1, 12).flatmap(
    lambda count: st.lists(st.lists(st.integers(0, count - 1), max_size=3), min_size=count, max_size=count)
)


@given(GRAPHS)
def test_order_and_cycles(graph: list[list[int]]) -> None:
    sources = {str(name): [str(each) for each in read] for name, read in enumerate(graph)}
    order, cycles = in_order(sources)
    network = nx.DiGraph([(source, name) for name, read in sources.items() for source in read])
    network.add_nodes_from(sources)
    groups = [group for group in nx.strongly_connected_components(network) if len(group) > 1]
    groups += [{name} for name, read in sources.items() if name in read and not any(name in group for group in groups)]
    assert sorted(map(sorted, groups)) == sorted(sorted(cycle.names) for cycle in cycles)
    on_cycles = set().union(*groups)
    assert sorted(order) == sorted(set(sources) - on_cycles)
    done = set(on_cycles)
    for name in order:
        assert set(sources[name]) <= done
        done.add(name)
    for cycle in cycles:
        assert cycle.path[0] == cycle.path[-1] == min(cycle.names, key=int)
        assert len(set(cycle.path)) == len(cycle.path) - 1
        assert all(source in sources[name] for source, name in zip(cycle.path, cycle.path[1:], strict=False))


def test_what_is_in_order_stays_so() -> None:
    assert in_order({"b": [], "a": ["b"], "c": []})[0] == ["b", "a", "c"]
    assert in_order({"y": ["x"], "z": [], "x": []})[0] == ["z", "x", "y"]
