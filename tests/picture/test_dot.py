"""DOT, read back by a parser, and drawn by Graphviz if its program is installed."""

from __future__ import annotations

import shutil
import subprocess

import pydot
import pytest
from support.picture.graphs import HOSTILE, fused, hostile, ramp

from dmlgraph.picture import render
from dmlgraph.picture.dot import render as render_drawings
from dmlgraph.picture.drawing import draw
from dmlgraph.picture.texts import cut
from dmlgraph.picture.weights import with_weights

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:pydot")


def read_back(text: str) -> pydot.Dot:
    graphs = pydot.graph_from_dot_data(text)
    assert graphs is not None
    (graph,) = graphs
    return graph


def boxes(graph: pydot.Graph) -> list[pydot.Node]:
    """The nodes of a graph; `node` and `edge` are defaults."""
    return [node for node in graph.get_nodes() if node.get_name() not in ("node", "edge")]


def label(thing: pydot.Node | pydot.Edge | pydot.Subgraph) -> str:
    """An attribute as Graphviz would write it: escapes and entities are resolved."""
    text = thing.get_attributes()["label"]
    assert text[0] == text[-1] == '"'
    for escaped, character in (('\\"', '"'), ("\\n", "\n"), ("\\\\", "\\"), ("&amp;", "&")):
        text = text.replace(escaped, character)
    return text[1:-1]


def test_every_node_and_edge_is_read_back() -> None:
    graph, drawing = read_back(render(ramp(), "dot")), with_weights(draw(ramp()))
    assert [label(node) for node in boxes(graph)] == ["\n".join(box.texts) for box in drawing.boxes]
    assert sorted((edge.get_source(), edge.get_destination(), label(edge)) for edge in graph.get_edges()) == sorted(
        (f"n{edge.source}", f"n{edge.target}", edge.label) for edge in drawing.edges
    )
    assert [node.get_attributes()["shape"] for node in boxes(graph)[:4]] == [
        "invtrapezium",
        "hexagon",
        "hexagon",
        "box",
    ]


def test_names_are_texts_and_nothing_else() -> None:
    graph = read_back(render(hostile(), "dot"))
    assert len(boxes(graph)) == 3
    assert label(boxes(graph)[0]).splitlines()[0] == cut(HOSTILE)


def test_two_drawings_are_clusters() -> None:
    clusters = read_back(render_drawings(fused())).get_subgraphs()
    assert [label(cluster) for cluster in clusters] == ["before", "after"]
    assert sum(len(boxes(cluster)) for cluster in clusters) == sum(
        len(with_weights(drawing).boxes) for drawing in fused()
    )


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz's program dot is not installed")
def test_graphviz_draws_it() -> None:
    run = subprocess.run(
        ["dot", "-Tplain"], input=render(hostile(), "dot"), capture_output=True, text=True, timeout=120, check=True
    )
    assert [line.split()[1] for line in run.stdout.splitlines() if line.startswith("node ")] == ["n0", "n1", "n2"]
    assert run.stderr == ""
