"""What the tests of the operators share that answer with a whole number about each element."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

import dmlgraph as dg

from .checks import OperatorTests, check_level
from .harness import add_node, assert_same, parse_levels, refused, run


class RetypedTests(OperatorTests):
    """f(x) in uint8, or in another type where it is asked for and legal.

    Attributes:
        output_levels: what the output may be by feature level, as `parse_levels` reads it.
        input_dtype: a data type that the input may have at every level.
    """

    output_levels: ClassVar[str]
    input_dtype: ClassVar[str] = "float32"

    def node_at(self, graph: dg.Graph, dtype: str, rank: int) -> None:
        add_node(graph, self.operator, [graph.input("x", sizes=[1] * rank, dtype=dtype)], dtype="uint8")

    @pytest.mark.parametrize("level", dg.FeatureLevel, ids=str)
    def test_levels_of_the_output(self, level: dg.FeatureLevel) -> None:
        def node_at(graph: dg.Graph, dtype: str, rank: int) -> None:
            x = graph.input("x", sizes=[1] * rank, dtype=self.input_dtype)
            add_node(graph, self.operator, [x], dtype=dtype)

        check_level(parse_levels(self.output_levels), level, node_at)

    def test_other_types_where_asked_for(self, device: str) -> None:
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
