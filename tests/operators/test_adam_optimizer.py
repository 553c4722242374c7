"""ADAM_OPTIMIZER: one step of Adam."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal, localcontext
from typing import Any, ClassVar, SupportsFloat

import numpy as np
import pytest
from support.operators.families import ShapedTests
from support.operators.harness import FLOATS, NAN, Case, array, case, refused, run_all, ulps

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName


def step(number: int) -> np.ndarray:
    return array([[[[number]]]], "uint32")


def adam(numbers: Iterable[SupportsFloat], t: int, fields: Mapping[str, float]) -> tuple[Decimal, ...]:
    """Parameter, first and second moment after step t, from the ones before it and the gradient, to 40 digits."""
    with localcontext(prec=40):
        x, m, v, g, rate, beta1, beta2, epsilon = (
            Decimal(float(np.float32(float(each)))) for each in (*numbers, *fields.values())
        )
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        alpha = rate * (1 - beta2**t).sqrt() / (1 - beta1**t)
        return x - alpha * m / (v.sqrt() + epsilon), m, v


def row(why: str, inputs: list[Any], number: int, gives: list[Any], dtype: str, **fields: Any) -> Case:
    tensors = [array([[each]], dtype) for each in inputs]
    outputs = tuple(array([[each]], dtype) for each in gives)
    return case(why, [*tensors, step(number)], outputs, dtype, **fields)


# Betas of a half and squares: every step is exact in any float type.
EXACT: dict[str, Any] = {"learning_rate": 1.0, "beta1": 0.5, "beta2": 0.0, "epsilon": 0.0}


class TestAdamOptimizer(ShapedTests):
    operator = "adam_optimizer"
    kinds = "xxxxi"
    levels = "3.0: 4D F32 F16"
    others: ClassVar = {"i": "3.0: 4D U32"}
    # M = G/2 or M/2 + G/2, V = G², alpha = 1 / (1 − 1/2) = 2: X − 2M/|G|.
    sample = row(
        "two dimensions",
        [[[1, 2, 3], [4, 5, 6]], [[0, 0, 0], [4, 4, 4]], [[9, 9, 9], [9, 9, 9]], [[1, -2, 4], [8, -4, 2]]],
        1,
        [[[0, 3, 2], [2.5, 5, 3]], [[0.5, -1, 2], [6, 0, 3]], [[1, 4, 16], [64, 16, 4]]],
        "float32",
        **EXACT,
    )
    cases = (
        sample,
        *(
            row("the first step", [[[1, 2]], [[0, 4]], [[9, 9]], [[2, -4]]], 1,
                [[[0, 2]], [[1, 0]], [[4, 16]]], dtype, **EXACT)
            for dtype in FLOATS
        ),
        *(
            row("step 0: alpha is the learning rate", [[[1, 2]], [[0, 4]], [[9, 9]], [[2, -4]]], 0,
                [[[0.5, 2]], [[1, 0]], [[4, 16]]], dtype, **EXACT)
            for dtype in FLOATS
        ),
        *(
            # beta2 = 3/4: V = 3/4 · 4 + 1/4 · 4 = 4; alpha = √(1 − 3/4) / (1 − 1/2) = 1.
            row("the second moment", [[[3]], [[2]], [[4]], [[2]]], 1, [[[2]], [[2]], [[4]]], dtype,
                learning_rate=1.0, beta1=0.5, beta2=0.75, epsilon=0.0)
            for dtype in FLOATS
        ),
        *(
            # T = 2: alpha = √(1 − 0) / (1 − 1/4) · 3/4 = 1.
            row("the second step", [[[3]], [[2]], [[9]], [[2]]], 2, [[[2]], [[2]], [[4]]], dtype,
                learning_rate=0.75, beta1=0.5, beta2=0.0, epsilon=0.0)
            for dtype in FLOATS
        ),
        *(
            row("a negative beta has no power", [[[3]], [[2]], [[9]], [[2]]], 1, [[[NAN]], [[2]], [[9]]], dtype,
                learning_rate=1.0, beta1=-1.0, beta2=1.0, epsilon=0.0)
            for dtype in FLOATS
        ),
        *(
            row("epsilon", [[[3]], [[2]], [[9]], [[2]]], 1, [[[2]], [[2]], [[4]]], dtype,
                learning_rate=1.0, beta1=0.5, beta2=0.0, epsilon=2.0)
            for dtype in FLOATS
        ),
    )  # fmt: skip

    def at_rank(self, rank: int) -> tuple[list[list[int]], dict[str, Any]]:
        return [[1] * (rank - 1) + [2]] * 4 + [[1] * rank], EXACT

    @pytest.mark.parametrize("number", [1, 2, 10, 1000])
    def test_formula(self, number: int, device: DeviceName) -> None:
        """To 8 units of float32, because nothing cancels; the reference to one."""
        rng = np.random.default_rng(number)
        x, m, v, g = (rng.uniform(1, 2, [1, 1, 2, 5]).astype(np.float32) for _ in range(4))
        fields = {"learning_rate": 0.001, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}
        got = run_all("adam_optimizer", [x, m, v, g, step(number)], device=device, **fields)
        exact = [adam(each, number, fields) for each in zip(x.flat, m.flat, v.flat, g.flat, strict=True)]
        for index, output in enumerate(got):
            expected = array([float(each[index]) for each in exact], "float32").reshape(output.shape)
            assert ulps(output, expected).max() <= (1 if device == "reference" else 8)

    def test_step_is_one_number(self) -> None:
        inputs = [*self.sample.inputs[:4], array([[[[1, 2]]]], "uint32")]
        error = refused("adam_optimizer", inputs, **EXACT)
        assert (error.field, error.got) == ("training_step.sizes", [1, 1, 1, 2])

    def test_step_is_uint32(self) -> None:
        """Measured: DirectML refuses the float types that its documentation lists."""
        for dtype in ("float32", "int32"):
            error = refused("adam_optimizer", [*self.sample.inputs[:4], step(1).astype(dtype)], **EXACT)
            assert (error.field, error.got, error.allowed) == ("training_step.dtype", dtype, "uint32")

    def test_tensors_have_the_parameters_sizes_and_data_type(self) -> None:
        for index, field in ((1, "input_first_moment"), (2, "input_second_moment"), (3, "gradient")):
            for other in (np.zeros([1, 1, 3, 2], np.float32), np.zeros([1, 1, 2, 3], np.float16)):
                inputs = list(self.sample.inputs)
                inputs[index] = other
                error = refused("adam_optimizer", inputs, **EXACT)
                assert error.field == field

    def test_outputs_have_names(self) -> None:
        graph = dg.Graph("test")
        x = graph.input("x", sizes=[1, 1, 1, 1], dtype="float32")
        results = dg.adam_optimizer(x, x, x, x, graph.input("t", sizes=[1, 1, 1, 1], dtype="uint32"), **EXACT)
        assert [each.reference.partition(".")[2] for each in results] == [
            "output_parameters", "output_first_moment", "output_second_moment"
        ]  # fmt: skip
