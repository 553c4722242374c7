"""Runs in flight: their order and results, what goes wrong in them, and how they end."""

from __future__ import annotations

import contextlib
import copy
import gc
import os
import pickle
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import CancelledError
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.problems import raises

import dmlgraph as dg
from dmlgraph.devices.executable import Array, Executable
from dmlgraph.devices.in_flight import Series
from dmlgraph.devices.names import DeviceName
from dmlgraph.devices.states import States

DEVICES: tuple[DeviceName, ...] = ("reference", "cpu", "directml:software")

pytestmark = pytest.mark.usefixtures("directml_path")


def twice() -> dg.Graph:
    """y = 2 x, of two numbers."""
    g = dg.Graph("twice")
    g.output("y", g.input("x", sizes=[2], dtype="float32") * 2)
    return g


def digits(base: int) -> dg.Graph:
    """The state `number` gets another digit x, in this base; y is what it was."""
    g = dg.Graph(f"base {base}")
    number = g.state("number", sizes=[1], dtype="float32", initial=0)
    g.update(number, number * base + g.input("x", sizes=[1], dtype="float32"))
    g.output("y", dg.identity(number))
    return g


def x(*numbers: float) -> dict[str, Any]:
    return {"x": np.array(numbers, np.float32)}


def y(results: dict[str, Array]) -> float:
    """The first number of a result."""
    return float(results["y"].flat[0])


@pytest.fixture(params=DEVICES)
def exe(request: pytest.FixtureRequest) -> Executable:
    return twice().compile(request.param)


@contextlib.contextmanager
def held_up(exe: Executable) -> Iterator[threading.Event]:
    """Runs do not go on until the event is set."""
    go = threading.Event()
    run = exe._run

    def waiting(*arguments: Any) -> dict[str, Array]:
        assert go.wait(60)
        return run(*arguments)

    with mock.patch.object(exe, "_run", waiting):
        try:
            yield go
        finally:
            go.set()


@contextlib.contextmanager
def failing(exe: Executable, bad: float, error: Exception) -> Iterator[list[float]]:
    """Runs whose x begins with this number raise the error; the list is what it is in the others."""
    began: list[float] = []
    run, slot = exe._run, [each.name for each in exe.graph.inputs].index("x")

    def failing_run(arrays: Any, targets: Any, *more: Any) -> dict[str, Array]:
        first = float(arrays[slot][0])
        if first == bad:
            raise error
        began.append(first)
        return run(arrays, targets, *more)

    with mock.patch.object(exe, "_run", failing_run):
        yield began


# submit


def test_a_future_has_the_results_in_arrays_of_their_own(exe: Executable) -> None:
    futures = [exe.submit(x(number, 1)) for number in range(5)]
    results = [future.result()["y"] for future in futures]
    np.testing.assert_array_equal(results, [[2 * number, 2] for number in range(5)])
    assert not any(np.shares_memory(results[0], other) for other in results[1:])


def test_what_is_written_into_an_input_afterwards_is_not_seen(exe: Executable) -> None:
    array = np.array([1, 2], np.float32)
    with held_up(exe) as go:
        futures = [exe.submit({"x": array[::-1]})]
        array[:] = 5, 6
        futures.append(exe.submit({"x": array}))
        array[:] = 7, 8
        go.set()
        np.testing.assert_array_equal([future.result()["y"] for future in futures], [[4, 2], [10, 12]])


def test_what_is_wrong_with_arguments_is_said_at_once(exe: Executable) -> None:
    with raises(dg.BindingError, "sizes", field="x", got=[3]):
        exe.submit(x(1, 2, 3))
    with raises(dg.BindingError, "kind", field="states", got={}):
        exe.submit(x(1, 2), states={})  # type: ignore[arg-type]
    exe.close()
    with raises(dg.DmlGraphError, "closed"):
        exe.submit(x(1, 2))


def test_what_goes_wrong_in_a_run_is_in_its_future(exe: Executable) -> None:
    with failing(exe, 1, RuntimeError("no luck")):
        futures = [exe.submit(x(number, 0)) for number in range(3)]
        assert isinstance(futures[1].exception(), RuntimeError)
        assert [y(futures[index].result()) for index in (0, 2)] == [0, 4]


