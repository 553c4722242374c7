"""DOT, read back by Graphviz."""

from __future__ import annotations

import pygraphviz

from dmlgraph.picture import render
from dmlgraph.picture.dot import render as render_drawings
from dmlgraph.picture.drawing import draw

from .graphs import HOSTILE, fused, hostile, ramp


def label(thing: object) -> str:
    """An attribute as Graphviz would write it: escapes resolved, entities too."""
    text = thing.attr["label"]  # type: ignore[attr-defined]
    return text.replace("\\n", "\n").replace("\\\\", "\\").replace("&amp;", "&")


def test_graphviz_reads_every_node_and_edge_back() -> None:
    graph = pygraphviz.AGraph(string=render(ramp(), "dot"))
    drawing = draw(ramp())
    assert [label(node) for node in graph.nodes()] == ["\n".join(box.lines) for box in drawing.boxes]
    assert sorted((edge[0], edge[1], label(edge)) for edge in graph.edges()) == sorted(
        (f"n{edge.source}", f"n{edge.target}", edge.label) for edge in drawing.edges
    )
    assert [node.attr["shape"] for node in graph.nodes()[:5]] == [
        "invtrapezium",
        "cylinder",
        "hexagon",
        "hexagon",
        "box",
    ]


def test_names_are_texts_and_nothing_else() -> None:
    graph = pygraphviz.AGraph(string=render(hostile(), "dot"))
    assert len(graph.nodes()) == 3
    assert label(graph.get_node("n0")).splitlines()[0][:20] == HOSTILE[:20]


def test_graphviz_draws_it() -> None:
    graph = pygraphviz.AGraph(string=render(hostile(), "dot"))
    graph.layout("dot")
    assert all(node.attr["pos"] for node in graph.nodes())


def test_two_drawings_are_clusters() -> None:
    graph = pygraphviz.AGraph(string=render_drawings(fused()))
    assert [each.graph_attr["label"] for each in graph.subgraphs()] == ["before", "after"]
    assert len(graph.nodes()) == sum(len(drawing.boxes) for drawing in fused())
