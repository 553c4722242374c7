"""The node that a device computes wrong is found: planted faults on the software adapter, and sound graphs."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.broken_device import make_broken
from support.random_graphs import graph_of

import dmlgraph as dg
from dmlgraph.base.errors import Problem
from dmlgraph.compiler.desc import GraphDesc
from dmlgraph.devices import choose
from dmlgraph.devices.directml import install
from dmlgraph.devices.directml.errors import DirectMLError
from dmlgraph.devices.directml.software import adapter
from dmlgraph.devices.executable import Array
from dmlgraph.devices.names import DeviceName
from dmlgraph.doctor.alone import HELPS, try_alone
from dmlgraph.doctor.bounds import ULPS
from dmlgraph.doctor.cut import cut_node
from dmlgraph.doctor.diagnosis import diagnose
from dmlgraph.doctor.find import find
from dmlgraph.doctor.finding import Finding, Kind
from dmlgraph.doctor.one_node import too_early
from dmlgraph.doctor.runs import most_executions
from dmlgraph.doctor.words import described
from dmlgraph.measure.inputs import complete
from dmlgraph.operators import Operator

DEVICE: DeviceName = "directml:software"
ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the software adapter is that of Linux")


@pytest.fixture(scope="module", autouse=True)
def library() -> Path:
    """DirectML, which is installed once for the module."""
    return Path(str(install.install()))


@pytest.fixture(autouse=True)
def planted(library: Path) -> Iterator[Path]:
    yield library
    if sys.platform == "linux":
        adapter.load().plant_fault("")


def network() -> dg.Graph:
    """A convolution, functions, a sum of two branches and a softmax along its channels."""
    graph = dg.Graph("network")
    x = graph.input("x", sizes=[1, 3, 8, 8], dtype="float32")
    w = graph.constant("w", np.random.default_rng(0).normal(size=(4, 3, 3, 3)).astype(np.float32))
    conv = dg.convolution(x, w, None, start_padding=[1, 1], end_padding=[1, 1], name="conv")
    positive = dg.activation_relu(conv, name="positive")
    decay = dg.exp(dg.negate(positive, name="minus"), name="decay")
    total = dg.add(decay, positive, name="total")
    graph.output("y", dg.activation_softmax1(total.transpose(0, 2, 3, 1), axes=[3], name="share"))
    return graph


X = {"x": np.random.default_rng(1).normal(size=(1, 3, 8, 8)).astype(np.float32)}


def kernels(graph: dg.Graph, node: str) -> list[str]:
    """The kernels of a node alone."""
    values: dict[str, np.ndarray[Any, Any]] = {}
    for each in ("conv", "positive", "minus", "decay", "total", "share"):
        part, given = cut_node(graph, each, {**X, **values})
        adapter.load().plant_fault("log")
        with part.compile(DEVICE, fuse=False) as executable:
            values[each] = executable.run(given)[each].copy()
        found = adapter.load().dispatched()
        if each == node:
            return found
    raise AssertionError(node)


@pytest.fixture(scope="module")
def kernel_of(library: Path) -> dict[str, str]:
    assert library
    return {node: kernels(network(), node)[0] for node in ("conv", "positive", "decay", "total")}


def found(fault: str, *, fuse: bool = False) -> Finding:
    adapter.load().plant_fault(fault)
    finding = find(network(), DEVICE, X, fuse=fuse)
    assert finding.executions <= most_executions(7)
    return finding


@ON_LINUX
@pytest.mark.parametrize(
    ("node", "what", "kind", "differing"),
    [
        ("conv", "element,float32", Kind.FAULT, None),  # others are rounded otherwise
        ("positive", "ulp,float32", Kind.FAULT, 256),
        ("total", "row=8,float32", Kind.FAULT, 8),
        ("total", "ulp,float32", Kind.FAULT, 256),
        ("total", "nan,float32", Kind.NOT_FINITE, 1),
        ("decay", "random,float32", Kind.UNSTABLE, None),
    ],
)
def test_a_fault_is_named(kernel_of: dict[str, str], node: str, what: str, kind: Kind, differing: int | None) -> None:
    finding = found(f"kernel={kernel_of[node]},{what}")
    assert (finding.kind, finding.node, finding.group) == (kind, node, ())
    assert finding.measures is not None
    assert differing is None or finding.measures.differing == differing


@ON_LINUX
def test_what_is_read_before_it_is_written_is_told_from_a_wrong_reader(kernel_of: dict[str, str]) -> None:
    finding = found(f"kernel={kernel_of['decay']},late")
    assert (finding.node, finding.group) == ("decay", ("decay", "total"))
    assert finding.why == too_early("total", "decay")


@ON_LINUX
def test_a_late_write_that_changes_last_bits_only_is_named() -> None:
    """A softmax that reads the old scores for its maximum gives nearly the same, but not the same at each run."""
    graph = dg.load(Path(__file__).parents[2] / "examples" / "causal_attention" / "causal_attention.yaml")
    inputs, _ = complete(graph, {}, seed=4)
    planted = adapter.load()
    planted.plant_fault("log")
    with graph.compile(DEVICE) as executable:
        executable.run(inputs)
    planted.plant_fault(f"kernel={planted.dispatched()[0]},late")
    finding = find(graph, DEVICE, inputs)
    assert (finding.kind, finding.node, finding.group) == (Kind.UNSTABLE, "score", ("score", "weights"))
    assert finding.why == too_early("weights", "score")
    assert finding.executions <= most_executions(7)
    assert finding.measures is not None
    assert finding.measures.normalised < 1e-6


@ON_LINUX
def test_a_node_that_is_wrong_only_behind_another_one_is_named() -> None:
    """Alone, the softmax reads another layout, with other kernels."""
    planted = adapter.load()
    planted.plant_fault("log")
    with network().compile(DEVICE, fuse=False) as executable:
        executable.run(X)
    finding = found(f"kernel={planted.dispatched()[-2]},row=8,float32")
    assert (finding.kind, finding.node, finding.group) == (Kind.FAULT, "share", ("total", "share"))
    assert finding.why == "it is right when it reads an input of the graph, and wrong behind 'total'"


@ON_LINUX
def test_a_fault_of_fused_nodes_names_them_and_the_rule() -> None:
    planted = adapter.load()
    planted.plant_fault("log")
    with network().compile(DEVICE) as executable:
        executable.run(X)
    finding = found(f"kernel={planted.dispatched()[0]},element,float32", fuse=True)
    assert (finding.kind, finding.node, finding.group) == (Kind.FAULT, "positive", ("conv", "positive"))
    assert len(finding.rules) == 1
    assert list(finding.inputs) == ["x"]


@ON_LINUX
def test_the_case_of_a_finding_fails_alone(kernel_of: dict[str, str]) -> None:
    finding = found(f"kernel={kernel_of['total']},row=8,float32")
    values = {"decay": finding.inputs["a"], "positive": finding.inputs["b"]}
    part, inputs = cut_node(network(), "total", values)
    with part.compile(DEVICE) as executable:
        got = executable.run(inputs)["total"]
    np.testing.assert_array_equal(got, finding.got[0])
    np.testing.assert_array_equal(inputs["a"] + inputs["b"], finding.expected[0])
    assert np.count_nonzero(got != finding.expected[0]) == 8


def test_differences_that_grow_are_nobodys_fault() -> None:
    """The difference of e^x from its rounded value is noise, which a factor makes large."""
    graph = dg.Graph("cancels")
    x = graph.input("x", sizes=[64], dtype="float32")
    data = np.linspace(-3, 3, 64, dtype=np.float32)
    rounded = graph.constant("rounded", np.exp(data.astype(np.float64)).astype(np.float32))
    noise = dg.subtract(dg.exp(x, name="e"), rounded, name="noise")
    graph.output("y", dg.multiply(noise, 1e6, name="large"))
    finding = find(graph, "cpu", {"x": data})
    assert (finding.kind, finding.node) == (Kind.AMPLIFICATION, None)
    assert "'noise'" in finding.why


def chain(length: int, sine: int) -> dg.Graph:
    """Products one after another, and a sine between them."""
    graph = dg.Graph("chain")
    value = graph.input("x", sizes=[8], dtype="float32")
    for index in range(length):
        name = f"n{index}"
        value = dg.sin(value, name=name) if index == sine else dg.multiply(value, 1.25 * (-1) ** index, name=name)
    graph.output("y", value)
    return graph


@pytest.mark.parametrize("at", [1, 6, 19])
def test_two_nodes_that_are_wrong_as_one_are_found(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the device ran the sine and the node before as one, unless the value between is an output."""

    def fault(graph: GraphDesc, operator: Operator, results: tuple[Array, ...]) -> tuple[Array, ...]:
        before = f"n{at - 1}"
        is_one = before in {node.name for node in graph.nodes} - {output.name for output in graph.outputs}
        wrong = is_one and operator.name == "sin"
        return (np.where(np.arange(8) == 3, 7, results[0]).astype(np.float32),) if wrong else results

    device: Any = make_broken(monkeypatch, fault)
    finding = find(chain(20, at), device, {"x": np.linspace(-1, 1, 8, dtype=np.float32)}, fuse=False)
    assert (finding.kind, finding.node, finding.group) == (Kind.FAULT, f"n{at}", (f"n{at - 1}", f"n{at}"))
    assert finding.executions <= most_executions(20)
    assert finding.got[0][3] == 7
    assert finding.measures is not None
    assert finding.measures.differing == 1


