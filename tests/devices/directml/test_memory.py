"""The memory of DirectML's executables: shared by those that take turns, mapped only while it is used, and budgeted."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from devices.directml.test_strictness import run

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.compiler.lowering import lower
from dmlgraph.devices.directml.device import DirectMLDevice, DirectMLExecutable

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the adapter that counts is that of Linux")

Array = np.ndarray[Any, Any]

MEGABYTE = 1 << 20


@pytest.fixture(params=[True, False], ids=["shared memory", "staging"])
def device(request: pytest.FixtureRequest, directml_path: Path) -> DirectMLDevice:
    return DirectMLDevice("software", library=directml_path, share_memory=request.param)


def doubled(device: DirectMLDevice, elements: int) -> DirectMLExecutable:
    graph = dg.Graph(f"doubled_{elements}")
    x = graph.input("x", sizes=[elements], dtype="float32")
    graph.output("y", x + x)
    return device.compile(lower(graph, device.level), reason="asked for")


def check_doubled(executable: DirectMLExecutable, seed: int) -> None:
    elements = executable.graph.inputs[0].desc.sizes
    x = np.random.default_rng(seed).integers(-1000, 1000, elements).astype(np.float32)
    np.testing.assert_array_equal(executable.run({"x": x})["y"], x + x)


def live_bytes(device: DirectMLDevice) -> int:
    gc.collect()
    counted = device.runtime.library.counter("live_bytes")
    assert counted is not None
    return counted


class TestTurns:
    """Executables of a device use the same buffers in turns."""

    @pytest.mark.parametrize("order", [range(1, 9), range(8, 0, -1)], ids=["growing", "shrinking"])
    def test_memory_is_that_of_the_largest(self, device: DirectMLDevice, order: Sequence[int]) -> None:
        before = live_bytes(device)
        executables = [doubled(device, count * MEGABYTE // 4) for count in order]
        for turn in range(3):
            for executable in executables:
                check_doubled(executable, turn)
        tensors = 2 * 8 * MEGABYTE * (1 if device_shares(executables[0]) else 2)
        assert live_bytes(device) - before <= tensors + 2 * MEGABYTE

    def test_it_shrinks_and_goes_with_its_users(self, device: DirectMLDevice) -> None:
        before = live_bytes(device)
        small, large = doubled(device, 64), doubled(device, 4 * MEGABYTE)
        check_doubled(small, 0)
        check_doubled(large, 0)
        large.close()
        assert live_bytes(device) - before <= 8 * MEGABYTE
        check_doubled(small, 1)
        small.close()
        assert live_bytes(device) == before

    def test_threads(self, device: DirectMLDevice) -> None:
        """No run gets the buffers of another one, whatever their sizes."""
        executables = [doubled(device, elements) for elements in (3, 70_000, 500, 300_000, 16, 70_001)]
        failures: list[BaseException] = []

        def work(thread: int) -> None:
            try:
                for turn in range(40):
                    check_doubled(executables[(thread * 2 + turn % 3) % len(executables)], thread * 1000 + turn)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(thread,), daemon=True) for thread in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=300)
            assert not thread.is_alive(), "the threads wait for each other"
        assert failures == []

    def test_a_run_that_fails_gives_its_buffers_back(self, device: DirectMLDevice) -> None:
        executable = doubled(device, MEGABYTE)
        check_doubled(executable, 0)
        held = live_bytes(device)
        native = executable._native
        number = native.initialize([None])
        for _ in range(3):
            with pytest.raises(dg.DeviceError, match="needs 4194304 bytes, got 8"):
                native.run(number, [np.zeros(2, np.float32)], [np.zeros(MEGABYTE, np.float32)])
            with pytest.raises(dg.DeviceError, match="needs 4194304 bytes, got 8"):
                native.run(number, [np.zeros(MEGABYTE, np.float32)], [np.zeros(2, np.float32)])
        assert live_bytes(device) == held
        check_doubled(executable, 1)


def device_shares(executable: DirectMLExecutable) -> bool:
    return executable._device.shares_memory


@pytest.mark.parametrize(
    "sizes_and_strides",
    [([5], None), ([3, 4], [1, 3]), ([2, 3], [8, 2]), ([4], [0]), ([7, 1, 3], None)],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["float32", "uint8", "float16"])
def test_arrays_of_any_layout(device: DirectMLDevice, sizes_and_strides: Any, dtype: DataTypeName) -> None:
    """Inputs and out= arrays with any strides, tensors with any strides, sizes that are no whole words."""
    sizes, strides = sizes_and_strides
    graph = dg.Graph("layout")
    x = graph.input("x", sizes=sizes, dtype=dtype, strides=strides)
    made = {"dtype": dtype, "sizes": sizes, "strides": strides} if strides and 0 not in strides else None
    graph.output("y", dg.add(x, x, output=made) if made else dg.add(x, x))
    executable = device.compile(lower(graph, device.level), reason="asked for")
    rng = np.random.default_rng(0)
    values = rng.integers(0, 100, sizes).astype(dtype)
    if strides and 0 in strides:
        values[...] = values.flat[0]
    wide = np.repeat(values, 2, axis=-1)
    for given in (values, values.copy("F"), wide[..., ::2], wide[..., ::2][..., ::-1].copy()[..., ::-1]):
        np.testing.assert_array_equal(executable.run({"x": given})["y"], values + values)
        strided = np.zeros(wide.shape, dtype)[..., ::2]
        for target in (np.zeros(sizes, dtype), np.zeros(sizes, dtype, order="F"), strided):
            assert executable.run({"x": given}, {"y": target})["y"] is target
            np.testing.assert_array_equal(target, values + values)


class TestStrictly:
    """On adapters that are strict about memory; a process reads the restrictions once."""

    RUNS = """
