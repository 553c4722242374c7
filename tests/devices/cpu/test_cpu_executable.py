"""CpuExecutable: aliasing, the output pool, bound runs, its statistics, and its errors."""

from __future__ import annotations

import gc
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.cpu.plans import kinds
from support.problems import raises

import dmlgraph as dg
from dmlgraph import _native
from dmlgraph._native import cpu_steps
from dmlgraph.devices.cpu import CpuDevice
from dmlgraph.devices.cpu.nodes import AffineMap, Fill, Native, View
from dmlgraph.devices.cpu.plan import LOWERINGS
from dmlgraph.devices.executable import Executable
from dmlgraph.operators import REGISTRY
from dmlgraph.operators.declaration.operator import Operator

Array = np.ndarray[Any, Any]


def compiled(graph: dg.Graph, threads: int | None = None) -> Executable:
    return CpuDevice(threads).compile(graph.lower(fuse=False), reason="test")


def small() -> dg.Graph:
    """(x + 2) · 3, five operators with the fills."""
    g = dg.Graph("small")
    x = g.input("x", sizes=[2, 3], dtype="float32")
    two = g.fill_value_constant(sizes=[2, 3], dtype="float32", value=2)
    three = g.fill_value_constant(sizes=[2, 3], dtype="float32", value=3)
    g.output("y", dg.activation_relu((x + two) * three))
    return g


X = np.arange(6, dtype=np.float32).reshape(2, 3)
MISTAKE = "a mistake in the plan of node "


# Outputs in the inputs' memory: the results are as if the run read all inputs first.

N = 4096


def overlapping() -> dict[str, tuple[Array, Array]]:
    """By name: x and an output that shares memory with it."""
    memory = np.arange(2 * N, dtype=np.float32)
    return {
        "the same": (memory[:N], memory[:N]),
        "one behind": (memory[:N], memory[1 : N + 1]),
        "one before": (memory[1 : N + 1], memory[:N]),
        "backwards": (memory[:N], memory[N - 1 :: -1]),
        "every other": (memory[:N], memory[: 2 * N : 2]),
    }


@pytest.mark.parametrize("case", overlapping())
@pytest.mark.parametrize("bound", [False, True], ids=["run", "bound"])
def test_an_output_may_share_memory_with_an_input(case: str, bound: bool) -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[N], dtype="float32")
    y = x * 2
    g.output("y", y)
    g.output("z", y + x)  # reads x after y is written
    g.output("total", dg.reduce(x, function="sum", axes=[0]))
    given, target = overlapping()[case]
    original = given.copy()
    executable = compiled(g)
    results = executable.bind({"x": given}, {"y": target})() if bound else executable.run({"x": given}, {"y": target})
    assert results["y"] is target
    np.testing.assert_array_equal(target, original * 2)
    np.testing.assert_array_equal(results["z"], original * 3)
    np.testing.assert_array_equal(results["total"], original.sum(keepdims=True))


def test_two_outputs_may_take_the_place_of_two_inputs() -> None:
    g = dg.Graph()
    a, b = g.input("a", sizes=[N], dtype="float32"), g.input("b", sizes=[N], dtype="float32")
    g.output("sum", a + b)
    g.output("difference", a - b)
    one, other = np.arange(N, dtype=np.float32), np.ones(N, np.float32)
    compiled(g).run({"a": one, "b": other}, {"sum": other, "difference": one})
    np.testing.assert_array_equal(other, np.arange(N) + 1)
    np.testing.assert_array_equal(one, np.arange(N) - 1)


def test_a_turned_output_in_the_inputs_memory() -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[64, 64], dtype="float32")
    g.output("y", x + 1)
    memory = np.arange(N, dtype=np.float32).reshape(64, 64)
    expected = memory + 1
    target = memory.T
    compiled(g).run({"x": memory}, {"y": target})
    np.testing.assert_array_equal(target, expected)


# New outputs.


def test_large_outputs_use_the_memory_of_dropped_ones() -> None:
    g = dg.Graph()
    g.output("y", g.input("x", sizes=[1 << 20], dtype="float32") + 1)
    executable = compiled(g)
    x = np.zeros(1 << 20, np.float32)
    first = executable.run({"x": x})["y"]
    address = first.ctypes.data
    second = executable.run({"x": x})["y"]
    assert second.ctypes.data != address
    del first
    gc.collect()
    assert _native.cpu_pooled_bytes() >= 1 << 22
    third = executable.run({"x": x})["y"]
    assert third.ctypes.data == address
    assert (third == 1).all()
    part = third[5:7]  # a view keeps the whole
    del third
    gc.collect()
    assert executable.run({"x": x})["y"].ctypes.data != address
    assert part.tolist() == [1, 1]
    assert second.flags.writeable
    assert second.flags.c_contiguous
    assert second.flags.aligned


def test_a_run_into_given_arrays_allocates_nothing() -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[1 << 16], dtype="float32")
    g.output("y", dg.tanh(x * 2) - dg.slice(x, offsets=[0], sizes=[1], strides=[1]))
    executable = compiled(g)
    data, out = np.ones(1 << 16, np.float32), np.empty(1 << 16, np.float32)
    bound = executable.bind({"x": data}, {"y": out})
    bound()

    def peak() -> int:
        tracemalloc.start()
        try:
            for _ in range(3):
                bound()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    # A dictionary, but no array, which would be 256 KiB each time. Other threads of this process may allocate, too.
    assert min(peak() for _ in range(5)) < 4096


