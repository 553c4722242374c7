"""The page of a matrix of results, in a real browser; messages on its console and requests fail any of these tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.picture.browser import Tab

from dmlgraph.testing.matrix import render
from dmlgraph.testing.records import Outcome, Place, Record, Result

Opened = Callable[..., Tab]
CPU, GPU = Place("cpu", "lab-1", "a processor"), Place("directml:0", "lab-2", "an adapter")
EVIL = "</script><img src=x onerror=alert(1)>"
RECORDS = [
    Record("a.yaml", "ones", CPU, Result(Outcome.PASSED, seconds=0.25)),
    Record("a.yaml", "ones", GPU, Result(Outcome.FAILED, f"a.yaml:3:4: differs\n  {EVIL}", 0.5)),
    Record("a.yaml", "ramp", CPU, Result(Outcome.PASSED, seconds=0.125)),
    Record("a.yaml", "ramp", GPU, Result(Outcome.CRASHED, "its process was ended by SIGSEGV"), attempts=1),
    Record("b.yaml", "ones", GPU, Result(Outcome.LOST, "the worker died"), "N=8", 3, "it is slow"),
    Record(f"{EVIL}.yaml", "", None, Result(Outcome.BROKEN, "is not a graph")),
]


def rows(tab: Tab) -> list[list[str]]:
    """The texts of the table's body, without signs."""
    found = tab.page.locator("tbody tr").evaluate_all("rows => rows.map(r => [...r.cells].map(c => c.innerText))")
    return [[" ".join(word for word in cell.split() if word.isascii()) for cell in row] for row in found]


def test_each_cell_shows_the_worst_result_and_each_test_its_own(opened: Opened) -> None:
    tab = opened(render(RECORDS))
    assert tab.page.title() == "Tests of 3 graphs on 2 devices"
    heads = tab.page.locator("thead th").all_inner_texts()
    assert [head.split() for head in heads[1:]] == [
        ["cpu", "lab-1", "a", "processor"],
        ["directml:0", "lab-2", "an", "adapter"],
    ]
    assert rows(tab) == [
        ["a.yaml", "2 passed", "! 1 of 2 crashed"],
        ["b.yaml with N=8", "", "~ allowed to fail"],
        [f"{EVIL}.yaml", "broken"],
    ]
    tab.page.get_by_role("button", name="a.yaml", exact=True).click()
    assert rows(tab)[:3] == [
        ["a.yaml", "2 passed", "! 1 of 2 crashed"],
        ["ones", "250 ms", "failed"],
        ["ramp", "125 ms", "! crashed"],
    ]
    tab.page.get_by_role("button", name="Show tests").click()
    assert len(rows(tab)) == 7


def test_a_cell_shows_its_messages(opened: Opened) -> None:
    tab = opened(render(RECORDS))
    assert tab.page.locator("#panel").is_hidden()
    tab.page.get_by_role("button", name="a.yaml on directml:0, lab-2: 1 of 2 crashed").click()
    text = tab.page.locator("#panel").inner_text()
    for each in ("directml:0 on lab-2", "an adapter", "differs", EVIL, "its process was ended by SIGSEGV", "500 ms"):
        assert each in text
    tab.page.get_by_role("button", name="b.yaml with N=8 on directml:0, lab-2: allowed to fail").click()
    text = tab.page.locator("#panel").inner_text()
    assert "begun 3 times" in text
    assert "allowed to fail: it is slow" in text
    tab.page.keyboard.press("Escape")
    assert tab.page.locator("#panel").is_hidden()


def test_filters_leave_what_fits(opened: Opened) -> None:
    tab = opened(render(RECORDS))
    tab.page.keyboard.press("/")
    tab.page.keyboard.type("a.yaml ramp")
    assert rows(tab) == [["a.yaml", "125 ms", "! crashed"]]
    tab.page.fill("#search", "")
    tab.page.select_option("#device", "cpu")
    assert rows(tab) == [["a.yaml", "2 passed"], [f"{EVIL}.yaml", "broken"]]
    tab.page.select_option("#device", "")
    tab.page.select_option("#machine", "lab-2")
    tab.page.get_by_role("button", name="1 crashed", exact=False).first.click()
    assert rows(tab)[0] == ["a.yaml", "failed"]
    assert "3 of 3 graphs" in tab.page.locator("#shown").inner_text()


def test_arrows_move_between_cells(opened: Opened) -> None:
    tab = opened(render(RECORDS))
    tab.page.locator("tbody th button").first.focus()
    named = "document.activeElement.ariaLabel"
    tab.page.keyboard.press("ArrowRight")
    assert tab.page.evaluate(named) == "a.yaml on cpu, lab-1: 2 passed"
    tab.page.keyboard.press("ArrowRight")
    tab.page.keyboard.press("ArrowDown")
    assert tab.page.evaluate(named).startswith("b.yaml with N=8")
    tab.page.keyboard.press("ArrowLeft")  # over an empty cell
    assert tab.page.evaluate("document.activeElement.innerText").startswith("b.yaml")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_is_readable(opened: Opened, scheme: str) -> None:
    """Contrast of at least 4.5, as the guidelines for accessible content ask for."""
    outcomes = [Record(f"{each}.yaml", "t", CPU, Result(each)) for each in Outcome]
    tab = opened(render([*RECORDS, *outcomes]), color_scheme=scheme)
    contrast = """buttons => buttons.map(button => {
        const style = getComputedStyle(button);
        const light = (text) => {
            const parts = text.match(/[\\d.]+/g).slice(0, 3).map(x => x / 255);
            const [r, g, b] = parts.map(x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const [a, b] = [light(style.color), light(style.backgroundColor)].sort((x, y) => y - x);
        return (a + 0.05) / (b + 0.05);
    })"""
    found = tab.page.locator("td button, #words button").evaluate_all(contrast)
    assert len(found) > 15
    assert min(found) >= 4.5


def test_no_results_are_a_page_too(opened: Opened) -> None:
    tab = opened(render([]))
    assert tab.page.title() == "Tests of 0 graphs on 0 devices"
    assert rows(tab) == []
