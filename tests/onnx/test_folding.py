"""Nodes whose inputs are known: they are computed on the host as ONNX Runtime computes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper
from onnx_runtime import session

from dmlgraph.onnx import folding
from dmlgraph.onnx.refusals import Refusal

Array = np.ndarray[Any, Any]
INT64_MAX = 2**63 - 1
OPSET = 18


def of_onnx_runtime(node: onnx.NodeProto, inputs: list[Array], rank: int) -> Array:
    def info(name: str, array: Array, sizes: Any) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), sizes)

    declared = [info(name, each, each.shape) for name, each in zip(node.input, inputs, strict=True)]
    graph = helper.make_graph([node], "known", declared, [info("y", inputs[0], [None] * rank)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
    return session(model.SerializeToString())(dict(zip(node.input, inputs, strict=True)))["y"]


def agrees(node: onnx.NodeProto, inputs: list[Array]) -> None:
    (got,) = folding.evaluate(node, OPSET, inputs)
    np.testing.assert_array_equal(got, of_onnx_runtime(node, inputs, got.ndim), strict=True)


shapes = st.lists(st.integers(1, 6), min_size=1, max_size=3).map(tuple)
seeds = st.integers(0, 2**32 - 1)


@given(shapes, st.data(), seeds)
def test_gather_elements(shape: tuple[int, ...], data: st.DataObject, seed: int) -> None:
    """Indices may have fewer elements than the data along other axes, and any number along theirs."""
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    sizes = [data.draw(st.integers(1, size)) for size in shape]
    sizes[axis] = data.draw(st.sampled_from([1, 2, 7, 24, 40]))
    random = np.random.default_rng(seed)
    indices = random.integers(-shape[axis], shape[axis], sizes)
    node = helper.make_node("GatherElements", ["x", "i"], ["y"], axis=axis)
    agrees(node, [random.integers(0, 100, shape), indices])


def test_a_table_of_positions_is_gathered_from() -> None:
    """As exported language models do with the types of their tokens."""
    node = helper.make_node("GatherElements", ["x", "i"], ["y"], axis=1)
    agrees(node, [np.arange(512)[None], np.arange(24)[None]])


def test_an_index_beyond_the_data_is_refused() -> None:
    node = helper.make_node("GatherElements", ["x", "i"], ["y"], axis=1)
    with pytest.raises(Refusal, match="cannot be computed: index 5 is out of bounds"):
        folding.evaluate(node, OPSET, [np.arange(4)[None], np.array([[5]])])


@given(shapes, st.data(), seeds)
def test_slice(shape: tuple[int, ...], data: st.DataObject, seed: int) -> None:
    axes = data.draw(st.permutations(range(len(shape))))[: data.draw(st.integers(1, len(shape)))]
    place = st.one_of(st.integers(-8, 8), st.sampled_from([INT64_MAX, -INT64_MAX]))
    starts, ends, steps = (
        np.array([data.draw(each) for _ in axes], np.int64) for each in (place, place, st.sampled_from([-2, -1, 1, 3]))
    )
    ends = np.where(steps < 0, np.minimum(ends, 8), ends)  # ONNX Runtime takes the greatest number for the beginning
    signs = np.array([axis - len(shape) if data.draw(st.booleans()) else axis for axis in axes], np.int64)
    node = helper.make_node("Slice", ["x", "s", "e", "a", "t"], ["y"])
    agrees(node, [np.random.default_rng(seed).integers(0, 100, shape), starts, ends, signs, steps])


def test_an_old_slice_has_attributes() -> None:
    node = helper.make_node("Slice", ["x"], ["y"], axes=[0, 1], starts=[1, -2], ends=[INT64_MAX, 100])
    (got,) = folding.evaluate(node, 9, [np.arange(12).reshape(3, 4)])
    np.testing.assert_array_equal(got, [[6, 7], [10, 11]])
