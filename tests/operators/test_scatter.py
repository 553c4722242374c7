"""SCATTER_ELEMENTS (also called SCATTER) and SCATTER_ND: elements written to the positions in a tensor of indices."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from support.operators.families import ShapedTests
from support.operators.harness import FLOATS, INTEGERS, Array, array, case, refused, run, values
from support.operators.onnx_model import evaluate
from support.problems import expect

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName
from dmlgraph.operators import ScatterElements, find

EVERY = (*FLOATS, *INTEGERS, "float64")
ZEROS = [[0, 0, 0], [0, 0, 0]]


def indices(numbers: Any, dtype: str = "int32") -> Array:
    return array(numbers, dtype)


def test_the_reference_writes_nothing_beyond_the_ends() -> None:
    """Undefined in DirectML, whose library writes to that position if it is in the buffer."""
    x, updates = array([1, 2, 3], "int8"), array([7, 8, 9], "int8")
    assert run("scatter_elements", [x, indices([3, 0, -4]), updates], axis=0).tolist() == [8, 2, 3]
    assert run("scatter_nd", [x[None], indices([[1, 0], [0, 3]]), updates[None, :2]], **counts(2, 2)).tolist() == [
        [1, 2, 3]
    ]


class ScatterTests(ShapedTests):
    """The checks of both."""

    kinds = "xix"

    @pytest.mark.parametrize("dtype", ["uint32", "uint64", "int32", "int64"])
    def test_types_of_indices(self, dtype: str, device: DeviceName) -> None:
        x, places, updates = self.sample.inputs
        got = run(self.operator, [x, places.astype(dtype), updates], device=device, **self.sample.fields)
        np.testing.assert_array_equal(got, self.sample.gives[0])

    def test_updates_have_the_inputs_data_type(self) -> None:
        x, places, updates = self.sample.inputs
        error = refused(self.operator, [x, places, updates.astype("float16")], **self.sample.fields)
        expect(error, "dtype", node="node", field="updates")


class TestScatterElements(ScatterTests):
    operator = "scatter_elements"
    levels = "2.0: 4D F32 F16 | 2.1: 4D ALL8 | 3.0: 1-8D ALL8 | 4.1: 1-8D ALL11"
    others: ClassVar = {"i": "2.0: 4D U32 | 3.0: 1-8D I64 I32 U64 U32"}
    sample = case(
        "two of each row",
        [[[1, 2, 3], [4, 5, 6]], indices([[2, 0], [1, 2]]), [[10, 20], [30, 40]]],
        [[20, 2, 10], [4, 30, 40]],
        axis=1,
    )
    cases = (
        sample,
        *(
            case("elements", [[1, 2, 3], indices([2, 0]), [7, 8]], [8, 2, 7], dtype, axis=0)
            for dtype in EVERY
        ),
        case("along the first axis", [ZEROS, indices([[1, 0, 1]]), [[7, 8, 9]]], [[0, 8, 0], [7, 0, 9]], axis=0),
        case("from the end", [[1, 2, 3], indices([-1, -3]), [7, 8]], [8, 2, 7], axis=0),
        case("all of them", [[1, 2], indices([1, 0]), [7, 8]], [8, 7], axis=0),
    )  # fmt: skip

    def at_rank(self, rank: int) -> tuple[list[list[int]], dict[str, Any]]:
        return [[1] * rank] * 3, {"axis": rank - 1}

    @pytest.mark.parametrize("axis", [0, 1, 2])
    def test_agrees_with_onnx(self, axis: int, device: DeviceName) -> None:
        rng = np.random.default_rng(0)
        x = values(rng, [3, 4, 5], "float32")
        places = np.argsort(rng.random(x.shape), axis).take(range(2), axis)  # none twice
        updates = values(rng, places.shape, "float32")
        got = run("scatter_elements", [x, places, updates], device=device, axis=axis)
        np.testing.assert_array_equal(got, evaluate("ScatterElements", [x, places, updates], axis=axis)[0])

    def test_is_scatter_by_its_other_name(self, device: DeviceName) -> None:
        assert find("scatter") is ScatterElements
        text = """
dmlgraph: 1
inputs:
  x: {dtype: float32, sizes: [3]}
  indices: {dtype: int32, sizes: [1]}
  updates: {dtype: float32, sizes: [1]}
nodes:
  y: {op: scatter, input: x, indices: indices, updates: updates, axis: 0}
