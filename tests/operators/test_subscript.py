"""SUBSCRIPT: NumPy's basic indexing."""

from __future__ import annotations

from operator import itemgetter
from typing import Any, ClassVar

import numpy as np
import pytest
from support.nodes import operator_of
from support.operators.harness import refused
from support.operators.views import ViewTests, again, numbers, viewed
from support.problems import expect, raises

import dmlgraph as dg
from dmlgraph.formats.yaml import dumps


class TestSubscript(ViewTests):
    operator = "subscript"
    moves = True
    cases: ClassVar = {
        name: (sizes, itemgetter(index), itemgetter(index))
        for name, (sizes, index) in {
            "everything": ((4, 5), (slice(1, None), slice(None, None, 2))),
            "from the first on": ((4, 5), (slice(None, 3), slice(None, None, 2))),
            "an element": ((4, 5), (0,)),
            "the last": ((4, 5), (slice(None), -1)),
            "backwards": ((4, 5), (slice(None, None, -1), slice(3, 0, -2))),
            "new": ((4, 5), (None, slice(None), None)),
            "the rest": ((2, 3, 4), (..., 1)),
            "all at once": ((2, 3, 4, 5), (slice(1, None), 0, slice(None, None, 2), None, ...)),
            "of rank 8": ((2, 1, 2, 1, 2, 1, 2, 3), (1, ..., slice(None, None, -1))),
            "beyond the end": ((4,), slice(1, 99)),
        }.items()
    }

    def test_every_integer_leaves_one_element(self) -> None:
        x = numbers((2, 3))
        np.testing.assert_array_equal(viewed(lambda v: v[1, 2], x), [x[1, 2]])

    @pytest.mark.parametrize(("index", "field", "code", "got"), [
        ("4", "index.0", "range", 4),
        (":, -6", "index.1", "range", -6),
        ("0, 0, 0", "index", "rank", "3 indices"),
        ("..., ...", "index", "duplicate", "..., ..."),
        ("::0", "index.0", "range", "::0"),
        ("2:2", "index.0", "sizes", "2:2"),
    ])  # fmt: skip
    def test_wrong_indices(self, index: str, field: str, code: str, got: object) -> None:
        error = refused("subscript", [numbers((4, 5))], index=index)
        expect(error, code, node="node", field=field, got=got)

    @pytest.mark.parametrize(
        ("index", "code", "got"),
        [("a", "unknown-dim", "a"), ("1.5", "expression", "1.5 = 1.5"), ("1:2:3:4", "kind", "1:2:3:4")],
    )
    def test_text_that_is_no_index(self, index: str, code: str, got: str) -> None:
        x = dg.Graph("g").input("x", sizes=[4, 5], dtype="float32")
        with raises(dg.GraphError, code, field="index", got=got):
            x[index]

    @pytest.mark.parametrize("index", [True, [0, 1], 1.0, np.array([0, 1]), {}], ids=repr)
    def test_what_is_no_index(self, index: Any) -> None:
        x = dg.Graph("g").input("x", sizes=[4, 5], dtype="float32")
        with raises(dg.OperatorError, "kind", field="index", got=index):
            x[index]
        with raises(dg.OperatorError, "kind", field="index", got=index):
            x[:, index]
        with pytest.raises(dg.OperatorError) as caught:
            x[index]
        assert caught.value.hint == "dg.gather and dg.gather_nd take elements by indices that are tensors"

    def test_a_value_is_no_index(self) -> None:
        x = dg.Graph("g").input("x", sizes=[4], dtype="uint32")
        with raises(dg.OperatorError, "kind", field="index"):
            x[x]

    def test_numpys_integers_are_indices(self) -> None:
        x = dg.Graph("g").input("x", sizes=[4], dtype="float32")
        assert x[np.int64(1) : np.uint8(3)].sizes == (2,)

    def test_expressions_are_kept(self) -> None:
        graph = again("""
dmlgraph: 1
dims: {N: 6}
inputs: {x: {dtype: float32, sizes: [N, 3]}}
nodes: {y: {op: subscript, input: x, index: "N // 2:, ..., None"}}
outputs: [y]
""")
        assert graph.outputs["y"].sizes == (3, 3, 1)
        assert graph.with_dims({"N": 9}).outputs["y"].sizes == (5, 3, 1)
        assert "N // 2:" in dumps(graph)

    def test_entries_are_saved_as_text(self) -> None:
        graph = dg.Graph()
        x = graph.input("x", sizes=[4, 3], dtype="float32")
        index = operator_of(dg.subscript(x, index="..., ::-1, None").graph.node("subscript")).index
        graph.output("y", dg.subscript(x, index=index))
        assert operator_of(dg.loads(dumps(graph)).node("subscript_1")).index == index

    def test_expressions_in_python(self) -> None:
        g = dg.Graph("g", dims={"N": 6})
        g.output("y", g.input("x", sizes=["N"], dtype="float32")[: g.dim("N") - 1])
        assert g.with_dims({"N": 3}).outputs["y"].sizes == (2,)
