"""Threads: they share regions; several runs at once; forks; idle threads use no time."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

import dmlgraph as dg
from dmlgraph.devices.cpu import CpuDevice
from dmlgraph.devices.executable import Executable
from dmlgraph.devices.names import DeviceName

COUNT = 1 << 20


def chain(threads: int, count: int = COUNT) -> Executable:
    """y = x · seq + x, z = max over rows: regions and other steps."""
    g = dg.Graph("chain")
    x = g.input("x", sizes=[count // 64, 64], dtype="float32")
    sequence = g.fill_value_sequence(sizes=[count // 64, 64], dtype="float32", value_start=0, value_delta=1)
    y = x * sequence + x
    g.output("y", y)
    g.output("z", y - dg.reduce(y, function="max", axes=[1]))
    return CpuDevice(threads).compile(g.lower(fuse=False), reason="test")


def expected(x: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    y = x * np.arange(x.size, dtype=np.float32).reshape(x.shape) + x
    return y, y - y.max(1, keepdims=True)


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_the_number_of_threads_changes_no_value(threads: int) -> None:
    x = np.random.default_rng(0).random((COUNT // 64, 64)).astype(np.float32)
    executable = chain(threads)
    y, z = expected(x)
    for _ in range(5):
        results = executable.run({"x": x})
        np.testing.assert_array_equal(results["y"], y)
        np.testing.assert_array_equal(results["z"], z)


@pytest.mark.parametrize("shared", [True, False], ids=["one executable", "one for each"])
def test_several_python_threads_run_at_once(shared: bool) -> None:
    one = chain(2, 1 << 18)
    wrong: list[int] = []

    def work(number: int) -> None:
        executable = one if shared else chain(2, 1 << 18)
        x = np.full(((1 << 18) // 64, 64), number, np.float32)
        y, z = expected(x)
        out = np.empty_like(y)
        bound = executable.bind({"x": x}, {"y": out})
        for _ in range(15):
            first, second = executable.run({"x": x}), bound()
            if not all((r["y"] == y).all() and (r["z"] == z).all() for r in (first, second)):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_other_threads_run_python_meanwhile() -> None:
    g = dg.Graph()
    value = g.input("x", sizes=[1 << 22], dtype="float32")
    for _ in range(30):
        value = dg.tanh(value)
    g.output("y", value)
    executable = CpuDevice(1).compile(g.lower(fuse=False), reason="test")
    x = np.zeros(1 << 22, np.float32)
    ticks: list[float] = []
    done = threading.Event()

    def tick() -> None:
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    start = time.perf_counter()
    executable.run({"x": x})
    end = time.perf_counter()
    done.set()
    thread.join()
    assert any(start + 0.2 * (end - start) < each < end - 0.2 * (end - start) for each in ticks)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_process_runs_too() -> None:
    script = """
import os
import warnings
import numpy as np
import dmlgraph as dg
from dmlgraph.devices.cpu import CpuDevice
warnings.simplefilter("ignore")
g = dg.Graph()
g.output("y", g.input("x", sizes=[1 << 20], dtype="float32") + 1)
executable = CpuDevice(4).compile(g.lower(), reason="test")
x = np.zeros(1 << 20, np.float32)
def right():
    return (executable.run({"x": x})["y"] == 1).all()
assert right()
children = []
for _ in range(3):
    child = os.fork()
    if child == 0:
        os._exit(0 if right() and right() else 1)
    children.append(child)