@pytest.mark.parametrize("device", DEVICES)
def test_an_owned_input_is_that_of_the_submission(device: DeviceName) -> None:
    g = dg.Graph("owned")
    w = g.input("w", sizes=[2], dtype="float32", owned=True)
    g.output("y", g.input("x", sizes=[2], dtype="float32") * w)
    exe = g.compile(device)
    first = exe.submit(x(1, 2) | {"w": np.array([3, 4], np.float32)})
    second = exe.submit(x(5, 6))
    third = exe.submit(x(1, 1) | {"w": np.array([7, 8], np.float32)})
    results = [future.result()["y"] for future in (first, second, third)]
    np.testing.assert_array_equal(results, [[3, 8], [15, 24], [7, 8]])


def test_runs_that_have_not_begun_are_cancelled(exe: Executable) -> None:
    with held_up(exe) as go:
        futures = [exe.submit(x(number, 0)) for number in range(6)]
        begun = exe.AT_ONCE
        assert all(future.cancel() for future in futures[begun:])
        go.set()
        assert [y(future.result()) for future in futures[:begun]] == [2 * number for number in range(begun)]
    assert all(future.cancelled() for future in futures[begun:])
    assert y(exe.submit(x(9, 0)).result()) == 18


def test_callbacks_are_called(exe: Executable) -> None:
    called: list[float] = []
    future = exe.submit(x(3, 0))
    future.add_done_callback(lambda done: called.append(y(done.result())))
    future.result()
    exe.close()  # after the callbacks
    assert called == [6]


def test_a_callback_may_close_the_executable(exe: Executable) -> None:
    future = exe.submit(x(3, 0))
    future.add_done_callback(lambda _: exe.close())
    assert y(future.result()) == 6


def test_a_run_has_the_context_of_its_submission() -> None:
    exe = twice().compile("cpu")
    seen: list[str] = []
    run = exe._run

    def looking(*arguments: Any) -> dict[str, Array]:
        seen.append(np.geterr()["over"])
        return run(*arguments)

    with mock.patch.object(exe, "_run", looking), np.errstate(over="raise"):
        exe.submit(x(1, 2)).result()
    assert seen == ["raise"]


# States


@pytest.mark.parametrize("device", DEVICES)
def test_runs_on_one_set_are_in_the_order_of_submission(device: DeviceName) -> None:
    two, ten = digits(2).compile(device), digits(10).compile(device)
    states = two.new_states()
    futures, expected, number = [], [], 0.0
    for step in range(12):
        exe, base = (two, 2) if step % 3 else (ten, 10)
        futures.append(exe.submit(x(step % 2), states=states))
        expected.append(number)
        number = number * base + step % 2
    assert states["number"] == number  # after all of them
    assert [y(future.result()) for future in futures] == expected
    assert two.states["number"] == 0
    two.submit(x(1))
    assert [y(two.run(x(0))), y(two.run(x(1))), float(two.states["number"][0])] == [1, 2, 5]


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_a_cancelled_run_changes_no_states(device: DeviceName) -> None:
    exe = digits(10).compile(device)
    with held_up(exe) as go:
        futures = [exe.submit(x(digit)) for digit in (1, 2, 3)]
        assert futures[1].cancel()
        go.set()
        assert exe.states["number"] == 13


def misfit(device: DeviceName) -> States:
    """A set that `digits` cannot use."""
    g = dg.Graph("misfit")
    g.output("y", dg.identity(g.state("number", sizes=[3], dtype="float32")))
    return g.compile(device).new_states()


def test_states_that_do_not_fit_are_said_by_the_future() -> None:
    future = digits(10).compile("cpu").submit(x(1), states=misfit("cpu"))
    with raises(dg.BindingError, "states", field="number", got="float32 [3]"):
        future.result()


# map


@pytest.mark.parametrize("in_flight", [1, 2, 5])
def test_map_yields_in_order_and_takes_items_when_it_needs_them(exe: Executable, in_flight: int) -> None:
    taken = yielded = 0

    def items() -> Iterator[dict[str, Any]]:
        nonlocal taken
        array = np.zeros(2, np.float32)  # the same one for all
        for number in range(7):
            assert taken - yielded < in_flight
            taken += 1
            array[0] = number
            yield {"x": array}

    results = exe.map(items(), in_flight)
    assert taken == 0
    for number, result in enumerate(results):
        assert y(result) == 2 * number
        yielded += 1
        assert taken <= number + in_flight
    assert taken == 7


