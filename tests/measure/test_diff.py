"""Where two devices differ: faults that a test plants are found at their nodes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.broken_device import Fault, make_broken

import dmlgraph as dg
from dmlgraph.compiler.desc import GraphDesc
from dmlgraph.compiler.ir_node import Source
from dmlgraph.devices import choose
from dmlgraph.devices.compile import compile_graph
from dmlgraph.devices.executable import Array
from dmlgraph.devices.names import DeviceName
from dmlgraph.measure import diff as module
from dmlgraph.measure import exposing
from dmlgraph.measure.diff import Difference, Side, diff
from dmlgraph.operators import Operator

X = np.linspace(0.5, 2, 12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Callable[[Fault], str]:
    """Makes a device `broken`, the reference with a fault."""
    return functools.partial(make_broken, monkeypatch)


def next_number(index: tuple[int, ...], steps: int = 1) -> Callable[[Array], Array]:
    """Increases one element by `steps` ULP."""

    def change(array: Array) -> Array:
        changed = array.copy()
        for _ in range(steps):
            changed[index] = np.nextafter(changed[index], np.float32(np.inf))
        return changed

    return change


def in_operator(name: str, change: Callable[[Array], Array], port: int = 0) -> Fault:
    """Changes an output of every node with this operator."""

    def fault(_: GraphDesc, operator: Operator, results: tuple[Array, ...]) -> tuple[Array, ...]:
        if operator.name != name:
            return results
        return tuple(change(each) if index == port else each for index, each in enumerate(results))

    return fault


def graph() -> dg.Graph:
    g = dg.Graph("g")
    x = g.input("x", sizes=[3, 4], dtype="float32")
    root = dg.sqrt(x, name="root")
    log = dg.log(root, name="log")
    g.output("y", dg.activation_tanh(log, name="y"))
    g.output("z", dg.exp(root, name="z"))
    return g


def compared(g: dg.Graph, device: DeviceName, *, fuse: bool = True, tolerance: int = 0) -> Difference:
    return diff(g, (Side(choose("reference"), fuse), Side(choose(device), fuse)), {"x": X}, tolerance)


def test_equal_sides_have_no_first_node() -> None:
    found = diff(graph(), (Side(choose("reference"), True), Side(choose("cpu"), True)), {"x": X}, 4)
    assert found.equal
    assert (found.first, found.changed) == (None, ())
    assert list(found.outputs) == ["y", "z"]
    assert found.reasons == ("asked for as 'reference'", "asked for as 'cpu'")


@pytest.mark.parametrize("batch", [1, 1000])
@pytest.mark.parametrize(
    ("operator", "node", "wrong"), [("sqrt", "root", {"y", "z"}), ("log", "log", {"y"}), ("exp", "z", {"z"})]
)
def test_the_first_node_that_differs_is_found(
    broken: Any, monkeypatch: pytest.MonkeyPatch, operator: str, node: str, wrong: set[str], batch: int
) -> None:
    monkeypatch.setattr(exposing, "BATCH_VALUES", batch)
    found = compared(graph(), broken(in_operator(operator, next_number((1, 2), 3))), fuse=False)
    assert {name for name, each in found.outputs.items() if not each.equal} == wrong
    assert found.first is not None
    assert (found.first.node, found.first.value, found.first.operators) == (node, node, (operator, operator))
    comparison = found.first.comparison
    assert (comparison.index, comparison.ulp, comparison.differing) == ((1, 2), 3, 1)
    right, fault = comparison.values
    assert fault == next_number((), 3)(np.array(right))
    assert found.first.rules == found.first.origins == ()


@pytest.mark.parametrize("fuse", [False, True])
def test_states_after_a_run_are_compared(broken: Any, fuse: bool) -> None:
    """A node that only the next value of a state needs is found, too."""
    g = dg.Graph("states")
    x = g.input("x", sizes=[3, 4], dtype="float32")
    s = g.state("s", sizes=[3, 4], dtype="float32", initial=1)
    g.update(s, dg.exp(dg.sqrt(x + s, name="root"), name="after"))
    k = g.state("k", sizes=[9, 4], dtype="float32", grows=0)
    g.append(k, x)
    g.output("state s", dg.identity(k))
    found = compared(g, broken(in_operator("sqrt", next_number((1, 2), 3))), fuse=fuse)
    assert list(found.outputs) == ["state s", "state s_1", "state k"]
    assert [each.equal for each in found.outputs.values()] == [True, False, True]
    assert found.first is not None
    assert found.first.node == "root"
    assert diff(g, (Side(choose("reference"), True), Side(choose("cpu"), True)), {"x": X}, 4).equal


def test_the_first_step_that_differs_is_searched(broken: Any) -> None:
    """A fault that shows only for large numbers is found with what the states held before that step."""

    def fault(_: GraphDesc, operator: Operator, results: tuple[Array, ...]) -> tuple[Array, ...]:
        return tuple(each + 1 if operator.name == "sqrt" and each.max() > 3 else each for each in results)

    g = dg.Graph("steps")
    x = g.input("x", sizes=[1], dtype="float32")
    s = g.state("s", sizes=[1], dtype="float32")
    rows = g.state("rows", sizes=[9], dtype="float32", grows=0)
    g.append(rows, s)
    g.update(s, s + x)
    total = dg.reduce(rows, function="sum", axes=[0])
    g.output("y", dg.sqrt(total, name="root"))
    inputs, states = {"x": np.ones(1, np.float32)}, {"s": np.full(1, 2, np.float32)}
    sides = Side(choose("reference"), False), Side(choose(broken(fault)), False)
    found = diff(g, sides, inputs, states=states, steps=9)  # rows: 2, 3, 4, …: their sum is above 9 at first in step 4
    assert (found.step, found.equal) == (4, False)
    assert found.first is not None
    root = np.sqrt(np.float32(2 + 3 + 4 + 5))
    assert (found.first.node, found.first.comparison.values) == ("root", (root, root + 1))
    assert diff(g, sides, inputs, states=states, steps=3).step == 2
    assert diff(g, sides, inputs, states=states, steps=3).equal


def test_what_is_within_the_tolerance_is_passed_over(broken: Any) -> None:
    def fault(_: GraphDesc, operator: Operator, results: tuple[Array, ...]) -> tuple[Array, ...]:
        steps = {"sqrt": 1, "exp": 50}.get(operator.name, 0)
        return tuple(next_number((0, 0), steps)(each) for each in results)

    device = broken(fault)
    strict, loose = (compared(graph(), device, tolerance=tolerance) for tolerance in (0, 8))
    assert strict.first is not None
    assert strict.first.node == "root"
    assert loose.first is not None
    assert loose.first.node == "z"
    assert compared(graph(), device, tolerance=100).equal


def test_a_nan_is_found(broken: Any) -> None:
    def to_nan(array: Array) -> Array:
        return np.where(array == array.max(), np.float32(np.nan), array)

    found = compared(graph(), broken(in_operator("sqrt", to_nan)))
    assert found.first is not None
    assert found.first.comparison.ulp is None
    assert found.first.comparison.index == (2, 3)
    assert np.isnan(found.first.comparison.values[1])


def test_an_output_of_several_is_named(broken: Any) -> None:
    g = dg.Graph("g")
    x = g.input("x", sizes=[3, 4], dtype="float32")
    values, indices = dg.top_k(x, axis=1, k=2, name="top")
    g.output("v", values)
    g.output("i", indices)
    device = broken(in_operator("top_k", lambda array: array + np.uint32(1), port=1))
    found = compared(g, device)
    assert found.outputs["v"].equal
    assert found.first is not None
    assert (found.first.node, found.first.value) == ("top", "top.output_index")
    assert found.first.comparison.differing == 6


def test_a_node_that_differs_only_as_fused_is_told_with_what_it_was_made_of(broken: Any) -> None:
    g = dg.Graph("g")
    x = g.input("x", sizes=[3, 4], dtype="float32")
    w = g.constant("w", np.eye(4, dtype=np.float32))
    g.output("y", dg.activation_relu(dg.gemm(x, w, name="product"), name="y"))

    def fault(_: GraphDesc, operator: Operator, results: tuple[Array, ...]) -> tuple[Array, ...]:
        is_fused = getattr(operator, "fused_activation", None) is not None
        return tuple(next_number((2, 0))(each) for each in results) if is_fused else results

    device = broken(fault)
    assert compared(g, device, fuse=False).equal
    found = compared(g, device)
    assert found.first is not None
    assert (found.first.node, found.first.operators) == ("y", ("gemm", "gemm"))
    assert found.first.sides == (Side(choose("reference"), True), Side(choose("broken"), True))
    assert set(found.first.origins) == {"product", "y"}
    assert found.first.rules == ("fuse_activation",)
    unfused = next(module._pairs(g, found.sides))
    assert not any(side.fuse for side in unfused.sides)


def test_on_one_device_fusing_is_compared_with_not_fusing() -> None:
    g = dg.Graph("g")
    x = g.input("x", sizes=[3, 4], dtype="float32")
    w = g.input("w", sizes=[4, 4], dtype="float32")
    product = dg.gemm(dg.exp(x, name="e"), w, name="product")
    g.output("y", dg.multiply(product, g.fill_value_constant(sizes=[1, 1], dtype="float32", value=0.3), name="y"))
    inputs = {"x": X, "w": np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)}
    found = diff(g, (Side(choose("reference"), False), Side(choose("reference"), True)), inputs)
    assert not found.equal  # fused, the product is rounded one time less
    assert found.first is not None
    assert (found.first.node, found.first.operators) == ("y", ("multiply", "gemm"))
    assert "gemm_scale" in found.first.rules
    assert {"product", "y"} <= set(found.first.origins)
    assert diff(g, found.sides, inputs, found.first.comparison.ulp or 0).equal


def test_what_vanishes_when_values_are_kept_is_told_of_the_side_that_changes(broken: Any) -> None:
    def fault(graph: GraphDesc, operator: Operator, results: tuple[Array, ...]) -> tuple[Array, ...]:
        """A wrong result at the end of a graph that keeps no intermediate values."""
        keeps = len(graph.outputs) == len(graph.nodes)
        wrong = operator.name == "exp" and not keeps
        return tuple(next_number((0, 0))(each) for each in results) if wrong else results

    turned = graph()
    turned.output("turned", turned.outputs["y"].T)  # a view, in another shape than the value
    turned.output("column", dg.log(turned.outputs["z"]).reshape(12, 1))
    for each in (graph(), turned):
        found = compared(each, broken(fault))
        assert not found.equal
        assert found.first is None
        assert found.changed == (Side(choose("broken"), True),)


def test_values_are_kept_in_groups_of_limited_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposing, "BATCH_BYTES", 100)
    values = [(Source(str(index), 0), dg.TensorDesc(dtype="uint32", sizes=[10])) for index in range(5)]
    assert [[source.node for source in batch] for batch in exposing.batches(values)] == [["0", "1"], ["2", "3"], ["4"]]
    large = [(source, dg.TensorDesc(dtype="uint32", sizes=[100])) for source, _ in values[:2]]
    assert [len(batch) for batch in exposing.batches(large)] == [1, 1]


def test_real_directml_is_compared_with_the_reference(directml_path: Any) -> None:
    assert directml_path
    sides = (Side(choose("reference"), False), Side(choose("directml:software"), False))
    assert diff(graph(), sides, {"x": X}, 2**12).equal
    found = diff(graph(), sides, {"x": X}, 4)
    assert found.equal == (found.first is None)
    kept = graph()
    for name in ("root", "log"):
        kept.output(name, kept.value(name))
    ours, theirs = (compile_graph(kept, side.device, fuse=False).run({"x": X}) for side in sides)
    for name in ("root", "log", "y", "z"):
        if found.first is not None and name == found.first.node:
            with pytest.raises(AssertionError):
                np.testing.assert_array_max_ulp(ours[name], theirs[name], 4)
            break
        np.testing.assert_array_max_ulp(ours[name], theirs[name], 4)
