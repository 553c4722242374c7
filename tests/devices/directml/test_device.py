"""Graphs on the real DirectML over a software adapter."""

from __future__ import annotations

import copy
import ctypes
import gc
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.problems import expect, raises

import dmlgraph as dg
from dmlgraph import _native
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.compiler.desc import (
    ConstantDescNode,
    GraphDesc,
    GraphInput,
    GraphOutput,
    InputEdge,
    OperatorDescNode,
    OutputEdge,
)
from dmlgraph.compiler.lowering import lower
from dmlgraph.devices.directml.device import (
    DirectMLDevice,
    DirectMLExecutable,
    ExecutionFlag,
    find_hardware,
    list_adapters,
)
from dmlgraph.devices.directml.errors import (
    AdapterError,
    BufferTooLargeError,
    DebugLayerError,
    DeviceRemovedError,
    DirectMLError,
    from_native,
)
from dmlgraph.devices.reference import ReferenceDevice
from dmlgraph.operators import Add, Identity, Reduce

Array = np.ndarray[Any, Any]

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="the adapter that counts is that of Linux")


def compile_on(device: DirectMLDevice, graph: dg.Graph, **options: Any) -> DirectMLExecutable:
    return device.compile(lower(graph, device.level), reason="asked for", **options)


def by_reference(graph: dg.Graph, inputs: dict[str, Array]) -> dict[str, Array]:
    return ReferenceDevice().compile(lower(graph), reason="asked for").run(inputs)


def ramp(sizes: list[int], dtype: DataTypeName = "float32") -> dg.Graph:
    """y = relu(x * (3, 5, 7, ...))."""
    graph = dg.Graph("ramp_times_x")
    x = graph.input("x", sizes=sizes, dtype=dtype)
    steps = graph.fill_value_sequence(sizes=sizes, dtype=dtype, value_start=3, value_delta=2)
    graph.output("y", dg.activation_relu(x * steps))
    return graph


def numbers(*sizes: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).uniform(-2, 2, sizes).astype(np.float32)


def weighted(owned: bool) -> dg.Graph:
    """y = x @ w; the user gives w, and DirectML keeps it if it is owned."""
    graph = dg.Graph("weighted")
    x = graph.input("x", sizes=[1, 1, 4, 8], dtype="float32")
    w = graph.input("w", sizes=[1, 1, 8, 6], dtype="float32", owned=owned)
    graph.output("y", dg.gemm(x, w))
    return graph


def test_graph_gives_what_the_reference_gives(directml: DirectMLDevice) -> None:
    graph, x = ramp([1, 1, 2, 3]), numbers(1, 1, 2, 3)
    with compile_on(directml, graph) as executable:
        np.testing.assert_array_equal(executable.run({"x": x})["y"], by_reference(graph, {"x": x})["y"])


def test_repeated_runs_see_changed_inputs(directml: DirectMLDevice) -> None:
    graph = ramp([2, 3, 5])
    with compile_on(directml, graph) as executable:
        for seed in range(20):
            x = numbers(2, 3, 5, seed=seed)
            np.testing.assert_array_equal(executable.run({"x": x})["y"], by_reference(graph, {"x": x})["y"])
        assert executable.stats["runs"] == 20


def test_bound_arrays_are_read_and_written_in_place(directml: DirectMLDevice) -> None:
    graph, x, y = ramp([4]), numbers(4), np.zeros(4, np.float32)
    with compile_on(directml, graph) as executable:
        again = executable.bind({"x": x}, {"y": y})
        for seed in (1, 2):
            x[...] = numbers(4, seed=seed)
            assert again()["y"] is y
            np.testing.assert_array_equal(y, by_reference(graph, {"x": x})["y"])


def test_results_are_the_callers_own(directml: DirectMLDevice) -> None:
    with compile_on(directml, ramp([4])) as executable:
        first = executable.run({"x": np.ones(4, np.float32)})["y"]
        kept = first.copy()
        executable.run({"x": np.zeros(4, np.float32)})
        np.testing.assert_array_equal(first, kept)


