"""Checks of axis fields: axes count the dimensions of the declared description from the left, from zero."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dmlgraph.errors import OperatorError, Problem, plural
from dmlgraph.tensor import TensorDesc


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


def check_axis(axis: int, rank: int) -> None:
    """Raises what is wrong with an axis that inference depends on."""
    problems = list(axis_problems(axis, rank))
    if problems:
        raise OperatorError(problems)


def check_one_per_dimension(field: str, values: tuple[float, ...], tensor: TensorDesc) -> None:
    """Raises that a list, and with it those that share its count, has not one entry for each dimension."""
    if len(values) != tensor.rank:
        raise OperatorError(
            "must have one entry for each dimension",
            field=field,
            got=list(values),
            allowed=plural(tensor.rank, "entry"),
        )


def with_size(sizes: tuple[int, ...], axis: int, size: int) -> tuple[int, ...]:
    """The sizes with another one along the axis."""
    return (*sizes[:axis], size, *sizes[axis + 1 :])


def reduced_sizes(sizes: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes once the axes are reduced to one element each."""
    return tuple(1 if axis in axes else size for axis, size in enumerate(sizes))


def reduced_last(x: np.ndarray[Any, Any], axes: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The array with the elements inside the axes in one last axis, row-major."""
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    return x.transpose(*kept, *sorted(axes)).reshape(*(x.shape[axis] for axis in kept), -1)
