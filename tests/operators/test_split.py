"""SPLIT: a tensor cut along an axis into consecutive parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.operators import exact
from support.operators.checks import OperatorTests
from support.operators.harness import FLOATS, INTEGERS, Case, add_node, array, bits_of, case, refused, run_all

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices.names import DeviceName


def split(why: str, whole: Any, parts: list[Any], axis: int, dtype: str = "float32") -> Case:
    outputs = tuple(array(part, dtype) for part in parts)
    return case(why, [whole], outputs, dtype, axis=axis, outputs=[part.shape[axis] for part in outputs])


class TestSplit(OperatorTests):
    operator = "split"
    levels = "1.0: 4D F32 F16 I32 I16 U32 U16 | 2.1: 4D ALL8 | 3.0: 1-8D ALL8 | 4.1: 1-8D ALL11"
    sample = split(
        "two dimensions", [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]], [[[1, 2], [6, 7]], [[3, 4, 5], [8, 9, 10]]], 1
    )
    cases = (
        sample,
        *(
            split("consecutive parts", [1, 2, 3, 4, 5, 6], [[1, 2], [3], [4, 5, 6]], 0, dtype)
            for dtype in (*FLOATS, *INTEGERS, "float64")
        ),
        split("one part is a copy", [1, 2, 3], [[1, 2, 3]], 0),
        split("rows", [[1, 2], [3, 4], [5, 6]], [[[1, 2]], [[3, 4], [5, 6]]], 0),
        split("the middle axis", [[[1, 2], [5, 6]], [[3, 4], [7, 8]]], [[[[1, 2]], [[3, 4]]], [[[5, 6]], [[7, 8]]]], 1),
        *(
            split("extremes", [low, high], [[low], [high]], 0, dtype)
            for dtype in INTEGERS
            for low, high in [exact.limits(dtype)]
        ),
    )

    def node_at(self, graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
        add_node(graph, "split", [graph.input("x", sizes=[1] * rank, dtype=dtype)], axis=0, outputs=[1])

    def test_copies_bits(self, device: DeviceName) -> None:
        x = exact.from_bits("float32", 0x7FC00001, 0x80000000, 0xFFC12345)
        first, second = run_all("split", [x], device=device, axis=0, outputs=[1, 2])
        np.testing.assert_array_equal(bits_of(first), [0x7FC00001])
        np.testing.assert_array_equal(bits_of(second), [0x80000000, 0xFFC12345])

    def test_parts_have_names_by_index(self, device: DeviceName) -> None:
        graph = dg.Graph("test")
        parts = add_node(graph, "split", [graph.input("x", sizes=[3], dtype="int8")], axis=0, outputs=[1, 2])
        assert [part.reference for part in parts] == ["node.outputs.0", "node.outputs.1"]
        graph.output("second", graph.value("node.outputs.1"))
        got = graph.compile(device=device, fuse=False).run({"x": array([7, 8, 9], "int8")})
        assert got["second"].tolist() == [8, 9]

    def test_sizes_may_be_numpys_or_whole_descriptions(self) -> None:
        x = self.sample.inputs[0]
        for outputs in ([np.int64(2), np.uint8(3)], [{"sizes": [2, 2]}, {"sizes": [2, 3]}], (2, {"sizes": [2, 3]})):
            parts = run_all("split", [x], axis=1, outputs=outputs)
            assert [part.shape for part in parts] == [(2, 2), (2, 3)]

    def test_an_axis_out_of_range_is_refused(self) -> None:
        error = refused("split", self.sample.inputs, axis=2, outputs=[2, 3])
        assert (error.field, error.got, error.allowed) == ("axis", 2, "-2 to 1")

    @pytest.mark.parametrize(("outputs", "total"), [([2, 2], 4), ([5, 1], 6), ([1], 1)])
    def test_the_parts_add_up_to_the_whole(self, outputs: list[int], total: int) -> None:
        error = refused("split", self.sample.inputs, axis=1, outputs=outputs)
        assert (error.field, error.got, error.allowed) == ("outputs", total, "5")

    @pytest.mark.parametrize("outputs", [None, [], 0, -1, 3, 10, True, 2.5])
    def test_the_parts_must_be_listed(self, outputs: Any) -> None:
        assert refused("split", self.sample.inputs, axis=1, outputs=outputs).field == "outputs"

    @pytest.mark.parametrize("size", [0, -1])
    def test_a_part_has_at_least_one_element(self, size: int) -> None:
        error = refused("split", self.sample.inputs, axis=1, outputs=[5 - size, size])
        assert (error.field, error.got) == ("outputs.1", size)

    def test_the_other_sizes_are_the_inputs(self) -> None:
        error = refused("split", self.sample.inputs, axis=1, outputs=[{"sizes": [1, 2]}, {"sizes": [2, 3]}])
        assert (error.field, error.got, error.allowed) == ("outputs.0.sizes", "[1, 2]", "[2, 2]")

    def test_the_data_type_is_the_inputs(self) -> None:
        asked = [{"sizes": [2, 2], "dtype": "int8"}, {"sizes": [2, 3]}]
        error = refused("split", self.sample.inputs, axis=1, outputs=asked)
        assert (error.field, error.got, error.allowed) == ("outputs.0.dtype", "int8", "float32")