def test_a_change_of_last_bits_that_an_output_heals_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sine is a bit off in the first run of an executable, unless the value before it is an output."""
    monkeypatch.setitem(ULPS, "broken", 16)
    ran: list[GraphDesc] = []

    def fault(graph: GraphDesc, operator: Operator, results: tuple[Array, ...]) -> tuple[Array, ...]:
        if operator.name != "sin" or any(each is graph for each in ran):
            return results
        ran.append(graph)
        is_output = "n4" in {output.name for output in graph.outputs}
        return results if is_output else (np.nextafter(results[0], np.float32(9)),)

    device: Any = make_broken(monkeypatch, fault)
    finding = find(chain(20, 5), device, {"x": np.linspace(-1, 1, 8, dtype=np.float32)}, fuse=False)
    assert (finding.kind, finding.node, finding.group) == (Kind.UNSTABLE, "n4", ("n4", "n19"))
    assert finding.why == "the results change, but not while 'n4' is an output: something reads it before it is there"
    assert finding.executions <= most_executions(20)


@pytest.mark.parametrize(
    ("seed", "focus"),
    [
        (3, "everything"),
        (11, "everything"),
        (17, "everything"),
        (201, "everything"),  # a fused RELU keeps the NaN of a negative variance
        (1000940, "products"),  # one makes NaN of −∞
        (4000009, "constants"),  # the scale of an arc tangent is NaN
        (4000596, "everything"),  # the power of an infinite exponent has the other sign
        (1000569, "quantized"),  # a mean is a half, but for its last bits
    ],
)
@pytest.mark.parametrize("device", ["cpu", pytest.param("directml:software", marks=ON_LINUX)])
def test_no_sound_graph_is_accused(seed: int, focus: str, device: str) -> None:
    sample = graph_of(seed, focus)
    with np.errstate(all="ignore"):
        finding = find(sample.graph, "cpu" if device == "cpu" else DEVICE, sample.inputs)
    assert finding.kind in (Kind.SOUND, Kind.AMPLIFICATION)
    assert finding.node is None


@pytest.mark.parametrize("name", ["moving_average", "random_numbers"])
def test_a_graph_with_states_is_examined_in_its_first_step(name: str) -> None:
    graph = dg.load(Path(__file__).parents[2] / "examples" / f"{name}.yaml")
    inputs, _ = complete(graph, {})
    assert find(graph, "cpu", inputs).kind is Kind.SOUND


@ON_LINUX
def test_a_lost_device_is_found(kernel_of: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    graph = dg.Graph("short")
    x = graph.input("x", sizes=[1, 4, 8, 8], dtype="float32")
    graph.output("y", dg.negate(dg.exp(x, name="decay"), name="last"))
    monkeypatch.setenv("DMLGRAPH_SOFTWARE_FAULT", f"kernel={kernel_of['decay']},remove")
    finding = find(graph, DEVICE, {"x": np.zeros((1, 4, 8, 8), np.float32)}, fuse=False, time_limit=100)
    assert (finding.kind, finding.node, finding.group) == (Kind.LOST, "decay", ())
    removed, helps = finding.why.splitlines()
    assert removed == "the device was removed: DXGI_ERROR_DEVICE_HUNG (0x887A0006)"
    assert helps == HELPS[Kind.LOST]
    assert finding.executions <= most_executions(2)


@ON_LINUX
def test_a_try_that_does_not_end_is_killed(kernel_of: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    graph = dg.Graph("short")
    graph.output("y", dg.exp(graph.input("x", sizes=[1, 4, 8, 8], dtype="float32"), name="decay"))
    choice = choose(DEVICE)  # before the fault, which is for the other process
    monkeypatch.setenv("DMLGRAPH_SOFTWARE_FAULT", f"kernel={kernel_of['decay']},hang")
    ended = try_alone(graph, choice, {"x": np.zeros((1, 4, 8, 8), np.float32)}, fuse=False, seconds=8)
    assert ended is not None
    assert ended[0] is Kind.HANG
    assert ended[1].startswith("no end after 8 s: the process was killed")


def test_a_refusal_names_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: GraphDesc, operator: Operator, results: tuple[Array, ...]) -> tuple[Array, ...]:
        if operator.name == "sin":
            raise DirectMLError(Problem("DirectML refuses this node", code="refused", node="n2"))
        return results

    device: Any = make_broken(monkeypatch, refuse)
    finding = find(chain(4, 2), device, {"x": np.zeros(8, np.float32)}, fuse=False)
    assert (finding.kind, finding.node) == (Kind.REFUSED, "n2")
    assert "DirectML refuses this node" in finding.why


@pytest.mark.parametrize("right", ["reference", "cpu"])
def test_another_device_may_be_right(right: DeviceName, monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(_: GraphDesc, operator: Operator, results: tuple[Array, ...]) -> tuple[Array, ...]:
        return (results[0] * np.float32(1.01),) if operator.name == "sin" else results

    device: Any = make_broken(monkeypatch, fault)
    finding = find(chain(9, 5), device, {"x": np.linspace(-1, 1, 8, dtype=np.float32)}, against=right, fuse=False)
    assert (finding.kind, finding.node, finding.group) == (Kind.FAULT, "n5", ())
    np.testing.assert_allclose(finding.got[0], np.sin(finding.inputs["input"]) * 1.01, rtol=1e-5)


def test_a_process_of_its_own_has_the_same_permissions(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def ask(request: dict[str, str], **_: Any) -> dict[str, None]:
        asked.append(pickle.loads(Path(request["case"]).read_bytes())[1:])
        return {"code": None}

    monkeypatch.setattr("dmlgraph.doctor.alone.ask", ask)
    choice = choose("cpu", metacommands=False, half_precision=True)
    assert try_alone(dg.Graph("g"), choice, {}, fuse=False, seconds=8) is None
    assert asked == [("cpu", {}, {"fuse": False, "metacommands": False, "half_precision": True})]


def hidden(graph: GraphDesc, names: set[str]) -> bool:
    """Whether nodes of these names are all in a graph, and none of them is an output."""
    return names <= {node.name for node in graph.nodes} - {output.name for output in graph.outputs}


@pytest.mark.parametrize(("first", "last"), [(3, 5), (8, 8), (2, 11)])
def test_several_nodes_that_are_wrong_as_one_are_found(first: int, last: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the device ran the sine and the nodes before as one, unless one of the values between is an output."""
    inside = {f"n{index}" for index in range(first, last + 1)}

    def fault(graph: GraphDesc, operator: Operator, results: tuple[Array, ...]) -> tuple[Array, ...]:
        is_wrong = operator.name == "sin" and hidden(graph, inside)
        return (np.where(np.arange(8) == 3, 7, results[0]).astype(np.float32),) if is_wrong else results

    device: Any = make_broken(monkeypatch, fault)
    finding = find(chain(20, last + 1), device, {"x": np.linspace(-1, 1, 8, dtype=np.float32)}, fuse=False)
    group = tuple(f"n{index}" for index in range(first, last + 2))
    assert (finding.kind, finding.node, finding.group) == (Kind.FAULT, f"n{last + 1}", group)
    assert finding.got[0][3] == 7
    assert finding.executions <= 2 * most_executions(20)


