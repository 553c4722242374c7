"""Scopes in pictures: boxes that hold all nodes of a scope, in every format."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any
from xml.etree import ElementTree

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.picture.browser import Tab
from support.picture.graphs import chain, fused, network

import dmlgraph as dg
from dmlgraph.picture import render
from dmlgraph.picture.drawing import Box, Drawing, draw
from dmlgraph.picture.folding import fold
from dmlgraph.picture.layout import lay_out
from dmlgraph.picture.scopes import MOST_BOXES, box_count, in_scopes, scopes
from dmlgraph.picture.shapes import Kind

Opened = Callable[..., Tab]


def names(drawing: Drawing) -> Iterator[str]:
    """The nodes and outputs in a drawing and in its scopes."""
    for index, box in enumerate(drawing.boxes):
        if index in drawing.groups:
            yield from names(drawing.groups[index])
        elif box.kind is not Kind.REFERENCE:
            yield box.name


def parts(drawing: Drawing) -> Iterator[Drawing]:
    yield drawing
    for group in drawing.groups.values():
        yield from parts(group)


def test_a_drawing_without_scopes_stays():
    drawing = draw(chain(5))
    assert in_scopes(drawing) is drawing


def test_scopes_are_boxes_with_drawings_inside():
    drawing = in_scopes(draw(network(2, 3)))
    assert [box.name for box in drawing.boxes] == ["x", "layers", "y"]
    assert drawing.boxes[1].kind is Kind.FOLDED
    assert drawing.boxes[1].lines == ("layers", "10 nodes", "6 × activation_relu", "2 × input", "2 × gemm")
    layers = drawing.groups[1]
    assert [(box.name, box.lines[0]) for box in layers.boxes] == [
        ("layers/0", "0"),
        ("layers/1", "1"),
        ("x", "↑ x"),
    ]
    first = layers.groups[0]
    assert [box.lines[0] for box in first.boxes] == ["w", "gemm", "act", "↑ x"]
    assert [(edge.source, edge.target) for edge in first.edges] == [(3, 1), (0, 1), (1, 2)]
    relus = [f"activation_relu{ending}" for ending in ("", "_1", "_2")]
    assert [box.lines[0] for box in first.groups[2].boxes] == [*relus, "↑ layers/0/gemm"]


def test_a_state_is_drawn_as_a_loop_in_its_scope() -> None:
    g = dg.Graph("network")
    value = g.input("x", sizes=[2], dtype="float32")
    for layer in range(2):
        with g.scope(f"layers/{layer}"):
            s = g.state("s", sizes=[2], dtype="float32")
            rows = g.state("rows", sizes=[9, 2], dtype="float32", grows=0)
            value = dg.add(value, s)
            g.update(s, value)
            g.append(rows, value.reshape(1, 2))
    g.output("y", value)
    drawing = in_scopes(draw(g))
    assert [box.lines[0] for box in drawing.boxes] == ["x", "layers", "y"]
    layers = drawing.groups[1]
    assert layers.boxes[0].lines == ("0", "4 nodes", "2 × state", "1 × add", "1 × reshape")
    first = layers.groups[0]
    assert [box.lines[0] for box in first.boxes] == ["s", "rows", "add", "reshape", "↻ s", "↻ rows", "↑ x"]
    names = [box.lines[0] for box in first.boxes]
    edges = {(names[edge.source], names[edge.target]) for edge in first.edges}
    assert edges == {("s", "add"), ("↑ x", "add"), ("add", "reshape"), ("add", "↻ s"), ("reshape", "↻ rows")}


def test_a_scope_of_one_box_is_none_and_one_that_is_all_of_another_takes_its_place():
    g = dg.Graph()
    x = g.input("alone/x", sizes=[1], dtype="float32")
    with g.scope("a/b/c"):
        y = dg.exp(dg.exp(x))
    g.output("a/b/y", y)
    drawing = in_scopes(draw(g))
    assert [(box.name, box.lines[0]) for box in drawing.boxes] == [
        ("alone/x", "alone/x"),
        ("a/b/c", "a/b/c"),
        ("a/b/y", "a/b/y"),
    ]


PATHS = st.sampled_from(["", "a/", "b/", "a/c/", "a/c/d/", "b/c/", "/", "a//"])


@settings(deadline=None)
@given(st.lists(st.tuples(PATHS, st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=25))
def test_scopes_hold_every_node_once_and_have_no_cycles(nodes: list[tuple[str, int, int]]):
    """Also where scopes read one another in turn."""
    g = dg.Graph()
    values = [g.input("x", sizes=[1], dtype="float32")]
    for index, (path, a, b) in enumerate(nodes):
        values.append(dg.add(values[-1 - a % len(values)], values[-1 - b % len(values)], name=f"{path}n{index}"))
    g.output("y", values[-1])
    drawing = draw(g)
    scoped = in_scopes(drawing)
    assert sorted(names(scoped)) == sorted(box.name for box in drawing.boxes)
    for part in parts(scoped):
        edges: nx.DiGraph[int] = nx.DiGraph([(edge.source, edge.target) for edge in part.edges])
        assert nx.is_directed_acyclic_graph(edges)
        merged = [(edge.source, edge.target) for edge in part.edges if {edge.source, edge.target} & set(part.groups)]
        assert len(set(merged)) == len(merged)
    for are_open in (False, True):
        scene = lay_out(scoped, are_open=are_open)
        for placed in scene.boxes:
            assert 0 <= placed.x - placed.width / 2 <= placed.x + placed.width / 2 <= scene.width + 1
    for format_ in ("svg", "html", "dot", "mermaid"):
        assert render(g, format_)


def test_a_large_drawing_is_folded_into_its_scopes():
    drawing = draw(network(40, 10))
    folded = fold(drawing)
    assert [box.name for box in folded.boxes] == ["x", "layers", "y"]
    assert folded.title.endswith("boxes, folded")
    assert len(drawing.boxes) > MOST_BOXES > box_count(folded)
    assert len(render(network(40, 10), "svg")) < 20_000


def test_scopes_that_are_alike_are_drawn_once():
    drawing = draw(network(40, 10))
    scoped = in_scopes(drawing)
    assert scoped.boxes[1].lines[:4] == ("layers", "× 40, each:", "12 nodes", "10 × activation_relu")
    assert scoped.boxes[1].heading == "layers × 40: layers/0"
    assert [box.lines[0] for box in scoped.groups[1].boxes] == ["w", "gemm", "act", "↑ x"]
    assert [copy.title for copy in scoped.copies[1]] == [f"layers/{index}" for index in range(1, 40)]
    everything = [*scoped.boxes[::2], *(box for copy in (scoped.groups[1], *scoped.copies[1]) for box in flat(copy))]
    assert sorted(box.name for box in everything) == sorted(box.name for box in drawing.boxes)


def flat(drawing: Drawing) -> Iterator[Box]:
    """The nodes in a drawing and in its scopes."""
    for index, box in enumerate(drawing.boxes):
        if index in drawing.groups:
            yield from flat(drawing.groups[index])
        elif box.kind is not Kind.REFERENCE:
            yield box


def test_one_that_differs_is_drawn_by_itself():
    g = dg.Graph("network")
    value = g.input("x", sizes=[1, 4], dtype="float32")
    for layer in range(60):
        with g.scope(f"layers/{layer}"):
            value = dg.activation_relu(dg.exp(value) if layer != 20 else dg.log(value))
            value = dg.abs(value)
    g.output("y", value)
    layers = in_scopes(draw(g)).groups[1]
    assert [box.lines[0] for box in layers.boxes if box.kind is Kind.FOLDED] == ["0 … 19", "20", "21 … 59"]
    assert {index: len(copies) for index, copies in layers.copies.items()} == {0: 19, 2: 38}


def test_scopes_without_numbers_are_no_copies():
    g = dg.Graph("network")
    value = g.input("x", sizes=[1, 4], dtype="float32")
    for name in ("q", "k", "v"):
        with g.scope(name):
            for _ in range(60):
                value = dg.exp(dg.log(value))
    g.output("y", value)
    scoped = in_scopes(draw(g))
    assert [box.name for box in scoped.boxes] == ["x", "q", "k", "v", "y"]
    assert not scoped.copies


def test_svg_frames_what_is_in_a_scope():
    root = ElementTree.fromstring(render(network(2, 2), "svg"))
    frames = [each for each in root.iter() if each.get("class") == "scope"]
    assert [each.find("{*}text").text for each in frames] == ["layers", "0", "act", "1", "act"]  # type: ignore[union-attr]
    inner = [each.text for each in frames[2].iter() if each.get("class") == "title"]
    assert set(inner) >= {"activation_relu", "activation_relu_1"}


@pytest.mark.parametrize(
    ("format_", "begin", "end"), [("dot", "subgraph cluster_", "}"), ("mermaid", "subgraph ", "end")]
)
def test_scopes_are_clusters_and_subgraphs(format_: str, begin: str, end: str):
    lines = [line.strip() for line in render(network(2, 2), format_).splitlines()]
    opened = [line for line in lines if line.startswith(begin)]
    assert len(opened) == len({line.split()[1].partition("[")[0] for line in opened}) == 5
    depth, inside = 0, {}
    for line in lines:
        depth += line.startswith(begin) - (line == end)
        label = re.search(r"layers/\d/(?:act/)?\w+", line)
        if label and "->" not in line and "--" not in line:
            inside[label[0]] = depth
    assert {name: name.count("/") for name in inside} == inside


# The page.


def test_a_small_graph_opens_with_its_scopes_open(opened: Opened):
    tab = opened(render(network(2, 2), "html"))
    assert tab.page.evaluate("everyBox(views[0].scene).filter((box) => box.inner).every((box) => box.open)")
    tab.page.evaluate(
        "reveal(views[0], everyBox(views[0].scene).find((box) => box.name === 'layers/1/gemm')), views[0].paint()"
    )
    tab.click()
    assert tab.heading == "layers/1/gemm"


def test_a_scope_closes_and_opens(opened: Opened):
    tab = opened(render(network(2, 2), "html"))
    height = "views[0].scene.height"
    before = tab.page.evaluate(height)
    tab.find("layers/0")
    group = tab.page.locator("#group")
    assert group.inner_text() == "Close the scope"
    tab.page.keyboard.press("Enter")
    assert group.get_attribute("aria-expanded") == "false"
    assert tab.page.evaluate(height) < before
    group.click()
    assert group.get_attribute("aria-expanded") == "true"
    assert tab.page.evaluate(height) == before
    tab.page.get_by_role("button", name="layers/0/act", exact=True).click()
    assert tab.heading == "layers/0/act"
    assert tab.fields["nodes"] == "2"


def test_boxes_never_overlap_however_scopes_are_opened(opened: Opened):
    tab = opened(render(network(40, 4), "html"))
    overlapping = """() => { const bad = [], check = (scene) => {
        const { boxes } = scene;
        for (const a of boxes) for (const b of boxes) if (a.index < b.index
            && Math.abs(a.x - b.x) < (a.w + b.w) / 2 - 1
            && Math.abs(a.y - b.y) < (a.h + b.h) / 2 - 1) bad.push([a.name, b.name]);
        for (const box of boxes) {
            if (box.x - box.w / 2 < -1 || box.x + box.w / 2 > scene.width + 1) bad.push(box.name);
            if (box.open) {
                const { inner } = box;
                if (inner.dx < box.x - box.w / 2 - 1 || inner.dx + inner.width > box.x + box.w / 2 + 1
                    || inner.dy + inner.height > box.y + box.h / 2 + 1) bad.push(box.name);
                check(inner);
            } } };
        check(views[0].scene); return bad; }"""
    assert tab.page.evaluate(overlapping) == []
    for step in (1, 3, 2, 5):
        tab.page.evaluate(f"""everyBox(views[0].scene).filter((box) => box.inner)
            .forEach((box, i) => {{ if (i % {step} === 0) toggle(views[0], box); }})""")
        assert tab.page.evaluate(overlapping) == []


def test_a_large_graph_opens_with_one_of_its_layers_and_finds_what_is_in_the_others(opened: Opened):
    graph = network(100, 100)
    tab = opened(render(graph, "html"))
    assert len(graph.nodes) > 10_000
    assert tab.page.evaluate("views[0].scene.boxes.length") == 3
    tab.find("layers/57/gemm")
    assert tab.heading == "layers/57/gemm"
    assert tab.page.evaluate("scenesAround(selected.box).map(({ owner, title }) => [owner.name, title])") == [
        ["layers", "layers/57"]
    ]
    assert not tab.page.evaluate("scenesAround(selected.box).some(hidden)")
    tab.page.evaluate("select(views[0], {})")
    tab.click()
    assert tab.heading == "layers/57/gemm"
    tab.page.keyboard.press("ArrowUp")
    assert tab.heading in ("layers/56/act/activation_relu_99", "layers/57/w")


def test_a_fused_node_in_a_scope_opens_inside_it(opened: Opened):
    g = dg.Graph("g")
    x = g.input("x", sizes=[2, 3], dtype="float32")
    w = g.input("w", sizes=[3, 4], dtype="float32")
    with g.scope("s"):
        y = dg.exp(dg.activation_relu(dg.gemm(x, w, name="product"), name="bounded"))
    g.output("y", y)
    tab = opened(render(g, "html", view="fused"))
    tab.find("s/bounded")
    tab.page.keyboard.press("Enter")
    assert tab.page.locator("#group").get_attribute("aria-expanded") == "true"
    tab.page.get_by_role("button", name="s/product", exact=True).click()
    assert tab.heading == "s/product"


def test_drawings_given_twice_are_scoped_once():
    for drawing in fused():
        again: Any = in_scopes(in_scopes(drawing))
        assert again == in_scopes(drawing)
    scoped = in_scopes(draw(network(2, 2)))
    assert in_scopes(scoped) is scoped
    assert list(scopes(scoped).inner) == []


def test_a_weight_without_a_scope_is_in_that_of_its_readers():
    g = dg.Graph("network")
    x = g.input("x", sizes=[1, 4], dtype="float32")
    weights = [g.input(f"layer.{layer}.w", sizes=[4, 4], dtype="float32", owned=True) for layer in range(2)]
    both = g.constant("both", np.ones((1, 4), np.float32))
    value = x
    for layer, w in enumerate(weights):
        with g.scope(f"layers/{layer}"):
            value = dg.gemm(value, w, both)
    last = g.constant("last", np.ones((1, 4), np.float32))
    g.output("y", dg.add(value, last))
    drawing = in_scopes(draw(g))
    assert [box.name for box in drawing.boxes] == ["x", "layers", "last", "add", "y"]
    (layers,) = drawing.groups.values()
    assert {box.name for box in layers.boxes if box.kind is not Kind.REFERENCE} == {"layers/0", "both", "layers/1"}
    inside = [{box.name for box in each.boxes if box.kind is Kind.INPUT} for each in layers.groups.values()]
    assert inside == [{"layer.0.w"}, {"layer.1.w"}]
    assert sorted(names(drawing)) == sorted(box.name for box in draw(g).boxes)
