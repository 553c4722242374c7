"""Running sums and products on the device `cpu`: every total is rounded to the tensor's type, as in `reference`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.cpu.rows import Array, both, graph, numbers

import dmlgraph as dg

OPERATORS: list[tuple[Callable[..., dg.Value], str]] = [
    (dg.cumulative_summation, "has_exclusive_sum"),
    (dg.cumulative_product, "has_exclusive_product"),
]


def compare(operator: Any, exclusive: dict[str, bool], x: Array, axis: int, direction: str) -> None:
    g = graph(lambda x: operator(x, axis=axis, axis_direction=direction, **exclusive), {"x": x})
    ((got, expected),) = both(g, {"x": x})
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(("operator", "field"), OPERATORS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("exclusive", [True, False])
@pytest.mark.parametrize("direction", ["increasing", "decreasing"])
def test_every_total_is_exact(operator: Any, field: str, dtype: str, exclusive: bool, direction: str) -> None:
    for sizes in ((1, 1, 1, 1), (2, 3, 4, 5), (1, 30, 2, 1500), (2, 1, 1, 700)):
        for axis in range(4):
            compare(operator, {field: exclusive}, numbers(sizes, dtype), axis, direction)


def test_strides() -> None:
    """The caller's array is copied; a result with strides is left to `evaluate`."""
    x = np.asfortranarray(numbers((1, 1, 6, 7)))
    compare(dg.cumulative_summation, {"has_exclusive_sum": False}, x, 2, "increasing")
    g = graph(
        lambda x: dg.cumulative_summation(
            x, axis=3, axis_direction="increasing", has_exclusive_sum=False, output={"strides": [42, 42, 1, 6]}
        ),
        {"x": x},
    )
    ((got, expected),) = both(g, {"x": x})
    np.testing.assert_array_equal(got, expected)


def test_special_numbers() -> None:
    x = np.array([[1, np.inf, 2, -np.inf, 3, np.nan, 1]], np.float32).reshape(1, 1, 1, 7)
    for operator, field in OPERATORS:
        for axis in (2, 3):
            compare(operator, {field: False}, x, axis, "decreasing")
