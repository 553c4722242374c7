"""Graphs on adapters that are as strict as real systems: native/software_adapter/strictness.h lists the restrictions.

A process reads the restrictions once, so each test runs its script in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the adapter that can be strict is that of Linux")

START = """
import numpy as np
import dmlgraph as dg
from dmlgraph.devices.directml.device import DirectMLDevice

def doubled(dtype="float32"):
    graph = dg.Graph("doubled")
    x = graph.input("x", sizes=[4], dtype=dtype)
    graph.output("y", dg.add(x, x))
    return graph
X = np.arange(4, dtype=np.float32)
"""


def run(script: str, strict: str, directml_path: Path, **variables: str) -> str:
    """What a script prints on an adapter with these restrictions; an exception of dmlgraph is printed."""
    code = START + "try:\n" + "".join(f"    {line}\n" for line in script.strip().splitlines())
    code += "except dg.DmlGraphError as error:\n    print(type(error).__name__, error.code, error)\n"
    validating = ";".join(f"{adapter},validation" for adapter in strict.split(";"))
    environment = os.environ | {"DMLGRAPH_DIRECTML": str(directml_path), "DMLGRAPH_SOFTWARE_STRICT": validating}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], env=environment | variables, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, f"exit status {done.returncode}: {done.stderr}"
    return done.stdout.strip()


def test_unknown_restriction(directml_path: Path) -> None:
    printed = run("DirectMLDevice('software')", "strict,lenient", directml_path)
    assert printed.startswith("SoftwareAdapterError software-adapter DMLGRAPH_SOFTWARE_STRICT has the unknown option")
    assert "'lenient'; options: strict, gpu, npu" in printed


def test_the_messages_of_the_adapter_reach_the_user(directml_path: Path) -> None:
    script = """
executable = doubled().compile(device="directml:software")
executable._device.remove()
try:
    executable.run({"x": X})
except dg.DeviceError as error:
    print(*error.debug_messages, sep="|")
"""
    assert run(script, "", directml_path) == "device removed (0x887a0005): RemoveDevice was called"


class TestDebugLayer:
    """Switching it on removes every device, so it happens before the first one or not at all."""

    def test_too_late(self, directml_path: Path) -> None:
        script = """
executable = doubled().compile(device="directml:software")
try:
    doubled().compile(device="directml:software", debug=True)
except dg.DeviceError as error:
    print(type(error).__name__, error.code, error)
print(executable.run({"x": X})["y"])
"""
        refused, result = run(script, "late_debug,one_device", directml_path).splitlines()
        assert refused.startswith("DebugLayerError debug-layer this process already uses Direct3D 12 without")
        assert "DMLGRAPH_DEBUG=1" in refused
        assert result == "[0. 2. 4. 6.]"

    @pytest.mark.parametrize("asked", ["first compilation", "environment"])
    def test_in_time(self, directml_path: Path, asked: str) -> None:
        """This DirectML has no layer of its own, but that of Direct3D 12 was switched on and removed nothing."""
        debug = asked == "first compilation"
        script = f"""
try:
    doubled().compile(device="directml:software", debug={debug})
except dg.DeviceError as error:
    print(type(error).__name__, error)
import os
os.environ["DMLGRAPH_DEBUG"] = "0"
with doubled().compile(device="directml:software") as executable:
    print(executable.run({{"x": X}})["y"])
"""
        printed = run(script, "late_debug,one_device", directml_path, DMLGRAPH_DEBUG="0" if debug else "1")
        refused, result = printed.splitlines()
        assert refused.startswith("DebugLayerError this DirectML has no debug layer")
        assert result == "[0. 2. 4. 6.]"

    def test_environment_is_checked(self, directml_path: Path) -> None:
        printed = run("doubled().compile(device='directml:software')", "", directml_path, DMLGRAPH_DEBUG="yes")
        assert printed == "DeviceError range field 'DMLGRAPH_DEBUG': must be 0, 1 or gpu; got yes; allowed: 0, 1, gpu"


class TestRemoval:
    """After a removal nothing of the device may stay: Direct3D 12 makes no other before."""

    STAYING = """
