"""ARGMIN and ARGMAX: the index of the least or greatest element within the reduced axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.operators import exact
from support.operators.families import ShapedTests
from support.operators.harness import FLOATS, INF, INTEGERS, NAN, Case, add_node, array, case, refused, run, values
from support.operators.onnx_model import evaluate

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName

DIRECTIONS = ("increasing", "decreasing")


def at(why: str, x: Any, gives: Any, dtype: str = "float32", **fields: Any) -> Case:
    return case(why, [x], array(gives, "uint32"), dtype, **fields)


class ArgTests(ShapedTests):
    """The checks of both; `onnx` is ONNX's operator."""

    onnx: str

    def at_rank(self, rank: int) -> tuple[list[list[int]], dict[str, Any]]:
        return [[1] * (rank - 1) + [2]], {"axes": [rank - 1], "axis_direction": "increasing"}

    @pytest.mark.parametrize("direction", DIRECTIONS)
    @pytest.mark.parametrize("axis", [0, 1, 2])
    def test_agrees_with_onnx(self, axis: int, direction: str, device: DeviceName) -> None:
        x = values(np.random.default_rng(0), [3, 9, 4], "float32")
        got = run(self.operator, [x], device=device, axes=[axis], axis_direction=direction)
        last = int(direction == "decreasing")
        np.testing.assert_array_equal(got, evaluate(self.onnx, [x], axis=axis, select_last_index=last)[0])

    @pytest.mark.parametrize("dtype", ["uint32", "uint64", "int32", "int64"])
    def test_types_of_the_output(self, dtype: str, device: DeviceName) -> None:
        got = run(self.operator, [array([[3, 1, 2], [2, 9, 9]], "int16")], device=device, axes=[1],
                  axis_direction="increasing", dtype=dtype)  # fmt: skip
        assert got.dtype == dtype
        assert got.tolist() == ([[1], [0]] if self.operator == "argmin" else [[0], [1]])

    def test_other_types_of_the_output_are_refused(self) -> None:
        for dtype in ("int16", "float32"):
            error = refused(self.operator, self.sample.inputs, dtype=dtype, axes=[1], axis_direction="increasing")
            assert (error.field, error.got) == ("output.dtype", dtype)
            assert error.allowed == "uint32, int32, uint64, int64"

    def test_axes_are_the_inputs(self) -> None:
        for axes, field in (([2], "axes.0"), ([0, 0], "axes.1"), ([0, -2], "axes.1")):
            error = refused(self.operator, self.sample.inputs, axes=axes, axis_direction="increasing")
            assert error.field == field

    def test_directions(self) -> None:
        error = refused(self.operator, self.sample.inputs, axes=[1], axis_direction="up")
        assert (error.field, error.allowed) == ("axis_direction", "increasing, decreasing")

    def test_order_of_axes_does_not_matter(self, device: DeviceName) -> None:
        x = values(np.random.default_rng(0), [3, 4], "int32")
        fields: dict[str, Any] = {"axis_direction": "increasing"}
        got = run(self.operator, [x], device=device, axes=[1, 0], **fields)
        np.testing.assert_array_equal(got, run(self.operator, [x], axes=[0, 1], **fields))

    @pytest.mark.parametrize("level", dg.FeatureLevel, ids=str)
    def test_levels_of_the_output(self, level: dg.FeatureLevel) -> None:
        if level >= dg.FeatureLevel.parse("3.0"):
            graph = dg.Graph("test", target=level)
            x = graph.input("x", sizes=[2], dtype="float32")
            add_node(graph, self.operator, [x], axes=[0], axis_direction="increasing", dtype="int64")


class TestArgmin(ArgTests):
    operator = "argmin"
    onnx = "ArgMin"
    levels = "3.0: 1-8D ALL8 | 4.1: 1-8D ALL10"
    sample = at("each row", [[3, 1, 2], [4, 6, 5]], [[1], [0]], axes=[1], axis_direction="increasing")
    cases = (
        sample,
        *(at("the least", [4, 2, 3, 9], [1], dtype, axes=[0], axis_direction="increasing")
          for dtype in FLOATS + INTEGERS),
        *(
            at("the lower bound", [0, exact.limits(dtype)[1], exact.limits(dtype)[0]],
               [2 if dtype.startswith("i") else 0], dtype, axes=[0], axis_direction="increasing")
            for dtype in INTEGERS
        ),
        at("the first of several", [2, 1, 1, 3, 1], [1], axes=[0], axis_direction="increasing"),
        at("the last of several", [2, 1, 1, 3, 1], [4], axes=[0], axis_direction="decreasing"),
        at("row-major inside two axes", [[5, 4, 6], [7, 3, 8]], [[4]], axes=[0, 1], axis_direction="increasing"),
        at("−infinity", [1, -INF, 0], [1], axes=[0], axis_direction="increasing"),
        # Measured.
        *(at("NaN is passed over", [[3, NAN, 1, NAN]], [[2]], dtype, axes=[1], axis_direction=each)
          for dtype in FLOATS for each in DIRECTIONS),
        *(at("unless it is first", [[NAN, 3, 1]], [[0]], dtype, axes=[1], axis_direction=each)
          for dtype in FLOATS for each in DIRECTIONS),
    )  # fmt: skip


class TestArgmax(ArgTests):
    operator = "argmax"
    onnx = "ArgMax"
    levels = "3.0: 1-8D ALL8 | 4.1: 1-8D ALL10"
    sample = at("each row", [[3, 1, 2], [4, 6, 5]], [[0], [1]], axes=[1], axis_direction="increasing")
    cases = (
        sample,
        # The documentation's example.
        at("row-major inside both axes", [[1, 2, 3], [3, 0, 4], [2, 5, 2]], [[7]], axes=[0, 1],
           axis_direction="increasing"),
        *(at("the greatest", [4, 2, 9, 3], [2], dtype, axes=[0], axis_direction="increasing")
          for dtype in FLOATS + INTEGERS),
        *(
            at("the upper bound", [0, exact.limits(dtype)[0], exact.limits(dtype)[1]], [2], dtype, axes=[0],
               axis_direction="increasing")
            for dtype in INTEGERS
        ),
        at("64-bit integers that float64 rounds together", [2**62, 2**62 + 1], [1], "int64", axes=[0],
           axis_direction="increasing"),
        at("the first of several", [2, 7, 1, 7, 1], [1], axes=[0], axis_direction="increasing"),
        at("the last of several", [2, 7, 1, 7, 1], [3], axes=[0], axis_direction="decreasing"),
        at("both zeros are equal", [-0.0, 0.0], [0], axes=[0], axis_direction="increasing"),
        at("infinity", [1, INF, 0], [1], axes=[0], axis_direction="increasing"),
        # Measured.
        *(at("NaN is passed over", [[1, NAN, 3, NAN]], [[2]], dtype, axes=[1], axis_direction=each)
          for dtype in FLOATS for each in DIRECTIONS),
        *(at("unless it is first", [[NAN, 3, 1]], [[0]], dtype, axes=[1], axis_direction=each)
          for dtype in FLOATS for each in DIRECTIONS),
    )  # fmt: skip
