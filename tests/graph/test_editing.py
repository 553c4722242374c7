"""Editing: graphs that change after they are built, and parts of graphs."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.problems import expect, raises

import dmlgraph as dg
from dmlgraph.formats.yaml import dumps
from dmlgraph.formats.yaml.tests import check_tests

X = np.array([[1, -2, 3], [0.5, 4, -8]], np.float32)
W = np.array([[1, 2], [-1, 0.5], [3, 0]], np.float32)


@pytest.fixture
def g() -> dg.Graph:
    """y = relu(x · w) + 1, of N rows."""
    g = dg.Graph("g", dims={"N": 2, "free": 5})
    x = g.input("x", sizes=["N", 3], dtype="float32")
    h = dg.gemm(x, g.constant("w", W), name="h")
    r = dg.activation_relu(h, name="r")
    g.output("y", dg.add(r, 1, name="s"))
    return g


def run(graph: dg.Graph, device: Any = "reference", **inputs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    with graph.compile(device) as exe:
        (result,) = exe.run(inputs or {"x": X}).values()
    return result


def names(graph: dg.Graph) -> list[str]:
    return [node.name for node in graph.nodes]


def refused(graph: dg.Graph, call: Callable[[], object], node: str | None = None) -> dg.Problem:
    """The problem of a change, which changes nothing."""
    before, text = names(graph), repr(graph.nodes)
    with pytest.raises(dg.DmlGraphError) as caught:
        call()
    assert (names(graph), repr(graph.nodes)) == (before, text)
    assert node is None or caught.value.problems[0].node == node
    return caught.value.problems[0]


# replace


@pytest.mark.parametrize("device", ["reference", "cpu", "directml:software"])
def test_what_reads_a_value_reads_another_one_and_what_only_it_needed_goes(g: dg.Graph, device: str) -> None:
    new = dg.abs(g.value("x"), name="a")
    g.replace("h", dg.gemm(new, g.constant("v", W[:, ::-1].copy()), name="other"))
    assert [name for name in names(g) if name != "fill_value_constant"] == ["x", "a", "v", "other", "r", "s"]
    np.testing.assert_array_equal(run(g, device), np.maximum(np.abs(X) @ W[:, ::-1], 0) + 1)


def test_what_the_new_value_depends_on_goes_on_reading_the_old_one(g: dg.Graph) -> None:
    r = g.value("r")
    g.replace(r, dg.multiply(r, r, name="square"))
    np.testing.assert_array_equal(run(g), np.maximum(X @ W, 0) ** 2 + 1)


def test_outputs_and_next_values_read_the_new_value_too() -> None:
    g = dg.Graph("g")
    s = g.state("s", sizes=[2], dtype="float32", initial=1)
    doubled = dg.add(s, s, name="doubled")
    g.update(s, doubled)
    g.output("y", doubled)
    g.replace(doubled, dg.multiply(s, 3, name="tripled"))
    assert "doubled" not in names(g)
    assert g.outputs["y"].reference == g.next_values["s"].reference == "tripled"
    with g.compile("reference") as exe:
        assert [list(exe.run({})["y"]) for _ in range(2)] == [[3, 3], [9, 9]]


def test_sizes_and_types_behind_a_change_are_inferred_again(g: dg.Graph) -> None:
    wide = g.constant("wide", np.ones((3, 7), np.float32))
    g.replace("h", dg.gemm(g.value("x"), wide))
    assert g.outputs["y"].sizes == (2, 7)
    assert g.with_dims({"N": 4}).outputs["y"].sizes == (4, 7)


def test_a_node_that_does_not_take_the_new_value_is_named_and_nothing_changes(g: dg.Graph) -> None:
    whole = dg.cast(g.value("r"), dtype="int32", name="whole")
    narrow, integers = g.constant("narrow", np.ones((2, 4), np.float32)), g.constant("i", np.ones((2, 2), np.int32))
    problem = refused(g, lambda: g.replace("x", narrow), "h")
    assert (problem.code, problem.field) == ("sizes", "b.sizes")
    assert refused(g, lambda: g.replace("r", integers), "s").code == "dtype"
    assert g.value("whole").desc is whole.desc  # it is still valid


def test_a_state_that_does_not_take_its_new_value_is_named() -> None:
    g = dg.Graph("g")
    s = g.state("s", sizes=[2], dtype="float32")
    g.update(s, s + 1)
    wide = g.input("wide", sizes=[3], dtype="float32")
    problem = refused(g, lambda: g.replace(g.next_values["s"], wide), "s")
    assert (problem.field, problem.got, problem.allowed) == ("next", [3], "[2]")


def test_values_of_nodes_that_are_described_anew_are_refused_with_what_to_do(g: dg.Graph) -> None:
    r = g.value("r")
    g.replace("h", dg.gemm(g.value("x"), g.constant("wide", np.ones((3, 7), np.float32))))
    with raises(dg.GraphError, "foreign-value", node="abs", field="input"):
        dg.abs(r)
    assert dg.abs(g.value("r")).sizes == (2, 7)


def test_a_gradient_of_ones_own_reads_the_new_value() -> None:
    g = dg.Graph("g")
    x = g.input("x", sizes=[2], dtype="float32")
    h = dg.abs(x, name="h")
    y = dg.custom_gradient(lambda inputs, outputs, gradients: [7 * inputs[0]])(lambda x: dg.round(x, name="q"))(h)
    g.replace("h", dg.multiply(x, x))
    (found,) = dg.gradient(dg.reduce(y, function="sum", axes=[0]), [x])
    g.output("found", found)
    np.testing.assert_allclose(run(g, x=np.array([1, 3], np.float32)), [7 * 1 * 2, 7 * 9 * 6])


# insert_after


def test_a_value_goes_through_a_function(g: dg.Graph) -> None:
    made = g.insert_after("h", lambda h: dg.multiply(dg.negate(h, name="n"), 2))
    assert g.node(made.node).name in names(g)
    np.testing.assert_array_equal(run(g), np.maximum(-2 * (X @ W), 0) + 1)


def test_an_output_goes_through_a_function(g: dg.Graph) -> None:
    g.insert_after(g.outputs["y"], dg.negate)
    np.testing.assert_array_equal(run(g), -(np.maximum(X @ W, 0) + 1))


@pytest.mark.parametrize(
    "function",
    [
        lambda value: dg.reshape(dg.abs(value), sizes=[5]),  # which cannot be made
        lambda value: dg.reshape(dg.abs(value), sizes=[1, 4]).T.broadcast_to(4, 4),  # which the output may have …
        lambda value: 3,
    ],
)
def test_a_function_that_fails_leaves_nothing(g: dg.Graph, function: Callable[[dg.Value], Any]) -> None:
    g.output("z", dg.reshape(g.value("r"), sizes=[4], name="z"))  # … but this node may not
    refused(g, lambda: g.insert_after("r", function))
    assert dg.abs(g.value("x")).reference == "abs"  # the name is free again


# remove


def test_a_removed_node_takes_along_what_only_it_needed(g: dg.Graph) -> None:
    g.remove_output("y")
    g.remove("s")
    assert names(g) == ["x"]
    g.remove(g.value("x"))
    assert names(g) == []


def test_a_node_that_is_read_stays(g: dg.Graph) -> None:
    assert refused(g, lambda: g.remove("r"), "r").got == "s"
    assert refused(g, lambda: g.remove("s"), "s").got == "the output 'y'"
    expect(refused(g, lambda: g.remove("rr")), "unknown-node", node="rr", hint="did you mean 'r'?")


def test_nodes_that_read_one_another_are_removed_together(g: dg.Graph) -> None:
    a = dg.abs(g.value("x"), name="a")
    dg.negate(a, name="b")
    g.remove("a", "b")
    assert "a" not in names(g)


def test_a_state_goes_with_what_computes_its_next_value() -> None:
    g = dg.Graph("g")
    x, s = g.input("x", sizes=[2], dtype="float32"), g.state("s", sizes=[2], dtype="float32")
    g.update(s, s + x)
    g.output("y", dg.abs(x))
    g.remove("s")
    assert names(g) == ["x", "abs"]
    assert g.next_values == {}


def test_tests_of_removed_inputs_go_and_others_stay() -> None:
    text = """
