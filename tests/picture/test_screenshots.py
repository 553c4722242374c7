"""The pictures of the documentation in a real browser: where its fonts put texts, and which colours it paints."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from support.picture.browser import pixels

from dmlgraph.picture.shapes import LOOKS

PICTURES = sorted((pathlib.Path(__file__).parents[2] / "docs" / "pictures").glob("*.svg"))

# Which labels lie on edges, boxes and other labels; and each box: its class, its rectangle, texts that do not fit in.
MEASURE = """() => {
    const rect = (of) => of.getBoundingClientRect().toJSON();
    const meets = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
    const fits = (a, b) => a.left >= b.left && a.right <= b.right && a.top >= b.top - 1 && a.bottom <= b.bottom + 1;
    const texts = (of, kind) =>
        [...of.querySelectorAll(kind)].map((each) => ({ text: each.textContent, at: rect(each) }));
    const boxes = [...document.querySelectorAll("g.box")].filter((box) => box.querySelector("title"))
        .map((box) => ({ box, look: box.classList[1], at: rect(box.querySelector("path")) }));
    const wires = [...document.querySelectorAll(".wire")].map((wire) => ({ wire, at: rect(wire) }));
    const crosses = (wire, { left, right, top, bottom }) => {
        const back = wire.getScreenCTM().inverse();
        for (let x = left; x <= right; x += 2) for (const y of [top + 3, (top + bottom) / 2, bottom - 3])
            if (wire.isPointInStroke(new DOMPoint(x, y).matrixTransform(back))) return true;
        return false;
    };
    const near = ({ left, right, top, bottom }) => ({ left: left - 1, right: right + 1, top, bottom });
    const labels = texts(document, ".label"), those = (is) => labels.filter(is).map(({ text }) => text);
    return {
        labels: labels.length,
        lying: {
            edges: those(({ at }) => wires.some((each) => meets(near(each.at), at) && crosses(each.wire, at))),
            boxes: those(({ at }) => boxes.some((box) => meets(box.at, at))),
            labels: those((label) => labels.some((other) => other !== label && meets(other.at, label.at))),
        },
        boxes: boxes.map(({ box, look, at }) =>
            ({ look, at, wide: texts(box, "text").filter((each) => !fits(each.at, at)).map(({ text }) => text) })),
    }; }"""


@pytest.fixture(scope="module")
def shown(chromium: Any) -> Any:
    """The measures of a picture and a screenshot of all of it."""

    def show(path: pathlib.Path, scheme: str) -> tuple[dict[str, Any], bytes]:
        page = chromium.new_page(viewport={"width": 1280, "height": 800}, color_scheme=scheme)
        page.set_content(f'<body style="margin:0">{path.read_text(encoding="utf-8")}')
        width, height = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
        page.set_viewport_size({"width": width, "height": height})
        found = page.evaluate(MEASURE), page.screenshot()
        page.close()
        return found

    return show


def test_there_are_the_pictures_of_the_page() -> None:
    assert {path.stem for path in PICTURES} == {"small", "fifty", "five_hundred", "repeated", "values", "fusion"}
    assert all(path.stat().st_size < 60_000 for path in PICTURES)


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_texts_have_room_with_the_fonts_of_the_browser(shown: Any, path: pathlib.Path) -> None:
    measured, _ = shown(path, "light")
    assert measured["labels"] > 2
    assert measured["lying"] == {"edges": [], "boxes": [], "labels": []}
    assert [text for box in measured["boxes"] for text in box["wide"]] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["five_hundred", "values"])
def test_boxes_have_their_colours(shown: Any, name: str, scheme: str) -> None:
    """Looked at above the lower side of each operator, below its texts."""
    path = next(path for path in PICTURES if path.stem == name)
    measured, screenshot = shown(path, scheme)
    which, looked, painted = ("light", "dark").index(scheme), set(), pixels(screenshot)
    wanted = ("products", "activations", "normalization", "arithmetic", *(f"shade-{index}" for index in range(6)))
    for look, at in ((box["look"], box["at"]) for box in measured["boxes"] if box["look"] in wanted):
        fill = LOOKS[look][which][0]
        colour = painted[round(at["bottom"]) - 4, round(at["left"] + at["right"]) // 2]
        assert tuple(colour) == tuple(int(fill[each : each + 2], 16) for each in (1, 3, 5)), (look, at)
        looked.add(look)
    assert len(looked) >= 3
