"""Drafts: what may come next in a text, guessed by what came after the same tokens before."""

from __future__ import annotations

from collections.abc import Sequence

LONGEST, SHORTEST = 3, 1  # tokens that must be the same


def draft(tokens: Sequence[int], count: int) -> list[int]:
    """Up to `count` tokens: those after the last place where the text had its last tokens before, the most of them.

    Empty if it had not even the last one.
    """
    for length in range(min(LONGEST, len(tokens) - 1), SHORTEST - 1, -1):
        last = list(tokens[-length:])
        for start in range(len(tokens) - length - 1, -1, -1):
            if list(tokens[start : start + length]) == last:
                return list(tokens[start + length : start + length + count])
    return []
