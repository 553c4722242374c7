"""Pow has the special values of IEEE's pow, whatever is known of the exponents."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from support.onnx.one_node import DEVICES, results

from dmlgraph.devices.names import DeviceName

Array = np.ndarray[Any, Any]
INF, NAN = math.inf, math.nan
BASES = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, INF, -INF, NAN]
EXPONENTS = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, 1.5, INF, -INF, NAN]

pytestmark = [pytest.mark.usefixtures("directml_path"), pytest.mark.parametrize("device", DEVICES)]


def check(got: Array, base: Array, exponent: Array) -> None:
    """Next to C's pow in float64; zeros have their signs where they are the results of odd powers below zero."""
    with np.errstate(all="ignore"):
        expected = np.power(base.astype(np.float64), exponent.astype(np.float64))
    assert got.dtype == base.dtype
    np.testing.assert_allclose(got.astype(np.float64), expected, 2e-6 if base.dtype == np.float32 else 1e-3)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("known", [(), ("y",)])
def test_every_special_pair(device: DeviceName, dtype: str, known: tuple[str, ...]) -> None:
    x, y = (each.astype(dtype) for each in np.meshgrid(np.array(BASES), np.array(EXPONENTS)))
    (got,) = results("Pow", {"x": x, "y": y}, device, known=known)
    check(got, x, y)


@pytest.mark.parametrize("exponent", [*EXPONENTS, 2.0**31, -(2.0**24), 2.0**24 - 1])
def test_one_known_exponent(device: DeviceName, exponent: float) -> None:
    x, y = np.array(BASES, np.float32), np.array(exponent, np.float32)
    (got,) = results("Pow", {"x": x, "y": y}, device, known=["y"])
    check(got, x, np.broadcast_to(y, x.shape))


def test_large_exponents_are_even(device: DeviceName) -> None:
    x, y = np.array([-1, -1, -2, -0.5], np.float32), np.array([2.0**31, 2.0**24, 2.0**40, 2.0**40], np.float32)
    (got,) = results("Pow", {"x": x, "y": y}, device)
    check(got, x, y)


def test_a_float_exponent_of_integers(device: DeviceName) -> None:
    """The power is exact where it is whole, and cut where it is not."""
    x = np.array([5, 2, -2, 0, 7, 10, 3, 10, -3], np.int32)
    y = np.array([3, -1, 3, 0, 2, 3, 0.5, 0.75, 5], np.float32)
    for known in ((), ("y",)):
        (got,) = results("Pow", {"x": x, "y": y}, device, known=known)
        np.testing.assert_array_equal(got, [125, 0, -8, 1, 49, 1000, 1, 5, -243])
    whole = np.array([3], np.float32)
    (got,) = results("Pow", {"x": x, "y": whole}, device, known=["y"])
    np.testing.assert_array_equal(got, x**3)


def test_the_exponent_of_a_float16_keeps_its_digits(device: DeviceName) -> None:
    x = np.array([2, 1.0009765625, -1], np.float16)
    (got,) = results("Pow", {"x": x, "y": np.array([0.333251953125, 7e4, 70001], np.float32)}, device)
    expected = np.array([2**0.333251953125, math.inf, -1]).astype(np.float16)
    np.testing.assert_allclose(got, expected, 1e-3)
    (got,) = results("Pow", {"x": x, "y": np.array([15, 7000, 70001], np.int64)}, device)
    np.testing.assert_allclose(got, np.array([32768, 1.0009765625**7000, -1]).astype(np.float16), 3e-3)
