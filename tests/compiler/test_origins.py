"""Origins: the nodes of the source graph that went into each node."""

from __future__ import annotations

import dmlgraph as dg
from dmlgraph.compiler.origins import Origins
from dmlgraph.passes import fuse


def test_what_went_in_is_merged_in_order() -> None:
    origins = Origins()
    assert origins.of(["a", "d"]) == {"a": ("a",), "d": ("d",)}
    origins.replace(["b", "a"], ["b"], ["b"])  # a new node with an old name
    origins.replace(["c"], ["b", "d"], [])  # into existing nodes
    assert origins.of("bdf") == {"f": ("f",), "b": ("b", "a", "c"), "d": ("d", "c")}
    origins.replace(["d", "b"], ["e"], ["e"])
    assert origins.of("e") == {"e": ("d", "c", "b", "a")}
    assert list(origins) == ["e"]


def test_a_fused_graph_tells_them() -> None:
    g = dg.Graph("test")
    fill = g.fill_value_constant(sizes=[2, 3], dtype="float32", value=2, name="two")
    g.output("y", dg.sqrt(dg.multiply(fill, fill, name="four"), name="root"))
    assert fuse(g, rules=["fold_fills"]).origins == {"root": ("root", "four", "two")}


def test_a_long_chain_goes_into_one_node() -> None:
    g = dg.Graph("test")
    value = g.fill_value_constant(sizes=[2, 3], dtype="float32", value=1)
    for _ in range(1600):
        value = dg.negate(value)
    g.output("y", value)
    (origins,) = fuse(g, rules=["fold_fills"]).origins.values()
    assert len(origins) == 1601
