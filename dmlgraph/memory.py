"""Memory: a MemoryError becomes an error of ours that says for what, and the garbage collector rests in large work."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dmlgraph.errors import NotEnoughMemoryError

if TYPE_CHECKING:
    from dmlgraph.graph import Graph
    from dmlgraph.lowering import GraphDesc
    from dmlgraph.tensor import TensorDesc


def not_enough_memory(
    purpose: str, error: MemoryError, graph: Graph | GraphDesc | None = None, *, node: str | None = None
) -> NotEnoughMemoryError:
    """The error to raise in place of a MemoryError.

    Args:
        purpose: what there was not enough memory to do: `read 'x.npy'`, `run`.
        error: what was raised; NumPy's says how much it wanted.  A NotEnoughMemoryError is returned as it is.
        graph: what it was done with.
        node: where.
    """
    if isinstance(error, NotEnoughMemoryError):
        return error
    what = f"{purpose} {described(graph)}" if graph is not None else purpose
    said = str(error)
    wanted = f": {said[:1].lower()}{said[1:]}" if said.startswith("Unable to allocate") else ""
    return NotEnoughMemoryError(f"not enough memory to {what}{wanted}", node=node)


@contextlib.contextmanager
def enough_memory(purpose: str, graph: Graph | GraphDesc | None = None) -> Iterator[None]:
    """A MemoryError raised inside becomes a NotEnoughMemoryError; the arguments are those of `not_enough_memory`."""
    try:
        yield
    except MemoryError as error:
        raise not_enough_memory(purpose, error, graph) from None


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """No garbage collection inside, where objects are made by the hundred thousand and none of them is garbage.

    The collector walks all of them again and again, which takes as long as the work and is not linear in it.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def described(graph: Graph | GraphDesc) -> str:
    """A graph and its largest tensor, as a phrase: `the graph 'g', whose largest tensor is that of 'y', …`."""
    name, desc = max(_tensors(graph), key=lambda each: each[1].total_bytes, default=("", None))
    text = f"the graph '{graph.name}'"
    if desc is None:
        return text
    return f"{text}, whose largest tensor is that of '{name}', {desc} ({desc.total_bytes / 2**30:.1f} GiB)"


def _tensors(graph: Graph | GraphDesc) -> Iterator[tuple[str, TensorDesc]]:
    for node in (*graph.inputs, *graph.nodes):
        operator = getattr(node, "operator", None)
        for desc in (node.desc,) if operator is None else operator.output_descs:
            if desc is not None:
                yield node.name, desc
