"""Operators that DirectML merges: what it computes instead, and that graphs compiled here give what they say."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from campaigns.merges import problem
from support.merge_cases import ORDERS, PAIRS, Case
from support.merge_producers import ACTIVATIONS, HOSTS, attributes, operator_name

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices.compile import lower_graph
from dmlgraph.devices.directml.device import DirectMLDevice, DirectMLExecutable, ExecutionFlag
from dmlgraph.devices.directml.errors import DirectMLError
from dmlgraph.devices.directml.faults import make_safe

Array = np.ndarray[Any, Any]
Build = Callable[[dg.Graph], dg.Value]

pytestmark = pytest.mark.usefixtures("directml_path")

RNG = np.random.default_rng(7)
DATA = {
    name: RNG.uniform(0.2, 2, sizes) * RNG.choice([-1, 1], sizes)
    for name, sizes in {"a": (4, 5), "b": (5, 4), "x": (4, 4), "flat": (1, 16), "wide": (4, 8)}.items()
}
A, B, X, FLAT, WIDE = DATA.values()


def inputs(graph: dg.Graph, names: str, dtype: DataTypeName = "float32", rank: int = 2) -> list[dg.Value]:
    return [graph.input(each, dtype=dtype, sizes=[1] * (rank - 2) + list(DATA[each].shape)) for each in names.split()]


def feeds(graph: dg.Graph) -> dict[str, Array]:
    return {each.name: DATA[each.name].reshape(each.desc.sizes).astype(each.desc.dtype.numpy) for each in graph.inputs}


def graph_of(build: Build) -> dg.Graph:
    graph = dg.Graph("merged")
    graph.output("y", build(graph))
    return graph


def bare(device: DirectMLDevice, graph: dg.Graph) -> Array:
    """What DirectML computes without the workarounds."""
    desc = lower_graph(graph, device, fuse=False)[1]
    with DirectMLExecutable(desc, device.name, "asked for", device._open_to_run(), ExecutionFlag.NONE) as executable:
        return executable.run(feeds(graph))["y"]


def agrees(got: Array, expected: Array, near: float = 1e-5) -> None:
    np.testing.assert_allclose(got, expected, rtol=near, atol=near)


def relu(x: Array) -> Array:
    return np.maximum(x, 0)


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


# ---- What DirectML does without dmlgraph: if one of these fails, the rule that it is about can be removed


def activated_sum(g: dg.Graph) -> dg.Value:
    a, b, x = inputs(g, "a b x")
    return x + dg.gemm(a, b, fused_activation="activation_relu")


def sum_with_a_reshape(g: dg.Graph) -> dg.Value:
    a, b, flat = inputs(g, "a b flat")
    return dg.sin(flat).reshape(4, 4) + dg.gemm(a, b)


def sum_with_a_part(g: dg.Graph) -> dg.Value:
    a, b, wide = inputs(g, "a b wide")
    return dg.gemm(a, b) + dg.split(wide, axis=1, outputs=[4, 4])[1]


def gated(g: dg.Graph) -> dg.Value:
    first, second = dg.split(*inputs(g, "wide"), axis=1, outputs=[4, 4])
    return first * dg.activation_sigmoid(second)


def gated_by_a_view(g: dg.Graph) -> dg.Value:
    value = dg.sin(*inputs(g, "x"))
    return value * dg.activation_sigmoid(value.T)


def test_directml_activates_the_sum(directml: DirectMLDevice) -> None:
    agrees(bare(directml, graph_of(activated_sum)), relu(X + A @ B))


def test_directml_refuses_a_sum_with_a_reshape(directml: DirectMLDevice) -> None:
    with pytest.raises(DirectMLError, match="CompileGraph"):
        bare(directml, graph_of(sum_with_a_reshape))


def test_directml_adds_the_first_part(directml: DirectMLDevice) -> None:
    agrees(bare(directml, graph_of(sum_with_a_part)), A @ B + WIDE[:, :4])


def test_directml_forgets_which_part_is_gated(directml: DirectMLDevice) -> None:
    second = WIDE[:, 4:]
    agrees(bare(directml, graph_of(gated)), second * sigmoid(second))
    value = np.sin(X)
    agrees(bare(directml, graph_of(gated_by_a_view)), value.T * sigmoid(value.T))


# ---- What dmlgraph does

RIGHT: dict[str, tuple[Build, Array]] = {
    "x + relu(a b)": (activated_sum, X + relu(A @ B)),
    "a view + a b": (sum_with_a_reshape, np.sin(FLAT).reshape(4, 4) + A @ B),
    "a part + a b": (sum_with_a_part, A @ B + WIDE[:, 4:]),
    "a part · σ(another)": (gated, WIDE[:, :4] * sigmoid(WIDE[:, 4:])),
    "x · σ(xᵀ)": (gated_by_a_view, np.sin(X) * sigmoid(np.sin(X).T)),
}


@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize("name", RIGHT)
def test_graphs_give_what_they_say(name: str, fuse: bool) -> None:
    build, expected = RIGHT[name]
    graph = graph_of(build)
    with graph.compile("directml:software", fuse=fuse) as executable:
        got = executable.run(feeds(graph))["y"]
        assert executable.stats["added_copies"] == 0
    agrees(got, expected)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("rank", [2, 3, 4])
@pytest.mark.parametrize("order", ORDERS)
def test_residuals_of_every_rank_and_type(order: str, rank: int, dtype: DataTypeName) -> None:
    """Both terms are products with activations."""

    def build(g: dg.Graph) -> dg.Value:
        a, b = inputs(g, "a b", dtype, rank)
        one, other = dg.activation_relu(a @ b), dg.tanh(b.transpose(*range(rank - 2), -1, -2) @ b)
        return one + other if order == "left" else other + one

    graph = graph_of(build)
    with graph.compile("directml:software") as executable:
        got = executable.run(feeds(graph))["y"]
    expected = relu(A @ B) + np.tanh(B.T @ B)
    agrees(got.reshape(4, 4), expected, 1e-5 if dtype == "float32" else 1e-2)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation_is_kept_from_the_sum(directml: DirectMLDevice, activation: str) -> None:
    case = Case("gemm", f"fused {activation}", "add", "left", "sin", "only", "nothing", (1, 1, 4, 4), "float32")
    assert problem(case) is None

    def summed(add: Callable[..., dg.Value]) -> Array:
        def build(g: dg.Graph) -> dg.Value:
            a, b, x = inputs(g, "a b x")
            return add(
                dg.gemm(a, b, fused_activation={"op": operator_name(activation), **attributes(activation, 2)}), x
            )

        return bare(directml, graph_of(build))

    is_right = np.allclose(summed(dg.add), summed(dg.add1), atol=1e-5)  # ADD1 is not merged
    assert is_right == (activation == "identity")


def dispatches(build: Build, *, fuse: bool = False) -> int:
    graph = graph_of(build)
    with graph.compile("directml:software", fuse=fuse) as executable:
        executable.run(feeds(graph))
        return int(executable.stats["dispatches"])


def test_what_it_costs() -> None:
    """Nothing: as many dispatches as the operators have by themselves; right merges still save one."""
    assert dispatches(activated_sum) == 1 + 1
    assert dispatches(sum_with_a_part) == 1 + 1
    assert dispatches(gated) == 1 + 1
    assert dispatches(gated_by_a_view) == 1 + 2

    def swish(g: dg.Graph) -> dg.Value:
        (x,) = inputs(g, "x")
        return x * dg.activation_sigmoid(x)

    assert dispatches(swish) == 1
    assert dispatches(sum_with_a_reshape, fuse=True) <= dispatches(sum_with_a_reshape) == 1 + 1 + 1


def test_what_is_right_stays_as_it_is(directml: DirectMLDevice) -> None:
    def product(g: dg.Graph, c: bool) -> dg.Value:
        a, b, x = inputs(g, "a b x")
        return dg.gemm(a, b, dg.sin(x), fused_activation="activation_relu") + x if c else dg.gemm(a, b) + dg.sin(x)

    def swish(g: dg.Graph) -> dg.Value:
        x = dg.sin(*inputs(g, "x"))
        return x * dg.activation_sigmoid(x)

    def gate(g: dg.Graph) -> dg.Value:
        flat, x = inputs(g, "flat x")
        return x * dg.activation_sigmoid(flat.reshape(4, 4))

    for build in (lambda g: product(g, True), lambda g: product(g, False), swish, gate):
        desc = lower_graph(graph_of(build), directml, fuse=False)[1]
        assert make_safe(desc) == (desc, 0)


def test_sums_of_products_in_every_combination() -> None:
    """Every product and other term, fused and not; the campaign `merges` has other operators, sizes and types."""
    products = [name for name in HOSTS if "gemm" in name]
    cases = itertools.product(products, ("none", "fused relu"), PAIRS)
    found = [
        problem(Case(product, activation, "add", order, other, "only", "nothing", (1, 1, 4, 4), "float32"))
        for number, (product, activation, (order, other)) in enumerate(cases)
        if number % 4 == 0
    ]
    assert len(found) > 250
    assert not [each for each in found if each]


@pytest.mark.parametrize("producer", ["first of a split", "split of rows", "lstm cell", "sin"])
def test_gates_in_every_combination(producer: str) -> None:
    others = ("another output of the producer", "the value", "the value transposed")
    gates = ("multiply of sigmoid", "multiply of sigmoid, transposed", "multiply of hard_sigmoid", "multiply of tanh")
    for consumer, order, other, readers in itertools.product(gates, ORDERS, others, ("only", "second")):
        assert (
            problem(Case(producer, "none", consumer, order, other, readers, "nothing", (1, 1, 4, 4), "float32")) is None
        )
