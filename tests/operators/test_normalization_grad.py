"""The gradients of normalizations, compared with their formulas and with the slopes of the operators."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
import pytest
from support.operators.checks import OperatorTests
from support.operators.harness import FLOATS, Array, Case, case, refused, run, run_all
from support.operators.literal import Index, along, filled, mean, number, root, some, step
from support.problems import expect

from dmlgraph.devices.names import DeviceName

X, G = some([2, 3, 2, 4]), some([2, 3, 2, 4], seed=5)
MEAN, SCALE = some([1, 3, 1, 1], seed=1), some([1, 3, 1, 1], seed=2)
VARIANCE = some([1, 3, 1, 1], low=0.1, high=3, seed=3)
NUMBERS = some([1] * 4, low=0.5)


def batch_gradients(tensors: Sequence[Array], epsilon: float, training: bool) -> list[Any]:
    """The functions of an index: the gradients of the input, of scale and of bias."""
    x, gradient, mean_, variance, scale = tensors
    axes = [axis for axis, size in enumerate(scale.shape) if size == 1]

    def squared(at: Index) -> Decimal:
        return number(variance, at) + step(epsilon)

    def centred(at: Index) -> Decimal:
        return number(x, at) - number(mean_, at)

    def of_input(at: Index) -> Decimal:
        passed = number(gradient, at)
        if training:
            group = along(at, x.shape, axes)
            passed -= mean(number(gradient, place) for place in group)
            share = mean(number(gradient, place) * centred(place) for place in group)
            passed -= centred(at) * share / squared(at)
        return number(scale, at) * passed / root(squared(at))

    def of_scale(at: Index) -> Decimal:
        group = along(at, x.shape, axes)
        return sum((number(gradient, place) * centred(place) / root(squared(at)) for place in group), Decimal(0))

    def of_bias(at: Index) -> Decimal:
        return sum((number(gradient, place) for place in along(at, x.shape, axes)), Decimal(0))

    return [of_input, of_scale, of_bias]


def batch_case(operator: str, why: str, tensors: Sequence[Array], of: str = "float32", epsilon: float = 0.25) -> Case:
    tensors = [each.astype(of) for each in tensors]
    functions = batch_gradients(tensors, epsilon, training="training" in operator)
    sizes = (tensors[0].shape, tensors[4].shape, tensors[4].shape)
    gives = tuple(filled(size, each, of) for size, each in zip(sizes, functions, strict=True))
    return case(why, tensors, gives, of, epsilon=epsilon)


def batch_cases(operator: str) -> tuple[Case, ...]:
    return (
        *(batch_case(operator, "by channel", [X, G, MEAN, VARIANCE, SCALE], of) for of in FLOATS),
        batch_case(operator, "one number each", [X, G, NUMBERS, NUMBERS, NUMBERS]),
        batch_case(operator, "of the batch", [X, G, *(some([1, 3, 2, 4], low=0.1, seed=seed) for seed in range(3))]),
        batch_case(operator, "another epsilon", [X, G, MEAN, VARIANCE, SCALE], epsilon=4),
        batch_case(operator, "one dimension", [some([6]), some([6], seed=1), *[some([1], low=0.1)] * 3]),
    )


class BatchGradientTests(OperatorTests):
    """The checks of both gradients of batch normalization."""

    asked: ClassVar = ("output_gradient", "output_scale_gradient", "output_bias_gradient")
    ulp: ClassVar = {"directml:software": 4}
    ulp_floor: ClassVar = {"directml:software": 8.0}  # sums of numbers of that size are rounded

    @pytest.mark.parametrize("field", ["mean", "variance", "scale"])
    def test_a_parameter_has_size_1_or_the_inputs(self, field: str) -> None:
        inputs = [X, G, *[some([1, 2, 1, 1])] * 3]
        problems = refused(self.operator, inputs, epsilon=1).problems
        assert (f"{field}.sizes.1", 2, "1 or 3") in [(each.field, each.got, each.allowed) for each in problems]

    def test_parameters_have_the_same_sizes(self) -> None:
        inputs = [X, G, MEAN, VARIANCE, some([1] * 4)]
        expect(refused(self.operator, inputs, epsilon=1), "sizes", node="node", field="scale", got="float32 [1,1,1,1]")

    def test_the_gradient_has_the_inputs_sizes(self) -> None:
        inputs = [X, G[:1], MEAN, VARIANCE, SCALE]
        assert refused(self.operator, inputs, epsilon=1).field == "input_gradient"

    def test_a_parameter_of_one_dimension_is_one_of_channels(self, device: DeviceName) -> None:
        inputs = [X, G, *(each.reshape(3) for each in (MEAN, VARIANCE, SCALE))]
        for got, expected in zip(
            run_all(self.operator, inputs, device=device, **self.sample.fields), self.sample.gives, strict=True
        ):
            self.assert_close(got, expected, device)


class TestBatchNormalizationGrad(BatchGradientTests):
    operator = "batch_normalization_grad"
    levels = "3.1: 1-8D F32 F16"
    cases = batch_cases("batch_normalization_grad")
    sample = cases[FLOATS.index("float32")]


class TestBatchNormalizationTrainingGrad(BatchGradientTests):
    operator = "batch_normalization_training_grad"
    levels = "4.1: 1-8D F32 F16"
    cases = batch_cases("batch_normalization_training_grad")
    sample = cases[FLOATS.index("float32")]

    def test_it_is_the_derivative_of_batch_normalization_training(self) -> None:
        x, bias = some([2, 2, 3, 1]), some([1, 2, 1, 1], seed=9)
        scale, gradient = some([1, 2, 1, 1], seed=8), some(x.shape, seed=5)
        _, average, variance = run_all("batch_normalization_training", [x, scale, bias, None], epsilon=0.5)
        got, *_ = run_all(self.operator, [x, gradient, average, variance, scale], epsilon=0.5)

        def value(moved: Array) -> float:
            y, *_ = run_all("batch_normalization_training", [moved, scale, bias, None], epsilon=0.5)
            return float((y.astype(np.float64) * gradient).sum())

        np.testing.assert_allclose(got, differences(value, x), atol=2e-3)


def differences(value: Any, x: Array) -> Array:
    """How fast a number changes with each element of x."""
    slopes = np.zeros(x.shape)
    for place in np.ndindex(*x.shape):
        moved = np.zeros_like(x)
        moved[place] = 2**-8
        slopes[place] = (value(x + moved) - value(x - moved)) / 2**-7
    return slopes


FIELDS = {"cross_channel": True, "local_size": 3, "alpha": 0.5, "beta": 0.75, "bias": 1.5}


def response_gradient(x: Array, gradient: Array, **fields: Any) -> Any:
    size, alpha, beta, bias = fields["local_size"], step(fields["alpha"]), step(fields["beta"]), step(fields["bias"])

    def near(at: Index) -> list[Index]:
        def around(axis: int) -> range:
            before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
            return range(max(0, at[axis] - before), min(x.shape[axis], at[axis] + after + 1))

        n, c, h, w = at
        if fields["cross_channel"]:
            return [(n, channel, h, w) for channel in around(1)]
        return [(n, c, row, column) for row in around(2) for column in around(3)]

    def base(at: Index) -> Decimal:
        return bias + alpha / size * sum((number(x, place) ** 2 for place in near(at)), Decimal(0))

    def element(at: Index) -> Decimal:
        through = sum(
            (number(gradient, place) * number(x, place) / base(place) ** (beta + 1) for place in near(at)), Decimal(0)
        )
        return number(gradient, at) / base(at) ** beta - 2 * alpha * beta / size * number(x, at) * through

    return element


def response_case(why: str, of: str = "float32", x: Array = X, g: Array = G, **fields: Any) -> Case:
    fields = FIELDS | fields
    x, g = x.astype(of), g.astype(of)
    return case(why, [x, g], filled(x.shape, response_gradient(x, g, **fields), of), of, **fields)


class TestLocalResponseNormalizationGrad(OperatorTests):
    operator = "local_response_normalization_grad"
    levels = "3.1: 4D F32 F16"
    ulp: ClassVar = {"directml:software": 4}
    ulp_floor: ClassVar = {"directml:software": 2.0}
    sample = response_case("channels")
    cases = (
        *(response_case("channels", of) for of in FLOATS),
        *(response_case("rows and columns", of, cross_channel=False) for of in FLOATS),
        *(
            response_case(f"{size} channels", x=some([1, 6, 1, 2]), g=some([1, 6, 1, 2], seed=1), local_size=size)
            for size in (1, 2, 4, 5)
        ),
        *(
            response_case(f"{size} rows", x=some([1, 1, 3, 5]), g=some([1, 1, 3, 5], seed=1), local_size=size,
                          cross_channel=False)
            for size in (1, 2, 4)
        ),
        response_case("another alpha", alpha=2),
        response_case("another beta", beta=2),
        response_case("another bias", bias=0.5),
    )  # fmt: skip

    def test_a_neighbourhood_has_an_element(self) -> None:
        assert refused(self.operator, [X, G], **FIELDS | {"local_size": 0}).field == "local_size"

    def test_sizes_agree(self) -> None:
        assert refused(self.operator, [X, G[:1]], **FIELDS).field == "input_gradient"

    @pytest.mark.parametrize("cross_channel", [True, False])
    def test_for_an_odd_size_it_is_the_derivative(self, cross_channel: bool) -> None:
        x, gradient = some([1, 3, 2, 3]), some([1, 3, 2, 3], seed=5)
        fields: dict[str, Any] = FIELDS | {"cross_channel": cross_channel}

        def value(moved: Array) -> float:
            y = run("local_response_normalization", [moved], **fields)
            return float((y.astype(np.float64) * gradient).sum())

        got = run(self.operator, [x, gradient], **fields)
        np.testing.assert_allclose(got, differences(value, x), atol=1e-3)
