"""The record of fusing: which rewrites the passes did, and which they declined, with reasons."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One line of the record: a rewrite, or why a rule declined.

    Attributes:
        rule: its name.
        node: the node that the rule looked at.
        removed: the nodes it removed; empty where `applied` is false.
        added: the nodes that replace them.
        why: the reason, for people.
        applied: whether the rewrite was done.
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
