"""Which nodes DirectML refuses: the search on planted and real refusals, its bounds, and that only these start it."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from support.random_graphs import graph_of

import dmlgraph as dg
from dmlgraph import _native
from dmlgraph.cli.commands import main
from dmlgraph.compiler.desc import GraphDesc, IntermediateEdge, OperatorDescNode
from dmlgraph.compiler.lowering import lower
from dmlgraph.devices.directml import device as directml_module
from dmlgraph.devices.directml import refusal
from dmlgraph.devices.directml.device import DirectMLDevice, DirectMLExecutable
from dmlgraph.devices.directml.errors import DeviceRemovedError, DirectMLError
from dmlgraph.devices.directml.refusal import MAX_NAMED, Refusal, explained, find, part_of
from dmlgraph.devices.reference import ReferenceDevice

Array = np.ndarray[Any, Any]
E_INVALIDARG = 0x80070057


@pytest.fixture(autouse=True)
def sizes_as_readers_state_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switches a workaround off, so that DirectML refuses consumers that state less than a buffer's size."""
    monkeypatch.setattr(directml_module, "buffer_bytes", lambda graph: [{} for _ in graph.nodes])


def operator_nodes(graph: GraphDesc) -> list[int]:
    return [index for index, node in enumerate(graph.nodes) if isinstance(node, OperatorDescNode)]


def names(graph: GraphDesc) -> set[str]:
    return {graph.nodes[index].name for index in operator_nodes(graph)}


def grid(rows: int, columns: int) -> GraphDesc:
    """Rows of element-wise nodes; each reads the one before, and every third one the row above.  All are different."""
    g = dg.Graph("grid")
    x = g.input("x", sizes=[1, 4], dtype="float32")
    above: list[dg.Value] = []
    for row in range(rows):
        value, current = x, []
        for column in range(columns):
            bounds: dict[str, Any] = {"min": -1.0, "max": 1.0 + row * columns + column}
            value = dg.clip(value, **bounds, name=f"n{row}_{column}")
            if above and column % 3 == 0:
                value = dg.add(value, above[column], name=f"a{row}_{column}")
            current.append(value)
        above = current
        g.output(f"y{row}", value)
    return lower(g)


def connected_nodes(graph: GraphDesc, count: int, seed: int) -> set[str]:
    """The names of `count` connected nodes."""
    links: dict[int, set[int]] = {index: set() for index in operator_nodes(graph)}
    for edge in graph.intermediate_edges:
        if edge.from_node in links:
            links[edge.from_node].add(edge.to_node)
            links[edge.to_node].add(edge.from_node)
    dice = random.Random(seed)
    found = {dice.choice(sorted(links))}
    while len(found) < count:
        around = sorted(set().union(*(links[node] for node in found)) - found)
        if not around:
            break
        found.add(dice.choice(around))
    return {graph.nodes[index].name for index in found}


