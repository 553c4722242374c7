"""The processes in which tests run apart, as seen from outside, and graphs for them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import psutil

T = TypeVar("T")

SECONDS = 120  # to wait for what takes one; the machine may be busy
MODULE = "dmlgraph.testing.subprocess_main"

# A product that NumPy computes for minutes: it is stopped before.
LONG = """\
dmlgraph: 1
inputs: {x: {dtype: uint8, sizes: [1, 1, 9000, 9000]}}
nodes: {y: {op: matrix_multiply_integer, a: x, b: x}}
outputs: [y]
tests: {long: {inputs: {x: {value: 1}}, expect: {y: {same_as: reference}}, devices: [reference]}}
"""
RELU = """\
dmlgraph: 1
dims: {N: 2}
inputs: {x: {dtype: float32, sizes: [N]}}
nodes: {y: {op: activation_relu, input: x}}
outputs: [y]
"""
GOOD = RELU + "tests: {good: {inputs: {x: {value: 1}}, expect: {y: {value: 1}}, devices: [cpu]}}\n"
BAD = RELU + "tests: {bad: {inputs: {x: {value: 1}}, expect: {y: {value: 2}}, devices: [cpu]}}\n"


def until(found: Callable[[], T]) -> T:
    """What a function returns as soon as that is true."""
    end = time.monotonic() + SECONDS
    while not (result := found()):
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)
    return result


def case_processes(parent: psutil.Process | None = None) -> list[psutil.Process]:
    """The processes below this one, or another, in which tests run."""
    found = []
    for process in (parent or psutil.Process()).children(recursive=True):
        try:
            command = process.cmdline()
            if MODULE in command and command[command.index(MODULE) + 1] == "test":
                found.append(process)
        except psutil.Error:  # it has ended
            continue
    return found


def is_gone(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
