"""NONZERO_COORDINATES: how many elements are not zero, and where they are."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.operators.families import ShapedTests
from support.operators.harness import FLOATS, INF, INTEGERS, NAN, Case, array, case, refused, run_all, values
from support.operators.onnx_model import evaluate

from dmlgraph.devices.names import DeviceName


def found(why: str, x: Any, count: Any, coordinates: Any, dtype: str = "float32", **fields: Any) -> Case:
    return case(why, [x], (array(count, "uint32"), array(coordinates, "uint32")), dtype, **fields)


class TestNonzeroCoordinates(ShapedTests):
    operator = "nonzero_coordinates"
    levels = "3.0: 4-5D ALL8 | 4.0: 1-8D ALL8"
    # Rows from the count on are undefined: here every element is found, so that all devices can be compared.
    sample = found("two dimensions", [[1, 2], [3, 4], [5, 6]], [[6]], [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1]])
    cases = (
        sample,
        *(
            found("every element", [[3, 1]], [[2]], [[0, 0], [0, 1]], dtype)
            for dtype in (*FLOATS, *INTEGERS)
            if "64" not in dtype
        ),
        found("one dimension", [1, 2, 3], [3], [[0], [1], [2]]),
        found("the last dimensions", [[[1, 2]]], [[[2]]], [[0], [1]], "int8", output_coordinates={"sizes": [2, 1]}),
        found("outputs of other ranks", [[1, 2]], [2], [[[0, 0], [0, 1]]],
              output_count={"sizes": [1]}, output_coordinates={"sizes": [1, 2, 2]}),
        found("infinities, NaN and the smallest number", [INF, -INF, NAN, 2.0**-126], [4], [[0], [1], [2], [3]]),
    )  # fmt: skip

    def at_rank(self, rank: int) -> tuple[list[list[int]], dict[str, Any]]:
        return [[1] * rank], {}

    def check(self, x: np.ndarray, device: DeviceName, expected: np.ndarray) -> None:
        count, coordinates = run_all("nonzero_coordinates", [x], device=device)
        assert int(count.ravel()[0]) == len(expected)
        np.testing.assert_array_equal(coordinates[: len(expected)], expected)

    def test_zeros_are_passed_over(self, device: DeviceName) -> None:
        x = array([[0, 5, 0], [7, 0, -0.0]], "float32")
        self.check(x, device, np.array([[0, 1], [1, 0]]))
        self.check(np.zeros([2, 2], np.int32), device, np.zeros([0, 2]))

    def test_agrees_with_onnx(self, device: DeviceName) -> None:
        x = values(np.random.default_rng(0), [1, 6, 5], "float32") * np.float32(0.5)
        x[x > 0.5] = 0
        expected = evaluate("NonZero", [x])[0].T
        count, coordinates = run_all("nonzero_coordinates", [x], device=device)
        assert count.tolist() == [[[len(expected)]]]
        np.testing.assert_array_equal(coordinates[0, : len(expected)], expected)

    def test_rows_beyond_the_count_are_zero_in_the_reference(self) -> None:
        _, coordinates = run_all("nonzero_coordinates", [array([0, 4, 0], "int8")])
        assert coordinates.tolist() == [[1], [0], [0]]

    def test_count_is_one_number(self) -> None:
        error = refused("nonzero_coordinates", [array([1, 2], "int8")], output_count={"sizes": [2]})
        assert (error.field, error.got) == ("output_count.sizes", [2])

    def test_coordinates_have_a_row_for_each_element(self) -> None:
        x = np.ones([1, 2, 3], np.int8)
        for sizes in ([1, 5, 3], [1, 6, 1], [1, 6, 4], [2, 6, 3], [6]):
            error = refused("nonzero_coordinates", [x], output_coordinates={"sizes": sizes})
            assert (error.field, error.got) == ("output_coordinates.sizes", sizes)
            assert error.allowed == "[…, 6, 2 to 3]"
