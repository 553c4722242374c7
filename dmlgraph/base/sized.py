"""Sizes that know how they follow dims: whole numbers to compute with, and expressions where a graph takes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dmlgraph.base.expressions import Expression


class SizedInt(int):
    """The size that a dimension has now, and the expression over dims that it is.

    Arithmetic on it, `x.shape[0] * 2`, gives the like; in a graph it stands for the expression.  Comparisons, and
    functions such as `math.sqrt`, use the number: what they give follows no dim.

    Args:
        size: the number.
        expression: its expression.
    """

    expression: Expression

    def __new__(cls, size: int, expression: Expression) -> SizedInt:
        made = super().__new__(cls, size)
        made.expression = expression
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return SizedInt, (int(self), self.expression)

    def __format__(self, form: str) -> str:
        return format(int(self), form)


def _method(name: str) -> Callable[[SizedInt, Any], Any]:
    def method(self: SizedInt, other: Any) -> Any:
        number = getattr(int, name)(self, other)
        if number is NotImplemented or not isinstance(other, int):
            return number
        expression = getattr(self.expression, name)(getattr(other, "expression", int(other)))
        return SizedInt(number, expression) if isinstance(number, int) else expression

    return method


for _sign in ("add", "sub", "mul", "floordiv", "mod", "truediv"):
    for _name in (f"__{_sign}__", f"__r{_sign}__"):
        setattr(SizedInt, _name, _method(_name))
