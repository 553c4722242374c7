"""Graphs become models: the JSON that is written, and the same graph when it is loaded."""

from __future__ import annotations

import json
import math
import pathlib
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.problems import raises

import dmlgraph as dg
from dmlgraph.base.errors import BindingError, GraphError, OperatorError
from dmlgraph.formats.dxdispatch import dumps, load, loads
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.operators import REGISTRY
from dmlgraph.operators.catalog.examples import example


def written(graph: dg.Graph, **inputs: Any) -> dict[str, Any]:
    model: dict[str, Any] = json.loads(dumps(graph, inputs=inputs))
    return model


def bits(graph: dg.Graph, inputs: dict[str, Any] | None = None) -> dict[str, tuple[Any, ...]]:
    """The outputs on the reference, bit for bit."""
    results = graph.compile("reference", fuse=False).run(inputs or {})
    return {name: (each.dtype, each.shape, each.tobytes()) for name, each in results.items()}


def constant(data: Any, dtype: Any = None) -> dg.Graph:
    """A graph whose output is an identity of a constant."""
    graph = dg.Graph()
    graph.output("y", dg.identity(graph.constant("k", data, dtype=dtype)))
    return graph


@pytest.mark.parametrize("name", sorted(name for name, each in REGISTRY.items() if not each.is_view))
def test_every_operator_comes_back_as_it_was(name: str):
    graph = dg.loads(example(REGISTRY[name]))
    model = written(graph)
    again = loads(json.dumps(model))
    inputs = {
        node.name: (np.arange(node.desc.element_count) % 3).reshape(node.desc.sizes).astype(node.desc.dtype.numpy)
        for node in graph.inputs
    }
    assert bits(again, inputs) == bits(graph, inputs)
    assert written(again) == model
    kinds = {each["type"] for each in model["dispatchables"].values()}
    assert f"DML_OPERATOR_{REGISTRY[name].dml}".replace("SCATTER_ELEMENTS", "SCATTER") in kinds


@pytest.mark.parametrize("name", sorted(name for name, each in REGISTRY.items() if each.is_view))
def test_views_become_strides(name: str):
    (view,) = (node for node in dg.loads(example(REGISTRY[name])).nodes if isinstance(node, OperatorNode))
    graph = dg.Graph("view")
    x = graph.input("x", sizes=[1, 1, 2, 3], dtype="float32")
    (seen,) = graph.add(type(view.operator), {"input": dg.exp(x)}, view.attributes, {})
    assert seen is not None
    graph.output("y", dg.negate(seen))
    graph.output("z", seen)
    model = written(graph)
    assert {each["type"] for each in model["dispatchables"].values()} <= {
        *("DML_OPERATOR_ELEMENT_WISE_EXP", "DML_OPERATOR_ELEMENT_WISE_NEGATE", "DML_OPERATOR_ELEMENT_WISE_IDENTITY"),
        "DML_OPERATOR_SLICE1",
    }
    last = model["dispatchables"]["negate"]["desc"]["InputTensor"]
    assert tuple(last["Sizes"]) == seen.sizes