def test_map_of_nothing(exe: Executable) -> None:
    assert list(exe.map([])) == []


@pytest.mark.parametrize("bad", [0, -1, True, 2.5, "two"])
def test_in_flight_is_a_positive_number(bad: Any) -> None:
    with raises(dg.BindingError, "range", field="in_flight"):
        twice().compile("cpu").map([], bad)


def test_a_failed_run_is_raised_in_its_place(exe: Executable) -> None:
    with failing(exe, 3, RuntimeError("no luck")) as began:
        results = exe.map(x(number, 0) for number in range(9))
        assert [y(next(results)) for _ in range(3)] == [0, 2, 4]
        with pytest.raises(RuntimeError, match="no luck"):
            next(results)
    assert list(results) == []
    assert began[:3] == [0, 1, 2]
    assert len(began) <= 3 + (exe.AT_ONCE > 1)


def test_what_is_wrong_with_an_item_is_raised_in_its_place(exe: Executable) -> None:
    def items() -> Iterator[dict[str, Any]]:
        yield x(1, 0)
        yield x(2, 0)
        raise OSError("the disk is gone")

    for given_items, error in ((items(), OSError), ([x(1, 0), x(2, 0), x(3)], dg.BindingError)):
        results = exe.map(given_items, 4)
        assert [y(next(results)), y(next(results))] == [2, 4]
        with pytest.raises(error):
            next(results)
        assert list(results) == []


def test_runs_before_a_failed_one_are_done() -> None:
    """Where several are worked on at a time, one may fail while one before it is about to begin."""

    def fail() -> None:
        raise RuntimeError

    series = Series()
    first, second, third = series.part(lambda: "done"), series.part(fail), series.part(lambda: "done")
    with pytest.raises(RuntimeError):
        second()
    assert first() == "done"
    with pytest.raises(CancelledError):
        third()
    series.end()
    with pytest.raises(CancelledError):
        first()


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_nothing_changes_states_after_a_failed_run(device: DeviceName) -> None:
    exe = digits(10).compile(device)
    with failing(exe, 3, MemoryError("no memory")), pytest.raises(dg.NotEnoughMemoryError):
        list(exe.map([x(digit) for digit in (1, 2, 3, 4, 5)], 5))
    assert exe.states["number"] == 12


def test_a_caller_may_stop_early(exe: Executable) -> None:
    events: list[str] = []
    run = exe._run

    def noting(*arguments: Any) -> dict[str, Array]:
        events.append("begins")
        time.sleep(0.02)
        results = run(*arguments)
        events.append("ends")
        return results

    with mock.patch.object(exe, "_run", noting):
        results = exe.map((x(number, 0) for number in range(100)), 3)
        assert y(next(results)) == 0
        results.close()  # type: ignore[attr-defined]  # it is a generator
        assert events.count("begins") == events.count("ends") <= 3
    assert list(results) == []
    assert y(exe.run(x(4, 0))) == 8


# Ends


def test_close_waits(exe: Executable) -> None:
    with held_up(exe) as go, exe:
        futures = [exe.submit(x(number, 0)) for number in range(4)]
        threading.Timer(0.05, go.set).start()
    assert [future.done() for future in futures] == [True] * 4
    assert [y(future.result()) for future in futures] == [0, 2, 4, 6]


def test_an_exception_cancels_what_has_not_begun(exe: Executable) -> None:
    with held_up(exe) as go:
        futures = [exe.submit(x(number, 0)) for number in range(6)]
        threading.Timer(0.05, go.set).start()
        with pytest.raises(KeyError), exe:
            raise KeyError
    begun = exe.AT_ONCE
    assert [y(future.result()) for future in futures[:begun]] == [2 * number for number in range(begun)]
    for future in futures[begun:]:
        with pytest.raises(CancelledError):
            future.result()


def test_an_executable_lives_as_long_as_its_runs(exe: Executable) -> None:
    other = copy.deepcopy(exe)
    alive, before = weakref.ref(other), set(threading.enumerate())
    with held_up(other) as go:
        future = other.submit(x(3, 0))
        threads = set(threading.enumerate()) - before
        del other
    assert y(future.result()) == 6
    del future, go
    assert len(threads) == 1
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    gc.collect()
    assert alive() is None