def test_strided_and_read_only_inputs(directml: DirectMLDevice) -> None:
    graph, x = ramp([3, 4]), numbers(4, 6)[:, ::2].T
    x.flags.writeable = False
    with compile_on(directml, graph) as executable:
        np.testing.assert_array_equal(executable.run({"x": x})["y"], by_reference(graph, {"x": x})["y"])


def test_strides_of_inputs_and_outputs(directml: DirectMLDevice) -> None:
    graph = dg.Graph("strided")
    x = graph.input("x", sizes=[2, 3], dtype="float32", strides=[8, 2])
    y = dg.add(x, x, output={"dtype": "float32", "sizes": [2, 3], "strides": [1, 2]})
    graph.output("y", y)
    given = numbers(2, 3)
    with compile_on(directml, graph) as executable:
        np.testing.assert_array_equal(executable.run({"x": given})["y"], given + given)


class TestOwnedInputs:
    """An owned input goes into the persistent resource at initialisation."""

    def test_given_once_and_kept(self, directml: DirectMLDevice) -> None:
        x, w = numbers(1, 1, 4, 8), numbers(1, 1, 8, 6, seed=1)
        expected = by_reference(weighted(owned=False), {"x": x, "w": w})["y"]
        with compile_on(directml, weighted(owned=True)) as executable:
            np.testing.assert_allclose(executable.run({"x": x, "w": w})["y"], expected, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(executable.run({"x": x})["y"], expected, rtol=1e-5, atol=1e-6)
            assert executable.stats["persistent_bytes"] >= w.nbytes

    def test_given_anew(self, directml: DirectMLDevice) -> None:
        x = numbers(1, 1, 4, 8)
        with compile_on(directml, weighted(owned=True)) as executable:
            for seed in range(3):
                w = numbers(1, 1, 8, 6, seed=seed)
                expected = by_reference(weighted(owned=False), {"x": x, "w": w})["y"]
                got = executable.run({"x": x, "w": w})["y"]
                np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)

    def test_callers_array_may_change_afterwards(self, directml: DirectMLDevice) -> None:
        x, w = numbers(1, 1, 4, 8), numbers(1, 1, 8, 6, seed=1)
        with compile_on(directml, weighted(owned=True)) as executable:
            first = executable.run({"x": x, "w": w})["y"]
            w[...] = 0
            np.testing.assert_array_equal(executable.run({"x": x})["y"], first)

    def test_missing(self, directml: DirectMLDevice) -> None:
        executable = compile_on(directml, weighted(owned=True))
        with pytest.raises(dg.BindingError, match="'w'"):
            executable.run({"x": numbers(1, 1, 4, 8)})


@pytest.mark.parametrize("count", [3, 1000], ids=["small", "large"])
def test_constants(directml: DirectMLDevice, count: int) -> None:
    """Small constants are nodes of the graph, large ones inputs that DirectML owns."""
    graph, k = dg.Graph("constants"), numbers(count)
    x = graph.input("x", sizes=[count], dtype="float32")
    graph.output("y", x * graph.constant("k", k))
    desc = lower(graph, directml.level)
    assert any(isinstance(node, ConstantDescNode) for node in desc.nodes) == (count == 3)
    x_given = numbers(count, seed=1)
    with directml.compile(desc, reason="asked for") as executable:
        np.testing.assert_array_equal(executable.run({"x": x_given})["y"], x_given * k)


def test_sizes_that_are_no_multiple_of_four_bytes(directml: DirectMLDevice) -> None:
    graph, k = dg.Graph("bytes"), np.arange(5, dtype=np.uint8)
    x = graph.input("x", sizes=[5], dtype="uint8")
    graph.output("y", x + graph.constant("k", k))
    with compile_on(directml, graph) as executable:
        got = executable.run({"x": np.full(5, 250, np.uint8)})["y"]
    np.testing.assert_array_equal(got, np.array([250, 251, 252, 253, 254], np.uint8))