class TestSearch:
    """On planted refusals: a part is refused if it contains certain nodes."""

    @pytest.mark.parametrize("seed", range(60))
    def test_what_was_planted_is_found(self, seed: int) -> None:
        graph = grid(1 + seed % 5, 2 + seed % 17)
        planted = connected_nodes(graph, 1 + seed % 6, seed)
        asked: list[GraphDesc] = []

        def refuses(part: GraphDesc) -> bool:
            asked.append(part)
            return planted <= names(part)

        found = find(graph, refuses)
        assert {node.name for node in found.nodes} == planted
        assert found.is_smallest
        assert found.compilations == len(asked)
        assert len({str(part) for part in asked}) == len(asked)  # nothing is compiled twice

    @pytest.mark.parametrize("seed", range(80))
    def test_random_graphs(self, seed: int) -> None:
        graph = lower(graph_of(seed).graph)
        if len(operator_nodes(graph)) < 2:
            return
        planted = connected_nodes(graph, 2 + seed % 4, seed)
        if len(planted) == 1:  # a single node represents all equal ones
            return
        found = find(graph, lambda part: planted <= names(part))
        assert found.is_smallest
        assert {node.name for node in found.nodes} == planted

    def test_two_readers_of_one_value_are_connected(self) -> None:
        g = dg.Graph("readers")
        x = g.input("x", sizes=[4], dtype="float32")
        for number, function in enumerate((dg.exp, dg.abs, dg.sin)):
            g.output(f"y{number}", dg.tanh(function(dg.identity(x, name=f"x{number}") if number == 1 else x)))
        found = find(lower(g), lambda part: {"exp", "sin"} <= names(part))
        assert [node.name for node in found.nodes] == ["exp", "sin"]

    def test_parts_that_share_nothing_are_named_as_a_whole(self) -> None:
        g = dg.Graph("apart")
        for number in range(2):
            g.output(f"y{number}", dg.abs(dg.exp(g.input(f"x{number}", sizes=[4 + number], dtype="float32"))))
        graph = lower(g)
        found = find(graph, lambda part: len(names(part)) == 4)
        assert len(found.nodes) == 4
        assert not found.is_smallest

    def test_nodes_that_are_alike_are_compiled_once_by_themselves(self) -> None:
        g = dg.Graph("alike")
        x = g.input("x", sizes=[4], dtype="float32")
        for _ in range(300):
            x = dg.negate(x)
        g.output("y", x)
        sizes: list[int] = []

        def refuses(part: GraphDesc) -> bool:
            sizes.append(len(part.nodes))
            return {"negate_100", "negate_101"} <= names(part)

        found = find(lower(g), refuses)
        assert [node.name for node in found.nodes] == ["negate_100", "negate_101"]
        assert sizes.count(1) == 1
        assert len(sizes) < 60

    @pytest.mark.parametrize("bound", [0, 1, 5, 20])
    def test_compilations_are_bounded(self, bound: int) -> None:
        graph = grid(5, 9)
        planted = connected_nodes(graph, 6, 1)
        asked: list[GraphDesc] = []

        def refuses(part: GraphDesc) -> bool:
            asked.append(part)
            return planted <= names(part)

        found = find(graph, refuses, compilations=bound)
        assert len(asked) == found.compilations == bound
        assert not found.is_smallest
        assert planted <= {node.name for node in found.nodes}

    def test_so_is_time(self) -> None:
        found = find(grid(2, 3), lambda _: True, seconds=-1)
        assert (found.compilations, found.is_smallest) == (0, False)

    @pytest.mark.parametrize("error", [KeyboardInterrupt, DeviceRemovedError("gone")])
    def test_what_is_raised_ends_it(self, error: Any) -> None:
        def refuses(_: GraphDesc) -> bool:
            raise error

        with pytest.raises(error if isinstance(error, type) else type(error)):
            find(grid(2, 3), refuses)


@pytest.mark.parametrize("seed", range(60))
def test_a_part_computes_what_the_whole_does(seed: int) -> None:
    """A part of a random graph, run on the whole graph's values at the cut."""
    sample = graph_of(seed)
    whole = lower(sample.graph)
    chosen = operator_nodes(whole)
    if not chosen:
        return
    dice = random.Random(seed)
    part = part_of(whole, dice.sample(chosen, dice.randint(1, len(chosen))))
    everything = part_of(whole, chosen)
    assert names(everything) == names(whole)
    values = {**sample.inputs, **{slot.name: slot.data for slot in whole.inputs if slot.data is not None}}
    for node in chosen:  # each alone, so that every intermediate value is known
        alone = part_of(whole, [node])
        values |= _run(alone, values)
    for name, value in _run(part, values).items():
        np.testing.assert_array_equal(value, values[name])


def _run(part: GraphDesc, values: dict[str, Array]) -> dict[str, Array]:
    """The outputs of a part, named by node and port."""
    named = [f"{part.nodes[edge.from_node].name}.{edge.from_port}" for edge in part.output_edges]
    outputs = tuple(dataclasses.replace(slot, name=name) for slot, name in zip(part.outputs, named, strict=True))
    executable = ReferenceDevice().compile(dataclasses.replace(part, outputs=outputs), reason="test")
    given = {slot.name: np.asarray(values[slot.name]) for slot in part.inputs if slot.elements is None}
    return executable.run(given)


# On the real DirectML.


def torn(make: Callable[[dg.Graph], None], producer: str, reader: str) -> GraphDesc:
    """A graph in which a node reads any other node's output instead of its only input."""
    g = dg.Graph("torn")
    make(g)
    graph = lower(g)
    index = {node.name: place for place, node in enumerate(graph.nodes)}
    inputs = tuple(edge for edge in graph.input_edges if edge.to_node != index[reader])
    intermediate = (*graph.intermediate_edges, IntermediateEdge(index[producer], 0, index[reader], 0))
    return dataclasses.replace(graph, input_edges=inputs, intermediate_edges=intermediate)


