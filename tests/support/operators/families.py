"""The checks of families of operators, in addition to those that every operator passes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pytest
from support.nodes import operator_of
from support.operators.checks import BinaryTests, OperatorTests, check_level
from support.operators.harness import (
    Array,
    Case,
    add_node,
    array,
    assert_same,
    build,
    operator_class,
    parse_levels,
    refused,
    run,
)
from support.problems import expect, raises

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices.names import DeviceName


class ApproximatedTests(OperatorTests):
    """The reference is exact; a device's float32 results are within `error`, except in rows that are known to differ.

    Attributes:
        error: the absolute error that DirectML's float32 results may have.
        differing: row → the results of DirectML.
    """

    error: ClassVar[float]
    differing: ClassVar[dict[str, str]] = {}

    def assert_close(self, got: Array, expected: Array, device: DeviceName) -> None:
        if device != "directml:software" or expected.dtype != np.float32:
            super().assert_close(got, expected, device)
            return
        finite = np.isfinite(expected)
        assert_same(got[~finite], expected[~finite])
        np.testing.assert_allclose(got[finite], expected[finite], rtol=0, atol=self.error)

    def check_row(self, case: Case, device: DeviceName) -> None:
        if device == "directml:software" and case.why in self.differing:
            with pytest.raises(
                AssertionError
            ):  # if this fails, DirectML no longer differs: remove the row from `differing`
                super().check_row(case, device)
            return
        super().check_row(case, device)


class TypedOutputTests(OperatorTests):
    """Operators whose output has another data type than the inputs.

    Attributes:
        output_levels: by feature level, what is legal for the output, as `parse_levels` reads it.
        input_dtype: a data type that is legal for the inputs at every level.
        output_dtype: one that is legal for the output.
    """

    output_levels: ClassVar[str]
    input_dtype: ClassVar[DataTypeName] = "float32"
    output_dtype: ClassVar[DataTypeName]

    def node_at(self, graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
        self._node(graph, dtype, rank, self.output_dtype)

    def _node(self, graph: dg.Graph, dtype: DataTypeName, rank: int, output: str) -> None:
        x = graph.input("x", sizes=[1] * rank, dtype=dtype)
        add_node(graph, self.operator, [x] * len(operator_class(self.operator).input_fields), dtype=output)

    @pytest.mark.parametrize("level", dg.FeatureLevel, ids=str)
    def test_levels_of_the_output(self, level: dg.FeatureLevel) -> None:
        def node_at(graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
            self._node(graph, self.input_dtype, rank, dtype)

        check_level(parse_levels(self.output_levels), level, node_at)


class RetypedTests(TypedOutputTests):
    """f(x), a whole number for each element, in uint8, or in another type if it is requested and legal."""

    output_dtype = "uint8"

    def test_other_types_where_asked_for(self, device: DeviceName) -> None:
        (*_, newest) = parse_levels(self.output_levels).values()
        for dtype in newest.dtypes:
            for asked in ({"dtype": dtype}, {"dtype": np.dtype(dtype)}, {"output": {"dtype": dtype}}):
                got = run(self.operator, self.sample.inputs, device=device, **asked, **self.sample.fields)
                assert_same(got, self.sample.gives[0].astype(dtype))

    def test_sizes_of_the_output_are_those_of_the_input(self) -> None:
        (x,) = self.sample.inputs
        error = refused(self.operator, [x], output={"sizes": x.shape[::-1]}, **self.sample.fields)
        assert (error.field, error.got) == ("output.sizes", str(list(x.shape[::-1])))
        assert error.allowed == str(list(x.shape))


class ComparisonTests(TypedOutputTests, BinaryTests):
    """Comparisons of a and b: 1 or 0, in uint8 or uint32."""

    levels = "1.0: 4D F32 F16 | 2.1: 4D ALL8 | 3.0: 1-8D ALL8 | 4.1: 1-8D ALL10"
    output_levels = "1.0: 4D U32 | 2.0: 4D U32 U8 | 3.0: 1-8D U32 U8"
    output_dtype = "uint32"

    def test_uint32_where_asked_for(self, device: DeviceName) -> None:
        got = run(self.operator, self.sample.inputs, device=device, dtype="uint32")
        assert_same(got, self.sample.gives[0].astype("uint32"))
        same = run(self.operator, self.sample.inputs, device=device, output={"dtype": "uint32"})
        assert_same(same, got)

    def test_output_is_uint8_or_uint32(self) -> None:
        error = refused(self.operator, self.sample.inputs, dtype="float32")
        assert (error.field, error.got, error.allowed) == ("output.dtype", "float32", "uint32, uint8")

    def test_both_inputs_have_one_data_type_without_a_graph(self) -> None:
        descs = {name: dg.TensorDesc(dtype=dtype, sizes=[2]) for name, dtype in (("a", "int8"), ("b", "uint8"))}
        with raises(dg.OperatorError, "dtype", field="b"):
            operator_class(self.operator)(**descs)

    def test_python_numbers_are_compared_in_the_tensors_type(self, device: DeviceName) -> None:
        got = run(self.operator, [array([1, 2, 3], "int64"), 2], device=device)
        assert_same(got, run(self.operator, [array([1, 2, 3], "int64"), array([2, 2, 2], "int64")], device=device))


class FillTests(OperatorTests):
    """Operators without inputs; `attributes` are values that every data type can hold."""

    attributes: ClassVar[dict[str, Any]]

    def node_at(self, graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
        add_node(graph, self.operator, sizes=[1] * rank, dtype=dtype, **self.attributes)

    @pytest.mark.parametrize("missing", ["dtype", "sizes"])
    def test_dtype_and_sizes_must_be_given(self, missing: str) -> None:
        fields = {key: value for key, value in self.sample.fields.items() if key != missing}
        error = refused(self.operator, **fields)
        expect(error, "undetermined", field=f"output.{missing}")

    def test_value_data_type_is_that_of_the_output(self, device: DeviceName) -> None:
        got = run(self.operator, device=device, value_data_type="float32", **self.sample.fields)
        assert_same(got, self.sample.gives[0])
        error = refused(self.operator, value_data_type="int32", **self.sample.fields)
        assert (error.field, error.got, error.allowed) == ("value_data_type", "int32", "float32")

    def test_value_data_type_is_filled_in(self) -> None:
        graph, _ = build(self.operator, **self.sample.fields)
        assert operator_of(graph.node("node")).value_data_type is dg.DataType.FLOAT32

    def test_strides_may_be_given_directly(self, device: DeviceName) -> None:
        graph, _ = build(self.operator, strides=[1, 2], **self.sample.fields)
        assert graph.outputs["y0"].desc.strides == (1, 2)
        assert_same(graph.compile(device=device, fuse=False).run()["y0"], self.sample.gives[0])

    def test_eight_dimensions_are_legal_from_4_0(self, device: DeviceName) -> None:
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


class ShapedTests(OperatorTests):
    """In addition to the attributes of `OperatorTests`, a subclass states:

    Attributes:
        kinds: a letter for each input; inputs with the same letter have the same data type.
        main: the letter of the inputs that `levels` describes.
        dtypes: by letter, a data type that is legal at every level.
        others: by letter, the levels of the other inputs.
    """

    kinds: ClassVar[str] = "x"
    main: ClassVar[str] = "x"
    dtypes: ClassVar[Mapping[str, DataTypeName]] = {"x": "float32", "i": "uint32"}
    others: ClassVar[Mapping[str, str]] = {}

    def at_rank(self, rank: int) -> tuple[list[list[int]], dict[str, Any]]:
        """The inputs' sizes and the fields of a node with this number of dimensions."""
        raise NotImplementedError

    def node_at(self, graph: dg.Graph, dtype: DataTypeName, rank: int) -> None:
        self.node_with(graph, self.main, dtype, rank)

    def node_with(self, graph: dg.Graph, kind: str, dtype: DataTypeName, rank: int) -> None:
        """Adds the operator; inputs of a kind have a data type."""
        sizes, fields = self.at_rank(rank)
        tensors = [
            graph.input(f"x{index}", sizes=each, dtype=dtype if of == kind else self.dtypes[of])
            for index, (of, each) in enumerate(zip(self.kinds, sizes, strict=True))
        ]
        add_node(graph, self.operator, tensors, **fields)

    @pytest.mark.parametrize("level", dg.FeatureLevel, ids=str)
    def test_levels_of_other_inputs(self, level: dg.FeatureLevel) -> None:
        for kind, levels in self.others.items():
            check_level(
                parse_levels(levels), level, lambda *node, kind=kind: self.node_with(node[0], kind, node[1], node[2])
            )
