"""BROADCAST_TO: repeated by NumPy's rules."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from support.operators.harness import refused
from support.operators.views import ViewTests, again, numbers
from support.problems import expect


class TestBroadcastTo(ViewTests):
    operator = "broadcast_to"
    moves = True
    cases: ClassVar = {
        "rows": ((3,), lambda x: x.broadcast_to(2, 3), lambda x: np.broadcast_to(x, (2, 3))),
        "columns": ((2, 1), lambda x: x.broadcast_to([2, 3]), lambda x: np.broadcast_to(x, (2, 3))),
        "the same sizes": ((2, 3), lambda x: x.broadcast_to(2, 3), lambda x: x),
        "to rank 8": ((1, 2), lambda x: x.broadcast_to(1, 1, 2, 1, 1, 2, 3, 2),
                      lambda x: np.broadcast_to(x, (1, 1, 2, 1, 1, 2, 3, 2))),
        "then reshaped": ((2, 1), lambda x: x.broadcast_to(2, 3).reshape(6), lambda x: np.repeat(x, 3)),
    }  # fmt: skip

    @pytest.mark.parametrize("sizes", [[2], [3, 2], [1, 3], [2, 3, 1]])
    def test_sizes_that_do_not_fit(self, sizes: list[int]) -> None:
        error = refused("broadcast_to", [numbers((2, 3))], sizes=sizes)
        assert error.allowed == "equal sizes from the right, or more where the input has 1"
        expect(error, "sizes", node="node", field="sizes", got=sizes)

    def test_no_size_is_zero(self) -> None:
        error = refused("broadcast_to", [numbers((1,))], sizes=[0])
        assert (error.field, error.got) == ("sizes.0", 0)

    def test_expressions(self) -> None:
        graph = again("""
dmlgraph: 1
dims: {N: 2}
inputs: {x: {dtype: float32, sizes: [1, 3]}}
nodes: {y: {op: broadcast_to, input: x, sizes: ["2 * N", 3]}}
outputs: [y]
""")
        assert graph.with_dims({"N": 5}).outputs["y"].sizes == (10, 3)
