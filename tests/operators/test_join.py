"""JOIN: tensors one after the other along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.operators import exact
from support.operators.checks import OperatorTests
from support.operators.harness import (
    FLOATS,
    INTEGERS,
    NAN,
    Case,
    add_node,
    array,
    assert_same,
    bits_of,
    case,
    operator_class,
    refused,
    run,
    run_all,
)
from support.problems import expect

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices.names import DeviceName


def join(why: str, parts: list[Any], gives: Any, axis: int, dtype: str = "float32") -> Case:
    return case(why, [[array(part, dtype) for part in parts]], gives, dtype, axis=axis)


class TestJoin(OperatorTests):
    operator = "join"
    levels = "1.0: 4D F32 F16 I32 I16 U32 U16 | 2.1: 4D ALL8 | 3.0: 4-5D ALL8 | 4.1: 1-8D ALL11"
    sample = join("two dimensions", [[[1, 2], [3, 4]], [[5], [6]]], [[1, 2, 5], [3, 4, 6]], 1)
    cases = (
        *(
            join("one after the other", [[1, 2], [3], [4, 5, 6]], [1, 2, 3, 4, 5, 6], 0, dtype)
            for dtype in (*FLOATS, *INTEGERS, "float64")
        ),
        join("one tensor is copied", [[1, NAN, -0.0]], [1, NAN, -0.0], 0),
        join("rows", [[[1, 2]], [[3, 4], [5, 6]]], [[1, 2], [3, 4], [5, 6]], 0),
        join("the middle axis", [[[[1, 2]], [[3, 4]]], [[[5, 6]], [[7, 8]]]], [[[1, 2], [5, 6]], [[3, 4], [7, 8]]], 1),
        *(
            join("extremes", [[low], [high]], [low, high], 0, dtype)
            for dtype in INTEGERS
            for low, high in [exact.limits(dtype)]
        ),
        join("the same size everywhere", [[[1]], [[2]], [[3]]], [[1, 2, 3]], 1),
    )

    def node_at(self, graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
        x = graph.input("x", sizes=[1] * rank, dtype=dtype)
        add_node(graph, "join", [[x, x]], axis=0)

    def test_one_value_may_come_twice(self, device: DeviceName) -> None:
        graph = dg.Graph("test")
        x = graph.input("x", sizes=[2], dtype="int8")
        graph.output("y", dg.join([x, x], axis=0))
        got = graph.compile(device=device, fuse=False).run({"x": array([1, 2], "int8")})["y"]
        assert got.tolist() == [1, 2, 1, 2]

    def test_copies_bits(self, device: DeviceName) -> None:
        parts = [exact.from_bits("float32", 0x7FC00001), exact.from_bits("float32", 0x80000000, 0xFFC12345)]
        got = run("join", [parts], device=device, axis=0)
        np.testing.assert_array_equal(bits_of(got), [0x7FC00001, 0x80000000, 0xFFC12345])

    def test_an_axis_out_of_range_is_refused(self) -> None:
        error = refused("join", self.sample.inputs, axis=2)
        assert (error.field, error.got, error.allowed) == ("axis", 2, "-2 to 1")
        assert refused("join", self.sample.inputs, axis=-3).field == "axis"

    def test_the_other_sizes_agree(self) -> None:
        error = refused("join", [[np.zeros([2, 3], "float32"), np.zeros([3, 3], "float32")]], axis=1)
        assert (error.field, error.got, error.allowed) == ("inputs.1.sizes", [3, 3], "[2, 3]")

    def test_data_types_agree(self) -> None:
        error = refused("join", [[np.zeros([2], "float32"), np.zeros([2], "float16")]], axis=0)
        assert (error.field, error.got, error.allowed) == ("inputs.1", "float16 [2]", "float32 [2]")

    def test_numbers_of_dimensions_agree(self) -> None:
        error = refused("join", [[np.zeros([2, 2], "float32"), np.zeros([2], "float32")]], axis=0)
        expect(error, "rank", node="node", field="inputs.1", got="float32 [2]")

    def test_at_least_one_tensor(self) -> None:
        with pytest.raises(dg.OperatorError) as caught:
            operator_class("join")(inputs=[], axis=0)
        assert caught.value.field == "inputs"

    def test_a_single_tensor_wants_brackets(self) -> None:
        assert refused("join", [array([1], "float32")], axis=0).field == "inputs"


@given(st.data())
def test_join_undoes_split(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    axis = data.draw(st.integers(0, len(sizes) - 1))
    cuts = sorted(data.draw(st.sets(st.integers(1, sizes[axis] - 1)))) if sizes[axis] > 1 else []
    lengths = [end - start for start, end in zip([0, *cuts], [*cuts, sizes[axis]], strict=True)]
    x = np.arange(np.prod(sizes), dtype="int32").reshape(sizes)
    parts = run_all("split", [x], axis=axis, outputs=lengths)
    assert [part.shape[axis] for part in parts] == lengths
    assert_same(run("join", [parts], axis=axis), x)
