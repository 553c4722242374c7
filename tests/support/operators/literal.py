"""Formulas of normalizations and similar operators, element by element in 50 digits, to compare with."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
from support.operators import exact
from support.operators.harness import Array

Index = tuple[int, ...]


def some(sizes: Sequence[int], dtype: str = "float32", low: float = -2, high: float = 2, seed: int = 0) -> Array:
    """Numbers that look random and are the same every time, strictly between `low` and `high`."""
    count = math.prod(sizes)
    steps = [(index * 37 + seed * 11 + 5) % 101 + 1 for index in range(count)]
    return np.array([low + (high - low) * step / 102 for step in steps]).astype(dtype).reshape(sizes)


def number(array: Any, index: Index) -> Decimal:
    """An element of an array, which is broadcast along its dimensions of size 1."""
    return Decimal(float(array[tuple(0 if size == 1 else i for i, size in zip(index, array.shape, strict=True))]))


def places(sizes: Iterable[int]) -> Iterator[Index]:
    return itertools.product(*(range(size) for size in sizes))


def filled(sizes: Sequence[int], element: Callable[[Index], Decimal], dtype: str) -> Array:
    """The array whose elements are the function of their indices, rounded once."""
    with localcontext(prec=50):
        values = [exact.rounded(element(index), dtype) for index in places(sizes)]
    return np.array(values, dtype).reshape(sizes)


def along(index: Index, sizes: Sequence[int], axes: Sequence[int]) -> list[Index]:
    """The indices that differ from an index only along the axes."""
    return [
        place
        for place in places(sizes)
        if all(place[axis] == index[axis] for axis in range(len(sizes)) if axis not in axes)
    ]


def mean(values: Iterable[Decimal]) -> Decimal:
    listed = list(values)
    return sum(listed, Decimal(0)) / len(listed)


def root(value: Decimal) -> Decimal:
    return value.sqrt()


def step(attribute: float) -> Decimal:
    """A FLOAT attribute rounded to float32, as in the struct."""
    return Decimal(float(np.float32(attribute)))
