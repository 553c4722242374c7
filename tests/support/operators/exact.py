"""Numbers without rounding errors, to compare operators with: exact rationals, and functions to 60 digits.

Nothing here uses NumPy's arithmetic, so a mistake in a NumPy expression is found.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction

import numpy as np

_CONTEXT = decimal.Context(prec=60, Emin=-(10**6), Emax=10**6)
_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899")

# Bits of the significand, exponents of the least normal number and of the first power of two beyond the range.
_FORMATS = {"float16": (11, -14, 16), "float32": (24, -126, 128), "float64": (53, -1022, 1024)}


def rounded(number: Fraction | Decimal | int, dtype: str) -> float:
    """An exact number rounded once to a float type: to nearest, ties to even; infinite beyond the range."""
    exact = Fraction(number)
    digits, least, beyond = _FORMATS[dtype]
    if exact == 0:
        return 0.0
    magnitude = abs(exact)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if magnitude < Fraction(2) ** exponent:
        exponent -= 1
    step = Fraction(2) ** (max(exponent, least) - digits + 1)  # the distance of neighbours there
    nearest = round(exact / step) * step  # Python rounds a Fraction half to even
    return math.copysign(math.inf, exact) if abs(nearest) >= Fraction(2) ** beyond else float(nearest)


def round_all(numbers: Iterable[Fraction | Decimal | int], dtype: str) -> list[float]:
    return [rounded(number, dtype) for number in numbers]


def float32(number: Fraction | Decimal) -> Fraction:
    """An exact number rounded to float32, for formulas that are computed step by step."""
    return Fraction(rounded(number, "float32"))


def values(numbers: Iterable[float], dtype: str) -> list[Fraction]:
    """The exact values of numbers after they are stored in a float type."""
    return [Fraction(rounded(Fraction(number), dtype)) for number in numbers]


def _in_context(function: Callable[..., Decimal]) -> Callable[..., Decimal]:
    """The function of exact numbers, computed with many digits."""

    def compute(*numbers: Fraction) -> Decimal:
        with decimal.localcontext(_CONTEXT):
            return function(*(Decimal(x.numerator) / Decimal(x.denominator) for x in numbers))

    return compute


def _series(start: Decimal, ratio: Callable[[int], Decimal]) -> Decimal:
    """start · (1 + r(1) · (1 + r(2) · …)) until terms are negligible."""
    total, term, index = start, start, 0
    while abs(term) > Decimal(10) ** -70:
        index += 1
        term *= ratio(index)
        total += term
    return total


def _reduced(x: Decimal) -> Decimal:
    """x minus whole turns."""
    turn = 2 * _PI
    return x - (x / turn).to_integral_value() * turn


exp = _in_context(lambda x: x.exp())
log = _in_context(lambda x: x.ln())
sqrt = _in_context(lambda x: x.sqrt())
sigmoid = _in_context(lambda x: 1 / (1 + (-x).exp()))
tanh = _in_context(lambda x: 1 - 2 / ((2 * x).exp() + 1))


@_in_context
def sin(x: Decimal) -> Decimal:
    x = _reduced(x)
    return _series(x, lambda k: -x * x / (2 * k * (2 * k + 1)))


@_in_context
def cos(x: Decimal) -> Decimal:
    x = _reduced(x)
    return _series(Decimal(1), lambda k: -x * x / ((2 * k - 1) * 2 * k))


def _sum_series(x: Decimal, sign: int, factor: Callable[[int], Decimal]) -> Decimal:
    """Σ x^(2k+1) · sign^k · factor(k) until terms are negligible."""
    total, power, k = Decimal(0), x, 0
    while abs(power * factor(k)) > Decimal(10) ** -(70):
        total += power * factor(k)
        power *= sign * x * x
        k += 1
    return total


def _atan(x: Decimal) -> Decimal:
    doublings = 0
    while abs(x) > Decimal("0.1"):  # tan(a/2) = tan a / (1 + √(1 + tan² a))
        x = x / (1 + (1 + x * x).sqrt())
        doublings += 1
    return 2**doublings * _sum_series(x, -1, lambda k: 1 / Decimal(2 * k + 1))


def _asin(x: Decimal) -> Decimal:
    return _atan(x / (1 - x * x).sqrt()) if abs(x) < 1 else x * 2 * _atan(Decimal(1))


atan = _in_context(_atan)
asin = _in_context(_asin)
acos = _in_context(lambda x: 2 * _atan(Decimal(1)) - _asin(x))
sinh = _in_context(lambda x: (x.exp() - (-x).exp()) / 2)
cosh = _in_context(lambda x: (x.exp() + (-x).exp()) / 2)


@_in_context
def atan_yx(y: Decimal, x: Decimal) -> Decimal:
    """The angle of the point (x, y), which is not the origin."""
    quarter = 2 * _atan(Decimal(1))
    if abs(y) > abs(x):
        return quarter.copy_sign(y) - _atan(x / y)
    return _atan(y / x) + (0 if x > 0 else (2 * quarter).copy_sign(y))


@_in_context
def erf(x: Decimal) -> Decimal:
    def factor(k: int) -> Decimal:
        product = Decimal(2 * k + 1)
        for each in range(1, k + 1):
            product *= each
        return 1 / product

    return 2 / (4 * _atan(Decimal(1))).sqrt() * _sum_series(x, -1, factor)


def tan(x: Fraction) -> Decimal:
    with decimal.localcontext(_CONTEXT):
        return sin(x) / cos(x)


def power(base: Fraction, exponent: Fraction) -> Decimal:
    """base ^ exponent for a positive base."""
    with decimal.localcontext(_CONTEXT):
        whole = Decimal(exponent.numerator) / exponent.denominator
        return (whole * (Decimal(base.numerator) / base.denominator).ln()).exp()


def softmax(row: list[Fraction]) -> list[Decimal]:
    """e^x / Σ e^x over a list."""
    with decimal.localcontext(_CONTEXT):
        powers = [exp(x) for x in row]
        total = sum(powers, Decimal(0))
        return [each / total for each in powers]


def wrap(number: int, dtype: str) -> int:
    """A whole number modulo 2^N, in the range of an integer type."""
    bits = int(dtype.lstrip("uint"))
    number %= 1 << bits
    return number if dtype.startswith("u") or number < 1 << (bits - 1) else number - (1 << bits)


def limits(dtype: str) -> tuple[int, int]:
    """Least and greatest value of an integer type."""
    bits = int(dtype.lstrip("uint"))
    return (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def from_bits(dtype: str, *patterns: int) -> np.ndarray:
    """An array of floats with these bit patterns: NaNs with payloads, zeros with signs."""
    width = np.dtype(dtype).itemsize
    return np.frombuffer(b"".join(pattern.to_bytes(width, "little") for pattern in patterns), dtype)