from dmlgraph.compiler.lowering import lower
from dmlgraph.devices.directml.device import DirectMLDevice
def graph(owned):
    g = dg.Graph("weighted")
    x = g.input("x", sizes=[1, 1, 4, 8], dtype="float32")
    w = g.input("w", sizes=[1, 1, 8, 6], dtype="float32", owned=owned)
    g.output("y", dg.gemm(x, w))
    return g
rng = np.random.default_rng(0)
right = []
for owned in (False, True):
    executable = graph(owned).compile("directml:software")
    for turn in range(3):
        x, w = rng.integers(-9, 9, (1, 1, 4, 8)).astype("f4"), rng.integers(-9, 9, (1, 1, 8, 6)).astype("f4")
        right.append(np.array_equal(executable.run({"x": x, "w": w})["y"], x @ w))
        right.append(np.array_equal(executable.run({"x": -x, "w": w})["y"], -x @ w))
print(all(right), executable._device.shares_memory)
"""

    @pytest.mark.parametrize(
        ("strict", "shares"),
        [
            ("", True),
            ("readback", True),
            ("readback,async", True),
            ("readback,no_sharing", False),
            ("custom_heaps", False),
            ("custom_heaps,one_device,readback", False),
            ("core", False),
            ("strict", False),
            ("no_sharing,late_debug", False),
        ],
    )
    def test_results_are_fresh_and_right(self, directml_path: Path, strict: str, shares: bool) -> None:
        """Memory is mapped anew for each run, and shared only where the trial of it succeeds."""
        assert run(self.RUNS, strict, directml_path, DMLGRAPH_SHARE_MEMORY="1") == f"True {shares}"

    def test_memory_is_shared_only_on_request(self, directml_path: Path) -> None:
        assert run(self.RUNS, "", directml_path) == "True False"
        printed = run("doubled().compile(device='directml:software')", "", directml_path, DMLGRAPH_SHARE_MEMORY="yes")
        assert printed == "DeviceError range field 'DMLGRAPH_SHARE_MEMORY': must be 0 or 1; got yes; allowed: 0, 1"

    def test_a_refused_trial_is_not_repeated(self, directml_path: Path) -> None:
        """It removes the device once; later devices of the adapter stage from the beginning."""
        script = """
first = doubled().compile(device="directml:software")
print(first.run({"x": X})["y"], first._device.shares_memory)
first._device.remove()
second = doubled().compile(device="directml:software")
print(second.run({"x": X})["y"], second._device.shares_memory)
third = doubled().compile(device="directml:software")
print(third._device is second._device, second._device.lost)
"""
        lines = run(script, "custom_heaps,one_device", directml_path, DMLGRAPH_SHARE_MEMORY="1").splitlines()
        assert lines == ["[0. 2. 4. 6.] False"] * 2 + ["True False"]

    def test_weights_are_in_device_memory_once(self, directml_path: Path) -> None:
        """16 MiB of weights fit into 24 MiB, while they are initialised too."""
        script = """