def test_the_model_of_a_graph():
    graph = dg.Graph("affine")
    x = graph.input("x", sizes=[2, 2], dtype="float32")
    k = graph.constant("k", [[1], [2.5]], dtype="float32")
    ramp = graph.fill_value_sequence(sizes=[2, 2], dtype="float32", value_start=3, value_delta=0.1, name="ramp")
    total = dg.add1(x * k, ramp, fused_activation={"op": "activation_elu", "alpha": 2}, name="total")
    graph.output("y", total)
    plain = {"DataType": "FLOAT32", "Sizes": [2, 2]}
    four = {"valueCount": 4, "value": 0}
    assert written(graph, x=[[1, 2], [3, 4]]) == {
        "resources": {
            "x": {"initialValuesDataType": "FLOAT32", "initialValues": [1, 2, 3, 4]},
            "k": {
                "initialValuesDataType": "FLOAT32",
                "initialValues": [1, 2.5],
                "tensor": {"DataType": "FLOAT32", "Sizes": [2, 1]},
            },
            "y": {"initialValuesDataType": "FLOAT32", "initialValues": four},
            "multiply": {"initialValuesDataType": "FLOAT32", "initialValues": four},
            "ramp": {"initialValuesDataType": "FLOAT32", "initialValues": four},
        },
        "dispatchables": {
            "ramp": {
                "type": "DML_OPERATOR_FILL_VALUE_SEQUENCE",
                "desc": {"OutputTensor": plain, "ValueDataType": "FLOAT32", "ValueStart": 3, "ValueDelta": 0.1},
            },
            "multiply": {
                "type": "DML_OPERATOR_ELEMENT_WISE_MULTIPLY",
                "desc": {"ATensor": plain, "BTensor": plain | {"Strides": [1, 0]}, "OutputTensor": plain},
            },
            "total": {
                "type": "DML_OPERATOR_ELEMENT_WISE_ADD1",
                "desc": {
                    "ATensor": plain,
                    "BTensor": plain,
                    "OutputTensor": plain,
                    "FusedActivation": {"Type": "DML_OPERATOR_ACTIVATION_ELU", "Alpha": 2},
                },
            },
        },
        "commands": [
            {"type": "dispatch", "dispatchable": "ramp", "bindings": {"OutputTensor": "ramp"}},
            {
                "type": "dispatch",
                "dispatchable": "multiply",
                "bindings": {"ATensor": "x", "BTensor": "k", "OutputTensor": "multiply"},
            },
            {
                "type": "dispatch",
                "dispatchable": "total",
                "bindings": {"ATensor": "multiply", "BTensor": "ramp", "OutputTensor": "y"},
            },
            {"type": "print", "resource": "y"},
        ],
    }


def test_counts_enumerators_and_small_structs_are_written_as_directml_has_them():
    graph = dg.Graph()
    x = graph.input("x", sizes=[1, 1, 2, 2], dtype="float32")
    graph.output("y", dg.upsample_2d(x, scale_size=[2, 3], interpolation_mode="linear", name="up"))
    graph.output("z", dg.reduce(x, function="sum", axes=[2, 3], name="sum"))
    graph.output("w", dg.abs(x, scale_bias={"scale": 0.1, "bias": -1}, name="abs"))
    descs = {name: each["desc"] for name, each in written(graph)["dispatchables"].items()}
    assert descs["up"]["ScaleSize"] == {"Width": 2, "Height": 3}
    assert descs["up"]["InterpolationMode"] == "DML_INTERPOLATION_MODE_LINEAR"
    assert (descs["sum"]["Function"], descs["sum"]["AxisCount"], descs["sum"]["Axes"]) == (
        "DML_REDUCE_FUNCTION_SUM",
        2,
        [2, 3],
    )
    assert descs["abs"]["ScaleBias"] == {"Scale": 0.1, "Bias": -1}


# Constants.

RAMP = np.arange(100, dtype=np.float32)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (np.array([1, 2], np.int8), ("INT8", [1, 2])),
        (np.array([0.1, -0.0, np.inf, -np.inf, np.nan], np.float16), ("FLOAT16", [0.1, -0.0, "inf", "-inf", "nan"])),
        (np.array([0.1, 1 / 3]), ("FLOAT64", [0.1, 1 / 3])),
        (np.array([0]), ("INT64", [0])),  # a list, because a constant 0 means a buffer without content
        (np.full(100, 2.5, np.float32), ("FLOAT32", {"valueCount": 100, "value": 2.5})),
        (np.zeros(100, np.uint8), ("UINT8", {"valueCount": 100, "valueStart": 0, "valueDelta": 0})),
        (np.full(100, np.nan), ("FLOAT64", {"valueCount": 100, "value": "nan"})),
        (np.arange(100, 0, -1, dtype=np.uint8), ("UINT8", {"valueCount": 100, "valueStart": 100, "valueDelta": 255})),
        (np.full(100, -0.0, np.float32), ("FLOAT32", {"valueCount": 100, "value": -0.0})),
        (RAMP * 2 + 1, ("FLOAT32", {"valueCount": 100, "valueStart": 1.0, "valueDelta": 2.0})),
        (np.arange(100, dtype=np.uint16), ("UINT16", {"valueCount": 100, "valueStart": 0, "valueDelta": 1})),
        (RAMP * RAMP, ("FLOAT32", (RAMP * RAMP).tolist())),
    ],
    ids=lambda each: str(each[0]) if isinstance(each, tuple) else "",
)
def test_a_constant_is_written_as_short_as_it_can_be(data: Any, expected: tuple[str, Any]):
    graph = constant(data)
    resource = written(graph)["resources"]["k"]
    assert repr((resource["initialValuesDataType"], resource["initialValues"])) == repr(expected)  # −0.0 is equal to 0
    again = loads(dumps(graph))
    assert not again.inputs
    assert bits(again) == bits(graph)