first, second, third = (doubled().compile(device="directml:software") for _ in range(3))
result = first.run({"x": X})["y"]
again = second.bind({"x": X})
sharing = DirectMLDevice("software", share_memory=True)
from dmlgraph.compiler.lowering import lower
fourth = sharing.compile(lower(doubled()), reason="")
before = first._device
before.remove()
"""

    def test_compiling_again_inside_the_handler(self, directml_path: Path) -> None:
        """The traceback of the error refers to the executable, the device, arrays: none of them may hold the device."""
        script = (
            self.STAYING
            + """
try:
    again()
except dg.DeviceError as error:
    print(type(error).__name__)
    executable = doubled().compile(device="directml:software")
    print(executable.run({"x": X})["y"], before.lost, executable._device is before)
    print(fourth._device.lost)
for old in (first, second, third, fourth):
    try:
        old.run({"x": X})
    except dg.DeviceError as error:
        print(type(error).__name__, error.graph)
    old.close()
print(result, executable.run({"x": X})["y"])
fifth = sharing.compile(lower(doubled()), reason="")
print(fifth.run({"x": X})["y"])
"""
        )
        lines = run(script, "one_device", directml_path).splitlines()
        assert lines[0] == "DeviceRemovedError"
        assert lines[1:3] == ["[0. 2. 4. 6.] True False", "True"]
        assert lines[3:7] == ["DeviceRemovedError doubled"] * 4
        assert lines[7:] == ["[0. 2. 4. 6.] [0. 2. 4. 6.]", "[0. 2. 4. 6.]"]

    def test_compiling_without_a_run_that_noticed(self, directml_path: Path) -> None:
        script = self.STAYING + """print(doubled().compile(device="directml:software").run({"x": X})["y"])"""
        assert run(script, "one_device", directml_path) == "[0. 2. 4. 6.]"

    @pytest.mark.parametrize("call", range(1, 12))
    def test_removed_at_any_call(self, directml_path: Path, call: int) -> None:
        """Wherever the removal strikes, once more inside the handler is enough: initialisation, run, profile."""
        script = """
def weighted():
    graph = dg.Graph("weighted")
    x = graph.input("x", sizes=[4], dtype="float32")
    w = graph.input("w", sizes=[4], dtype="float32", owned=True)
    graph.output("y", dg.exp(x * w) - 1.0)
    return graph
def work():
    executable = weighted().compile(device="directml:software")
    results = [executable.run({"x": 0 * X, "w": X})["y"], executable.run({"x": 0 * X})["y"]]
    steps = executable.profile({"x": X})
    results.append(executable.run({"x": 0 * X})["y"])
    return executable, [not result.any() for result in results], len(steps) > 0
losses, held = 0, []
for turn in range(3):
    try:
        done = work()
    except dg.DeviceError as error:
        losses += 1
        held.append(error)  # with its traceback
        done = work()
    held.append(done[0])
    assert done[1:] == ([True] * 3, True), done
print("recovered", losses)
"""
        # The first calls are those of the trial whether memory can be shared: a loss there is nobody's.
        printed = run(script, f"strict,remove_at={call}", directml_path, DMLGRAPH_SHARE_MEMORY="1")
        assert printed in ("recovered 1", "recovered 0")

    def test_several_threads(self, directml_path: Path) -> None:
        """Some run, some compile, while the device is removed; all of them recover."""
        script = """
import threading
wrong, lost = [], []
def work(seed):
    executable, done = None, 0
    while done < 30:
        try:
            if executable is None or seed % 2:
                executable = doubled().compile(device="directml:software")
            found = executable.run({"x": X + seed})["y"]
            done += 1
        except dg.DeviceError as error:
            lost.append(type(error).__name__)
            executable = None
            continue
        if not np.array_equal(found, 2 * (X + seed)):
            wrong.append((seed, found))
threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(wrong, set(lost))
"""
        assert run(script, "strict,no_sharing,remove_at=40", directml_path) == "[] {'DeviceRemovedError'}"

    def test_something_else_holds_the_removed_device(self, directml_path: Path) -> None:
        script = """
import ctypes, uuid
from dmlgraph.devices.directml.software import adapter
executable = doubled().compile(device="directml:software")
# Another user of Direct3D 12 in this process, which does not let go.
library = ctypes.CDLL(str(adapter.find_library("libd3d12.so")))
iid = uuid.UUID("189819f1-1db6-4b57-be54-1821339b85f7").bytes_le  # ID3D12Device
held = ctypes.c_void_p()
assert library.D3D12CreateDevice(None, 0xb000, iid, ctypes.byref(held)) == 0
executable._device.remove()
doubled().compile(device="directml:software")
"""
        printed = run(script, "one_device", directml_path)
        assert printed.startswith(
            "DeviceRemovedError device-removed the device of dmlgraph software adapter was removed"
        )
        assert "something in this process still holds it" in printed


class TestFailingFence:
    """Buffers in flight stay until the adapter has finished with them."""

    @pytest.mark.parametrize("call", range(1, 4))
    @pytest.mark.parametrize("restriction", ["fail_signal", "fail_event"])
    def test_short_of_memory_for_a_moment(self, directml_path: Path, restriction: str, call: int) -> None:
        script = """
executable = doubled().compile(device="directml:software")
for turn in range(3):
    print(executable.run({"x": X + turn})["y"].tolist() == (2 * X + 2 * turn).tolist())
"""
        assert run(script, f"async,{restriction}={call}", directml_path).splitlines() == ["True"] * 3

    def test_for_good(self, directml_path: Path) -> None:
        """The device is removed, which ends its work, before any buffer is released."""
        script = """
executable = doubled().compile(device="directml:software")
try:
    for turn in range(3):
        executable.run({"x": X})
except dg.DeviceError as error:
    print(turn, type(error).__name__, error.call, executable._device.lost)
"""
        printed = run(script, "async,no_sharing,one_device,fail_signals_from=3", directml_path)
        assert printed == "1 DeviceRemovedError ID3D12CommandQueue::Signal True"


class TestEndlessWork:
    """Work that does not end is ended with its device, if it is cancelled or takes longer than it may."""

    RUN = """
import os, signal, threading, time
executable = doubled().compile(device="directml:software")
start = time.perf_counter()
{before}
try:
    executable.run({{"x": X}})
except (dg.DeviceError, KeyboardInterrupt) as error:
    print(type(error).__name__, str(error).partition("; its contents")[0].replace("\\n", " "))
print(doubled().compile(device="directml:software").run({{"x": X}})["y"], time.perf_counter() - start < 60)
"""

    @pytest.mark.parametrize("restrictions", ["hang_at=2", "hang_at=2,fail_event=1"])
    def test_it_may_last_so_many_seconds(self, directml_path: Path, restrictions: str) -> None:
        printed = run(self.RUN.format(before=""), restrictions, directml_path, DMLGRAPH_DIRECTML_TIMEOUT="0.5")
        ended, result = printed.splitlines()
        assert ended.startswith("DeviceRemovedError graph 'doubled': the work did not end in time, so the device")
        assert result == "[0. 2. 4. 6.] True"

    def test_interrupted(self, directml_path: Path) -> None:
        before = "threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()"
        ended, result = run(self.RUN.format(before=before), "hang_at=2", directml_path).splitlines()
        assert ended.startswith("KeyboardInterrupt")
        assert result == "[0. 2. 4. 6.] True"

    @pytest.mark.parametrize("given", ["-1", "soon", "inf"])
    def test_the_limit_is_a_number(self, directml_path: Path, given: str) -> None:
        script = "doubled().compile(device='directml:software')"
        printed = run(script, "", directml_path, DMLGRAPH_DIRECTML_TIMEOUT=given)
        assert printed.startswith("DeviceError range field 'DMLGRAPH_DIRECTML_TIMEOUT': must be a number of seconds")


@pytest.mark.parametrize("strict", ["", "gpu_timeout"])
def test_long_graphs_may_take_longer_than_the_timeout(directml_path: Path, strict: str) -> None:
    """The timeout is off, where the driver allows that."""
    script = """
