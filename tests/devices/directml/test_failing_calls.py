"""Calls of Direct3D fail, each in turn: nothing is left over, no value is wrong, and no state is half updated."""

from __future__ import annotations

import collections
import itertools
import random
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from support.failing_runs import Work, attempt, fail_while_threads_run, objects

import dmlgraph as dg
from dmlgraph.devices.directml.errors import DeviceRemovedError, DirectMLError
from dmlgraph.devices.directml.software import adapter

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the adapter whose calls fail is that of Linux"),
    pytest.mark.usefixtures("directml_path"),
]


@pytest.fixture(autouse=True)
def nothing_fails_afterwards() -> Iterator[None]:
    yield
    adapter.load().fail_call(0)


def fallible_calls() -> int:
    return adapter.load().counters()["fallible_calls"]


def test_the_calls_are_counted_and_one_fails() -> None:
    exe = dg.Graph("g")
    exe.output("y", dg.identity(exe.input("x", sizes=[2], dtype="float32")))
    run = exe.compile("directml:software").bind({"x": np.ones(2, np.float32)})
    run()
    before = fallible_calls()
    run()
    made = fallible_calls() - before
    assert made > 2  # submission, signal, and a wait if the work is not done by then
    adapter.load().fail_call(made + 1)
    run()
    adapter.load().fail_call(0)
    failed = []
    for number in range(1, made + 1):
        run()  # records its commands again, if the last one failed
        adapter.load().fail_call(number)
        try:
            run()
        except DirectMLError as error:
            failed.append(error.call)
    # Nothing fails where work is submitted, a signal is repeated, and a wait that fails becomes a question.
    assert set(failed) == {"ID3D12Resource::Map"}


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("rows", [1, 3])
def test_memory_is_short_at_each_call(rows: int, steps: int) -> None:
    """The set is as it was after every call that fails, and the next one works."""
    work, failed = Work(), 0
    for number in itertools.count(1):
        dice = random.Random(number)
        before = fallible_calls()
        adapter.load().fail_call(number)
        _, done = attempt(work, dice, rows=rows, steps=steps)
        adapter.load().fail_call(0)
        if done and number > fallible_calls() - before:
            break
        failed += not done
        work.expected.check(work.states)
        work.run(dice)
        work.expected.check(work.states)
    assert failed > 6
    work.close()


def test_the_device_is_lost_at_each_call() -> None:
    """All of it is released, what the set held is an error, and a new one begins."""
    known: list[tuple[str, str]] | None = None
    lost = 0
    for number in range(1, 24):
        work = Work()
        for seed in range(2):
            work.run(random.Random(seed))
        adapter.load().fail_call(number, removes_device=True)
        left, done = attempt(work, random.Random(number))
        adapter.load().fail_call(0)
        if left is None:
            lost += 1
            with pytest.raises(DeviceRemovedError):
                work.states["total"]
        elif done:
            work.expected.check(work.states)
        work.close()
        del work, left
        Work().close()  # a new device, if the other one is lost
        found = objects()
        assert known is None or found == known
        known = found
    assert lost > 8


@pytest.mark.parametrize("removes_device", [False, True], ids=["memory", "removal"])
def test_threads_run_while_calls_fail(removes_device: bool) -> None:
    Work().close()
    before = objects()
    failed = fail_while_threads_run(1, 20 if removes_device else 60, removes_device=removes_device)
    assert failed > 5
    Work().close()
    # Fewer, where other tests ran before: a device that is lost also frees pipelines that DirectML keeps.
    assert not collections.Counter(objects()) - collections.Counter(before)
