"""Dims: sizes and numbers that are computed, in Python and in files, and kept."""

from __future__ import annotations

import math
import pathlib
from typing import Any

import numpy as np
import pytest
from support.problems import expect, raises

import dmlgraph as dg
from dmlgraph.graph.nodes import OperatorNode

HEAD = "dmlgraph: 1\ndims: {N: 4, D: 64}\n"


def graph() -> dg.Graph:
    """Every kind of number that may be computed."""
    g = dg.Graph(dims={"N": 4, "D": 64})
    n, d = g.dim("N"), g.dim("D")
    x = g.input("x", sizes=[1, 1, n * 2, "D // 16"], dtype="float32", strides=["N * D", "N * D", "D // 16", 1])
    y = dg.activation_leaky_relu(x * (1 / d**0.5), alpha="1 / N")
    y = dg.identity(y, scale_bias={"scale": 1 / d, "bias": "sqrt(N) - 1"})
    y = dg.gemm(
        y, y, trans_b="transpose", alpha="1 / sqrt(D)", fused_activation={"op": "activation_elu", "alpha": "1/N"}
    )
    y = dg.padding(y, padding_mode="constant", start_padding=[0, 0, n, 0], end_padding=[0, 0, 0, "N / 2"])
    g.output("y", y)
    g.output("f", g.fill_value_constant(sizes=[math.ceil(d / 48)], dtype="int64", value="2 ** N + D"))
    g.output(
        "s",
        dg.slice1(
            y,
            input_window_offsets=[0, 0, 0, 0],
            input_window_sizes=[1, 1, n, n // 2],
            input_window_strides=[1, 1, "-N // N", 1],
        ),
    )
    return g


def node(g: dg.Graph, name: str) -> OperatorNode:
    found = g.node(name)
    assert isinstance(found, OperatorNode)
    return found


def assert_follows(g: dg.Graph, n: int, d: int) -> None:
    """The numbers are those of these sizes."""
    assert g.value("x").sizes == (1, 1, 2 * n, d // 16)
    assert g.node("x").desc.strides == (n * d, n * d, d // 16, 1)  # type: ignore[union-attr]
    assert node(g, "activation_leaky_relu").operator.alpha == np.float32(1 / n)  # type: ignore[attr-defined]
    both = node(g, "identity").operator.scale_bias  # type: ignore[attr-defined]
    assert (both.scale, both.bias) == (np.float32(1 / d), np.float32(math.sqrt(n) - 1))
    gemm = node(g, "gemm").operator
    assert gemm.alpha == np.float32(1 / math.sqrt(d))  # type: ignore[attr-defined]
    assert gemm.fused_activation.attributes["alpha"] == np.float32(1 / n)  # type: ignore[attr-defined]
    assert g.outputs["y"].sizes == (1, 1, 3 * n, 2 * n + n // 2)
    assert g.outputs["f"].sizes == (math.ceil(d / 48),)
    assert node(g, "fill_value_constant_1").operator.value.value == 2**n + d  # type: ignore[attr-defined]
    assert g.outputs["s"].sizes == (1, 1, n, n // 2)


def test_numbers_follow_the_dims() -> None:
    g = graph()
    assert_follows(g, 4, 64)
    assert_follows(g.with_dims({"N": 8}), 8, 64)
    assert_follows(g.with_dims({"N": 8}).with_dims({"D": 128, "N": 2}), 2, 128)
    assert g.checker.dims.unused() == []


def test_files_keep_expressions(tmp_path: pathlib.Path) -> None:
    g = graph()
    g.save(tmp_path / "g.yaml")
    text = (tmp_path / "g.yaml").read_text(encoding="utf-8")
    for written in (
        "N * 2",
        "D // 16",
        "1 / D ** 0.5",
        "1 / sqrt(D)",
        "{scale: 1 / D, bias: sqrt(N) - 1}",
        "2 ** N + D",
    ):
        assert written in text
    assert_follows(dg.load(tmp_path / "g.yaml", dims={"N": 8}), 8, 64)
    again = dg.load(tmp_path / "g.yaml")
    again.save(tmp_path / "again.yaml")
    assert (tmp_path / "again.yaml").read_text(encoding="utf-8") == text
    assert str(again.lower()) == str(g.lower())


@pytest.mark.parametrize("n", [1, 3, 7])
def test_devices_get_the_numbers(n: int) -> None:
    text = (
        "dmlgraph: 1\ndims: {N: 2}\ninputs: {x: {dtype: float32, sizes: [2 * N]}}\n"
        "nodes:\n  f: {op: fill_value_constant, value: 1 / N, output: {dtype: float32, sizes: [2 * N]}}\n"
        "  y: {op: add, a: x, b: f}\noutputs: [y]\n"
    )
    x = np.arange(2 * n, dtype=np.float32)
    for device in ("cpu", "reference"):
        got = dg.loads(text, dims={"N": n}).compile(device).run({"x": x})["y"]
        np.testing.assert_array_equal(got, x + np.float32(1 / n))


@pytest.mark.parametrize(
    ("sizes", "code", "got"),
    [
        ('["N / 3"]', "expression", "1.3333333333333333 = N / 3 with N = 4"),
        ('["N - 4"]', "sizes", 0),
        ('["2 * M"]', "unknown-dim", "M"),
        ('["2 *"]', "expression", "2 *"),
        ('["N / 0"]', "expression", "N / 0 with N = 4"),
        ('["4"]', "unknown-dim", "4"),
        ('["10**1000/3"]', "expression", "10**1000/3"),
        ('["N*10**5000"]', "expression", "N*10**5000 with N = 4"),
        (f'["{"-" * 3000}N"]', "expression", f"{'-' * 3000}N"),
        (f'["{"9" * 5000}"]', "expression", "9" * 5000),
    ],
)
def test_wrong_sizes_are_errors_at_their_place(sizes: str, code: str, got: object) -> None:
    with pytest.raises(dg.DocumentError) as error:
        dg.loads(f"{HEAD}inputs: {{x: {{dtype: float32, sizes: {sizes}}}}}\noutputs: [x]\n")
    (problem,) = error.value.problems
    expect(problem, code, node="x", field="sizes.0", got=got)
    assert problem.location is not None
    assert (problem.location.line, problem.location.column) == (3, 38)


@pytest.mark.parametrize(
    ("alpha", "code", "got"),
    [
        ('"0.5"', "kind", "0.5"),
        ("2 * M", "unknown-dim", "M"),
        ('"1 / (N - 4)"', "expression", "1 / (N - 4) with N = 4"),
        ('"1 +"', "expression", "1 +"),
    ],
)
def test_wrong_numbers_are_errors_at_their_place(alpha: str, code: str, got: object) -> None:
    nodes = f"nodes: {{y: {{op: activation_elu, input: x, alpha: {alpha}}}}}"
    with pytest.raises(dg.DocumentError) as error:
        dg.loads(f"{HEAD}inputs: {{x: {{dtype: float32, sizes: [2]}}}}\n{nodes}\noutputs: [y]\n")
    (problem,) = error.value.problems
    expect(problem, code, node="y", field="alpha", got=got)
    assert problem.location is not None
    assert (problem.location.line, problem.location.column) == (4, 50)


def test_an_unknown_dim_is_refused_with_a_hint() -> None:
    with raises(dg.GraphError, "unknown-dim", got="n", allowed="N, D"):
        graph().dim("n")


def test_python_may_reach_a_size_of_another_graph_by_name() -> None:
    n = dg.Graph(dims={"N": 2}).dim("N")
    other = dg.Graph(dims={"N": 5})
    assert other.input("x", sizes=[n + 1], dtype="int8").sizes == (6,)
    with raises(dg.GraphError, "unknown-dim", node="x", field="sizes.0", got="N"):
        dg.Graph().input("x", sizes=[n + 1], dtype="int8")


@pytest.mark.parametrize("size", ["(4)", "sqrt(16)", "2 * 2", "4 + 0 * N"])
def test_text_without_dims_is_a_size_too(size: str) -> None:
    graph = dg.loads(f'{HEAD}inputs: {{x: {{dtype: float32, sizes: ["{size}"]}}}}\noutputs: [x]\n')
    assert graph.outputs["x"].sizes == (4,)
    assert graph.with_dims({"N": 9}).outputs["x"].sizes == (4,)


NO_NAMES = ["", 3, None, True, ("N",), " N", "N\n", "\x00", "1", "(N)", "N - 1", "2 * N"]
NO_SIZES = [0, -1, 1.0, "1", None, True, 2**64, 10**5000, np.float32(2), math.nan]


WRONG = [*((name, 2) for name in NO_NAMES), *(("M", size) for size in NO_SIZES)]


@pytest.mark.parametrize(("name", "size"), WRONG, ids=range(len(WRONG)))
def test_a_dims_name_is_a_name_and_its_size_a_size(name: Any, size: Any) -> None:
    wrong = {"N": 1, name: size}
    document = "dmlgraph: 1\ndims: {N: 1, M: 1}\ninputs: {x: {dtype: int8, sizes: [N]}}\noutputs: [x]\n"
    graph = dg.loads(document)
    for declare in (
        lambda: dg.Graph(dims=wrong),
        lambda: graph.with_dims(wrong),
        lambda: graph.compile("cpu", dims=wrong),
        lambda: dg.loads(document, dims=wrong),
    ):
        with pytest.raises((dg.GraphError, dg.DocumentError)) as caught:
            declare()
        assert caught.value.code == ("range" if name == "M" else "name")
        assert caught.value.field == f"dims.{name}"


@pytest.mark.parametrize("dims", [3, "N=1", [("N", 1)]])
def test_dims_are_a_mapping(dims: Any) -> None:
    with raises(dg.DocumentError, "kind", field="dims"):
        dg.loads("dmlgraph: 1\ndims: {N: 1}\ninputs: {x: {dtype: int8, sizes: [N]}}\noutputs: [x]\n", dims=dims)


@pytest.mark.parametrize("name", ['""', '" N"', '"1"', '"N - 1"'])
def test_a_dims_name_in_a_file_is_a_name(name: str) -> None:
    with pytest.raises(dg.DocumentError) as caught:
        dg.loads(f"dmlgraph: 1\ndims: {{N: 1, {name}: 2}}\ninputs: {{x: {{dtype: int8, sizes: [N]}}}}\noutputs: [x]\n")
    (problem,) = caught.value.problems
    assert (problem.code, problem.location is not None) == ("name", True)


def test_an_index_of_any_length_is_read_or_refused() -> None:
    g = dg.Graph(dims={"N": 2})
    x = g.input("x", sizes=[4], dtype="float32")
    assert x["1:" + "9" * 300].sizes == (3,)
    for index in (10**5000, slice(10**5000), ":" + "9" * 5000, "9" * 5000, "1.5"):
        with pytest.raises(dg.DmlGraphError) as caught:
            x[index]
        assert caught.value.code in ("kind", "expression")
