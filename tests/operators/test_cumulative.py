"""CUMULATIVE_SUMMATION and CUMULATIVE_PRODUCT: running sums and products along an axis."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from support.operators import exact
from support.operators.checks import UnaryTests
from support.operators.families import ShapedTests
from support.operators.harness import FLOATS, INF, INTEGERS, NAN, Case, array, assert_same, case, refused, run, values
from support.operators.onnx_model import evaluate

from dmlgraph.devices.names import DeviceName

WIDE_INTEGERS = tuple(dtype for dtype in INTEGERS if dtype.endswith(("32", "64")))
DIRECTIONS = ("increasing", "decreasing")


class CumulativeTests(ShapedTests, UnaryTests):
    """The checks of both; `exclusive` is the field that leaves the element itself out."""

    exclusive: str
    levels = "2.1: 4D F32 F16 I32 U32 | 4.0: 1-8D F32 F16 I32 U32 | 5.0: 1-8D F32 F16 I64 I32 U64 U32"

    def at_rank(self, rank: int) -> tuple[list[list[int]], dict[str, Any]]:
        return [[1] * rank], {"axis": rank - 1, "axis_direction": "increasing", self.exclusive: False}

    def step(self, total: Fraction, x: Fraction) -> Fraction:
        raise NotImplementedError

    @pytest.mark.parametrize("dtype", FLOATS)
    @pytest.mark.parametrize("direction", DIRECTIONS)
    @pytest.mark.parametrize("exclusive", [False, True])
    def test_every_step_is_rounded(self, dtype: str, direction: str, exclusive: bool, device: DeviceName) -> None:
        """Measured: one element after another, in float16 too."""
        numbers = exact.values([1.1, -0.7, 3.3, 0.01, 2.7, -1.3, 0.9], dtype)
        ordered = numbers if direction == "increasing" else numbers[::-1]
        total = Fraction(0 if self.operator == "cumulative_summation" else 1)
        expected = []
        for x in ordered:
            before, total = total, Fraction(exact.rounded(self.step(total, x), dtype))
            expected.append(float(before if exclusive else total))
        expected = expected if direction == "increasing" else expected[::-1]
        given = array([float(number) for number in numbers], dtype)
        fields = {"axis": 0, "axis_direction": direction, self.exclusive: exclusive}
        assert_same(run(self.operator, [given], device=device, **fields), array(expected, dtype))

    def test_axis_is_the_inputs(self) -> None:
        error = refused(self.operator, self.sample.inputs, **{**self.sample.fields, "axis": 2})
        assert (error.field, error.got, error.allowed) == ("axis", 2, "-2 to 1")

    def test_directions(self) -> None:
        error = refused(self.operator, self.sample.inputs, **{**self.sample.fields, "axis_direction": "up"})
        assert (error.field, error.allowed) == ("axis_direction", "increasing, decreasing")

    def test_exclusive_is_a_truth_value(self) -> None:
        error = refused(self.operator, self.sample.inputs, **{**self.sample.fields, self.exclusive: 1})
        assert (error.field, error.got) == (self.exclusive, 1)


def sums(why: str, x: Any, gives: Any, direction: str, exclusive: bool, of: str = "float32", axis: int = 0) -> Case:
    return case(why, [x], gives, of, axis=axis, axis_direction=direction, has_exclusive_sum=exclusive)


class TestCumulativeSummation(CumulativeTests):
    operator = "cumulative_summation"
    exclusive = "has_exclusive_sum"
    sample = sums("rows", [[1, 2, 3], [4, 5, 6]], [[1, 3, 6], [4, 9, 15]], "increasing", False, axis=1)
    cases = (
        sample,
        *(
            row
            for of in (*FLOATS, *WIDE_INTEGERS)
            for row in (
                sums("from the first", [2, 1, 3, 5], [2, 3, 6, 11], "increasing", False, of),
                sums("from the last", [2, 1, 3, 5], [11, 9, 8, 5], "decreasing", False, of),
                sums("without itself", [2, 1, 3, 5], [0, 2, 3, 6], "increasing", True, of),
                sums("without itself from the last", [2, 1, 3, 5], [9, 8, 5, 0], "decreasing", True, of),
            )
        ),
        *(
            sums("wraps modulo 2^N", [high, 1, 1], [high, low, exact.wrap(low + 1, of)], "increasing", False, of)
            for of in WIDE_INTEGERS
            for low, high in [exact.limits(of)]
        ),
        sums("columns", [[1, 2], [3, 4], [5, 6]], [[1, 2], [4, 6], [9, 12]], "increasing", False),
        sums("infinities and NaN stay", [1, INF, -INF, 1], [1, INF, NAN, NAN], "increasing", False),
        sums("the first of exclusive sums is 0", [NAN, 1], [0, NAN], "increasing", True),
    )

    def step(self, total: Fraction, x: Fraction) -> Fraction:
        return total + x

    @pytest.mark.parametrize("direction", DIRECTIONS)
    @pytest.mark.parametrize("exclusive", [False, True])
    def test_agrees_with_onnx(self, direction: str, exclusive: bool, device: DeviceName) -> None:
        x = values(np.random.default_rng(0), [2, 9, 3], "float32")
        fields = {"axis": 1, "axis_direction": direction, "has_exclusive_sum": exclusive}
        reverse = int(direction == "decreasing")
        expected = evaluate("CumSum", [x, np.array(1)], reverse=reverse, exclusive=int(exclusive))[0]
        assert_same(run(self.operator, [x], device=device, **fields), expected)


def products(why: str, x: Any, gives: Any, direction: str, exclusive: bool, of: str = "float32", axis: int = 0) -> Case:
    return case(why, [x], gives, of, axis=axis, axis_direction=direction, has_exclusive_product=exclusive)


class TestCumulativeProduct(CumulativeTests):
    operator = "cumulative_product"
    exclusive = "has_exclusive_product"
    levels = "3.1: 4D F32 F16 I32 U32 | 4.0: 1-8D F32 F16 I32 U32 | 5.0: 1-8D F32 F16 I64 I32 U64 U32"
    sample = products("rows", [[1, 2, 3], [4, 5, 6]], [[1, 2, 6], [4, 20, 120]], "increasing", False, axis=1)
    cases = (
        sample,
        *(
            row
            for of in (*FLOATS, *WIDE_INTEGERS)
            for row in (
                products("from the first", [2, 1, 3, 5], [2, 2, 6, 30], "increasing", False, of),
                products("from the last", [2, 1, 3, 5], [30, 15, 15, 5], "decreasing", False, of),
                products("without itself", [2, 1, 3, 5], [1, 2, 2, 6], "increasing", True, of),
                products("without itself from the last", [2, 1, 3, 5], [15, 15, 5, 1], "decreasing", True, of),
            )
        ),
        *(
            products("wraps modulo 2^N", [high, 2], [high, exact.wrap(2 * high, of)], "increasing", False, of)
            for of in WIDE_INTEGERS
            for _, high in [exact.limits(of)]
        ),
        products("columns", [[1, 2], [3, 4], [5, 6]], [[1, 2], [3, 8], [15, 48]], "increasing", False),
        products("zero times infinity is NaN", [2, 0, INF, 1], [2, 0, NAN, NAN], "increasing", False),
    )

    def step(self, total: Fraction, x: Fraction) -> Fraction:
        return total * x
