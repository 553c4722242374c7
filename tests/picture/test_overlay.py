"""Overlays: a text and a colour for each node, in every format, and the box of a scope from what is in it."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from support.picture.browser import Tab
from support.picture.colours import VISIONS, contrast, lab, linear
from support.picture.graphs import dense, network

import dmlgraph as dg
from dmlgraph.picture import Mark, Overlay, draw, drawings, render
from dmlgraph.picture.laying import laid_over
from dmlgraph.picture.overlay import ALARM, SHADES
from dmlgraph.picture.scopes import in_scopes
from dmlgraph.picture.shapes import Kind

Opened = Callable[..., Tab]


def overlay(**marks: Mark) -> Overlay:
    def joined(inside: list[Mark]) -> Mark:
        return Mark(f"sum {sum(each.number or 0 for each in inside):g}", sum(each.number or 0 for each in inside))

    return Overlay("cost", marks, (0.0, 6.0), ("none", "much", "wrong"), joined)  # type: ignore[arg-type]


COSTS = overlay(product=Mark("2 coins", 2.0), again=Mark("lost", None, alarm=True))


@pytest.mark.parametrize(
    ("mark", "look"),
    [
        (Mark("", 0.0), "shade-0"),
        (Mark("", 0.99), "shade-0"),
        (Mark("", 3.0), "shade-3"),
        (Mark("", 6.0), "shade-5"),
        (Mark("", 99.0), "shade-5"),
        (Mark("", -1.0), "shade-0"),
        (Mark("", None), "plain"),
        (Mark("", 3.0, alarm=True), "alarm"),
        (None, "plain"),
    ],
)
def test_a_number_has_a_place_on_the_scale(mark: Mark | None, look: str) -> None:
    assert COSTS.look(mark) == look


def test_a_scale_of_one_number() -> None:
    assert Overlay("t", {}, (2.0, 2.0), ("2", "2", ""), lambda marks: marks[0]).look(Mark("", 2.0)) == "shade-0"


def test_boxes_say_what_the_overlay_says() -> None:
    drawing = laid_over(draw(dense()), COSTS)
    boxes = {box.name: box for box in drawing.boxes}
    assert boxes["product"].lines == ("product", "gemm", "2 coins")
    assert boxes["product"].rows[-1] == ("cost", "2 coins")
    assert {name: box.look for name, box in boxes.items()} == {
        "x": "plain", "w": "plain", "bias": "plain", "product": "shade-2", "again": "alarm", "y": "plain",
    }  # fmt: skip


def test_outputs_with_the_name_of_a_node_have_no_mark() -> None:
    g = dg.Graph("g")
    g.output("product", dg.activation_relu(g.input("x", sizes=[2], dtype="float32"), name="product"))
    node, output = laid_over(draw(g), COSTS).boxes[1:]
    assert (node.kind, node.look, output.kind, output.look) == (Kind.OPERATOR, "shade-2", Kind.OUTPUT, "plain")


def test_a_scope_joins_what_is_in_it() -> None:
    marks = {f"layers/{layer}/gemm": Mark("1", 1.0) for layer in range(2)}
    drawing = in_scopes(laid_over(draw(network(2, 1)), overlay(**marks)))
    layers = next(box for box in drawing.boxes if box.kind is Kind.FOLDED)
    assert (layers.lines[-1], layers.look) == ("sum 2", "shade-2")
    inner = [box for box in drawing.groups[1].boxes if box.kind is Kind.FOLDED]
    assert [(box.lines[-1], box.look) for box in inner] == [("sum 1", "shade-1")] * 2


def test_layers_are_drawn_once_whatever_is_laid_over_them() -> None:
    marks = {f"layers/{layer}/gemm": Mark(f"{layer} coins", float(layer)) for layer in range(40)}
    drawing = in_scopes(laid_over(draw(network(40, 10)), overlay(**marks)))
    layers = drawing.boxes[1]
    assert (layers.lines[1], layers.lines[-1]) == ("× 40, each:", f"sum {sum(range(40))}")
    assert [copy.boxes[1].lines[-1] for copy in drawing.copies[1]] == [f"{layer} coins" for layer in range(1, 40)]


def test_fused_layers_are_drawn_once() -> None:
    g = dg.Graph("network")
    value = g.input("x", sizes=[4, 4], dtype="float32")
    for layer in range(80):
        with g.scope(f"layers/{layer}"):
            value = dg.activation_relu(dg.gemm(value, value, name="product"), name="bounded")
            value = dg.cumulative_summation(value, axis=1, name="sums")
    g.output("y", value)
    (drawing,) = drawings(g, "fused")
    layers = in_scopes(drawing)
    assert layers.boxes[1].lines[1] == "× 80, each:"
    assert any(line.startswith("↳") for box in layers.groups[1].boxes for line in box.lines)


def test_svg_and_its_legend_have_the_colours() -> None:
    text = render(dense(), "svg", over=COSTS)
    assert 'class="box shade-2"' in text
    assert f"--shade-2-fill:{SHADES[2][0]};" in text
    for entry in ("cost: none", "cost: much", "wrong"):
        assert f">{entry}</text>" in text


def test_dot_and_mermaid_have_the_colours() -> None:
    dot, mermaid = (render(dense(), format_, over=COSTS) for format_ in ("dot", "mermaid"))
    assert f'fillcolor="{ALARM[0]}"' in dot
    assert f'fontcolor="{ALARM[1]}"' in dot
    assert ":::alarm" in mermaid
    assert f"classDef alarm fill:{ALARM[0]},stroke:#5c1500,color:{ALARM[1]}" in mermaid


def test_everybody_can_order_the_scale_and_read_its_texts() -> None:
    for vision in VISIONS.values():
        lightness = [lab(vision @ linear(fill))[0] for fill, _ in SHADES]
        assert all(one - other > 4 for one, other in itertools.pairwise(lightness))
    assert all(contrast(fill, ink) >= 4.5 for fill, ink in (*SHADES, ALARM))


def test_the_page_paints_the_colours(opened: Opened) -> None:
    """The colour at a corner inside the box, where no text is."""
    tab = opened(render(dense(), "html", over=COSTS))
    tab.page.evaluate("views[0].fit(); views[0].paint()")
    for name, (fill, _) in {"product": SHADES[2], "again": ALARM}.items():
        assert tab.colour_in(name) == tuple(int(fill[at : at + 2], 16) for at in (1, 3, 5))
    assert tab.page.locator("#legend").inner_text().split("\n") == ["cost: none", "cost: much", "wrong"]
    tab.find("product")
    assert tab.fields["cost"] == "2 coins"
