"""Tensors without elements inside models: DirectML has none, so the import computes around them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from support.onnx.parsed import assert_agrees, imported, model_of
from support.problems import raises

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName

DEVICES = ["reference", "cpu", "directml:software"]
X = np.arange(6, dtype=np.float32).reshape(2, 3)

pytestmark = pytest.mark.usefixtures("directml_path")

GRAPHS = {
    "a cache of no tokens": """g (float[2,3] x, float[0,3] past) => (float[N,3] y) {
        y = Concat<axis = 0>(past, x)
    }""",
    "element by element, then joined": """g (float[2,3] x, float[0,3] past) => (float[N,3] y) {
        row = ReduceMean<keepdims = 1>(x)
        scaled = Mul(past, row)
        moved = Relu(scaled)
        y = Concat<axis = 0>(x, moved, x)
    }""",
    "a product of no depth": """g (float[2,3] x, float[2,0] a, float[0,3] b) => (float[2,3] y) {
        zeros = MatMul(a, b)
        y = Add(x, zeros)
    }""",
    "a product of no rows": """g (float[2,3] x, float[0,2] a) => (float[N,3] y) {
        none = MatMul(a, x)
        y = Concat<axis = 0>(none, x)
    }""",
    "no windows": """g (float[2,3] x) => (float[N,3] y) <int64[1] zero = {0}, int64[1] none = {0}> {
        part = Slice(x, zero, none)
        views = Transpose<perm = [1, 0]>(part)
        back = Transpose<perm = [1, 0]>(views)
        y = Concat<axis = 0>(back, x)
    }""",
    "no indices": """g (float[2,3] x) => (float[N,3] y) <int64[0] none = {}> {
        part = Gather(x, none)
        y = Concat<axis = 0>(part, x)
    }""",
    "no tuples of indices": """g (float[2,3] x) => (float[N,3] y) <int64[0,1] none = {}> {
        part = GatherND(x, none)
        y = Concat<axis = 0>(part, x)
    }""",
    "no updates": """g (float[2,3] x, float[0,3] updates) => (float[2,3] y) <int64[0,1] none = {}> {
        y = ScatterND(x, none, updates)
    }""",
    "nothing but padding": """g (float[2,3] x) => (float[N,3] y) <int64[4] pads = {1, 0, 0, 0}, int64[1] zero = {0}> {
        part = Slice(x, zero, zero)
        two = Constant<value_float = 2.0>()
        padded = Pad(part, pads, two)
        y = Concat<axis = 0>(padded, x)
    }""",
    "no repeats": """g (float[2,3] x) => (float[N,3] y) <int64[2] repeats = {0, 1}> {
        part = Tile(x, repeats)
        y = Concat<axis = 0>(part, x)
    }""",
    "the greatest none": """g (float[2,3] x) => (float[2,N] y) <int64[1] k = {0}> {
        values, indices = TopK(x, k)
        y = Concat<axis = 1>(values, x)
    }""",
    "an empty sum": """g (float[2,3] x, float[2,0] past) => (float[2,3] y) <int64[1] axis = {1}> {
        sum = ReduceSum(past, axis)
        y = Add(x, sum)
    }""",
    "sizes of what is empty": """g (float[2,3] x, float[0,3] past) => (int64[N] y) {
        shape = Shape(past)
        count = Shape<start = 0, end = 1>(x)
        y = Concat<axis = 0>(shape, count)
    }""",
    "a loop of no steps": """g (float[2,3] x) => (float[N,3] y) <int64 none = {0}, bool yes = {1}> {
        rows = Loop(none, yes) <body = b (int64 i, bool c) => (bool d, float[3] row) {
            d = Identity(c)
            row = Constant<value_floats = [1.0, 2.0, 3.0]>()
        }>
        y = Concat<axis = 0>(rows, x)
    }""",
    "expanded to nothing": """g (float[2,3] x, float[1,3] one) => (float[N,3] y) <int64[2] none = {0, 3}> {
        part = Expand(one, none)
        y = Concat<axis = 0>(part, x)
    }""",
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_results_are_those_of_onnx_runtime(graph: str, device: DeviceName) -> None:
    model = model_of(graph)
    sizes = {each.name: [dim.dim_value for dim in each.type.tensor_type.shape.dim] for each in model.graph.input}
    feeds = {name: X if name == "x" else np.ones(shape, np.float32) for name, shape in sizes.items()}
    assert_agrees(model, feeds, device)


def test_an_input_without_elements_is_no_input_of_the_graph() -> None:
    graph = imported(model_of(GRAPHS["a cache of no tokens"]))
    assert [each.name for each in graph.inputs] == ["x"]


def test_an_output_without_elements_is_refused() -> None:
    with raises(dg.ModelError, "empty-tensor", node="empty", got=[0, 3]):
        imported(model_of("g (float[0,3] x) => (float[0,3] empty) {empty = Relu(x)}"))


def test_reflected_padding_has_nothing_to_reflect() -> None:
    model = model_of(
        """g (float[2,3] x) => (float[N,3] y) <int64[4] pads = {1, 0, 0, 0}, int64[1] zero = {0}> {
            part = Slice(x, zero, zero)
            padded = Pad<mode = "edge">(part, pads)
            y = Concat<axis = 0>(padded, x)
        }"""
    )
    onnx.checker.check_model(model)
    with raises(dg.ModelError, "empty-tensor", node="padded", field="mode", got="edge"):
        imported(model)


def test_a_window_larger_than_any_tensor_is_refused() -> None:
    """ONNX infers sizes below zero for it."""
    text = "g (float[1,0,32,32] x) => (float[A,B,C,D] y) {y = LpPool<kernel_shape = [2, 2147483648], p = 4>(x)}"
    with pytest.raises(dg.ModelError) as caught:
        imported(model_of(text))
    assert caught.value.node == "y"
