"""Text and tokens, by the package `tokenizers`; and the text that stops a text, whatever its tokens are.

This needs the extra `generate`: pip install "dmlgraph[generate]".
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from dmlgraph.base.errors import DmlGraphError
from dmlgraph.files.untrusted import reason


class Tokenizer:
    """The tokenizer in a `tokenizer.json`.

    Raises:
        DmlGraphError: the package is missing, or the file: says which, and what to do.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            import tokenizers
        except ImportError:
            raise DmlGraphError(
                "text needs the package 'tokenizers'", code="extra", hint='pip install "dmlgraph[generate]"'
            ) from None
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError) as error:
            why = reason(error) if isinstance(error, OSError) else str(error)
            hint = "it must be beside the model; the tools that export models write it"
            raise DmlGraphError(f"cannot read '{os.fspath(path)}': {why}", code="unreadable", hint=hint) from None
        try:
            self._own: Any = tokenizers.Tokenizer.from_str(text)
        except Exception as error:  # the package raises nothing more special
            message = f"'{os.fspath(path)}' is not a tokenizer: {error}"
            raise DmlGraphError(message, code="file-kind") from None
        self._stream = tokenizers.decoders.DecodeStream

    def tokens(self, text: str) -> list[int]:
        """The tokens of a text, with those that the model wants before and behind it."""
        found: list[int] = self._own.encode(text).ids
        return found

    def text(self, tokens: Sequence[int]) -> str:
        """The text of tokens, without special ones."""
        found: str = self._own.decode(tokens)
        return found

    def differs(self, other: Tokenizer) -> str | None:
        """A token that the other lacks, or numbers otherwise; None if it has all of them."""
        numbers = other._own.get_vocab()
        for text, number in self._own.get_vocab().items():
            if numbers.get(text) != number:
                return f"'{text}' is {numbers.get(text, 'no token')} there, and {number} here"
        return None

    def pieces(self, tokens: Iterable[int], before: Sequence[int] = ()) -> Iterator[str]:
        """The text of tokens as they come, in whole characters; `before`: those that it goes on from."""
        stream = self._stream(ids=list(before), skip_special_tokens=True)
        for token in tokens:
            piece = stream.step(self._own, token)
            if piece:
                yield piece


def until(pieces: Iterable[str], stops: Sequence[str]) -> Iterator[str]:
    """Pieces of a text up to the first place where one of the stops begins; what may begin one is kept back."""
    kept = ""
    for piece in pieces:
        kept += piece
        ends = [place for place in map(kept.find, stops) if place >= 0]
        if ends:
            yield kept[: min(ends)]
            return
        back = max((size for stop in stops for size in range(1, len(stop)) if kept.endswith(stop[:size])), default=0)
        if len(kept) > back:
            yield kept[: len(kept) - back]
            kept = kept[len(kept) - back :]
    if kept:
        yield kept
