"""Weights are lines in the boxes that read them, and boxes where nothing else can show them."""

from __future__ import annotations

from collections.abc import Callable
from xml.etree import ElementTree

import numpy as np
from support.picture.browser import Tab
from support.picture.graphs import dense

import dmlgraph as dg
from dmlgraph.picture import render
from dmlgraph.picture.drawing import draw
from dmlgraph.picture.layout import lay_out
from dmlgraph.picture.weights import with_weights

Opened = Callable[..., Tab]


def test_weights_are_lines_of_their_readers() -> None:
    drawing = with_weights(draw(dense()))
    lines = {box.name: box.texts for box in drawing.boxes}
    assert lines == {
        "x": ("x", "float32 [1,4]"),
        "product": ("product", "gemm", "b float32 [4,4]", "c float32 [1,4]"),
        "again": ("again", "gemm", "b float32 [4,4]"),
        "y": ("y", "float32 [1,4]"),
    }
    assert [(drawing.boxes[e.source].name, drawing.boxes[e.target].name) for e in drawing.edges] == [
        ("x", "product"), ("product", "again"), ("again", "y"),
    ]  # fmt: skip
    (first, _), (again,) = (drawing.boxes[index].weights for index in (1, 2))
    assert first.box is again.box
    assert dict(first.box.rows)["constant"] == "w"


def test_views_of_weights_are_lines_too() -> None:
    g = dg.Graph("g")
    x = g.input("x", sizes=[2, 4], dtype="float32")
    bias = g.constant("bias", np.ones((2, 2), np.float32)).reshape(4).reshape(1, 4)
    g.output("y", dg.add(x, bias, name="sum"))
    g.output("z", g.constant("seen", np.ones(4, np.float32)).reshape(2, 2, name="shown"))
    drawing = with_weights(draw(g))
    lines = {box.name: box.texts for box in drawing.boxes}
    assert list(lines) == ["x", "sum", "shown", "y", "z"]
    assert lines["sum"] == ("sum", "add", "b float32 [1,4]")
    assert lines["shown"][-1] == "input float32 [4]"
    (weight,) = next(box.weights for box in drawing.boxes if box.name == "sum")
    assert dict(weight.box.rows)["constant"] == "bias"


def test_what_is_no_weight_of_an_operator_stays_a_box() -> None:
    g = dg.Graph("g")
    given = g.input("given", sizes=[2], dtype="float32")
    out, unread = (g.constant(name, np.ones(2, np.float32)) for name in ("out", "unread"))
    g.output("y", dg.add(given, out))
    g.output("z", out)
    assert [box.name for box in with_weights(draw(g)).boxes] == ["given", "out", unread.node, "add", "y", "z"]


def test_groups_show_weights_too() -> None:
    g = dg.Graph("g")
    x = g.input("x", sizes=[1, 4], dtype="float32")
    w = g.constant("w", np.ones((4, 4), np.float32))
    product = dg.gemm(x, w, name="product")
    g.output("y", dg.activation_relu(product, name="bounded"))
    source = draw(g)
    after = draw(g, origins={"bounded": ("product", "bounded", "w")}, source=source)
    (index,) = after.groups
    drawing = with_weights(after)
    (place,) = drawing.groups
    assert (drawing.boxes[place].name, index - place) == ("bounded", 1)
    assert [box.texts for box in drawing.groups[place].boxes] == [
        ("product", "gemm", "b float32 [4,4]"), ("bounded", "activation_relu"),
    ]  # fmt: skip


def test_a_box_has_room_for_its_weights() -> None:
    placed = {each.box.name: each for each in lay_out(with_weights(draw(dense()))).boxes}
    assert placed["product"].height - placed["again"].height > 10


def test_svg_has_a_tooltip_for_each_weight() -> None:
    root = ElementTree.fromstring(render(dense(), "svg"))
    weights = [each for each in root.iter() if each.get("class") == "weight"]
    assert [each.text for each in weights] == ["b float32 [4,4]", "c float32 [1,4]", "b float32 [4,4]"]
    assert "values: 0.5, 0.5" in (weights[1].findtext("{*}title") or "")


def test_a_click_opens_a_weight(opened: Opened) -> None:
    tab = opened(render(dense(), "html"))
    tab.find("again")
    height = tab.page.evaluate(
        "(() => { const b = selected.box; return lineAt(b, b.lines.length) * views[0].scale; })()"
    )
    tab.click(down=height)
    assert tab.heading == "w"
    assert tab.fields["constant"] == "w"
    assert tab.page.locator("#panel li button").all_inner_texts() == [
        "product: b float32 [4,4]", "again: b float32 [4,4]",
    ]  # fmt: skip
    tab.page.keyboard.press("ArrowUp")
    assert tab.heading == "product"


def test_a_weight_is_found_once(opened: Opened) -> None:
    tab = opened(render(dense(), "html"))
    tab.page.fill("#search", "w")
    assert tab.page.locator("#found li span:first-child").all_inner_texts() == ["w"]
    tab.page.fill("#search", "bias")
    tab.page.keyboard.press("Enter")
    assert tab.heading == "bias"
    assert tab.fields["values"] == "0.5, 0.5, 0.5, 0.5"
