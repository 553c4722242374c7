"""RESHAPE: the elements in row-major order with other sizes."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from support.operators.harness import refused
from support.operators.views import ViewTests, again, numbers
from support.problems import expect

import dmlgraph as dg
from dmlgraph.formats.yaml import dumps


class TestReshape(ViewTests):
    operator = "reshape"
    cases: ClassVar = {
        "dimensions merged": ((2, 3, 4), lambda x: x.reshape(6, -1), lambda x: x.reshape(6, 4)),
        "split": ((6, 4), lambda x: x.reshape([2, 3, 2, 2]), lambda x: x.reshape(2, 3, 2, 2)),
        "to one": ((2, 3), lambda x: x.reshape(-1), lambda x: x.reshape(6)),
        "one element": ((1,), lambda x: x.reshape(1, 1, 1, 1, 1, 1, 1, 1), lambda x: x.reshape((1,) * 8)),
        "of rank 8": ((2, 1, 2, 1, 3, 1, 2, 2), lambda x: x.reshape(-1, 6), lambda x: x.reshape(8, 6)),
        "of a transpose": ((2, 3, 4), lambda x: x.T.reshape(8, 3), lambda x: x.T.reshape(8, 3)),
        "twice": ((2, 3, 4), lambda x: x.T.reshape(24).reshape(4, 6), lambda x: x.T.reshape(4, 6)),
        "transposed between": (
            (2, 3, 4),
            lambda x: x.T.reshape(8, 3).T.reshape(-1),
            lambda x: x.T.reshape(8, 3).T.ravel(),
        ),
        "function": ((2, 3), lambda x: dg.reshape(x, sizes=[3, 2]), lambda x: x.reshape(3, 2)),
    }

    @pytest.mark.parametrize(
        ("sizes", "field", "code", "allowed", "hint"),
        [
            ([4, 2], "sizes", "sizes", "6 = 2 · 3 elements",
             "-1 in place of one size takes what remains"),
            ([4, -1], "sizes", "sizes", "6 = 2 · 3 elements", None),
            ([-1, -1], "sizes", "duplicate", None, None),
            ([0, 6], "sizes.0", "range", "1 or more, or one -1", None),
            ([6, -2], "sizes.1", "range", "1 or more, or one -1", None),
        ],
    )  # fmt: skip
    def test_wrong_sizes(self, sizes: list[int], field: str, code: str, allowed: Any, hint: Any) -> None:
        error = refused("reshape", [numbers((2, 3))], sizes=sizes)
        assert (error.field, error.allowed, error.hint) == (field, allowed, hint)
        expect(error, code, node="node", field=field)

    def test_no_sizes_and_nine_of_them(self) -> None:
        for sizes in ([], [1] * 9):
            assert refused("reshape", [numbers((1,))], sizes=sizes).field in ("sizes", "output", "output.sizes")

    def test_minus_one_and_expressions_are_kept(self) -> None:
        text = """
dmlgraph: 1
dims: {N: 2, heads: 3, depth: 4}
inputs: {x: {dtype: float32, sizes: [N, "heads * depth"]}}
nodes: {y: {op: reshape, input: x, sizes: [-1, heads, "depth / 2"]}}
outputs: [y]
"""
        graph = again(text)
        assert graph.outputs["y"].sizes == (4, 3, 2)
        assert graph.with_dims({"N": 5, "depth": 6}).outputs["y"].sizes == (10, 3, 3)
        assert "-1" in dumps(graph)
        assert "depth / 2" in dumps(graph)

    def test_expressions_in_python(self) -> None:
        g = dg.Graph("g", dims={"N": 2, "depth": 4})
        x = g.input("x", sizes=["N", 12], dtype="float32")
        g.output("y", x.reshape(g.dim("N") * 12 // g.dim("depth"), "depth"))
        assert g.outputs["y"].sizes == (6, 4)
        assert g.with_dims({"depth": 3}).outputs["y"].sizes == (8, 3)

    def test_an_error_in_a_file_says_where(self) -> None:
        with pytest.raises(dg.DmlGraphError) as caught:
            dg.loads(
                "dmlgraph: 1\ninputs: {x: {dtype: float32, sizes: [6]}}\n"
                "nodes:\n  y: {op: reshape, input: x, sizes: [4]}\noutputs: [y]\n"
            )
        assert "4:" in str(caught.value)
        expect(caught.value, "sizes", node="y", field="sizes", got="[4], 4 elements")