def test_many_different_numbers_go_into_a_file_beside_the_model(tmp_path: pathlib.Path):
    graph = constant((RAMP * RAMP).reshape(4, 25).astype(np.float16))
    dg.save_dxdispatch(graph, tmp_path / "m.json")
    assert json.loads((tmp_path / "m.json").read_text(encoding="utf-8"))["resources"]["k"]["initialValues"] == {
        "sourcePath": "m.k.npy"
    }
    assert bits(load(tmp_path / "m.json")) == bits(graph)


def test_each_large_array_has_a_file_of_its_own(tmp_path: pathlib.Path):
    graph = dg.Graph()
    for index, name in enumerate(("a/b", "a:b")):
        graph.output(f"y{index}", dg.identity(graph.constant(name, RAMP * RAMP + index)))
    dg.save_dxdispatch(graph, tmp_path / "m.json")
    assert sorted(each.name for each in tmp_path.glob("*.npy")) == ["m.a%2Fb.npy", "m.a%3Ab.npy"]
    assert bits(load(tmp_path / "m.json")) == bits(graph)


@pytest.mark.parametrize("dtype", ["uint4", "int4"])
def test_numbers_of_4_bits_are_written_two_a_byte(dtype: str):
    graph = dg.Graph()
    k = graph.constant("k", np.array([1, 2, 7], getattr(ml_dtypes, dtype)))
    scale = graph.constant("scale", [1.0], dtype="float32")
    graph.output("y", dg.dequantize(k, [scale], quantization_type="scale"))
    resource = written(graph)["resources"]["k"]
    assert (resource["initialValuesDataType"], resource["initialValues"]) == ("UINT8", [0x21, 0x07])
    assert bits(loads(dumps(graph))) == bits(graph)


def test_an_unusual_nan_keeps_its_bits():
    graph = constant(np.array([0x7FC00001, 0x3F800000], np.uint32).view(np.float32))
    assert written(graph)["resources"]["k"]["initialValuesDataType"] == "UINT32"
    assert bits(loads(dumps(graph))) == bits(graph)


@given(values=st.lists(st.floats(width=32), min_size=1, max_size=8))
def test_float32_numbers_keep_their_bits(values: list[float]):
    graph = constant(np.array(values, np.float32))
    assert bits(loads(dumps(graph))) == bits(graph)


@given(alpha=st.floats(width=32))
def test_attributes_keep_their_bits(alpha: float):
    graph = dg.Graph()
    graph.output("y", dg.activation_linear(graph.input("x", sizes=[1], dtype="float32"), alpha=alpha, beta=0))
    (node,) = [each for each in loads(dumps(graph)).nodes if each.name == "activation_linear"]
    again = node.operator.attributes["alpha"]  # type: ignore[union-attr]
    assert again == alpha or (math.isnan(again) and math.isnan(alpha))


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("float32", math.inf, {"Float32": "inf"}),
        ("float64", math.nan, {"Float64": "nan"}),
        ("float16", -math.inf, {"UInt16": 0xFC00}),
        ("float16", {"bits": 0x7E01}, {"UInt16": 0x7E01}),
        ("uint8", -1, 255),
    ],
)
def test_a_scalar_that_is_no_number_is_written_as_a_union(dtype: str, value: Any, expected: Any):
    graph = dg.Graph()
    graph.output("y", graph.fill_value_constant(sizes=[2], dtype=dtype, value=value, name="fill"))
    assert written(graph)["dispatchables"]["fill"]["desc"]["Value"] == expected
    assert bits(loads(dumps(graph))) == bits(graph)


def test_a_nan_the_format_cannot_hold_is_refused():
    graph = dg.Graph()
    graph.output("y", graph.fill_value_constant(sizes=[2], dtype="float32", value={"bits": 0x7FC00001}, name="fill"))
    with raises(OperatorError, "does-not-fit", node="fill", field="Value", got="{'bits': '0x7fc00001'}"):
        dumps(graph)


# Inputs and outputs.