executable = doubled().compile(device="directml:software")
print(executable._device.runs_without_timeout, executable.run({"x": X})["y"])
"""
    assert run(script, strict, directml_path) == f"{not strict} [0. 2. 4. 6.]"


class TestAuto:
    """`auto` goes through the GPUs, fastest first, and ends at `cpu`; it says why."""

    SYSTEM = """
from dmlgraph.devices import choose
from dmlgraph.devices.directml import library
from dmlgraph.devices.directml.software import adapter
adapter.load()  # compiles shaders
library.SYSTEM_FOLDERS = (str(adapter.find_library("libd3d12.so").parent),)
def identity(dtype):
    graph = dg.Graph("copied")
    graph.output("y", dg.identity(graph.input("x", sizes=[4], dtype=dtype)))
    return graph
def show(graph, dtype="float32"):
    executable = graph.compile()
    print(executable.device, executable.run({"x": X.astype(dtype)})["y"].tolist(), executable.reason, sep=" | ")
"""

    def test_first_gpu(self, directml_path: Path) -> None:
        device, result, reason = run(self.SYSTEM + "show(doubled())", "gpu;gpu", directml_path).split(" | ")
        assert (device, result) == ("directml:0", "[0.0, 2.0, 4.0, 6.0]")
        assert reason.startswith("auto: a hardware adapter: dmlgraph software adapter (gpu, ")

    def test_next_adapter_for_a_data_type(self, directml_path: Path) -> None:
        script = self.SYSTEM + "show(identity('float64'), 'float64')\nshow(doubled())"
        wide, narrow = run(script, "gpu,no_float64;gpu", directml_path).splitlines()
        assert wide.startswith("directml:1 | [0.0, 1.0, 2.0, 3.0] | auto: a hardware adapter: ")
        assert "since 'directml:0' cannot run this graph: node 'identity', field 'input': the device does not" in wide
        assert narrow.startswith("directml:0 | ")

    def test_cpu_at_the_end(self, directml_path: Path) -> None:
        """A data type that none of them has; a level that DirectML does not have; an operator that it refuses."""
        script = (
            self.SYSTEM
            + """
show(identity("float64"), "float64")
graph = dg.Graph("normalized")
x = graph.input("x", sizes=[1, 4], dtype="float32")
scale = graph.constant("scale", np.ones((1, 1), np.float32))
options = {"axes": [1], "use_mean": True, "use_variance": True, "epsilon": 1.0}
graph.output("y", dg.mean_variance_normalization2(x, scale, None, **options))
executable = graph.compile()
print(executable.device, executable.reason)
"""
        )
        wide, new = run(script, "gpu,no_float64;gpu,no_float64", directml_path).splitlines()
        assert wide.startswith("cpu | [0.0, 1.0, 2.0, 3.0] | auto: the embedded default, since 'directml:0' cannot run")
        assert "; 'directml:1' cannot run this graph: node" in wide
        assert new.startswith("cpu auto: the embedded default, since 'directml:0' cannot run this graph: node 'mean_va")
        assert "it appears at 6.3" in new or "legal from 6.3" in new

    def test_never_an_npu_by_itself(self, directml_path: Path) -> None:
        script = self.SYSTEM + "show(doubled())\nprint(doubled().compile('directml:0').run({'x': X})['y'])"
        found, asked = run(script, "npu,core", directml_path).splitlines()
        assert found.startswith("cpu | [0.0, 2.0, 4.0, 6.0] | auto: the embedded default, since 'directml:0' is an NPU")
        assert asked == "[0. 2. 4. 6.]"

    def test_adapter_that_cannot_be_opened(self, directml_path: Path) -> None:
        script = self.SYSTEM + "show(identity('float64'), 'float64')"
        printed = run(script, "gpu,no_float64;gpu,generic", directml_path)
        assert printed.startswith("cpu | [0.0, 1.0, 2.0, 3.0] | auto: the embedded default, since ")
        assert "; 'directml:1' cannot be used: D3D12CreateDevice failed with DXGI_ERROR_UNSUPPORTED" in printed

    def test_a_device_that_is_asked_for_is_not_replaced(self, directml_path: Path) -> None:
        printed = run(self.SYSTEM + "identity('float64').compile('directml:0')", "gpu,no_float64;gpu", directml_path)
        assert printed.startswith("DirectMLError dtype graph 'copied': node 'identity'")


class TestFeatureLevel:
    """GPUs and software adapters try 11_0 and then 1_0_CORE, other adapters 1_0_CORE and then 1_0_GENERIC."""

    LEVELS = """
