"""Scopes that are guessed, from names and from parts that repeat, and how a page opens with them."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from support.picture.browser import Tab
from support.picture.graphs import decoder, lopsided

import dmlgraph as dg
from dmlgraph.picture import render
from dmlgraph.picture.drawing import Drawing, draw
from dmlgraph.picture.guesses import REPEATED, _from_weights, guessed
from dmlgraph.picture.scopes import in_scopes, inner_name
from dmlgraph.picture.shapes import Kind
from dmlgraph.picture.weights import with_weights

Opened = Callable[..., Tab]


def paths(drawing: Drawing) -> dict[str, str]:
    return {box.name: "/".join(path) for box, path in zip(drawing.boxes, guessed(drawing), strict=True)}


@pytest.mark.parametrize("separator", ["_", "."])
def test_names_of_exporters_tell_scopes(separator: str) -> None:
    found = paths(with_weights(draw(decoder(24, separator))))
    assert found[f"layers{separator}7{separator}attn{separator}scores"] == "layers/7/attn"
    assert found[f"layers{separator}7{separator}norm"] == "layers/7"
    assert found["ids"] == found["logits"] == found["head"] == ""


def test_words_that_say_what_an_operator_is_are_no_scopes() -> None:
    g = dg.Graph("g")
    value = g.input("x", sizes=[2, 2], dtype="float32")
    for layer in range(20):
        for count in range(3):
            value = dg.gemm(value, value, name=f"layers_{layer}_gemm_{count}")
            value = dg.activation_gelu(value, name=f"layers_{layer}_activation_gelu_{count}")
            value = dg.add(value, value, name=f"layers_{layer}_sums_{count}")
    g.output("y", value)
    assert {path for path in paths(draw(g)).values() if path} == {f"layers/{layer}" for layer in range(20)}


def test_names_of_weights_tell_scopes_of_their_readers() -> None:
    drawing = with_weights(draw(decoder(24, None)))
    assert any(name.startswith("gemm_") for name in paths(drawing))
    assert {"/".join(path) for path in _from_weights(drawing)} >= {"model.layers/7/attn", "model.layers/7"}


def test_names_that_are_only_counted_tell_nothing() -> None:
    g = dg.Graph("g")
    value = g.input("x", sizes=[2], dtype="float32")
    for index in range(200):
        value = dg.abs(value, name=f"abs_{index}") if index * index % 7 < 3 else dg.negate(value, name=f"neg_{index}")
    g.output("y", value)
    assert not any(path.startswith(("abs", "neg")) for path in paths(draw(g)).values())


def test_parts_that_repeat_are_found_without_names() -> None:
    drawing = with_weights(draw(decoder(24, None, weights="w")))
    found = paths(drawing)
    copies = [path for path in found.values() if path]
    assert set(copies) == {f"{REPEATED}/{index}" for index in range(24)}
    sizes = {path: copies.count(path) for path in copies}
    assert len(set(sizes.values())) == 1
    assert [path for name, path in found.items() if name.startswith("head")] == [""]


@pytest.mark.parametrize("begin", range(4))
def test_a_run_is_cut_where_least_flows(begin: int) -> None:
    """Blocks with a residual after nodes that are like a block's end: blocks are whole, whatever came before."""
    g = dg.Graph("g")
    value = g.input("x", sizes=[2], dtype="float32")
    for _ in range(begin):
        value = dg.abs(value)
    for _ in range(60):
        value = dg.add(value, dg.exp(dg.log(value)))
    g.output("y", value)
    drawing = in_scopes(draw(g))
    block = drawing.groups[begin + 1]
    assert [box.lines[1] for box in block.boxes if box.kind is not Kind.REFERENCE] == ["log", "exp", "add"]
    assert sum(box.kind is Kind.REFERENCE for box in block.boxes) == 1


def test_several_runs_are_found() -> None:
    drawing = in_scopes(draw(lopsided()))
    folded = [box.lines for box in drawing.boxes if box.kind is Kind.FOLDED]
    assert [(lines[0], lines[1]) for lines in folded] == [("repeated 1", "150 nodes"), ("repeated 2", "60 nodes")]


def test_a_small_graph_has_no_guesses() -> None:
    drawing = draw(decoder(1, "_"))
    assert in_scopes(drawing) is drawing


def test_what_repeats_nowhere_stays() -> None:
    g = dg.Graph("g")
    value = g.input("x", sizes=[2], dtype="float32")
    rng = np.random.default_rng(5)
    for choice in rng.integers(0, 4, 400):
        value = (dg.abs, dg.exp, dg.log, dg.negate)[choice](value)
    g.output("y", value)
    drawing = draw(g)
    assert in_scopes(drawing) is drawing


