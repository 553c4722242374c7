"""ELEMENT_WISE_IF: a where the condition is not zero, else b."""

from __future__ import annotations

import numpy as np
import pytest
from support.operators import exact
from support.operators.checks import BroadcastTests, check_level
from support.operators.harness import (
    FLOATS,
    INF,
    INTEGERS,
    NAN,
    add_node,
    array,
    bits_of,
    case,
    parse_levels,
    refused,
    run,
)

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices.names import DeviceName


def condition(*values: int) -> np.ndarray:
    return array(values, "uint8")


class TestIf(BroadcastTests):
    operator = "if"
    levels = "2.0: 4D F16 | 3.0: 1-8D ALL8 | 5.0: 1-8D ALL11"
    sample = case(
        "two dimensions",
        [array([[1, 0, 1], [0, 1, 0]], "uint8"), [[1, 2, 3], [4, 5, 6]], [[10, 20, 30], [40, 50, 60]]],
        [[1, 20, 3], [40, 5, 60]],
    )
    cases = (
        *(
            case("chooses", [condition(1, 0, 1, 0), [1, 2, 3, 4], [5, 6, 7, 8]], [1, 6, 3, 8], dtype)
            for dtype in (*FLOATS, *INTEGERS, "float64")
        ),
        case("whatever is not zero is true", [condition(1, 2, 128, 255, 0), [1] * 5, [0] * 5], [1, 1, 1, 1, 0], "int8"),
        *(
            case("extremes", [condition(1, 0), [low, low], [high, high]], [low, high], dtype)
            for dtype in INTEGERS
            for low, high in [exact.limits(dtype)]
        ),
        case("special values", [condition(1, 0, 1), [NAN, 1, -0.0], [1, -INF, 1]], [NAN, -INF, -0.0]),
        case("the other side's NaN does not matter", [condition(1, 0), [1, NAN], [NAN, 2]], [1, 2]),
    )

    def node_at(self, graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
        x = graph.input("x", sizes=[1] * rank, dtype=dtype)
        add_node(graph, "if", [graph.input("condition", sizes=[1] * rank, dtype="uint8"), x, x])

    @pytest.mark.parametrize("level", dg.FeatureLevel, ids=str)
    def test_levels_of_the_condition(self, level: dg.FeatureLevel) -> None:
        def node_at(graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
            x = graph.input("x", sizes=[1] * rank, dtype="float16")
            add_node(graph, "if", [graph.input("condition", sizes=[1] * rank, dtype=dtype), x, x])

        check_level(parse_levels("2.0: 4D U8 | 3.0: 1-8D U8"), level, node_at)

    def test_copies_bits(self, device: DeviceName) -> None:
        a, b = exact.from_bits("float32", 0x7FC00001, 1), exact.from_bits("float32", 2, 0xFFC12345)
        np.testing.assert_array_equal(
            bits_of(run("if", [condition(1, 0), a, b], device=device)), [0x7FC00001, 0xFFC12345]
        )

    def test_condition_is_uint8(self) -> None:
        error = refused("if", [array([1], "uint32"), array([1], "float32"), array([2], "float32")])
        assert (error.field, error.got, error.allowed) == ("condition.dtype", "uint32", "uint8")

    def test_a_and_b_have_one_data_type(self) -> None:
        error = refused("if", [condition(1), array([1], "float32"), array([2], "float16")])
        assert (error.field, error.got, error.allowed) == ("b", "float16 [1]", "float32 [1]")

    def test_numbers_take_the_other_sides_data_type(self, device: DeviceName) -> None:
        got = run("if", [condition(1, 0), array([5, 6], "int16"), -1], device=device)
        np.testing.assert_array_equal(got, array([5, -1], "int16"))
        assert got.dtype == np.int16
