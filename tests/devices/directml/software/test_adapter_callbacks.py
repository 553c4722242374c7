"""The adapter's side of the compiler: two C functions that no exception leaves."""

# ruff: noqa: E501  (LLVM takes an instruction on one line)

from __future__ import annotations

import concurrent.futures
import ctypes
import subprocess
import sys

import numpy as np
import pytest
from support.software import dxil
from support.software.dxil import CBV, SRV, STRUCTURED, UAV, Range

from dmlgraph.devices.directml.software import adapter
from dmlgraph.devices.directml.software.adapter import Callbacks, SwKernel, SwShaderInfo
from dmlgraph.devices.directml.software.compiler import Compiler
from dmlgraph.devices.directml.software.translate import WRITES

STORE_9 = """
    call void @dx.op.rawBufferStore.i32(i32 140, %dx.types.Handle %h0, i32 0, i32 undef, i32 9, i32 undef, i32 undef, i32 undef, i8 1, i32 4)
    ret void"""


@pytest.fixture
def callbacks():
    return Callbacks(Compiler())


def call(function, code: bytes, *rest, size: int = 200):
    error = ctypes.create_string_buffer(b"?" * (size - 1), size)
    status = function(code, len(code), *rest, ctypes.addressof(error), size)
    return status, error.value.decode()


def test_describe_fills_in_what_the_shader_declares(callbacks):
    ranges = [Range(SRV, STRUCTURED, 24, lower=3, count=2), Range(UAV), Range(CBV, size=112)]
    info = SwShaderInfo()
    status, _ = call(callbacks.describe, dxil.shader("ret void", ranges, (8, 4, 2)), ctypes.byref(info))
    assert status == 1
    assert list(info.threads) == [8, 4, 2]
    found = [[getattr(info.ranges[i], name) for name, *_ in adapter.SwResourceRange._fields_] for i in range(3)]
    assert info.range_count == 3
    assert found == [[0, 0, 0, 3, 2, 12, 24], [1, 0, 0, 0, 1, 11, 0], [2, 0, 0, 0, 1, 13, 0]]


def test_describe_tells_what_the_shader_reads_and_writes(callbacks):
    info = SwShaderInfo()
    call(callbacks.describe, dxil.shader(STORE_9, [Range(UAV), Range(UAV, lower=1)]), ctypes.byref(info))
    assert [info.ranges[i].access for i in range(2)] == [WRITES, 0]


def test_ranges_stay_where_they_are(callbacks):
    code, first, second = dxil.shader("ret void"), SwShaderInfo(), SwShaderInfo()
    call(callbacks.describe, code, ctypes.byref(first))
    call(callbacks.describe, code, ctypes.byref(second))
    assert ctypes.addressof(first.ranges.contents) == ctypes.addressof(second.ranges.contents)


def test_a_shader_without_resources(callbacks):
    info = SwShaderInfo()
    assert call(callbacks.describe, dxil.shader("ret void", []), ctypes.byref(info))[0] == 1
    assert info.range_count == 0


def test_compile_gives_a_kernel_that_runs(callbacks):
    kernel, out = SwKernel(), np.zeros(1, np.uint32)
    status, _ = call(callbacks.compile, dxil.shader(STORE_9), (ctypes.c_uint32 * 1)(0), ctypes.byref(kernel))
    assert status == 1
    assert kernel.shared_bytes == 0
    view = dxil.view(out)
    table = (ctypes.c_void_p * 1)(ctypes.addressof(view))
    dxil.KERNEL(kernel.function)(ctypes.addressof(table), (ctypes.c_uint32 * 3)(1, 1, 1), 0, 1, None)
    assert out[0] == 9


def test_an_error_becomes_its_text(callbacks):
    code = dxil.shader("%l = call i32 @dx.op.waveGetLaneIndex(i32 111)\nret void")
    status, text = call(callbacks.describe, code, ctypes.byref(SwShaderInfo()))
    assert (status, text) == (0, "dx.op.waveGetLaneIndex (opcode 111) is not supported")
    status, text = call(callbacks.compile, code, (ctypes.c_uint32 * 1)(0), ctypes.byref(SwKernel()))
    assert (status, text) == (0, "dx.op.waveGetLaneIndex (opcode 111) is not supported")


def test_a_long_error_is_cut_to_fit(callbacks):
    status, text = call(callbacks.describe, b"not a shader", ctypes.byref(SwShaderInfo()), size=12)
    assert (status, text) == (0, "the shader ")


def test_any_exception_is_told(callbacks, monkeypatch):
    def fail(_):
        raise MemoryError

    monkeypatch.setattr(callbacks.compiler, "describe", fail)
    assert call(callbacks.describe, b"code", ctypes.byref(SwShaderInfo())) == (0, "MemoryError")


def test_many_threads_at_once(callbacks):
    codes = [dxil.shader(STORE_9, threads=(1 + i, 1, 1)) for i in range(4)]

    def work(number):
        kernel = SwKernel()
        status, _ = call(callbacks.compile, codes[number % 4], (ctypes.c_uint32 * 1)(0), ctypes.byref(kernel))
        return status, kernel.function

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        results = list(pool.map(work, range(32)))
    assert {status for status, _ in results} == {1}
    assert len({function for _, function in results}) == 4
    assert callbacks.compiler.statistics.snapshot()["kernels_compiled"] == 4


def error_of_load(setup: str) -> str:
    """The error of loading, in another process: this one's adapter must stay, DirectML has its kernels' addresses."""
    script = f"""
import pathlib, sys
sys.path[:0] = {sys.path!r}
from dmlgraph.devices.directml.software import adapter
{setup}
try:
    adapter.load()
except adapter.SoftwareAdapterError as error:
    print(error)
"""
    return subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True).stdout


def test_a_missing_library_is_named(tmp_path):
    output = error_of_load(f"adapter.FOLDERS = (pathlib.Path({str(tmp_path)!r}),)")
    assert "libd3d12.so cannot be loaded" in output


def test_without_llvmlite_an_error_says_what_to_install():
    output = error_of_load('sys.modules["llvmlite"] = None')
    assert "llvmlite" in output
    assert "pip install llvmlite" in output


@pytest.mark.skipif(
    not all(adapter.find_library(name).exists() for name in adapter.LIBRARIES), reason="the adapter is not built here"
)
def test_the_adapter_is_loaded_once_and_counts():
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        loaded = list(pool.map(lambda _: adapter.load(), range(8)))
    assert all(each is loaded[0] for each in loaded)
    names = {*adapter.ADAPTER_COUNTERS, "shaders_described", "kernels_compiled", "kernels_loaded"}
    assert names <= set(adapter.counters())
    assert all(0 <= count < 2**63 for count in adapter.counters().values()), "an unknown counter is UINT64_MAX"
    adapter.reset_counters()
    assert adapter.counters()["dispatches"] == 0
    adapter.suppress_dispatches(True)
    adapter.suppress_dispatches(False)
    adapter.set_threads(2)
    adapter.set_threads(0)
    with pytest.raises(ValueError, match="must not be negative"):
        adapter.set_threads(-1)
