"""Detours: other nodes that compute what one node computes, and passes that leave them alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.problems import raises

import dmlgraph as dg
from dmlgraph.compiler.desc import OperatorDescNode
from dmlgraph.compiler.detours import DETOURS, take
from dmlgraph.compiler.detours.compositions import COMPOSITIONS
from dmlgraph.compiler.detours.versions import VERSIONS
from dmlgraph.compiler.lowering import lower
from dmlgraph.compiler.pipeline import fuse
from dmlgraph.devices import choose
from dmlgraph.devices.cpu.target import target
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.operators.catalog.examples import example
from dmlgraph.operators.catalog.registry import REGISTRY
from dmlgraph.operators.declaration.operator import Operator

Array = np.ndarray[Any, Any]


def inputs_of(graph: dg.Graph) -> dict[str, Array]:
    """Numbers in (0, 1), where all functions are defined, and small integers."""
    chance = np.random.default_rng(0)
    return {
        node.name: chance.uniform(0.1, 0.9, node.desc.sizes).astype(node.desc.dtype.numpy)
        if node.desc.dtype.is_float
        else chance.integers(0, 2, node.desc.sizes).astype(node.desc.dtype.numpy)
        for node in graph.inputs
    }


def results(graph: dg.Graph) -> dict[str, Array]:
    return graph.compile("reference", fuse=False).run(inputs_of(graph))


def check(graph: dg.Graph, node: str, kind: str) -> list[str]:
    """Compares a graph with its detour; returns the operators of the detour."""
    other, kept = take(graph, {node: kind})
    assert list(other.outputs) == list(graph.outputs)
    found, expected = results(other), results(graph)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        tolerance = 4e-3 if array.dtype == np.float16 else 2e-5
        np.testing.assert_allclose(found[name].astype(float), array.astype(float), tolerance, tolerance)
    return [each.operator.name for each in other.nodes if isinstance(each, OperatorNode) and each.name in kept]


def of(operator: type[Operator]) -> dg.Graph:
    """The example of an operator; its last node is the operator."""
    return dg.loads(example(operator))


def last(graph: dg.Graph) -> str:
    return graph.nodes[-1].name


COMPOSED = [each for each in COMPOSITIONS if each.name not in ("convolution", "reduce")]  # see below


@pytest.mark.parametrize("operator", COMPOSED, ids=lambda each: each.name)
def test_a_composition_computes_the_same(operator: type[Operator]) -> None:
    graph = of(operator)
    assert len(check(graph, last(graph), "decomposed")) > 1 or operator.name in ("activation_relu", "sqrt", "add1")


def test_a_decomposed_elu_keeps_nan_and_large_numbers() -> None:
    g = dg.Graph()
    g.output("y", dg.activation_elu(g.input("x", sizes=[4], dtype="float16"), alpha=1, name="y"))
    other, _ = take(g, {"y": "decomposed"})
    x = np.array([np.nan, 60000, 0, -np.inf], np.float16)
    for device in ("reference", "cpu"):
        got = other.compile(device, fuse=False).run({"x": x})["y"]
        np.testing.assert_array_equal(got, np.array([np.nan, 60000, 0, -1], np.float16))


def test_sums_and_extremes_are_composed() -> None:
    for function in ("average", "l1", "l2", "sum_square", "log_sum", "log_sum_exp", "min", "max"):
        g = dg.Graph()
        x = g.input("x", sizes=[2, 3, 4], dtype="float32")
        g.output("y", dg.reduce(x, function=function, axes=[0, 2], name="r"))
        check(g, "r", "decomposed")


def test_a_convolution_gets_its_bias_afterwards() -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[1, 2, 4, 4], dtype="float32")
    w = g.input("w", sizes=[3, 2, 3, 3], dtype="float32")
    bias = g.input("bias", sizes=[1, 3, 1, 1], dtype="float32")
    y = dg.convolution(x, w, bias, fused_activation="activation_relu", start_padding=[1, 0], name="y")
    g.output("y", y)
    assert check(g, "y", "decomposed") == ["convolution", "add", "activation_relu"]


def test_attention_is_composed_of_products_and_a_softmax() -> None:
    g = dg.Graph()
    q, k, v = (g.input(name, sizes=[1, 3, 8], dtype="float32") for name in "qkv")
    g.output("y", dg.multihead_attention(q, k, v, head_count=2, scale=0.5, name="attention"))
    assert {"gemm", "activation_softmax1"} <= set(check(g, "attention", "decomposed"))


ONLY_LATER = {  # whose examples have what no earlier version has
    "mean_variance_normalization2", "slice1", "add1", "top_k1", "lp_pooling1", "max_pooling2", "depth_to_space1",
    "space_to_depth1", "gather_nd1",
}  # fmt: skip
VERSIONED = dict.fromkeys(each for pair in VERSIONS for each in (pair.earlier, pair.later))


@pytest.mark.parametrize("operator", VERSIONED, ids=lambda each: each.name)
def test_another_version_computes_the_same(operator: type[Operator]) -> None:
    graph = of(operator)
    mine = [pair for pair in VERSIONS if operator in (pair.earlier, pair.later)]
    others = {each for pair in mine for each in (pair.earlier, pair.later)}
    if operator.name in ONLY_LATER:
        with raises(dg.GraphError, "conflict", node="y"):
            check(graph, last(graph), "other_version")
        return
    (made,) = check(graph, last(graph), "other_version")
    assert REGISTRY[made] in others - {operator}


def test_earlier_versions_where_they_are_enough() -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[2, 3, 4, 5], dtype="float32")
    n = dg.mean_variance_normalization2(x, axes=[2], use_mean=True, use_variance=True, epsilon=0.1, name="n")
    s = dg.slice1(n, input_window_offsets=[0, 1, 0, 0], input_window_sizes=[2, 2, 4, 5], name="s")
    best = dg.top_k1(s, axis=3, k=2, axis_direction="decreasing", name="best")
    g.output("y", best.output_value)
    g.output("at", best.output_index)
    assert check(g, "n", "other_version") == ["mean_variance_normalization1"]
    assert check(g, "s", "other_version") == ["slice"]
    assert check(g, "best", "other_version") == ["top_k"]


def norm() -> dg.Graph:
    """The RMS normalization of a decoder, and what follows it."""
    g = dg.Graph("norm")
    x = g.input("x", sizes=[2, 3, 4, 8], dtype="float16")
    scale = g.constant("scale", np.linspace(0.5, 2, 8, dtype=np.float16).reshape(1, 1, 1, 8))
    n = dg.mean_variance_normalization2(
        x, scale, axes=[3], use_mean=False, use_variance=True, epsilon=1e-5, name="norm"
    )
    g.output("y", dg.activation_relu(n, name="y"))
    return g


@pytest.mark.parametrize(
    ("kind", "operators"),
    [
        ("float32", ["cast", "cast", "mean_variance_normalization2", "cast"]),
        ("inputs_copied", ["identity", "identity", "mean_variance_normalization2"]),
        ("output_copied", ["mean_variance_normalization2", "identity"]),
        ("aligned", ["identity", "identity", "mean_variance_normalization2"]),
        ("channels_last", ["identity", "mean_variance_normalization2"]),
        ("apart", ["mean_variance_normalization2"]),
    ],
)
def test_copies(kind: str, operators: list[str]) -> None:
    assert check(norm(), "norm", kind) == operators


def test_aligned_rows_begin_at_multiples_of_16_elements() -> None:
    other, _ = take(norm(), {"norm": "aligned"})
    assert other.desc("norm/identity", 0).strides == (192, 64, 16, 1)


def test_channels_are_innermost() -> None:
    other, _ = take(norm(), {"norm": "channels_last"})
    assert other.desc("norm/identity", 0).strides == (96, 1, 24, 3)


def test_a_fused_activation_becomes_a_node() -> None:
    g = dg.Graph()
    a = g.input("a", sizes=[2, 3], dtype="float32")
    b = g.input("b", sizes=[3, 2], dtype="float32")
    g.output("y", dg.gemm(a, b, alpha=2, fused_activation={"op": "activation_elu", "alpha": 0.5}, name="y"))
    assert check(g, "y", "activation_apart") == ["gemm", "activation_elu"]
    assert check(g, "y", "decomposed")[0] == "gemm"


@pytest.mark.parametrize("kind", [each for each in DETOURS if each not in ("activation_apart", "other_version")])
@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_passes_leave_detours_alone(kind: str, device: str) -> None:
    """Copies would be removed, casts joined, sums made scales, and the activation fused."""
    other, kept = take(norm(), {"norm": kind})
    fused = fuse(other, choose(device).device.target, kept=kept)
    names = {node.name for node in fused.graph.nodes}
    operators = {node.name: node.operator for node in other.nodes if isinstance(node, OperatorNode)}
    assert {name for name in kept if name in operators and operators[name].input_fields} <= names
    assert list(fused.graph.outputs) == ["y"]


def test_without_being_kept_it_would_be_fused() -> None:
    other, _ = take(norm(), {"norm": "inputs_copied"})
    assert [node.name for node in fuse(other, target(dg.FeatureLevel.V6_4)).graph.nodes] == ["x", "scale", "y"]


def recurrent() -> dg.Graph:
    """A GRU whose sequence and last state are read by other nodes; one is an output of the graph, too."""
    g = dg.Graph("recurrent")
    x = g.input("x", sizes=[1, 3, 2, 4], dtype="float32")
    w, r = (g.input(name, sizes=[1, 1, 6, size], dtype="float32") for name, size in (("w", 4), ("r", 2)))
    made = dg.gru(
        x, w, r, direction="forward", linear_before_reset=True, output_sequence=True, output_single=True,
        activation_descs=[{"op": "activation_sigmoid"}, {"op": "activation_tanh"}], name="gru",
    )  # fmt: skip
    assert made.output_sequence is not None
    assert made.output_single is not None
    g.output("last", made.output_single)
    g.output("y", dg.activation_relu(made.output_sequence) + made.output_single)
    return g


def best(dtype: Any) -> dg.Graph:
    """The greatest numbers and their places."""
    g = dg.Graph("best")
    made = dg.top_k1(g.input("x", sizes=[2, 5], dtype=dtype), axis=1, k=2, axis_direction="decreasing", name="best")
    g.output("values", dg.activation_relu(made.output_value))
    g.output("places", made.output_index)
    return g


def test_several_outputs_get_other_nodes() -> None:
    assert {"gemm", "activation_tanh"} <= set(check(recurrent(), "gru", "decomposed"))
    assert check(recurrent(), "gru", "output_copied") == ["gru", "identity", "identity"]
    assert check(best(np.float32), "best", "output_copied") == ["top_k1", "identity", "identity"]
    assert check(best(np.float16), "best", "float32") == ["cast", "top_k1", "cast"]  # places are what they are
    g = dg.Graph()
    q, k, v = (g.input(name, sizes=[1, 3, 8], dtype="float32") for name in "qkv")
    made = dg.multihead_attention(
        q, k, v, head_count=2, scale=0.5, output_present_key={}, output_present_value={}, name="attention"
    )
    for name in ("output", "output_present_key", "output_present_value"):
        g.output(name, getattr(made, name))
    assert "gemm" in check(g, "attention", "decomposed")


def test_a_graph_is_not_changed_by_its_detour() -> None:
    g = norm()
    before = [node.name for node in g.nodes]
    take(g, {"norm": "decomposed"})
    assert [node.name for node in g.nodes] == before


def test_several_nodes_of_a_graph_with_dims_and_states() -> None:
    g = dg.Graph("several", dims={"N": 3})
    x = g.input("x", sizes=["N", 4], dtype="float32")
    s = g.state("s", sizes=["N", 4], dtype="float32")
    a = dg.activation_sigmoid(x + s, name="a")
    b = dg.activation_softmax(a, name="b")
    g.update(s, b)
    g.output("y", b)
    other, kept = take(g, {"a": "decomposed", "b": "output_copied"})
    assert {"a", "b", "a/exp"} <= kept
    run = [each.compile("reference") for each in (g, other)]
    value = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
    for _ in range(2):
        one, two = (each.run({"x": value})["y"] for each in run)
        np.testing.assert_allclose(one, two, 1e-6)
    np.testing.assert_allclose(run[0].states["s"], run[1].states["s"], 1e-6)


@pytest.mark.parametrize(
    ("node", "kind", "message"),
    [
        ("x", "apart", "is not an operator"),
        ("nothing", "apart", "nothing"),
        ("y", "round", "is not a detour"),
        ("y", "channels_last", "no input would be another one"),
        ("y", "float32", "it does not compute float16 of float16"),
        ("y", "other_version", "its operator has no other version"),
        ("y", "decomposed", "its operator has no composition"),
    ],
)
def test_what_a_node_does_not_have(node: str, kind: str, message: str) -> None:
    g = dg.Graph()
    g.output("y", dg.exp(g.input("x", sizes=[2, 3], dtype="float32"), name="y"))
    with pytest.raises(dg.GraphError, match=message):
        take(g, {node: kind})


def test_a_number_is_not_copied() -> None:
    g = dg.Graph()
    g.output("y", dg.multiply(g.input("x", sizes=[2, 3], dtype="float32"), 2.0, name="y"))
    assert check(g, "y", "inputs_copied") == ["identity", "multiply"]


def test_a_compiled_graph_has_the_detour() -> None:
    other, kept = take(norm(), {"norm": "decomposed"})
    desc = lower(fuse(other, choose("cpu").device.target, kept=kept).graph)
    names = [node.operator.name for node in desc.nodes if isinstance(node, OperatorDescNode)]
    assert names == ["multiply", "reduce", "add", "sqrt", "divide", "multiply", "activation_relu"]


def test_another_version_exists_on_the_device() -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[1, 2, 3, 4], dtype="float32")
    y = dg.mean_variance_normalization1(x, axes=[2, 3], normalize_variance=True, epsilon=0.1, name="y")
    g.output("y", y)
    for level, name in ((None, "2"), (dg.FeatureLevel.V6_2, "")):
        other, _ = take(g, {"y": "other_version"}, level)
        node = other.node("y")
        assert isinstance(node, OperatorNode)
        assert node.operator.name == f"mean_variance_normalization{name}"
