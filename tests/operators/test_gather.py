"""GATHER, GATHER_ELEMENTS, GATHER_ND and GATHER_ND1: elements at the positions in a tensor of indices."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from support.operators import exact
from support.operators.families import ShapedTests
from support.operators.harness import FLOATS, INTEGERS, Array, array, bits_of, case, refused, run, values
from support.operators.onnx_model import evaluate
from support.problems import expect

from dmlgraph.devices.names import DeviceName

EVERY = (*FLOATS, *INTEGERS, "float64")
INDEX_TYPES = ("uint32", "uint64", "int32", "int64")
GRID = [[1, 2, 3], [4, 5, 6]]
INPUT_LEVELS = "2.1: 4D ALL8 | 3.0: 1-8D ALL8 | 4.1: 1-8D ALL11"
INDEX_LEVELS = "2.1: 4D U32 | 3.0: 1-8D I64 I32 U64 U32"


def indices(numbers: Any, dtype: str = "int32") -> Array:
    return array(numbers, dtype)


def test_the_reference_reads_the_nearest_beyond_the_ends() -> None:
    """Undefined in DirectML, whose library clamps the position in the buffer instead."""
    x = array([[1, 2, 3], [4, 5, 6]], "int8")
    beyond = indices([[3, 9, -4, -9]])
    assert run("gather", [x, beyond], axis=1, index_dimensions=1).tolist() == [[3, 3, 1, 1], [6, 6, 4, 4]]
    assert run("gather_elements", [x, indices([[2, -3, 7]])], axis=0).tolist() == [[4, 2, 6]]
    assert run("gather_nd", [x, indices([[5, 1], [-7, 9]])], **counts(2, 2)).tolist() == [[5, 3]]


class GatherTests(ShapedTests):
    """The checks of all of them."""

    kinds = "xi"
    others: ClassVar = {"i": INDEX_LEVELS}

    @pytest.mark.parametrize("dtype", INDEX_TYPES)
    def test_types_of_indices(self, dtype: str, device: DeviceName) -> None:
        x, places = self.sample.inputs
        got = run(self.operator, [x, np.abs(places).astype(dtype)], device=device, **self.sample.fields)
        np.testing.assert_array_equal(got, run(self.operator, [x, np.abs(places)], **self.sample.fields))

    def test_indices_are_integers_of_32_or_64_bits(self) -> None:
        x, places = self.sample.inputs
        error = refused(self.operator, [x, places.astype("int16")], **self.sample.fields)
        assert (error.field, error.got, error.allowed) == ("indices.dtype", "int16", "uint32, int32, uint64, int64")


class TestGather(GatherTests):
    operator = "gather"
    levels = "1.0: 4D F32 F16 | 2.1: 4D ALL8 | 3.0: 1-8D ALL8 | 4.1: 1-8D ALL11"
    others: ClassVar = {"i": "1.0: 4D U32 | 3.0: 1-8D I64 I32 U64 U32"}
    sample = case(
        "rows of a matrix", [GRID, indices([[1, 0, 1]])], [[4, 5, 6], [1, 2, 3], [4, 5, 6]], axis=0, index_dimensions=1
    )
    cases = (
        sample,
        *(
            case("elements", [[10, 20, 30], indices([2, 0, 2, 1])], [30, 10, 30, 20], dtype, axis=0, index_dimensions=1)
            for dtype in EVERY
        ),
        case("columns", [GRID, indices([[2, 0]])], [[3, 1], [6, 4]], axis=1, index_dimensions=1),
        case("from the end", [GRID, indices([[-1, -3]])], [[3, 1], [6, 4]], axis=1, index_dimensions=1),
        case("a matrix of indices stands in place of the axis",
             [[[[7, 8, 9]]], indices([[[0, 1], [2, 0]]])], [[[7, 8], [9, 7]]], axis=2, index_dimensions=2),
        case("ones in front of the input are dropped", [[[[1, 2], [3, 4]]], indices([[[1, 0], [0, 1]]])],
             [[[3, 4], [1, 2]], [[1, 2], [3, 4]]], axis=1, index_dimensions=2),
        case("no dimensions: one slice", [GRID, indices([[1]])], [[4, 5, 6]], axis=0, index_dimensions=0),
    )  # fmt: skip

    def at_rank(self, rank: int) -> tuple[list[list[int]], dict[str, Any]]:
        return [[1] * rank, [1] * rank], {"axis": 0, "index_dimensions": 1}

    @pytest.mark.parametrize("axis", [0, 1, 2])
    def test_agrees_with_onnx(self, axis: int, device: DeviceName) -> None:
        x, rng = values(np.random.default_rng(0), [3, 4, 5], "float32"), np.random.default_rng(1)
        places = rng.integers(-3, 3, [6])
        got = run("gather", [x, places.reshape(1, 1, 6)], device=device, axis=axis, index_dimensions=1)
        np.testing.assert_array_equal(got, evaluate("Gather", [x, places], axis=axis)[0])

    def test_copies_bits(self, device: DeviceName) -> None:
        x = exact.from_bits("float32", 0x7FC00001, 0x80000000)
        got = run("gather", [x, indices([1, 0])], device=device, axis=0, index_dimensions=1)
        np.testing.assert_array_equal(bits_of(got), [0x80000000, 0x7FC00001])

    def test_dimensions_that_do_not_count_are_1(self) -> None:
        x = np.zeros([1, 3], np.float32)
        error = refused("gather", [x, indices([[0, 1], [1, 0]])], axis=1, index_dimensions=1)
        assert (error.field, error.got, error.allowed) == ("indices.sizes", [2, 2], "[1, 2]")

    def test_index_dimensions_are_the_indices(self) -> None:
        error = refused("gather", self.sample.inputs, axis=0, index_dimensions=3)
        assert (error.field, error.got, error.allowed) == ("index_dimensions", 3, "at most 2")

    def test_axis_is_the_inputs(self) -> None:
        error = refused("gather", self.sample.inputs, axis=2, index_dimensions=1)
        assert (error.field, error.got, error.allowed) == ("axis", 2, "-2 to 1")

    def test_output_must_have_room(self) -> None:
        error = refused("gather", [array(GRID, "int8"), indices([[0, 1], [1, 0]])], axis=1, index_dimensions=2)
        assert (error.field, error.got, error.allowed) == ("index_dimensions", [2, 2, 2], "2 dimensions")
        assert error.hint == "give all tensors more leading dimensions of size 1"

    def test_only_dimensions_before_the_axis_are_dropped(self) -> None:
        """Measured: DirectML corrupts its memory if an index dimension has to be dropped."""
        error = refused("gather", [array(GRID, "int8"), indices([[0, 1]])], axis=0, index_dimensions=2)
        assert (error.field, error.got, error.allowed) == ("index_dimensions", [1, 2, 3], "2 dimensions")


class TestGatherElements(GatherTests):
    operator = "gather_elements"
    levels = INPUT_LEVELS
    sample = case("one of each row, twice", [GRID, indices([[2, 0], [1, 1]])], [[3, 1], [5, 5]], axis=1)
    cases = (
        sample,
        *(case("elements", [[10, 20, 30], indices([2, 0, 2, 1])], [30, 10, 30, 20], dtype, axis=0) for dtype in EVERY),
        case("along the first axis", [GRID, indices([[1, 0, 1]])], [[4, 2, 6]], axis=0),
        case("from the end", [GRID, indices([[-1], [-3]])], [[3], [4]], axis=1),
    )

    def at_rank(self, rank: int) -> tuple[list[list[int]], dict[str, Any]]:
        return [[1] * rank, [1] * rank], {"axis": rank - 1}

    @pytest.mark.parametrize("axis", [0, 1, 2])
    def test_agrees_with_onnx(self, axis: int, device: DeviceName) -> None:
        x, rng = values(np.random.default_rng(0), [3, 4, 5], "float32"), np.random.default_rng(1)
        places = rng.integers(-3, 3, [7 if each == axis else size for each, size in enumerate(x.shape)])
        got = run("gather_elements", [x, places], device=device, axis=axis)
        np.testing.assert_array_equal(got, evaluate("GatherElements", [x, places], axis=axis)[0])

    def test_indices_have_the_inputs_sizes_but_for_the_axis(self) -> None:
        error = refused("gather_elements", [array(GRID, "int8"), indices([[0, 1]])], axis=1)
        assert (error.field, error.got, error.allowed) == ("indices.sizes", [1, 2], "[2, 2]")

    def test_input_and_indices_have_one_number_of_dimensions(self) -> None:
        x, places = self.sample.inputs
        error = refused(self.operator, [x[None], places], **self.sample.fields)
        expect(error, "rank", node="node", field="indices", got="int32 [2,2]")

    def test_axis_is_the_inputs(self) -> None:
        error = refused("gather_elements", self.sample.inputs, axis=2)
        assert (error.field, error.got, error.allowed) == ("axis", 2, "-2 to 1")


def counts(of_input: int, of_indices: int, **more: int) -> dict[str, Any]:
    return {"input_dimension_count": of_input, "indices_dimension_count": of_indices, **more}


class TupleTests(GatherTests):
    """The checks of gather_nd and gather_nd1."""

    more: ClassVar[dict[str, int]]

    def at_rank(self, rank: int) -> tuple[list[list[int]], dict[str, Any]]:
        return [[1] * rank, [1] * rank], counts(1, 1, **self.more)

    def refused_with(self, x: Any, places: Any, of_input: int, of_indices: int) -> Any:
        inputs = [np.zeros(x, np.float32), np.zeros(places, np.int32)]
        error = refused(self.operator, inputs, **counts(of_input, of_indices, **self.more))
        return error.field, error.got, error.allowed

    def test_counts_are_those_of_the_tensors(self) -> None:
        assert self.refused_with([2, 2], [1, 1], 3, 2) == ("input_dimension_count", 3, "at most 2")
        assert self.refused_with([2, 2], [1, 1], 2, 3) == ("indices_dimension_count", 3, "at most 2")
        assert self.refused_with([2, 2], [1, 1], 0, 1) == ("input_dimension_count", 0, "1 or more")
        assert self.refused_with([1, 1], [2, 1], 1, 0) == ("indices_dimension_count", 0, "1 or more")

    def test_dimensions_that_do_not_count_are_1(self) -> None:
        assert self.refused_with([2, 2], [1, 1], 1, 1) == ("input.sizes", [2, 2], "[1, 2]")
        assert self.refused_with([2, 2], [2, 1], 2, 1) == ("indices.sizes", [2, 1], "[1, 1]")

    def test_tuples_fit_the_input(self) -> None:
        assert self.refused_with([2, 2], [1, 3], 2, 2) == ("indices.sizes", 3, "1 to 2")

    def test_output_must_have_room(self) -> None:
        for batch in (1, 2):
            field, got, allowed = self.refused_with([batch, 3, 4], [batch, 5, 1], 3, 3)
            assert (field, got, allowed) == ("indices_dimension_count", [batch, 5, 3, 4], "3 dimensions")


class TestGatherNd(TupleTests):
    operator = "gather_nd"
    more: ClassVar = {}
    levels = INPUT_LEVELS
    sample = case("elements by row and column", [GRID, indices([[1, 0], [0, 2], [1, 1]])], [[4, 3, 5]], **counts(2, 2))
    cases = (
        sample,
        *(
            case("rows", [[[1, 2], [3, 4], [5, 6]], indices([[2], [0]])], [[5, 6], [1, 2]], dtype, **counts(2, 2))
            for dtype in EVERY
        ),
        case("from the end", [GRID, indices([[-1, -1], [-2, 0]])], [[6, 1]], **counts(2, 2)),
        case("ones in front do not count", [[GRID], indices([[[0, 1], [1, 2]]])], [[[2, 6]]], **counts(2, 2)),
        case("one tuple", [[GRID], indices([[[1]]])], [[[4, 5, 6]]], **counts(2, 1)),
    )

    @pytest.mark.parametrize("size", [1, 2, 3])
    def test_agrees_with_onnx(self, size: int, device: DeviceName) -> None:
        x, rng = values(np.random.default_rng(0), [3, 4, 5], "float32"), np.random.default_rng(1)
        places = rng.integers(-3, 3, [1, 4, size])
        got = run("gather_nd", [x, places], device=device, **counts(3, 2))
        expected = evaluate("GatherND", [x, places[0]])[0]
        np.testing.assert_array_equal(got, expected.reshape((1,) * (3 - expected.ndim) + expected.shape))


class TestGatherNd1(TupleTests):
    operator = "gather_nd1"
    more: ClassVar = {"batch_dimension_count": 0}
    levels = "3.0: 1-8D ALL8 | 4.1: 1-8D ALL11"
    others: ClassVar = {"i": "3.0: 1-8D I64 I32 U64 U32"}
    sample = case(
        "an element of each row", [GRID, indices([[2], [0]])], [[3, 4]], **counts(2, 2, batch_dimension_count=1)
    )
    cases = (
        sample,
        *(
            case("rows of batches", [[[[1, 2], [3, 4]], [[5, 6], [7, 8]]], indices([[[1]], [[0]]])],
                 [[[3, 4]], [[5, 6]]], dtype, **counts(3, 3, batch_dimension_count=1))
            for dtype in EVERY
        ),
        case("without batches as gather_nd", [GRID, indices([[1, 0], [0, 2]])], [[4, 3]],
             **counts(2, 2, batch_dimension_count=0)),
        case("from the end", [GRID, indices([[-1], [-3]])], [[3, 4]], **counts(2, 2, batch_dimension_count=1)),
    )  # fmt: skip

    @pytest.mark.parametrize("batches", [0, 1, 2])
    def test_agrees_with_onnx(self, batches: int, device: DeviceName) -> None:
        x, rng = values(np.random.default_rng(0), [2, 3, 4], "float32"), np.random.default_rng(1)
        places = rng.integers(-2, 2, [2, 3, 1])
        if batches == 0:
            places = places[:1, :, :1]
        fields = counts(3, 3 if batches else 2, batch_dimension_count=batches)
        got = run("gather_nd1", [x, places], device=device, **fields)
        expected = evaluate("GatherND", [x, places if batches else places[0]], batch_dims=batches)[0]
        np.testing.assert_array_equal(got, expected.reshape((1,) * (3 - expected.ndim) + expected.shape))

    def test_batches_are_the_inputs(self) -> None:
        inputs = [np.zeros([2, 3], np.float32), indices([[0], [0], [0]])]
        error = refused("gather_nd1", inputs, **counts(2, 2, batch_dimension_count=1))
        assert (error.field, error.got, error.allowed) == ("indices.sizes", [3], "[2]")

    def test_batches_leave_something(self) -> None:
        error = refused("gather_nd1", self.sample.inputs, **counts(2, 2, batch_dimension_count=2))
        assert (error.field, error.got, error.allowed) == (
            "input_dimension_count", 2, "more than the 2 batch dimensions"
        )  # fmt: skip
