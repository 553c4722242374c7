"""ACTIVATION_RELU_GRAD: the gradient where the input is above zero, else 0."""

from __future__ import annotations

from support.operators import exact
from support.operators.activations import INTEGER_LEVELS
from support.operators.checks import BroadcastTests
from support.operators.harness import FLOATS, INF, NAN, SIGNED, case, each_dtype, refused


class TestActivationReluGrad(BroadcastTests):
    operator = "activation_relu_grad"
    levels = f"3.0: 1-8D F32 F16 | {INTEGER_LEVELS}"
    sample = case("two dimensions", [[[1, -2, 3], [-4, 5, 0]], [[10, 20, 30], [40, 50, 60]]], [[10, 0, 30], [0, 50, 0]])
    cases = (
        *each_dtype(FLOATS + SIGNED[:3], "where above zero", [[-7, 7, 0, 1], [1, -2, 3, 4]], [0, -2, 0, 4]),
        *each_dtype(FLOATS, "zero is not above", [[0.0, -0.0, 2.0**-24], [1, 1, 1]], [0, 0, 1]),
        *each_dtype(FLOATS, "NaN is not above", [[NAN, INF, -INF], [1, 2, 3]], [0, 2, 0]),
        *each_dtype(FLOATS, "gradients pass unchanged", [[1, 1, 1, 1], [INF, -INF, NAN, -0.0]], [INF, -INF, NAN, -0.0]),
        *each_dtype(FLOATS, "what is stopped is 0", [[-1, -1, -1, -1], [INF, -INF, NAN, -0.0]], [0.0, 0.0, 0.0, 0.0]),
        *(
            case("extremes", [[low, high, high], [high, low, high]], [0, low, high], dtype)
            for dtype in SIGNED[:3]
            for low, high in [exact.limits(dtype)]
        ),
    )

    def test_input_and_gradient_have_one_data_type(self) -> None:
        x, gradient = self.sample.inputs
        error = refused(self.operator, [x, gradient.astype("float16")])
        assert (error.field, error.got, error.allowed) == ("input_gradient", "float16 [2,3]", "float32 [2,3]")
