"""More functions without rounding errors, to 50 digits and more: what `exact` has not, made of what it has."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

from . import exact

_DIGITS = 60


def _precise(function: Callable[..., Decimal]) -> Callable[..., Decimal]:
    """The function of exact numbers, computed with many digits."""

    def compute(*numbers: Fraction) -> Decimal:
        with decimal.localcontext(decimal.Context(prec=_DIGITS, Emin=-(10**6), Emax=10**6)):
            return function(*(Decimal(x.numerator) / Decimal(x.denominator) for x in numbers))

    return compute


def _sum_series(x: Decimal, sign: int, factor: Callable[[int], Decimal]) -> Decimal:
    """Σ x^(2k+1) · sign^k · factor(k) until terms no longer count."""
    total, power, k = Decimal(0), x, 0
    while abs(power * factor(k)) > Decimal(10) ** -(_DIGITS + 10):
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


atan = _precise(_atan)
asin = _precise(_asin)
acos = _precise(lambda x: 2 * _atan(Decimal(1)) - _asin(x))
sinh = _precise(lambda x: (x.exp() - (-x).exp()) / 2)
cosh = _precise(lambda x: (x.exp() + (-x).exp()) / 2)


@_precise
def atan_yx(y: Decimal, x: Decimal) -> Decimal:
    """The angle of the point (x, y), which is not the origin."""
    quarter = 2 * _atan(Decimal(1))
    if abs(y) > abs(x):
        return quarter.copy_sign(y) - _atan(x / y)
    return _atan(y / x) + (0 if x > 0 else (2 * quarter).copy_sign(y))


@_precise
def erf(x: Decimal) -> Decimal:
    def factor(k: int) -> Decimal:
        product = Decimal(2 * k + 1)
        for each in range(1, k + 1):
            product *= each
        return 1 / product

    return 2 / (4 * _atan(Decimal(1))).sqrt() * _sum_series(x, -1, factor)


def tan(x: Fraction) -> Decimal:
    with decimal.localcontext(decimal.Context(prec=_DIGITS)):
        return exact.sin(x) / exact.cos(x)


def float32(number: Fraction | Decimal) -> Fraction:
    """An exact number rounded to float32, for formulas that are computed step by step."""
    return Fraction(exact.rounded(number, "float32"))