@pytest.mark.parametrize(("first", "last"), [(3, 3), (4, 6), (17, 17), (0, 0)])
def test_a_fault_that_vanishes_when_values_are_outputs(first: int, last: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that values share: it is wrong in the whole graph alone, and right once one of them is an output."""
    inside, all_nodes = {f"n{index}" for index in range(first, last + 1)}, {f"n{index}" for index in range(20)}

    def fault(graph: GraphDesc, operator: Operator, results: tuple[Array, ...]) -> tuple[Array, ...]:
        is_wrong = operator.name == "sin" and hidden(graph, inside) and all_nodes <= {each.name for each in graph.nodes}
        return (np.where(np.arange(8) == 3, 7, results[0]).astype(np.float32),) if is_wrong else results

    device: Any = make_broken(monkeypatch, fault)
    finding = find(chain(20, last + 1), device, {"x": np.linspace(-1, 1, 8, dtype=np.float32)}, fuse=False)
    assert (finding.kind, finding.node) == (Kind.VANISHING, None)
    assert finding.group == tuple(f"n{index}" for index in range(first, last + 2))
    assert finding.why.splitlines()[0] == f"the outputs are right once what 'n{first}' computes is an output, too"
    assert finding.outputs["y"].differing == 1
    assert finding.executions <= 2 * most_executions(20)


def test_one_wrong_element_of_many_is_no_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    """It vanishes when values are outputs, and the normalised error of the output hardly shows it."""
    graph = dg.Graph("wide")
    x = graph.input("x", sizes=[1 << 16], dtype="float32")
    graph.output("y", dg.negate(dg.sin(dg.multiply(x, 1.25, name="m"), name="s"), name="last"))

    def fault(graph: GraphDesc, operator: Operator, results: tuple[Array, ...]) -> tuple[Array, ...]:
        is_wrong = operator.name == "sin" and hidden(graph, {"m"}) and len(graph.nodes) > 3
        return (results[0] + (np.arange(1 << 16) == 99) * np.float32(0.01),) if is_wrong else results

    device: Any = make_broken(monkeypatch, fault)
    finding = find(graph, device, {"x": np.linspace(-1, 1, 1 << 16, dtype=np.float32)}, fuse=False)
    assert (finding.kind, finding.group) == (Kind.VANISHING, ("m", "s"))
    assert finding.outputs["y"].normalised < 1e-4


@pytest.mark.parametrize("grows", [None, 0])
def test_a_fault_in_the_next_value_of_a_state(grows: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The outputs are right, and so are all values as soon as the one before is an output."""
    graph = dg.Graph("keeps")
    x = graph.input("x", sizes=[2, 8], dtype="float32")
    kept = graph.state("kept", sizes=[2 if grows is None else 6, 8], dtype="float32", grows=grows)
    (graph.update if grows is None else graph.append)(kept, dg.sin(dg.multiply(x, 1.25, name="m"), name="s"))
    graph.output("y", dg.negate(x, name="n"))

    def fault(graph: GraphDesc, operator: Operator, results: tuple[Array, ...]) -> tuple[Array, ...]:
        is_wrong = operator.name == "sin" and hidden(graph, {"m"}) and "n" in {each.name for each in graph.nodes}
        return (results[0] + (np.arange(8) == 3) * np.float32(0.5),) if is_wrong else results

    device: Any = make_broken(monkeypatch, fault)
    inputs = {"x": np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8)}
    finding = find(graph, device, inputs, fuse=False)
    assert (finding.kind, finding.group) == (Kind.VANISHING, ("m", "s"))
    assert {name: each.differing for name, each in finding.outputs.items()} == {"y": 0, "kept.next": 2}
    assert "  next value 'kept.next':" in described(graph, finding)
    treatment = diagnose(graph, finding.nodes, inputs, choose(device), fuse=False).treatment
    assert treatment is not None
    assert treatment.before.is_wrong


