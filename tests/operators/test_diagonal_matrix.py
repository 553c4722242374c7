"""DIAGONAL_MATRIX and DIAGONAL_MATRIX1: a value on diagonals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.operators import exact
from support.operators.families import ShapedTests
from support.operators.harness import (
    FLOATS,
    INTEGERS,
    SIGNED,
    Case,
    add_node,
    array,
    assert_same,
    bits_of,
    case,
    each_dtype,
    refused,
    run,
    source_case,
)

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices.names import DeviceName

EVERY = (*FLOATS, *INTEGERS, "float64")


def diagonal(why: str, gives: Any, dtype: str = "float32", **fields: Any) -> Case:
    return source_case(why, gives, dtype, **fields)


class SourceTests(ShapedTests):
    """The operators without an input: their output is requested."""

    kinds = ""

    def node_at(self, graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
        fields = {key: value for key, value in self.sample.fields.items() if key not in ("sizes", "dtype")}
        add_node(graph, self.operator, dtype=dtype, sizes=[1] * rank, **fields)

    def test_output_must_be_asked_for(self) -> None:
        fields = {key: value for key, value in self.sample.fields.items() if key not in ("sizes", "dtype")}
        for known, missing in (({"dtype": "float32"}, "sizes"), ({"sizes": [2, 2]}, "dtype")):
            graph = dg.Graph("test")
            with pytest.raises(dg.OperatorError) as caught:
                add_node(graph, self.operator, **known, **fields)
            assert caught.value.field == f"output.{missing}"


class TestDiagonalMatrix(SourceTests):
    operator = "diagonal_matrix"
    levels = "2.0: 4D F32 F16 | 2.1: 4D ALL8 | 4.0: 2-4D ALL8 | 5.1: 2-4D ALL11"
    sample = diagonal("above the main diagonal", [[0, 7, 0], [0, 0, 7]], offset=1, value=7)
    cases = (
        sample,
        *(diagonal("the identity", [[1, 0], [0, 1]], dtype, offset=0, value=1) for dtype in EVERY),
        diagonal("below the main diagonal", [[0, 0], [0, 0], [3, 0]], offset=-2, value=3),
        diagonal("beside the matrix", [[0, 0], [0, 0]], offset=2, value=3),
        diagonal("batches", [[[2, 0], [0, 2]], [[2, 0], [0, 2]]], offset=0, value=2),
        *(diagonal("the value's fraction is cut", [[2]], dtype, offset=0, value=2.9) for dtype in INTEGERS),
        *(diagonal("toward zero", [[-2]], dtype, offset=0, value=-2.9) for dtype in SIGNED),
        diagonal("low bits of a value that does not fit", [[44]], "uint8", offset=0, value=300.5),
        diagonal("rounded to the type", [[exact.rounded(exact.values([0.1], "float32")[0], "float16")]], "float16",
                 offset=0, value=0.1),
    )  # fmt: skip

    def test_matrices_have_two_dimensions(self) -> None:
        error = refused("diagonal_matrix", [], dtype="float32", sizes=[3], offset=0, value=1)
        assert (error.field, error.got) == ("output.sizes", [3])


class TestDiagonalMatrix1(SourceTests):
    operator = "diagonal_matrix1"
    levels = "5.1: 2-4D ALL11"
    sample = diagonal("two diagonals", [[5, 5, 0], [0, 5, 5]], value=5, diagonal_fill_begin=0, diagonal_fill_end=2)
    cases = (
        sample,
        *(
            diagonal("the identity", [[1, 0], [0, 1]], dtype, value=1, diagonal_fill_begin=0, diagonal_fill_end=1)
            for dtype in EVERY
        ),
        *(
            case("over an input", [[[1, 2, 3], [4, 5, 6]]], [[1, 9, 3], [4, 5, 9]], dtype, value=9,
                 diagonal_fill_begin=1, diagonal_fill_end=2)
            for dtype in EVERY
        ),
        *each_dtype(("float32", "uint8"), "end below begin: all but those between", [[[1, 2, 3], [4, 5, 6], [7, 8, 9]]],
                    [[1, 2, 0], [4, 5, 6], [0, 8, 9]], value=0, diagonal_fill_begin=2, diagonal_fill_end=-1),
        case("end at begin: nothing", [[[1, 2], [3, 4]]], [[1, 2], [3, 4]], value=9, diagonal_fill_begin=1,
             diagonal_fill_end=1),
        diagonal("below the main diagonal", [[0, 0, 0], [4, 0, 0], [4, 4, 0]], value=4, diagonal_fill_begin=-2,
                 diagonal_fill_end=0),
        case("batches", [[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]], [[[0, 2], [3, 0]], [[0, 6], [7, 0]]], value=0,
             diagonal_fill_begin=0, diagonal_fill_end=1),
        *(
            diagonal("extremes", [[value]], dtype, value=value, diagonal_fill_begin=0, diagonal_fill_end=1)
            for dtype in INTEGERS
            for value in exact.limits(dtype)
        ),
    )  # fmt: skip

    def test_upper_and_lower_triangles_are_numpys(self, device: DeviceName) -> None:
        x = array(np.arange(1, 13).reshape(3, 4), "int32")
        for k in (-1, 0, 2):
            below = run(self.operator, [x], device=device, value=0, diagonal_fill_begin=-10, diagonal_fill_end=k)
            np.testing.assert_array_equal(below, np.triu(x, k))
            above = run(self.operator, [x], device=device, value=0, diagonal_fill_begin=k + 1, diagonal_fill_end=10)
            np.testing.assert_array_equal(above, np.tril(x, k))

    def test_value_is_kept_bit_for_bit(self, device: DeviceName) -> None:
        fields = {"value": {"bits": 0x7FC00001}, "diagonal_fill_begin": 0, "diagonal_fill_end": 1}
        got = run(self.operator, [], device=device, dtype="float32", sizes=[1, 2], **fields)
        np.testing.assert_array_equal(bits_of(got), [[0x7FC00001, 0]])

    @pytest.mark.parametrize("level", dg.FeatureLevel, ids=str)
    def test_levels_with_an_input(self, level: dg.FeatureLevel) -> None:
        if level >= dg.FeatureLevel.parse("5.1"):
            graph = dg.Graph("test", target=level)
            x = graph.input("x", sizes=[2, 2], dtype="int64")
            add_node(graph, self.operator, [x], value=1, diagonal_fill_begin=0, diagonal_fill_end=1)

    def test_output_follows_the_input(self) -> None:
        x = np.zeros([2, 2], np.float32)
        fields = {"value": 1, "diagonal_fill_begin": 0, "diagonal_fill_end": 1}
        error = refused(self.operator, [x], sizes=[3, 3], **fields)
        assert (error.field, error.got, error.allowed) == ("output.sizes", "[3, 3]", "[2, 2]")

    def test_may_be_given_no_input(self, device: DeviceName) -> None:
        fields = {"value": 1, "diagonal_fill_begin": 0, "diagonal_fill_end": 1}
        got = run(self.operator, [None], device=device, dtype="int8", sizes=[2, 2], **fields)
        assert_same(got, np.eye(2, dtype=np.int8))
