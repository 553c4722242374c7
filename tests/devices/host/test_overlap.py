"""Outputs in the caller's memory: their elements must not share memory with each other, but may with inputs."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from support.problems import raises

import dmlgraph as dg
from dmlgraph.devices.executable import Executable
from dmlgraph.devices.host.overlap import overlap, overlaps_itself
from dmlgraph.devices.names import DeviceName

DEVICES = ["reference", "cpu", "directml:software"]
Array = np.ndarray[Any, Any]


def random_view(rng: random.Random, buffer: Array, sizes: tuple[int, ...], *, repeat: bool = False) -> Array:
    """A view of a flat buffer: any strides that stay inside, negative ones too, and 0 with `repeat`."""
    item = buffer.itemsize
    while True:
        if rng.random() < 0.6:  # a box with gaps between its elements, its axes in any order
            strides = [0] * len(sizes)
            step = rng.choice([1, 1, 2])
            for axis in rng.sample(range(len(sizes)), len(sizes)):
                strides[axis] = step * rng.choice([1, 1, -1])
                step *= sizes[axis] + rng.choice([0, 0, 1, -1])
        else:
            strides = [rng.randint(-6, 6) for _ in sizes]
        if repeat and rng.random() < 0.3:
            strides[rng.randrange(len(sizes))] = 0
        reach = [(size - 1) * stride for size, stride in zip(sizes, strides, strict=True)]
        low, high = sum(min(each, 0) for each in reach), sum(max(each, 0) for each in reach)
        if high - low < buffer.size:
            first = rng.randint(-low, buffer.size - 1 - high)
            return np.lib.stride_tricks.as_strided(buffer[first:], sizes, [stride * item for stride in strides])


def places(array: Array) -> list[int]:
    """The address of every element."""
    grid = np.zeros(array.shape, np.int64)
    for axis, (size, stride) in enumerate(zip(array.shape, array.strides, strict=True)):
        shape = [1] * array.ndim
        shape[axis] = size
        grid = grid + (np.arange(size) * stride).reshape(shape)
    return [int(place) + array.__array_interface__["data"][0] for place in grid.ravel()]


def test_whether_elements_share_memory() -> None:
    rng = random.Random(0)
    found = set()
    for _ in range(2000):
        sizes = tuple(rng.choice([1, 2, 3, 4]) for _ in range(rng.randint(1, 4)))
        buffer = np.zeros(200, np.float32)
        array = random_view(rng, buffer, sizes, repeat=True)
        other = random_view(rng, buffer, sizes)
        expected = len(set(places(array))) < array.size
        assert overlaps_itself(array) == expected, (sizes, array.strides)
        assert overlap(array, other) == bool(set(places(array)) & set(places(other)))
        found.add(expected)
    assert found == {True, False}


def test_what_is_too_hard_to_tell_is_an_overlap() -> None:
    sizes, strides = (9,) * 8, [7_919 * 8, 7_907 * 8, 7_901 * 8, 7_883 * 8, 7_879 * 8, 7_877 * 8, 7_873 * 8, 7_867 * 8]
    span = sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True)) + 8
    array = np.lib.stride_tricks.as_strided(np.zeros(span, np.uint8).view(np.float64), sizes, strides)
    assert overlaps_itself(array)


# One-pass regions, a reduction, a step in NumPy, a permuted read, an output with consumers, a plain copy.
def graph(sizes: tuple[int, int, int, int]) -> dg.Graph:
    g = dg.Graph("g")
    x = g.input("x", sizes=sizes, dtype="float32")
    y = g.input("y", sizes=sizes, dtype="float32")
    total = x + y * 2
    g.output("total", total)
    window: dict[str, Any] = {
        "input_window_offsets": [0] * 4, "input_window_sizes": sizes, "input_window_strides": [1, 1, -1, 1],
    }
    g.output("turned", dg.slice1(dg.activation_relu(y), **window) - x)
    g.output("spread", total - dg.reduce(x, function="max", axes=[3]))
    g.output("copy", dg.identity(x))
    return g


@pytest.fixture(scope="module", params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    if request.param == "directml:software":
        request.getfixturevalue("directml_path")
    return request.param


def check(executable: Executable, rng: random.Random, sizes: tuple[int, ...]) -> bool:
    """Runs on random views of one buffer; returns whether the outputs were accepted."""
    size = int(np.prod(sizes))
    numbers = np.random.default_rng(rng.getrandbits(32)).integers(-9, 9, 12 * size).astype(np.float32)
    buffer = numbers.copy()
    inputs = {name: random_view(rng, buffer, sizes, repeat=True) for name in ("x", "y")}
    if rng.random() < 0.3:  # exactly in place
        inputs["x"] = buffer[:size].reshape(sizes)
    names = rng.sample(["total", "turned", "spread", "copy"], rng.randint(1, 3))
    out = {name: random_view(rng, buffer, sizes) for name in names}
    if rng.random() < 0.3 and inputs["x"].flags.c_contiguous:
        out[names[0]] = inputs["x"]
    expected = executable.run({name: array.copy() for name, array in inputs.items()})
    taken = [place for array in out.values() for place in places(array)]
    call = executable.run if rng.random() < 0.5 else lambda *arguments: executable.bind(*arguments)()
    if len(set(taken)) < len(taken):
        with raises(dg.BindingError, "shared-memory"):
            call(inputs, out)
        np.testing.assert_array_equal(buffer, numbers)
        return False
    results = call(inputs, out)
    untouched = np.ones(buffer.size, bool)
    for place in taken:
        untouched[(place - buffer.__array_interface__["data"][0]) // buffer.itemsize] = False
    for name, array in expected.items():
        np.testing.assert_array_equal(results[name], array, err_msg=name)
    for name, array in out.items():
        assert results[name] is array
    np.testing.assert_array_equal(buffer[untouched], numbers[untouched])
    return True


@pytest.mark.parametrize("seed", range(3))
def test_outputs_anywhere_in_the_memory_of_inputs(device: DeviceName, seed: int) -> None:
    rng = random.Random(seed)
    most = (5, 5, 70)[seed]
    sizes = (1, rng.randint(1, 2), rng.randint(2, most), rng.randint(2, most))
    executable = graph(sizes).compile(device)
    taken = {check(executable, rng, sizes) for _ in range(60)}
    assert taken == {True, False}


@pytest.mark.parametrize("way", ["run", "bind"])
def test_overlapping_strides(device: DeviceName, way: str) -> None:
    g = dg.Graph("g")
    x = g.input("x", sizes=[8, 8], dtype="float32")
    g.output("y", x + 1)
    executable = g.compile(device)
    out = np.lib.stride_tricks.as_strided(np.zeros(64, np.float32), (8, 8), (8, 4))
    with raises(dg.BindingError, "shared-memory", field="y", got="strides of [8, 4] bytes"):
        getattr(executable, way)({"x": np.ones((8, 8), np.float32)}, {"y": out})


def test_a_constant_is_not_the_array_it_was_made_of(device: DeviceName) -> None:
    numbers = np.arange(6, dtype=np.float32).reshape(2, 3)
    g = dg.Graph("g")
    x = g.input("x", sizes=[2, 3], dtype="float32")
    g.output("y", x + g.constant("k", numbers))
    executable = g.compile(device)
    for _ in range(2):  # the first run overwrites it
        executable.run({"x": np.ones((2, 3), np.float32)}, {"y": numbers})
        np.testing.assert_array_equal(numbers, np.arange(1, 7).reshape(2, 3))
