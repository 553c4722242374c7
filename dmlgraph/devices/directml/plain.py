"""Arrays that the runtime takes as they are: to check those of a small run any further takes longer than to execute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dmlgraph.compiler.desc import GraphDesc
from dmlgraph.devices.directml.transfer import Bytes, is_plain


class PlainArrays:
    """What arrays of a graph's inputs need not be checked any further.

    Attributes:
        possible: whether there are such arrays: only constants are owned, and the others lie in buffers as arrays do.
    """

    def __init__(self, graph: GraphDesc) -> None:
        exchanged = [slot.desc for slot in graph.given] + [slot.desc for slot in graph.outputs]
        constants = [slot.desc for slot in graph.inputs if slot.elements is not None]
        self.possible = all(is_plain(desc) and not desc.owned for desc in exchanged) and all(
            desc.owned for desc in constants
        )
        self._inputs = [
            (slot.name if slot.elements is None else None, slot.desc.sizes, slot.desc.dtype.numpy)
            for slot in graph.inputs
        ]
        self._outputs = [(slot.name, slot.desc.sizes, slot.desc.dtype.numpy) for slot in graph.outputs]
        self._count = len(graph.given)

    def taken(self, inputs: Mapping[str, Any] | None) -> list[Bytes | None] | None:
        """The arrays in slot order, with None for constants; None if they have to be checked."""
        if type(inputs) is not dict or len(inputs) != self._count:
            return None
        found: list[Bytes | None] = []
        for name, sizes, dtype in self._inputs:
            if name is None:
                found.append(None)
                continue
            array = inputs.get(name)
            if type(array) is not np.ndarray or array.shape != sizes:
                return None
            if array.dtype is not dtype or not array.flags.c_contiguous:
                return None
            found.append(array)
        return found

    def results(self) -> dict[str, Bytes]:
        """New arrays for the outputs."""
        return {name: np.empty(sizes, dtype) for name, sizes, dtype in self._outputs}
