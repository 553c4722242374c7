"""ELEMENT_WISE_MODULUS_TRUNCATE and ELEMENT_WISE_MODULUS_FLOOR: a − b · trunc(a / b), a − b · ⌊a / b⌋."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.operators import exact
from support.operators.checks import BinaryTests
from support.operators.harness import FLOATS, INF, INTEGERS, NAN, SIGNED, UNSIGNED, case, each_dtype, run

A, B = [7, -7, 7, -7, 6, -6], [3, 3, -3, -3, 3, 3]


class ModulusTests(BinaryTests):
    levels = "2.1: 4D ALL8 | 3.0: 1-8D ALL8 | 6.0: 1-8D ALL10"

    common = (
        *each_dtype(FLOATS + INTEGERS, "what is left", [[7, 100, 6, 0, 3], [3, 9, 3, 5, 7]], [1, 1, 0, 0, 3]),
        *each_dtype(FLOATS, "fractions", [[7.5, 1.25, 5], [2, 0.5, 2.5]], [1.5, 0.25, 0.0]),
        *each_dtype(FLOATS, "NaN modulo zero", [[1, -1, 0.0, INF], [0.0, -0.0, 0.0, 0.0]], [NAN] * 4),
        *each_dtype(FLOATS, "NaN of infinity", [[INF, -INF, NAN, 1], [3, 3, 3, NAN]], [NAN] * 4),
        *each_dtype(FLOATS, "NaN modulo infinity: 0 · ∞", [[0.0, 5, -5, INF], [INF, INF, -INF, INF]], [NAN] * 4),
        *each_dtype(FLOATS, "never −0", [[-0.0, -6], [3, 3]], [0.0, 0.0]),
        *(
            case("all bits set modulo zero", [[0, 5, 100], [0, 0, 0]], [exact.limits(dtype)[1]] * 3, dtype)
            for dtype in UNSIGNED
        ),
        *each_dtype(("int16", "int64"), "all bits set modulo zero", [[0, 5, -5], [0, 0, 0]], [-1, -1, -1]),
        *(case("the least modulo −1", [[exact.limits(dtype)[0]], [-1]], [0], dtype) for dtype in SIGNED),
        *(
            case("extremes", [[high, high, high - 1], [high, 1, high]], [0, 0, high - 1], dtype)
            for dtype in INTEGERS
            for high in [exact.limits(dtype)[1]]
        ),
        case("64-bit numbers are exact", [[2**63 + 1], [2**62]], [1], "uint64"),
        # 3 / (1 + 2^-23) is one float below 3, so the next float is 3; 3 + 3 · 2^-23 rounds to 3 + 2^-21.
        case("almost three times", [[3], [1 + 2.0**-23]], [-(2.0**-21)]),
    )


class TestModulusTruncate(ModulusTests):
    operator = "modulus_truncate"
    sample = case("two dimensions", [[[7, -8, 9], [10, -11, 3]], [[4, 3, 3], [-4, 5, 7]]], [[3, -2, 0], [2, -1, 3]])
    cases = (
        *ModulusTests.common,
        *each_dtype(FLOATS + SIGNED, "the sign of a", [A, B], [1, -1, 1, -1, 0, 0]),
        *each_dtype(FLOATS, "fractions below zero", [[-7.5, 7.5], [2, -2]], [-1.5, 1.5]),
        *each_dtype(("int8", "int32"), "a itself modulo zero", [[0, 5, -5], [0, 0, 0]], [0, 5, -5]),
    )


class TestModulusFloor(ModulusTests):
    operator = "modulus_floor"
    sample = case("two dimensions", [[[7, -8, 9], [10, -11, 3]], [[4, 3, 3], [-4, 5, 7]]], [[3, 1, 0], [-2, 4, 3]])
    cases = (
        *ModulusTests.common,
        *each_dtype(FLOATS + SIGNED, "the sign of b", [A, B], [1, 2, -2, -1, 0, 0]),
        *each_dtype(FLOATS, "fractions below zero", [[-7.5, 7.5], [2, -2]], [0.5, -0.5]),
        *each_dtype(("int8", "int32"), "∓1 modulo zero", [[0, 5, -5], [0, 0, 0]], [-1, -1, 1]),
    )


def truncated(a: Any, b: Any) -> Any:
    return a - b * math.trunc(Fraction(a) / Fraction(b))


def floored(a: Any, b: Any) -> Any:
    return a - b * math.floor(Fraction(a) / Fraction(b))


@pytest.mark.parametrize(("operator", "formula"), [("modulus_truncate", truncated), ("modulus_floor", floored)])
@given(st.data(), st.sampled_from(INTEGERS))
def test_integers_are_exact(operator: str, formula: Any, data: st.DataObject, dtype: str) -> None:
    numbers = st.integers(*exact.limits(dtype))
    a, b = data.draw(numbers), data.draw(numbers.filter(bool))
    got = run(operator, [np.array([a], dtype), np.array([b], dtype)])
    assert int(got[0]) == formula(a, b)


@pytest.mark.parametrize(("operator", "formula"), [("modulus_truncate", truncated), ("modulus_floor", floored)])
@given(st.integers(-10000, 10000), st.integers(-100, 100).filter(bool))
def test_quarters_are_exact(operator: str, formula: Any, a: int, b: int) -> None:
    got = run(operator, [np.array([a / 4], "float32"), np.array([b / 4], "float32")])
    assert Fraction(float(got[0])) == formula(Fraction(a, 4), Fraction(b, 4))
