"""JSON text → a tree of plain values that remember where they stand; and a model → text made for reading.

The dialect is the runner's: comments (`//` and `/* */`) and trailing commas are allowed, and what follows the
model is not looked at.
"""

from __future__ import annotations

import bisect
import json
import math
import re
from collections.abc import Mapping
from typing import Any

from dmlgraph.document.tree import MAX_DEPTH, MAX_DIGITS, Tree
from dmlgraph.errors import DocumentError, Location

_SPACE = re.compile(r"(?:[ \t\r\n]|//[^\n]*|/\*[\s\S]*?\*/)*")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?(?![0-9A-Za-z_.])")
_WORD = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
_WORDS = {"true": True, "false": False, "null": None}


def parse(text: str, file: str) -> Tree:
    """The tree of a JSON text.

    Raises:
        DocumentError: the first place where it is not JSON, or one of the limits is passed.
    """
    return _Parser(text, file).value(0)


class _Parser:
    """Walks the text from left to right; `position` is the next character to be read."""

    def __init__(self, text: str, file: str) -> None:
        self.text, self.file, self.position = text, file, 0
        self.lines = [0, *(match.end() for match in re.finditer("\n", text))]

    def value(self, depth: int) -> Tree:
        self._skip()
        start, character = self.position, self._peek()
        if character and character in "{[":
            if depth == MAX_DEPTH:
                raise self._error(f"nested more than {MAX_DEPTH} levels deep", start)
            return self._object(depth + 1) if character == "{" else self._array(depth + 1)
        if character == '"':
            return Tree(self._string(), self._location(start))
        if match := _NUMBER.match(self.text, start):
            self.position = match.end()
            return Tree(self._number(match), self._location(start))
        word = _WORD.match(self.text, start)
        if word is None or word[0] not in _WORDS:
            hint = 'write "nan", "inf" or "-inf", in quotes' if word and word[0].lower() in ("nan", "inf") else None
            raise self._unexpected("a value", hint)
        self.position = word.end()
        return Tree(_WORDS[word[0]], self._location(start))

    def _object(self, depth: int) -> Tree:
        tree = Tree({}, self._location(self.position))
        while self._next_item("}", first=not tree.value):
            start = self.position
            if self._peek() != '"':
                raise self._unexpected("a key in quotes")
            key = self._string()
            if key in tree.value:
                first = tree.keys[key]
                raise self._error(f"the key '{key}' is given twice", start, hint=f"first in line {first.line}")
            self._skip()
            if self._peek() != ":":
                raise self._unexpected("':'")
            self.position += 1
            tree.value[key], tree.keys[key] = self.value(depth), self._location(start)
        return tree

    def _array(self, depth: int) -> Tree:
        tree = Tree([], self._location(self.position))
        while self._next_item("]", first=not tree.value):
            tree.value.append(self.value(depth))
        return tree

    def _next_item(self, end: str, *, first: bool) -> bool:
        """Whether another item follows; passes the bracket or comma in front of it, or the bracket behind the last."""
        if first:
            self.position += 1
        self._skip()
        if not first and self._peek() != end:
            if self._peek() != ",":
                raise self._unexpected(f"',' or '{end}'")
            self.position += 1
            self._skip()
        if self._peek() == end:
            self.position += 1
            return False
        return True

    def _string(self) -> str:
        match = _STRING.match(self.text, self.position)
        if match is None:
            raise self._error("not JSON: the text in quotes does not end, or has a control character", self.position)
        text: str = json.loads(match[0])
        if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
            raise self._error("not JSON: half of a surrogate pair", self.position)
        self.position = match.end()
        return text

    def _number(self, match: re.Match[str]) -> int | float:
        if match[1] is None and match[2] is None and len(match[0]) <= MAX_DIGITS:
            return int(match[0])
        number = float(match[0])
        if not math.isfinite(number):
            raise self._error("the number is beyond every data type", match.start())
        return number

    def _skip(self) -> None:
        space = _SPACE.match(self.text, self.position)
        assert space is not None
        self.position = space.end()

    def _peek(self) -> str:
        return self.text[self.position : self.position + 1]

    def _unexpected(self, wanted: str, hint: str | None = None) -> DocumentError:
        word = _WORD.match(self.text, self.position)
        got = word[0] if word else self._peek() or "the end of the text"
        return self._error("not JSON", self.position, got=got, allowed=wanted, hint=hint)

    def _error(self, message: str, position: int, **fields: Any) -> DocumentError:
        return DocumentError(message, location=self._location(position), **fields)

    def _location(self, position: int) -> Location:
        line = bisect.bisect_right(self.lines, position)
        return Location(self.file, line, position - self.lines[line - 1] + 1)


# What takes several lines, one for each item: by key, "*" being any.
_OPENED: dict[str, Any] = {"resources": {}, "dispatchables": {"*": {"desc": {}}}, "commands": {}}


def layout(model: Mapping[str, Any]) -> str:
    """A model as JSON text: a line for each resource, each field of an operator, and each command."""
    return _layout(model, "", _OPENED) + "\n"


def _layout(value: Any, indent: str, opened: Mapping[str, Any] | None) -> str:
    if not value or opened is None or not isinstance(value, (Mapping, list)):
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    inner = indent + "  "
    if isinstance(value, list):
        lines, ends = [_layout(each, inner, None) for each in value], "[]"
    else:
        named = [
            (json.dumps(key, ensure_ascii=False), each, opened.get(key, opened.get("*"))) for key, each in value.items()
        ]
        lines, ends = [f"{key}: {_layout(each, inner, of_key)}" for key, each, of_key in named], "{}"
    return f"{ends[0]}\n" + ",\n".join(inner + line for line in lines) + f"\n{indent}{ends[1]}"
