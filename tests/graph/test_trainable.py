"""Constants that become states, and states that become constants."""

from __future__ import annotations

import copy
import pathlib

import numpy as np
import pytest
from support.problems import raises

import dmlgraph as dg
from dmlgraph.graph.nodes import ConstantNode, StateNode

W = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
V = np.array([[1], [-1]], np.float32)


def network() -> dg.Graph:
    """Two layers without biases; what is called `rows` are indices."""
    g = dg.Graph("network")
    x = g.input("x", sizes=[4, 3], dtype="float32")
    with g.scope("encoder"):
        h = x @ g.constant("w", W)
    with g.scope("head"):
        y = h @ g.constant("w", V)
        g.output("y", dg.gather(y, g.constant("rows", [[0, 1, 2, 3]], dtype="int32"), axis=0, index_dimensions=1))
    return g


def trained(g: dg.Graph, *patterns: str) -> dg.Graph:
    """The graph, with a step of training."""
    other = copy.copy(g)
    loss = dg.reduce(other.outputs["head/y"] * other.outputs["head/y"], function="average").reshape(1)
    other.output("loss", loss)
    other.minimize(loss, list(patterns), optimizer=dg.SGD(0.1, momentum=0.5))
    return other


def test_a_constant_becomes_a_state_in_its_place() -> None:
    g = network()
    before = g.value("encoder/w")
    order = [node.name for node in g.nodes]
    (w,) = g.make_trainable("encoder/*")
    assert (w.node, w.sizes, w.dtype) == ("encoder/w", (3, 2), dg.DataType.FLOAT32)
    assert [node.name for node in g.nodes] == order
    assert isinstance(g.node("encoder/w"), StateNode)
    assert isinstance(g.node("head/w"), ConstantNode)
    assert g.writes(before)  # values from before are still those of the graph
    x = np.eye(4, 3, dtype=np.float32)
    exe = g.compile("reference")
    np.testing.assert_array_equal(exe.run({"x": x})["head/y"].reshape(4, 1), x @ W @ V)
    np.testing.assert_array_equal(exe.states["encoder/w"], W)


def test_copies_keep_their_constants() -> None:
    g = network()
    other = copy.copy(g)
    g.make_trainable("*")
    assert [state.name for state in g.states] == ["encoder/w", "head/w"]
    assert not other.states


def test_a_trainable_graph_is_saved_and_loaded(tmp_path: pathlib.Path) -> None:
    network().save(tmp_path / "g.yaml")
    g = dg.load(tmp_path / "g.yaml", trainable=["*/w"])
    g.save(tmp_path / "again.yaml")
    again = dg.load(tmp_path / "again.yaml")
    assert [state.name for state in again.states] == ["encoder/w", "head/w"]
    np.testing.assert_array_equal(again.compile("reference").states["encoder/w"], W)


@pytest.mark.parametrize(
    ("patterns", "code", "field"),
    [
        (["decoder/*"], "unknown-name", "patterns.0"),
        (["encoder/*", "head/v"], "unknown-name", "patterns.1"),
        (["head/rows"], "dtype", None),
        (["*/r*"], "dtype", "patterns"),
        ([3], "kind", "patterns"),
    ],
)
def test_what_cannot_be_trained_is_refused(patterns: list[str], code: str, field: str | None) -> None:
    g = network()
    with pytest.raises(dg.GraphError) as caught:
        g.make_trainable(*patterns)
    assert (caught.value.code, caught.value.problems[0].field) == (code, field)
    assert not g.states


def test_a_file_names_the_option() -> None:
    folder = pathlib.Path(__file__).parents[2] / "examples"
    with raises(dg.DocumentError, "kind", field="trainable", got="*", hint="write ['*']") as caught:
        dg.load(folder / "ramp.yaml", trainable="*")
    assert caught.value.location == dg.Location(str(folder / "ramp.yaml"), 1, 1)


