"""Drafts: what may come next in a text, which the decoder then verifies at once.

A draft is what came after the same tokens before in the text, or what another decoder, a smaller one, writes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dmlgraph.generation.generator import Generator
    from dmlgraph.generation.text import Text

LONGEST, SHORTEST = 3, 1  # tokens that must be the same

Drafter = Callable[[Sequence[int], int], list[int]]  # the text, and the most tokens that are wanted


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


class Writer:
    """Drafts of another decoder: the likeliest tokens.  It keeps what it knows of the text.

    Args:
        generator: the other decoder's; it must be able to rewind.
        vocabulary: how many tokens the text may have.  The other decoder may know fewer or more: an index that only
            one of them knows is not a token, but padding of its tables.
    """

    def __init__(self, generator: Generator, vocabulary: int) -> None:
        self._generator, self._vocabulary = generator, vocabulary
        self._text: Text | None = None

    def __call__(self, tokens: Sequence[int], count: int) -> list[int]:
        """`count` tokens, or as many as its capacity lets it write after the text."""
        known = self._generator.decoder.vocabulary
        room = min(count + 1, self._generator.capacity - len(tokens))
        if room <= 0 or count == 0 or (known < self._vocabulary and max(tokens) >= known):
            return []
        if self._text is None:
            self._text = self._generator(tokens, max_new_tokens=room, stop=(), temperature=0)
        else:
            self._text.become(list(tokens), room)
        found = list(self._text)[:count]  # one more, so that it has read its drafts if all are right
        return list(itertools.takewhile(lambda token: token < self._vocabulary, found))
