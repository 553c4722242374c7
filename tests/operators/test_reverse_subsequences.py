"""REVERSE_SUBSEQUENCES: the first elements along an axis in reverse order."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from support.operators.families import ShapedTests
from support.operators.harness import FLOATS, INTEGERS, array, case, refused, run, values
from support.operators.onnx_model import evaluate

from dmlgraph.devices.names import DeviceName


def lengths(values: Any, dtype: str = "uint32") -> np.ndarray:
    return array(values, dtype)


class TestReverseSubsequences(ShapedTests):
    operator = "reverse_subsequences"
    kinds = "xi"
    levels = "2.1: 4D ALL8 | 3.0: 4-5D ALL8 | 4.0: 1-8D ALL8 | 5.0: 1-8D ALL11"
    others: ClassVar = {"i": "2.1: 4D U32 | 3.0: 4-5D U32 | 4.0: 1-8D U32 | 5.0: 1-8D U64 U32"}
    sample = case(
        "rows of different lengths",
        [[[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]], lengths([[2], [4], [3]])],
        [[2, 1, 3, 4], [8, 7, 6, 5], [11, 10, 9, 12]],
        axis=1,
    )
    cases = (
        sample,
        *(
            case("three of four", [[1, 2, 3, 4], lengths([3])], [3, 2, 1, 4], dtype, axis=0)
            for dtype in (*FLOATS, *INTEGERS, "float64")
        ),
        case("lengths in uint64", [[1, 2, 3, 4], lengths([4], "uint64")], [4, 3, 2, 1], axis=0),
        case("lengths 0 and 1 copy", [[[1, 2], [3, 4]], lengths([[0], [1]])], [[1, 2], [3, 4]], axis=1),
        case("along the first axis", [[[1, 2], [3, 4], [5, 6]], lengths([[2, 3]])], [[3, 6], [1, 4], [5, 2]], axis=0),
        # Measured: the position is clamped, not the length.
        case("beyond the axis the last element is read", [[[1, 2, 3]] * 3, lengths([[4], [5], [9]])],
             [[3, 3, 2], [3, 3, 3], [3, 3, 3]], axis=1),
    )  # fmt: skip

    def at_rank(self, rank: int) -> tuple[list[list[int]], dict[str, Any]]:
        return [[1] * (rank - 1) + [3], [1] * rank], {"axis": rank - 1}

    def test_agrees_with_onnx(self, device: DeviceName) -> None:
        x = values(np.random.default_rng(0), [4, 6, 3], "float32")
        each = np.array([0, 1, 4, 6], np.int64)
        got = run(
            "reverse_subsequences",
            [x, lengths(np.tile(each.reshape(4, 1, 1), (1, 1, 3)).tolist())],
            device=device,
            axis=1,
        )
        np.testing.assert_array_equal(got, evaluate("ReverseSequence", [x, each], batch_axis=0, time_axis=1)[0])

    def test_lengths_have_the_inputs_sizes_but_for_the_axis(self) -> None:
        error = refused("reverse_subsequences", [array([[1, 2]], "float32"), lengths([[1, 1]])], axis=1)
        assert (error.field, error.got, error.allowed) == ("sequence_lengths.sizes", [1, 2], "[1, 1]")

    def test_axis_is_the_inputs(self) -> None:
        error = refused("reverse_subsequences", [array([[1, 2]], "float32"), lengths([[1]])], axis=2)
        assert (error.field, error.got, error.allowed) == ("axis", 2, "-2 to 1")
