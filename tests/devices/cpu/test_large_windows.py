"""Convolutions with windows nearly as large as the picture run as products, with the same results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlgraph as dg


def convolved(sizes: list[int], filters: list[int], dtype: str, fields: dict[str, Any], *, turned: bool) -> dg.Graph:
    """`turned`: both tensors are read with batch and channels swapped, as for the gradient of a filter."""
    g = dg.Graph("large")
    given = []
    for name, each in (("x", sizes), ("w", filters)):
        shape = [each[1], each[0], *each[2:]] if turned else each
        value = g.input(name, sizes=shape, dtype=dtype)  # type: ignore[arg-type]  # of the table below
        given.append(value.transpose([1, 0, *range(2, len(shape))]) if turned else value)
    g.output("y", dg.convolution(*given, **fields))
    return g


CASES: list[tuple[list[int], list[int], dict[str, Any]]] = [
    ([3, 5, 12, 12], [4, 5, 12, 12], {"start_padding": [1, 1], "end_padding": [1, 1]}),
    ([3, 5, 12, 9], [4, 5, 10, 8], {}),
    ([2, 1, 9, 30], [1, 1, 8, 9], {"strides": [1, 3], "start_padding": [2, 0], "end_padding": [0, 1]}),
    ([3, 4, 17, 17], [2, 4, 8, 8], {"dilations": [2, 2], "start_padding": [1, 1]}),
    ([3, 2, 70], [5, 2, 66], {"start_padding": [1], "end_padding": [2]}),
    ([2, 3, 5, 6, 5], [4, 3, 4, 4, 4], {"start_padding": [1, 0, 1], "end_padding": [0, 0, 1]}),
    ([2, 3, 8, 8], [4, 3, 8, 8], {}),
    ([16, 3, 4, 4], [5, 3, 4, 4], {"start_padding": [1, 1], "end_padding": [1, 1]}),  # few taps, many pictures
    ([17, 2, 7, 7], [3, 2, 4, 4], {"dilations": [2, 2]}),
    ([2, 3, 16, 16], [4, 3, 16, 16], {"start_padding": [3, 0], "end_padding": [3, 0]}),  # wide borders are copied
]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(("sizes", "filters", "fields"), CASES)
def test_results(sizes: list[int], filters: list[int], dtype: str, fields: dict[str, Any], turned: bool) -> None:
    g = convolved(sizes, filters, dtype, fields, turned=turned)
    random = np.random.default_rng(1)
    arrays = {node.name: random.standard_normal(node.desc.sizes).astype(dtype) for node in g.inputs}
    exe, alone = (g.compile("cpu", threads=threads) for threads in (3, 1))
    results = exe.run(arrays)["y"]
    bound = 2e-2 if dtype == "float16" else 1e-4
    np.testing.assert_allclose(results, g.compile("reference").run(arrays)["y"], rtol=bound, atol=10 * bound)
    np.testing.assert_array_equal(alone.run(arrays)["y"], results)
    apart = {name: np.stack([each, each], -1)[..., 0] for name, each in arrays.items()}
    np.testing.assert_array_equal(exe.run(apart)["y"], results)
    assert "gemm" in {step.kernel for step in exe.profile(arrays) or []}


@pytest.mark.parametrize(
    ("sizes", "filters", "fields"),
    [
        ([2, 3, 7, 7], [4, 3, 7, 7], {}),  # few taps
        ([16, 3, 5, 5], [4, 3, 3, 3], {}),  # no more taps than places
        ([2, 3, 20, 20], [4, 3, 8, 8], {}),  # many places
        ([2, 4, 9, 9], [4, 2, 9, 9], {"group_count": 2}),
        ([2, 3, 9, 9], [4, 3, 9, 9], {"fused_activation": "activation_relu"}),
    ],
)
def test_others_are_convolutions(sizes: list[int], filters: list[int], fields: dict[str, Any]) -> None:
    g = convolved(sizes, filters, "float32", fields, turned=False)
    arrays = {node.name: np.ones(node.desc.sizes, np.float32) for node in g.inputs}
    exe = g.compile("cpu")
    assert [step.kernel for step in exe.profile(arrays) or []] == ["convolution"]


def test_the_gradient_of_a_filter_is_a_product() -> None:
    """Of a whole layer, whose windows are tiles forward and for the input's gradient."""
    g = dg.Graph("layer")
    x = g.input("x", sizes=[2, 3, 16, 16], dtype="float32")
    w = g.input("w", sizes=[4, 3, 3, 3], dtype="float32")
    y = dg.convolution(x, w, start_padding=[1, 1], end_padding=[1, 1])
    g.output("dw", dg.gradient(dg.reduce(y * y, function="sum"), [w])[0])
    random = np.random.default_rng(1)
    arrays = {node.name: random.standard_normal(node.desc.sizes).astype(np.float32) for node in g.inputs}
    exe = g.compile("cpu")
    expected = g.compile("reference").run(arrays)["dw"]
    np.testing.assert_allclose(exe.run(arrays)["dw"], expected, rtol=1e-4, atol=1e-3)
    kernels = [step.kernel for step in exe.profile(arrays) or []]
    assert (kernels.count("convolution"), kernels.count("gemm")) == (1, 1)
