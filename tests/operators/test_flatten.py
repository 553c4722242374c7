"""FLATTEN: dimensions as one."""

from __future__ import annotations

from typing import ClassVar

import pytest
from support.operators.harness import refused
from support.operators.views import ViewTests, again, numbers


class TestFlatten(ViewTests):
    operator = "flatten"
    cases: ClassVar = {
        "from the second on": ((2, 3, 4), lambda x: x.flatten(), lambda x: x.reshape(2, 12)),
        "all": ((2, 3, 4), lambda x: x.flatten(0), lambda x: x.ravel()),
        "the last": ((2, 3), lambda x: x.flatten(-1), lambda x: x),
        "from the end": ((2, 3, 4, 5), lambda x: x.flatten(-2), lambda x: x.reshape(2, 3, 20)),
        "of rank 8": ((2, 1, 3, 1, 2, 1, 1, 2), lambda x: x.flatten(2), lambda x: x.reshape(2, 1, 12)),
    }

    @pytest.mark.parametrize("axis", [2, -3])
    def test_an_axis_beyond_the_tensor(self, axis: int) -> None:
        error = refused("flatten", [numbers((2, 3))], axis=axis)
        assert (error.field, error.got, error.allowed) == ("axis", axis, "-2 to 1")

    def test_in_a_file(self) -> None:
        graph = again("""
dmlgraph: 1
dims: {N: 2}
inputs: {x: {dtype: float32, sizes: [N, 3, 4]}}
nodes: {y: {op: flatten, input: x}}
outputs: [y]
""")
        assert graph.with_dims({"N": 7}).outputs["y"].sizes == (7, 12)
