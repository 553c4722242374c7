"""Gather and scatter on the device `cpu` read and write exactly the elements that `reference` does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.cpu.near import LAYOUTS, check_exact, desc, make
from support.cpu.plans import kinds
from support.cpu.rows import Array, both, graph, numbers

import dmlgraph as dg
from dmlgraph.devices.cpu.plan import lowered

DTYPES = ("float32", "float16", "float64", "int8", "uint16", "int64")
INDEX_DTYPES = ("uint32", "int32", "uint64", "int64")


def check(build: Any, inputs: dict[str, Array], *, native: bool = True) -> None:
    """The device gives `reference`'s elements, by a native step if `native`."""
    g = graph(build, inputs)
    for got, expected in both(g, inputs):
        np.testing.assert_array_equal(got, expected)
    assert ("python" in kinds(g.compile("cpu", fuse=False))) is not native


def some(sizes: tuple[int, ...], dtype: str, limit: int, seed: int = 0) -> Array:
    """Indices; one in five is beyond the ends."""
    low = 0 if dtype.startswith("u") else -limit
    random = np.random.default_rng(seed)
    inside = random.integers(low, limit, sizes)
    beyond = random.choice([limit, limit + 3, 2**31 - 1, *([] if low == 0 else [-limit - 1, -(2**31)])], sizes)
    return np.where(random.random(sizes) < 0.2, beyond, inside).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index_dtype", INDEX_DTYPES)
@pytest.mark.parametrize("axis", range(4))
def test_gather(dtype: str, index_dtype: str, axis: int) -> None:
    x = numbers((1, 5, 6, 70), dtype)
    for count in (1, 2, 400):
        check(
            lambda x, i: dg.gather(x, i, axis=axis, index_dimensions=1),
            {"x": x, "i": some((1, 1, 1, count), index_dtype, x.shape[axis])},
        )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index_dtype", INDEX_DTYPES)
@pytest.mark.parametrize("axis", range(3))
def test_gather_elements(dtype: str, index_dtype: str, axis: int) -> None:
    sizes = (4, 5, 60)
    for along in (1, 3, 90):
        taken = (*sizes[:axis], along, *sizes[axis + 1 :])
        check(
            lambda x, i: dg.gather_elements(x, i, axis=axis),
            {"x": numbers(sizes, dtype), "i": some(taken, index_dtype, sizes[axis])},
        )


@pytest.mark.parametrize("index_dtype", INDEX_DTYPES)
@pytest.mark.parametrize("members", [1, 2, 3])
def test_gather_nd(index_dtype: str, members: int) -> None:
    x = numbers((5, 5, 5, 40), "float32")
    counts: dict[str, Any] = {"input_dimension_count": 4, "indices_dimension_count": 2}
    indices = some((1, 1, 33, members), index_dtype, 5)
    check(lambda x, i: dg.gather_nd(x, i, **counts), {"x": x, "i": indices})


@pytest.mark.parametrize("index_dtype", INDEX_DTYPES)
@pytest.mark.parametrize("batches", [1, 2])
def test_gather_nd_of_batches(index_dtype: str, batches: int) -> None:
    x = numbers((1, 2, 3, 7, 30), "float32")
    counts: dict[str, Any] = {
        "input_dimension_count": 4,
        "indices_dimension_count": 4,
        "batch_dimension_count": batches,
    }
    for members in range(1, 4 - batches):
        sizes = (1, 2, 3 if batches == 2 else 1, 11, members)
        indices = some(sizes, index_dtype, 3)
        check(lambda x, i: dg.gather_nd1(x, i, **counts), {"x": x, "i": indices})


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index_dtype", INDEX_DTYPES)
@pytest.mark.parametrize("axis", range(3))
def test_scatter_elements(dtype: str, index_dtype: str, axis: int) -> None:
    """Indices that occur several times: the last update stays."""
    sizes = (4, 5, 60)
    given = (*sizes[:axis], min(3, sizes[axis]), *sizes[axis + 1 :])
    check(
        lambda x, i, u: dg.scatter_elements(x, i, u, axis=axis),
        {
            "x": numbers(sizes, dtype),
            "i": some(given, index_dtype, sizes[axis]),
            "u": numbers(given, dtype),
        },
    )


