"""Runs with states while calls of Direct3D fail: threads that check every value, and find nothing that is left over."""

from __future__ import annotations

import contextlib
import gc
import random
import threading
from typing import Any

import numpy as np

import dmlgraph as dg
from dmlgraph.devices.directml.errors import DeviceRemovedError
from dmlgraph.devices.directml.software import adapter
from dmlgraph.devices.executable import Executable
from dmlgraph.devices.states import States

Array = np.ndarray[Any, Any]

CAPACITY = 24
_injecting = threading.Lock()
FURTHEST = 40  # a call of three steps whose command lists are not recorded yet makes fewer calls of Direct3D


def sums(rows: int = 1) -> dg.Graph:
    """A sum of all inputs, and rows of its values; the output is what the run began with."""
    g = dg.Graph(f"sums{rows}", dims={"rows": rows, "capacity": CAPACITY})
    x = g.input("x", sizes=[2, "rows"], dtype="int32")
    total = g.state("total", sizes=[2, 1], dtype="int32")
    kept = g.state("kept", sizes=[2, "capacity"], dtype="int32", grows=1)
    g.update(total, total + dg.reduce(x, function="sum", axes=[1]))
    g.append(kept, x + total.broadcast_to([2, rows]))
    g.output("total", dg.identity(total))
    g.output("doubled", x * 2)
    return g


class Expected:
    """What a set holds, by NumPy."""

    def __init__(self) -> None:
        self.total, self.kept = np.zeros((2, 1), np.int32), np.zeros((2, 0), np.int32)

    def after(self, x: Array, steps: int) -> Expected:
        other = Expected()
        other.total, other.kept = self.total, self.kept
        for _ in range(steps):
            other.kept = np.concatenate([other.kept, x + other.total], axis=1)
            other.total = other.total + x.sum(axis=1, keepdims=True, dtype=np.int32)
        return other

    def check(self, states: States) -> None:
        np.testing.assert_array_equal(states["total"], self.total)
        np.testing.assert_array_equal(states["kept"], self.kept)


class Work:
    """Runs on one set: by an executable for a row and by one for three, of one step and of several."""

    def __init__(self) -> None:
        self.executables: dict[int, Executable] = {rows: sums(rows).compile("directml:software") for rows in (1, 3)}
        self.states, self.expected = self.executables[1].new_states(), Expected()

    def run(self, dice: random.Random, rows: int | None = None, steps: int | None = None) -> None:
        """One call; after one that fails, everything is as it was."""
        rows, steps = rows or dice.choice((1, 3)), steps or dice.choice((1, 1, 2, 3))
        if self.states.lengths["kept"] + rows * steps > CAPACITY:
            self.states.rewind(CAPACITY // 2)
            self.expected.kept = self.expected.kept[:, : self.states.lengths["kept"]]
        x = np.array([[dice.randrange(100) for _ in range(rows)] for _ in range(2)], np.int32)
        results = self.executables[rows].run({"x": x}, states=self.states, steps=steps, keep=["doubled"])
        before, self.expected = self.expected.after(x, steps - 1), self.expected.after(x, steps)
        np.testing.assert_array_equal(results["total"], before.total)
        np.testing.assert_array_equal(results["doubled"].numpy(), 2 * x)

    def close(self) -> None:
        for each in self.executables.values():
            each.close()


def attempt(work: Work | None, dice: random.Random, **shape: int) -> tuple[Work | None, bool]:
    """A call, and whether it was done; with a lost device the work is lost too, and other work begins next time."""
    try:
        if work is None:
            with _injecting:  # only calls of runs are to fail
                adapter.load().fail_call(0)
                return Work(), False
        work.run(dice, **shape)
        return work, True
    except DeviceRemovedError:
        if work is not None:
            work.close()
        return None, False
    except dg.DeviceError:
        return work, False


def fail_while_threads_run(seed: int, runs: int, *, threads: int = 4, removes_device: bool = False) -> int:
    """Makes calls fail at random while threads run and check; returns how many calls failed.

    Raises:
        AssertionError: a value is wrong, or a state is, or objects of Direct3D stay.
    """
    failures: list[BaseException] = []
    failed = [0] * threads

    def body(thread: int) -> None:
        dice = random.Random(f"{seed} {thread}")
        work: Work | None = None
        try:
            for turn in range(runs):
                if dice.random() < 0.3:
                    with _injecting:
                        adapter.load().fail_call(dice.randint(1, FURTHEST), removes_device=removes_device)
                work, done = attempt(work, dice)
                failed[thread] += not done
                if work is not None and turn % 5 == 0:
                    check(work)
        except BaseException as error:
            failures.append(error)
        finally:
            if work is not None:
                work.close()

    each = [threading.Thread(target=body, args=(thread,), daemon=True) for thread in range(threads)]
    for one in each:
        one.start()
    for one in each:
        one.join(timeout=600)
        assert not one.is_alive(), "the threads wait for one another"
    adapter.load().fail_call(0)
    if failures:
        raise failures[0]
    return sum(failed)


def check(work: Work) -> None:
    """What the set holds, unless reading it fails too."""
    with contextlib.suppress(dg.DeviceError):
        work.expected.check(work.states)


def objects() -> list[tuple[str, str]]:
    """The objects of Direct3D that exist."""
    gc.collect()
    return sorted(adapter.load().live_objects())
