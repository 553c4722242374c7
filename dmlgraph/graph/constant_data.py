"""The elements of a constant, which are in memory once: as an array, or as a device keeps them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class Elements:
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
        return Elements, (self.array,)
