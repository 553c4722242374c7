"""Nodes whose inputs are known: they are computed on the host as ONNX Runtime computes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper
from support.onnx.onnx_runtime import session
from support.problems import raises

import dmlgraph as dg
from dmlgraph.formats.onnx import folding
from dmlgraph.formats.onnx.importer import Importer
from dmlgraph.formats.onnx.model import parse
from dmlgraph.formats.onnx.refusals import Refusal

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
    with pytest.raises(Refusal, match="an index is outside"):
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


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
@pytest.mark.parametrize("pads", [[1, 2], [-1, 2], [0, -2], [-1, -1]])
def test_pad(mode: Any, pads: list[int]) -> None:
    """Negative padding cuts."""
    node = helper.make_node("Pad", ["x", "p", "v", "a"], ["y"], mode=mode)
    node.input[2] = "v"
    values = [np.arange(12, dtype=np.int64).reshape(3, 4), np.array(pads), np.array(7), np.array([-1])]
    (got,) = folding.evaluate(node, OPSET + 1, values)
    (before, after), row = pads, np.arange(12).reshape(3, 4)
    row = row[:, max(-before, 0) : 4 - max(-after, 0)]
    more: dict[str, Any] = {"constant_values": 7} if mode == "constant" else {}
    np.testing.assert_array_equal(got, np.pad(row, [(0, 0), (max(before, 0), max(after, 0))], mode=mode, **more))


WEIGHTS = """
    float[2, 2] eye = {1, 0, 0, 1}, float[2] f = {3, 2}, float[2] zero = {0, 0}, float[1, 2] row = {3, 2},
    float[1, 1, 3] w = {1, 1, 1}, float[1, 1, 2] v = {1, 1}, float[2] twice = {6, 4},
    int64[2, 2] i = {1, 0, 0, 1}, int64[2] p = {3, 2}, int64[2] s = {2, 3}, int64[2] on = {1, 0}, int64[1] two = {2},
    int64[1] three = {3}, int64[1] first = {0}, int64[1] last = {-1}
"""


def graph_of(text: str) -> dg.Graph:
    """The graph of nodes that read `x` {2, 3} and constants."""
    model = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 21]>
        g (float[2, 3] x) => (float[a, b] y) <{WEIGHTS}> {{ {text} }}"""
    )
    return Importer(parse(model.SerializeToString(), None), dims={}, values={}, target=None, convert=None).read()


@pytest.mark.parametrize(
    "text",
    [
        "k = MatMul(i, p)",
        "t = MatMul(eye, f) k = Cast<to = 7>(t)",
        "t = Gemm(row, eye) c = Cast<to = 7>(t) k = Reshape(c, last)",
        'k = Einsum<equation = "ab,b->a">(i, p)',
        "t = Tile(two, two) k = Add(t, on)",
        "k, places = TopK(s, two)",
        "k = Pad(three, ends, value)",
        "t = OneHot(first, two, s) k = Reshape(t, last)",
        "t = Atan(zero) c = Cast<to = 7>(t) k = Add(c, p)",
        "t = Softmax(zero) m = Mul(t, twice) k = Cast<to = 7>(m)",
        "t = Conv(w, v) c = Cast<to = 7>(t) d = Reshape(c, last) k = Add(d, on)",
        "t = Softplus(zero) u = Floor(t) c = Cast<to = 7>(u) k = Add(c, p)",
        "t = LayerNormalization(zero, f) c = Cast<to = 7>(t) k = Add(c, p)",
        "t = Softmax(zero) c = Cast<to = 7>(t) d = MatMul(i, c) k = Add(d, p)",
        "t = Softmax(zero) c = Cast<to = 9>(t) d = ReduceMax<keepdims = 0>(t) b = Cast<to = 9>(d) "
        "k = If(b) <then_branch = one () => (int64[2] o) { o = Identity(p) }, "
        "else_branch = other () => (int64[2] o) { o = Identity(on) }>",
    ],
)
def test_what_depends_on_constants_only_is_known_where_a_rule_needs_it(text: str) -> None:
    """The shape {3, 2} by operators of all kinds, also such as DirectML has for floats only."""
    ends = "ends = Constant<value_ints = [0, 1]>() value = Constant<value_int = 2>() "
    assert graph_of(f"{ends}{text} y = Reshape(x, k)").outputs["y"].sizes == (3, 2)


def test_what_needs_the_data_is_not_known() -> None:
    with raises(dg.ModelError, "unknown-value", node="y", got="k") as caught:
        graph_of("t = ReduceMax<keepdims = 0>(x) u = Softplus(t) c = Cast<to = 7>(u) k = Reshape(c, last) "
                 "y = Reshape(x, k)")  # fmt: skip
    assert caught.value.hint is not None


def test_numbers_that_take_too_much_work_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "MOST_WORK", 3)
    with raises(dg.ModelError, "too-large", node="y", got="14 operations") as caught:
        graph_of("t = Softmax(zero) m = Mul(t, twice) k = Cast<to = 7>(m) y = Reshape(x, k)")
    assert (caught.value.code, caught.value.allowed) == ("too-large", "3")


def test_a_large_table_is_not_made() -> None:
    """Its size is known before it is computed."""
    assert not folding.can_fold("", "Tile", [np.zeros(4), np.array([1 << 40])])
    assert not folding.can_fold("", "Pad", [np.zeros(4), np.array([0, 1 << 40])])
    assert not folding.can_fold("", "MatMul", [np.zeros((2000, 2)), np.zeros((2, 2000))])


def test_an_old_slice_has_attributes() -> None:
    node = helper.make_node("Slice", ["x"], ["y"], axes=[0, 1], starts=[1, -2], ends=[INT64_MAX, 100])
    (got,) = folding.evaluate(node, 9, [np.arange(12).reshape(3, 4)])
    np.testing.assert_array_equal(got, [[6, 7], [10, 11]])