def products() -> dg.Graph:
    """Products with functions between, whose values need memory in turn."""
    graph = dg.Graph("products")
    x = value = graph.input("x", sizes=[1, 1, 8, 8], dtype="float32")
    w = graph.constant("w", np.random.default_rng(0).normal(size=(1, 1, 8, 8)).astype(np.float32) / 3)
    for index in range(6):
        value = dg.tanh(dg.gemm(value, w, name=f"p{index}"), name=f"t{index}")
    graph.output("y", dg.add(value, x, name="sum"))
    return graph


@ON_LINUX
def test_a_fault_in_memory_that_values_share_vanishes_when_they_are_outputs() -> None:
    x = {"x": np.random.default_rng(1).normal(size=(1, 1, 8, 8)).astype(np.float32)}
    planted = adapter.load()
    planted.plant_fault("log")
    with products().compile(DEVICE, fuse=False) as executable:
        executable.run(x)
    product = planted.dispatched()[0]
    planted.plant_fault(f"kernel={product},dispatch=4,reused,row=8,float32")
    finding = find(products(), DEVICE, x, fuse=False)
    assert (finding.kind, finding.node) == (Kind.VANISHING, None)
    assert "p3" in finding.group  # the fourth product
    assert finding.outputs["y"].normalised > 1e-3
    found = diagnose(products(), finding.group, x, choose(DEVICE), fuse=False).treatment
    assert found is not None
    assert found.before.is_wrong
    assert found.advised is not None
    assert found.detoured is not None
    with found.detoured.compile(DEVICE, fuse=False) as executable:
        got = executable.run(x)["y"]
    np.testing.assert_allclose(got, products().compile("reference").run(x)["y"], 1e-5, 1e-5)


