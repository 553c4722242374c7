"""ONE_HOT: the on value at the index, the off value elsewhere."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from support.operators import exact
from support.operators.families import ShapedTests
from support.operators.harness import FLOATS, INTEGERS, Array, array, case, refused, run
from support.operators.onnx_model import evaluate
from support.problems import expect

from dmlgraph.devices.names import DeviceName


def indices(numbers: Any, dtype: str = "int32") -> Array:
    return array(numbers, dtype)


class TestOneHot(ShapedTests):
    operator = "one_hot"
    kinds = "ix"
    main = "x"  # `levels` describes the values
    levels = "2.0: 4D F32 F16 | 2.1: 4D ALL8 | 3.0: 1-8D ALL8 | 4.1: 1-8D ALL11"
    others: ClassVar = {"i": "2.0: 4D U32 | 3.0: 1-8D I64 I32 U64 U32"}
    sample = case(
        "a row for each index",
        [indices([[2], [0]]), [[5, 9]]],
        [[5, 5, 9], [9, 5, 5]],
        sizes=[2, 3],
        axis=1,
    )
    cases = (
        sample,
        *(
            case("off and on", [indices([[1], [0]]), [[0, 1]]], [[0, 1], [1, 0]], dtype, sizes=[2, 2], axis=1)
            for dtype in (*FLOATS, *INTEGERS, "float64")
        ),
        *(
            case("extremes", [indices([1]), [*exact.limits(dtype)]], [*exact.limits(dtype)], dtype, sizes=[2], axis=0)
            for dtype in INTEGERS
        ),
        *(
            case(f"indices of {of}", [indices([[1]], of), [[0, 1]]], [[0, 1]], "int8", sizes=[1, 2], axis=1)
            for of in ("uint32", "uint64", "int32", "int64")
        ),
        case("columns", [indices([[1, 0, 1]]), [[0, 1]]], [[0, 1, 0], [1, 0, 1]], sizes=[2, 3], axis=0),
        case("from the end", [indices([[-1], [-3]]), [[0, 1]]], [[0, 0, 1], [1, 0, 0]], sizes=[2, 3], axis=1),
        case("beyond the ends all is off", [indices([[3], [-4]]), [[7, 1]]], [[7, 7, 7], [7, 7, 7]],
             sizes=[2, 3], axis=1),
        case("only the first two values count", [indices([[1]]), [[3, 4, 5], [6, 7, 8]]], [[3, 4]],
             sizes=[1, 2], axis=1),
    )  # fmt: skip

    def at_rank(self, rank: int) -> tuple[list[list[int]], dict[str, Any]]:
        return [[1] * rank, [1] * (rank - 1) + [2]], {"sizes": [1] * (rank - 1) + [3], "axis": rank - 1}

    @pytest.mark.parametrize("axis", [0, 1, 2])
    def test_agrees_with_onnx(self, axis: int, device: DeviceName) -> None:
        places = np.random.default_rng(0).integers(-5, 5, [3, 4])
        off_on = array([2, 7], "float32")
        sizes = [3, 4]
        sizes.insert(axis, 5)
        got = run(
            "one_hot",
            [np.expand_dims(places, axis), off_on.reshape(1, 1, 2)],
            device=device,
            sizes=sizes,
            axis=axis,
        )
        np.testing.assert_array_equal(got, evaluate("OneHot", [places, np.array(5), off_on], axis=axis)[0])

    def test_sizes_must_be_given(self) -> None:
        error = refused("one_hot", [indices([[0]]), array([[0, 1]], "int8")], axis=1)
        expect(error, "undetermined", node="node", field="output.sizes")

    def test_indices_have_the_outputs_sizes_but_for_the_axis(self) -> None:
        error = refused("one_hot", [indices([[0, 1]]), array([[0, 1]], "int8")], sizes=[1, 3], axis=1)
        assert (error.field, error.got, error.allowed) == ("indices.sizes", [1, 2], "[1, 1]")

    def test_off_and_on_are_in_the_last_dimension(self) -> None:
        """Measured: DirectML accepts [[off], [on]], and never finds the on value."""
        for values in ([[1]], [[0], [1]]):
            error = refused("one_hot", [indices([[0]]), array(values, "int8")], sizes=[1, 3], axis=1)
            assert (error.field, error.got) == ("values.sizes", list(np.shape(values)))

    def test_axis_is_the_indices(self) -> None:
        error = refused("one_hot", [indices([[0]]), array([[0, 1]], "int8")], sizes=[1, 3], axis=2)
        assert (error.field, error.got, error.allowed) == ("axis", 2, "-2 to 1")