@pytest.mark.parametrize(
    ("name", "scope", "inner"),
    [
        ("layers/0/q", "layers/0/", "q"),
        ("layers_0_attn_q", "layers/0/", "attn_q"),
        ("layers.0.attn.q", "layers/0/attn/", "q"),
        ("block3_conv", "block/3/", "conv"),
        ("gemm_7", "layers/0/", "gemm_7"),
        ("layers_01_q", "layers/0/", "layers_01_q"),
        ("q", "", "q"),
    ],
)
def test_names_in_a_scope_are_without_it(name: str, scope: str, inner: str) -> None:
    assert inner_name(name, scope) == inner


# The page, at 1280 × 800.


@pytest.mark.parametrize("separator", ["_", None])
def test_five_hundred_nodes_open_legible(opened: Opened, separator: str | None) -> None:
    tab = opened(render(decoder(24, separator, weights="w"), "html"))
    tab.page.set_viewport_size({"width": 1280, "height": 800})
    tab.page.evaluate("views[0].fit(LEGIBLE)")
    scale, fonts = tab.page.evaluate("[views[0].scale, data.fonts]")
    assert scale * fonts["line"] >= 9
    sight = """(() => { const view = views[0], bottom = view.y + view.height / view.scale;
        return view.scene.boxes.filter((box) => box.y - box.h / 2 > view.y && box.y - box.h / 2 < bottom)
            .map((box) => [box.lines[0], box.open, box.inners.length]); })()"""
    (_, _, first), *_, (name, is_open, copies) = tab.page.evaluate(sight)
    assert (first, is_open, copies) == (0, True, 24)
    assert name in ("layers", REPEATED)


def test_the_map_shows_where_one_is_and_leads_elsewhere(opened: Opened) -> None:
    tab = opened(render(decoder(24, "_"), "html"))
    place = tab.page.evaluate("views[0].map()")
    canvas = tab.page.locator("canvas").bounding_box()
    assert place["x"] + place["w"] <= canvas["width"]
    assert place["y"] + place["h"] <= canvas["height"]
    tab.page.mouse.click(canvas["x"] + place["x"] + place["w"] / 2, canvas["y"] + place["y"] + place["h"] - 2)
    middle = "(views[0].y + views[0].height / 2 / views[0].scale) / views[0].scene.height"
    assert tab.page.evaluate(middle) > 0.95
    assert tab.heading == ""
    tab.page.keyboard.press("0")
    assert tab.page.evaluate("views[0].map()") is None


def test_another_copy_is_shown(opened: Opened) -> None:
    tab = opened(render(decoder(24, "_"), "html"))
    tab.page.evaluate("select(views[0], {box: views[0].scene.boxes.find((box) => box.inners.length > 1)})")
    tab.page.locator("#copy").select_option("layers/5")
    shown = "views[0].scene.boxes.find((box) => box.inners.length > 1).inner.boxes.map((box) => box.name)"
    assert "layers_5_norm" in tab.page.evaluate(shown)
    tab.find("layers_17_mlp_up")
    assert tab.heading == "layers_17_mlp_up"
    assert "layers_17_norm" in tab.page.evaluate(shown)


def test_labels_stay_beside_their_edges_when_scopes_open(opened: Opened) -> None:
    """In the page: no label lies on a line, which is looked at where the lines go straight down."""
    tab = opened(render(decoder(24, "_"), "html"))
    lying = """() => { const bad = [], c = views[0].context, check = (scene) => {
        c.font = `${data.fonts.label}px ${SANS}`;
        for (const edge of scene.edges) if (edge.place) {
            const [x, y] = edge.place, half = c.measureText(edge.label).width / 2;
            for (const other of scene.edges) for (let at = x - half; at <= x + half; at += 2)
                if (c.isPointInStroke(other.wire, at, y)) { bad.push([edge.label, other.label]); break; }
        }
        for (const box of scene.boxes) if (box.open) check(box.inner); };
        c.save(); c.setTransform(1, 0, 0, 1, 0, 0); c.lineWidth = 2; check(views[0].scene); c.restore();
        return bad; }"""
    assert tab.page.evaluate(lying) == []
    for _, step in itertools.product(range(2), (2, 3)):
        tab.page.evaluate(f"""everyBox(views[0].scene).filter((box) => box.inner)
            .forEach((box, i) => {{ if (i % {step} === 0) toggle(views[0], box); }})""")
        assert tab.page.evaluate(lying) == []
