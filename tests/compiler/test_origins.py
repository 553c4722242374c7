"""Origins: the nodes of the source graph that went into each node."""

from __future__ import annotations

import dmlgraph as dg
from dmlgraph.compiler.ir_node import Origin
from dmlgraph.passes import fuse


def test_what_went_in_is_merged_in_order() -> None:
    a, b, c, d = (Origin((name,)) for name in "abcd")
    new = Origin.merged(b, a)  # of a new node in the place of both
    assert list(new) == ["b", "a"]
    kept, other = Origin.merged(new, c), Origin.merged(d, c)  # of existing nodes in the place of c
    assert list(kept) == ["b", "a", "c"]
    assert list(other) == ["d", "c"]
    assert list(Origin.merged(other, kept)) == ["d", "c", "b", "a"]


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
