"""ELEMENT_WISE_IDENTITY: a copy; with scale and bias, x · scale + bias."""

from __future__ import annotations

import numpy as np
import pytest
from support.operators import exact
from support.operators.checks import ScaledTests
from support.operators.harness import FLOATS, INF, INTEGERS, NAN, array, bits_of, case, each_dtype, refused, run

from dmlgraph.devices.names import DeviceName


class TestIdentity(ScaledTests):
    operator = "identity"
    levels = "1.0: 4-5D F32 F16 | 2.1: 4-5D ALL8 | 3.0: 1-8D ALL8 | 4.1: 1-8D ALL11"
    sample = case("two dimensions", [[[1, 2, 3], [4, 5, 6]]], [[1, 2, 3], [4, 5, 6]])
    scaled = case("2x − 1", [[0.5, 3, -4, INF]], [0.0, 5, -9, INF])
    cases = (
        *each_dtype((*FLOATS, *INTEGERS, "float64"), "a copy", [[0, 1, 127]], [0, 1, 127]),
        *each_dtype((*FLOATS, "float64"), "special values", [[NAN, INF, -INF, -0.0]], [NAN, INF, -INF, -0.0]),
        *(case("extremes", [[*exact.limits(dtype)]], [*exact.limits(dtype)], dtype) for dtype in INTEGERS),
        case(
            "float16 is scaled in float32", [[65504.0]], [32752.0], "float16", scale_bias={"scale": 4, "bias": -229264}
        ),
        case(
            "integers are scaled as floats, then cut",
            [[1, -3, 50, 40]],
            [1, -10, 127, 114],
            "int8",
            scale_bias={"scale": 2.9, "bias": -1.9},
        ),
        case("8 bits saturate", [[1, 2, -1]], [127, 127, -128], "int8", scale_bias={"scale": 300}),
        case("16 bits keep the low ones", [[1, 100]], [1000, 100000 - 65536 * 2], "int16", scale_bias={"scale": 1000}),
        case("32 bits saturate", [[2**30, -1]], [2**31 - 1, -4], "int32", scale_bias={"scale": 4}),
        case("scale alone", [[1, -3]], [0.25, -0.75], scale_bias={"scale": 0.25}),
        case("bias alone", [[1, -3]], [11, 7], scale_bias={"bias": 10}),
        # (1 + 2^-23)² needs 47 bits: it is rounded to 1 + 2^-22 before the bias cancels 1.
        case(
            "product and sum round each",
            [[1 + 2.0**-23]],
            [0.0],
            scale_bias={"scale": 1 + 2.0**-23, "bias": -(1 + 2.0**-22)},
        ),
    )

    @pytest.mark.parametrize("dtype", ["int32", "int64", "uint64", "float64", "float32"])
    def test_a_scale_of_1_and_a_bias_of_0_are_none(self, dtype: str, device: DeviceName) -> None:
        """They cause no rounding to float32, no −0.0 + 0.0, and no refusal."""
        x = array([2**24 + 1, 3] if "int" in dtype else [-0.0, 3], dtype)
        got = run("identity", [x], device=device, scale_bias={"scale": 1, "bias": 0})
        np.testing.assert_array_equal(bits_of(got), bits_of(x))

    def test_64_bit_types_take_no_scale_and_bias(self) -> None:
        for dtype in ("int64", "uint64", "float64"):
            error = refused("identity", [array([1, 2], dtype)], scale_bias={"scale": 2})
            assert (error.field, error.got, error.allowed) == ("scale_bias", dtype, "types of at most 32 bits")

    def test_copies_bits(self, device: DeviceName) -> None:
        for dtype, patterns in (("float32", (0x7FC00001, 0xFFC12345, 0x80000000, 1)), ("float16", (0x7E01, 0x8000, 1))):
            x = exact.from_bits(dtype, *patterns)
            np.testing.assert_array_equal(bits_of(run("identity", [x], device=device)), list(patterns))

    def test_transposes_by_strides(self, device: DeviceName) -> None:
        x = array([[1, 2, 3], [4, 5, 6]], "int32")
        got = run("identity", [x], device=device, output={"strides": [1, 2]})
        np.testing.assert_array_equal(got, x)
