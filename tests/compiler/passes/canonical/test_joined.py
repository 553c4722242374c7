"""Products with joined tensors: the parts are multiplied where they are, and no join is left that copies them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.passes.fusing import applied, fused, operators, refusal

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.compiler.passes.canonical.joined import LEAST, THIN
from dmlgraph.devices.names import DeviceName

Array = np.ndarray[Any, Any]
RULES = ("join_of_products", "sum_of_products")
RANDOM = np.random.default_rng(3)
SUMS = 64
PAST = LEAST // SUMS  # rows
ALL_DEVICES = ("reference", "cpu", "directml:software")


def numbers(*sizes: int) -> Array:
    return RANDOM.standard_normal(sizes).astype(np.float32)


def close(got: Array, a: Array, b: Array, c: Array | float = 0.0, alpha: float = 1.0) -> None:
    """The product a · b + c; of n terms, each sum may be off by n half ULP of the sum of its absolute terms."""
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    bound = (np.abs(wide_a) @ np.abs(wide_b) * abs(alpha) + np.abs(c)) * (a.shape[-1] * 2**-24)
    assert (np.abs(got - (alpha * (wide_a @ wide_b) + c)) <= bound).all()


# Joined along the rows of the product, or along its sums; on the left or on the right; as they are or transposed.
PLACES = [(field, summed, flag) for field in "ab" for summed in (False, True) for flag in ("none", "transpose")]


@pytest.mark.parametrize("device", ALL_DEVICES)
@pytest.mark.parametrize(("field", "summed", "flag"), PLACES)
@pytest.mark.usefixtures("directml_path")
def test_the_parts_are_multiplied_apart(field: str, summed: bool, flag: str, device: DeviceName) -> None:
    """Two batches, three rows of the other factor, two new rows, alpha, and a C that has one row for all."""
    sizes, batch = (PAST, 2), 2
    parts = [numbers(batch, 1, size, SUMS) if summed else numbers(batch, 1, SUMS, size) for size in sizes]
    joined = np.concatenate(parts, 2 if summed else 3)  # {sums, columns}
    other = numbers(batch, 1, 3, joined.shape[2])
    columns = joined.shape[3]
    if field == "a":  # (other · joined)ᵀ = joinedᵀ · otherᵀ
        parts, other = [each.swapaxes(2, 3) for each in parts], other.swapaxes(2, 3)
    axis = 3 if summed == (field == "a") else 2
    if flag == "transpose":
        parts, axis = [each.swapaxes(2, 3) for each in parts], 5 - axis
    parts, other = [np.ascontiguousarray(each) for each in parts], np.ascontiguousarray(other)
    g = dg.Graph("test")
    join = dg.join([g.input(f"p{at}", sizes=each.shape, dtype="float32") for at, each in enumerate(parts)], axis=axis)
    x = g.input("x", sizes=other.shape, dtype="float32")
    output = (batch, 1, 3, columns) if field == "b" else (batch, 1, columns, 3)
    c = numbers(1, 1, 1, output[3])
    extra = g.input("c", sizes=c.shape, dtype="float32").broadcast_to(output)
    flags: dict[str, Any] = {f"trans_{field}": flag}
    g.output("y", dg.gemm(*((x, join) if field == "b" else (join, x)), extra, alpha=0.5, **flags))
    result = fused(g, *RULES)
    assert applied(result) == ["sum_of_products" if summed else "join_of_products"]
    assert operators(result).count("gemm") == 2
    got = g.compile(device, fuse=list(RULES)).run({"p0": parts[0], "p1": parts[1], "x": other, "c": c})["y"]
    close(got, *((other, joined) if field == "b" else (joined.swapaxes(2, 3), other)), c, 0.5)


def attention(g: dg.Graph, past: int = PAST, dtype: DataTypeName = "float32", queries: int = 1) -> dg.Value:
    """Two heads over past keys and values and new ones."""
    heads, total = 2, past + queries
    q, k, v = (g.input(name, sizes=[1, heads, queries, SUMS], dtype=dtype) for name in "qkv")
    before = {name: g.input(name, sizes=[1, heads, past, SUMS], dtype=dtype) for name in ("past_k", "past_v")}
    keys, values = dg.join([before["past_k"], k], axis=2), dg.join([before["past_v"], v], axis=2)
    scores = dg.gemm(q, keys, trans_b="transpose", alpha=SUMS**-0.5)
    scores = scores + g.input("mask", sizes=[1, 1, queries, total], dtype=dtype).broadcast_to(scores.sizes)
    return dg.gemm(dg.activation_softmax1(scores, axes=[3]), values)


@pytest.mark.parametrize("device", ALL_DEVICES)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.usefixtures("directml_path")
def test_attention_over_a_cache_is_that_of_numpy(device: DeviceName, dtype: DataTypeName) -> None:
    g = dg.Graph("attention")
    g.output("y", attention(g, dtype=dtype, queries=2))
    inputs = {each.name: numbers(*each.desc.sizes).astype(dtype) for each in g.inputs}
    inputs["mask"][..., : PAST // 2] = np.finfo(dtype).min  # of a growing state: rows that do not count
    wide = {name: each.astype(np.float64) for name, each in inputs.items()}
    keys, values = (np.concatenate([wide[f"past_{name}"], wide[name]], 2) for name in "kv")
    scores = wide["q"] @ keys.swapaxes(2, 3) / np.sqrt(SUMS) + wide["mask"]
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    expected = shares / shares.sum(-1, keepdims=True) @ values
    executable = g.compile(device)
    assert {each.rule for each in executable.fusion if each.applied} >= set(RULES)
    got = executable.run(inputs)["y"]
    np.testing.assert_allclose(got, expected, rtol=0, atol=2e-6 if dtype == "float32" else 2e-3)


@pytest.mark.usefixtures("directml_path")
def test_the_cache_is_not_copied_on_directml() -> None:
    """The join of keys and that of values would each take the bytes of a cache."""
    g = dg.Graph("attention")
    g.output("y", attention(g))
    inputs = {each.name: numbers(*each.desc.sizes) for each in g.inputs}
    cache = inputs["past_k"].nbytes
    taken = {}
    for is_fused in (True, False):
        executable = g.compile("directml:software", fuse=is_fused)
        executable.run(inputs)
        taken[is_fused] = executable.stats["temporary_bytes"]
    assert taken[False] >= 2 * cache
    assert taken[True] < cache / 10


def test_a_join_that_is_read_with_more_dimensions() -> None:
    g = dg.Graph("test")
    a, b = g.input("a", sizes=[PAST, SUMS], dtype="float32"), g.input("b", sizes=[1, SUMS], dtype="float32")
    x = g.input("x", sizes=[1, 1, 2, SUMS], dtype="float32")
    join = dg.join([a, b], axis=0).reshape(1, 1, PAST + 1, SUMS)
    g.output("y", dg.gemm(x, join, trans_b="transpose"))
    assert applied(fused(g, *RULES)) == ["join_of_products"]
    inputs = {each.name: numbers(*each.desc.sizes) for each in g.inputs}
    right = np.concatenate([inputs["a"], inputs["b"]]).T[None, None]
    close(g.compile("cpu").run(inputs)["y"], inputs["x"], right)


def refused(past: int, rows: int, change: Callable[[dg.Graph, dg.Value, dg.Value], Any] | None = None) -> dg.Graph:
    """A product with a join; `change` gets the join and the product, and gives another output."""
    g = dg.Graph("test")
    a, b = g.input("a", sizes=[past, SUMS], dtype="float32"), g.input("b", sizes=[1, SUMS], dtype="float32")
    join = dg.join([a, b], axis=0)
    x = g.input("x", sizes=[rows, SUMS], dtype="float32")
    made = dg.gemm(x, join, trans_b="transpose")
    g.output("y", made if change is None else change(g, join, made))
    return g


def with_join(g: dg.Graph, join: dg.Value, made: dg.Value) -> dg.Value:
    g.output("keys", join)
    return made


def with_c(g: dg.Graph, join: dg.Value, _: dg.Value) -> dg.Value:
    c = g.input("c", sizes=[1, PAST + 1], dtype="float32")
    return dg.gemm(g.value("x"), join, c, trans_b="transpose", beta=2)


def with_activation(g: dg.Graph, join: dg.Value, _: dg.Value) -> dg.Value:
    return dg.gemm(g.value("x"), join, trans_b="transpose", fused_activation="activation_relu")


REFUSED = [
    (refused(LEAST // SUMS // 2, 1), "costs less than a product"),
    (refused(PAST, THIN + 1), "multiplying takes far longer than joining"),
    (refused(PAST, 1, with_join), "has other readers, so that the join stays"),
]


@pytest.mark.parametrize(("graph", "why"), REFUSED)
def test_where_it_does_not_pay(graph: dg.Graph, why: str) -> None:
    assert why in refusal(fused(graph, *RULES), "join_of_products")


@pytest.mark.parametrize(
    ("change", "why"), [(with_c, "it adds a C times 2"), (with_activation, "it has an activation")]
)
def test_products_that_do_more(change: Callable[[dg.Graph, dg.Value, dg.Value], Any], why: str) -> None:
    """Only they are outputs: nothing else reads the join."""
    graph = refused(PAST, 1, change)
    assert why in refusal(fused(graph, *RULES), "join_of_products")


def test_few_sums_make_products_as_large_as_the_join() -> None:
    g = dg.Graph("test")
    a, b = (g.input(name, sizes=[rows, 8], dtype="float32") for name, rows in (("a", LEAST // 8), ("b", 1)))
    x = g.input("x", sizes=[5, 8], dtype="float32")
    g.output("y", dg.gemm(x, dg.join([a, b], axis=0), trans_b="transpose"))
    assert "the products are as large as the join" in refusal(fused(g, *RULES), "join_of_products")


def test_three_parts_stay_joined() -> None:
    g = dg.Graph("test")
    parts = [g.input(name, sizes=[PAST, SUMS], dtype="float32") for name in "abc"]
    x = g.input("x", sizes=[1, SUMS], dtype="float32")
    g.output("y", dg.gemm(x, dg.join(parts, axis=0), trans_b="transpose"))
    assert not applied(fused(g, *RULES))


@pytest.mark.parametrize("device", ALL_DEVICES)
@pytest.mark.parametrize("summed", [False, True])
@pytest.mark.usefixtures("directml_path")
def test_a_growing_state_is_joined_only_where_products_read_all_its_rows(summed: bool, device: DeviceName) -> None:
    """As in a chunk of a prompt: there are more rows than are thin, and more than half as many as sums."""
    rows, capacity, width = 2 * THIN, PAST, SUMS
    g = dg.Graph("test")
    past = g.state("past", sizes=[capacity, width], dtype="float32", grows=0)
    new = g.input("new", sizes=[rows, width], dtype="float32")
    x = g.input("x", sizes=[rows, capacity + rows if summed else width], dtype="float32")
    joined = dg.join([past, new], axis=0)
    g.output("y", dg.gemm(x, joined, trans_b="none" if summed else "transpose"))
    g.append(past, new)
    executable = g.compile(device)
    before = np.zeros((capacity, width), np.float32)
    for written in (0, rows, 2 * rows):
        given = {"new": numbers(rows, width), "x": numbers(*x.sizes)}
        whole = np.concatenate([before, given["new"]])
        close(executable.run(given)["y"], given["x"], whole if summed else whole.T)
        before[written : written + rows] = given["new"]
    used = [entry.rule for entry in executable.fusion if entry.applied and entry.rule in RULES]
    assert used == ([RULES[summed]] if device == "cpu" else [])
