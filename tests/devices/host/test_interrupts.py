"""Ctrl-C works while a library computes, and an interrupted executable can be used again."""

from __future__ import annotations

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dmlgraph.devices.host import interrupts
from dmlgraph.devices.host.interrupts import Watch, interruptible
from dmlgraph.devices.names import DeviceName

SOFTWARE: DeviceName = "directml:software"
SCRIPT = pathlib.Path(__file__).parents[2] / "support" / "interrupted.py"

needs_signals = pytest.mark.skipif(os.name != "posix", reason="a process is sent SIGINT as on POSIX systems")


def interrupt(case: str, device: DeviceName, after: float, environment: dict[str, str]) -> dict[str, Any]:
    """The report of a process that gets SIGINT some seconds after its work has begun."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {RUN_SCRIPT}", case, device],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    if process.stdout.readline().strip() == "begin":
        time.sleep(after)
        process.send_signal(signal.SIGINT)
    said, problems = process.communicate(timeout=600)
    assert (process.returncode, problems) == (0, "")
    return json.loads(said)


RUN_SCRIPT = f"import runpy; runpy.run_path({str(SCRIPT)!r}, run_name='__main__')"

LONG_WORK = [
    ("run", "cpu"),
    ("run_alone", "cpu"),
    ("run_product", "cpu"),
    ("bound", "cpu"),
    ("other_thread", "cpu"),
    ("compile", "cpu"),
    ("run", "reference"),
    ("other_thread", "reference"),
    ("run", SOFTWARE),
    ("bound", SOFTWARE),
    ("other_thread", SOFTWARE),
    ("compile", SOFTWARE),
    ("states", "cpu"),
    ("states", SOFTWARE),
]


@needs_signals
@pytest.mark.parametrize(("case", "device"), LONG_WORK)
def test_long_work_is_interrupted_and_can_be_done_again(
    case: str, device: DeviceName, request: pytest.FixtureRequest
) -> None:
    environment = {}
    if device == SOFTWARE:
        environment["DMLGRAPH_DIRECTML"] = str(request.getfixturevalue("directml_path"))
    said = interrupt(case, device, 0.3, environment)
    assert said["interrupted"] is not None, f"the work was over sooner: {said}"
    assert said["interrupted"] < said["whole"] / 2, "the signal waited for the work"


@needs_signals
@pytest.mark.parametrize("after", [0.0, 0.5, 1.0, 2.0])
def test_a_first_run_with_shaders_to_compile(directml_path: pathlib.Path, tmp_path: pathlib.Path, after: float) -> None:
    environment = {"DMLGRAPH_DIRECTML": str(directml_path), "DMLGRAPH_CACHE_DIR": str(tmp_path)}
    after += random.Random(after).uniform(0, 0.3)
    assert interrupt("shaders", SOFTWARE, after, environment)["whole"] > 0


def test_an_import_that_a_signal_ended_holds_up_no_work() -> None:
    """Python's import lock stays with the main thread if a signal comes right after it was taken."""
    script = f"""
import _imp, sys
sys.path[:0] = {sys.path!r}
from dmlgraph.devices.host.interrupts import interruptible
_imp.acquire_lock()
print(interruptible(lambda: __import__("colorsys").__name__))
"""
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.strip() == "colorsys"


# Exceptions in callbacks of the compiler.