assert right()
print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
"""
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "[0, 0, 0]"


def states_of_other_threads() -> list[str]:
    """What the system says of each thread of this process except for the caller's: a letter."""
    tasks = [path for path in pathlib.Path("/proc/self/task").iterdir() if int(path.name) != threading.get_native_id()]
    return [(path / "stat").read_text("utf-8").rpartition(")")[2].split()[0] for path in tasks]


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_threads_are_quiet_when_idle() -> None:
    executable = chain(4)
    executable.run({"x": np.zeros((COUNT // 64, 64), np.float32)})
    for _ in range(12_000):  # a busy machine takes its time
        if set(states_of_other_threads()) == {"S"}:  # asleep
            return
        time.sleep(0.01)
    raise AssertionError("a thread does not fall asleep")


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_the_software_adapter_works_with_the_same_helpers(directml_path: pathlib.Path) -> None:
    script = """
import os
import numpy as np
import dmlgraph as dg
from dmlgraph.devices.directml.software import adapter

g = dg.Graph()
x = g.input("x", sizes=[1 << 20], dtype="float32")
g.output("y", dg.exp(x) * dg.tanh(x))
inputs = {"x": np.ones(1 << 20, np.float32)}
adapter.set_threads(1)
software = g.compile("directml:software")
cpu = g.compile("cpu", threads=1)


def threads(executable):
    for _ in range(3):
        executable.run(inputs)
    return len(os.listdir("/proc/self/task"))


threads(cpu)
alone = threads(software)
adapter.set_threads(4)
with_helpers = threads(software)
print(with_helpers - alone, threads(g.compile("cpu", threads=4)) - with_helpers)
"""
    environment = os.environ | {"DMLGRAPH_DIRECTML": str(directml_path)}
    command = [sys.executable, "-P", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=300)
    assert done.stdout.split() == ["3", "0"]


def test_the_environment_says_how_many_threads_there_are() -> None:
    script = """
from dmlgraph.devices.cpu import CpuDevice
import dmlgraph as dg
g = dg.Graph()
g.output("y", g.fill_value_constant(sizes=[1], dtype="float32", value=1))
print(g.compile("cpu").stats["threads"], CpuDevice(2).compile(g.lower(), reason="").stats["threads"])
"""
    for value, count in (("7", 7), ("1", 1)):
        done = subprocess.run(
            [sys.executable, "-P", "-c", script],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"DMLGRAPH_THREADS": value},
        )
        assert done.stdout.split() == [str(count), "2"]


@pytest.mark.parametrize(
    "value", ["0", "-1", "2.0", "two", "1e3", "0x2", "1025", "2147483648", "9" * 30, "9" * 5000, "٣"]
)
def test_the_environment_says_a_number_of_threads(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DMLGRAPH_THREADS", value)
    with pytest.raises(dg.DeviceError) as caught:
        ones(8).compile("cpu")
    assert (caught.value.field, caught.value.got, caught.value.allowed) == ("DMLGRAPH_THREADS", value, "1 to 1024")
    assert ones(8).compile("cpu", threads=2).stats["threads"] == 2  # threads= has priority


@pytest.mark.parametrize("value", ["", "  ", " 3 "])
def test_space_around_the_number_of_threads_does_not_count(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DMLGRAPH_THREADS", raising=False)
    default = ones(8).compile("cpu").stats["threads"]
    monkeypatch.setenv("DMLGRAPH_THREADS", value)
    assert ones(8).compile("cpu").stats["threads"] == (int(value) if value.strip() else default)


def ones(count: int) -> dg.Graph:
    g = dg.Graph("ones")
    g.output("y", dg.exp(g.input("x", sizes=[count], dtype="float32")))
    return g


def test_compile_takes_the_number_of_threads() -> None:
    executable = ones(8).compile("cpu", threads=3)
    assert executable.stats["threads"] == 3
    np.testing.assert_array_equal(executable.run({"x": np.zeros(8, np.float32)})["y"], np.ones(8, np.float32))


@pytest.mark.parametrize("threads", [1, np.int64(2), 1024])
def test_any_whole_number_of_threads_is_taken(threads: Any) -> None:
    assert ones(8).compile("cpu", threads=threads).stats["threads"] == threads


@pytest.mark.parametrize(
    ("device", "threads"),
    [
        *(("cpu", each) for each in (0, -1, True, False, 2.0, 0.5, "2", [2], 1025, 2**31, 2**32, 2**63, 2**64, 10**30)),
        ("reference", 2),
    ],
)
def test_what_is_no_number_of_threads_is_refused(device: DeviceName, threads: object) -> None:
    with pytest.raises(dg.DeviceError) as caught:
        ones(8).compile(device, threads=threads)  # type: ignore[arg-type]
    assert caught.value.field == "threads"
    assert caught.value.got == threads
