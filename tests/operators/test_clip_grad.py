"""ELEMENT_WISE_CLIP_GRAD and ELEMENT_WISE_CLIP_GRAD1: the gradient where min < input < max, else 0."""

from __future__ import annotations

from typing import Any

import pytest
from support.nodes import operator_of
from support.operators import exact
from support.operators.checks import BroadcastTests
from support.operators.harness import (
    FLOATS,
    INF,
    INTEGERS,
    NAN,
    SIGNED,
    UNSIGNED,
    assert_same,
    build,
    case,
    each_dtype,
    operator_class,
    refused,
    run,
)
from support.problems import expect

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName


class ClipGradTests(BroadcastTests):
    sample = case(
        "two dimensions",
        [[[1, 2, 3], [4, 5, 6]], [[10, 20, 30], [40, 50, 60]]],
        [[0, 0, 30], [40, 0, 0]],
        min=2,
        max=5,
    )
    common = (
        *each_dtype(
            FLOATS + INTEGERS,
            "the bounds themselves give 0",
            [[1, 2, 3, 4, 5, 6], [10, 20, 30, 40, 50, 60]],
            [0, 0, 30, 40, 0, 0],
            min=2,
            max=5,
        ),
        *each_dtype(FLOATS + SIGNED, "below zero", [[-4, -3, -2, 0], [-1, -2, -3, 4]], [0, 0, -3, 0], min=-3, max=0),
        *each_dtype(FLOATS + INTEGERS, "0 where min exceeds max", [[1, 3, 9], [7, 7, 7]], [0, 0, 0], min=5, max=2),
        *each_dtype(FLOATS + INTEGERS, "0 where they are equal", [[1, 3, 9], [7, 7, 7]], [0, 0, 0], min=3, max=3),
        *each_dtype(FLOATS, "0 for NaN", [[NAN], [7]], [0.0], min=-1, max=1),
        *each_dtype(FLOATS, "0 for bounds of NaN", [[0, 9], [7, 7]], [0.0, 0.0], min=NAN, max=5),
        *each_dtype(FLOATS, "0 for infinities", [[INF, -INF], [7, 7]], [0.0, 0.0], min=-INF, max=INF),
        *each_dtype(
            FLOATS,
            "gradients as they are",
            [[0, 0, 0, 0], [NAN, INF, -INF, -0.0]],
            [NAN, INF, -INF, -0.0],
            min=-1,
            max=1,
        ),
        *each_dtype(
            FLOATS, "0 wherever, whatever the gradient", [[2, 2, -2], [NAN, INF, -1]], [0.0, 0.0, 0.0], min=-1, max=1
        ),
    )

    def test_unequal_sizes_are_refused_without_broadcasting(self) -> None:
        descs = [dg.TensorDesc(dtype="float32", sizes=sizes) for sizes in ([2, 3], [3, 2])]
        with pytest.raises(dg.OperatorError) as caught:
            operator_class(self.operator)(input=descs[0], input_gradient=descs[1], min=0, max=1)
        assert caught.value.problems[0].field == "input_gradient"
        expect(caught.value, "sizes", field="input_gradient", got="float32 [3,2]")

    def test_input_and_gradient_have_one_data_type(self) -> None:
        x, gradient = self.sample.inputs
        error = refused(self.operator, [x, gradient.astype("float16")], min=0, max=1)
        expect(error, "dtype", node="node", field="input_gradient", got="float16 [2,3]")


class TestClipGrad(ClipGradTests):
    operator = "clip_grad"
    levels = "3.1: 1-8D ALL8 | 5.0: 1-8D ALL10"
    cases = (
        *ClipGradTests.common,
        *each_dtype(
            SIGNED,
            "bounds are cut toward zero",
            [[-2, -1, 0, 1, 2], [1, 2, 3, 4, 5]],
            [0, 0, 3, 4, 0],
            min=-1.9,
            max=2.9,
        ),
        *each_dtype(UNSIGNED, "bounds below zero are zero", [[0, 1, 9], [1, 2, 3]], [0, 2, 0], min=-5, max=2),
        *(
            case(
                "beyond the type the bounds are its ends",
                [[low, low + 1, high - 1, high], [1, 2, 3, 4]],
                [0, 2, 3, 0],
                dtype,
                min=-1e30,
                max=1e30,
            )
            for dtype in INTEGERS
            for low, high in [exact.limits(dtype)]
        ),
        # float16 bounds are finite: ±65504.
        case(
            "its ends are bounds of float16",
            [[65504.0, 65472.0, -65504.0], [1, 2, 3]],
            [0, 2, 0],
            "float16",
            min=-INF,
            max=1e6,
        ),
        case("but not of float32", [[3e38, -3e38], [1, 2]], [1, 2], min=-INF, max=INF),
    )

    def test_bounds_are_numbers(self) -> None:
        error = refused(self.operator, self.sample.inputs, min="low", max=5)
        assert (error.field, error.got) == ("min", "low")


class TestClipGrad1(ClipGradTests):
    operator = "clip_grad1"
    levels = "5.0: 1-8D ALL10"
    cases = (
        *ClipGradTests.common,
        *(
            case(
                "the ends of the range",
                [[low, low + 1, high - 1, high], [1, 2, 3, 4]],
                [0, 2, 3, 0],
                dtype,
                min=low,
                max=high,
            )
            for dtype in INTEGERS
            for low, high in [exact.limits(dtype)]
        ),
        case(
            "64-bit bounds are exact",
            [[2**53, 2**53 + 1, 2**53 + 2], [1, 2, 3]],
            [0, 2, 0],
            "int64",
            min=2**53,
            max=2**53 + 2,
        ),
        case("infinite bounds of float16", [[65504.0, -65504.0], [1, 2]], [1, 2], "float16", min=-INF, max=INF),
    )

    def test_data_type_of_the_bounds_is_that_of_the_tensor(self, device: DeviceName) -> None:
        fields: Any = self.sample.fields
        got = run(self.operator, self.sample.inputs, device=device, min_max_data_type="float32", **fields)
        assert_same(got, self.sample.gives[0])
        error = refused(self.operator, self.sample.inputs, min_max_data_type="int32", **fields)
        assert (error.field, error.got, error.allowed) == ("min_max_data_type", "int32", "float32")
        graph, _ = build(self.operator, self.sample.inputs, **fields)
        assert operator_of(graph.node("node")).min_max_data_type is dg.DataType.FLOAT32

    @pytest.mark.parametrize("field", ["min", "max"])
    def test_bounds_fit_the_type(self, field: str) -> None:
        inputs = [x.astype("uint8") for x in self.sample.inputs]
        for value, code in ((256, "does-not-fit"), (0.5, "does-not-fit"), ("low", "kind")):
            error = refused(self.operator, inputs, **{"min": 0, "max": 1, field: value})
            expect(error, code, field=field, got=value)
