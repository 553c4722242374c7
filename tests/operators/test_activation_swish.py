"""The gated activations: ACTIVATION_SWISH: x · sigmoid(scale · x), ACTIVATION_HARD_SWISH: x · hard_sigmoid(x)."""

from __future__ import annotations

from typing import Any

from support.operators.activations import NUMBERS, ActivationTests, formula_cases, hard_swish, swish
from support.operators.harness import FLOATS, INF, NAN, case, each_dtype

SIXTH = {"alpha": 1 / 6, "beta": 0.5}
ONCE: dict[str, Any] = {"sigmoid_input_scale": 1}


class GatedTests(ActivationTests):
    levels = "6.2: 1-8D F32 F16"


class TestActivationSwish(GatedTests):
    operator = "activation_swish"
    sample = case("two dimensions", [[[0, 2, -4], [100, 0, -6]]], [[0, 1, -2], [50, 0, -3]], sigmoid_input_scale=0)
    cases = (
        *each_dtype(FLOATS, "zeros and infinity", [[0.0, -0.0, INF, NAN]], [0.0, -0.0, INF, NAN], **ONCE),
        *each_dtype(FLOATS, "minus infinity times zero is no number", [[-INF]], [NAN], **ONCE),
        *each_dtype(FLOATS, "scale zero halves", [[4, -3]], [2, -1.5], sigmoid_input_scale=0),
        *formula_cases("to the last bit", swish, **ONCE),
        *formula_cases("a scale", swish, NUMBERS[:-1], sigmoid_input_scale=1.7),
        *formula_cases("a negative scale", swish, sigmoid_input_scale=-0.5),
    )  # fmt: skip


class TestActivationHardSwish(GatedTests):
    operator = "activation_hard_swish"
    sample = case("two dimensions", [[[0, 1, -4], [8, -1, 2]]], [[0, 0.75, -0.0], [8, -0.25, 2]], alpha=0.25, beta=0.5)
    cases = (
        *each_dtype(FLOATS, "the gate opens", [[-3, -1, 1, 3]], [-0.0, -0.25, 0.75, 3], alpha=0.25, beta=0.5),
        *each_dtype(FLOATS, "the gate closes", [[-3, -1, 1, 3]], [-3, -1, 0, 0], alpha=-2, beta=0.5),
        *each_dtype(FLOATS, "zeros and infinity", [[0.0, -0.0, INF, NAN]], [0.0, -0.0, INF, NAN], **SIXTH),
        *each_dtype(FLOATS, "minus infinity times zero is no number", [[-INF]], [NAN], **SIXTH),
        *formula_cases("a sixth and a half", hard_swish, [0.5, 1, 2.75, -0.5, -1, -2.75, 1e-3], **SIXTH),
        *formula_cases("alpha and beta", hard_swish, [0.5, 1, 2.75, -0.5, -1, -2, 1e-3], alpha=0.3, beta=0.7),
    )
