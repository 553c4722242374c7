"""What the tests of the fills share."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

import dmlgraph as dg

from .checks import OperatorTests
from .harness import add_node, assert_same, build, refused, run


class FillTests(OperatorTests):
    """Operators without inputs; `attributes` are values that every data type takes."""

    attributes: ClassVar[dict[str, Any]]

    def node_at(self, graph: dg.Graph, dtype: str, rank: int) -> None:
        add_node(graph, self.operator, sizes=[1] * rank, dtype=dtype, **self.attributes)

    @pytest.mark.parametrize("missing", ["dtype", "sizes"])
    def test_dtype_and_sizes_must_be_given(self, missing: str) -> None:
        fields = {key: value for key, value in self.sample.fields.items() if key != missing}
        error = refused(self.operator, **fields)
        assert error.field == f"output.{missing}"
        assert "must be given" in str(error)

    def test_value_data_type_is_that_of_the_output(self, device: str) -> None:
        got = run(self.operator, device=device, value_data_type="float32", **self.sample.fields)
        assert_same(got, self.sample.gives[0])
        error = refused(self.operator, value_data_type="int32", **self.sample.fields)
        assert (error.field, error.got, error.allowed) == ("value_data_type", "int32", "float32")

    def test_value_data_type_is_filled_in(self) -> None:
        graph, _ = build(self.operator, **self.sample.fields)
        assert graph.node("node").operator.value_data_type is dg.DataType.FLOAT32

    def test_strides_may_be_given_directly(self, device: str) -> None:
        graph, _ = build(self.operator, strides=[1, 2], **self.sample.fields)
        assert graph.outputs["y0"].desc.strides == (1, 2)
        assert_same(graph.compile(device=device, fuse=False).run()["y0"], self.sample.gives[0])

    def test_eight_dimensions_are_legal_from_4_0(self, device: str) -> None:
        fields = self.attributes | {"sizes": [1] * 7 + [2], "dtype": "float32"}
        assert run(self.operator, device=device, target="4.0", **fields).shape == (1,) * 7 + (2,)
        error = refused(self.operator, target="2.1", **fields)
        assert (error.field, error.got, error.allowed) == ("output.sizes", "8 dimensions", "4 dimensions")
        assert "legal from 4.0" in str(error)

    def test_sizes_are_checked(self) -> None:
        fields = self.attributes | {"dtype": "float32"}
        for sizes, field in (([], "sizes"), ([1] * 9, "sizes"), ([2, 0], "sizes.1"), ([2**16, 2**16], "sizes")):
            error = refused(self.operator, sizes=sizes, **fields)
            assert error.field is not None
            assert error.field == f"output.{field}"