dmlgraph: 1
inputs: {x: {dtype: float32, sizes: [1]}, extra: {dtype: float32, sizes: [1]}}
nodes: {y: {op: abs, input: x}}
outputs: [y]
allow: [unused-input]
tests:
  with_extra: {inputs: {x: {value: 1}, extra: {value: 1}}, expect: {y: {value: 1}}}
"""
    g = dg.loads(text)
    g.insert_after("y", dg.negate)
    assert list(g.origin.tests) == ["with_extra"]
    g.remove("extra")
    assert list(g.origin.tests) == []


def test_what_is_expected_of_removed_outputs_goes() -> None:
    text = """
dmlgraph: 1
inputs: {x: {dtype: float32, sizes: [1]}}
nodes: {y: {op: abs, input: x}, z: {op: negate, input: x}}
outputs: [y, z]
tests:
  both: {inputs: {x: {value: 1}}, expect: {y: {value: 1}, z: {value: -1}}}
  steps: {inputs: {x: {value: 1}}, steps: 2, collect: [y, z], expect: {y: {value: 1}, z: {value: -1}}}
  same: {inputs: {x: {value: 1}}, expect: {same_as: reference}}
  only: {inputs: {x: {value: 1}}, expect: {z: {value: -1}}}
"""
    g = dg.loads(text)
    g.remove_output("z")
    g.remove("z")
    again = dg.loads(dumps(g))
    check_tests(again)
    assert list(again.origin.tests) == ["both", "steps", "same"]
    assert [list(test.expect) for test in again.origin.tests.values()] == [["y"], ["y"], []]
    assert again.origin.tests["steps"].collect == ("y",)
    assert list(g.origin.tests["same"].same_as) == ["y"]


def test_what_is_trained_goes_with_its_parameters_and_its_loss() -> None:
    text = """