@ON_LINUX
def test_what_the_same_graph_left_in_memory_hides_no_late_write() -> None:
    """Scores that come too late were read from memory in which the run before had left the same."""
    graph = dg.load(Path(__file__).parents[2] / "examples" / "causal_attention" / "causal_attention.yaml")
    inputs, _ = complete(graph, {}, seed=4)
    planted = adapter.load()
    with graph.compile(DEVICE) as executable:
        planted.plant_fault("log")
        executable.run(inputs)
        late = planted.dispatched()[1]  # inside the softmax
        planted.plant_fault("")
        executable.run(inputs)
        planted.plant_fault(f"kernel={late},late")
        finding = find(graph, DEVICE, inputs)
    assert (finding.kind, finding.node) == (Kind.UNSTABLE, "weights")


def test_results_that_depend_on_what_memory_held_are_said_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the graph were right by chance when all values were outputs: not again with those that nodes compute."""

    def fault(graph: GraphDesc, operator: Operator, results: tuple[Array, ...]) -> tuple[Array, ...]:
        is_right = operator.name != "sin" or len(graph.outputs) > 9
        return results if is_right else (results[0] + np.float32(1),)

    device: Any = make_broken(monkeypatch, fault)
    finding = find(chain(9, 4), device, {"x": np.linspace(-1, 1, 8, dtype=np.float32)}, fuse=False)
    assert (finding.kind, finding.node, finding.group) == (Kind.UNSTABLE, None, ())
    assert "what memory held before" in finding.why