def mismatched(g: dg.Graph) -> None:
    """`reader` expects float16 and reads the float32 of `producer`; DirectML refuses that in any graph."""
    x = g.input("x", sizes=[2, 4], dtype="float32")
    steps = g.fill_value_sequence(sizes=[2, 4], dtype="float32", value_start=1, value_delta=1, name="steps")
    produced = dg.activation_relu(dg.tanh(x + steps, name="before"), name="producer")
    g.output("s", dg.sin(produced, name="beside") * steps)
    y = g.input("y", sizes=[2, 4], dtype="float16")
    read = dg.abs(y, name="reader")
    half = g.fill_value_sequence(sizes=[2, 4], dtype="float16", value_start=0, value_delta=1, name="half")
    g.output("t", dg.identity(read, name="behind") + half)
    g.output("half", half)


def test_the_error_names_the_nodes(directml: DirectMLDevice) -> None:
    """Sequences are nearby: a part that makes DirectML end the process would end this one."""
    with pytest.raises(DirectMLError) as caught:
        directml.compile(torn(mismatched, "producer", "reader"), reason="test")
    error = caught.value
    assert error.nodes == ("producer", "reader")
    assert (error.call, error.hresult, error.graph) == ("CompileGraph", E_INVALIDARG, "torn")
    assert error.problems[0].message == (
        "CompileGraph failed with E_INVALIDARG (0x80070057): "
        "DirectML refuses 'producer', 'reader' together, but no smaller part of them"
    )
    assert [(problem.node, problem.message) for problem in error.problems[1:]] == [
        ("producer", "one of the refused nodes: ACTIVATION_RELU"),
        ("reader", "one of the refused nodes: ELEMENT_WISE_ABS"),
    ]
    assert error.hint


def native_refuses(device: DirectMLDevice, graph: GraphDesc) -> bool:
    native = _native.Device(device.runtime.library, device.adapter)
    try:
        native.try_compile(directml_module._native_graph(graph))
    except DirectMLError as error:
        return (error.call, error.hresult) == ("CompileGraph", E_INVALIDARG)
    return False


def test_a_refusal_of_the_library_itself(directml: DirectMLDevice) -> None:
    """A node, a part of its result, and an element-wise consumer of that, given unchanged to the library."""
    g = dg.Graph("window")
    x = g.input("x", sizes=[4, 8], dtype="float32")
    value = dg.activation_relu(dg.tanh(x))
    window: dict[str, Any] = {
        "input_window_offsets": [0, 0], "input_window_sizes": [4, 4], "input_window_strides": [1, 1],
    }
    g.output("y", dg.activation_sigmoid(dg.exp(dg.slice1(value, **window))))
    g.output("z", dg.sin(x))
    graph = g.lower()
    assert native_refuses(directml, graph)
    found = find(graph, lambda part: native_refuses(directml, part))
    assert found.is_smallest
    assert {node.name for node in found.nodes} == {"activation_relu", "exp"}
    assert native_refuses(directml, part_of(graph, [0, 1, 2, 3]))


def test_nothing_is_looked_for_where_all_is_well(directml: DirectMLDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any, **__: Any) -> Refusal:
        raise AssertionError("there was no refusal")

    monkeypatch.setattr(directml_module, "find", never)
    g = dg.Graph("fine")
    g.output("y", dg.exp(g.input("x", sizes=[4], dtype="float32")))
    directml.compile(lower(g), reason="test").close()
    with pytest.raises(AssertionError):
        directml.compile(torn(mismatched, "producer", "reader"), reason="test")


