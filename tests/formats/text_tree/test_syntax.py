"""Text that is not YAML: the error is at the mistake and says what to do."""

from __future__ import annotations

import pytest

import dmlgraph as dg


def problem_at_mark(text: str) -> dg.Problem:
    """The only problem of a text, which must be at the place marked with a caret."""
    before, mark, after = text.partition("^")
    assert mark
    with pytest.raises(dg.DocumentError) as caught:
        dg.loads(before + after)
    (problem,) = caught.value.problems
    lines = before.split("\n")
    assert problem.location == dg.Location("<text>", len(lines), len(lines[-1]) + 1)
    return problem


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("a:\n^\tb: 1\n", "a tab in the indentation", "spaces"),
        ("a: 1\n^\tb: 2\n", "a tab in the indentation", "spaces"),
        ("a: ^@x\n", "a value cannot begin with '@'", "quotes"),
        ("a:\n  b: 1\n   ^c: 2\n", "a key is not allowed here", "indent"),
        ("a:\n  b: 1\n ^c: 2\n", "the indentation matches no mapping above", "begun in line 1 is indented by 0"),
        ("a: ^b: c\n", "a key is not allowed here", "quotes"),
        ("a:1\n^b: 2\n", "a key is not allowed here", "line 1 needs a space after its ':'"),
        ("a: 'it'^s'\n", "text continues after its closing quote", "''"),
        ("a: {b: 1\n^c: 2\n", "a ',' or '}' is missing before this", "line 1, column 4"),
        ("a: {b: x ^c: y}\n", "a ',' or '}' is missing before this", "line 1, column 4"),
        ("a: [1, 2^}\n", "a ',' or ']' is missing before this", "line 1, column 4"),
        ("a: ^[1, 2\n", "this '[' is never closed", "']'"),
        ("a: ^{b: 1,\n", "this '{' is never closed", "'}'"),
        ("a: {b: ^{c: 1,\n", "this '{' is never closed", "'}'"),
        ('a: ^"open\n', "this quote is never closed", None),
        ("a: ^]\n", "a value is expected, not ']'", "quotes"),
        ("- a\n^b: 1\n", "an item of the list must begin with '- ' here", "line 1"),
        ("a: ^- 1\n", "a list with '- ' begins on a new line", "[a, b]"),
        ('a: "^\\q"\n', "no such escape in double quotes", "'"),
        ("a: {b^:[1]}\n", "a space is missing after this ':'", None),
        ("? a\n^:b\n", "a ':' is missing after this key", None),
    ],
)
def test_what_is_no_yaml_is_told_where_it_is_with_what_to_do(text: str, message: str, hint: str | None) -> None:
    problem = problem_at_mark(text)
    assert problem.message == f"not YAML: {message}"
    assert (problem.hint is None) == (hint is None)
    assert hint is None or hint in str(problem.hint)


def test_a_mistake_beyond_our_words_is_told_in_libyamls() -> None:
    assert problem_at_mark("a: ^!x!y 1\n").message == "not YAML: found undefined tag handle"


def test_a_key_without_a_space_before_its_value_is_read_as_meant_and_told_once() -> None:
    problem = problem_at_mark("dmlgraph: 1\ninputs: {x: {^dtype:float32, sizes: [2]}}\noutputs: [x]\n")
    assert problem.message == "a space is missing after the ':' of 'dtype:float32'"
    assert problem.hint == "write 'dtype: float32'"


@pytest.mark.parametrize(
    ("text", "line", "source"),
    [
        ("dmlgraph: 1\r\nname: [\r\n", 2, "name: ["),
        ("dmlgraph: 1\rname: [\r", 2, "name: ["),
        ("dmlgraph: 1\n# a\u2028b: 1\nname: [", 4, "name: ["),
    ],
)
def test_lines_are_counted_as_yaml_does(text: str, line: int, source: str) -> None:
    with pytest.raises(dg.DocumentError) as caught:
        dg.loads(text)
    location = caught.value.problems[-1].location
    assert location is not None
    assert (location.line, location.source) == (line, source)


@pytest.mark.parametrize(
    "text", ["\x00", "a: \x07", "ok: 1\nb: \ud800\n", "", "\n\n", "a: [\n\n\n", "\u2028[", "\ufeff{"]
)
def test_any_text_has_a_place_in_itself(text: str) -> None:
    with pytest.raises(dg.DocumentError) as caught:
        dg.loads(text)
    for problem in caught.value.problems:
        assert problem.location is not None
        assert problem.location.line <= max(1, len(text.splitlines()))