class TestWithoutSharedMemory:
    """As on a graphics card: inputs and outputs go through staging buffers."""

    @pytest.fixture
    def staging(self, directml_path: Path) -> DirectMLDevice:
        return DirectMLDevice("software", library=directml_path, share_memory=False)

    def test_copies_are_made(self, staging: DirectMLDevice) -> None:
        graph = ramp([5, 7])
        with compile_on(staging, graph) as executable:
            assert not executable._native.device.shares_memory
            for seed in range(3):
                x = numbers(5, 7, seed=seed)
                np.testing.assert_array_equal(executable.run({"x": x})["y"], by_reference(graph, {"x": x})["y"])

    def test_owned_inputs(self, staging: DirectMLDevice) -> None:
        x = numbers(1, 1, 4, 8)
        with compile_on(staging, weighted(owned=True)) as executable:
            for seed in range(2):
                w = numbers(1, 1, 8, 6, seed=seed)
                np.testing.assert_allclose(executable.run({"x": x, "w": w})["y"], x @ w, rtol=1e-5, atol=1e-6)

    def test_many_tensors(self, staging: DirectMLDevice) -> None:
        check_many_tensors(staging)


def test_many_inputs_and_outputs(directml: DirectMLDevice) -> None:
    check_many_tensors(directml)


def check_many_tensors(device: DirectMLDevice) -> None:
    graph = dg.Graph("many")
    inputs = [graph.input(f"x{i}", sizes=[i + 1], dtype="float32") for i in range(40)]
    for i, x in enumerate(inputs):
        graph.output(f"y{i}", x + float(i))
    given = {f"x{i}": numbers(i + 1, seed=i) for i in range(40)}
    with compile_on(device, graph) as executable:
        got = executable.run(given)
    for i in range(40):
        np.testing.assert_array_equal(got[f"y{i}"], given[f"x{i}"] + np.float32(i))


def test_unused_input(directml: DirectMLDevice) -> None:
    graph = dg.Graph("unused")
    x = graph.input("x", sizes=[2], dtype="float32")
    graph.input("spare", sizes=[3], dtype="float32")
    graph.output("y", x + x)
    with compile_on(directml, graph) as executable:
        got = executable.run({"x": np.ones(2, np.float32), "spare": np.ones(3, np.float32)})
    np.testing.assert_array_equal(got["y"], [2, 2])


def test_empty_array_may_be_null(directml: DirectMLDevice) -> None:
    """An operator's array with no elements is packed as a null pointer; DirectML accepts that."""
    tensor = _native.TensorDesc(1, 0, [2, 3], None, 24)
    fields = [("enum", 10), ("tensor", tensor), ("tensor", tensor), ("u32", 0), ("u32s", [])]
    node = ("sum", _native.OperatorDesc(Reduce.support().value, fields))
    graph = _native.GraphDesc("g", [("x", 24, False, False)], [("y", 24, "back")], [node], [(0, 0, 0)], [(0, 0, 0)], [])
    _native.Executable(_native.Device(directml.runtime.library, directml.adapter), graph)


@pytest.mark.parametrize("flag", ExecutionFlag, ids=lambda flag: flag.name)
def test_execution_flags(directml: DirectMLDevice, flag: ExecutionFlag) -> None:
    graph, x = ramp([4]), numbers(4)
    device = copy.copy(directml)
    device.flags = flag
    with compile_on(device, graph) as executable:
        np.testing.assert_array_equal(executable.run({"x": x})["y"], by_reference(graph, {"x": x})["y"])


