"""Outputs that stay on their device, and runs that take them as inputs."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
from typing import Any

import numpy as np
import pytest

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices.executable import Executable
from dmlgraph.devices.names import DeviceName

DEVICES: tuple[DeviceName, ...] = ("reference", "cpu", "directml:software")

pytestmark = pytest.mark.usefixtures("directml_path")

Array = np.ndarray[Any, Any]


def chain(name: str = "chain") -> dg.Graph:
    """Doubled, and added up."""
    g = dg.Graph(name)
    x = g.input("x", sizes=[2, 3], dtype="float32")
    g.output("y", x + x)
    g.output("total", dg.reduce(x, function="sum", axes=[1]))
    return g


def numbers(*, start: int = 0) -> Array:
    return np.arange(start, start + 6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(params=DEVICES)
def exe(request: pytest.FixtureRequest) -> Executable:
    return chain().compile(request.param)


def test_an_output_stays_and_is_read_by_other_runs(exe: Executable) -> None:
    got = exe.run({"x": numbers()}, keep=["y"])
    kept = got["y"]
    assert isinstance(kept, dg.DeviceTensor)
    assert (kept.sizes, kept.dtype, kept.device) == ((2, 3), dg.DataType.FLOAT32, exe.device)
    assert repr(kept) == f"<DeviceTensor float32 [2, 3] on {exe.device}>"
    np.testing.assert_array_equal(got["total"], [[3], [12]])
    other = chain("other").compile(exe.device)  # type: ignore[arg-type]
    for each in (exe, other):
        np.testing.assert_array_equal(each.run({"x": kept})["y"], 4 * numbers())
    for _ in range(3):
        kept = exe.run({"x": kept}, keep=["y"])["y"]
    np.testing.assert_array_equal(kept.numpy(), 16 * numbers())
    kept.numpy()[...] = 0  # a copy
    np.testing.assert_array_equal(kept.numpy(), 16 * numbers())


def test_it_outlives_its_executable_and_the_run_that_reads_it(exe: Executable) -> None:
    kept = exe.run({"x": numbers()}, keep=["y", "total"])
    other = chain("other").compile(exe.device)  # type: ignore[arg-type]
    exe.close()
    np.testing.assert_array_equal(other.run({"x": kept["y"]})["y"], 4 * numbers())
    result = other.run({"x": other.run({"x": kept.pop("y")}, keep=["y"])["y"]}, keep=["y"])["y"]
    gc.collect()
    np.testing.assert_array_equal(result.numpy(), 8 * numbers())
    np.testing.assert_array_equal(kept["total"].numpy(), [[3], [12]])


def test_tensors_do_not_share_memory(exe: Executable) -> None:
    """Each run has a tensor of its own, also where the buffer of a dropped one is used again."""
    held = []
    for start in range(12):
        kept = exe.run({"x": numbers(start=start)}, keep=["y"])["y"]
        if start % 3:
            held.append((start, kept))
    for start, each in held:
        np.testing.assert_array_equal(each.numpy(), 2 * numbers(start=start))


def test_with_states_and_steps(exe: Executable) -> None:
    g = dg.Graph("g")
    s = g.state("s", sizes=[2, 3], dtype="float32")
    x = g.input("x", sizes=[2, 3], dtype="float32")
    g.update(s, s + x)
    g.output("before", dg.identity(s))
    g.output("x2", x * 2)
    with g.compile(exe.device) as summing:  # type: ignore[arg-type]
        kept = exe.run({"x": numbers()}, keep=["y"])["y"]
        got = summing.run({"x": kept}, steps=4, keep=["before"], collect=["x2"])
        np.testing.assert_array_equal(got["before"].numpy(), 6 * numbers())
        np.testing.assert_array_equal(got["x2"], [4 * numbers()] * 4)
        np.testing.assert_array_equal(summing.states["s"], 8 * numbers())
        np.testing.assert_array_equal(exe.run({"x": got["before"]})["y"], 12 * numbers())


def test_an_owned_input_and_a_profile(exe: Executable) -> None:
    g = dg.Graph("g")
    w = g.input("w", sizes=[2, 3], dtype="float32", owned=True)
    g.output("y", g.input("x", sizes=[2, 3], dtype="float32") * w)
    kept = exe.run({"x": numbers()}, keep=["y"])["y"]
    with g.compile(exe.device) as product:  # type: ignore[arg-type]
        product.run({"x": kept, "w": kept})
        np.testing.assert_array_equal(product.run({"x": numbers()})["y"], 2 * numbers() ** 2)
        assert product.profile({"x": kept})


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float16", "uint8", "int64"])
def test_few_bytes_and_other_strides(device: DeviceName, dtype: DataTypeName) -> None:
    g = dg.Graph("g")
    x = g.input("x", sizes=[3], dtype=dtype)
    g.output("y", dg.identity(x))
    given = np.array([1, 2, 3], dtype)
    with g.compile(device) as exe:
        kept = exe.run({"x": given}, keep=["y"])["y"]
        np.testing.assert_array_equal(exe.run({"x": kept})["y"], given)
    h = dg.Graph("h")
    h.output("y", dg.identity(h.input("x", sizes=[3], dtype=dtype, strides=[2])))
    with h.compile(device) as other:
        np.testing.assert_array_equal(other.run({"x": kept})["y"], given)


def test_mistakes(exe: Executable) -> None:
    other: DeviceName = "reference" if exe.device == "cpu" else "cpu"
    kept = exe.run({"x": numbers()}, keep=["y", "total"])
    elsewhere = chain().compile(other).run({"x": numbers()}, keep=["y"])["y"]
    integers = dg.Graph("g")
    integers.output("y", dg.identity(integers.input("x", sizes=[2, 3], dtype="int32")))
    of_integers = integers.compile(exe.device)  # type: ignore[arg-type]
    runs: list[tuple[Executable, dict[str, Any], dict[str, Any], str, str]] = [
        (exe, {"x": elsewhere}, {}, "other-device", "x"),
        (exe, {"x": kept["total"]}, {}, "sizes", "x"),
        (of_integers, {"x": kept["y"]}, {}, "dtype", "x"),
        (exe, {"x": numbers()}, {"keep": ["z"]}, "unknown-array", "z"),
        (exe, {"x": numbers()}, {"keep": "y"}, "kind", "keep"),
        (exe, {"x": numbers()}, {"keep": 3}, "kind", "keep"),
        (exe, {"x": numbers()}, {"keep": ["y"], "out": {"y": np.empty((2, 3), "f4")}}, "conflict", "y"),
        (exe, {"x": numbers()}, {"keep": ["y"], "collect": ["y"], "steps": 2}, "conflict", "y"),
    ]
    for executable, given, options, code, field in runs:
        with pytest.raises(dg.BindingError) as caught:
            executable.run(given, **options)
        assert (caught.value.code, caught.value.field) == (code, field)
    for copied in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(pickle.PicklingError, match=r"numpy\(\) copies it"):
            copied(kept["y"])


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_the_same_memory_for_other_libraries(device: DeviceName) -> None:
    kept = chain().compile(device).run({"x": numbers()}, keep=["y"])["y"]
    seen = np.from_dlpack(kept)
    np.testing.assert_array_equal(seen, 2 * numbers())
    assert np.shares_memory(seen, np.from_dlpack(kept))
    assert kept.__dlpack_device__() == (1, 0)  # kDLCPU
    assert kept.resource is None


def test_on_directml_there_is_a_buffer() -> None:
    exe = chain().compile("directml:software")
    first, second = (exe.run({"x": numbers()}, keep=["y"])["y"] for _ in range(2))
    assert first.resource
    assert first.resource != second.resource
    with pytest.raises(BufferError, match=r"numpy\(\) copies it"):
        np.from_dlpack(first)


def test_threads_hand_tensors_on(exe: Executable) -> None:
    failures: list[BaseException] = []

    def work(start: int) -> None:
        try:
            kept: Any = numbers(start=start)
            for _ in range(20):
                kept = exe.run({"x": kept}, keep=["y"])["y"]
            np.testing.assert_array_equal(kept.numpy(), numbers(start=start) * np.float32(2**20))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(start,)) for start in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failures == []
