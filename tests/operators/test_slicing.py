"""SLICE, SLICE1 and SLICE_GRAD: elements of a window at regular steps, and the gradient."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from support.operators import exact
from support.operators.families import ShapedTests
from support.operators.harness import FLOATS, INTEGERS, array, bits_of, case, each_dtype, refused, run, values
from support.operators.onnx_model import evaluate
from support.problems import expect

from dmlgraph.devices.names import DeviceName

EVERY = (*FLOATS, *INTEGERS, "float64")
GRID = [[0, 1, 2, 3, 4, 5], [10, 11, 12, 13, 14, 15], [20, 21, 22, 23, 24, 25]]


def window(offsets: list[int], sizes: list[int], strides: list[int]) -> dict[str, Any]:
    return {"input_window_offsets": offsets, "input_window_sizes": sizes, "input_window_strides": strides}


class TestSlice(ShapedTests):
    operator = "slice"
    levels = "1.0: 4-5D F32 F16 I32 I16 U32 U16 | 2.1: 4-5D ALL8 | 3.0: 1-8D ALL8 | 4.1: 1-8D ALL11"
    sample = case("steps in both dimensions", [GRID], [[1, 4], [21, 24]], offsets=[0, 1], sizes=[2, 2], strides=[2, 3])
    cases = (
        sample,
        *each_dtype(EVERY, "every second", [[1, 2, 3, 4, 5]], [2, 4], offsets=[1], sizes=[2], strides=[2]),
        case("all of it", [GRID], GRID, offsets=[0, 0], sizes=[3, 6], strides=[1, 1]),
        case("up to the last element", [[1, 2, 3, 4, 5]], [1, 3, 5], offsets=[0], sizes=[3], strides=[2]),
        case("one element, however far the next", [[1, 2, 3]], [3], offsets=[2], sizes=[1], strides=[9]),
        case("three dimensions", [[GRID]], [[[14]]], offsets=[0, 1, 4], sizes=[1, 1, 1], strides=[1, 1, 1]),
    )

    def at_rank(self, rank: int) -> tuple[list[list[int]], dict[str, Any]]:
        return [[1] * rank], {"offsets": [0] * rank, "sizes": [1] * rank, "strides": [1] * rank}

    def test_copies_bits(self, device: DeviceName) -> None:
        x = exact.from_bits("float32", 0x7FC00001, 0x80000000, 0xFFC12345)
        got = run("slice", [x], device=device, offsets=[0], sizes=[2], strides=[2])
        np.testing.assert_array_equal(bits_of(got), [0x7FC00001, 0xFFC12345])

    def test_may_not_reach_beyond_the_input(self) -> None:
        error = refused("slice", [array(GRID, "float32")], offsets=[0, 1], sizes=[3, 3], strides=[1, 3])
        assert (error.field, error.got, error.allowed) == ("offsets.1", "elements 1 to 7", "0 to 5")

    def test_strides_are_positive(self) -> None:
        error = refused("slice", [array([1, 2], "float32")], offsets=[0], sizes=[2], strides=[0])
        assert (error.field, error.got) == ("strides.0", 0)

    def test_sizes_are_positive(self) -> None:
        error = refused("slice", [array([1, 2], "float32")], offsets=[0], sizes=[0], strides=[1])
        assert (error.field, error.got) == ("sizes.0", 0)

    def test_lists_have_an_entry_for_each_dimension(self) -> None:
        error = refused("slice", [array(GRID, "float32")], offsets=[0], sizes=[1], strides=[1])
        assert (error.field, error.got, error.allowed) == ("offsets", [0], "2 entries, or one number for all")
        error = refused("slice", [array(GRID, "float32")], offsets=[0, 0], sizes=[1], strides=[1, 1])
        assert (error.field, error.got, error.allowed) == ("sizes", [1], "2 entries, or one number for all")


class TestSlice1(ShapedTests):
    operator = "slice1"
    levels = "2.1: 4-5D ALL8 | 3.0: 1-8D ALL8 | 4.1: 1-8D ALL11"
    sample = case("forwards and backwards", [GRID], [[24, 22], [14, 12], [4, 2]], **window([0, 1], [3, 4], [-1, -2]))
    cases = (
        sample,
        *each_dtype(EVERY, "backwards from the window's end", [[1, 2, 3, 4, 5]], [4, 2], **window([1], [3], [-2])),
        *each_dtype(EVERY, "forwards from its start", [[1, 2, 3, 4, 5]], [2, 4], **window([1], [3], [2])),
        case("a step beyond the window takes one", [[1, 2, 3, 4]], [2], **window([1], [3], [3])),
        case("backwards too", [[1, 2, 3, 4]], [4], **window([1], [3], [-3])),
        case("fewer than the window holds", [[1, 2, 3, 4, 5]], [1, 3], output={"sizes": [2]}, **window([0], [5], [2])),
        case("fewer, backwards", [[1, 2, 3, 4, 5]], [5, 3], output={"sizes": [2]}, **window([0], [5], [-2])),
    )

    def at_rank(self, rank: int) -> tuple[list[list[int]], dict[str, Any]]:
        return [[1] * rank], window([0] * rank, [1] * rank, [1] * rank)

    @pytest.mark.parametrize(("offset", "size", "stride"), [(0, 7, 2), (1, 5, 3), (2, 4, -1), (0, 7, -3), (6, 1, -5)])
    def test_agrees_with_onnx(self, offset: int, size: int, stride: int, device: DeviceName) -> None:
        x = values(np.random.default_rng(0), [2, 7], "float32")
        start, end = (offset, offset + size) if stride > 0 else (offset + size - 1, offset - 1)
        end = end if end >= 0 else -8  # ONNX counts negative ends from the end
        bounds = [np.array([each], np.int64) for each in (start, end, 1, stride)]
        got = run("slice1", [x], device=device, **window([0, offset], [2, size], [1, stride]))
        np.testing.assert_array_equal(got, evaluate("Slice", [x, *bounds])[0])

    def test_window_lies_in_the_input(self) -> None:
        error = refused("slice1", [array(GRID, "float32")], **window([0, 3], [3, 4], [1, 1]))
        assert (error.field, error.allowed) == ("input_window_sizes.1", "together at most 6")
        assert error.got == "offset 3 and size 4"

    def test_output_is_no_larger_than_the_strides_reach(self) -> None:
        x = array(GRID, "float32")
        error = refused("slice1", [x], output={"sizes": [3, 4]}, **window([0, 0], [3, 6], [1, 2]))
        assert (error.field, error.got, error.allowed) == ("output.sizes.1", 4, "1 to 3")

    def test_strides_are_not_zero(self) -> None:
        error = refused("slice1", [array(GRID, "float32")], **window([0, 0], [3, 6], [1, 0]))
        assert (error.field, error.got) == ("input_window_strides.1", 0)

    def test_window_is_not_empty(self) -> None:
        error = refused("slice1", [array(GRID, "float32")], **window([0, 0], [0, 6], [1, 1]))
        assert (error.field, error.got) == ("input_window_sizes.0", 0)

    def test_output_has_the_inputs_number_of_dimensions(self) -> None:
        x = array(GRID, "float32")
        error = refused("slice1", [x], output={"sizes": [3]}, **window([0, 0], [3, 6], [1, 1]))
        expect(error, "rank", node="node", field="output", got="float32 [3]")


class TestSliceGrad(ShapedTests):
    operator = "slice_grad"
    levels = "3.0: 4-5D ALL8 | 3.1: 1-8D ALL8 | 4.1: 1-8D ALL11"
    sample = case(
        "rows forwards, columns backwards",
        [[[1, 2], [3, 4]]],
        [[0, 2, 0, 1, 0], [0, 0, 0, 0, 0], [0, 4, 0, 3, 0]],
        sizes=[3, 5],
        **window([0, 1], [3, 3], [2, -2]),
    )
    cases = (
        sample,
        *each_dtype(EVERY, "every second", [[1, 2]], [0, 1, 0, 2, 0], sizes=[5], **window([1], [3], [2])),
        *each_dtype(EVERY, "backwards", [[1, 2, 3]], [0, 3, 2, 1], sizes=[4], **window([1], [3], [-1])),
        case("fewer than the window holds", [[1]], [0, 0, 1], sizes=[3], **window([0], [3], [-1])),
    )

    def at_rank(self, rank: int) -> tuple[list[list[int]], dict[str, Any]]:
        return [[1] * rank], {"sizes": [1] * rank, **window([0] * rank, [1] * rank, [1] * rank)}

    @pytest.mark.parametrize("stride", [1, 2, 3, -1, -2])
    def test_is_the_transpose_of_slice1(self, stride: int, device: DeviceName) -> None:
        """⟨slice1(x), dy⟩ = ⟨x, slice_grad(dy)⟩ for every pair of unit tensors x and dy."""
        where = window([1], [5], [stride])
        reached = len(range(0, 5, abs(stride)))
        for at, of in itertools.product(range(7), range(reached)):
            x, dy = np.zeros(7, np.float32), np.zeros(reached, np.float32)
            x[at] = dy[of] = 1
            assert run("slice1", [x], **where) @ dy == run("slice_grad", [dy], sizes=[7], **where) @ x
        dy = np.arange(1, reached + 1, dtype=np.float32)
        got = run("slice_grad", [dy], device=device, sizes=[7], **where)
        np.testing.assert_array_equal(run("slice1", [got], **where), dy)

    def test_sizes_must_be_given(self) -> None:
        error = refused("slice_grad", [array([1], "float32")], **window([0], [1], [1]))
        expect(error, "undetermined", node="node", field="output_gradient.sizes")

    def test_window_lies_in_the_output(self) -> None:
        error = refused("slice_grad", [array([1, 2], "float32")], sizes=[3], **window([2], [2], [1]))
        assert (error.field, error.allowed) == ("input_window_sizes.0", "together at most 3")

    def test_input_is_no_larger_than_the_strides_reach(self) -> None:
        error = refused("slice_grad", [array([1, 2, 3], "float32")], sizes=[4], **window([0], [4], [2]))
        assert (error.field, error.got, error.allowed) == ("input_gradient.sizes.0", 3, "1 to 2")
