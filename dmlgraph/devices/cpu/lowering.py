"""Tables of how operators run: each entry's function takes an operator of the entry's class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from dmlgraph.devices.cpu.nodes import Lowered
from dmlgraph.operators.declaration.operator import Operator

Lower = Callable[[Any], Lowered | None]  # None: the operator cannot run in this way
Lowerings = Mapping[type[Operator], Lower]

Op = TypeVar("Op", bound=Operator)


def lowers(lower: Callable[[Op], Lowered | None], *operators: type[Op]) -> dict[type[Operator], Lower]:
    """Entries of a table, in which mypy checks that the function takes these operators."""
    return dict.fromkeys(operators, lower)
