"""The rectifiers with a parameter.

ACTIVATION_LEAKY_RELU: x, below zero alpha · x; ACTIVATION_PARAMETERIZED_RELU: the same with a slope for each element;
ACTIVATION_THRESHOLDED_RELU: x above alpha, else 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.operators import exact
from support.operators.activations import INTEGER_LEVELS, OLD_LEVELS, ActivationTests, formula_cases, leaky_relu
from support.operators.checks import BroadcastTests, UnaryTests
from support.operators.harness import (
    FLOATS,
    INF,
    NAN,
    SIGNED,
    array,
    assert_same,
    case,
    each_dtype,
    operator_class,
    refused,
    run_all,
)

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName


class TestActivationLeakyRelu(ActivationTests):
    operator = "activation_leaky_relu"
    sample = case("two dimensions", [[[1, -2, 3], [-4, 5, -6]]], [[1, -0.5, 3], [-1, 5, -1.5]], alpha=0.25)
    cases = (
        *each_dtype(FLOATS, "alpha below zero", [[8, -8, 0]], [8, -4, 0], alpha=0.5),
        *each_dtype(FLOATS, "a negative alpha", [[8, -8, 0]], [8, 16, 0], alpha=-2),
        *each_dtype(FLOATS, "special values", [[INF, -INF, NAN]], [INF, -INF, NAN], alpha=0.5),
        *each_dtype(FLOATS, "zero times infinity is no number", [[-INF]], [NAN], alpha=0),
        *formula_cases("alpha is 0.01 unless given", leaky_relu),
        *formula_cases("to the last bit", leaky_relu, alpha=0.3),
    )


class TestActivationThresholdedRelu(UnaryTests):
    operator = "activation_thresholded_relu"
    levels = OLD_LEVELS
    sample = case("two dimensions", [[[1, -2, 3], [4, 2, -6]]], [[0, 0, 3], [4, 0, 0]], alpha=2)
    cases = (
        *each_dtype(FLOATS, "alpha is 1 unless given", [[0.5, 1, 1.5, -3]], [0, 0, 1.5, 0]),
        *each_dtype(FLOATS, "alpha itself is not above", [[2.5, 2.75]], [0, 2.75], alpha=2.5),
        *each_dtype(FLOATS, "a negative alpha lets more pass", [[-3, -2, -1, 0, 1]], [0, 0, -1, 0, 1], alpha=-2),
        *each_dtype(FLOATS, "infinities", [[INF, -INF]], [INF, 0]),
        case("what is not at or below alpha stays", [[NAN, 1]], [NAN, 0]),
        case("what is not above alpha is 0", [[NAN, 1]], [0, 0], "float16"),
        case("nothing is at or below NaN", [[NAN, 1, -INF]], [NAN, 1, -INF], alpha=NAN),
        case("nothing is above NaN", [[NAN, 1, INF]], [0, 0, 0], "float16", alpha=NAN),
    )

    @pytest.mark.parametrize("dtype", FLOATS)
    @pytest.mark.parametrize("host", ["add1", "gemm", "convolution", "rnn"])
    def test_fused_it_is_that_of_the_tensors_type(self, host: str, dtype: str, device: DeviceName) -> None:
        x, one, zero = (array(each, dtype) for each in ([[[[NAN], [1], [2]]]], [[[[1]]]], [[[[0]]]]))
        activation = {"fused_activation": self.operator}
        hosts: dict[str, tuple[list[Any], dict[str, Any]]] = {
            "add1": ([x, np.zeros_like(x)], activation),
            "gemm": ([x, one], activation),
            "convolution": ([x, one], {**activation, "mode": "cross_correlation", "direction": "forward"}),
            "rnn": ([x, one, zero], {"activation_descs": [self.operator], "direction": "forward"}),
        }
        inputs, fields = hosts[host]
        got = run_all(host, inputs, device=device, **fields)[-1]
        # An RNN gets no NaN, because it clips the function's argument.
        assert_same(got.ravel(), array([NAN if dtype == "float32" and host != "rnn" else 0, 0, 2], dtype))


class TestActivationParameterizedRelu(BroadcastTests):
    operator = "activation_parameterized_relu"
    levels = f"{OLD_LEVELS} | {INTEGER_LEVELS}"
    sample = case("two dimensions", [[[1, -2, 3], [-4, 5, -6]], [[9, 2, 9], [0.5, 9, -1]]], [[1, -4, 3], [-2, 5, 6]])
    cases = (
        *each_dtype(FLOATS + SIGNED[:3], "a slope each", [[-3, -3, 3, 0], [2, -1, 5, 5]], [-6, 3, 3, 0]),
        *each_dtype(FLOATS, "special values", [[INF, -INF, NAN, -1], [2, 2, 2, NAN]], [INF, -INF, NAN, NAN]),
        *each_dtype(FLOATS, "the slope of zero and above plays no part", [[0, 1, INF], [NAN, INF, 0]], [0, 1, INF]),
        *each_dtype(FLOATS, "a slope for each channel", [[[-1, 2], [-3, -4]], [[2], [0.5]]], [[-2, 2], [-1.5, -2]]),
        *(
            case("wraps modulo 2^N", [[low, -3, high], [2, high, 2]], [0, exact.wrap(-3 * high, dtype), high], dtype)
            for dtype in SIGNED[:3]
            for low, high in [exact.limits(dtype)]
        ),
        case("float16 rounds once", [[-(1 + 2.0**-10)], [1 + 2.0**-10]], [-(1 + 2.0**-9)], "float16"),
    )  # fmt: skip

    def test_input_and_slope_have_one_data_type(self) -> None:
        x, slope = self.sample.inputs
        error = refused(self.operator, [x, slope.astype("float16")])
        assert (error.field, error.got, error.allowed) == ("slope", "float16 [2,3]", "float32 [2,3]")

    def test_without_a_graph_the_slope_has_the_sizes_of_the_input(self) -> None:
        descs = [dg.TensorDesc(dtype="float32", sizes=sizes) for sizes in ([2, 3], [1, 3])]
        with pytest.raises(dg.OperatorError) as caught:
            operator_class(self.operator)(input=descs[0], slope=descs[1])
        assert (caught.value.field, caught.value.got) == ("slope", "float32 [1,3]")