def test_quantized_constants_are_refused_by_name() -> None:
    g = dg.Graph("quantized")
    x = g.input("x", sizes=[2, 2], dtype="float32")
    weights = g.constant("layer/w", [[1, 2], [3, 4]], dtype="int8").reshape(2, 2)
    scale = g.constant("layer/scale", [[0.5]], dtype="float32")
    zero = g.constant("layer/zero", [[0]], dtype="int8")
    g.output("y", x @ dg.dequantize_linear(weights, scale, zero))
    pairs = "lora (dg.add_lora) trains a pair of small matrices beside it"
    for patterns, hint in (
        (["layer/*"], f"name floats alone: layer/scale; {pairs}"),
        (["layer/w"], pairs),
    ):
        with raises(dg.GraphError, "dtype", node="layer/w", got="int8", hint=hint):
            g.make_trainable(*patterns)
    assert [value.node for value in g.make_trainable("*/scale")] == ["layer/scale"]


def test_frozen_constants_cost_nothing() -> None:
    g = network()
    g.make_trainable("head/w")
    training = trained(g, "head/*")
    assert set(training.next_values) == {"head/w", "optimizer/head/w/direction"}
    products = [node.name for node in training.nodes if node.name.startswith("gradient/") and "/gemm" in node.name]
    inputs = [node for node in products if "/head/gemm/" in node or "/encoder/" in node]
    assert len(inputs) == 1  # that of head/w: neither encoder/w nor what the head reads has a gradient


def test_names_stand_for_parameters() -> None:
    g = network()
    g.make_trainable("*")
    assert set(trained(g, "*", "head/*").next_values) >= {"encoder/w", "head/w"}
    with pytest.raises(dg.GraphError) as caught:
        trained(g, "head/*", "body/*")
    assert (caught.value.code, caught.value.problems[0].field) == ("unknown-name", "parameters.1")


def test_states_become_constants_again() -> None:
    g = network()
    g.make_trainable("*")
    training = trained(g, "*")
    x = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    exe = training.compile("reference")
    exe.run({"x": x}, steps=3)
    tuned = g.with_states(exe.states)
    assert not tuned.states
    assert [state.name for state in g.states] == ["encoder/w", "head/w"]  # the graph itself stays what it is
    w, v = exe.states["encoder/w"], exe.states["head/w"]
    assert not np.array_equal(w, W)
    found = tuned.compile("reference").run({"x": x})["head/y"].reshape(4, 1)
    np.testing.assert_allclose(found, x @ w @ v, rtol=1e-6)


def test_gradients_are_left_out_with_the_states() -> None:
    g = network()
    g.make_trainable("*")
    training = trained(g, "*")
    tuned = training.with_states(training.compile("reference").states)
    assert not [node.name for node in tuned.nodes if node.name.startswith(("gradient/", "optimizer/"))]
    assert set(tuned.outputs) == {"head/y", "loss"}
    assert not tuned.warnings()


def test_growing_states_stay() -> None:
    g = dg.Graph("cache")
    row = g.input("row", sizes=[1, 2], dtype="float32")
    keys = g.state("keys", sizes=[4, 2], dtype="float32", grows=0)
    g.append(keys, row * g.state("factor", sizes=[1, 2], dtype="float32", initial=3))
    g.output("keys", dg.identity(keys))
    exe = g.with_states({"factor": np.array([[2, 5]], np.float32)}).compile("reference")
    exe.run({"row": np.array([[1, 1]], np.float32)})
    np.testing.assert_array_equal(exe.states["keys"], [[2, 5]])


@pytest.mark.parametrize(
    ("given", "code"),
    [({}, "unknown-state"), ({"w": W.T}, "sizes"), ({"w": W.astype(np.float64)}, "sizes")],
)
def test_states_must_fit(given: dict[str, np.ndarray], code: str) -> None:
    g = dg.Graph("one")
    g.output("y", dg.identity(g.state("w", sizes=W.shape, dtype="float32")))
    with pytest.raises(dg.GraphError) as caught:
        g.with_states(given)
    assert (caught.value.code, caught.value.problems[0].node) == (code, "w")
