"""The page, in a real browser; messages on its console and requests fail any of these tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.picture.browser import Tab
from support.picture.graphs import HOSTILE, apart, chain, fused, hostile, lopsided, ramp, residual, wide

import dmlgraph as dg
from dmlgraph.picture import html, render

Opened = Callable[..., Tab]


def test_a_node_is_found_and_clicked_and_its_fields_show(opened: Opened) -> None:
    tab = opened(render(ramp(), "html"))
    tab.find("clipped")
    assert tab.heading == "clipped"
    tab.page.keyboard.press("Escape")
    assert tab.heading == ""
    tab.click()  # it was moved to the middle
    assert tab.heading == "clipped"
    assert tab.fields["operator"] == "DML_OPERATOR_ELEMENT_WISE_CLIP"
    assert (tab.fields["min"], tab.fields["max"]) == ("0.0", "4.0")
    assert tab.fields["input"] == "float32 [2,3], 24 bytes ← more"


def test_an_edge_is_clicked_and_its_tensor_shows(opened: Opened) -> None:
    tab = opened(render(ramp(), "html"))
    tab.find("clipped")
    scale = tab.page.evaluate("views[0].scale")
    way = tab.page.evaluate("views[0].scene.boxes[6].y - views[0].scene.edges[5].bottom")
    tab.click(down=(-way - 6) * scale)
    assert tab.heading == "float32 [2,3]"
    assert (tab.fields["from"], tab.fields["to"], tab.fields["strides"]) == ("more", "clipped.input", "packed")


def test_pointing_at_a_node_tells_about_it(opened: Opened) -> None:
    tab = opened(render(ramp(), "html"))
    tab.find("seven")
    tab.page.keyboard.press("Escape")
    box = tab.page.locator("canvas").bounding_box()
    tab.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert "value: 7.0" in tab.page.locator("#tip").inner_text()
    tab.page.mouse.move(box["x"] + 3, box["y"] + 3)
    assert tab.page.locator("#tip").is_hidden()


def test_searching_lists_what_matches_all_words(opened: Opened) -> None:
    tab = opened(render(ramp(), "html"))
    names = tab.page.locator("#found li span:first-child")
    tab.page.fill("#search", "add")
    assert names.all_inner_texts() == ["shifted", "more"]
    tab.page.fill("#search", "add MORE")
    assert names.all_inner_texts() == ["more"]
    tab.page.fill("#search", "nothing like it")
    assert tab.page.locator("#found").inner_text() == "nothing of that name"
    tab.page.fill("#search", "add")
    tab.page.keyboard.press("ArrowDown")
    tab.page.keyboard.press("Enter")
    assert tab.heading == "more"


def test_the_keyboard_walks_along_edges(opened: Opened) -> None:
    tab = opened(render(ramp(), "html"))
    tab.find("clipped")
    seen = []
    for key in ("ArrowUp", "ArrowUp", "ArrowDown", "ArrowDown", "ArrowDown"):
        tab.page.keyboard.press(key)
        seen.append(tab.heading)
    assert seen[0] == "more"
    assert seen[1] in ("shifted", "seven")
    assert seen[2:] == ["more", "clipped", "y"]


def test_zooming_and_moving(opened: Opened) -> None:
    tab = opened(render(ramp(), "html"))
    state = "[views[0].scale, views[0].x, views[0].y]"
    start = tab.page.evaluate(state)
    tab.page.locator("canvas").hover()
    tab.page.mouse.wheel(0, 120)
    scrolled = tab.page.evaluate(state)
    assert scrolled[:2] == start[:2]
    assert scrolled[2] == pytest.approx(start[2] + 120 / start[0])
    tab.page.keyboard.press("+")
    assert tab.page.evaluate(state)[0] == pytest.approx(start[0] * 1.3)
    tab.page.mouse.down()
    tab.page.mouse.move(300, 500, steps=3)
    tab.page.mouse.up()
    assert tab.heading == ""  # a drag is not a click
    tab.page.keyboard.press("0")
    corner = "views[0].x + views[0].width / views[0].scale, views[0].y + views[0].height / views[0].scale"
    right, bottom = tab.page.evaluate(f"[{corner}]")
    left, top = tab.page.evaluate("[views[0].x, views[0].y]")
    assert left <= 0
    assert top <= 0
    assert right >= tab.page.evaluate("views[0].scene.width")
    assert bottom >= tab.page.evaluate("views[0].scene.height")


def test_a_fused_node_opens_to_the_nodes_it_came_from(opened: Opened) -> None:
    tab = opened(html.render(fused()[1:]))
    tab.find("both")
    closed = tab.look()
    tab.click()  # opens the node that it selects
    group = tab.page.locator("#group")
    assert tab.heading == "both"
    assert group.get_attribute("aria-expanded") == "true"
    assert tab.look() != closed
    tab.page.get_by_role("button", name="scaled").click()
    assert tab.heading == "scaled"
    assert tab.fields["operator"] == "DML_OPERATOR_ELEMENT_WISE_MULTIPLY"
    tab.page.keyboard.press("Escape")
    tab.click()  # it was moved to the middle, inside the group, which is closed now
    assert tab.heading != "scaled"
    tab.find("both")
    tab.page.keyboard.press("Enter")
    assert group.get_attribute("aria-expanded") == "true"
    tab.page.keyboard.press("Enter")
    assert group.get_attribute("aria-expanded") == "false"


def test_a_node_inside_an_opened_group_is_clicked(opened: Opened) -> None:
    tab = opened(html.render(fused()[1:]))
    tab.find("both")
    tab.page.keyboard.press("Enter")
    tab.page.get_by_role("button", name="shifted").click()
    tab.page.get_by_role("button", name="scaled").click()  # in the middle now
    tab.find("both")
    tab.page.get_by_role("button", name="scaled").click()
    tab.page.evaluate("select(views[0], {})")
    tab.click()
    assert tab.heading == "scaled"


def test_before_and_after_point_at_each_other(opened: Opened) -> None:
    tab = opened(html.render(fused()))
    assert tab.page.locator("h2").all_inner_texts() == ["before", "after"]
    tab.find("both")
    marked = "views[0].scene.boxes.filter((box) => views[0].marked.has(box)).map((box) => box.name)"
    assert tab.page.evaluate(marked) == ["scaled", "shifted"]
    tab.find("seven")
    assert tab.page.evaluate(marked.replace("views[0]", "views[1]")) == []


def test_hostile_names_are_shown_as_they_are(opened: Opened) -> None:
    tab = opened(render(hostile(), "html"))
    tab.find("relu")
    assert tab.heading == f"relu {HOSTILE}"
    tab.page.keyboard.press("ArrowDown")
    assert tab.heading == f"out {HOSTILE}"


def test_dark_and_light_differ(opened: Opened) -> None:
    text = render(ramp(), "html")
    light, dark = (opened(text, color_scheme=scheme) for scheme in ("light", "dark"))
    ground = "getComputedStyle(document.body).backgroundColor"
    assert [tab.page.evaluate(ground) for tab in (light, dark)] == ["rgb(255, 255, 255)", "rgb(21, 25, 30)"]
    before = light.look()
    light.page.emulate_media(color_scheme="dark")
    assert light.look() != before


def test_a_reference_leads_to_its_source(opened: Opened) -> None:
    tab = opened(render(chain(60), "html"))
    tab.find("n59")
    tab.page.keyboard.press("ArrowUp")
    assert tab.heading in ("n58", "x")
    tab.page.evaluate("select(views[0], {box: views[0].scene.boxes.find((box) => box.kind === 'reference')})")
    assert tab.heading == "x"
    assert tab.page.locator("#panel .kind").inner_text() == "input"


def test_two_thousand_nodes_open_and_move_without_lag(opened: Opened) -> None:
    text = render(chain(2000), "html")
    tab = opened(text)
    frame = """async () => { const begin = performance.now(), view = views[0];
        for (let i = 0; i < 10; i++) { view.x += 3; view.paint(); (await createImageBitmap(view.canvas)).close(); }
        return (performance.now() - begin) / 10; }"""
    assert tab.page.evaluate(frame) < 250  # a few ms on an idle machine
    tab.page.keyboard.press("0")
    assert tab.page.evaluate(frame) < 250
    tab.find("n1234")
    tab.click()
    assert tab.heading == "n1234"


# A large graph opens where there are boxes.


def in_sight(tab: Tab) -> int:
    """How many boxes of the first view's scene are in the window and large enough to read."""
    inside = """(() => { const view = views[0], right = view.x + view.width / view.scale,
        bottom = view.y + view.height / view.scale;
        return view.scene.boxes.filter((box) => view.scale >= READABLE && box.x - box.w / 2 >= view.x
            && box.x + box.w / 2 <= right && box.y - box.h / 2 >= view.y && box.y + box.h / 2 <= bottom).length; })()"""
    return int(tab.page.evaluate(inside))


