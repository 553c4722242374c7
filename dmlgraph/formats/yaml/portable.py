"""A graph's canonical document in memory: text, and the arrays of all its constants, which keep every bit."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlgraph.formats.arrays import Array, InMemory
from dmlgraph.formats.yaml.reader import restored
from dmlgraph.formats.yaml.writer import parts

if TYPE_CHECKING:
    from dmlgraph.graph.graph import Graph

__all__ = ["digest_of", "parts", "pickled", "restore"]


def restore(text: str, arrays: Mapping[str, Array]) -> Graph:
    """The graph of `parts`; it may lack outputs.

    Raises:
        DocumentError: another version of dmlgraph has written something that this one does not read.
    """
    return restored(text, InMemory(dict(arrays)))


def pickled(graph: Graph) -> tuple[Callable[..., Graph], tuple[Any, ...]]:
    """What a graph pickles as."""
    return restore, parts(graph)


def digest_of(text: str, arrays: Mapping[str, Array]) -> str:
    """The SHA-256 of a canonical document and the bits of its arrays, in hexadecimal."""
    total = hashlib.sha256(text.encode())
    for name, array in sorted(arrays.items()):
        total.update(f"\n{name} {array.dtype.name} {array.shape}\n".encode())
        total.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return total.hexdigest()
