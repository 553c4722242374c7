"""The rules of all targets, by name, and which of them `fuse=` asks for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dmlgraph.base.errors import GraphError, listing, suggestion
from dmlgraph.compiler.rule import Rule
from dmlgraph.devices.cpu import target as cpu
from dmlgraph.devices.directml import target as directml

if TYPE_CHECKING:
    from dmlgraph.graph.graph import Graph

RULES: dict[str, Rule] = {
    rule.name: rule for passes in (directml.PASSES, cpu.PASSES) for each in passes for rule in each.rules
}


def enabled(asked: bool | Iterable[str], graph: Graph) -> frozenset[str]:
    """The names of the rules that may run; a target runs those of them that it has.

    Args:
        asked: True: all that are on by default; False: no rules; else exactly the rules of these names.
        graph: what they are for.

    Raises:
        GraphError: a name is not a rule, or names are asked for a graph that was saved after fusion.
    """
    if isinstance(asked, bool):
        return frozenset(name for name, rule in RULES.items() if asked and rule.default)
    if isinstance(asked, str):
        asked = [asked]
    try:
        names = list(asked)
    except TypeError:
        raise GraphError("must be True, False or a list of rules", code="kind", field="fuse", got=asked) from None
    if names and graph.origin.fused:
        message = "has no effect on a graph that was saved after fusion"
        hint = "remove 'fused: true' from its file to fuse it again"
        raise GraphError(message, code="conflict", field="fuse", got=listing(names), hint=hint)
    for name in names:
        if name not in RULES:
            raise GraphError(
                "is not a rule",
                code="unknown-rule",
                field="fuse",
                got=name,
                allowed=listing(RULES),
                hint=suggestion(str(name), RULES),
            )
    return frozenset(names)