@pytest.mark.parametrize("index_dtype", INDEX_DTYPES)
@pytest.mark.parametrize("members", [1, 2, 3])
def test_scatter_nd(index_dtype: str, members: int) -> None:
    sizes = (5, 5, 5, 300)
    updates = {1: (1, 9, 5, 5, 300), 2: (1, 1, 9, 5, 300), 3: (1, 1, 1, 9, 300)}[members]
    counts: dict[str, Any] = {"input_dimension_count": 4, "indices_dimension_count": 2}
    check(
        lambda x, i, u: dg.scatter_nd(x, i, u, **counts),
        {
            "x": numbers((1, *sizes), "float32"),
            "i": some((1, 1, 1, 9, members), index_dtype, 5),
            "u": numbers(updates, "float32"),
        },
    )


def test_tensors_with_strides_are_copied() -> None:
    x, i = numbers((1, 1, 4, 6), "float32"), some((1, 1, 1, 3), "int32", 6)
    check(
        lambda x, i: dg.gather(x, i, axis=3, index_dimensions=1, output={"strides": [12, 12, 1, 4]}),
        {"x": x, "i": i},
    )


def test_arrays_with_strides_are_copied_first() -> None:
    x = np.asfortranarray(numbers((1, 1, 40, 60), "float32"))
    indices = some((1, 1, 1, 30), "int64", 40)[..., ::-1]
    check(lambda x, i: dg.gather(x, i, axis=2, index_dimensions=1), {"x": x, "i": indices})


def test_what_is_gathered_goes_on_into_a_region() -> None:
    x, i = numbers((1, 1, 50, 300), "float32"), some((1, 1, 1, 700), "uint32", 50)
    check(lambda x, i: dg.activation_relu(dg.gather(x * 2, i, axis=2, index_dimensions=1) - 1), {"x": x, "i": i})


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", [(1,), (7,), (3, 1, 5), (2, 3, 4, 5, 6), (40, 1000)])
@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_nonzero_coordinates(dtype: str, sizes: tuple[int, ...], layout: str) -> None:
    """Of zeros of both signs, NaN, and all and no elements."""
    x = numbers(sizes, dtype)
    x[np.random.default_rng(2).random(sizes) < 0.6] = 0
    if x.dtype.kind == "f":
        special = [-0.0, np.nan, 1, np.inf][: x.size]
        x.flat[: len(special)] = special
    operator = make("nonzero_coordinates", input=desc(sizes, dtype))
    assert isinstance(lowered(operator), tuple)
    for each in (x, np.zeros_like(x), np.ones_like(x)):
        check_exact(operator, [LAYOUTS[layout](each)])


@pytest.mark.parametrize("members", [2, 3, 4])
def test_nonzero_coordinates_without_leading_dimensions(members: int) -> None:
    operator = make(
        "nonzero_coordinates", input=desc((1, 1, 5, 6), "int8"), output_count={"sizes": (1,)},
        output_coordinates={"sizes": (30, members)},
    )  # fmt: skip
    check_exact(operator, [numbers((1, 1, 5, 6), "int8") % 3])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", range(3))
def test_reverse_subsequences(dtype: str, axis: int) -> None:
    """Lengths of none, some and all elements, and of more; neighbours have the same one or others."""
    x = numbers((4, 9, 60), dtype)
    sizes = tuple(1 if each == axis else size for each, size in enumerate(x.shape))
    length = x.shape[axis]
    random = np.random.default_rng(3)
    for lengths in (
        random.integers(0, 2 * length + 3, sizes),
        random.integers(0, length + 1, sizes) // 4 * 4,
        np.full(sizes, length),
        np.full(sizes, 2**32 - 1),
    ):
        for length_dtype in ("uint32", "uint64"):
            given = {"x": x, "lengths": lengths.astype(length_dtype)}
            check(lambda x, lengths: dg.reverse_subsequences(x, lengths, axis=axis), given)
