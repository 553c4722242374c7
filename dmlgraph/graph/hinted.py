"""Attributes and arguments that a class does not have are answered by what was meant."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Hinted:
    """Base of a class whose users may know other libraries: their names are errors with hints.

    That holds for attributes, and for the arguments of methods that take some by keyword only.
    """

    __slots__ = ()
    _INSTEAD: ClassVar[Mapping[str, str]] = {}  # hints by attributes that are not here

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name, method in list(vars(cls).items()):
            if inspect.isfunction(method) and not name.startswith("_") and method.__kwdefaults__ is not None:
                setattr(cls, name, hinting(method))

    if not TYPE_CHECKING:  # with it they would accept any name

        def __getattr__(self, name: str) -> NoReturn:
            hint = None
            if not name.startswith("_"):
                from dmlgraph.operators.catalog.hints import attribute_hint

                known = [each for each in dir(type(self)) if not each.startswith("_")]
                hint = self._INSTEAD.get(name) or attribute_hint(name, known, type(self).__name__.lower())
            what = f"'{type(self).__name__}' object has no attribute '{name}'"
            raise AttributeError(f"{what}: {hint}" if hint else what, name=name, obj=self)


def hinting(method: Callable[P, R]) -> Callable[P, R]:
    """A function that says what to write for arguments that it does not have."""

    @functools.wraps(method)
    def call(*arguments: P.args, **keywords: P.kwargs) -> R:
        try:
            return method(*arguments, **keywords)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise  # the method was called, and raised it
            hint = _hint(method, arguments, keywords)
            raise TypeError(f"{error}: {hint}" if hint else str(error)) from None

    return call


def _hint(method: Callable[..., Any], arguments: Sequence[object], keywords: Mapping[str, object]) -> str | None:
    """What to write for a keyword that a method does not have, or for values that it takes by keyword only."""
    from dmlgraph.operators.catalog.foreign_fields import meant_field

    parameters = inspect.signature(method).parameters
    for keyword, value in keywords.items():
        if keyword not in parameters:
            known = [name for name in parameters if name not in (*keywords, "self")]
            return meant_field(keyword, known, value, python=True).hint
    by_place = [each for each in parameters.values() if each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    free = [name for name in parameters if name not in keywords][len(by_place) :]
    extra = arguments[len(by_place) :]
    if not extra or not free:
        return None
    return f"write {', '.join(f'{name}={value!r}' for name, value in zip(free, extra, strict=False))}"