def test_inputs_hold_what_is_given_and_strides_are_kept():
    graph = dg.Graph()
    x = graph.input("x", sizes=[2, 3], dtype="float32", strides=[1, 2])
    graph.output("y", dg.identity(x, output={"strides": [1, 2]}))
    resources = written(graph, x=[[1, 2, 3], [4, 5, 6]])["resources"]
    assert resources["x"]["initialValues"] == [1, 4, 2, 5, 3, 6]
    again = loads(dumps(graph))
    assert again.inputs[0].desc.strides == again.outputs["y"].desc.strides == (1, 2)


def test_an_owned_input_is_bound_by_the_dispatchable():
    graph = dg.Graph()
    w = graph.input("w", sizes=[1, 1, 1, 1], dtype="float32", owned=True)
    x = graph.input("x", sizes=[1, 1, 2, 2], dtype="float32")
    graph.output("y", dg.convolution(x, w, name="conv"))
    model = written(graph)
    assert model["dispatchables"]["conv"]["bindings"] == {"FilterTensor": "w"}
    assert model["commands"][0]["bindings"] == {"InputTensor": "x", "OutputTensor": "y"}
    assert {node.name: node.desc.owned for node in loads(json.dumps(model)).inputs} == {"w": True, "x": False}


def test_an_output_that_is_no_result_of_its_own_comes_back():
    graph = dg.Graph()
    x = graph.input("x", sizes=[2], dtype="float32")
    y = dg.activation_relu(x)
    graph.output("a", y)
    graph.output("b", y)
    graph.output("x", x)
    graph.output("k", graph.constant("k", [1, 2], dtype="int32"))
    graph.output("f", graph.constant("f", np.array([1, -2, 7], ml_dtypes.int4)))
    graph.output("t", graph.input("transposed", sizes=[2, 3], strides=[1, 2], dtype="float64"))
    again = loads(dumps(graph))
    inputs = {"x": np.array([-1, 1], np.float32), "transposed": np.arange(6.0).reshape(2, 3)}
    assert bits(again, inputs) == bits(graph, inputs)
    assert [node.name for node in again.nodes] == ["x", "activation_relu", "k", "f", "transposed"]
    shown = [each["resource"] for each in written(graph)["commands"] if each["type"] == "print"]
    assert shown == ["a", "a", "x", "k", "f", "transposed"]


def test_a_graph_without_operators_comes_back():
    graph = dg.Graph()
    graph.output("y", graph.input("x", sizes=[2], dtype="float16"))
    inputs = {"x": np.array([-1, 1], np.float16)}
    assert bits(loads(dumps(graph)), inputs) == bits(graph, inputs)


def test_names_may_be_those_of_other_things():
    graph = dg.Graph()
    x = graph.input("multiply", sizes=[2], dtype="float32")
    square = x * x
    graph.output("multiply", dg.negate(square, name="b"))
    graph.output("b", square)
    inputs = {"multiply": np.array([2, 3], np.float32)}
    again = loads(dumps(graph))
    assert bits(again, inputs) == bits(graph, inputs)


def test_what_no_output_depends_on_is_left_out():
    graph = dg.Graph()
    x = graph.input("x", sizes=[2], dtype="float32")
    dg.exp(x)
    graph.output("y", dg.negate(x))
    assert list(written(graph)["dispatchables"]) == ["negate"]


def test_dims_are_written_with_their_values():
    graph = dg.Graph(dims={"N": 3})
    graph.output("y", dg.negate(graph.input("x", sizes=["N", 2], dtype="float32")))
    assert written(graph.with_dims({"N": 5}))["resources"]["y"]["initialValues"]["valueCount"] == 10


@pytest.mark.parametrize(
    ("inputs", "code", "field", "got"),
    [
        ({"z": [1, 2]}, "unknown-array", "z", None),
        ({"x": [1, 2, 3]}, "sizes", "x", [3]),
        ({"x": ["a", 2]}, "kind", "x", "a"),
    ],
)
def test_an_array_that_does_not_fit_is_refused(inputs: dict[str, Any], code: str, field: str, got: object):
    graph = dg.Graph()
    graph.output("y", dg.negate(graph.input("x", sizes=[2], dtype="float32")))
    with raises(BindingError, code, field=field, got=got):
        dumps(graph, inputs=inputs)


def test_a_graph_without_outputs_is_refused():
    with raises(GraphError, "no-outputs"):
        dumps(dg.Graph())