def test_an_executable_with_runs_in_flight_is_pickled(exe: Executable) -> None:
    with held_up(exe):
        future = exe.submit(x(1, 0))
        other = pickle.loads(pickle.dumps(exe))
    assert (y(other.submit(x(2, 0)).result()), y(future.result())) == (4, 2)
    other.close()  # the process keeps what it has unpickled


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_process_has_no_runs_in_flight() -> None:
    script = """
import os, threading, warnings
from unittest import mock
import numpy as np
import dmlgraph as dg
warnings.simplefilter("ignore")
g = dg.Graph("sum")
total = g.state("total", sizes=[1], dtype="float32")
g.update(total, total + g.input("x", sizes=[1], dtype="float32"))
g.output("y", dg.identity(total))
exe = g.compile("cpu")
one = {"x": np.ones(1, np.float32)}
exe.submit(one).result()
go, begun, run = threading.Event(), threading.Event(), exe._run
with mock.patch.object(exe, "_run", lambda *given: (begun.set(), go.wait(60), run(*given))[2]):
    exe.submit(one)
    exe.submit(one)
    begun.wait(60)
    child = os.fork()
    go.set()
    if child == 0:
        exe.submit(one)
        os._exit(int(exe.states["total"][0]))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), int(exe.states["total"][0]))
"""
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "2 3"


def test_python_ends_after_the_runs() -> None:
    script = """
import numpy as np
import dmlgraph as dg
g = dg.Graph("twice")
g.output("y", g.input("x", sizes=[1 << 20], dtype="float32") * 2)
exe = g.compile("cpu")
for number in range(5):
    exe.submit({"x": np.full(1 << 20, number, np.float32)}).add_done_callback(lambda done: print(done.result()["y"][0]))
"""
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == ["0.0", "2.0", "4.0", "6.0", "8.0"]


@pytest.mark.skipif(os.name != "posix", reason="a process is sent SIGINT as on POSIX systems")
def test_ctrl_c_ends_a_wait() -> None:
    script = """
import os, signal, threading
from unittest import mock
import numpy as np
import dmlgraph as dg
g = dg.Graph("sum")
total = g.state("total", sizes=[1], dtype="float32")
g.update(total, total + g.input("x", sizes=[1], dtype="float32"))
g.output("y", dg.identity(total))
exe = g.compile("cpu")
one = {"x": np.ones(1, np.float32)}
go, run = threading.Event(), exe._run
with mock.patch.object(exe, "_run", lambda *given: (go.wait(60), run(*given))[1]):
    future, results = exe.submit(one), exe.map([one] * 9)
    for wait in (future.result, lambda: next(results), lambda: exe.states["total"]):
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            wait()
        except KeyboardInterrupt:
            print("interrupted", go.is_set())
    go.set()
    print(int(exe.states["total"][0]), list(results))
"""
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.splitlines() == ["interrupted False"] * 3 + ["1 []"]


# Many threads


@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=20)
@given(data=st.data())
def test_threads_submit_cancel_and_fail(device: DeviceName, data: st.DataObject) -> None:
    plans = data.draw(st.lists(st.lists(st.sampled_from(["run", "fail", "cancel", "map"]), max_size=6), max_size=3))
    exe = digits(2).compile(device)
    wrong: list[str] = []

    def follow(plan: list[str], thread: int) -> None:
        states, number = exe.new_states(), 0.0
        for step, kind in enumerate(plan):
            digit = (step + thread) % 2
            if kind == "map":
                seen = [y(result) for result in exe.map([x(digit)] * 2, states=states)]
                expected = [number, 2 * number + digit]
                number = 2 * expected[1] + digit
            elif kind == "fail":
                error = exe.submit(x(digit), states=misfit(device)).exception()
                if not isinstance(error, dg.BindingError):
                    wrong.append(f"{error!r} is raised")
                continue
            else:
                future = exe.submit(x(digit), states=states)
                if kind == "cancel" and future.cancel():
                    continue
                seen, expected = [y(future.result())], [number]
                number = 2 * number + digit
            if seen != expected:
                wrong.append(f"{kind}: {seen} instead of {expected}")
        if number and states["number"] != number:
            wrong.append(f"in the end {states['number']} instead of {number}")

    threads = [threading.Thread(target=follow, args=(plan, index)) for index, plan in enumerate(plans)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
