"""Names of a model as names in a graph: labels, whose parts between `/` are scopes."""

from __future__ import annotations

from collections.abc import Iterable

from dmlgraph.base.free_names import FreeNames
from dmlgraph.graph.scopes import SEPARATOR

LONGEST = 1000  # characters of a name; a longer one is cut in the middle


def as_text(name: str | bytes | None) -> str:
    """A name as text: where it is not UTF-8, protobuf has bytes."""
    return name.decode(errors="replace") if isinstance(name, bytes) else name or ""


def printable(name: str | bytes | None) -> str:
    """A name as one in a graph: printable, without spaces at its ends; maybe empty."""
    text = as_text(name)
    if not text.isprintable():
        text = "".join(each if each.isprintable() else "_" for each in text)
    text = text.strip()
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2].rstrip()}…{text[1 - LONGEST // 2 :].lstrip()}"
    return text


def as_label(text: str | bytes) -> str:
    """The text as a name in scopes: `/encoder/layer.0/MatMul` is `MatMul` in the scope `encoder/layer.0`; maybe empty.

    Scopes have names: what is empty between two `/` is left out.
    """
    parts = (part.strip() for part in printable(text).split(SEPARATOR))
    return SEPARATOR.join(part for part in parts if part)


class Names:
    """Allocates the names of a graph's nodes, each once.

    The names that nodes and weights have in the model are kept for them: what else a node becomes gets other names, so
    that the parts of `MatMul` do not take `MatMul_1` from the next node.

    Args:
        weights: labels of the model's weights, which go before nodes of the same name.
        nodes: labels of its nodes.
    """

    def __init__(self, weights: Iterable[str] = (), nodes: Iterable[str] = ()) -> None:
        self._weights = set(weights)
        self._nodes = set(nodes) - self._weights
        self._free = FreeNames(self._weights | self._nodes)

    def keep(self, base: str) -> None:
        """Keeps a name for a node, if it is free."""
        if base not in self._free:
            self._nodes.add(self._free.take(base))

    def take(self, base: str) -> str:
        """A name for a node: `base`, or `base_1`, `base_2`, …."""
        return self._from([self._nodes], base)

    def take_weight(self, base: str) -> str:
        """A name for a constant: of a weight, or of a node whose result is known."""
        return self._from([self._weights, self._nodes], base)

    def take_other(self, base: str) -> str:
        """A name for what a node needs besides: not the one that is kept for the node."""
        return self._free.take(base)

    def _from(self, kept: list[set[str]], base: str) -> str:
        for names in kept:
            if base in names:
                names.remove(base)
                return base
        return self._free.take(base)
