"""TOP_K and TOP_K1: the greatest or least elements along an axis, and their indices."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from support.operators import exact
from support.operators.families import ShapedTests
from support.operators.harness import FLOATS, INF, INTEGERS, Case, add_node, array, case, refused, run_all, values
from support.operators.onnx_model import evaluate
from support.problems import raises

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices.names import DeviceName


def top(why: str, x: Any, values: Any, indices: Any, dtype: str = "float32", **fields: Any) -> Case:
    return case(why, [x], (array(values, dtype), array(indices, "uint32")), dtype, **fields)


SAMPLE: tuple[Any, ...] = ([[3, 9, 1, 7], [2, 8, 6, 4]], [[9, 7, 3], [8, 6, 4]], [[1, 3, 0], [1, 2, 3]])


class TopTests(ShapedTests):
    """The checks of both; `direction` is the direction that makes TOP_K1 the same as TOP_K."""

    direction: ClassVar[dict[str, str]]

    def at_rank(self, rank: int) -> tuple[list[list[int]], dict[str, Any]]:
        return [[1] * (rank - 1) + [3]], {"axis": rank - 1, "k": 2, **self.direction}

    def test_agrees_with_onnx(self, device: DeviceName) -> None:
        x = values(np.random.default_rng(0), [3, 7, 2], "float32")
        got = run_all(self.operator, [x], device=device, axis=1, k=4, **self.direction)
        expected = evaluate("TopK", [x, np.array([4], np.int64)], outputs=2, axis=1, largest=1)
        for one, other in zip(got, expected, strict=True):
            np.testing.assert_array_equal(one, other)

    def test_indices_are_uint64_if_asked_for(self, device: DeviceName) -> None:
        x = array([1, 3, 2], "int64")
        _, got = run_all(
            self.operator, [x], device=device, axis=0, k=2, output_index={"dtype": "uint64"}, **self.direction
        )
        assert got.dtype == np.uint64
        assert got.tolist() == [1, 2]

    @pytest.mark.parametrize("level", dg.FeatureLevel, ids=str)
    def test_levels_of_indices(self, level: dg.FeatureLevel) -> None:
        if level < dg.FeatureLevel.parse("2.1"):
            return

        def attempt(dtype: DataTypeName) -> None:
            x = graph.input("x", sizes=[1, 1, 1, 2], dtype="float32")
            add_node(graph, self.operator, [x], axis=3, k=1, output_index={"dtype": dtype}, **self.direction)

        graph = dg.Graph("test", target=level)
        if level >= dg.FeatureLevel.parse("5.0"):
            attempt("uint64")
        else:
            with pytest.raises(dg.OperatorError, match=r"legal from 5\.0") as caught:
                attempt("uint64")
            assert (caught.value.field, caught.value.allowed) == ("output_index.dtype", "uint32")
        graph = dg.Graph("test", target=level)
        with raises(dg.OperatorError, "level", node="node", field="output_index.dtype", got="int32"):
            attempt("int32")

    def test_k_is_of_the_axis(self) -> None:
        for k in (0, 5):
            error = refused(self.operator, self.sample.inputs, axis=1, k=k, **self.direction)
            assert (error.field, error.got, error.allowed) == ("k", k, "1 to 4")

    def test_axis_is_the_inputs(self) -> None:
        error = refused(self.operator, self.sample.inputs, axis=2, k=1, **self.direction)
        assert (error.field, error.got, error.allowed) == ("axis", 2, "-2 to 1")

    def test_outputs_have_names(self) -> None:
        graph = dg.Graph("test")
        results = add_node(
            graph, self.operator, [graph.input("x", sizes=[3], dtype="int8")], axis=0, k=1, **self.direction
        )
        assert [each.reference for each in results] == ["node.output_value", "node.output_index"]


def greatest_first(direction: dict[str, str]) -> tuple[Case, ...]:
    return (
        *(top("greatest first", [3, 1, 7, 5], [7, 5], [2, 3], dtype, axis=0, k=2, **direction)
          for dtype in (*FLOATS, *INTEGERS)),
        *(
            top("extremes", [low, high, 0], [high, 0, low], [1, 2, 0], dtype, axis=0, k=3, **direction)
            for dtype in INTEGERS
            if dtype.startswith("int")
            for low, high in [exact.limits(dtype)]
        ),
        top("equal ones by ascending index", [6, 6, 6, 6], [6, 6, 6], [0, 1, 2], axis=0, k=3, **direction),
        top("equal ones among others", [1, 5, 2, 5, 5], [5, 5, 5, 2], [1, 3, 4, 2], axis=0, k=4, **direction),
        top("all of them", [1, 2, 3], [3, 2, 1], [2, 1, 0], axis=0, k=3, **direction),
        top("infinities", [-INF, 0, INF], [INF, 0, -INF], [2, 1, 0], axis=0, k=3, **direction),
        top("both zeros are equal", [-0.0, 0.0, -0.0], [-0.0, 0.0, -0.0], [0, 1, 2], axis=0, k=3, **direction),
        top("columns", [[1, 8], [9, 2]], [[9, 8]], [[1, 0]], axis=0, k=1, **direction),
    )  # fmt: skip


class TestTopK(TopTests):
    operator = "top_k"
    direction: ClassVar = {}
    levels = "2.0: 4D F32 F16 | 2.1: 4D ALL8 | 3.1: 1-8D ALL8 | 5.0: 1-8D ALL10"
    sample = top("three of each row", *SAMPLE, axis=1, k=3)
    cases = (sample, *greatest_first({}))


class TestTopK1(TopTests):
    operator = "top_k1"
    direction: ClassVar = {"axis_direction": "decreasing"}
    levels = "2.1: 4D ALL8 | 3.1: 1-8D ALL8 | 5.0: 1-8D ALL10"
    sample = top("three of each row", *SAMPLE, axis=1, k=3, axis_direction="decreasing")
    cases = (
        sample,
        *greatest_first({"axis_direction": "decreasing"}),
        *(
            top("least first", [3, 1, 7, 5], [1, 3], [1, 0], dtype, axis=0, k=2, axis_direction="increasing")
            for dtype in (*FLOATS, *INTEGERS)
        ),
        top("equal ones by ascending index", [6, 6, 6, 6], [6, 6, 6], [0, 1, 2], axis=0, k=3,
            axis_direction="increasing"),
        top("equal ones among others", [5, 1, 2, 1], [1, 1, 2], [1, 3, 2], axis=0, k=3, axis_direction="increasing"),
    )  # fmt: skip

    def test_increasing_agrees_with_onnx(self, device: DeviceName) -> None:
        x = values(np.random.default_rng(0), [3, 7, 2], "int32")
        got = run_all("top_k1", [x], device=device, axis=1, k=4, axis_direction="increasing")
        expected = evaluate("TopK", [x, np.array([4], np.int64)], outputs=2, axis=1, largest=0)
        for one, other in zip(got, expected, strict=True):
            np.testing.assert_array_equal(one, other)
