"""What the tests of the activations share: the formulas in exact numbers, and the error of the real DirectML."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import ClassVar

from support.operators import exact
from support.operators.checks import UnaryTests
from support.operators.harness import Case, rounded_cases

from dmlgraph.devices.names import DeviceName

DIRECTML: DeviceName = "directml:software"

OLD_LEVELS = "1.0: 4D F32 F16 | 2.0: 4-5D F32 F16 | 3.0: 1-8D F32 F16"
INTEGER_LEVELS = "5.1: 1-8D F32 F16 I32 I16 I8"

NUMBERS = (0.5, 1, 3.25, 7, 1e-3, -1e-3, -0.5, -1, -2.75, -6, -12)


class ActivationTests(UnaryTests):
    """Functions that DirectML computes to 4 units of rounding: float16 in half precision, e^x − 1 as a difference."""

    levels = OLD_LEVELS
    ulp: ClassVar = {DIRECTML: 4}
    ulp_floor: ClassVar = {DIRECTML: 1.0}


Number = Fraction | float
Formula = Callable[..., Fraction]


def formula_cases(why: str, formula: Formula, numbers: Sequence[float] = NUMBERS, **attributes: float) -> list[Case]:
    """Rows whose outputs are the exact results of a formula, rounded once."""
    return rounded_cases(why, lambda x: formula(x, **attributes), numbers, **attributes)


# The formulas; their defaults are DirectMLX's.


def in_float32(formula: Formula) -> Formula:
    """The formula with its attributes rounded to float32."""
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(formula).parameters.items()
        if parameter.default is not parameter.empty
    }

    def compute(x: Fraction, **attributes: Number) -> Fraction:
        given = defaults | attributes
        return formula(x, **dict(zip(given, exact.values(given.values(), "float32"), strict=True)))

    return compute


def exp(x: Fraction) -> Fraction:
    return Fraction(exact.exp(x))


def sigmoid(x: Fraction) -> Fraction:
    return Fraction(exact.sigmoid(x))


def tanh(x: Fraction) -> Fraction:
    return Fraction(exact.tanh(x))


def identity(x: Fraction) -> Fraction:
    return x


@in_float32
def linear(x: Fraction, alpha: Fraction, beta: Fraction) -> Fraction:
    return alpha * x + beta


def relu(x: Fraction) -> Fraction:
    return max(x, Fraction(0))


@in_float32
def leaky_relu(x: Fraction, alpha: Fraction = Fraction(0.01)) -> Fraction:
    return x if x >= 0 else alpha * x


@in_float32
def thresholded_relu(x: Fraction, alpha: Fraction = Fraction(1)) -> Fraction:
    return x if x > alpha else Fraction(0)


@in_float32
def elu(x: Fraction, alpha: Fraction = Fraction(1)) -> Fraction:
    return x if x >= 0 else alpha * (exp(x) - 1)


@in_float32
def celu(x: Fraction, alpha: Fraction = Fraction(1)) -> Fraction:
    return max(Fraction(0), x) + min(Fraction(0), alpha * (exp(x / alpha) - 1))


@in_float32
def scaled_elu(
    x: Fraction, alpha: Fraction = Fraction(1.6732631921768188), gamma: Fraction = Fraction(1.0507010221481323)
) -> Fraction:
    return gamma * x if x > 0 else gamma * (alpha * exp(x) - alpha)


@in_float32
def hard_sigmoid(x: Fraction, alpha: Fraction = Fraction(0.2), beta: Fraction = Fraction(0.5)) -> Fraction:
    return max(Fraction(0), min(alpha * x + beta, Fraction(1)))


@in_float32
def scaled_tanh(x: Fraction, alpha: Fraction = Fraction(1), beta: Fraction = Fraction(0.5)) -> Fraction:
    return alpha * tanh(beta * x)


@in_float32
def softplus(x: Fraction, steepness: Fraction = Fraction(1)) -> Fraction:
    return Fraction(exact.log(1 + exp(steepness * x))) / steepness


@in_float32
def parametric_softplus(x: Fraction, alpha: Fraction, beta: Fraction) -> Fraction:
    return alpha * Fraction(exact.log(1 + exp(beta * x)))


def softsign(x: Fraction) -> Fraction:
    return x / (1 + abs(x))


@in_float32
def shrink(x: Fraction, bias: Fraction = Fraction(0), threshold: Fraction = Fraction(0.5)) -> Fraction:
    if x > threshold:
        return x - bias
    return x + bias if x < -threshold else Fraction(0)


def gelu(x: Fraction) -> Fraction:
    root = Fraction(exact.sqrt(Fraction(2)))
    return x / 2 * (1 + Fraction(exact.erf(x / root)))


@in_float32
def swish(x: Fraction, sigmoid_input_scale: Fraction) -> Fraction:
    return x * sigmoid(sigmoid_input_scale * x)


@in_float32
def hard_swish(x: Fraction, alpha: Fraction, beta: Fraction) -> Fraction:
    return x * hard_sigmoid(x, alpha=alpha, beta=beta)
