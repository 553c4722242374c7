"""The record of fusing: what the passes did to a graph, and what they did not, with the reasons."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One line of the record: what was done, or why it was not.

    Attributes:
        rule: its name.
        node: the node it looked at.
        removed: the nodes that are no more; empty where `applied` is false.
        added: the nodes that stand for them.
        why: the reason, for people.
        applied: whether it was done.
    """

    rule: str
    node: str
    why: str
    removed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    applied: bool = True

    def __str__(self) -> str:
        if not self.applied:
            return f"not {self.rule} at {self.node}: {self.why}"
        return f"{self.rule}: {', '.join(self.removed)} → {', '.join(self.added) or 'nothing'}: {self.why}"
