"""REDUCE: one number for the elements along some axes, whose sizes become 1."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.nodes import operator_of
from support.operators import exact
from support.operators.checks import OperatorTests, check_level
from support.operators.harness import (
    FLOATS,
    INF,
    INTEGERS,
    NAN,
    SIGNED,
    Case,
    add_node,
    array,
    case,
    parse_levels,
    refused,
    run,
)

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices.names import DeviceName

# Functions that accept the same data types, and these by feature level.
FOUR_BYTES = "F32 F16 I32 U32"
LEVELS = {
    ("argmax", "argmin"): "1.0: 4D F32 F16 | 2.1: 4D ALL8 | 3.0: 1-8D ALL8 | 4.1: 1-8D ALL10",
    ("average", "l2", "log_sum", "log_sum_exp"): "1.0: 4D F32 F16 | 3.0: 1-8D F32 F16",
    ("l1", "sum_square"): "1.0: 4D F32 F16 | 3.0: 1-8D F32 F16 | 5.0: 1-8D F32 F16 I64 I32 U64 U32",
    ("max", "min"): "1.0: 4D F32 F16 | 2.1: 4D F32 F16 I32 U32 | 3.0: 1-8D ALL8 | 5.0: 1-8D ALL10",
    ("multiply", "sum"): "1.0: 4D F32 F16 | 2.1: 4D F32 F16 I32 U32 | 3.0: 1-8D F32 F16 I32 U32"
    " | 5.0: 1-8D F32 F16 I64 I32 U64 U32",
}
FUNCTIONS = [(function, levels) for functions, levels in LEVELS.items() for function in functions]
WIDE = ("int32", "int64", "uint32", "uint64")


def reduces(why: str, function: str, numbers: object, gives: object, of: str = "float32", **fields: object) -> Case:
    to = "uint32" if function.startswith("arg") else of
    return case(f"{function}: {why}", [numbers], gives, of, to, function=function, **fields)


def each(function: str, why: str, numbers: object, gives: object, dtypes: tuple[str, ...] = FLOATS) -> list[Case]:
    return [reduces(why, function, numbers, gives, dtype) for dtype in dtypes]


def rounded(function: str, numbers: list[float], result: Callable[[list[Fraction]], Any]) -> list[Case]:
    """The exact result of the stored numbers, rounded once."""
    return [
        reduces("to the last bit", function, [float(x) for x in xs], [exact.rounded(result(xs), dtype)], dtype)
        for dtype in FLOATS
        for xs in [exact.values(numbers, dtype)]
    ]


# 0 … 23 shaped {2,3,4}: element (i, j, k) is 12 i + 4 j + k.
CUBE = array([[[12 * i + 4 * j + k for k in range(4)] for j in range(3)] for i in range(2)], "float32")


class TestReduce(OperatorTests):
    operator = "reduce"
    ulp: ClassVar = {"directml:software": 4}  # summed in float32, in another order
    levels = LEVELS["multiply", "sum"]
    sample = reduces("two dimensions", "sum", [[1, 2, 3], [4, 5, 6]], [[6], [15]], axes=[1])
    cases = (
        *each("average", "mean", [1, 2, 3, 5], [2.75]),
        *each("l1", "sum of magnitudes", [-1, 2, -3], [6]),
        *each("l1", "sum of magnitudes", [-1, 2, -3], [6], ("int32", "int64")),
        *each("l2", "root of the sum of squares", [3, -4], [5]),
        *each("log_sum", "ln of the sum", [0.25, 0.75], [0]),
        *each("log_sum_exp", "one element is itself", [3], [3]),
        *each("max", "greatest", [1, 7, 3], [7], FLOATS + INTEGERS),
        *each("min", "least", [4, 2, 3], [2], FLOATS + INTEGERS),
        *each("multiply", "product", [2, 3, 7], [42], FLOATS + WIDE),
        *each("sum", "sum", [2, 3, 7], [12], FLOATS + WIDE),
        *each("sum_square", "sum of squares", [2, 3, 6], [49], FLOATS + WIDE),
        *each("argmax", "index of the greatest", [1, 7, 3, 5], [1], FLOATS + INTEGERS),
        *each("argmin", "index of the least", [4, 3, 1, 5], [2], FLOATS + INTEGERS),
        *each("argmax", "the first of several", [1, 7, 3, 7], [1], FLOATS + INTEGERS),
        *each("argmin", "the first of several", [4, 1, 1, 5], [1], FLOATS + INTEGERS),
        *each("max", "negative numbers", [-5, -1, -3], [-1], SIGNED),
        *each("argmin", "negative numbers", [5, -1, -3], [2], SIGNED),
        *rounded("average", [0.1, 0.2, 0.4], lambda xs: sum(xs) / 3),
        *rounded("sum", [0.1, 0.2, 0.4, 1000], sum),
        *rounded("l1", [0.1, -0.2, 0.4], lambda xs: sum(map(abs, xs))),
        *rounded("l2", [0.1, -0.2, 1.5], lambda xs: exact.sqrt(sum(x * x for x in xs))),
        *rounded("log_sum", [0.1, 2, 30], lambda xs: exact.log(sum(xs))),
        *rounded("log_sum_exp", [0.5, -1, 2], lambda xs: exact.log(Fraction(sum(map(exact.exp, xs))))),
        *rounded("multiply", [0.1, 3.3, 7.7], lambda xs: xs[0] * xs[1] * xs[2]),
        *rounded("sum_square", [0.1, 3.3, 7.7], lambda xs: sum(x * x for x in xs)),
        reduces("wraps", "sum", [2**31 - 1, 1], [-(2**31)], "int32"),
        reduces("wraps", "sum", [2**32 - 1, 2], [1], "uint32"),
        reduces("wraps", "sum", [2**64 - 1, 2], [1], "uint64"),
        reduces("wraps", "multiply", [2**16, 2**16], [0], "uint32"),
        reduces("wraps", "multiply", [2**62, 2], [-(2**63)], "int64"),
        reduces("wraps", "sum_square", [2**16, 3], [9], "int32"),
        reduces("the least integer has no opposite", "l1", [-(2**31)], [-(2**31)], "int32"),
        reduces("64-bit neighbours", "max", [2**53, 2**53 + 1], [2**53 + 1], "int64"),
        reduces("64-bit neighbours", "argmin", [2**64 - 1, 2**64 - 2], [1], "uint64"),
        reduces("float16 does not overflow on the way", "sum", [65504, 65504, -65504], [65504], "float16"),
        reduces("overflows", "sum", [65504, 65504], [INF], "float16"),
        *each("sum", "infinities cancel to NaN", [INF, -INF], [NAN]),
        *each("sum", "NaN spreads", [NAN, 1], [NAN]),
        # Computed in float32 by the formula.
        *each("log_sum_exp", "e^x overflows", [100, 1], [INF]),
        *each("log_sum_exp", "e^x vanishes", [-200, -200], [-INF]),
        *each("l2", "the sum of squares overflows", [1e20, 1], [INF], ("float32",)),
        *each("l2", "squares beyond float16 are no matter", [300, 400], [500], ("float16",)),
        *each("max", "NaN is passed over", [NAN, 1, NAN, 3], [3]),
        *each("min", "NaN is passed over", [NAN, 1, NAN, 3], [1]),
        *each("max", "NaN alone is −∞", [NAN, NAN], [-INF]),
        *each("min", "NaN alone is ∞", [NAN, NAN], [INF]),
        *each("argmax", "NaN is passed over", [1, NAN, 3, NAN], [2]),
        *each("argmax", "unless it is first", [NAN, 3, 1], [0]),
        *each("argmin", "unless it is first", [NAN, 3, 1], [0]),
        *each("max", "∞", [-INF, INF, 1], [INF]),
        *each("min", "−∞", [-INF, INF, 1], [-INF]),
        # Axes.
        reduces("axis 0", "sum", CUBE, (CUBE[0:1] * 2 + 12), axes=[0]),
        reduces("axis 1", "sum", CUBE, [[[12, 15, 18, 21]], [[48, 51, 54, 57]]], axes=[1]),
        reduces("axis 2", "sum", CUBE, [[[6], [22], [38]], [[54], [70], [86]]], axes=[2]),
        reduces("axes 0 and 2", "sum", CUBE, [[[60], [92], [124]]], axes=[0, 2]),
        reduces("all axes", "sum", CUBE, [[[276]]], axes=[0, 1, 2]),
        reduces("all axes, left out", "sum", CUBE, [[[276]]]),
        reduces("an axis of size 1", "max", [[5], [3]], [[5], [3]], axes=[1]),
        reduces("the index is row-major inside the axes", "argmax", CUBE, [[[7], [7], [7]]], axes=[0, 2]),
        reduces("the order of the axes does not matter", "argmax", CUBE, [[[7], [7], [7]]], axes=[2, 0]),
        reduces("the index of all", "argmax", CUBE, [[[23]]]),
        reduces("−∞ below zero and NaN", "log_sum", [[0.0], [-1]], [[-INF], [NAN]], axes=[1]),
    )

    def node_at(self, graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
        add_node(graph, "reduce", [graph.input("x", sizes=[1] * rank, dtype=dtype)], function="sum")

    @pytest.mark.parametrize(("function", "levels"), FUNCTIONS, ids=[function for function, _ in FUNCTIONS])
    def test_levels_of_every_function(self, function: str, levels: str) -> None:
        def node_at(graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
            add_node(graph, "reduce", [graph.input("x", sizes=[1] * rank, dtype=dtype)], function=function)

        for level in dg.FeatureLevel:
            check_level(parse_levels(levels), level, node_at)

    @pytest.mark.parametrize("function", ["argmax", "argmin"])
    @pytest.mark.parametrize("level", dg.FeatureLevel, ids=str)
    def test_levels_of_an_index(self, function: str, level: dg.FeatureLevel) -> None:
        def node_at(graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
            x = graph.input("x", sizes=[1] * rank, dtype="float32")
            add_node(graph, "reduce", [x], function=function, dtype=dtype)

        check_level(parse_levels("1.0: 4D U32 | 3.0: 1-8D I64 I32 U64 U32"), level, node_at)

    @pytest.mark.parametrize("dtype", WIDE)
    def test_an_index_in_the_type_asked_for(self, dtype: str, device: DeviceName) -> None:
        got = run("reduce", [array([1, 3, 2], "int8")], device=device, function="argmax", dtype=dtype)
        assert got.dtype == np.dtype(dtype)
        assert got.tolist() == [1]

    def test_another_output_type_only_for_an_index(self) -> None:
        error = refused("reduce", self.sample.inputs, function="sum", dtype="int32")
        assert (error.field, error.got, error.allowed) == ("output.dtype", "int32", "float32")

    def test_function_is_one_of_directmls(self) -> None:
        error = refused("reduce", self.sample.inputs, function="summ")
        assert (error.field, error.got, error.hint) == ("function", "summ", "did you mean 'sum'?")
        assert set((error.allowed or "").split(", ")) == {function for function, _ in FUNCTIONS}

    @pytest.mark.parametrize(
        ("axes", "field", "got"),
        [
            ([2], "axes.0", 2),
            ([0, 7], "axes.1", 7),
            ([-3], "axes.0", -3),
            ([1, -1], "axes.1", -1),
            ([1, 1], "axes.1", 1),
            ([0.5], "axes.0", 0.5),
        ],
    )
    def test_axes_are_the_tensors_each_once(self, axes: object, field: str, got: object) -> None:
        error = refused("reduce", self.sample.inputs, function="sum", axes=axes)
        assert (error.field, error.got) == (field, got)

    def test_axes_left_out_are_all_axes(self) -> None:
        graph = dg.Graph("test")
        add_node(graph, "reduce", [graph.input("x", sizes=[2, 3, 4], dtype="float32")], function="sum")
        assert operator_of(graph.node("node")).axes == (0, 1, 2)


@pytest.mark.parametrize("own", ["reference", "cpu"])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("function", ["max", "min"])
@pytest.mark.parametrize("axis", [0, 1])
def test_of_zeros_of_either_sign_the_first_is_taken(function: str, dtype: str, axis: int, own: DeviceName) -> None:
    """DirectML takes either; that depends on the compiler of its shader."""
    rng = np.random.default_rng(0)
    lesser = -1 if function == "max" else 1
    for length in (1, 2, 7, 64, 130, 515, 5000):
        x = rng.choice([0.0, -0.0, lesser, NAN], (3, length), p=[0.3, 0.3, 0.3, 0.1]).astype(dtype)
        x[1] = np.where(x[1] == 0, lesser, x[1])
        x[1, -1] = -0.0
        firsts = [next((each for each in line if each == 0), None) for line in x]
        tensor = x if axis == 1 else x.T
        got = run("reduce", [np.ascontiguousarray(tensor)], device=own, function=function, axes=[axis]).ravel()
        for each, first in zip(got, firsts, strict=True):
            assert first is None or (each == 0 and np.signbit(each) == np.signbit(first))


@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=20))
def test_sums_and_products_wrap_modulo_2_to_the_32(numbers: list[int]) -> None:
    x = array(numbers, "int32")
    product = 1
    for number in numbers:
        product *= number
    assert int(run("reduce", [x], function="sum")[0]) == exact.wrap(sum(numbers), "int32")
    assert int(run("reduce", [x], function="multiply")[0]) == exact.wrap(product, "int32")
    assert int(run("reduce", [x], function="argmax")[0]) == numbers.index(max(numbers))