dmlgraph: 1
inputs: {x: {dtype: float32, sizes: [1]}}
constants: {w: {dtype: float32, sizes: [1], data: [1]}, b: {dtype: float32, sizes: [1], data: [2]}}
nodes: {p: {op: multiply, a: x, b: w}, y: {op: add, a: p, b: b}, loss: {op: multiply, a: y, b: y}}
outputs: [y, loss]
training: {loss: loss, parameters: [w, b], optimizer: {op: sgd, rate: 0.1}}
"""
    g = dg.loads(text)
    g.replace("b", g.constant("c", np.zeros(1, np.float32)))
    assert dg.loads(dumps(g)).origin.training.parameters == ("w",)
    g.remove_output("loss")
    assert dg.loads(dumps(g)).origin.training is None


# set


def test_fields_of_an_operator_change_and_what_follows_is_inferred_again() -> None:
    g = dg.Graph("g")
    x = g.input("x", sizes=[2, 3], dtype="float32")
    g.output("y", dg.negate(dg.reduce(x, function="sum", axes=[0], name="sum")))
    g.set("sum", axes=[1], function="max")
    np.testing.assert_array_equal(run(g), -X.max(1, keepdims=True))
    assert g.outputs["y"].sizes == (2, 1)
    problem = refused(g, lambda: g.set("sum", axes=[5]), "sum")
    assert (problem.field, problem.got) == ("axes.0", 5)
    problem = refused(g, lambda: g.set("sum", axis=1), "sum")
    assert (problem.code, problem.hint) == ("unknown-field", "did you mean 'axes'?")


def test_a_field_that_breaks_a_node_behind_is_refused_with_that_node(g: dg.Graph) -> None:
    g.output("flat", dg.reshape(g.value("r"), sizes=[4], name="flat"))
    assert refused(g, lambda: g.set("x", sizes=[3, 3]), "flat").field == "sizes"


def test_tensors_of_an_operator_change_also_to_numbers(g: dg.Graph) -> None:
    g.set("s", b=g.value("h"))
    np.testing.assert_array_equal(run(g), np.maximum(X @ W, 0) + X @ W)
    g.set("s", b=3)
    np.testing.assert_array_equal(run(g), np.maximum(X @ W, 0) + 3)
    g.set("h", c=g.constant("bias", np.ones((2, 2), np.float32)))
    np.testing.assert_array_equal(run(g), np.maximum(X @ W + 1, 0) + 3)
    g.set("h", c=None)
    np.testing.assert_array_equal(run(g), np.maximum(X @ W, 0) + 3)


def test_an_attribute_is_left_out_again(g: dg.Graph) -> None:
    g.set("h", alpha=2.0, fused_activation="activation_relu")
    np.testing.assert_array_equal(run(g), np.maximum(2 * (X @ W), 0) + 1)
    g.set("h", alpha=None, fused_activation=None)
    np.testing.assert_array_equal(run(g), np.maximum(X @ W, 0) + 1)


def test_a_node_cannot_read_itself(g: dg.Graph) -> None:
    problem = refused(g, lambda: g.set("r", input=g.value("s")))
    assert problem.code == "cycle"
    assert sorted(str(problem.got).split(" → ")[1:]) == ["r", "s"]


def test_inputs_constants_and_states_change(g: dg.Graph) -> None:
    g.set("x", sizes=["N + 1", 3])
    assert g.outputs["y"].sizes == (3, 2)
    assert g.with_dims({"N": 7}).outputs["y"].sizes == (8, 2)
    g.set("w", data=2 * W)
    np.testing.assert_array_equal(run(g, x=np.ones((3, 3), np.float32)), np.maximum(np.ones((3, 3)) @ W * 2, 0) + 1)
    state = g.state("state", sizes=["N"], dtype="float32", initial=1)
    g.update(state, state * 2)
    g.set("state", sizes=["N", 4], initial=2)
    assert (g.value("state").sizes, g.next_values["state"].sizes) == ((2, 4), (2, 4))
    assert refused(g, lambda: g.set("state", initial=np.ones(3, np.float32)), "state").field == "initial"
    assert refused(g, lambda: g.set("x", size=[1]), "x").hint == "did you mean 'sizes'?"


# cut


@pytest.fixture
def stacked() -> dg.Graph:
    """Two layers, with a growing state and a counter in the second, and a split between."""
    g = dg.Graph("stack", dims={"rows": 2, "capacity": 8, "unused": 3}, target="6.0")
    x = g.input("x", sizes=["rows", 4], dtype="float32")
    with g.scope("first"):
        a, b = dg.split(dg.multiply(x, g.constant("w", np.full((1, 4), 2, np.float32)), name="h"), axis=1, outputs=2)
    with g.scope("second"):
        keys = g.state("keys", sizes=["capacity", 2], dtype="float32", grows=0)
        g.append(keys, dg.negate(a, name="rows"))
        step = g.state("step", sizes=[1, 1], dtype="float32")
        g.update(step, step + 1)
        g.output("y", dg.add(dg.multiply(a, b, name="product"), step.broadcast_to("rows", 2), name="y"))
        g.output("cache", keys)
    return g


def test_a_part_keeps_scopes_dims_states_and_constants(stacked: dg.Graph) -> None:
    part = stacked.cut(outputs=["second/y"])
    assert (part.name, str(part.target), part.dims) == ("stack", "6.0", {"rows": 2})
    assert "second/keys" not in names(part)
    assert list(part.next_values) == ["second/step"]
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    with part.compile("reference") as exe, stacked.compile("reference") as whole:
        for _ in range(2):
            np.testing.assert_array_equal(exe.run({"x": x})["second/y"], whole.run({"x": x})["second/y"])


def test_values_become_inputs(stacked: dg.Graph) -> None:
    part = stacked.cut({"product": "second/product"}, inputs={"a": stacked.value("first/split.outputs.0")})
    assert [node.name for node in part.inputs] == ["a", "x"]  # the other half is still computed
    x, a = np.arange(8, dtype=np.float32).reshape(2, 4), np.ones((2, 2), np.float32)
    np.testing.assert_array_equal(run(part, a=a, x=x), 2 * x[:, 2:])
    part = stacked.cut(["second/product"], inputs=["first/split.outputs.0", "first/split.outputs.1"])
    assert [node.name for node in part.inputs] == ["first/split_outputs_0", "first/split_outputs_1"]
    assert len(part.nodes) == 3


def test_a_state_brings_what_computes_its_next_value(stacked: dg.Graph) -> None:
    part = stacked.cut(["second/cache"], inputs={"h": "first/h"})
    assert list(part.next_values) == ["second/keys"]
    assert [node.name for node in part.inputs] == ["h"]
    assert part.dims == {"rows": 2, "capacity": 8}
    assert part.with_dims({"rows": 3}).inputs[0].desc.sizes == (3, 4)
    assert part.with_dims({"capacity": 9}).outputs["second/cache"].sizes == (9, 2)


def test_cuts_that_mean_nothing_are_refused(stacked: dg.Graph) -> None:
    y = ["second/y"]
    for call, code, field in (
        (lambda: stacked.cut(y, inputs=["second/rows"]), "conflict", "inputs"),
        (lambda: stacked.cut(y, inputs={"first/h": "first/split.outputs.0"}), "duplicate", "inputs"),
        (lambda: stacked.cut("second/y"), "kind", "outputs"),
        (lambda: stacked.cut(["second/z"]), "unknown-node", "outputs"),
        (lambda: stacked.cut([*y, *y]), "duplicate", "outputs"),
    ):
        with raises(dg.GraphError, code, field=field):
            call()


def test_the_whole_stays_as_it_is(stacked: dg.Graph) -> None:
    before = names(stacked), repr(stacked.nodes), dict(stacked.dims)
    part = stacked.cut(["second/y"], inputs=["first/h"])
    part.set("first/h", sizes=["rows", 4])
    assert (names(stacked), repr(stacked.nodes), stacked.dims) == before


# What does not change here


def test_what_a_graph_shows_says_how_it_is_changed(g: dg.Graph) -> None:
    outputs: Any = g.outputs
    for change in (
        lambda: outputs.pop("y"),
        lambda: outputs.update(z=g.value("r")),
        lambda: outputs.__setitem__("z", g.value("r")),
    ):
        with pytest.raises(TypeError, match=r"g\.output\(name, value\) and g\.remove_output\(name\)"):
            change()
    with pytest.raises(TypeError, match="with_dims"):
        g.dims["N"] = 4
    assert type(copy.copy(g.dims)) is type(pickle.loads(pickle.dumps(g.dims))) is type(g.dims | {}) is dict


def test_a_field_of_a_node_says_how_it_is_changed(g: dg.Graph) -> None:
    node: Any = g.node("h")
    for name, shown in (("alpha", "alpha"), ("name", "field")):
        with pytest.raises(AttributeError, match=rf"g\.set\('h', {shown}=…\)"):
            setattr(node, name, 2)
    with pytest.raises(AttributeError, match=r"g\.set"):
        node.operator.alpha = 2


def test_workarounds_of_removed_nodes_go() -> None:
    graph = dg.loads("""
        dmlgraph: 1
        inputs: {x: {dtype: float32, sizes: [2]}}
        nodes: {a: {op: sin, input: x}, b: {op: activation_relu, input: a}}
        outputs: [b]
        workarounds:
        - {device: directml, nodes: {a: apart, b: decomposed}}
        - {device: cpu, nodes: {b: apart}}
        - {device: cpu, fuse: false, nodes: {"b*": apart}}
    """)
    part = graph.cut(["a"])
    assert [each.plain() for each in part.origin.workarounds] == [
        {"device": "directml", "nodes": {"a": "apart"}},
        {"device": "cpu", "fuse": False},
    ]
    assert len(graph.origin.workarounds) == 3
    assert dg.loads(dumps(part)).outputs.keys() == {"a"}


def test_set_takes_references_for_tensors(g: dg.Graph) -> None:
    g.set("s", a="h", b="r")
    assert [source[0] for source in g.sources("s") if source] == ["h", "r"]
    with raises(dg.GraphError, "unknown-node", node="t"):
        g.set("s", a="t")