graph = dg.Graph("heavy")
x = graph.input("x", sizes=[1, 1, 1, 1024], dtype="float32")
w = graph.input("w", sizes=[1, 1, 1024, 4096], dtype="float32", owned=True)
graph.output("y", dg.gemm(x, w))
executable = graph.compile(device="directml:software")
w = np.zeros((1, 1, 1024, 4096), np.float32)
w[0, 0, 5] = np.arange(4096)
for turn in range(3):
    y = executable.run({"x": np.ones((1, 1, 1, 1024), np.float32), "w": w + turn})["y"]
    print(np.array_equal(y[0, 0, 0], np.arange(4096) + 1024 * turn))
print(executable.stats["persistent_bytes"] >= w.nbytes)
"""
        printed = run(script, f"no_sharing,budget={24 << 20}", directml_path)
        assert printed.splitlines() == ["True"] * 4

    def test_the_budget_is_told(self, directml_path: Path) -> None:
        script = """
executable = doubled().compile(device="directml:software")
print(executable.stats["memory_budget_bytes"], 0 < executable.stats["memory_used_bytes"] <= 64 << 20)
graph = dg.Graph("large")
x = graph.input("x", sizes=[32 << 20], dtype="float32")
graph.output("y", x + x)
try:
    graph.compile(device="directml:software")
except dg.DeviceError as error:
    print(error.hresult_name, "|", error)
print(executable.run({"x": X})["y"])
"""
        told, short, result = run(script, f"no_sharing,budget={64 << 20}", directml_path).splitlines()[:3]
        assert told == f"{64 << 20} True"
        assert short.startswith("E_OUTOFMEMORY (0x8007000E) | graph 'large': CreateHeap of 134217728 bytes for the inp")
        assert "of the adapter's budget for this process, 0.06 GiB, 0.00 GiB are in use" in short
        assert result == "[0. 2. 4. 6.]"

    def test_runs_in_flight_wait_when_memory_is_short(self, directml_path: Path) -> None:
        """There is memory for one run."""
        script = """
n = 6 << 20
graph = dg.Graph("square")
x = graph.input("x", sizes=[n], dtype="float32")
graph.output("y", x * x)
executable = graph.compile(device="directml:software")
for turn, result in enumerate(executable.map(({"x": np.full(n, turn, np.float32)} for turn in range(6)), 4)):
    print(result["y"].min() == result["y"].max() == turn**2)
"""
        printed = run(script, f"no_sharing,budget={60 << 20}", directml_path)
        assert printed.splitlines() == ["True"] * 6

    def test_free_buffers_give_way_when_memory_is_short(self, directml_path: Path) -> None:
        """A free buffer of a pool is not a reason to fail."""
        script = """
def square(n):
    graph = dg.Graph("square")
    x = graph.input("x", sizes=[n], dtype="float32")
    graph.output("y", x * x)
    return graph.compile(device="directml:software")
small, large = square(6 << 20), square(7 << 20)
for turn in range(2):
    print(small.run({"x": np.full(6 << 20, 3 + turn, np.float32)})["y"].sum() == (6 << 20) * (3 + turn) ** 2)
    print(large.run({"x": np.full(7 << 20, 2 + turn, np.float32)})["y"].sum() == (7 << 20) * (2 + turn) ** 2)
"""
        printed = run(script, f"no_sharing,budget={60 << 20}", directml_path)
        assert printed.splitlines() == ["True"] * 4


class TestTemporary:
    """What operators take besides their inputs and outputs."""

    @pytest.mark.parametrize("presents", [True, False])
    def test_attention_copies_the_past(self, device: DirectMLDevice, presents: bool) -> None:
        """Past and new keys become a join, in a present if there is one, else in temporary memory; so do values."""
        heads, past, size = 2, 256, 64
        graph = dg.Graph("attention")
        x = [graph.input(name, sizes=[1, 1, heads * size], dtype="float32") for name in "qkv"]
        before = [graph.input(name, sizes=[1, heads, past, size], dtype="float32") for name in ("keys", "values")]
        fields: dict[str, Any] = {"past_key": before[0], "past_value": before[1], "scale": 1 / 8, "head_count": heads}
        fields |= dict.fromkeys(("output_present_key", "output_present_value"), presents)
        made: Any = dg.multihead_attention(*x, **fields)
        for index, value in enumerate(made if presents else [made]):
            graph.output(f"y{index}", value)
        executable = device.compile(lower(graph, device.level), reason="asked for")
        joins = 2 * heads * (past + 1) * size * 4
        assert (executable.stats["temporary_bytes"] >= joins) is not presents
