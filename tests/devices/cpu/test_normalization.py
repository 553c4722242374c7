"""Normalizations on the device `cpu`: sums, means and deviations are computed in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cpu.rows import SHAPES, Array, both, graph, near, numbers, shapes_and_axes

import dmlgraph as dg

UNITS = 10


def compare(build: Any, arrays: dict[str, Array], shift: Array | float = 0.0) -> None:
    """Checks results to some units of the numbers before and after the shift."""
    ((got, expected),) = both(graph(build, arrays), arrays)
    near(got, expected, UNITS, np.abs(expected.astype(np.float64)) + np.abs(shift))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(("sizes", "axes"), SHAPES, ids=str)
@pytest.mark.parametrize("divides", [True, False])
def test_mean_and_variance(sizes: tuple[int, ...], axes: tuple[int, ...], dtype: str, divides: bool) -> None:
    def build(x: dg.Value) -> dg.Value:
        return dg.mean_variance_normalization1(x, axes=axes, normalize_variance=divides, epsilon=1e-5)

    compare(build, {"x": numbers(sizes, dtype)})


@pytest.mark.parametrize("mean", [1e3, 1e6])
def test_a_mean_far_from_zero_costs_no_digits(mean: float) -> None:
    x = (numbers((4, 500)).astype(np.float64) + mean).astype(np.float32)
    compare(lambda x: dg.mean_variance_normalization1(x, axes=[1], normalize_variance=True, epsilon=0.0), {"x": x})


def test_squares_do_not_overflow() -> None:
    x = numbers((4, 500)) * np.float32(1e30)
    for axes in ([1], [0]):
        compare(
            lambda x, axes=axes: dg.mean_variance_normalization1(x, axes=axes, normalize_variance=True, epsilon=0.0),
            {"x": x},
        )
    compare(lambda x: dg.lp_normalization(x, axis=1, epsilon=0.0, p=2), {"x": x})


@pytest.mark.parametrize("activation", [None, "activation_relu", "activation_sigmoid"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("axes", [(3,), (1,), (2, 3), (0, 2, 3)])
@given(seed=st.integers(0, 9))
@settings(max_examples=3, deadline=None)
def test_scale_bias_and_activation(activation: str | None, dtype: str, axes: tuple[int, ...], seed: int) -> None:
    sizes = (2, 5, 6, 20)
    one = tuple(size if axis in axes else 1 for axis, size in enumerate(sizes))
    arrays = {"x": numbers(sizes, dtype, seed)}
    arrays |= {name: numbers(one, dtype, seed + 1 + k) for k, name in enumerate(("scale", "bias"))}

    def build(x: dg.Value, scale: dg.Value, bias: dg.Value) -> dg.Value:
        return dg.mean_variance_normalization1(
            x, scale, bias, axes=axes, normalize_variance=True, epsilon=1e-5, fused_activation=activation
        )

    compare(build, arrays, 4.0)


@given(shape=shapes_and_axes(), use_mean=st.booleans(), use_variance=st.booleans())
@settings(max_examples=40, deadline=None)
def test_any_axes(shape: Any, use_mean: bool, use_variance: bool) -> None:
    sizes, axes = shape

    def build(x: dg.Value) -> dg.Value:
        return dg.mean_variance_normalization2(x, axes=axes, use_mean=use_mean, use_variance=use_variance, epsilon=1e-3)

    compare(build, {"x": numbers(sizes)})


@pytest.mark.parametrize("cross", [True, False])
def test_images(cross: bool) -> None:
    compare(
        lambda x: dg.mean_variance_normalization(x, cross_channel=cross, normalize_variance=True, epsilon=1e-5),
        {"x": numbers((2, 3, 30, 40))},
    )


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("sizes", [(2, 3, 4, 5), (1, 64, 40, 40)])
def test_batches(sizes: tuple[int, ...], dtype: str) -> None:
    arrays = {"x": numbers(sizes, dtype)}
    for seed, name in enumerate(("mean", "variance", "scale", "bias")):
        arrays[name] = np.abs(numbers((sizes[1],), dtype, seed))

    def build(**given: dg.Value) -> dg.Value:
        return dg.batch_normalization(*given.values(), spatial=True, epsilon=1e-2, fused_activation="activation_relu")

    ratio = np.max(arrays["scale"] / np.sqrt(arrays["variance"] + 1e-2))
    compare(build, arrays, float(ratio * np.abs(arrays["x"]).max() + arrays["bias"].max()))


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_norms(p: int, dtype: str, axis: int) -> None:
    compare(lambda x: dg.lp_normalization(x, axis=axis, epsilon=1e-3, p=p), {"x": numbers((5, 40, 300), dtype)})
