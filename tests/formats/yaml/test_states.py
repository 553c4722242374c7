"""States in graph files: read, checked at their places, and written as they were."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

import dmlgraph as dg
from dmlgraph.formats.yaml.writer import dumps, save

TEXT = """\
dmlgraph: 1
name: cache
dims: {capacity: 5}
inputs:
  x: {dtype: float32, sizes: [2, 1]}
states:
  s: {dtype: float32, sizes: [4], initial: {value: 2.0}, next: t}
  table: {dtype: int32, sizes: [3], initial: {data: [1, 2, 3]}, next: table}
  k: {dtype: float32, sizes: [2, capacity], grows: 1, append: x}
nodes:
  t: {op: add, a: s, b: s}
  length: {op: identity, input: k.length}
outputs: {y: t, length: length}
"""


def test_a_file_with_states_is_read_and_written() -> None:
    g = dg.loads(TEXT)
    assert dumps(g) == TEXT
    assert not g.warnings()
    exe = g.compile("cpu")
    got = exe.run({"x": np.ones((2, 1), "f4")}, steps=3, collect=["length"])
    np.testing.assert_array_equal(got["length"], [[0], [1], [2]])
    np.testing.assert_array_equal(exe.states["s"], [16] * 4)
    np.testing.assert_array_equal(exe.states["table"], [1, 2, 3])


def test_what_a_state_holds_at_first_may_lie_in_a_file(tmp_path: pathlib.Path) -> None:
    g = dg.Graph("g")
    data = np.random.default_rng(0).normal(size=(40, 50)).astype(np.float32)
    s = g.state("s", sizes=[40, 50], dtype="float32", initial=data)
    g.update(s, s + 1)
    g.output("y", s * 2)
    for weights, made in ((None, "g.s.npy"), ("g.safetensors", "g.safetensors")):
        save(g, tmp_path / "g.yaml", weights=weights)
        assert (tmp_path / made).exists()
        again = dg.load(tmp_path / "g.yaml")
        np.testing.assert_array_equal(again.compile("cpu").states["s"], data)
        assert str(again.lower()) == str(g.lower())


def test_states_and_nodes_of_a_template() -> None:
    """A use reads states that are declared beside it, and gives their next values."""
    g = dg.loads(
        """\
dmlgraph: 1
states:
  a: {dtype: float32, sizes: [2], initial: {value: 1}, next: first.y}
  b: {dtype: float32, sizes: [2], initial: {value: 3}, next: second.y}
templates:
  double: {inputs: [x], nodes: {y: {op: add, a: x, b: x}}, outputs: [y]}
nodes:
  first: {use: double, x: a}
  second: {use: double, x: b}
outputs: [first.y]
"""
    )
    exe = g.compile("cpu")
    exe.run(steps=2)
    assert (exe.states["a"].tolist(), exe.states["b"].tolist()) == ([4, 4], [12, 12])


@pytest.mark.parametrize(
    ("state", "column", "code", "field"),
    [
        ("s: {dtype: float32, sizes: [4], next: z}", 41, "unknown-node", "next"),
        ("s: {dtype: float32, sizes: [4], next: x}", 41, "sizes", "next"),
        ("s: {dtype: float32, sizes: [4], append: x}", 43, "conflict", "append"),
        ("s: {dtype: float32, sizes: [4], grows: 0, next: x}", 51, "conflict", "next"),
        ("s: {dtype: int32, sizes: [2], next: x}", 39, "dtype", "next"),
        ("s: {dtype: float32, sizes: [4], grows: 7}", 42, "range", "grows"),
        ("s: {dtype: float32, sizes: [4], grows: x}", 42, "range", "grows"),
        ("s: {dtype: float32, sizes: [4], initial: 3}", 44, "kind", "initial"),
        ("s: {dtype: float32, sizes: [4], initial: {value: a}}", 52, "kind", "initial.value"),
        ("s: {dtype: uint8, sizes: [4], initial: {value: 300}}", 50, "does-not-fit", "initial.value"),
        ("s: {dtype: float32, sizes: [4], initial: {data: [1, 2]}}", 51, "sizes", "initial.data"),
        ("s: {dtype: float32, sizes: [4], initial: {random: {}}}", 45, "unknown-field", "initial.random"),
        ("s: {dtype: float32, sizes: [4], nxt: x}", 35, "unknown-field", "nxt"),
        ("s: {sizes: [4]}", 3, "missing", "dtype"),
        ("s: {dtype: float32, sizes: [m]}", 31, "unknown-dim", "sizes.0"),
        ("s: 5", 6, "kind", None),
        ("x: {dtype: float32, sizes: [4]}", 3, "duplicate", None),
        ("s: {dtype: float32, sizes: [4], next: s.length}", 41, "unknown-output", "next"),
    ],
)
def test_mistakes_have_their_places(state: str, column: int, code: str, field: str | None) -> None:
    text = (
        f"dmlgraph: 1\ninputs: {{x: {{dtype: float32, sizes: [2]}}}}\nstates:\n  {state}\n"
        "nodes: {y: {op: exp, input: x}}\noutputs: [y]\n"
    )
    with pytest.raises(dg.DocumentError) as caught:
        dg.loads(text)
    (problem,) = caught.value.problems
    assert problem.location is not None
    found = problem.location.line, problem.location.column, problem.code, problem.field
    assert found == (4, column, code, field)


def test_the_length_of_a_state_that_does_not_grow() -> None:
    text = TEXT.replace("grows: 1, append: x", "next: k")
    with pytest.raises(dg.DocumentError) as caught:
        dg.loads(text)
    assert {(each.code, each.node) for each in caught.value.problems} == {("unknown-output", "length")}
