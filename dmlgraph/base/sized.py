"""Sizes that know how they follow dims: numbers to compute with, and expressions where a graph takes them."""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from dmlgraph.base.expressions import Expression


class Sized:
    """A number that is computed from sizes, and the expression over dims that it is.

    Arithmetic on it, `x.shape[0] * 2` and `1.0 / x.shape[-1]`, gives the like, and so do `np.sqrt`, `math.ceil` and
    `math.floor`; in a graph it stands for the expression.  Comparisons, `int`, `float` and other functions, such as
    `math.sqrt` and `np.arange`, use the number: what they give follows no dim.  It is no `int` itself, since Python
    would not ask it what `1.0 / size` is, but it is taken wherever an index is: `range(size)`, `np.zeros(size)`.

    Args:
        number: what it is now.
        expression: how it follows dims.
    """

    __slots__ = ("expression", "number")

    def __init__(self, number: int | float, expression: Expression) -> None:
        self.number, self.expression = number, expression

    def __repr__(self) -> str:
        return repr(self.number)

    def __format__(self, form: str) -> str:
        return format(self.number, form)

    def __hash__(self) -> int:
        return hash(self.number)

    def __bool__(self) -> bool:
        return bool(self.number)

    def __int__(self) -> int:
        return int(self.number)

    def __float__(self) -> float:
        return float(self.number)

    def __index__(self) -> int:
        return operator.index(self.number)  # type: ignore[arg-type]  # a fraction is not an index

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.asarray(self.number, dtype)

    def __abs__(self) -> int | float:
        return abs(self.number)

    def __round__(self, digits: int | None = None) -> int | float:
        return round(self.number, digits)

    def __trunc__(self) -> int:
        return math.trunc(self.number)

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **given: Any) -> Any:
        compute = _UFUNCS.get(ufunc)
        if compute is not None and method == "__call__" and not given and all(map(_is_number, inputs)):
            return compute(*(each.item() if isinstance(each, np.generic) else each for each in inputs))
        if any(hasattr(each, "graph") for each in inputs):
            return NotImplemented  # a value takes the expression
        return getattr(ufunc, method)(*map(_plain, inputs), **given)


numbers.Real.register(Sized)


def _plain(given: Any) -> Any:
    """The number, for a `Sized`."""
    return given.number if isinstance(given, Sized) else given


def _is_number(given: object) -> bool:
    return isinstance(given, numbers.Real) and not isinstance(given, bool)


def _follows(compute: Callable[..., Any]) -> Callable[..., Any]:
    """A method that computes what a function of numbers does, and follows dims."""

    def method(self: Sized, *others: Any) -> Any:
        if not all(map(_is_number, others)):
            return NotImplemented
        others = tuple(each.item() if isinstance(each, np.generic) else each for each in others)
        expressions = (each.expression if isinstance(each, Sized) else each for each in others)
        return Sized(compute(self.number, *map(_plain, others)), compute(self.expression, *expressions))

    return method


def _compares(name: str) -> Callable[[Sized, Any], Any]:
    """A method that compares the number."""
    return lambda self, other: getattr(operator, name)(self.number, _plain(other))


def _mirrored(compute: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda one, other: compute(other, one)


_ARITHMETIC: dict[Callable[..., Any], np.ufunc] = {
    operator.add: np.add,
    operator.sub: np.subtract,
    operator.mul: np.multiply,
    operator.floordiv: np.floor_divide,
    operator.mod: np.remainder,
    operator.truediv: np.true_divide,
    operator.pow: np.power,
}
_UFUNCS: dict[np.ufunc, Callable[..., Any]] = {
    **{ufunc: compute for compute, ufunc in _ARITHMETIC.items()},
    np.negative: operator.neg,
    np.sqrt: lambda number: number**0.5,
}

for _compute in _ARITHMETIC:
    setattr(Sized, f"__{_compute.__name__}__", _follows(_compute))
    setattr(Sized, f"__r{_compute.__name__}__", _follows(_mirrored(_compute)))
for _compute in (operator.neg, operator.pos, math.ceil, math.floor):
    setattr(Sized, f"__{_compute.__name__}__", _follows(_compute))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(Sized, f"__{_name}__", _compares(_name))
