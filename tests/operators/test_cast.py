"""CAST: the input's values in another data type.

Rounding and saturation are those of Direct3D's conversions; DirectML's own page does not state them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.operators import exact
from support.operators.checks import OperatorTests, check_level
from support.operators.harness import (
    FLOATS,
    INF,
    INTEGERS,
    NAN,
    Case,
    add_node,
    array,
    case,
    parse_levels,
    refused,
    run,
)
from support.problems import expect

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName

EVERY = (*FLOATS, "float64", *INTEGERS)


def cast(why: str, of: str, to: str, numbers: Any, gives: Any) -> Case:
    return case(f"{why}, to {to}", [numbers], gives, of, to, dtype=to)


def float_to_integer(of: str, to: str) -> Case:
    """Numbers beyond the range give the nearest bound, NaN gives zero; 40000 is in the range of some types only."""
    low, high = exact.limits(to)
    numbers = [-INF, -40000.0, -1.0, NAN, -0.0, 40000.0, INF]
    gives = [low, max(low, -40000), max(low, -1), 0, 0, min(high, 40000), high]
    return cast("saturates", of, to, numbers, gives)


class TestCast(OperatorTests):
    operator = "cast"
    levels = "1.0: 4D F32 F16 I16 I8 U16 U8 | 3.0: 4D ALL10 | 3.1: 1-8D ALL10 | 4.1: 1-8D ALL11"
    sample = cast("two dimensions", "float32", "int16", [[1.5, 2, 3], [-4.5, 5, 6]], [[1, 2, 3], [-4, 5, 6]])
    cases = (
        *(cast("every pair of types", of, to, [0, 1, 100], [0, 1, 100]) for of in EVERY for to in EVERY),
        *(
            cast("cuts the fraction", of, to, [0.99, 1.5, 2.5, 100.75], [0, 1, 2, 100])
            for of in (*FLOATS, "float64")
            for to in INTEGERS
        ),
        *(float_to_integer(of, to) for of in (*FLOATS, "float64") for to in INTEGERS),
        cast("cuts toward zero", "float32", "int8", [-0.99, -1.5, -127.9, -128.9], [0, -1, -127, -128]),
        cast(
            "the ends of the range",
            "float32",
            "int32",
            [2147483520.0, 2147483648.0, -2147483648.0, -2147483904.0],
            [2147483520, 2**31 - 1, -(2**31), -(2**31)],
        ),
        cast(
            "the ends of the range", "float32", "uint32", [4294967040.0, 4294967296.0, -0.5], [4294967040, 2**32 - 1, 0]
        ),
        cast(
            "the ends of the range",
            "float64",
            "int64",
            [2.0**63 - 1024, 2.0**63, -(2.0**63)],
            [2**63 - 1024, 2**63 - 1, -(2**63)],
        ),
        cast(
            "the ends of the range",
            "float64",
            "uint64",
            [2.0**64 - 2048, 2.0**64, 1e300],
            [2**64 - 2048, 2**64 - 1, 2**64 - 1],
        ),
        cast("keeps the low bits", "int32", "uint16", [65536, 131071, -1, 65836], [0, 65535, 65535, 300]),
        cast(
            "8 bits saturate, seen as unsigned", "int32", "uint8", [254, 256, 511, -1, -300], [254, 255, 255, 255, 255]
        ),
        cast("8 bits saturate", "int16", "int8", [127, 128, 256, -128, -129], [127, 127, 127, -128, -128]),
        cast("from 8 bits to 16 too", "int8", "uint16", [127, -1, -128], [127, 65535, 65535]),
        cast("keeps the low bits", "int64", "int32", [2**31, 2**32 + 5, -(2**31) - 1], [-(2**31), 5, 2**31 - 1]),
        cast("extends the sign", "int8", "int64", [-1, -128], [-1, -128]),
        cast("extends the sign, then the same bits", "int8", "uint32", [-1, -128], [2**32 - 1, 2**32 - 128]),
        cast("extends with zeros", "uint8", "int16", [255, 128], [255, 128]),
        cast(
            "rounds to nearest even",
            "float32",
            "float16",
            [2049, 2051, 0.1, 65519, 65520, 1e-8],
            [2048, 2052, exact.rounded(exact.values([0.1], "float32")[0], "float16"), 65504, INF, 0],
        ),
        cast(
            "rounds to nearest even",
            "float64",
            "float32",
            [2.0**24 + 1, 2.0**24 + 3, 1e39, -1e39],
            [2.0**24, 2.0**24 + 4, INF, -INF],
        ),
        # float32 would round it to the tie 1 + 2^-11, and that to 1.
        cast("rounds once", "float64", "float16", [1 + 2.0**-11 + 2.0**-40], [1 + 2.0**-10]),
        cast(
            "rounds to nearest even", "int32", "float32", [2**24 + 1, 2**24 + 3, -(2**31)], [2**24, 2**24 + 4, -(2**31)]
        ),
        cast("rounds to nearest even", "int64", "float64", [2**53 + 1, 2**53 + 3], [2**53, 2**53 + 4]),
        cast("rounds once", "uint64", "float32", [2**64 - 1, 2**40 + 2**16 + 1], [2.0**64, 2**40 + 2**17]),
        cast("rounds to nearest even", "int32", "float16", [2049, 65519, 65520, -70000], [2048, 65504, INF, -INF]),
        cast(
            "special values", "float16", "float32", [NAN, INF, -INF, -0.0, 2.0**-24], [NAN, INF, -INF, -0.0, 2.0**-24]
        ),
        cast("special values", "float32", "float16", [NAN, INF, -INF, -0.0], [NAN, INF, -INF, -0.0]),
        cast("no truth values: 2 stays 2", "uint8", "int32", [0, 1, 2], [0, 1, 2]),
    )

    def node_at(self, graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
        add_node(graph, "cast", [graph.input("x", sizes=[1] * rank, dtype=dtype)], dtype="float32")

    @pytest.mark.parametrize("level", dg.FeatureLevel, ids=str)
    def test_levels_of_the_output(self, level: dg.FeatureLevel) -> None:
        def node_at(graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
            add_node(graph, "cast", [graph.input("x", sizes=[1] * rank, dtype="float32")], dtype=dtype)

        check_level(parse_levels(self.levels), level, node_at)

    def test_what_to_cast_to_must_be_given(self) -> None:
        error = refused("cast", self.sample.inputs)
        expect(error, "undetermined", node="node", field="output.dtype")

    def test_what_to_cast_to_is_a_data_type(self) -> None:
        error = refused("cast", self.sample.inputs, dtype="flot16")
        assert (error.field, error.got, error.hint) == ("output.dtype", "flot16", "did you mean 'float16'?")

    def test_dtype_may_be_numpys_or_the_outputs(self) -> None:
        for asked in ({"dtype": np.int16}, {"dtype": dg.DataType.INT16}, {"output": {"dtype": "int16"}}):
            assert run("cast", self.sample.inputs, **asked).dtype == np.int16

    def test_sizes_of_the_output_are_those_of_the_input(self) -> None:
        error = refused("cast", self.sample.inputs, output={"dtype": "int8", "sizes": [3, 2]})
        assert (error.field, error.got, error.allowed) == ("output.sizes", "[3, 2]", "[2, 3]")


@given(st.data(), st.sampled_from(INTEGERS), st.sampled_from(INTEGERS))
def test_integers_keep_their_low_bits_but_8_bits_saturate(data: st.DataObject, of: str, to: str) -> None:
    number = data.draw(st.integers(*exact.limits(of)))
    expected = exact.wrap(number, to)
    if of != to and (to.endswith("t8") or (of.endswith("t8") and to.endswith("t16"))):
        low, high = exact.limits(to)
        expected = min(max(exact.wrap(number, "uint32" if to.startswith("u") else "int32"), low), high)
    assert int(run("cast", [array([number], of)], dtype=to)[0]) == expected


@given(st.floats(width=32, allow_nan=False), st.sampled_from(INTEGERS))
def test_floats_are_cut_and_saturate(number: float, to: str) -> None:
    low, high = exact.limits(to)
    expected = min(max(number, low), high)
    assert int(run("cast", [array([number], "float32")], dtype=to)[0]) == int(expected)
