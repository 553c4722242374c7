"""States in tests beside a graph: what they hold before, what is expected after, and how often the graph runs."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from support.problems import expect, raises

import dmlgraph as dg
from dmlgraph.formats.yaml import loads, save
from dmlgraph.formats.yaml.tests import GraphTest, check_tests

HEAD = """\
dmlgraph: 1
dims: {capacity: 6, n: 2}
inputs:
  x: {dtype: float32, sizes: [2, 1]}
states:
  sum: {dtype: float32, sizes: [2, n], next: sum}
  keys: {dtype: float32, sizes: [2, capacity], grows: 1, append: x}
outputs: [keys.length, sum, keys]
"""
X = "inputs: {x: {value: 1}}"


def graph(test: str, **options: object) -> dg.Graph:
    """A graph with one test, `t`, in line 10."""
    return loads(f"{HEAD}tests:\n  t: {{{test}}}\n", **options)  # type: ignore[arg-type]


def of(test: str, **options: object) -> tuple[dg.Graph, GraphTest]:
    g = graph(test, **options)
    return g, g.origin.tests["t"]


def test_everything_that_a_test_says_of_states_is_read() -> None:
    g, test = of(
        f"{X}, states: {{sum: {{value: n}}, keys: {{data: [[1, 2], [3, 4]]}}}}, steps: 3, collect: [sum], "
        "expect: {sum: {value: 2}}, expect_states: {sum: {same_as: cpu}, keys: {value: 1, length: capacity - 1}}"
    )
    assert (test.steps, test.collect) == (3, ("sum",))
    before = test.state_arrays(g)
    assert before["sum"].tolist() == [[2, 2], [2, 2]]
    assert before["keys"].tolist() == [[1, 2], [3, 4]]
    assert test.expected_arrays(g)["sum"].shape == (3, 2, 2)
    assert test.expected_states(g)["keys"].tolist() == [[1] * 5] * 2
    assert (test.states_same_as, test.same_as) == ({"sum": "cpu"}, {})


def test_what_is_not_said_of_states() -> None:
    _, test = of(f"{X}, expect_states: {{same_as: reference}}")
    assert (test.states, test.steps, test.collect, test.expect) == ({}, None, (), {})
    assert test.states_same_as == {"sum": "reference", "keys": "reference"}


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ("{data: []}", []),
        ("{data: [1, 2]}", [[1], [2]]),
        ("{data: [[1], [2]]}", [[1], [2]]),
        ("{data: [1, 2, 3, 4]}", [[1, 2], [3, 4]]),
        ("{data: [1, 2, 3, 4], length: n}", [[1, 2], [3, 4]]),
        ("{value: 7, length: 1}", [[7], [7]]),
        ("{value: 7, length: 0}", []),
        ("{sequence: {delta: 2}, length: 2}", [[0, 2], [4, 6]]),
    ],
)
def test_the_rows_of_a_growing_state(content: str, rows: list[list[int]]) -> None:
    g, test = of(f"{X}, states: {{keys: {content}}}, expect_states: {{keys: {content}}}")
    for array in (test.state_arrays(g)["keys"], test.expected_states(g)["keys"]):
        assert array.dtype == np.float32
        assert array.shape == (2, len(rows[0]) if rows else 0)
        assert array.tolist() == (rows or [[], []])


def test_random_rows_follow_the_length_in_other_dims() -> None:
    text = f"{X}, states: {{keys: {{random: {{seed: 1}}, length: capacity / 2}}}}, expect_states: {{same_as: cpu}}"
    g, test = of(f"{text}, dims: {{capacity: 8}}")
    assert test.state_arrays(test.sized(g))["keys"].shape == (2, 4)


def test_rows_in_a_file(tmp_path: pathlib.Path) -> None:
    np.save(tmp_path / "k.npy", np.float32([[1, 2, 3], [4, 5, 6]]))  # type: ignore[arg-type]
    text = f"{X}, states: {{keys: {{file: k.npy}}}}, expect_states: {{same_as: cpu}}"
    g, test = of(text, folder=tmp_path)
    assert test.state_arrays(g)["keys"].tolist() == [[1, 2, 3], [4, 5, 6]]
    check_tests(g)
    for wrong, code, got in (((2, 7), "range", 7), ((3, 2), "sizes", [3, 2]), (4, "sizes", [4])):
        np.save(tmp_path / "k.npy", np.zeros(wrong, np.float32))
        with raises(dg.DocumentError, code, field="tests.t.states.keys.file", got=got):
            check_tests(g)
    (tmp_path / "k.npy").unlink()
    with raises(dg.DocumentError, "unreadable", field="tests.t.states.keys.file", got="k.npy"):
        check_tests(g)


def test_a_name_with_a_star_stands_for_several_states() -> None:
    layer = "{inputs: [x], states: {s: {dtype: float32, sizes: [2, 1], next: x}}, outputs: [s]}"
    text = HEAD.replace("outputs:", f"templates: {{t: {layer}}}\nnodes: {{u: {{use: t, repeat: 3, x: x}}}}\noutputs:")
    states = "states: {u/1/s: {value: 5}, 'u/*': {value: 3}}, expect_states: {'u/*/s': {value: 1}}"
    test = loads(f"{text}tests: {{t: {{{X}, {states}}}}}").origin.tests["t"]
    assert {name: each.content.tree.plain["value"] for name, each in test.states.items()} == {
        "u/1/s": 5,
        "u/0/s": 3,
        "u/2/s": 3,
    }
    assert list(test.expect_states) == ["u/0/s", "u/1/s", "u/2/s"]


SAME = f"{X}, expect_states: {{same_as: cpu}}"
WRONG = [  # a test, a part of the message, and the text that is marked
    (f"{{{X}}}", "missing", "tests.t.expect", None, "t"),
    (f"{{{X}, expect_states: {{}}}}", "missing", "tests.t.expect", None, "t"),
    (f"{{{X}, expect_states: 3}}", "kind", "tests.t.expect_states", 3, "3"),
    (f"{{{SAME}, states: [sum]}}", "kind", "tests.t.states", ["sum"], "[sum]"),
    (f"{{{SAME}, states: {{summ: {{value: 1}}}}}}", "unknown-array", "tests.t.states.summ", None, "summ"),
    (f"{{{SAME}, states: {{sum: 3}}}}", "kind", "tests.t.states.sum", 3, "3"),
    (f"{{{SAME}, states: {{sum: {{data: [1, 2]}}}}}}", "sizes", "tests.t.states.sum.data", "2 numbers", "[1, 2]"),
    (f"{{{SAME}, states: {{sum: {{value: 1, length: 2}}}}}}", "conflict", "tests.t.states.sum.length", 2, "2"),
    (f"{{{SAME}, states: {{sum: {{same_as: cpu}}}}}}", "unknown-field", "tests.t.states.sum.same_as", None, "same_as"),
    (f"{{{SAME}, states: {{keys: {{value: 1}}}}}}", "missing", "tests.t.states.keys.length", None, "{value: 1}"),
    (f"{{{SAME}, states: {{keys: {{value: a, length: 1}}}}}}", "kind", "tests.t.states.keys.value", "a", "a"),
    (f"{{{SAME}, states: {{keys: {{value: 1, length: 7}}}}}}", "range", "tests.t.states.keys.length", 7, "7"),
    (f"{{{SAME}, states: {{keys: {{value: 1, length: -1}}}}}}", "range", "tests.t.states.keys.length", -1, "-1"),
    (f"{{{SAME}, states: {{keys: {{value: 1, length: true}}}}}}", "range", "tests.t.states.keys.length", True, "true"),
    (
        f"{{{SAME}, states: {{keys: {{value: 1, length: n / 4}}}}}}",
        "expression",
        "tests.t.states.keys.length",
        "0.5 = n / 4 with n = 2",
        "n / 4",
    ),
    (f"{{{SAME}, states: {{keys: {{value: 1, length: m}}}}}}", "unknown-dim", "tests.t.states.keys.length", "m", "m"),
    (
        f"{{{SAME}, states: {{keys: {{data: [1, 2, 3]}}}}}}",
        "sizes",
        "tests.t.states.keys.data",
        "3 numbers",
        "[1, 2, 3]",
    ),
    (f"{{{SAME}, states: {{keys: {{data: 3}}}}}}", "sizes", "tests.t.states.keys.data", "1 number", "3"),
    (
        f"{{{SAME}, states: {{keys: {{data: [1, 2], length: 2}}}}}}",
        "sizes",
        "tests.t.states.keys.data",
        "1 row",
        "[1, 2]",
    ),
    (
        f"{{{SAME}, states: {{keys: {{data: [1, 2], length: 0}}}}}}",
        "sizes",
        "tests.t.states.keys.data",
        "1 row",
        "[1, 2]",
    ),
    (f"{{{SAME}, states: {{keys: {{length: 2}}}}}}", "unknown-field", "tests.t.states.keys.length", None, "length"),
    (
        f"{{{X}, expect_states: {{sum: {{random: {{}}}}}}}}",
        "unknown-field",
        "tests.t.expect_states.sum.random",
        None,
        "random",
    ),
    (f"{{{X}, expect_states: {{same_as: gpu}}}}", "unknown-device", "tests.t.expect_states.same_as", "gpu", "gpu"),
    (
        f"{{{X}, expect_states: {{keys: {{same_as: 3}}}}}}",
        "unknown-device",
        "tests.t.expect_states.keys.same_as",
        3,
        "3",
    ),
    (f"{{{SAME}, steps: 0}}", "kind", "tests.t.steps", 0, "0"),
    (f"{{{SAME}, steps: true}}", "kind", "tests.t.steps", True, "true"),
    (f"{{{SAME}, steps: n}}", "kind", "tests.t.steps", "n", "n"),
    (f"{{{SAME}, collect: sum}}", "kind", "tests.t.collect", "sum", "sum"),
    (f"{{{SAME}, collect: [summ]}}", "unknown-array", "tests.t.collect.0", "summ", "summ"),
    (f"{{{SAME}, collect: [[sum]]}}", "unknown-array", "tests.t.collect.0", ["sum"], "[sum]"),
    (f"{{{SAME}, collect: [sum, sum]}}", "duplicate", "tests.t.collect.1", "sum", "sum"),
    (
        f"{{{X}, steps: 2, collect: [sum], expect: {{sum: {{data: [1, 2, 3, 4]}}}}}}",
        "sizes",
        "tests.t.expect.sum.data",
        "4 numbers",
        "[1, 2, 3, 4]",
    ),
]


@pytest.mark.parametrize(("test", "code", "field", "got", "marked"), WRONG, ids=[each[0] for each in WRONG])
def test_a_wrong_test_is_one_problem_at_its_place(test: str, code: str, field: str, got: object, marked: str) -> None:
    with pytest.raises(dg.DocumentError) as caught:
        loads(f"{HEAD}tests:\n  t: {test}\n", file="t.yaml")
    (problem,) = caught.value.problems
    expect(problem, code, field=field, got=got)
    place = problem.location
    assert place is not None
    assert place.source is not None
    assert (place.line, place.source[place.column - 1 : (place.end_column or 0) - 1]) == (10, marked)


def test_a_test_of_states_whose_declarations_are_wrong_adds_no_problems() -> None:
    text = HEAD.replace("grows: 1", "grows: 9").replace("outputs:", "outputs: [sum] #")
    with pytest.raises(dg.DocumentError) as caught:
        loads(
            f"{text}tests: {{t: {{{X}, states: {{keys: {{value: 1, length: 3}}}}, expect_states: {{same_as: cpu}}}}}}\n"
        )
    assert [(each.node, each.field) for each in caught.value.problems] == [("keys", "grows")]


def test_saving_keeps_states_and_copies_their_files(tmp_path: pathlib.Path) -> None:
    first = tmp_path / "first"
    first.mkdir()
    np.save(first / "k.npy", np.float32([[1], [4]]))  # type: ignore[arg-type]
    tests = (
        f"tests:\n  a: {{{X}, states: {{keys: {{file: k.npy, length: 1}}, sum: {{value: 2}}}}, steps: 2, "
        "collect: [sum], expect: {sum: {value: 2}}, expect_states: {keys: {value: 3, length: 2}}}\n"
    )
    (first / "g.yaml").write_text(HEAD + tests, "utf-8")
    for weights in (None, "h.safetensors"):
        second = tmp_path / str(weights)
        second.mkdir()
        save(dg.load(first / "g.yaml"), second / "h.yaml", weights=weights)
        again = dg.load(second / "h.yaml")
        test = again.origin.tests["a"]
        assert test.state_arrays(again)["keys"].tolist() == [[1], [4]]
        assert test.state_arrays(again)["sum"].tolist() == [[2, 2], [2, 2]]
        assert test.expected_states(again)["keys"].tolist() == [[3, 3], [3, 3]]
        assert (test.steps, test.collect) == (2, ("sum",))
        assert {path.name for path in second.iterdir()} == {"h.yaml", "h.tests.a.states.keys.npy"}


def test_a_dim_of_a_test_sizes_its_states() -> None:
    g = graph(f"{X}, states: {{keys: {{value: 1, length: 9}}}}, dims: {{capacity: 9}}, expect_states: {{same_as: cpu}}")
    check_tests(g)
    with raises(dg.DocumentError, "range", field="tests.t.states.keys.length", got=9, allowed="0 to 6"):
        graph(f"{X}, states: {{keys: {{value: 1, length: 9}}}}, expect_states: {{same_as: cpu}}")
