"""Scales and sums after a GEMM go into its alpha, beta and C."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.passes.fusing import dispatches, fused, operator, operators, refusal, results

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices.names import DeviceName

RANDOM = np.random.default_rng(7)
A = RANDOM.standard_normal((1, 1, 4, 6)).astype(np.float32)
B = RANDOM.standard_normal((1, 1, 6, 5)).astype(np.float32)
C = RANDOM.standard_normal((1, 1, 4, 5)).astype(np.float32)
INPUTS = {"a": A, "b": B, "c": C}


def graph_of(
    build: Callable[..., Any], c_sizes: tuple[int, ...] = C.shape, dtype: DataTypeName = "float32"
) -> dg.Graph:
    graph = dg.Graph("test")
    a, b = (graph.input(name, sizes=INPUTS[name].shape, dtype=dtype) for name in "ab")
    graph.output("y", build(dg.gemm(a, b), graph.input("c", sizes=c_sizes, dtype=dtype)))
    return graph


def assert_half_a_unit_of_the_product(graph: dg.Graph, inputs: dict[str, Any], rule: str, device: DeviceName) -> None:
    """The saved rounding is at most 1/2 ULP of A · B, which is then scaled by at most 4."""
    product = np.abs(inputs["a"].astype(np.float64)) @ np.abs(inputs["b"].astype(np.float64))
    for got, expected in results(graph, inputs, rule, device=device):
        bound = 4 * product * np.finfo(got.dtype).eps
        assert (np.abs(got.astype(np.float64) - expected.astype(np.float64)) <= bound).all()


ADDED: dict[str, tuple[Callable[..., Any], float, float]] = {
    "product first": (lambda p, c: p + c, 1, 1),
    "product last": (lambda p, c: c + p, 1, 1),
    "less c": (lambda p, c: p - c, 1, -1),
    "less the product": (lambda p, c: c - p, -1, 1),
}


@pytest.mark.parametrize("name", ADDED)
@pytest.mark.parametrize("sizes", [(1, 1, 4, 5), (1, 1, 1, 5), (5,), (1, 1, 4, 1)])
def test_what_is_added_becomes_c(name: str, sizes: tuple[int, ...], device: DeviceName) -> None:
    build, alpha, beta = ADDED[name]
    graph = graph_of(build, sizes)
    gemm = operator(fused(graph, "gemm_add"))
    assert (gemm.name, gemm.alpha, gemm.beta) == ("gemm", alpha, beta)
    c = RANDOM.standard_normal(sizes).astype(np.float32)
    assert_half_a_unit_of_the_product(graph, INPUTS | {"c": c}, "gemm_add", device)


SCALED: dict[str, tuple[Callable[..., Any], float]] = {
    "times": (lambda p, c: p * 0.125, 0.125),
    "from the left": (lambda p, c: 3.0 * p, 3.0),
    "over a power of two": (lambda p, c: p / 4, 0.25),
    "negated": (lambda p, c: dg.negate(p), -1.0),
    "twice": (lambda p, c: p * 0.5 * 0.5, 0.25),
    "by a full-size fill": (
        lambda p, c: p * p.graph.fill_value_constant(sizes=C.shape, dtype="float32", value=2.0), 2.0),
}  # fmt: skip


@pytest.mark.parametrize("name", SCALED)
def test_a_factor_becomes_alpha(name: str, device: DeviceName) -> None:
    build, alpha = SCALED[name]
    graph = graph_of(build)
    gemm = operator(fused(graph, "gemm_scale"))
    assert (gemm.name, gemm.alpha) == ("gemm", alpha)
    assert_half_a_unit_of_the_product(graph, INPUTS, "gemm_scale", device)


def test_powers_of_two_scale_c_too(device: DeviceName) -> None:
    graph = graph_of(lambda p, c: (p + c) * 0.5)
    gemm = operator(fused(graph, "gemm_add", "gemm_scale"))
    assert (gemm.alpha, gemm.beta) == (0.5, 0.5)
    for got, expected in results(graph, INPUTS, "gemm_scale", "gemm_add", device=device):
        np.testing.assert_allclose(got, expected, rtol=0, atol=4e-6)


def test_float16_keeps_what_the_product_would_have_lost(device: DeviceName) -> None:
    graph = graph_of(lambda p, c: p * 0.125, dtype="float16")
    inputs = {name: np.full_like(values, 200, np.float16) for name, values in INPUTS.items()}
    ((got, expected),) = results(graph, inputs, "gemm_scale", device=device)
    assert np.isinf(expected).all()  # 6 · 200² is beyond float16
    assert (got == 30000).all()


NOT: dict[str, tuple[Callable[..., Any], str, str]] = {
    "a second C": (lambda p, c: (p + c) + c, "gemm_add", "has a C already"),
    "a second reader": (lambda p, c: dg.add(p + c, dg.exp(p)), "gemm_add", "would be computed twice"),
    "a scaled C": (lambda p, c: (p + c) * 3.0, "gemm_scale", "not exact"),
    "an infinite alpha": (lambda p, c: p * 1e30 * 1e30, "gemm_scale", "alpha would be inf"),
    "a vanishing alpha": (lambda p, c: p * 1e-30 * 1e-30, "gemm_scale", "alpha would be 0"),
    "an activation between": (
        lambda p, c: dg.gemm(p, dg.gemm(p, p, trans_a="transpose"), fused_activation="activation_relu") * 2,
        "gemm_scale", "has an activation"),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT)
def test_declines(name: str) -> None:
    build, rule, why = NOT[name]
    result = fused(graph_of(build), "gemm_add", "gemm_scale")
    assert why in " ".join(entry.why for entry in result.record if entry.rule == rule and not entry.applied)


@pytest.mark.parametrize(
    "build",
    [
        lambda p, c: p / 3.0,  # 1/3 is not exact
        lambda p, c: 3.0 / p,
        lambda p, c: p * c,
        lambda p, c: c * 2.0 + c,
    ],
)
def test_is_no_pattern(build: Callable[..., Any]) -> None:
    graph = graph_of(build)
    before = operators(fused(graph, "share"))
    assert operators(fused(graph, "share", "gemm_add", "gemm_scale")) == before


def test_a_number_becomes_c(device: DeviceName) -> None:
    graph = graph_of(lambda p, c: dg.activation_relu(p + 3.0))
    assert operators(fused(graph, "gemm_add")) == ["fill_value_constant", "gemm", "activation_relu"]
    assert_half_a_unit_of_the_product(graph, INPUTS, "gemm_add", device)


def test_a_product_that_is_read_broadcast_stays() -> None:
    graph = dg.Graph("test")
    a = graph.input("a", sizes=[1, 1, 1, 6], dtype="float32")
    b = graph.input("b", sizes=[1, 1, 6, 5], dtype="float32")
    graph.output("y", dg.gemm(a, b) + graph.input("c", sizes=[1, 1, 4, 5], dtype="float32"))
    assert operators(fused(graph, "gemm_add")) == ["gemm", "add"]


@pytest.mark.usefixtures("directml_path")
@pytest.mark.parametrize("sizes", [(1, 1, 1, 5), (1, 1, 4, 5)])
def test_dispatches(sizes: tuple[int, ...]) -> None:
    graph = graph_of(lambda p, c: (p + c) * 0.5, sizes)
    inputs = INPUTS | {"c": C[:, :, : sizes[2]]}
    assert dispatches(graph, inputs, fuse=False) == 4  # one of them the fill
    assert dispatches(graph, inputs, fuse=["gemm_add", "gemm_scale"]) == dispatches(graph_of(one_gemm), INPUTS)


def one_gemm(product: Any, c: Any) -> Any:
    operator = product.graph.node(product.node).operator
    assert operator.c is None
    a, b = (product.graph.value(name) for name in "ab")
    return dg.gemm(a, b, c, alpha=0.5, beta=0.5)


def test_the_refusal_is_kept_for_the_user() -> None:
    graph = graph_of(lambda p, c: (p + c) * 3.0)
    result = fused(graph, "gemm_add", "gemm_scale")
    assert "not gemm_scale at multiply: 'add' has a C" in result.explain()
    assert refusal(result, "gemm_scale").startswith("'add' has a C")


@pytest.mark.parametrize("trans_a", ["none", "transpose"])
@pytest.mark.parametrize("trans_b", ["none", "transpose"])
@pytest.mark.parametrize("turned", ["a", "b", "ab"])
def test_a_transpose_becomes_a_flag_of_gemm(turned: str, trans_a: Any, trans_b: Any, device: DeviceName) -> None:
    graph = dg.Graph("test")
    arrays = {"a": A, "b": B}
    values = {}
    for name, flag in (("a", trans_a), ("b", trans_b)):
        flips = (name in turned) + (flag == "transpose")
        arrays[name] = np.ascontiguousarray(arrays[name].swapaxes(-1, -2)) if flips == 1 else arrays[name]
        value = graph.input(name, sizes=arrays[name].shape, dtype="float32")
        values[name] = value.transpose(0, 1, 3, 2) if name in turned else value
    graph.output("y", dg.gemm(values["a"], values["b"], trans_a=trans_a, trans_b=trans_b))
    found = operator(fused(graph, "transpose_into_gemm"))
    for name, flag in (("a", trans_a), ("b", trans_b)):
        assert getattr(found, name).strides is None
        assert str(getattr(found, f"trans_{name}")) == str(
            {"none": "transpose", "transpose": "none"}[flag] if name in turned else flag
        )
    np.testing.assert_allclose(graph.compile(device).run(arrays)["y"], A @ B, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("sizes", [(1, 1, 1, 6), (1, 1, 6, 1)])
def test_a_vector_is_transposed_by_its_sizes_alone(sizes: tuple[int, ...]) -> None:
    graph = dg.Graph("test")
    a = graph.input("a", sizes=sizes, dtype="float32").transpose(0, 1, 3, 2)
    graph.output("y", a @ graph.input("b", sizes=(1, 1, a.sizes[-1], 4), dtype="float32"))
    result = fused(graph)
    assert operators(result) == ["gemm"]
    assert "transpose_into_gemm" not in [entry.rule for entry in result.record if entry.applied]


def test_rows_with_gaps_are_transposed_too(device: DeviceName) -> None:
    graph = dg.Graph("test")
    a = graph.input("a", sizes=(6, 8), dtype="float32")
    graph.output("y", a[:, :4].T @ graph.input("b", sizes=(6, 5), dtype="float32"))
    found = operator(fused(graph))
    assert (found.a.sizes, found.a.strides) == ((6, 4), (8, 1))
    data = {"a": RANDOM.random((6, 8), np.float32), "b": RANDOM.random((6, 5), np.float32)}
    np.testing.assert_allclose(graph.compile(device).run(data)["y"], data["a"][:, :4].T @ data["b"], rtol=1e-5)
