"""TRANSPOSE: dimensions in another order."""

from __future__ import annotations

from typing import ClassVar

import pytest
from support.operators.harness import refused
from support.operators.views import ViewTests, again, numbers
from support.problems import expect


class TestTranspose(ViewTests):
    operator = "transpose"
    moves = True
    cases: ClassVar = {
        "given": ((2, 3, 4), lambda x: x.transpose(0, 2, 1), lambda x: x.transpose(0, 2, 1)),
        "a list": ((2, 3, 4), lambda x: x.transpose([2, 0, 1]), lambda x: x.transpose(2, 0, 1)),
        "reversed": ((2, 3, 4), lambda x: x.transpose(), lambda x: x.T),
        "T": ((2, 3), lambda x: x.T, lambda x: x.T),
        "of one dimension": ((3,), lambda x: x.T, lambda x: x),
        "negative": ((2, 3, 4), lambda x: x.transpose(-1, -3, -2), lambda x: x.transpose(2, 0, 1)),
        "of rank 8": ((2, 1, 3, 1, 2, 1, 1, 2), lambda x: x.T, lambda x: x.T),
        "twice": ((2, 3, 4), lambda x: x.transpose(1, 2, 0).transpose(1, 2, 0), lambda x: x.transpose(2, 0, 1)),
    }

    @pytest.mark.parametrize("permutation", [[0], [0, 1], []])
    def test_every_dimension_is_named(self, permutation: list[int]) -> None:
        error = refused("transpose", [numbers((2, 3, 4))], permutation=permutation)
        assert error.allowed == "the numbers 0 to 2 in any order"
        expect(error, "count", node="node", field="permutation", got=permutation)

    def test_none_twice(self) -> None:
        error = refused("transpose", [numbers((2, 3))], permutation=[1, -1])
        expect(error, "duplicate", node="node", field="permutation.1", got=-1)

    def test_none_that_is_not_there(self) -> None:
        error = refused("transpose", [numbers((2, 3))], permutation=[0, 2])
        assert (error.field, error.got, error.allowed) == ("permutation.1", 2, "-2 to 1")

    def test_in_a_file(self) -> None:
        graph = again("""
dmlgraph: 1
inputs: {x: {dtype: float32, sizes: [2, 3, 4]}}
nodes: {y: {op: transpose, input: x, permutation: [0, -1, 1]}, z: {op: transpose, input: x}}
outputs: [y, z]
""")
        assert [value.sizes for value in graph.outputs.values()] == [(2, 4, 3), (4, 3, 2)]
