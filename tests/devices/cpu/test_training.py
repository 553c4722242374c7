"""Batch normalization in training and its gradients on the device `cpu`: near `reference`, nothing in Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.cpu.near import UNIT, Array, filled, layouts, make, run, seeds

from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.devices.cpu.plan import lowered
from dmlgraph.operators.declaration.operator import Operator

FLOATS = st.sampled_from(["float32", "float16"])
sizes_of = st.lists(st.sampled_from([1, 2, 3, 5, 17]), min_size=2, max_size=5).map(tuple)


def desc(sizes: tuple[int, ...], dtype: str) -> TensorDesc:
    return TensorDesc(dtype=DataType.parse(dtype), sizes=sizes)


@st.composite
def shapes(draw: st.DrawFn) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """A type, the input's sizes, and those of the parameters: the channels', or any."""
    sizes = draw(sizes_of)
    kept = draw(st.one_of(st.just([1]), st.lists(st.integers(0, len(sizes) - 1), max_size=3)))
    return draw(FLOATS), sizes, tuple(size if axis in kept else 1 for axis, size in enumerate(sizes))


def check(operator: Operator, arrays: Sequence[Array | None], units: int) -> None:
    """Each output is near `reference`'s: to so many units of the greatest magnitude, and the type's own."""
    assert isinstance(lowered(operator), tuple)
    for got, expected in zip(run(operator, *arrays), operator.evaluate(*arrays), strict=True):
        greatest = np.abs(expected[np.isfinite(expected)].astype(np.float64)).max(initial=1.0)
        own = 2.0**-10 if got.dtype == np.float16 else 0.0
        np.testing.assert_allclose(
            got.astype(np.float64), expected.astype(np.float64), rtol=own + units * UNIT, atol=units * UNIT * greatest
        )


@given(shapes(), st.booleans(), st.sampled_from([None, "activation_relu"]), layouts, seeds)
def test_batch_normalization_training(
    shape: tuple[str, tuple[int, ...], tuple[int, ...]], adds: bool, activation: str | None, layout: str, seed: int
) -> None:
    dtype, sizes, channels = shape
    x, parameter = desc(sizes, dtype), desc(channels, dtype)
    fused: Any = activation and {"op": activation}
    operator = make(
        "batch_normalization_training", input=x, scale=parameter, bias=parameter, fused_add=x if adds else None,
        epsilon=0.125, fused_activation=fused,
    )  # fmt: skip
    check(operator, filled(operator, seed, layout), 64)


@given(shapes(), st.sampled_from(["", "_training"]), layouts, seeds)
def test_its_gradients(
    shape: tuple[str, tuple[int, ...], tuple[int, ...]], training: str, layout: str, seed: int
) -> None:
    dtype, sizes, channels = shape
    x, parameter = desc(sizes, dtype), desc(channels, dtype)
    operator = make(
        f"batch_normalization{training}_grad", input=x, input_gradient=x, mean=parameter, variance=parameter,
        scale=parameter, epsilon=0.125,
    )  # fmt: skip
    arrays = filled(operator, seed, layout)
    assert arrays[3] is not None
    arrays[3] = np.abs(arrays[3]) + arrays[3].dtype.type(0.5)
    check(operator, arrays, 512)


def test_products_beyond_float32_on_the_way() -> None:
    """cpu multiplies in float32; reference rounds once."""
    x, one = desc((2, 1, 1, 1), "float32"), desc((1, 1, 1, 1), "float32")
    operator = make(
        "batch_normalization_grad", input=x, input_gradient=x, mean=one, variance=one, scale=one, epsilon=0.0
    )
    numbers = ([1e30, -1e30], [1e30, 1e30], [0.0], [1e30], [1.0])
    arrays = [np.array(each, np.float32).reshape(-1, 1, 1, 1) for each in numbers]
    got, expected = run(operator, *arrays)[1], operator.evaluate(*arrays)[1]
    assert np.isnan(got.ravel()).all()  # infinity - infinity
    np.testing.assert_array_equal(expected.ravel(), [0.0])
