"""Optimizers: steps of training."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from dmlgraph.base.errors import Problem
from dmlgraph.operators.common.numerics import convert
from dmlgraph.operators.declaration.constraints import one_number
from dmlgraph.operators.declaration.fields import CountInput, Float, Input, Output, inferred
from dmlgraph.operators.declaration.operator import Array, Operator
from dmlgraph.operators.declaration.outputs import Given, Outcome


class AdamOptimizer(Operator, dml="ADAM_OPTIMIZER"):
    """One step of Adam: new parameters, first and second moment from their old values and the gradient G.

        M = beta1 · M + (1 − beta1) · G
        V = beta2 · V + (1 − beta2) · G²
        alpha = learning_rate · √(1 − beta2^T) / (1 − beta1^T)
        X = X − alpha · M / (√V + epsilon)

    T is the training step, one element; the first step is 1, and at 0 alpha is the learning rate (measured).

    Source: Kingma and Ba, "Adam: a method for stochastic optimization" (2014), in the form at the end of section 2.
    """

    no_derivative: ClassVar = "it is a step of training itself"
    meanings: ClassVar = {
        "input_parameters": "The parameters before the step.",
        "input_first_moment": "The average of the gradients before the step.",
        "input_second_moment": "The average of the squared gradients before the step.",
        "gradient": "The gradient of the parameters.",
        "training_step": "The number of this step, counted from 1.",
        "output_parameters": "The parameters after the step.",
        "output_first_moment": "The average of the gradients after the step.",
        "output_second_moment": "The average of the squared gradients after the step.",
        "learning_rate": "How far a step goes.",
        "beta1": "How much of the first moment a step keeps.",
        "beta2": "How much of the second moment a step keeps.",
    }
    heavy: ClassVar = True
    example: ClassVar = (
        "input_parameters: [1, 1, 2, 3], input_first_moment: [1, 1, 2, 3], input_second_moment: [1, 1, 2, 3], "
        "gradient: [1, 1, 2, 3], training_step: [1, 1, 1, 1], learning_rate: 0.001, beta1: 0.9, beta2: 0.999, "
        "epsilon: 1.0e-8"
    )

    input_parameters: Input
    input_first_moment: Input
    input_second_moment: Input
    gradient: Input
    training_step: CountInput
    output_parameters: Output = inferred()
    output_first_moment: Output = inferred()
    output_second_moment: Output = inferred()
    learning_rate: Float
    beta1: Float
    beta2: Float
    epsilon: Float

    def infer(self, given: Given) -> Outcome:
        return dict.fromkeys(self.output_fields, self.input_parameters.like())

    def constraints(self) -> Iterator[Problem]:
        return one_number("training_step", self.training_step)

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        parameters, first, second, gradient, step = (array.astype(np.float64) for array in inputs)
        with np.errstate(all="ignore"):
            first = self.beta1 * first + (1 - self.beta1) * gradient
            second = self.beta2 * second + (1 - self.beta2) * gradient**2
            # Powers are computed by logarithms (measured), which a negative beta does not have.
            powers = [beta**step if beta >= 0 else np.nan for beta in (self.beta1, self.beta2)]
            correction = np.sqrt(1 - powers[1]) / (1 - powers[0])
            alpha = self.learning_rate * np.where(step == 0, 1, correction)
            parameters = parameters - alpha * first / (np.sqrt(second) + self.epsilon)
            return tuple(convert(each, self.output_parameters.dtype) for each in (parameters, first, second))
