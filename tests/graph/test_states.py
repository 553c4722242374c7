"""States of a graph: declared, changed once each, and checked like everything else."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.problems import expect, raises

import dmlgraph as dg
from dmlgraph.graph.nodes import StateNode


def counter() -> dg.Graph:
    g = dg.Graph("counter", dims={"capacity": 5})
    rows = g.input("rows", sizes=[2, 1], dtype="float32")
    s = g.state("s", sizes=[4], dtype="float32", initial=2)
    g.update(s, s + 1)
    k = g.state("k", sizes=[2, "capacity"], dtype="float32", grows=-1)
    g.append(k, rows)
    g.output("y", s * 2)
    g.output("length", dg.identity(k.length))
    return g


def test_a_state_is_a_value() -> None:
    g = counter()
    s, k = g.value("s"), g.value("k")
    assert (s.sizes, str(s.dtype)) == ((4,), "float32")
    assert (k.length.sizes, str(k.length.dtype), k.length.reference) == ((1,), "uint32", "k.length")
    assert {state.name: state.grows for state in g.states} == {"s": None, "k": 1}
    assert {name: value.reference for name, value in g.next_values.items()} == {"s": "add", "k": "rows"}
    assert not g.warnings()


def test_states_are_in_the_lowered_graph() -> None:
    lines = [line for line in str(counter().lower()).splitlines() if line.startswith("state")]
    assert lines == [
        "state 0 s: input 1, next output 2, initial 2.0",
        "state 1 k: input 2, length input 3, rows of axis 1 output 3",
    ]


def test_a_scope_is_in_the_name() -> None:
    g = dg.Graph("g")
    with g.scope("layer"):
        k = g.state("k", sizes=[1, 4], dtype="float16", grows=1)
    assert (k.reference, k.length.reference) == ("layer/k", "layer/k.length")


def test_every_scope_has_its_own_state() -> None:
    g = dg.Graph("g")
    total = g.input("x", sizes=[1], dtype="float32")
    for layer in range(2):
        with g.scope(f"layer.{layer}"):
            s = g.state("s", sizes=[1], dtype="float32")
            total = total + s
            g.update(s, total)
    g.output("y", total)
    exe = g.compile("cpu")
    results = [exe.run({"x": np.ones(1, np.float32)})["y"].item() for _ in range(3)]
    assert results == [1, 3, 6]
    assert [exe.states[name].item() for name in ("layer.0/s", "layer.1/s")] == [3, 6]


@pytest.mark.parametrize("made", [copy.copy, copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))])
def test_copies_have_the_same_states(made: Callable[[dg.Graph], dg.Graph]) -> None:
    g = counter()
    other = made(g)
    assert str(other.lower()) == str(g.lower())
    g.update(g.state("t", sizes=[1], dtype="float32"), g.input("x", sizes=[1], dtype="float32"))
    assert [state.name for state in other.states] == ["s", "k"]


def test_other_sizes_of_dims() -> None:
    g = counter().with_dims({"capacity": 9})
    assert g.value("k").sizes == (2, 9)
    assert str(counter().with_dims({"capacity": 5}).lower()) == str(counter().lower())


def test_what_a_state_depends_on_is_of_use() -> None:
    g = dg.Graph("g")
    s = g.state("s", sizes=[1], dtype="float32")
    g.update(s, dg.exp(s))
    g.output("y", g.input("x", sizes=[1], dtype="float32"))
    assert "exp" in g.live_nodes()
    assert not g.warnings()


def test_warnings() -> None:
    g = dg.Graph("g")
    g.state("never", sizes=[1], dtype="float32")
    g.output("y", dg.exp(g.state("kept", sizes=[1], dtype="float32")))
    found = {(each.code, each.node) for each in g.warnings()}
    assert found == {("unused-state", "never"), ("unchanged-state", "never"), ("unchanged-state", "kept")}


Change = Callable[[dg.Graph, dg.Value, dg.Value], object]
X: dict[str, Any] = {"sizes": [4], "dtype": "float32"}


@pytest.mark.parametrize(
    ("change", "code", "node", "field"),
    [
        (lambda g, s, k: g.state("s", **X), "duplicate", "s", None),
        (lambda g, s, k: g.state("t", sizes=[0], dtype="float32"), "sizes", "t", "sizes.0"),
        (lambda g, s, k: g.state("t", sizes=[2], dtype="int4"), "dtype", "t", "dtype"),
        (lambda g, s, k: g.state("t", **X, grows=1), "range", "t", "grows"),
        (lambda g, s, k: g.state("t", **X, grows=True), "range", "t", "grows"),
        (lambda g, s, k: g.state("t", **X, grows=0, initial=1), "conflict", "t", "initial"),
        (lambda g, s, k: g.state("t", **X, initial=np.zeros(3, "f4")), "sizes", "t", "initial"),
        (lambda g, s, k: g.state("t", **X, initial=np.zeros(4, "f8")), "sizes", "t", "initial"),
        (lambda g, s, k: g.state("t", sizes=[4], dtype="uint8", initial=300), "does-not-fit", "t", "initial"),
        (lambda g, s, k: g.update(s, g.input("x", sizes=[3], dtype="float32")), "sizes", "s", "next"),
        (lambda g, s, k: g.update(s, g.input("x", sizes=[1, 4], dtype="float32")), "sizes", "s", "next"),
        (lambda g, s, k: g.update(s, g.input("x", sizes=[4], dtype="int32")), "dtype", "s", "next"),
        (lambda g, s, k: g.update(s, 1), "not-a-value", None, "s.next"),
        (lambda g, s, k: g.update(k, k), "conflict", "k", "next"),
        (lambda g, s, k: g.append(s, s), "conflict", "s", "append"),
        (lambda g, s, k: g.append(k, g.input("x", sizes=[2, 6], dtype="float32")), "sizes", "k", "append"),
        (lambda g, s, k: g.append(k, g.input("x", sizes=[3, 1], dtype="float32")), "sizes", "k", "append"),
        (lambda g, s, k: (g.update(s, s), g.update(s, s)), "duplicate", "s", None),
        (lambda g, s, k: g.update(g.input("x", **X), s), "not-a-state", "x", None),
        (lambda g, s, k: g.append(k.length, k), "not-a-state", "k", None),
        (lambda g, s, k: s.length, "unknown-output", None, None),
        (lambda g, s, k: g.update(s, dg.Graph().input("x", **X)), "foreign-value", None, "s.next"),
        (lambda g, s, k: dg.length_mask(s), "unknown-output", None, None),
        (lambda g, s, k: dg.length_mask(k, dtype="int32"), "dtype", "k", "dtype"),
    ],
)
def test_mistakes(change: Change, code: str, node: str | None, field: str | None) -> None:
    g = dg.Graph("g")
    s, k = g.state("s", **X), g.state("k", sizes=[2, 5], dtype="float32", grows=1)
    with pytest.raises(dg.DmlGraphError) as caught:
        change(g, s, k)
    problem = caught.value.problems[0]
    assert (problem.code, problem.node, problem.field) == (code, node, field)


def test_a_refused_state_leaves_no_trace() -> None:
    g = dg.Graph("g")
    with pytest.raises(dg.GraphError):
        g.state("s", sizes=[4], dtype="float32", grows=3)
    assert isinstance(g.node(g.state("s", sizes=[4], dtype="float32").node), StateNode)


def test_formats_without_states_say_so(tmp_path: object) -> None:
    with pytest.raises(dg.GraphError) as caught:
        dg.save_dxdispatch(counter(), f"{tmp_path}/g.json")
    assert (caught.value.code, caught.value.node) == ("states", "s")


def test_an_input_becomes_a_state() -> None:
    g = dg.Graph("count", dims={"n": 2})
    x = g.input("x", sizes=["n"], dtype="float32")
    y = x + 1
    g.output("y", y)
    before = copy.copy(g)
    state = g.make_state("x", initial=5)
    g.update(state, y)
    executable = g.with_dims({"n": 3}).compile("cpu")
    assert executable.run(steps=2)["y"].tolist() == [7, 7, 7]
    assert [node.name for node in before.inputs] == ["x"]
    for wrong in ("y", "x"):
        with pytest.raises(dg.GraphError) as caught:
            g.make_state(wrong if wrong == "x" else y.node)
        assert caught.value.code == "not-an-input"
    owned = dg.Graph()
    owned.input("w", sizes=[1], dtype="float32", owned=True)
    with raises(dg.GraphError, "not-an-input", node="w"):
        owned.make_state("w")


def test_an_output_is_removed() -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[1], dtype="float32")
    for name in ("y", "z"):
        g.output(name, x + 1)
    g.remove_output("y")
    assert list(g.outputs) == ["z"]
    with pytest.raises(dg.GraphError) as caught:
        g.remove_output("zz")
    expect(caught.value, "unknown-output", field="outputs.zz", hint="did you mean 'z'?")