# Statistics.


def test_stats_say_what_ran_how() -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[4, 3], dtype="float32")
    axis: dict[str, Any] = {"axis": 1, "axis_direction": "increasing", "has_exclusive_product": False}
    g.output("y", dg.cumulative_product(dg.abs(x, name="abs"), name="product", **axis))
    executable = compiled(g, threads=3)
    stats = executable.stats
    assert stats["nodes"] == 2
    assert stats["threads"] == 3
    assert stats["regions"] == [["abs"]]
    assert stats["native"] + stats["python"] == ["product"]
    assert stats["arena_bytes"] >= 4 * 12
    assert stats["run_seconds"] == 0
    executable.run({"x": np.ones((4, 3), np.float32)})
    assert executable.stats["run_seconds"] > 0


@pytest.mark.parametrize("threads", [0, -1, True, 1.5, "2"])
def test_a_number_of_threads_that_is_none(threads: Any) -> None:
    with raises(dg.DeviceError, "range", field="threads") as caught:
        CpuDevice(threads)
    assert caught.value.got == threads


# Errors.


@pytest.mark.parametrize(
    ("lower", "message"),
    [
        (
            lambda _: Native(cpu_steps.Resampling(axes=(0,), taps=(1,), indices=(), weights=())),
            MISTAKE + "'sums'",
        ),
        (lambda _: View((AffineMap((0,), (2,), (0,)),)), MISTAKE + "'negate'"),  # reads beyond the last element
        (lambda _: Native(cpu_steps.Scan(axis=0)), "incompatible constructor arguments"),  # type: ignore[call-arg]
        (lambda _: Fill(7), "incompatible function arguments"),  # type: ignore[arg-type]
    ],
)
def test_a_mistake_in_a_plan_is_an_error_of_dmlgraph(
    lower: Callable[[Operator], Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    g = dg.Graph("g")
    x = g.input("x", sizes=[4], dtype="float32")
    g.output("y", dg.negate(dg.cumulative_summation(x, axis=0, name="sums")))
    monkeypatch.setitem(LOWERINGS, REGISTRY["cumulative_summation"], lower)
    with pytest.raises(dg.DeviceError, match=f"the graph 'g' cannot be planned: .*{message}") as caught:
        g.compile("cpu")
    assert caught.value.code == "plan"
    assert "'reference'" in str(caught.value.hint)


def test_an_error_in_an_evaluation_names_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[6], dtype="uint8")
    overlapping = [g.fill_value_constant(sizes=[n], dtype=t, value=1) for n, t in ((2, "float32"), (3, "uint8"))]
    g.output("y", dg.dequantize(x, overlapping, quantization_type="scale_zero_point", name="broken"))
    executable = compiled(g)
    assert kinds(executable) == ["python"]

    def fail(*_: Any) -> Any:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(type(executable.graph.nodes[-1].operator), "evaluate", fail)  # type: ignore[union-attr]
    for _ in range(2):  # the executable outlives it
        with raises(dg.DeviceError, "evaluation") as caught:
            executable.run({"x": np.zeros(6, "uint8")})
        assert caught.value.node == "broken"


@pytest.mark.skipif(sys.platform == "win32", reason="the limit of a process' memory is POSIX's")
def test_memory_that_there_is_not() -> None:
    script = """
import resource
import dmlgraph as dg
g = dg.Graph("vast")
g.output("y", g.fill_value_constant(sizes=[65535, 65535], dtype="float64", value=1))
executable = g.compile("cpu")
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
for call in (executable.run, executable.bind()):
    try:
        call()
    except dg.NotEnoughMemoryError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert (
        done.stdout.splitlines()
        == [
            "not enough memory to run the graph 'vast', whose largest tensor is that of 'fill_value_constant', "
            "float64 [65535,65535] (32.0 GiB)"
        ]
        * 2
    )


def test_closing_during_the_life_of_a_bound_run() -> None:
    executable = compiled(small())
    bound, other = executable.bind({"x": X}), executable.bind({"x": X})
    result = bound()["y"]
    executable.close()
    np.testing.assert_array_equal(result, (X + 2) * 3)
    for call in (bound, lambda: executable.run({"x": X}), other):
        with raises(dg.DeviceError, "closed"):
            call()


def test_a_bound_run_keeps_its_arrays() -> None:
    bound = compiled(small()).bind({"x": X.copy()}, {"y": np.empty((2, 3), np.float32)})
    gc.collect()
    np.testing.assert_array_equal(bound()["y"], (X + 2) * 3)


@pytest.mark.skipif(sys.platform == "win32", reason="the peak of a process' memory is POSIX's")
def test_the_peak_of_a_long_chain_is_its_inputs_and_outputs() -> None:
    script = """
import resource
import numpy as np
import dmlgraph as dg
count = 4 << 20
g = dg.Graph("chain")
value = g.input("x", sizes=[count], dtype="float32")
for _ in range(100):
    value = dg.add(dg.multiply(value, value), value)
g.output("y", value)
executable = g.compile("cpu", fuse=False)
x, y = np.zeros(count, np.float32), np.zeros(count, np.float32)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
executable.run({"x": x}, {"y": y})
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 4 << 10  # KiB
