"""Numbers that follow dims: an expression over dims from the numbers that there are with some of their sizes.

    samples = probes({"batch": 2, "length": 16})
    fitted(samples, [f(**sample) for sample in samples])      # such as batch * length + 1

An expression is found if it gives the number of every sample.  This does not prove it: the caller checks what depends
on it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from dmlgraph.base.expressions import Expression, name_of

Sample = Mapping[str, int]
MOST_DIVISOR = 64  # of a size that is rounded, such as that of windows


def probes(dims: Sample) -> list[dict[str, int]]:
    """Sizes with which `fitted` can tell what follows which dim: as they are, each another, and all others twice."""
    near = [dict(dims) | {dim: size - size // 4 - 1 if size > 16 else size + 3} for dim, size in dims.items()]
    placed = [(place, dim, size) for place, (dim, size) in enumerate(dims.items())]
    far = (
        {dim: size // 2 + 1 + 2 * place if size > 16 else size + 2 + place for place, dim, size in placed},
        {dim: size - size // 3 if size > 16 else size + 5 + 2 * place for place, dim, size in placed},
    )
    return [dict(dims), *near, *far]


def followed(samples: Sequence[Sample], numbers: Sequence[object]) -> list[str]:
    """The dims that change a number."""
    return [dim for dim, number in zip(samples[0], numbers[1:], strict=False) if number != numbers[0]]


def fitted(samples: Sequence[Sample], numbers: Sequence[int]) -> Expression | int | None:
    """What gives these whole numbers for samples of `probes`; None if nothing simple does."""
    if len(set(numbers)) == 1:
        return numbers[0]
    dims = followed(samples, numbers)
    if not dims:
        return None
    found = _sum(samples, numbers, dims)
    if found is None and len(dims) == 1:
        found = _rounded(samples, numbers, dims[0])
    return _product(samples, numbers, dims) if found is None else found


def _sum(samples: Sequence[Sample], numbers: Sequence[int], dims: Sequence[str]) -> Expression | None:
    """`2 * a + b + 1`."""
    base, places = samples[0], list(samples[0])
    rates = {}
    for dim in dims:
        at = 1 + places.index(dim)
        rate = Fraction(numbers[at] - numbers[0], samples[at][dim] - base[dim])
        if rate.denominator != 1:
            return None
        rates[dim] = int(rate)
    rest = numbers[0] - sum(rate * base[dim] for dim, rate in rates.items())
    for sample, number in zip(samples, numbers, strict=True):
        if sum(rate * sample[dim] for dim, rate in rates.items()) + rest != number:
            return None
    terms = [name_of(dim) if rate == 1 else name_of(dim) * rate for dim, rate in rates.items()]
    whole: Expression = functools.reduce(lambda one, other: one + other, terms)
    return whole if not rest else whole + rest if rest > 0 else whole - -rest


def _rounded(samples: Sequence[Sample], numbers: Sequence[int], dim: str) -> Expression | None:
    """`(a + 1) // 2`, if it is the only one with this divisor."""
    sizes = [sample[dim] for sample in samples]
    spread = max(sizes) - min(sizes)
    for divisor in range(2, MOST_DIVISOR):
        rate = round(Fraction((max(numbers) - min(numbers)) * divisor, spread))
        if math.gcd(rate, divisor) != 1:
            continue
        least = max(number * divisor - rate * size for size, number in zip(sizes, numbers, strict=True))
        most = min(number * divisor - rate * size for size, number in zip(sizes, numbers, strict=True)) + divisor - 1
        if least == most:
            inner = name_of(dim) * rate if rate != 1 else name_of(dim)
            whole: Expression = (inner + least if least > 0 else inner - -least if least else inner) // divisor
            return whole
    return None


def _product(samples: Sequence[Sample], numbers: Sequence[int], dims: Sequence[str]) -> Expression | None:
    """`a * (b + 1)`: a dim times what follows the others."""
    for dim in dims:
        pairs = [divmod(number, sample[dim]) for sample, number in zip(samples, numbers, strict=True)]
        if any(rest for _, rest in pairs):
            continue
        factor = fitted(samples, [quotient for quotient, _ in pairs])
        if factor is not None:
            product: Expression = name_of(dim) * factor
            return product
    return None

