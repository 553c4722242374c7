"""Processes that end while daemon threads are inside libraries: they end without errors at any moment."""

from __future__ import annotations

import os
import pathlib
import random
import subprocess
import sys

import pytest

from dmlgraph.devices.names import DeviceName

SOFTWARE: DeviceName = "directml:software"

# Regions, steps in NumPy and compilations, in threads that nothing waits for.
BUSY = """
import threading, time
import numpy as np
import dmlgraph as dg

device, seconds = sys.argv[1], float(sys.argv[2])
side = 256
graph = dg.Graph("g")
x = graph.input("x", sizes=[1, 1, side, side], dtype="float32")
total = dg.cumulative_summation(dg.gemm(x, x), axis=3, axis_direction="increasing", has_exclusive_sum=False)
graph.output("y", dg.gemm(dg.activation_softmax1(total, axes=[3]), x))
inputs = {"x": np.ones((1, 1, side, side), np.float32)}
shared = graph.compile(device)
begin = threading.Barrier(4)

def work(action):
    begin.wait()
    while True:
        action()

for action in (shared.bind(inputs), lambda: shared.run(inputs), lambda: graph.compile(device).run(inputs)):
    threading.Thread(target=work, args=(action,), daemon=True).start()
begin.wait()
time.sleep(seconds)
"""

# The thread that imports a module for a run ends in the middle of the import.
IMPORTING = """
import threading
import numpy as np
import dmlgraph as dg

begun = threading.Event()

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "dmlgraph.devices.host.interrupts":
            begun.set()
            while True:
                pass

graph = dg.Graph("g")
x = graph.input("x", sizes=[1, 1, 256, 256], dtype="float32")
graph.output("y", dg.gemm(x, x))
executable = graph.compile(sys.argv[1])
sys.modules.pop("dmlgraph.devices.host.interrupts", None)
sys.meta_path.insert(0, Finder())
threading.Thread(target=executable.run, args=({"x": np.ones((1, 1, 256, 256), np.float32)},), daemon=True).start()
begun.wait()
"""

# After a KeyboardInterrupt the work continues in the background, here in the compiler of shaders.
INTERRUPTED = """
import os, signal, threading, time
import numpy as np
import dmlgraph as dg

signal.signal(signal.SIGINT, signal.default_int_handler)
device, seconds = sys.argv[1], float(sys.argv[2])
graph = dg.Graph("g")
x = graph.input("x", sizes=[1, 1, 4, 8], dtype="float32")
y = dg.reduce(dg.activation_softmax1(dg.gemm(x, x, trans_b="transpose"), axes=[3]), function="sum", axes=[3])
graph.output("y", y)

def interrupt():
    time.sleep(seconds)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
try:
    graph.compile(device).run({"x": np.ones((1, 1, 4, 8), np.float32)})
    time.sleep(60)
except KeyboardInterrupt:
    pass
"""


# A cancelled run takes the interpreter lock again while Python exits: its first step cannot be stopped, and ends in the
# last moments, which an object makes long.
CANCELLED = """
import os, signal, threading, time
import numpy as np
import dmlgraph as dg
from dmlgraph.devices.host import interrupts

class Last:
    def __del__(self, sleep=time.sleep, seconds=float(sys.argv[2])):
        sleep(seconds)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.last = Last()
interrupts._GRACE = 0
graph = dg.Graph("g")
x = graph.input("x", sizes=[1, 1, 1, 1 << 22], dtype="float32")
values, places = dg.top_k1(x, axis=3, k=1 << 22, axis_direction="increasing")
graph.output("y", dg.sqrt(values))
executable = graph.compile(sys.argv[1], threads=2)
data = np.random.default_rng(0).random((1, 1, 1, 1 << 22), np.float32)
try:
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    while True:
        executable.run({"x": data})
except KeyboardInterrupt:
    pass
"""


def end(script: str, device: DeviceName, seconds: float, environment: dict[str, str]) -> None:
    process = subprocess.run(
        [sys.executable, "-P", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{script}", device, str(seconds)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert (process.returncode, process.stderr) == (0, "")


@pytest.mark.parametrize("device", ["cpu", "reference", SOFTWARE])
def test_daemon_threads_at_work(device: DeviceName, request: pytest.FixtureRequest) -> None:
    environment = {}
    if device == SOFTWARE:
        environment["DMLGRAPH_DIRECTML"] = str(request.getfixturevalue("directml_path"))
    rng = random.Random(0)
    for _ in range(5):
        end(BUSY, device, rng.uniform(0, 0.05), environment)


def test_import_for_a_run() -> None:
    end(IMPORTING, "cpu", 0, {})


@pytest.mark.skipif(os.name != "posix", reason="a process is sent SIGINT as on POSIX systems")
def test_work_that_was_given_up(directml_path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    rng = random.Random(0)
    for number in range(3):
        cache = {"DMLGRAPH_DIRECTML": str(directml_path), "DMLGRAPH_CACHE_DIR": str(tmp_path / str(number))}
        end(INTERRUPTED, SOFTWARE, rng.uniform(0.1, 1.5), cache)


@pytest.mark.skipif(os.name != "posix", reason="a process is sent SIGINT as on POSIX systems")
def test_a_cancelled_run_ends_while_python_exits() -> None:
    for seconds in (0.5, 2):
        end(CANCELLED, "cpu", seconds, {})