def test_two_executables_interleaved(directml: DirectMLDevice) -> None:
    first, second = ramp([4]), weighted(owned=True)
    w = numbers(1, 1, 8, 6)
    with compile_on(directml, first) as one, compile_on(directml, second) as other:
        for seed in range(10):
            x, z = numbers(4, seed=seed), numbers(1, 1, 4, 8, seed=seed)
            np.testing.assert_array_equal(one.run({"x": x})["y"], by_reference(first, {"x": x})["y"])
            np.testing.assert_allclose(other.run({"x": z, "w": w})["y"], z @ w, rtol=1e-5, atol=1e-6)


def test_threads_share_an_executable(directml: DirectMLDevice) -> None:
    graph, failures = ramp([64]), []
    with compile_on(directml, graph) as executable:

        def work(seed: int) -> None:
            for index in range(50):
                x = numbers(64, seed=seed * 1000 + index)
                if not np.array_equal(executable.run({"x": x})["y"], by_reference(graph, {"x": x})["y"]):
                    failures.append((seed, index))

        run_threads(work, 4)
    assert failures == []


def test_threads_compile_and_run(directml: DirectMLDevice) -> None:
    failures = []

    def work(seed: int) -> None:
        for index in range(10):
            graph, x = ramp([seed + 1, index + 1]), numbers(seed + 1, index + 1, seed=seed)
            with compile_on(directml, graph) as executable:
                if not np.array_equal(executable.run({"x": x})["y"], by_reference(graph, {"x": x})["y"]):
                    failures.append((seed, index))

    run_threads(work, 4)
    assert failures == []