def test_an_interrupt_ends_the_search(directml: DirectMLDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> Refusal:
        raise KeyboardInterrupt

    monkeypatch.setattr(refusal, "part_of", interrupted)
    with pytest.raises(KeyboardInterrupt):
        directml.compile(torn(mismatched, "producer", "reader"), reason="test")


def test_a_device_that_is_removed_leaves_the_refusal(directml: DirectMLDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search uses a device of its own.  Where an adapter has only one, other executables lose it, too."""
    g = dg.Graph("other")
    g.output("y", dg.exp(g.input("x", sizes=[4], dtype="float32")))
    other = directml.compile(lower(g), reason="test")
    original = refusal.find

    def removing(graph: GraphDesc, refuses: Callable[[GraphDesc], bool]) -> Refusal:
        (cell,) = (each for each in refuses.__closure__ or () if isinstance(each.cell_contents, _native.Device))
        cell.cell_contents.remove()
        return original(graph, refuses)

    monkeypatch.setattr(directml_module, "find", removing)
    with pytest.raises(DirectMLError) as caught:
        directml.compile(torn(mismatched, "producer", "reader"), reason="test")
    assert str(caught.value).startswith("graph 'torn': CompileGraph failed with E_INVALIDARG (0x80070057)")
    if other._device.lost:
        assert os.environ["DMLGRAPH_SOFTWARE_STRICT"] != "validation"
        other = directml.compile(lower(g), reason="test")
    np.testing.assert_array_equal(other.run({"x": np.zeros(4, np.float32)})["y"], np.ones(4, np.float32))


# The message.

FAILED = DirectMLError(
    "CompileGraph failed with E_X\nthe debug layer says so", call="CompileGraph", graph="g", hint="h"
)


def refusal_of(count: int, *, is_smallest: bool = True) -> Refusal:
    graph = grid(1, count)
    nodes = tuple(node for node in graph.nodes if isinstance(node, OperatorDescNode))
    return Refusal(nodes, is_smallest, 9)


def test_a_single_node_is_the_error_s_own() -> None:
    error = explained(FAILED, refusal_of(1))
    assert (error.node, error.nodes, error.graph, error.call) == ("n0_0", ("n0_0",), "g", "CompileGraph")
    (problem,) = error.problems
    assert problem.message == (
        "CompileGraph failed with E_X: DirectML refuses this ELEMENT_WISE_CLIP by itself\nthe debug layer says so"
    )
    assert problem.hint == "h"


def test_many_nodes_are_counted() -> None:
    error = explained(FAILED, refusal_of(MAX_NAMED + 4))
    assert len(error.problems) == 1 + MAX_NAMED
    assert len(error.nodes) == MAX_NAMED + 4
    assert "and 4 more together" in error.problems[0].message


def test_a_search_that_was_ended_says_so() -> None:
    message = explained(FAILED, refusal_of(3, is_smallest=False)).problems[0].message
    assert "DirectML refuses a part of 'n0_0', 'n0_1', 'n0_2': 9 compilations did not find a smaller part" in message


FILE = """\
dmlgraph: 1
name: placed
inputs:
  x: {dtype: float32, sizes: [2, 4]}
nodes:
  first: {op: tanh, input: x}
  second: {op: activation_sigmoid, input: first}
  third: {op: exp, input: second}
outputs: [third]
"""


@pytest.mark.usefixtures("directml_path")
def test_places_in_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    """The graph is broken between the passes and the library, which really refuses it."""
    path = tmp_path / "placed.yaml"
    path.write_text(FILE, encoding="utf-8")
    native_graph = directml_module._native_graph

    def torn_graph(graph: GraphDesc) -> Any:
        nodes = list(graph.nodes)
        for index, node in enumerate(nodes):
            if node.name == "second" and isinstance(node, OperatorDescNode):
                half = {field: desc.like(dtype=dg.DataType.FLOAT16) for field, desc in _descs(node).items()}
                nodes[index] = OperatorDescNode("second", node.operator.replace(**half))
        return native_graph(dataclasses.replace(graph, nodes=tuple(nodes)))

    monkeypatch.setattr(directml_module, "_native_graph", torn_graph)
    with pytest.raises(DirectMLError) as caught:
        dg.load(path).compile("directml:software")
    error = caught.value
    assert error.call == "CompileGraph"
    assert error.nodes
    places = {problem.node: problem.location for problem in error.problems[1:]}
    lines = {"first": 6, "second": 7, "third": 8}
    assert "second" in places
    for name, place in places.items():
        assert place is not None
        assert (place.file, place.line) == (str(path), lines[str(name)])
    result = CliRunner().invoke(main, ["bench", str(path), "--device", "directml:software"])
    assert result.exit_code == 1
    assert f"{path}:7:3: error[refused]: node 'second': one of the refused nodes: ACTIVATION_SIGMOID" in result.stderr


def _descs(node: OperatorDescNode) -> dict[str, Any]:
    fields = (*node.operator.input_fields, *node.operator.output_fields)
    return {field: getattr(node.operator, field) for field in fields}


def test_the_executable_itself_searches_for_nothing(directml: DirectMLDevice) -> None:
    """The device searches; the executable's own error names the graph only."""
    with pytest.raises(DirectMLError) as caught:
        DirectMLExecutable(
            torn(mismatched, "producer", "reader"),
            "test",
            "test",
            directml._open_to_run(),
            directml_module.ExecutionFlag.NONE,
        )
    assert caught.value.nodes == ()
