"""Where the real DirectML differs from the reference: infinities, overflows and the steps of float16."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.operators.harness import run, run_all

from dmlgraph.devices.names import DeviceName

Array = np.ndarray[Any, Any]
INF, NAN = float("inf"), float("nan")
LARGE = 3e38  # twice that is infinite in float32

pytestmark = pytest.mark.usefixtures("directml_path")


def both(operator: str, inputs: list[Array], **fields: Any) -> tuple[Array, Array]:
    """The results of DirectML and of the reference."""
    return run(operator, inputs, device="directml:software", **fields), run(operator, inputs, **fields)


def single(values: Any) -> Array:
    return np.array(values, np.float32)


@pytest.mark.parametrize("seed", range(20))
def test_the_steps_of_mean_variance_normalization_in_float16(seed: int) -> None:
    """Mean, variance, difference, quotient, product and sum are each rounded."""
    random = np.random.default_rng(seed)
    x, scale, bias = (random.normal(3, 40, [2, 3, 2, size]).astype(np.float16) for size in (5, 1, 1))
    fields = {"axes": [2, 3], "normalize_variance": True, "epsilon": 0.01}
    got, expected = both("mean_variance_normalization1", [x, scale, bias], **fields)
    wide = x.astype(np.float32)
    mean = wide.mean((2, 3), keepdims=True, dtype=np.float32).astype(np.float16)
    variance = np.square(wide - mean.astype(np.float32)).mean((2, 3), keepdims=True).astype(np.float16)
    root = np.sqrt(variance.astype(np.float32) + np.float32(0.01))
    steps = ((x - mean).astype(np.float32) / root).astype(np.float16) * scale + bias
    np.testing.assert_array_equal(got, steps)
    assert (got != expected).any()  # the reference rounds once


@pytest.mark.parametrize(("dtype", "large"), [("float32", 1e20), ("float16", 60000)])
def test_squares_overflow_in_normalizations(dtype: str, large: float) -> None:
    x = np.array([[[[large, 1, 2, 3]]]], dtype)
    fields = {"axes": [3], "normalize_variance": True, "epsilon": 1e-3}
    got, expected = both("mean_variance_normalization1", [x], **fields)
    np.testing.assert_array_equal(got, np.zeros_like(x))  # divided by an infinite deviation
    assert abs(expected[0, 0, 0, 0]) > 1


def test_the_scale_of_batch_normalization_training_is_applied_to_the_mean_too() -> None:
    """x · factor + (bias − mean · factor): ∞ − ∞ for an infinite scale."""
    x = single([1, 2, 4]).reshape(3, 1, 1, 1)
    scale, bias = single([INF]).reshape(1, 1, 1, 1), single([0]).reshape(1, 1, 1, 1)
    expected: dict[DeviceName, Any] = {"directml:software": [NAN, NAN, NAN], "reference": [-INF, -INF, INF]}
    for device, gives in expected.items():
        output, *_ = run_all("batch_normalization_training", [x, scale, bias], device=device, epsilon=0.5)
        np.testing.assert_array_equal(output.ravel(), gives)


def test_batch_normalization_training_of_a_single_element_in_float16() -> None:
    """The exact result is the bias; but x · factor and mean · factor are about 3354, where float16 has a unit of 2."""
    x, scale, bias = (np.full([1] * 4, number, np.float16) for number in (-5.484, 1.934, -1.17))
    expected: dict[DeviceName, Any] = {"directml:software": -2, "reference": np.float16(-1.17)}
    for device, gives in expected.items():
        output, *_ = run_all("batch_normalization_training", [x, scale, bias], device=device, epsilon=1e-5)
        np.testing.assert_array_equal(output.ravel(), [gives])


def test_sums_of_products_overflow_on_the_way() -> None:
    a, b = single([[LARGE, LARGE, -LARGE]]), single([[1], [1], [1]])
    got, expected = both("gemm", [a, b])
    assert not np.isfinite(got).any()
    np.testing.assert_array_equal(expected, single([[LARGE]]))


def test_sums_of_average_pooling_overflow() -> None:
    window: dict[str, Any] = {"strides": [1, 1], "window_size": [1, 3], "start_padding": [0, 0], "end_padding": [0, 0]}
    got, expected = both("average_pooling", [single([[[[LARGE, LARGE, -LARGE]]]])], **window, include_padding=False)
    np.testing.assert_array_equal(got.ravel(), [INF])
    np.testing.assert_allclose(expected.ravel(), [LARGE / 3], rtol=1e-6)


def test_the_product_of_a_linear_activation_overflows() -> None:
    got, expected = both("activation_linear", [single([LARGE, 1])], alpha=2, beta=-INF)
    np.testing.assert_array_equal(got, [NAN, -INF])
    np.testing.assert_array_equal(expected, [-INF, -INF])


def test_an_infinite_element_is_interpolated_with_itself() -> None:
    """0 · ∞ if both neighbours are the same element."""
    x = single([0, INF]).reshape(1, 2, 1, 1)
    fields = {"scales": [1, 1, 1, 2], "interpolation_mode": "linear"}
    got, expected = both("resample", [x], **fields)
    np.testing.assert_array_equal(got.ravel(), [0, 0, NAN, NAN])
    np.testing.assert_array_equal(expected.ravel(), [0, 0, INF, INF])


def test_the_first_step_of_a_recurrence_has_no_product_with_a_state_that_is_left_out() -> None:
    """The reference multiplies by zeros."""
    x, weight, recurrence = (single([[[[number]]]]) for number in (1, 1, INF))
    fields: dict[str, Any] = {
        "direction": "forward",
        "activation_descs": ["activation_tanh"],
        "output_sequence": False,
        "output_single": True,
    }
    (got,) = run_all("rnn", [x, weight, recurrence], device="directml:software", **fields)[-1:]
    np.testing.assert_allclose(got.ravel(), [np.tanh(1)], rtol=1e-6)
    (expected,) = run_all("rnn", [x, weight, recurrence], **fields)[-1:]
    np.testing.assert_array_equal(expected.ravel(), [-1])  # 0 · ∞ is NaN, which is clipped


def test_activations_of_recurrent_networks_have_the_steps_of_float16() -> None:
    """The steps are those of a separate activation, on a rounded sum; the reference uses float64."""
    random = np.random.default_rng(0)
    x = random.normal(0, 3, [1, 1, 1000, 1]).astype(np.float16)
    one, zero = (np.full([1] * 4, number, np.float16) for number in (1, 0))
    fields: dict[str, Any] = {"direction": "forward", "activation_descs": ["activation_tanh"], "output_sequence": False}
    *_, got = run_all("rnn", [x, one, zero], device="directml:software", output_single=True, **fields)
    *_, expected = run_all("rnn", [x, one, zero], output_single=True, **fields)
    np.testing.assert_array_equal(got.ravel(), run("activation_tanh", [x.ravel()], device="directml:software"))
    assert (got != expected).any()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_exponents_beyond_31_bits_are_odd(dtype: str) -> None:
    got, expected = both("constant_pow", [np.array([-1], dtype)], exponent=2.0**31)
    np.testing.assert_array_equal(got, [-1])
    np.testing.assert_array_equal(expected, [1])