def run_threads(work: Any, count: int) -> None:
    threads = [threading.Thread(target=work, args=(seed,), daemon=True) for seed in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
        assert not thread.is_alive(), "the threads wait for each other"


@on_linux
def test_process_may_end_while_a_thread_runs(directml_path: Path) -> None:
    code = """
import threading, time
import numpy as np
import dmlgraph as dg
from dmlgraph.devices.directml.device import DirectMLDevice
from dmlgraph.compiler.lowering import lower
device = DirectMLDevice("software")
graph = dg.Graph()
x = graph.input("x", sizes=[1 << 18], dtype="float32")
graph.output("y", x + x)
executable = device.compile(lower(graph, device.level), reason="asked for")
started = threading.Event()
def work():
    while True:
        executable.run({"x": np.ones(1 << 18, np.float32)})
        started.set()
threading.Thread(target=work, daemon=True).start()
started.wait()
time.sleep(0.05)
"""
    for _ in range(5):
        done = subprocess.run(
            [sys.executable, "-P", "-c", code],
            env=os.environ | {"DMLGRAPH_DIRECTML": str(directml_path)},
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr


def test_python_runs_while_the_device_works(directml: DirectMLDevice) -> None:
    """The GIL is released: a thread that only counts makes progress during a long run."""
    graph = dg.Graph("long")
    x = graph.input("x", sizes=[1, 1, 1024, 1024], dtype="float32")
    graph.output("y", dg.gemm(dg.gemm(x, x), x))
    executable = compile_on(directml, graph)
    native, given, result = executable._native, numbers(1, 1, 1024, 1024), np.empty((1, 1, 1024, 1024), np.float32)
    initialization = native.initialize([None])
    native.run(initialization, [given], [result])  # compiles the shaders
    counted = [0]
    stop = threading.Event()

    def count() -> None:
        while not stop.wait(0.001):
            counted[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    before = counted[0]
    assert native.run(initialization, [given], [result])
    during = counted[0] - before
    stop.set()
    thread.join()
    assert executable._native.stats["run_seconds"] > 0.02
    assert during >= 5


class TestStats:
    """`stats` says how a graph was compiled and run."""

    def test_figures(self, directml: DirectMLDevice) -> None:
        graph = weighted(owned=True)
        with compile_on(directml, graph) as executable:
            executable.run({"x": numbers(1, 1, 4, 8), "w": numbers(1, 1, 8, 6)})
            stats = executable.stats
        assert stats["descriptor_count"] >= 3
        assert stats["persistent_bytes"] >= 8 * 6 * 4
        assert stats["temporary_bytes"] >= 0
        assert stats["runs"] == 1
        assert all(stats[f"{step}_seconds"] > 0 for step in ("compile", "initialize", "run"))

    @on_linux
    def test_dispatches(self, directml: DirectMLDevice) -> None:
        """Without metacommands DirectML fuses no chain: four element-wise operators are four dispatches."""
        graph = dg.Graph("chain")
        x = graph.input("x", sizes=[1, 1, 8, 32], dtype="float32")
        y = graph.input("z", sizes=[1, 1, 8, 32], dtype="float32")
        graph.output("y", dg.activation_relu(dg.activation_tanh(x * y + y)))
        given = {"x": numbers(1, 1, 8, 32), "z": numbers(1, 1, 8, 32)}
        with compile_on(directml, graph) as executable:
            for _ in range(3):
                executable.run(given)
                assert executable.stats["dispatches"] == 4


@on_linux
class TestSoftwareAdapter:
    """What only the adapter of Linux can show, because it counts."""

    @pytest.fixture
    def adapter(self, directml: DirectMLDevice) -> Iterator[Any]:
        from dmlgraph.devices.directml.software import adapter

        yield adapter.load()
        adapter.load().suppress_dispatches(False)

    def test_cycles_leave_nothing_behind(self, directml: DirectMLDevice, adapter: Any) -> None:
        """Compiles, runs and closes 300 times: no object and no memory stays."""
        graph, x = ramp([1, 1, 16, 64]), numbers(1, 1, 16, 64)

        def cycle() -> None:
            with compile_on(directml, graph) as executable:
                executable.run({"x": x})

        for _ in range(20):  # fills caches
            cycle()
        gc.collect()
        objects, memory = directml.runtime.library.counter("live_objects"), resident_bytes()
        for _ in range(300):
            cycle()
        gc.collect()
        assert directml.runtime.library.counter("live_objects") == objects
        assert resident_bytes() - memory < 8 << 20

    def test_dropped_executables_are_freed(self, directml: DirectMLDevice, adapter: Any) -> None:
        compile_on(directml, ramp([4])).run({"x": numbers(4)})  # the device keeps some objects from its first run on
        gc.collect()
        objects = directml.runtime.library.counter("live_objects")
        executable = compile_on(directml, ramp([4]))
        executable.run({"x": numbers(4)})
        assert directml.runtime.library.counter("live_objects") != objects
        del executable
        gc.collect()
        assert directml.runtime.library.counter("live_objects") == objects

    def test_without_dispatches_the_comparison_fails(self, directml: DirectMLDevice, adapter: Any) -> None:
        """The negative control: the comparison really sees DirectML's results."""
        graph, x = ramp([4]), np.abs(numbers(4)) + 1
        expected = by_reference(graph, {"x": x})["y"]
        with compile_on(directml, graph) as executable:
            adapter.suppress_dispatches(True)
            assert not np.array_equal(executable.run({"x": x})["y"], expected)
            adapter.suppress_dispatches(False)
            np.testing.assert_array_equal(executable.run({"x": x})["y"], expected)

    def test_unknown_counter(self, directml: DirectMLDevice) -> None:
        assert directml.runtime.library.counter("no such counter") is None


def resident_bytes() -> int:
    """The memory of this process after malloc has given back all it can."""
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * 4096


# ---- Errors


def single(operator: Any, *, fed: int = 1, **changes: Any) -> GraphDesc:
    """A lowered graph of one node whose first `fed` inputs have edges; tests make it wrong."""
    slots = tuple(GraphInput(f"x{i}", operator.input_descs[i]) for i in range(fed))
    desc: dict[str, Any] = {
        "name": "wrong",
        "level": FeatureLevel.V6_2,
        "inputs": slots,
        "outputs": (GraphOutput("y", operator.output_descs[0]),),
        "nodes": (OperatorDescNode("the_node", operator),),
        "input_edges": tuple(InputEdge(i, 0, i) for i in range(fed)),
        "output_edges": (OutputEdge(0, 0, 0),),
        "intermediate_edges": (),
    }
    return GraphDesc(**{**desc, **changes})


SMALL = dg.TensorDesc(dtype="float32", sizes=[4])
LARGE = dg.TensorDesc(dtype="float32", sizes=[1 << 30])


class TestErrors:
    """Each failure has a class, and a text that says where and what to do."""

    def test_refused_operator_is_named(self, directml: DirectMLDevice) -> None:
        class Broken(Identity):
            def native(self, buffers: Any = None) -> Any:
                other = _native.TensorDesc(1, 0, [5], None, 20)
                fields = [("tensor", _native.TensorDesc(1, 0, [4], None, 16)), ("tensor", other)]
                return _native.OperatorDesc(1, [*fields, ("scale_bias", None)])

        with pytest.raises(DirectMLError) as caught:
            directml.compile(single(Broken(input=SMALL)), reason="asked for")
        error = caught.value
        assert (error.graph, error.node, error.call) == ("wrong", "the_node", "CreateOperator")
        assert error.hresult == 0x80070057
        assert "graph 'wrong': node 'the_node': CreateOperator failed with E_INVALIDARG (0x80070057)" in str(error)

    def test_refused_graph(self, directml: DirectMLDevice) -> None:
        """A required input without an edge."""
        with pytest.raises(DirectMLError, match="CompileGraph failed with E_INVALIDARG") as caught:
            directml.compile(single(Add(a=SMALL, b=SMALL)), reason="asked for")
        assert (caught.value.graph, caught.value.node) == ("wrong", "the_node")
        assert "DirectML refuses this ELEMENT_WISE_ADD by itself" in str(caught.value)

    @pytest.mark.parametrize(
        ("edges", "message"),
        [
            (([(7, 0, 0)], [], []), "input edge 0 leads to graph input 7, but there are only 1"),
            (([(0, 7, 0)], [], []), "input edge 0 leads to node 7, but there are only 1"),
            (([], [(7, 0, 0)], []), "output edge 0 leads to node 7, but there are only 1"),
            (([], [(0, 0, 7)], []), "output edge 0 leads to graph output 7, but there are only 1"),
            (([], [], [(0, 0, 7, 0)]), "intermediate edge 0 leads to node 7, but there are only 1"),
            (([], [], [(7, 0, 0, 0)]), "intermediate edge 0 leads to node 7, but there are only 1"),
        ],
    )
    def test_edges_that_lead_nowhere(self, directml: DirectMLDevice, edges: Any, message: str) -> None:
        nodes = [("n", Identity(input=SMALL).native())]
        graph = _native.GraphDesc("g", [("x", 16, False, False)], [("y", 16, "back")], nodes, *edges)
        device = _native.Device(directml.runtime.library, directml.adapter)
        with pytest.raises(DirectMLError, match=f"graph 'g': {message}"):
            _native.Executable(device, graph)

    def test_edge_to_a_port_there_is_not(self, directml: DirectMLDevice) -> None:
        with pytest.raises(DirectMLError, match="CompileGraph"):
            directml.compile(single(Identity(input=SMALL), input_edges=(InputEdge(0, 0, 9),)), reason="asked for")

    @pytest.mark.parametrize(
        ("slots", "name"),
        [
            ({"inputs": (GraphInput("x", LARGE),)}, "input 'x'"),
            ({"outputs": (GraphOutput("y", LARGE),)}, "output 'y'"),
        ],
    )
    def test_oversize_tensor_is_refused_before_it_is_allocated(
        self, directml: DirectMLDevice, slots: dict[str, Any], name: str
    ) -> None:
        message = f"{name} needs 4294967296 bytes, more than the 4294901760"
        with pytest.raises(BufferTooLargeError, match=message):
            directml.compile(single(Identity(input=SMALL), **slots), reason="asked for")

    def test_oversize_temporary_buffer(self, directml: DirectMLDevice) -> None:
        """A graph whose inputs and outputs fit, but not its intermediate values."""
        graph = dg.Graph("wide")
        x = graph.input("x", sizes=[1, 1, 1, 1024], dtype="float32")
        column = graph.input("c", sizes=[1, 1, 1 << 20, 1], dtype="float32")
        y = dg.activation_relu(dg.add(x, column) * dg.add(column, x))
        graph.output("y", dg.reduce(y, function="sum", axes=[2, 3]))
        with raises(BufferTooLargeError, "too-large"):
            compile_on(directml, graph)

    def test_removed_device(self, directml: DirectMLDevice) -> None:
        """The error has both reasons, the device is marked lost, and a new one is made."""
        graph, x = ramp([4]), numbers(4)
        executable = compile_on(directml, graph)
        executable.run({"x": x})
        lost = executable._native.device
        lost.remove()
        for _ in range(2):
            with pytest.raises(DeviceRemovedError) as caught:
                executable.run({"x": x})
            assert "Direct3D 12: DXGI_ERROR_DEVICE_REMOVED (0x887A0005), of DirectML: DXGI_ERROR_" in str(caught.value)
            assert caught.value.code == "device-removed"
            assert caught.value.graph == "ramp_times_x"
        assert lost.lost
        executable.close()
        with compile_on(directml, graph) as fresh:
            assert fresh._native.device is not lost
            np.testing.assert_array_equal(fresh.run({"x": x})["y"], by_reference(graph, {"x": x})["y"])

    def test_closed_executable(self, directml: DirectMLDevice) -> None:
        executable = compile_on(directml, ramp([4]))
        executable.close()
        executable.close()
        with raises(dg.DeviceError, "closed"):
            executable.run({"x": numbers(4)})

    @pytest.mark.parametrize("choice", ["99", "gpu", "-1", "0x"])
    def test_no_such_adapter(self, directml: DirectMLDevice, choice: str) -> None:
        with raises(AdapterError, "adapter", field="device") as caught:
            DirectMLDevice(choice)
        expect(caught.value, "adapter", field="device", allowed="directml:0, directml:software")

    @on_linux
    def test_no_debug_layer(self, directml: DirectMLDevice) -> None:
        with raises(DebugLayerError, "debug-layer"):
            compile_on(directml, ramp([4]), debug=True)

    def test_errors_can_be_pickled(self) -> None:
        error = from_native("call", "it failed", "CompileGraph", 5, "0x00000005", "g", "n", ["why"])
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), copy.call, copy.hresult, copy.graph) == (DirectMLError, "CompileGraph", 5, "g")
        assert (copy.node, copy.debug_messages) == ("n", ("why",))
        assert str(copy) == str(error) == "graph 'g': node 'n': it failed\nwhy"


# ---- What exists on this machine


@pytest.mark.usefixtures("directml")
def test_adapters_are_listed() -> None:
    listed = {listing.name: listing for listing in list_adapters()}
    assert listed["directml:software"].missing is None
    assert "feature level" in listed["directml:software"].description


def test_adapter_is_described(directml: DirectMLDevice) -> None:
    adapter = directml.adapter
    assert adapter.kind == "software"
    assert adapter.name != ""
    assert adapter.name in directml.description
    assert adapter.dedicated_bytes + adapter.shared_bytes > 1 << 28
    assert len(adapter.driver_version.split(".")) == 4
    assert f", driver {adapter.driver_version})" in directml.description
    assert directml.level >= FeatureLevel.V2_1


@on_linux
def test_plain_linux_has_no_hardware(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dmlgraph.devices.directml.library.SYSTEM_FOLDERS", ())
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    assert find_hardware() == ["the system does not have Direct3D 12"]
