"""TILE: a tensor repeated in every dimension."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.operators.families import ShapedTests
from support.operators.harness import FLOATS, INTEGERS, array, case, each_dtype, refused, run, values
from support.operators.onnx_model import evaluate

from dmlgraph.devices.names import DeviceName


class TestTile(ShapedTests):
    operator = "tile"
    levels = "1.0: 4D F32 F16 | 2.1: 4D ALL8 | 3.1: 1-8D ALL8 | 4.1: 1-8D ALL10"
    sample = case(
        "rows twice, columns three times",
        [[[1, 2], [3, 4]]],
        [[1, 2, 1, 2, 1, 2], [3, 4, 3, 4, 3, 4], [1, 2, 1, 2, 1, 2], [3, 4, 3, 4, 3, 4]],
        repeats=[2, 3],
    )
    cases = (
        sample,
        *each_dtype(FLOATS + INTEGERS, "twice", [[1, 2, 3]], [1, 2, 3, 1, 2, 3], repeats=[2]),
        case("once is a copy", [[1, 2]], [1, 2], repeats=[1]),
        case("a new dimension of size 1", [[[1, 2]]], [[1, 2], [1, 2], [1, 2]], repeats=[3, 1]),
    )

    def at_rank(self, rank: int) -> tuple[list[list[int]], dict[str, Any]]:
        return [[1] * rank], {"repeats": [1] * (rank - 1) + [2]}

    def test_agrees_with_onnx(self, device: DeviceName) -> None:
        x = values(np.random.default_rng(0), [2, 1, 3, 2], "float32")
        got = run("tile", [x], device=device, repeats=[1, 3, 2, 2])
        np.testing.assert_array_equal(got, evaluate("Tile", [x, np.array([1, 3, 2, 2], np.int64)])[0])

    def test_repeats_has_an_entry_for_each_dimension(self) -> None:
        error = refused("tile", [array([[1, 2]], "float32")], repeats=[2])
        assert (error.field, error.got, error.allowed) == ("repeats", [2], "2 entries, or one number for all")

    def test_repeats_are_positive(self) -> None:
        error = refused("tile", [array([[1, 2]], "float32")], repeats=[1, 0])
        assert (error.field, error.got) == ("repeats.1", 0)