@pytest.mark.parametrize("callback", ["describe", "compile"])
def test_what_interrupts_the_compiler_of_shaders_arrives(directml_path: pathlib.Path, callback: str) -> None:
    # In a new process, in which DirectML has no shaders yet.
    script = f"""
import sys
sys.path[:0] = {sys.path!r}
import numpy as np
import dmlgraph as dg
from dmlgraph.devices.directml.software import adapter

def graph_of(operator):
    graph = dg.Graph("g")
    graph.output("y", operator(graph.input("x", sizes=[5], dtype="float32")))
    return graph

compiler = adapter.load().compiler
x = np.full(5, 0.5, np.float32)
bystander = graph_of(dg.negate).compile({SOFTWARE!r})
bystander.run({{"x": x}})
for error, operator in [(KeyboardInterrupt, dg.exp), (SystemExit, dg.activation_sigmoid), (MemoryError, dg.atan)]:
    def fail(*_):
        raise error
    graph = graph_of(operator)
    original = getattr(compiler, {callback!r})
    setattr(compiler, {callback!r}, fail)
    try:
        graph.compile({SOFTWARE!r}).run({{"x": x}})
        print("finished")
    except BaseException as caught:
        print(type(caught).__name__, caught)
    setattr(compiler, {callback!r}, original)
    results = [graph.compile(device).run({{"x": x}})["y"] for device in ({SOFTWARE!r}, "reference")]
    np.testing.assert_allclose(*results, rtol=1e-4)
    np.testing.assert_array_equal(bystander.run({{"x": x}})["y"], -x)  # on the device that is not lost
"""
    process = subprocess.run(
        [sys.executable, "-P", "-c", script],
        env=os.environ | {"DMLGRAPH_DIRECTML": str(directml_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.strip() for line in process.stdout.splitlines()]
    assert lines == ["KeyboardInterrupt", "SystemExit", "NotEnoughMemoryError not enough memory to compile a shader"]


# The helper.


def in_signal_handler(error: type[BaseException], work: Callable[[], Any], cancel: Callable[[int], None]) -> None:
    """Calls `interruptible`, and raises the exception in the main thread while the work runs."""

    def handler(*_: object) -> None:
        raise error

    previous = signal.signal(signal.SIGINT, handler)
    try:
        with pytest.raises(error):
            interruptible(work, cancel)
    finally:
        signal.signal(signal.SIGINT, previous)


def test_results_and_exceptions_pass() -> None:
    assert interruptible(lambda: threading.current_thread() is threading.main_thread()) is False
    with pytest.raises(ZeroDivisionError) as caught:
        interruptible(lambda: 1 // 0)
    assert caught.value.__context__ is None
    assert interruptible(lambda: interruptible(threading.get_ident) == threading.get_ident()) is True


def test_the_context_of_the_caller_counts() -> None:
    def divide() -> Any:
        return np.ones(1) / np.zeros(1)

    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        interruptible(divide)


@needs_signals
@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError])
def test_an_exception_of_a_handler_leaves_at_once_and_the_next_work_waits(error: type[BaseException]) -> None:
    order: list[str] = []
    go_on = threading.Event()

    def work() -> None:
        signal.raise_signal(signal.SIGINT)
        go_on.wait()
        order.append("the first")

    in_signal_handler(error, work, lambda _: order.append("cancelled"))
    assert order == ["cancelled"]
    threading.Timer(0.2, go_on.set).start()
    interruptible(lambda: order.append("the next"))
    assert order == ["cancelled", "the first", "the next"]


@needs_signals
def test_python_code_is_ended() -> None:
    ended = threading.Event()

    def work() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
            while True:
                time.sleep(0.001)
        finally:
            ended.set()

    in_signal_handler(KeyboardInterrupt, work, interrupts.end_python)
    assert ended.wait(60)
    assert interruptible(lambda: 7) == 7


@needs_signals
def test_a_handler_that_returns_disturbs_nothing() -> None:
    heard = threading.Event()
    previous = signal.signal(signal.SIGINT, lambda *_: heard.set())
    try:

        def work() -> int:
            signal.raise_signal(signal.SIGINT)
            assert heard.wait(60)
            return 7

        assert interruptible(work) == 7
    finally:
        signal.signal(signal.SIGINT, previous)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_a_helper_of_its_own() -> None:
    assert interruptible(lambda: 1) == 1
    child = os.fork()
    if child == 0:
        os._exit(interruptible(lambda: 7))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_short_work_stays_where_it_is() -> None:
    watch = Watch()
    threads = [watch.call(threading.get_ident) for _ in range(3)]
    assert threads[0] != threading.get_ident()
    assert threads[1:] == [threading.get_ident()] * 2
    watch.call(lambda: time.sleep(0.05))
    assert watch.call(threading.get_ident) != threading.get_ident()
