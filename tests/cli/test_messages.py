"""How problems are shown: the location first, the line, the wrong part underlined, advice; colours if wanted."""

from __future__ import annotations

import pathlib
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.terminal import run_on_terminal

from dmlgraph.base.errors import Location, Problem
from dmlgraph.cli.messages import WIDTH, count, excerpt, lines, tell

PLACE = Location("g.yaml", 8, 5, 9, "abc: name")
WHOLE = Problem(
    "is wrong", code="range", node="n", field="f", got="name", allowed="this", hint="do that", location=PLACE
)


def shown(source: str, column: int, end: int | None = None) -> tuple[str, str]:
    return excerpt(Location("f", 1, column, end, source))


def test_a_problem_is_told_as_a_compiler_does() -> None:
    assert list(lines(WHOLE)) == [
        "g.yaml:8:5: error[range]: node 'n', field 'f': is wrong; got name",
        "  8 | abc: name",
        "    |     ^^^^",
        "    = allowed: this",
        "    = help: do that",
    ]


def test_a_warning_says_so() -> None:
    warning = Problem("is odd", code="unused-node", location=PLACE)
    assert next(lines(warning)) == "g.yaml:8:5: warning[unused-node]: is odd"


def test_a_problem_without_a_place_is_one_line() -> None:
    assert list(lines(Problem("is wrong", code="range", allowed="this", hint="do that"))) == [
        "error[range]: is wrong; allowed: this (do that)"
    ]


def test_a_problem_without_a_source_line_is_told_without_it() -> None:
    assert list(lines(Problem("is missing", code="range", hint="write it", location=Location("g.yaml", 1, 1)))) == [
        "g.yaml:1:1: error[range]: is missing",
        "    = help: write it",
    ]


def test_the_line_and_the_advice_of_the_problem_before_are_not_repeated() -> None:
    again = Problem("is wrong too", code="range", allowed="this", hint="do more", location=PLACE)
    assert list(lines(again, WHOLE)) == ["g.yaml:8:5: error[range]: is wrong too", "    = help: do more"]


def test_problems_are_counted() -> None:
    error, warning = Problem("a", code="range"), Problem("b", code="unused-dim")
    assert count([error]) == "1 error"
    assert count([error, warning, error]) == "2 errors, 1 warning"
    assert count([warning, warning]) == "2 warnings"


@pytest.mark.parametrize(
    ("source", "column", "end", "text", "mark"),
    [
        ("abc def", 5, 8, "abc def", "    ^^^"),
        ("abc", 2, None, "abc", " ^"),
        ("abc", 4, None, "abc", "   ^"),  # after the end
        ("\tabc", 2, 5, "    abc", "    ^^^"),
        ("a\tb", 2, 3, "a    b", " ^^^^"),
        ("日本 x", 4, 5, "日本 x", "     ^"),
        ("日本 x", 2, 3, "日本 x", "  ^^"),
        ("e\u0301 x", 4, 5, "e\u0301 x", "  ^"),
        ("a\x1b[31m", 3, 4, "a\ufffd[31m", "  ^"),
        ("", 1, None, "", "^"),
    ],
)
def test_the_underline_stands_below_its_part(source: str, column: int, end: int | None, text: str, mark: str) -> None:
    assert shown(source, column, end) == (text, mark)


@pytest.mark.parametrize("column", [1, 40, 60, 150, 290, 300])
def test_a_long_line_is_cut_around_its_part(column: int) -> None:
    source = "".join(chr(ord("a") + index % 26) for index in range(300))
    text, mark = shown(source, column, column + 1)
    assert len(text) <= WIDTH + 2
    assert text[len(mark) - 1] == source[column - 1]
    assert text.startswith("…") == (column > WIDTH // 2 + 1)
    assert text.endswith("…") == (column < 250)


@given(st.text(max_size=400), st.integers(1, 450), st.integers(0, 60))
def test_any_line_has_an_excerpt_that_fits(source: str, column: int, width: int) -> None:
    text, mark = shown(source, column, column + width)
    assert (text + mark).isprintable()
    assert len(text) <= 2 * WIDTH  # combining characters take no column
    assert 1 <= mark.count("^") <= 4 * (WIDTH + 2)
    assert len(mark) <= WIDTH + 6


def test_a_line_of_megabytes_is_cut_at_once() -> None:
    text, mark = shown("x, " * 2_000_000 + "y", 6_000_001)
    assert text.endswith("x, y")
    assert text[len(mark) - 1] == "y"


def test_no_character_reaches_the_terminal_that_could_command_it() -> None:
    problem = Problem("is wrong\x1b[2J", code="range", got="\x07\u202e", location=PLACE)
    assert all(line.isprintable() for line in lines(problem))
    assert r"\x1b[2J; got \x07\u202e" in next(lines(problem))


# With and without a terminal.


def check(folder: pathlib.Path, **environment: str) -> str:
    """What `dmlgraph check` prints about a broken file on a terminal."""
    (folder / "g.yaml").write_text("dmlgraph: 1\noutputs: [y]\n", encoding="utf-8")
    code, shown = run_on_terminal(["check", "g.yaml"], folder, environment)
    assert code == 1
    return shown


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
@pytest.mark.parametrize(
    ("environment", "coloured"),
    [({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_colours_are_for_terminals_that_want_them(
    environment: dict[str, str], coloured: bool, tmp_path: pathlib.Path
) -> None:
    text = check(tmp_path, **environment)
    assert ("\x1b[" in text) == coloured
    assert "g.yaml:2:11:" in text
    assert text.endswith("1 error\n")


@pytest.mark.parametrize(("count", "shown"), [(3, 3), (4, 1), (12, 1)])
def test_many_warnings_of_a_kind_are_one_with_their_number(
    count: int, shown: int, capsys: pytest.CaptureFixture[str]
) -> None:
    unused = [Problem("the constant is never read", node=f"k{index}", code="unused-constant") for index in range(count)]
    other = Problem("no output depends on it", node="n", code="unused-node")
    wrong = [Problem("is not known here", node=f"k{index}", code="unknown-field") for index in range(5)]
    tell([*unused, other, *wrong])
    told = capsys.readouterr().err.splitlines()
    assert sum("the constant is never read" in line for line in told) == shown
    assert sum("no output depends on it" in line for line in told) == 1
    assert sum("is not known here" in line for line in told) == 5  # errors are not gathered
    more = {
        4: "    = and 3 more like it: k1, k2, k3",
        12: "    = and 11 more like it: k1, k2, k3, k4, k5, k6, k7, k8 and 3 more",
    }
    assert [line for line in told if "more like it" in line] == ([more[count]] if count > 3 else [])
