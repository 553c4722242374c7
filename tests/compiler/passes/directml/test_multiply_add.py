"""A product and a sum of tensors become one BATCH_NORMALIZATION."""

from __future__ import annotations

import numpy as np
import pytest
from support.operators.harness import assert_same
from support.passes.fusing import Array, applied, fused, of_one, operators, refusal, results, samples

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices.names import DeviceName


def multiply_add(sizes: list[int], dtype: DataTypeName) -> tuple[dg.Graph, dict[str, Array]]:
    graph = dg.Graph("test")
    random = np.random.default_rng(11)
    x = graph.input("x", sizes=[2, 3, 4, 5], dtype=dtype)
    w, b = (graph.input(name, sizes=sizes, dtype=dtype) for name in "wb")
    graph.output("y", x * w + b)
    arrays = {name: random.standard_normal([2, 3, 4, 5] if name == "x" else sizes).astype(dtype) for name in "xwb"}
    arrays["x"].flat[:4] = [np.nan, np.inf, -0.0, 0.0]
    return graph, arrays


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("sizes", [[2, 3, 4, 5], [1, 3, 1, 1], [5], [1, 1, 4, 1]])
def test_multiply_add(sizes: list[int], dtype: DataTypeName, device: DeviceName) -> None:
    graph, arrays = multiply_add(sizes, dtype)
    assert operators(fused(graph, "multiply_add")) == ["batch_normalization"]
    for got, expected in results(graph, arrays, "multiply_add", device=device):
        if device != "reference" and dtype == "float32":
            assert_same(got, expected)
        else:
            finite = np.isfinite(arrays["x"])
            product = np.spacing(np.abs(np.broadcast_to(arrays["x"] * arrays["w"], got.shape)[finite]))
            bound = product.astype(np.float64) / 2 + np.spacing(np.abs(expected[finite])).astype(np.float64)
            assert (np.abs(got[finite].astype(np.float64) - expected[finite].astype(np.float64)) <= bound).all()
            np.testing.assert_array_equal(got[~finite], expected[~finite])


def test_multiply_add_leaves_numbers_and_shared_products() -> None:
    x = samples("float32")
    assert fused(of_one(lambda g, x: x * 3 + x, x), "multiply_add").record == ()
    assert fused(of_one(lambda g, x: x * x + 3, x), "multiply_add").record == ()

    def shared(_: dg.Graph, x: dg.Value) -> dg.Value:
        product = x * x
        return dg.max(product + x, product)

    assert "has other readers" in refusal(fused(of_one(shared, x), "multiply_add"), "multiply_add")
    integers = of_one(lambda g, x: x * x + x, np.ones([1, 1, 1, 3], np.int32))
    assert applied(fused(integers, "multiply_add")) == []
