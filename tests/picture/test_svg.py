"""SVG: well-formed, complete, and harmless for any names."""

from __future__ import annotations

from xml.etree import ElementTree

from support.picture.graphs import HOSTILE, fused, hostile, ramp

from dmlgraph.picture import render
from dmlgraph.picture.drawing import draw
from dmlgraph.picture.svg import render as render_drawings
from dmlgraph.picture.weights import with_weights

SVG = "{http://www.w3.org/2000/svg}"


def test_every_box_and_edge_is_there_with_its_text() -> None:
    root = ElementTree.fromstring(render(ramp(), "svg"))
    drawing = with_weights(draw(ramp()))
    groups = [group for group in root.iter(f"{SVG}g") if group.find(f"{SVG}title") is not None]
    boxes = [group for group in groups if group.get("class", "").startswith("box")]
    edges = [group for group in groups if group.get("class") == "edge"]
    assert [tuple(text.text for text in box.findall(f"{SVG}text")) for box in boxes] == [b.texts for b in drawing.boxes]
    assert [box.get("class") for box in boxes] == [f"box {box.look}" for box in drawing.boxes]
    assert [edge.findtext(f"{SVG}text") for edge in edges] == [edge.label for edge in drawing.edges]
    assert "min: 0.0" in (boxes[6].findtext(f"{SVG}title") or "")
    assert "to: shifted.a" in (edges[2].findtext(f"{SVG}title") or "")


def test_the_legend_has_the_kinds_that_occur() -> None:
    root = ElementTree.fromstring(render(hostile(), "svg"))
    legend = [g for g in root.findall(f"{SVG}g") if g.get("class", "").startswith("box")]
    assert [item.findtext(f"{SVG}text") for item in legend] == ["input", "output", "activations"]


def test_names_are_texts_and_nothing_else() -> None:
    root = ElementTree.fromstring(render(hostile(), "svg"))
    assert {element.tag.removeprefix(SVG) for element in root.iter()} == {
        "svg", "title", "style", "rect", "g", "path", "text"
    }  # fmt: skip
    assert root.findtext(f"{SVG}title") == HOSTILE


def test_it_asks_no_network() -> None:
    text = render(ramp(), "svg").replace("http://www.w3.org/2000/svg", "")
    assert "http" not in text
    assert "url(" not in text


def test_two_drawings_stand_side_by_side() -> None:
    root = ElementTree.fromstring(render_drawings(fused()))
    before, after = [g for g in root.findall(f"{SVG}g") if g.get("class") is None]
    assert (before.findtext(f"{SVG}text"), after.findtext(f"{SVG}text")) == ("before", "after")
    left = float((after.get("transform") or "").removeprefix("translate(").split()[0])
    assert 0 < left < float(root.get("width") or 0)
    assert "↳ shifted" in [text.text for text in after.iter(f"{SVG}text")]
