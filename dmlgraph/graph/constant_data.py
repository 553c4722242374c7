"""The elements of a constant, which are in memory once: as an array, or as a device keeps them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from dmlgraph.base.errors import OperatorError, Problem
from dmlgraph.base.report import Report
from dmlgraph.base.scalar import array_of
from dmlgraph.base.tensor import MASKED, UNMASK, DataType, DataTypeLike, TensorDesc, is_masked
from dmlgraph.files.mapped_arrays import never_changes

Array = np.ndarray[Any, Any]


class ConstantData:
    """The elements of a constant; graphs, their copies and executables that have it share them.

    A device that has packed them in its own way lets go of the array; who asks for it then gets one with the same bits,
    which stays.

    Args:
        array: read-only.
    """

    __slots__ = ("_held",)

    def __init__(self, array: Array) -> None:
        self._held: Array | Callable[[], Array] = array  # one attribute: threads need no lock

    @property
    def array(self) -> Array:
        """The array, read-only."""
        held = self._held
        if isinstance(held, np.ndarray):
            return held
        array = held()
        array.flags.writeable = False
        self._held = array
        return array

    def let_go(self, restore: Callable[[], Array]) -> None:
        """Replaces the array by what makes a new one with the same bits."""
        self._held = restore

    def __reduce__(self) -> tuple[Any, ...]:
        return ConstantData, (self.array,)


def constant_array(data: Any, dtype: DataTypeLike | None) -> tuple[Array, TensorDesc]:
    """Data as a read-only array, with its description; a copy, unless nothing else can write to it.

    Truth values are uint8.  An array without dimensions, and a number whose type is given, is one element.

    Raises:
        OperatorError, TensorError: it is not an array, is masked, has another type, or a number does not fit.
    """
    if is_masked(data):
        raise OperatorError(MASKED, code="masked", hint=UNMASK)
    if isinstance(data, (np.ndarray, np.generic)) and data.dtype.kind == "b":
        data = data.astype(np.uint8)
    given = _numbers(data) if dtype is None else array_of(data, DataType.parse(dtype))
    if not np.ndim(given) and (dtype is not None or isinstance(data, (np.ndarray, np.generic))):
        given = np.reshape(given, 1)
    lies_ready = isinstance(given, np.ndarray) and given.flags.c_contiguous and given.flags.aligned
    shared = lies_ready and given.dtype.isnative and never_changes(given)
    array = given.view(np.ndarray) if shared else np.array(given, order="C")
    with Report(place=functools.partial(_advised, array)):
        desc = TensorDesc(dtype=array.dtype, sizes=array.shape)
    array = array.view(desc.dtype.numpy)  # equal types may be marked otherwise, such as "<f4"
    array.flags.writeable = False
    return array, desc


def _advised(array: Array, problem: Problem) -> Problem:
    """A problem of an array's description; that of a single number says how to write it."""
    if array.ndim or problem.code != "rank":
        return problem
    return dataclasses.replace(problem, hint=f"[{array}] is a tensor; a number needs none, as in x * {array}")


def _numbers(data: Any) -> np.ndarray[Any, Any]:
    try:
        return np.asarray(data)
    except ValueError:  # NumPy's message does not say what to do
        raise OperatorError(
            "is not an array", code="kind", allowed="an array, or numbers in lists of equal lengths"
        ) from None
