"""Sizes as expressions over dims: `x.shape` of inputs and inner values."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest

import dmlgraph as dg


@pytest.fixture
def g() -> dg.Graph:
    return dg.Graph("g", dims={"N": 2, "M": 24})


@pytest.fixture
def x(g: dg.Graph) -> dg.Value:
    return g.input("x", sizes=["N", "M", 4], dtype="float32")


def expressions(value: dg.Value) -> list[str]:
    return [str(getattr(each, "expression", each)) for each in value.shape]


def test_sizes_of_inner_values_follow_the_dims(x: dg.Value) -> None:
    assert x.shape == x.sizes == (2, 24, 4)
    assert expressions(x) == ["N", "M", "4"]
    assert expressions(x.transpose(1, 0, 2).flatten(1)) == ["M", "N * 4"]
    assert expressions(x.reshape(-1, 4)) == ["N * M", "4"]
    assert expressions(dg.join([x, x, x[:, :1]], axis=1)) == ["N", "M * 2 + 1", "4"]
    assert expressions(x[:, 1::2]) == ["N", "M // 2", "4"]
    pooled = dg.max_pooling(x.expand_dims(1), window_size=[3, 1], strides=[2, 1], start_padding=[1, 0])
    assert expressions(pooled) == ["N", "1", "M // 2", "4"]


def test_what_is_made_of_sizes_holds_with_other_dims(g: dg.Graph, x: dg.Value) -> None:
    batch, rows, columns = x.shape
    heads = dg.exp(x).reshape(batch * rows, columns // 2, 2).reshape(batch, rows // 2, -1)
    g.output("mean", dg.reduce(heads[:, : rows // 4], function="sum", axes=[1]) * (1 / rows) + batch)
    a = np.zeros((3, 40, 4), np.float32)
    result = g.compile("reference", dims={"N": 3, "M": 40}).run({"x": a})["mean"]
    np.testing.assert_array_equal(result, np.full((3, 1, 8), np.float32(10) * np.float32(1 / 40) + 3))
    state = g.state("s", sizes=[rows + 1, 2 * batch], dtype="float32")
    assert g.with_dims({"N": 3, "M": 40}).value("s").sizes == (41, 6)
    assert state.shape == (25, 4)


def test_a_size_is_also_a_number(x: dg.Value) -> None:
    batch, rows, _ = x.shape
    assert batch == 2
    assert rows > batch
    assert np.zeros(x.shape).shape == (2, 24, 4)
    assert f"{batch}, {rows:3}" == "2,  24"
    assert [3 - batch, rows % 5, 48 // rows, batch - rows, 2**batch, -batch] == [1, 4, 2, -22, 4, -2]
    same = pickle.loads(pickle.dumps(rows * 2))
    assert (same, str(same.expression)) == (48, "M * 2")


def test_a_dim_that_cannot_change_is_a_number(g: dg.Graph, x: dg.Value) -> None:
    fixed = dg.add(x, g.constant("c", np.ones((1, 24, 4), np.float32)))
    assert expressions(fixed) == ["N", "24", "4"]
    assert expressions(x) == ["N", "24", "4"]  # it holds for the whole graph, which has one size only


def test_an_edited_graph_is_looked_at_again(g: dg.Graph, x: dg.Value) -> None:
    h = dg.negate(x, name="h")
    assert expressions(h) == ["N", "M", "4"]
    other = copy.copy(g)
    g.set("x", sizes=["N", "M + 1", 4])
    assert expressions(g.value("h")) == ["N", "M + 1", "4"]
    assert expressions(other.value("h")) == ["N", "M", "4"]


def test_a_deep_graph_is_no_recursion() -> None:
    g = dg.Graph("g", dims={"N": 2})
    value: Any = g.input("x", sizes=["N"], dtype="float32")
    for _ in range(3000):
        value = dg.negate(value)
    assert expressions(value) == ["N"]


def made_of_sizes(x: dg.Value) -> list[Any]:
    size = x.shape[1]
    products = [size * 0.5, 0.5 * size, np.float32(2) * size, size * np.int64(3)]
    quotients = [1.0 / size, np.float64(6) / size, size / 4, 100 // size, size % 5]
    powers = [size**-0.5, 2.0**-size, np.sqrt(size), size**2]
    return [*products, *quotients, *powers, -size, +size, size - 1, math.ceil(size / 5), math.floor(size / 5)]


def test_arithmetic_on_sizes_follows_the_dims(g: dg.Graph, x: dg.Value) -> None:
    for place, number in enumerate(made_of_sizes(x)):
        g.output(f"y{place}", x * number)
    ones = np.ones((1, 6, 4), np.float32)
    results = g.compile("reference", dims={"N": 1, "M": 6}).run({"x": ones})
    other = dg.Graph(dims={"N": 1, "M": 6}).input("x", sizes=["N", "M", 4], dtype="float32")
    for place, number in enumerate(made_of_sizes(other)):
        np.testing.assert_allclose(results[f"y{place}"], ones * float(number), rtol=1e-6)


def test_a_size_is_taken_as_a_number(x: dg.Value) -> None:
    size: Any = x.shape[0]
    assert (size, hash(size), f"{size:>3}", str(size / 4)) == (2, hash(2), "  2", "0.5")
    assert [size == 2, size != 3, 1 < size <= 2, bool(size)] == [True] * 4
    assert ([1, 2, 3][size], list(range(size)), np.zeros((size, 3)).shape, [0] * size) == (3, [0, 1], (2, 3), [0, 0])
    np.testing.assert_array_equal(np.arange(size) * size + np.ones(2) * size, [2, 4])
    assert (math.sqrt(size + 2), int(size / 2), round(size / 3, 1), divmod(size, 2), np.exp(size - 2)) == (
        2,
        1,
        0.7,
        (1, 0),
        1,
    )
    with pytest.raises(ZeroDivisionError):
        size / 0
    for wrong in (lambda: range(size / 2), lambda: size * None):
        with pytest.raises(TypeError):
            wrong()