from dmlgraph import _native
from dmlgraph.devices.directml.runtime import load_runtime
runtime = load_runtime(software=True)
for adapter in runtime.adapters:
    try:
        print(adapter.kind, hex(_native.Device(runtime.library, adapter).d3d12_level))
    except dg.DeviceError as error:
        print(adapter.kind, type(error).__name__, error)
"""

    def test_first_that_the_adapter_has(self, directml_path: Path) -> None:
        printed = run(self.LEVELS, "gpu;gpu,core;npu;npu,core;;core", directml_path)
        assert printed.splitlines() == [
            *("gpu 0xb000", "gpu 0x1000", "npu 0x1000", "npu 0x1000"),
            *("software 0xb000", "software 0x1000"),
        ]

    def test_generic(self, directml_path: Path) -> None:
        """Direct3D makes a device of this level; that this DirectML refuses it is measured, and told."""
        npu, gpu = sorted(run(self.LEVELS, "gpu,generic;npu,generic", directml_path).splitlines(), reverse=True)
        assert npu.startswith("npu LibraryError ")
        assert "only has feature level 1_0_GENERIC: DMLCreateDevice1 failed with E_INVALIDARG" in npu
        assert gpu.startswith("gpu DirectMLError D3D12CreateDevice failed with DXGI_ERROR_UNSUPPORTED")

    def test_results_on_core(self, directml_path: Path) -> None:
        script = "print(doubled().compile(device='directml:software').run({'x': X})['y'])"
        assert run(script, "strict,core", directml_path) == "[0. 2. 4. 6.]"


class TestDataTypes:
    """A type that the device lacks is named with the node and the tensor, before DirectML refuses the graph."""

    def test_named(self, directml_path: Path) -> None:
        script = """
graph = dg.Graph("wide")
x = graph.input("x", sizes=[4], dtype="float64")
graph.output("y", dg.identity(dg.identity(x, name="first"), name="second"))
try:
    graph.compile(device="directml:software", fuse=False)
except dg.DeviceError as error:
    for problem in error.problems:
        print(problem.node, problem.field, problem.code, problem.got, problem.allowed)
print(graph.compile(device="cpu").run({"x": X.astype(float)})["y"])
"""
        lines = run(script, "no_float64", directml_path).splitlines()
        some = "float32, float16, uint32, uint16, uint8, int32, int16, int8, uint64, int64"
        fields = [(node, field) for node in ("first", "second") for field in ("input", "output")]
        assert lines == [*(f"{node} {field} dtype float64 {some}" for node, field in fields), "[0. 1. 2. 3.]"]

    def test_supported(self, directml_path: Path) -> None:
        script = "print(doubled('int64').compile(device='directml:software').run({'x': X.astype(np.int64)})['y'])"
        assert run(script, "no_float64,no_int64", directml_path) == "[0 2 4 6]"
