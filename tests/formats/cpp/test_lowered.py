"""What is exported: levels, data types, errors."""

from __future__ import annotations

import pytest
from support.problems import raises

import dmlgraph as dg
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.tensor import DataType
from dmlgraph.formats.cpp.lowered import lowered


def relu() -> dg.Graph:
    g = dg.Graph("relu")
    x = g.input("x", sizes=[1, 1, 2, 3], dtype="float32")
    g.output("y", dg.activation_relu(x, name="y"))
    return g


def test_the_level_is_the_lowest_at_which_all_nodes_are_legal() -> None:
    found = lowered(relu(), fuse=True, level=None)
    assert (found.level, found.level_node) == (FeatureLevel.V2_1, None)
    g = relu()
    g.output("z", dg.activation_gelu(g.value("y"), name="z"))
    found = lowered(g, fuse=True, level=None)
    assert (found.level, found.level_node) == (FeatureLevel.V5_1, "z")


def test_the_types_that_the_device_must_support() -> None:
    g = relu()
    g.output("z", dg.cast(g.value("y"), name="z", output={"dtype": "int32"}))
    assert lowered(g, fuse=True, level=None).types == {DataType.FLOAT32: "y", DataType.INT32: "z"}


def test_a_node_that_needs_a_higher_level_is_an_error() -> None:
    g = relu()
    g.output("z", dg.activation_gelu(g.value("y"), name="z"))
    with pytest.raises(dg.OperatorError) as raised:
        lowered(g, fuse=True, level=FeatureLevel.V4_0)
    assert raised.value.problems[0].node == "z"


def test_a_tensor_that_no_buffer_holds_is_an_error() -> None:
    g = dg.Graph("large")
    x = g.input("x", sizes=[2**30], dtype="float32")
    g.output("y", dg.identity(x))
    with raises(dg.BindingError, "too-large", field="x", got="4294967296 bytes") as raised:
        lowered(g, fuse=True, level=None)
    assert [problem.field for problem in raised.value.problems] == ["x", "y"]
