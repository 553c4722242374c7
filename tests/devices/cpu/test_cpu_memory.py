"""Runs without enough memory: each native allocation fails in turn."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

NATIVE = pathlib.Path(__file__).parents[3] / "native"

# Replaces the allocation of C++, for the whole process.
LIBRARY = """
#include <optional>

#include "cpu/tests/failing_allocations.cpp"

static std::optional<dmlgraph::cpu::tests::FailingAllocation> failing;

extern "C" void fail_after(std::int64_t before) { failing.emplace(before); }

extern "C" int has_failed() {
    const bool result = failing->has_failed();
    failing.reset();
    return result;
}
"""

SCRIPT = """
import ctypes

import numpy as np

import dmlgraph as dg

failing = ctypes.CDLL(None)
failing.fail_after.argtypes = [ctypes.c_int64]


def element_wise():
    g = dg.Graph("element-wise")
    x = g.input("x", sizes=[300, 500], dtype="float32")
    g.output("y", dg.exp(x) - dg.reduce(x, function="sum", axes=[1]))
    return g


def product():
    g = dg.Graph("product")
    x = g.input("x", sizes=[1, 1, 200, 300], dtype="float32")
    g.output("y", dg.gemm(x, g.input("w", sizes=[1, 1, 300, 260], dtype="float32")))
    return g


def convolution():
    g = dg.Graph("convolution")
    x = g.input("x", sizes=[2, 24, 40, 40], dtype="float32")
    g.output("y", dg.convolution(x, g.input("w", sizes=[32, 24, 3, 3], dtype="float32")))
    return g


def backward():
    g = dg.Graph("backward")
    x = g.input("x", sizes=[1, 1, 30, 30], dtype="float32")
    g.output("y", dg.convolution(x, g.input("w", sizes=[1, 1, 3, 3], dtype="float32"), direction="backward"))
    return g


for make in (element_wise, product, convolution, backward):
    graph = make()
    rng = np.random.default_rng(0)
    inputs = {}
    for slot in graph.lower().inputs:
        inputs[slot.name] = rng.random(slot.desc.sizes).astype(np.float32)
    expected = graph.compile("cpu", threads=3).run(inputs)["y"]
    fails = True
    before = 0
    while fails:
        executable = graph.compile("cpu", threads=3)  # its first run allocates
        failing.fail_after(before)
        raised = False
        try:
            executable.run(inputs)
        except dg.NotEnoughMemoryError:
            raised = True
        fails = bool(failing.has_failed())
        assert fails or not raised
        np.testing.assert_array_equal(executable.run(inputs)["y"], expected)
        before += 1
    assert before > 5
    print(make.__name__)
"""


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("g++") is None, reason="it preloads what it builds")
def test_an_allocation_that_fails_is_an_error_and_the_next_run_is_right(tmp_path: pathlib.Path) -> None:
    source, library = tmp_path / "failing.cpp", tmp_path / "libfailing.so"
    source.write_text(LIBRARY, encoding="utf-8")
    command = ["g++", "-std=c++20", "-O1", "-fPIC", "-shared", f"-I{NATIVE}", str(source), "-o", str(library)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    done = subprocess.run(
        [sys.executable, "-P", "-c", SCRIPT],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"LD_PRELOAD": str(library)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["element_wise", "product", "convolution", "backward"]
