"""ELEMENT_WISE_POW: input ^ exponent, element by element, in the input's data type."""

from __future__ import annotations

import itertools
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.operators import exact
from support.operators.checks import BroadcastTests
from support.operators.harness import (
    FLOATS,
    INF,
    NAN,
    SIGNED,
    UNSIGNED,
    add_node,
    array,
    assert_same,
    case,
    each_dtype,
    run,
)

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices.names import DeviceName

SHORT = SIGNED[:3] + UNSIGNED[:3]  # the integer types that POW accepts


def powers(dtype: str) -> Any:
    bases, exponents = (exact.values(numbers, dtype) for numbers in ([2, 3, 0.1, 10, 1.5], [0.5, -1.25, 2, 3.5, 0.001]))
    results = exact.round_all(map(exact.power, bases, exponents), dtype)
    return case("to the last bit", [[float(x) for x in bases], [float(x) for x in exponents]], results, dtype)


class TestPow(BroadcastTests):
    operator = "pow"
    ulp: ClassVar = {"directml:software": 64}  # 2^(y log2 x), the exponent rounded to float32
    levels = "1.0: 4D F32 F16 | 3.0: 1-8D ALL8"
    sample = case("two dimensions", [[[1, 2, 3], [4, 5, 6]], [[3, 3, 2], [2, 1, 0]]], [[1, 8, 9], [16, 5, 1]])
    cases = (
        *each_dtype(FLOATS + SHORT, "whole powers", [[2, 3, 10, 5], [3, 4, 2, 0]], [8, 81, 100, 1]),
        *each_dtype(SHORT, "the power of zero with exponent zero is one for integers", [[0], [0]], [1]),
        *map(powers, FLOATS),
        *each_dtype(
            FLOATS, "a negative base wants a whole exponent", [[-2, -2, -2, -8], [2, 3, 0.5, 1 / 3]], [4, -8, NAN, NAN]
        ),
        *each_dtype(FLOATS, "zero", [[0.0, 0.0, -0.0, 0.0], [-1, 2, -3, 0]], [INF, 0.0, INF, NAN]),
        *each_dtype(FLOATS, "2^(y log2 x) has no value", [[NAN, INF, 1], [0, 0, NAN]], [NAN, NAN, NAN]),
        *(case("1/0 is the greatest number", [[0], [-1]], [exact.limits(dtype)[1]], dtype) for dtype in SIGNED[:3]),
        *each_dtype(FLOATS, "infinities", [[INF, INF, 2, 0.5, 2], [-1, 2, INF, INF, -INF]], [0.0, INF, INF, 0.0, 0.0]),
        *each_dtype(FLOATS, "NaN", [[NAN, 2], [2, NAN]], [NAN, NAN]),
        *each_dtype(SIGNED[:3], "signs of whole powers", [[-2, -2, -1, -1], [3, 2, 5, 6]], [-8, 4, -1, 1]),
        *each_dtype(
            SIGNED[:3], "1/x is cut to zero but for ±1", [[1, -1, -1, 2, -3], [-1, -1, -2, -1, -2]], [1, -1, 1, 0, 0]
        ),
        case("8 bits saturate", [[3, 2, 255, 16, 3], [6, 8, 2, 2, 5]], [255, 255, 255, 255, 243], "uint8"),
        case("8 bits saturate", [[3, 2, -2, -3], [6, 7, 7, 5]], [127, 127, -128, -128], "int8"),
        case("16 bits keep the low ones", [[3, 100], [11, 3]], [3**11 % 2**16, 10**6 % 2**16], "uint16"),
        case("wraps modulo 2^32", [[3, 2, 65537], [21, 32, 2]], [3**21 % 2**32, 0, 131073], "uint32"),
        case("wraps modulo 2^32", [[3], [20]], [exact.wrap(3**20, "int32")], "int32"),
        case("overflows to infinity", [[2, 2, 10], [15, 16, 5]], [32768, INF, INF], "float16"),
        case(
            "the exponent may be an integer",
            [array([1.5, -2, 4], "float32"), array([2, 3, -1], "int8")],
            [2.25, -8, 0.25],
        ),
        case(
            "the exponent may be a float: the power is cut",
            [array([2, 9, 10], "int32"), array([0.5, 0.5, -1], "float32")],
            [1, 3, 0],
            to="int32",
        ),
        case(
            "the power of an integer saturates where it is a float",
            [array([100, 3], "uint8"), array([1.5, 2], "float16")],
            [255, 9],
            to="uint8",
        ),
        case(
            "scale and bias come first, for the exponent too",
            [[1, 2, 3], [2, 3, 0]],
            [1, 243, exact.rounded(exact.Fraction(1, 5), "float32")],
            scale_bias={"scale": 2, "bias": -1},
        ),
        case("4099 − 3 is rounded: an even exponent", [[1], [4099]], [INF], "float16", scale_bias={"bias": -3}),
        case(
            "16 bits saturate after the bias",
            [[32000, 7], [-999, -998]],
            [32767, exact.wrap(1007**2, "int16")],
            "int16",
            scale_bias={"bias": 1000},
        ),
        case("0 to a negative power is the greatest", [[3], [1]], [32767], "int16", scale_bias={"bias": -3}),
        case("8 bits do not saturate", [[-101], [100]], [1], "int8", scale_bias={"bias": 100}),  # (−1)^200, not ^127
        *(
            case(
                f"by an exponent of 8 bits {of} saturates",
                [array([300, 181, 3], of), array([2, 2, 5], "uint8")],
                [exact.limits(of)[1], 32761, 243],
                to=of,
            )
            for of in ("int16", "uint16")
        ),
        case(
            "beside 8 bits, a float16 is scaled in float32",
            [array([1], "float16"), array([0], "int8")],
            [1],
            to="float16",
            scale_bias={"scale": 1e6},
        ),
    )

    def node_at(self, graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
        x = graph.input("x", sizes=[1] * rank, dtype=dtype)
        add_node(graph, "pow", [x, x])

    @pytest.mark.parametrize("level", ["1.0", "2.1"])
    def test_below_3_0_the_exponent_has_the_inputs_data_type(self, level: str) -> None:
        def at(level: str) -> None:
            graph = dg.Graph("test", target=level)
            x = graph.input("x", sizes=[1, 1, 1, 2], dtype="float32")
            e = graph.input("e", sizes=[1, 1, 1, 2], dtype="float16")
            add_node(graph, "pow", [x, e])

        with pytest.raises(dg.OperatorError) as caught:
            at(level)
        error = caught.value
        assert (error.node, error.field, error.got, error.allowed) == ("node", "exponent.dtype", "float16", "float32")
        assert "others are legal from 3.0" in str(error)
        at("3.0")

    def test_a_number_is_an_exponent_of_the_inputs_data_type(self, device: DeviceName) -> None:
        assert_same(run("pow", [array([1, 2, 3], "int32"), 3], device=device), array([1, 8, 27], "int32"))


@given(st.data(), st.sampled_from(SHORT))
def test_integer_powers_are_exact_modulo_2_to_the_32(data: st.DataObject, dtype: str) -> None:
    low, high = exact.limits(dtype)
    base = data.draw(st.integers(low, high))
    exponent = data.draw(st.integers(0, 127))
    got = run("pow", [np.array([base], dtype), np.array([exponent], dtype)])
    wide = exact.wrap(base**exponent, "uint32" if dtype.startswith("u") else "int32")
    assert int(got[0]) == (min(max(wide, low), high) if dtype.endswith("t8") else exact.wrap(wide, dtype))


@pytest.mark.parametrize("scaled", [False, True])
def test_mixed_types_agree(scaled: bool, device: DeviceName) -> None:
    """Every pair of types, with random numbers, scales and biases: the same bits if both are integers."""
    rng = np.random.default_rng(11)
    for base, exponent in itertools.product((*SHORT, *FLOATS), repeat=2):
        x, y = some_numbers(rng, base), some_numbers(rng, exponent)
        scale = float(rng.choice([1, 0.5, -1, 2, 300])) if scaled else 1.0
        fields: dict[str, Any] = (
            {"scale_bias": {"scale": scale, "bias": float(rng.choice([0, -3, 0.75, 40]))}} if scaled else {}
        )
        expected, got = run("pow", [x, y], **fields), run("pow", [x, y], device=device, **fields)
        if base in SHORT and exponent in SHORT:
            np.testing.assert_array_equal(got, expected, err_msg=f"{x} ^ {y}, {fields}")
            continue
        small = np.abs(expected.astype(np.float64)) < 60000  # float32 to the power of 8 bits overflows there
        with np.errstate(invalid="ignore"):
            difference = np.abs(got.astype(np.float64) - expected.astype(np.float64))
        near = difference <= 1 + 0.01 * np.abs(expected.astype(np.float64))
        assert (near | ~small | np.isnan(expected) & np.isnan(got)).all(), (x, y, fields, got, expected)


def some_numbers(rng: np.random.Generator, dtype: str) -> np.ndarray[Any, Any]:
    if dtype in FLOATS:
        return rng.choice([0.5, 1, 2, 3, -1, -2, 1.5], 8).astype(dtype)
    low, high = exact.limits(dtype)
    return np.clip(rng.choice([0, 1, 2, 3, 5, 9, 100, 300, -1, -3, low, high], 8), low, high).astype(dtype)
