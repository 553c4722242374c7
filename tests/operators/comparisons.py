"""What the tests of the comparisons share."""

from __future__ import annotations

import pytest

import dmlgraph as dg

from .checks import BinaryTests, check_level
from .harness import add_node, array, assert_same, operator_class, parse_levels, refused, run


class ComparisonTests(BinaryTests):
    """a against b: 1 or 0, in uint8 or uint32."""

    levels = "1.0: 4D F32 F16 | 2.1: 4D ALL8 | 3.0: 1-8D ALL8 | 4.1: 1-8D ALL10"
    output_levels = "1.0: 4D U32 | 2.0: 4D U32 U8 | 3.0: 1-8D U32 U8"

    def node_at(self, graph: dg.Graph, dtype: str, rank: int) -> None:
        x = graph.input("x", sizes=[1] * rank, dtype=dtype)
        add_node(graph, self.operator, [x, x], dtype="uint32")

    @pytest.mark.parametrize("level", dg.FeatureLevel, ids=str)
    def test_levels_of_the_output(self, level: dg.FeatureLevel) -> None:
        def node_at(graph: dg.Graph, dtype: str, rank: int) -> None:
            x = graph.input("x", sizes=[1] * rank, dtype="float32")
            add_node(graph, self.operator, [x, x], dtype=dtype)

        check_level(parse_levels(self.output_levels), level, node_at)

    def test_uint32_where_asked_for(self, device: str) -> None:
        got = run(self.operator, self.sample.inputs, device=device, dtype="uint32")
        assert_same(got, self.sample.gives[0].astype("uint32"))
        same = run(self.operator, self.sample.inputs, device=device, output={"dtype": "uint32"})
        assert_same(same, got)

    def test_output_is_uint8_or_uint32(self) -> None:
        error = refused(self.operator, self.sample.inputs, dtype="float32")
        assert (error.field, error.got, error.allowed) == ("output.dtype", "float32", "uint32, uint8")

    def test_both_inputs_have_one_data_type_without_a_graph(self) -> None:
        descs = {name: dg.TensorDesc(dtype=dtype, sizes=[2]) for name, dtype in (("a", "int8"), ("b", "uint8"))}
        with pytest.raises(dg.OperatorError, match="same dtype as 'a'"):
            operator_class(self.operator)(**descs)

    def test_python_numbers_are_compared_in_the_tensors_type(self, device: str) -> None:
        got = run(self.operator, [array([1, 2, 3], "int64"), 2], device=device)
        assert_same(got, run(self.operator, [array([1, 2, 3], "int64"), array([2, 2, 2], "int64")], device=device))
