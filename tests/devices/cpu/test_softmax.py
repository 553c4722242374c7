"""Softmax and its variants on the device `cpu`.

The difference to the greatest element is a float32: its relative rounding error, times its magnitude, is the relative
error of the exponential.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from support.cpu.rows import INF, NAN, SHAPES, Array, both, graph, near, numbers, shapes_and_axes

import dmlgraph as dg

UNITS = 6


def compare(operator: Any, x: Array, axes: tuple[int, ...]) -> None:
    g = graph(lambda x: operator(x, axes=axes), {"x": x})
    ((got, expected),) = both(g, {"x": x})
    if operator is dg.activation_hardmax1:
        np.testing.assert_array_equal(got, expected)
        return
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        depth = np.nan_to_num(wide.max(axes, keepdims=True) - wide, nan=0, posinf=0, neginf=0)
        magnitude = np.abs(expected.astype(np.float64))
        if operator is dg.activation_log_softmax1:  # the sum has terms of all depths
            depth = depth.max(axes, keepdims=True)
            magnitude = magnitude + 2.0**-27  # and is a float64 near 1
        magnitude = magnitude * (1 + depth / UNITS)
    near(got, expected, UNITS, magnitude)


OPERATORS = [dg.activation_softmax1, dg.activation_log_softmax1, dg.activation_hardmax1]


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(("sizes", "axes"), SHAPES, ids=str)
def test_shapes(operator: Any, sizes: tuple[int, ...], axes: tuple[int, ...], dtype: str) -> None:
    compare(operator, numbers(sizes, dtype) * np.array(8, dtype), axes)


@given(shape=shapes_and_axes())
@settings(max_examples=40, deadline=None)
def test_any_axes(shape: Any) -> None:
    sizes, axes = shape
    for operator in OPERATORS:
        compare(operator, numbers(sizes), axes)


@pytest.mark.parametrize("length", [3, 100, 3000, 20000])
@pytest.mark.parametrize("operator", OPERATORS)
def test_special_numbers(operator: Any, length: int) -> None:
    """Masked elements, masked rows, infinities, NaN at the first and at later positions, distant numbers."""
    x = np.full((7, length), -1.0, np.float32)
    x[0, 1] = -INF
    x[1] = -INF
    x[2, 2] = INF
    x[3, 0] = NAN
    x[4, 2] = NAN
    x[5, :2] = [1e38, -3e38]
    x[6, :2] = [0, -87]
    compare(operator, x, (1,))
    compare(operator, np.ascontiguousarray(x.T), (0,))


def test_large_numbers_do_not_overflow_and_small_ones_are_subnormal() -> None:
    x = np.array([[1000, 1000 - 95]], np.float32)
    g = graph(lambda x: dg.activation_softmax1(x, axes=[1]), {"x": x})
    ((got, _),) = both(g, {"x": x})
    assert got[0, 0] == 1
    assert got[0, 1] == pytest.approx(np.exp(-95.0), rel=1e-3)


def test_log_softmax_near_zero_keeps_its_digits() -> None:
    x = np.array([[20, 0]], np.float32)
    g = graph(lambda x: dg.activation_log_softmax1(x, axes=[1]), {"x": x})
    ((got, _),) = both(g, {"x": x})
    assert got[0, 0] == pytest.approx(-np.log1p(np.exp(-20.0)), rel=1e-6)


def test_the_old_operators_work_along_the_last_axis() -> None:
    x = numbers((1, 1, 5, 300))
    for operator in (dg.activation_softmax, dg.activation_log_softmax, dg.activation_hardmax):
        g = graph(lambda x, operator=operator: operator(x), {"x": x})
        ((got, expected),) = both(g, {"x": x})
        near(got, expected, 2 * UNITS)


def test_shares_of_distant_elements() -> None:
    """From normal numbers over subnormal ones to zero, and beyond where powers of two are zero."""
    far = np.concatenate([np.linspace(80, 140, 4001), [1e4, 3.4e38, np.inf]]).astype(np.float32)
    x = np.concatenate([np.zeros(1, np.float32), -far])[None]
    g = dg.Graph()
    g.output("y", dg.activation_softmax1(g.input("x", sizes=x.shape, dtype="float32"), axes=[1]))
    (got,) = g.compile("cpu").run({"x": x})["y"]
    expected = np.exp(x[0].astype(np.float64))
    np.testing.assert_allclose(got, expected / expected.sum(), rtol=1e-5, atol=1.5e-45)
    assert not got[1:][far > 104].any()
    assert got[1:][far < 103].all()