@pytest.mark.parametrize(
    "make", [lambda: chain(600), lambda: residual(25), lambda: residual(60), wide, lopsided, apart]
)
def test_a_large_graph_opens_where_boxes_are(opened: Opened, make: Callable[[], dg.Graph]) -> None:
    assert in_sight(opened(render(make(), "html"))) > 0


def test_the_tooltip_goes_when_what_it_tells_of_is_clicked(opened: Opened) -> None:
    tab = opened(render(ramp(), "html"))
    tab.find("clipped")
    tab.page.keyboard.press("Escape")
    box = tab.page.locator("canvas").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    tab.page.mouse.move(x, y)
    assert tab.page.locator("#tip").is_visible()
    tab.page.mouse.click(x, y)
    assert tab.heading == "clipped"
    assert tab.page.locator("#tip").is_hidden()
    tab.page.mouse.move(x + 2, y)  # the panel already shows everything
    assert tab.page.locator("#tip").is_hidden()


def test_the_tooltip_never_covers_the_panel(opened: Opened) -> None:
    tab = opened(render(ramp(), "html"))
    tab.find("clipped")
    tab.page.keyboard.press("Escape")
    canvas, panel = (tab.page.locator(each).bounding_box() for each in ("canvas", "#panel"))
    tab.page.evaluate(f"views[0].move({canvas['width'] / 2 - 20}, 0); views[0].paint()")
    tab.page.mouse.move(canvas["x"] + canvas["width"] - 20, canvas["y"] + canvas["height"] / 2)
    tip = tab.page.locator("#tip").bounding_box()
    assert tip["x"] + tip["width"] <= panel["x"]


def test_before_and_after_say_what_was_fused(opened: Opened) -> None:
    g = dg.Graph("g")
    x = g.input("x", sizes=[2, 3], dtype="float32")
    product = dg.gemm(x, g.input("w", sizes=[3, 4], dtype="float32"), name="product")
    g.output("y", dg.activation_relu(product, name="bounded"))
    tab = opened(render(g, "html", view="both"))
    panel = tab.page.locator("#panel").inner_text()
    assert "2 nodes became 1 node" in panel
    (note,) = tab.page.locator("#notes li").all_inner_texts()
    assert note.startswith("fuse_activation: bounded, product → bounded: ")
