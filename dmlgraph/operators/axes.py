"""Checks of axis fields: axes count the dimensions of the declared description from the left, from zero."""

from __future__ import annotations

from collections.abc import Iterator

from dmlgraph.errors import Problem


def axis_problems(axis: int, rank: int, field: str = "axis") -> Iterator[Problem]:
    """An axis must be one of the tensor's."""
    if axis >= rank:
        yield Problem("is not an axis of the tensor", field=field, got=axis, allowed=f"0 to {rank - 1}")


def axes_problems(axes: tuple[int, ...], rank: int) -> Iterator[Problem]:
    """Axes must be the tensor's, at least one, and none twice."""
    if not axes:
        yield Problem("must name at least one axis", field="axes", got=[], allowed=f"0 to {rank - 1}")
    for index, axis in enumerate(axes):
        yield from axis_problems(axis, rank, f"axes.{index}")
        if axis in axes[:index]:
            yield Problem("names an axis twice", field=f"axes.{index}", got=axis)
