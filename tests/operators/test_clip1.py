"""ELEMENT_WISE_CLIP1: max(min, min(x, max)); the bounds are exact numbers of the tensor's type."""

from __future__ import annotations

import pytest
from support.nodes import operator_of
from support.operators import exact
from support.operators.checks import ScaledTests
from support.operators.harness import (
    FLOATS,
    INF,
    INTEGERS,
    NAN,
    SIGNED,
    assert_same,
    build,
    case,
    each_dtype,
    refused,
    run,
)
from support.problems import expect

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName


class TestClip1(ScaledTests):
    operator = "clip1"
    levels = "5.0: 1-8D ALL10"
    sample = case("two dimensions", [[[1, 2, 3], [4, 5, 6]]], [[2, 2, 3], [4, 5, 5]], min=2, max=5)
    scaled = case("2x − 1 is clipped", [[0, 2, 5]], [0, 3, 4], min=0, max=4)
    cases = (
        *each_dtype(FLOATS + INTEGERS, "into [2, 5]", [[0, 2, 3, 5, 100]], [2, 2, 3, 5, 5], min=2, max=5),
        *each_dtype(SIGNED + FLOATS, "into [−3, −1]", [[-100, -2, 0]], [-3, -2, -1], min=-3, max=-1),
        *each_dtype(FLOATS + INTEGERS, "min wins where it exceeds max", [[0, 3, 9]], [7, 7, 7], min=7, max=2),
        *each_dtype(FLOATS, "infinite bounds bind nothing", [[-INF, 3, INF]], [-INF, 3, INF], min=-INF, max=INF),
        *each_dtype(FLOATS, "±∞ become the bounds", [[-INF, INF]], [-1, 1], min=-1, max=1),
        *each_dtype(FLOATS, "NaN becomes max", [[NAN]], [1], min=-1, max=1),
        *each_dtype(FLOATS, "a bound of NaN binds nothing", [[-9, 9]], [-9, 3], min=NAN, max=3),
        *(
            case("the whole range binds nothing", [[low, 0, high]], [low, 0, high], dtype, min=low, max=high)
            for dtype in INTEGERS
            for low, high in [exact.limits(dtype)]
        ),
        *(
            case(
                "neighbours at the end of the range",
                [[high - 2, high]],
                [high - 1, high - 1],
                dtype,
                min=high - 1,
                max=high - 1,
            )
            for dtype in INTEGERS
            for high in [exact.limits(dtype)[1]]
        ),
        case("64-bit bounds are exact", [[0, 2**63]], [2**53 + 1, 2**63 - 1], "uint64", min=2**53 + 1, max=2**63 - 1),
        case(
            "integers are scaled as floats, then cut",
            [[1, -3, 40]],
            [1, -10, 100],
            "int16",
            min=-50,
            max=100,
            scale_bias={"scale": 2.9, "bias": -1.9},
        ),
        case("an unsigned −1 is the greatest", [[0, 9]], [0, 9], "uint8", min=0, max=-1),
        case(
            "bounds round once",
            [[0.0]],
            [exact.rounded(exact.Fraction(1, 10), "float16")],
            "float16",
            min=exact.Fraction(1, 10),
            max=1,
        ),
    )

    @pytest.mark.parametrize("dtype", ["int64", "uint64"])
    def test_64_bit_integers_are_not_scaled(self, dtype: str) -> None:
        error = refused("clip1", [self.sample.inputs[0].astype(dtype)], min=2, max=5, scale_bias={"scale": 2})
        assert (error.field, error.got, error.allowed) == ("scale_bias", dtype, "types of at most 32 bits")

    def test_data_type_of_the_bounds_is_that_of_the_tensor(self, device: DeviceName) -> None:
        fields = self.sample.fields
        got = run("clip1", self.sample.inputs, device=device, min_max_data_type="float32", **fields)
        assert_same(got, self.sample.gives[0])
        error = refused("clip1", self.sample.inputs, min_max_data_type="int32", **fields)
        assert (error.field, error.got, error.allowed) == ("min_max_data_type", "int32", "float32")

    def test_data_type_of_the_bounds_is_filled_in(self) -> None:
        graph, _ = build("clip1", self.sample.inputs, **self.sample.fields)
        assert operator_of(graph.node("node")).min_max_data_type is dg.DataType.FLOAT32

    @pytest.mark.parametrize("field", ["min", "max"])
    def test_bounds_fit_the_type(self, field: str) -> None:
        x = self.sample.inputs[0].astype("int8")
        for value, code in ((128, "does-not-fit"), (0.5, "does-not-fit"), ("low", "kind")):
            error = refused("clip1", [x], **{"min": 0, "max": 1, field: value})
            expect(error, code, field=field, got=value)
