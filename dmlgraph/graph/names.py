"""Names: those of a graph's nodes, given or derived from operators, in the scopes that are entered."""

from __future__ import annotations

import itertools
import math

from dmlgraph.base.errors import GraphError
from dmlgraph.graph.network import Network
from dmlgraph.graph.scopes import SEPARATOR, Scope


class Names:
    """The names of a network's nodes.

    Attributes:
        scopes: entered and not left, the outermost first.
    """

    def __init__(self, network: Network) -> None:
        self.scopes: tuple[Scope, ...] = ()
        self._network = network
        self._next: dict[str, int] = {}

    def copy(self, network: Network) -> Names:
        """Those of a copy of the network, outside all scopes."""
        other = Names(network)
        other._next = dict(self._next)
        return other

    def in_scope(self, name: str) -> str:
        """A name with the scopes that are entered before it."""
        return "".join(f"{scope.name}{SEPARATOR}" for scope in self.scopes) + name if self.scopes else name

    def shown(self, name: object) -> str | None:
        """What an error calls the node of a given name."""
        return self.in_scope(name) if isinstance(name, str) else None

    def take(self, name: str) -> str:
        """A given name in the entered scopes, which no node has."""
        check_name(name)
        name = self.in_scope(name)
        if name in self._network:
            raise GraphError(
                "there is already a node of this name", code="duplicate", node=name, hint="names are unique in a graph"
            )
        return name

    def free(self, base: str) -> str:
        """`base`, `base_1`, `base_2`, … in the entered scopes: the first that is free, found in constant time."""
        base = self.in_scope(base)
        for index in itertools.count(self._next.get(base, 0)):
            name = f"{base}_{index}" if index else base
            if name not in self._network:
                self._next[base] = index + 1
                return name
        raise AssertionError("unreachable")

    def release(self, name: str) -> None:
        """Lets `free` give a name again that no node has kept: `base` or `base_1`."""
        base, _, digits = name.rpartition("_")
        for begin, index in ((name, 0), (base, int(digits) if digits.isdecimal() else math.inf)):
            if self._next.get(begin, 0) > index:
                self._next[begin] = int(index)


def check_name(name: object) -> None:
    """Refuses what is not a name of a node or an output."""
    if not isinstance(name, str) or not name or name != name.strip() or not name.isprintable():
        raise GraphError("is not a name", code="name", got=name, allowed="printable text without spaces at its ends")