outputs: [y]
"""
        inputs = {"x": array([1, 2, 3], "float32"), "indices": indices([1]), "updates": array([9], "float32")}
        got = dg.loads(text).compile(device, fuse=False).run(inputs)["y"]
        np.testing.assert_array_equal(got, [1, 9, 3])

    def test_updates_have_the_indices_sizes(self) -> None:
        inputs = [array(ZEROS, "int8"), indices([[0], [0]]), array([[1, 1], [1, 1]], "int8")]
        error = refused("scatter_elements", inputs, axis=1)
        assert (error.field, error.got, error.allowed) == ("updates.sizes", [2, 2], "[2, 1]")

    def test_indices_have_the_inputs_sizes_but_for_the_axis(self) -> None:
        """Measured: DirectML refuses smaller ones too."""
        error = refused("scatter_elements", [array(ZEROS, "int8"), indices([[0]]), array([[1]], "int8")], axis=1)
        assert (error.field, error.got, error.allowed) == ("indices.sizes", [1, 1], "[2, 1]")

    def test_indices_are_no_more_than_the_axis(self) -> None:
        inputs = [array([1, 2], "int8"), indices([0, 1, 0]), array([1, 2, 3], "int8")]
        error = refused("scatter_elements", inputs, axis=0)
        assert (error.field, error.got, error.allowed) == ("indices.sizes.0", 3, "1 to 2")

    def test_axis_is_the_inputs(self) -> None:
        error = refused("scatter_elements", self.sample.inputs, axis=2)
        assert (error.field, error.got, error.allowed) == ("axis", 2, "-2 to 1")


def counts(of_input: int, of_indices: int) -> dict[str, Any]:
    return {"input_dimension_count": of_input, "indices_dimension_count": of_indices}


class TestScatterNd(ScatterTests):
    operator = "scatter_nd"
    levels = "2.1: 4D ALL8 | 3.0: 1-8D ALL8 | 4.1: 1-8D ALL11"
    others: ClassVar = {"i": "2.1: 4D U32 | 3.0: 1-8D I64 I32 U64 U32"}
    sample = case(
        "elements by row and column",
        [[[1, 2, 3], [4, 5, 6]], indices([[1, 0], [0, 2]]), [[10, 20]]],
        [[1, 2, 20], [10, 5, 6]],
        **counts(2, 2),
    )
    cases = (
        sample,
        *(
            case("rows", [[[1, 2], [3, 4], [5, 6]], indices([[2], [0]]), [[7, 8], [9, 10]]],
                 [[9, 10], [3, 4], [7, 8]], dtype, **counts(2, 2))
            for dtype in EVERY
        ),
        case("from the end", [[1, 2, 3], indices([-1]), [9]], [1, 2, 9], **counts(1, 1)),
        case("ones in front do not count", [[ZEROS], indices([[[0, 1], [1, 2]]]), [[[7, 8]]]],
             [[[0, 7, 0], [0, 0, 8]]], **counts(2, 2)),
    )  # fmt: skip

    def at_rank(self, rank: int) -> tuple[list[list[int]], dict[str, Any]]:
        return [[1] * rank] * 3, counts(1, 1)

    @pytest.mark.parametrize("size", [1, 2, 3])
    def test_agrees_with_onnx(self, size: int, device: DeviceName) -> None:
        rng = np.random.default_rng(0)
        x = values(rng, [3, 4, 5], "float32")
        places = np.array([[0, 1, 4], [-1, 3, -5]])[:, :size]
        updates = values(rng, [2, *x.shape[size:]], "float32")
        padded = updates.reshape((1,) * (3 - updates.ndim) + updates.shape)
        got = run("scatter_nd", [x, places[None], padded], device=device, **counts(3, 2))
        np.testing.assert_array_equal(got, evaluate("ScatterND", [x, places, updates])[0])

    def test_updates_have_the_sizes_of_what_is_named(self) -> None:
        inputs = [array(ZEROS, "int8"), indices([[0], [1]]), array([[1, 2]], "int8")]
        error = refused("scatter_nd", inputs, **counts(2, 2))
        assert (error.field, error.got, error.allowed) == ("updates.sizes", [1, 2], "[2, 3]")

    def test_indices_cannot_be_broadcast(self) -> None:
        inputs = [array(ZEROS, "int8"), indices([[0], [1]]), array([[1, 2, 3], [1, 2, 3]], "int8")]
        error = refused("scatter_nd", inputs, **counts(2, 2), input_strides=lambda sizes: [0, sizes[1]])
        assert (error.field, error.got) == ("indices.strides", [0, 1])

    def test_counts_are_those_of_the_tensors(self) -> None:
        error = refused("scatter_nd", self.sample.inputs, **counts(3, 2))
        assert (error.field, error.got, error.allowed) == ("input_dimension_count", 3, "at most 2")
