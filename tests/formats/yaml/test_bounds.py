"""The cost of reading a damaged document: bounded by its length, whatever is wrong with it."""

from __future__ import annotations

import difflib
import itertools
import pathlib
from typing import Any

import pytest

import dmlgraph as dg
from dmlgraph.base import errors
from dmlgraph.base.errors import (
    LONGEST_COMPARED,
    MOST_COMPARED,
    MOST_HINTS,
    nearest,
    shorten,
)
from dmlgraph.base.free_names import FreeNames
from dmlgraph.base.report import MOST_PROBLEMS, DocumentReport
from dmlgraph.cli.messages import lines
from dmlgraph.formats import dxdispatch
from dmlgraph.formats.text_tree.tree import parse

HEAD = "dmlgraph: 1\noutputs: [y]\n"
MANY = 20_000


def problems(text: str, loads: Any = dg.loads) -> tuple[errors.Problem, ...]:
    with pytest.raises(dg.DocumentError) as caught:
        loads(text)
    return caught.value.problems


def model_of(resource: str) -> str:
    return f'{{"resources": {{"r": {resource}}}, "dispatchables": {{}}, "commands": []}}'


class Effort:
    """Counts the cost of searching for a name: the names that are compared letter by letter, and their letters."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names = self.letters = 0
        get_close_matches = difflib.get_close_matches

        def counting(word: str, possibilities: list[str], *args: Any, **kwargs: Any) -> list[str]:
            self.names += len(possibilities)
            self.letters += sum(len(word) * len(each) for each in possibilities)
            return get_close_matches(word, possibilities, *args, **kwargs)

        monkeypatch.setattr(difflib, "get_close_matches", counting)


@pytest.fixture
def effort(monkeypatch: pytest.MonkeyPatch) -> Effort:
    return Effort(monkeypatch)


@pytest.mark.parametrize(("wrong", "right", "length"), [(2000, 2000, 5), (100, 1000, 800), (1000, 100, 60)])
def test_wrong_names_among_right_ones(effort: Effort, wrong: int, right: int, length: int) -> None:
    x = "inputs: {x: {dtype: float32, sizes: [1]}}\n"
    filling = "ab" * (length // 2)
    nodes = [f"  n{filling}{index}: {{op: negate, input: x}}" for index in range(right)]
    nodes += [f"  m{filling}{index}: {{op: negate, input: m{filling}{index}x}}" for index in range(wrong)]
    found = problems(f"{HEAD.replace('[y]', f'[n{filling}0]')}{x}nodes:\n" + "\n".join(nodes) + "\n")
    assert sum(each.code == "unknown-node" for each in found) == wrong
    assert effort.names <= MOST_HINTS * MOST_COMPARED
    assert effort.letters <= MOST_HINTS * MOST_COMPARED * 2 * LONGEST_COMPARED**2


def test_hints_end_with_their_number() -> None:
    nodes = "".join(f"  n{index}: {{op: negatee}}\n" for index in range(1000))
    found = problems(f"{HEAD}nodes:\n{nodes}")
    hinted = [each for each in found if each.hint == "did you mean 'negate'?"]
    assert 0 < len(hinted) <= MOST_HINTS
    assert nearest("negatee", ["negate"]) == "negate"  # of another document, or in Python


@pytest.mark.parametrize("count", [10, MOST_COMPARED + 1])
@pytest.mark.parametrize("wrong", ["weigth", "wieght", "wight", "weighht", "weignt", "Weight", "WEIGHT"])
def test_slips_are_known_among_few_and_many_names(count: int, wrong: str) -> None:
    assert nearest(wrong, {f"another_{index}" for index in range(count)} | {"weight"}) == "weight"
    assert nearest(wrong, (f"another_{index}" for index in range(count))) is None


# Each makes an unlimited number of problems; only a useful number is reported.
ENDLESS = {
    "keys": "\n".join(f"k{index}: 1" for index in range(MANY)),
    "keys that are no text": "{" + "[1]: 1, " * MANY + "}",
    "doubled keys": "a: 1\n" * MANY,
    "nodes": HEAD + "nodes:\n" + "\n".join(f" k{index}:" for index in range(MANY)),
    "operators": HEAD + "nodes:\n" + "\n".join(f" k{index}: {{op: z}}" for index in range(MANY)),
    "fields": HEAD + "nodes: {a: {op: add, " + ", ".join(f"k{index}: 1" for index in range(MANY)) + "}}",
    "numbers": HEAD + "constants: {y: {dtype: int8, sizes: [2], data: [" + "a, " * MANY + "]}}",
    "dims": HEAD + "dims: {" + ", ".join(f"k{index}: 0" for index in range(MANY)) + "}",
    "outputs": "dmlgraph: 1\noutputs: [" + "y, " * MANY + "]",
    "tags": "[" + "!a 1, " * MANY + "]",
    "aliases": "[" + "*a , " * MANY + "]",
}


@pytest.mark.parametrize("text", ENDLESS.values(), ids=ENDLESS)
def test_problems_are_told_up_to_a_number(text: str) -> None:
    found = problems(text)
    assert len(found) == MOST_PROBLEMS + 1
    assert found[-1].code == "too-many"
    assert all(each.location is not None for each in found)
    places = [(each.location.line, each.location.column) for each in found if each.location]
    assert places == sorted(places)


def test_problems_of_a_model_are_told_up_to_a_number() -> None:
    values = ", ".join(["null"] * MANY)
    resource = f'{{"initialValuesDataType": "FLOAT32", "initialValues": [{values}]}}'
    found = problems(model_of(resource), dxdispatch.loads)
    assert len(found) == MOST_PROBLEMS + 1


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "nodes: {" + "a" * 10**6 + ": {op: " + "b" * 10**6 + "}}",
        HEAD + "inputs: {x: {dtype: [" + "a, " * 10**5 + "], sizes: {" + "b" * 10**6 + ": 1}}}",
        HEAD + "nodes: {y: {op: negate, input: " + ".a" * 10**5 + "}}",
        HEAD + "nodes: {y: {op: negate, axis" + ".a" * 10**5 + ": 1}}",
        HEAD.replace("y", "é" * 10**5),
    ],
)
def test_messages_are_short_however_long_what_is_wrong(text: str) -> None:
    for problem in problems(text):
        assert len(str(problem)) < 4000
        assert all(len(line) < 4000 for line in lines(problem))


def test_values_are_shortened_as_python_writes_them() -> None:
    value: Any
    for value in ("text", [1, "a", None], (1,), (), {}, {"a": [1.5, {}]}, [[], ()], 10**400, b"x", 1.5):
        assert shorten(value, 10**6) == (value if isinstance(value, str) else repr(value))
        assert len(shorten(value, 3)) <= 3
    assert shorten(list(range(10**6))).startswith("[0, 1, 2, 3")
    assert len(shorten([["a" * 10**6] * 10**6] * 10**6)) == 120


def test_aliases_unfold_to_no_more_than_the_text_has_characters_and_some() -> None:
    text = "a: &a [" + "1, " * 1000 + "]\nb: [" + "*a , " * 1000 + "]"
    report = DocumentReport()
    assert parse(text, "f", report) is None
    assert report.problems[0].code == "syntax"


def test_what_follows_the_second_document_is_not_read() -> None:
    found = problems(HEAD + "inputs: {y: {dtype: int8, sizes: [1]}}\n" + "---\n" * MANY)
    assert [(each.code, each.location) for each in found] == [("syntax", dg.Location("<text>", 4, 1))]


def test_a_long_cycle_is_told_shortly() -> None:
    nodes = "".join(f"  n{index}: {{op: negate, input: n{(index + 1) % MANY}}}\n" for index in range(MANY))
    (found,) = problems(f"{HEAD.replace('y', 'n0')}nodes:\n{nodes}")
    assert found.code == "cycle"
    assert str(found.got).startswith("n0 -> n19999 -> n19998 -> ")
    assert str(found.got).endswith("-> … -> n0")


def test_a_chain_of_dispatches_takes_a_name_each(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []
    count = itertools.count

    def counting(start: int) -> Any:
        for index in count(start):
            looked_at.append(index)
            yield index

    monkeypatch.setattr("dmlgraph.base.free_names.itertools.count", counting)
    names = FreeNames()
    assert [names.take("a") for _ in range(1000)] == ["a", *(f"a_{index}" for index in range(1, 1000))]
    assert len(looked_at) == 1000
    assert names.take("b", ("", ".x")) == "b"
    assert names.take("b.x") == "b.x_1"


# The system's errors about a name are reported as for any other file.


@pytest.mark.parametrize("name", ["a" * 300, "a/" * 3000 + "b", "loop/x.npy", "loop", "loop.npy"])
def test_a_file_that_cannot_be_looked_for(tmp_path: pathlib.Path, name: str) -> None:
    for link in ("loop", "loop.npy"):
        (tmp_path / link).symlink_to(tmp_path / link)
    text = f"dmlgraph: 1\nconstants: {{c: {{file: {name}}}}}\noutputs: [c]\n"
    with pytest.raises(dg.DocumentError) as caught:
        dg.loads(text, folder=tmp_path)
    (problem,) = caught.value.problems
    assert (problem.node, problem.field) == ("c", "file")
    assert problem.message.startswith(("cannot be found: ", "there is no such file"))
    assert str(problem.location) == "<text>:2:23"
    model = model_of(f'{{"initialValues": {{"sourcePath": "{name}"}}}}')
    with pytest.raises(dg.DocumentError) as caught:
        dxdispatch.loads(model, folder=tmp_path)
    assert caught.value.problems[0].field == "initialValues.sourcePath"
