"""Memory: turns a MemoryError into an error that says for what, and pauses the garbage collector in large work."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from dmlgraph.base.errors import NotEnoughMemoryError

if TYPE_CHECKING:
    from dmlgraph.base.tensor import TensorDesc


class HasTensors(Protocol):
    """A graph in any of its forms."""

    @property
    def name(self) -> str: ...

    @property
    def inputs(self) -> Sequence[Any]: ...

    @property
    def nodes(self) -> Sequence[Any]: ...


def not_enough_memory(
    purpose: str, error: MemoryError, graph: HasTensors | None = None, *, node: str | None = None
) -> NotEnoughMemoryError:
    """The error to raise in place of a MemoryError.

    Args:
        purpose: what the memory was for: `read 'x.npy'`, `run`.
        error: the error; NumPy's says how much it wanted.  A NotEnoughMemoryError is returned unchanged.
        graph: the graph it was for.
        node: the node it was for.
    """
    if isinstance(error, NotEnoughMemoryError):
        return error
    what = f"{purpose} {described(graph)}" if graph is not None else purpose
    said = str(error)
    wanted = f": {said[:1].lower()}{said[1:]}" if said.startswith("Unable to allocate") else ""
    return NotEnoughMemoryError(f"not enough memory to {what}{wanted}", node=node)


@contextlib.contextmanager
def enough_memory(purpose: str, graph: HasTensors | None = None) -> Iterator[None]:
    """Turns a MemoryError raised inside into a NotEnoughMemoryError; takes the arguments of `not_enough_memory`."""
    try:
        yield
    except MemoryError as error:
        raise not_enough_memory(purpose, error, graph) from None


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Pauses garbage collection, for code that creates hundreds of thousands of objects that are not garbage.

    The collector would walk all of them repeatedly, which takes as long as the work and is not linear in it.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def described(graph: HasTensors) -> str:
    """A graph and its largest tensor, as a phrase: `the graph 'g', whose largest tensor is that of 'y', …`."""
    name, desc = max(_tensors(graph), key=lambda each: each[1].total_bytes, default=("", None))
    text = f"the graph '{graph.name}'"
    if desc is None:
        return text
    return f"{text}, whose largest tensor is that of '{name}', {desc} ({desc.total_bytes / 2**30:.1f} GiB)"


def _tensors(graph: HasTensors) -> Iterator[tuple[str, TensorDesc]]:
    for node in (*graph.inputs, *graph.nodes):
        operator = getattr(node, "operator", None)
        for desc in (node.desc,) if operator is None else operator.output_descs:
            if desc is not None:
                yield node.name, desc
