"""Reductions on the device `cpu`: sums of floats are almost only rounded once, everything else is exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cpu.rows import INF, NAN, SHAPES, Array, both, graph, near, numbers, shapes_and_axes

import dmlgraph as dg

# By function: the greatest error, in units of the sum of the terms' magnitudes.
FLOATS = {
    "sum": 2, "average": 2, "l1": 2, "l2": 2, "sum_square": 2, "multiply": 2, "log_sum": 2, "log_sum_exp": 8,
    "max": 0, "min": 0, "argmax": 0, "argmin": 0,
}  # fmt: skip
WIDE = ("int32", "uint32", "int64", "uint64")
INTEGERS = (*WIDE, "int8", "uint8", "int16", "uint16")
EXACT = {"sum": WIDE, "multiply": WIDE, "l1": WIDE, "sum_square": WIDE} | dict.fromkeys(
    ("max", "min", "argmax", "argmin"), INTEGERS
)


def compare(function: Any, x: Array, axes: tuple[int, ...], threads: int = 2, **layout: Any) -> None:
    g = graph(lambda x: dg.reduce(x, function=function, axes=axes), {"x": x}, x=layout)
    ((got, expected),) = both(g, {"x": x}, threads)
    if x.dtype.kind != "f" or function.startswith("arg"):
        np.testing.assert_array_equal(got, expected)
        return
    magnitude = None
    if function in ("sum", "average"):
        over = np.mean if function == "average" else np.sum
        terms = over(np.abs(x.astype(np.float64)), axes, keepdims=True)
        magnitude = terms * 2.0**-16 + np.abs(expected)  # of the double's rounding, and of the result's
    if function == "log_sum_exp":
        magnitude = 1 + np.abs(expected.astype(np.float64))
    near(got, expected, FLOATS[function], magnitude)


@pytest.mark.parametrize(("sizes", "axes"), SHAPES, ids=str)
@pytest.mark.parametrize("function", FLOATS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_floats(function: str, sizes: tuple[int, ...], axes: tuple[int, ...], dtype: str) -> None:
    x = numbers(sizes, dtype)
    compare(function, np.abs(x) if function == "log_sum" else x, axes)


@pytest.mark.parametrize(("function", "dtype"), [(name, dtype) for name, dtypes in EXACT.items() for dtype in dtypes])
def test_integers_are_exact(function: str, dtype: str) -> None:
    for sizes, axes in SHAPES[2:]:
        compare(function, numbers(sizes, dtype), axes)


@given(shape=shapes_and_axes(), function=st.sampled_from(sorted(FLOATS)), seed=st.integers(0, 99), order=st.data())
@settings(max_examples=60, deadline=None)
def test_any_axes_and_strides(shape: Any, function: str, seed: int, order: Any) -> None:
    sizes, axes = shape
    x = np.abs(numbers(sizes, seed=seed))
    permuted = order.draw(st.permutations(range(len(sizes))))
    # The caller's array has its dimensions in another order, with gaps.
    room = np.zeros([2 * sizes[axis] for axis in permuted], np.float32)
    strided = room[tuple(slice(None, None, 2) for _ in permuted)].transpose(np.argsort(permuted))
    strided[...] = x
    compare(function, strided, axes)


@pytest.mark.parametrize(
    ("function", "row", "gives"),
    [
        ("max", [1, NAN, 3, -INF], 3),
        ("max", [NAN, NAN], -INF),
        ("min", [NAN, NAN], INF),
        ("min", [NAN, INF, 2], 2),
        ("sum", [1, NAN, 2], NAN),
        ("sum", [INF, 1, -INF], NAN),
        ("sum", [3e38, 3e38, -3e38], 3e38),
        ("l2", [3e38, 1], INF),
        ("argmax", [1, NAN, 5, 5], 2),
        ("argmax", [NAN, 7], 0),
        ("argmin", [4, -INF, NAN, -INF], 1),
        ("argmax", [-INF, NAN], 0),
    ],
)
def test_special_numbers(function: Any, row: list[float], gives: float) -> None:
    """As docs/measured.md says, in rows of any length along either axis: the row is filled with neutral elements."""
    idle = {"max": NAN, "min": NAN, "sum": 0, "l2": 0, "argmax": NAN, "argmin": NAN}[function]
    for length in (len(row), 100, 1500, 40000):
        x = np.full((2, length), idle, np.float32)
        x[:, : len(row)] = row
        for turned, axis in ((x, 1), (np.ascontiguousarray(x.T), 0)):
            g = graph(lambda x, axis=axis: dg.reduce(x, function=function, axes=[axis]), {"x": turned})
            ((got, expected),) = both(g, {"x": turned})
            np.testing.assert_array_equal(got, expected)
            np.testing.assert_array_equal(got.ravel(), np.array([gives, gives], got.dtype))


@pytest.mark.parametrize("operator", [dg.argmax, dg.argmin])
@pytest.mark.parametrize("direction", ["increasing", "decreasing"])
@pytest.mark.parametrize(("sizes", "axes"), SHAPES[2:], ids=str)
def test_places_of_extremes(operator: Any, direction: str, sizes: tuple[int, ...], axes: tuple[int, ...]) -> None:
    """Many elements are equal, and some are NaN."""
    x = np.random.default_rng(0).integers(0, 3, sizes).astype(np.float32)
    x.ravel()[::7] = NAN
    g = graph(lambda x: operator(x, axes=axes, axis_direction=direction), {"x": x})
    ((got, expected),) = both(g, {"x": x})
    np.testing.assert_array_equal(got, expected)


def _with_nan(sizes: tuple[int, int]) -> Array:
    """Few numbers, zeros of both signs and NaN; the first row has only NaN, and the second one begins with it."""
    random = np.random.default_rng(sizes[1])
    x = random.choice(np.array([-3, -1, -0.0, 0, 2, NAN], np.float32), sizes)
    x[0], x[1, 0] = NAN, NAN
    x[2] = np.minimum(x[2], 0)
    return x


@pytest.mark.parametrize("length", [1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 33, 64, 67, 129, 300, 2000])
@pytest.mark.parametrize("across", [False, True])
def test_extremes_of_any_length(length: int, across: bool) -> None:
    """NaN is ignored; the first of equal elements is the extreme, or the last one if that is wanted."""
    x = _with_nan((9, length))
    data, axes = (np.ascontiguousarray(x.T), (0,)) if across else (x, (1,))
    for name, sign in (("max", 1), ("min", -1)):
        places: dict[str, list[Any]] = {"increasing": [], "decreasing": []}
        extremes = []
        for row in x:
            (numbers,) = np.nonzero(~np.isnan(row))
            best = numbers[sign * row[numbers] == (sign * row[numbers]).max()] if numbers.size else numbers
            extremes.append(row[best[0]] if best.size else np.float32(-sign * INF))
            for direction, which in (("increasing", 0), ("decreasing", -1)):
                places[direction].append(0 if np.isnan(row[0]) else best[which])
        g = graph(lambda x, name=name: dg.reduce(x, function=name, axes=axes), {"x": data})
        (got,) = g.compile(device="cpu").run({"x": data}).values()
        np.testing.assert_array_equal(got.ravel().view(np.uint32), np.array(extremes).view(np.uint32))
        for direction, expected in places.items():
            find = dg.argmax if name == "max" else dg.argmin
            g = graph(lambda x, find=find, d=direction: find(x, axes=axes, axis_direction=d), {"x": data})
            (got,) = g.compile(device="cpu").run({"x": data}).values()
            np.testing.assert_array_equal(got.ravel(), expected)


@pytest.mark.parametrize("sizes", [(1 << 20,), (3, 350_000), (350_000, 3), (100_003, 2)])
@pytest.mark.parametrize("function", ["sum", "max", "argmax", "log_sum_exp"])
def test_the_number_of_threads_changes_nothing(sizes: tuple[int, ...], function: Any) -> None:
    x = numbers(sizes)
    axis = int(np.argmax(sizes))
    g = graph(lambda x: dg.reduce(x, function=function, axes=[axis]), {"x": x})
    results = [both(g, {"x": x}, threads)[0] for threads in (1, 2, 3)]
    near(*results[0], 8, 1 + np.abs(results[0][1]) + np.abs(x).sum(axis, keepdims=True) * 2.0**-16)
    for got, _ in results[1:]:
        np.testing.assert_array_equal(got, results[0][0])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_large_sums_lose_nothing(dtype: str) -> None:
    """2^24, then ones: a float32 sum would lose all of them."""
    x = np.ones((1, 4097), dtype)
    x[0, 0] = 2**24 if dtype == "float32" else 2**11
    compare("sum", x, (1,))
    compare("sum", np.ascontiguousarray(x.T), (0,))


def test_repeated_elements_are_read_in_place() -> None:
    """A tensor that is repeated along a reduced axis, and along a kept one."""
    x = numbers((6, 1))
    g = dg.Graph("repeated")
    value = g.input("x", sizes=[6, 1], dtype="float32")
    wide = value + g.constant("zero", np.zeros((6, 50), np.float32))
    g.output("y0", dg.reduce(wide, function="sum", axes=[1]))
    g.output("y1", dg.reduce(wide, function="sum", axes=[0]))
    for got, expected in both(g, {"x": x}):
        near(got, expected, 2, np.abs(x).sum() * 50 * 2.0**-16 + np.abs(expected))


@pytest.mark.parametrize("count", [1, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65, 77, 127, 129, 133, 161])
@pytest.mark.parametrize("across", [False, True])
def test_sums_and_extremes_of_any_count(count: int, across: bool) -> None:
    """`count` columns or elements of a row: whole vectors, those that overlap, and parts of one. The sums are exact."""
    x = np.random.default_rng(count).integers(-99, 99, (6, 11, count)).astype(np.float32)
    axis = 1 if across else 2
    for name, expected in (("sum", x.sum(axis)), ("max", x.max(axis)), ("min", x.min(axis))):
        g = graph(lambda x, name=name: dg.reduce(x, function=name, axes=(axis,)), {"x": x})
        got = next(iter(g.compile(device="cpu").run({"x": x}).values()))
        np.testing.assert_array_equal(got.reshape(expected.shape), expected)
