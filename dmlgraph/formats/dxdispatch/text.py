"""JSON text → a tree of plain values with their locations; and a model → readable text.

The dialect is the runner's: comments (`//` and `/* */`) and trailing commas are allowed, and text after the model is
ignored.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from dmlgraph.base.errors import DocumentError, shorten
from dmlgraph.formats.text_tree.syntax import MAX_DEPTH, TOO_DEEP
from dmlgraph.formats.text_tree.tree import MAX_DIGITS, Source, Tree

# One token, after spaces and comments.
_TOKEN = re.compile(
    r"(?:[ \t\r\n]+|//[^\n]*|/\*(?:[^*]|\*(?!/))*+\*/)*+"
    r"(?:(?P<mark>[{}\[\],:])"
    r'|(?P<string>"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+")'
    r"|(?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?(?![0-9A-Za-z_.]))"
    r"|(?P<word>[A-Za-z_][A-Za-z_0-9]*)"
    r"|(?P<other>[\s\S])|\Z)"
)
_WORDS = {"true": True, "false": False, "null": None}
_LINE = re.compile("\r?\n")
_SURROGATE = re.compile("[\ud800-\udfff]")


def parse(text: str, file: str) -> Tree:
    """The tree of a JSON text.

    Raises:
        DocumentError: it is not JSON, or exceeds a limit; has the first such place.
    """
    return _Parser(text, file).parse()


class _Parser:
    """Reads the text from left to right; `kind`, `text`, `start` and `stop` are those of the next token."""

    def __init__(self, text: str, file: str) -> None:
        self._match = _TOKEN.match
        self._whole, self._source = text, Source(file, text, _LINE)
        self.kind, self.text, self.start, self.stop = "", "", 0, 0
        self._advance()

    def parse(self) -> Tree:
        return self._value(0)

    def _advance(self) -> None:
        """Advances to the next token; its kind is the mark itself, or the name of its group."""
        match = self._match(self._whole, self.stop)
        assert match is not None
        kind = match.lastgroup
        if kind is None:
            self.kind, self.text, self.start, self.stop = "end", "", match.end(), match.end()
            return
        self.start, self.stop = match.span(kind)
        self.text = match[kind]
        self.kind = self.text if kind == "mark" else kind

    def _value(self, depth: int) -> Tree:
        kind, start = self.kind, self.start
        tree = Tree(None, self._source, start << 32 | self.stop)
        if kind == "number":
            tree.value = self._number()
        elif kind == "string":
            tree.value = self._string()
        elif kind in ("{", "["):
            if depth == MAX_DEPTH:
                raise self._error(TOO_DEEP)
            (self._object if kind == "{" else self._array)(tree, depth + 1)
            return tree
        elif kind == "word" and self.text in _WORDS:
            tree.value = _WORDS[self.text]
        else:
            is_number = kind == "word" and self.text.lower() in ("nan", "inf")
            raise self._unexpected("a value", 'write "nan", "inf" or "-inf", in quotes' if is_number else None)
        self._advance()
        return tree

    def _object(self, tree: Tree, depth: int) -> None:
        values: dict[str, Tree] = {}
        keys: dict[str, Tree] = {}
        tree.value, tree.keys = values, keys
        while self._next_item("}", first=not values):
            if self.kind != "string":
                raise self._unexpected("a key in quotes")
            name, key = self._string(), Tree(None, self._source, self.start << 32 | self.stop)
            if name in values:
                hint = f"first in line {keys[name].location.line}"
                raise self._error(f"the key '{shorten(name)}' is given twice", hint=hint)
            self._advance()
            if self.kind != ":":
                raise self._unexpected("':'")
            self._advance()
            values[name], keys[name] = self._value(depth), key

    def _array(self, tree: Tree, depth: int) -> None:
        values: list[Tree] = []
        tree.value = values
        while self._next_item("]", first=not values):
            values.append(self._value(depth))

    def _next_item(self, end: str, *, first: bool) -> bool:
        """Whether another item follows; skips the bracket or comma before it, or the closing bracket."""
        if first:
            self._advance()
        elif self.kind != end:
            if self.kind != ",":
                raise self._unexpected(f"',' or '{end}'")
            self._advance()
        if self.kind == end:
            self._advance()
            return False
        return True

    def _string(self) -> str:
        text: str = json.loads(self.text) if "\\" in self.text else self.text[1:-1]
        if not text.isascii() and _SURROGATE.search(text):
            raise self._error("not JSON: half of a surrogate pair")
        return text

    def _number(self) -> int | float:
        if self.text.removeprefix("-").isdecimal() and len(self.text) <= MAX_DIGITS:
            return int(self.text)
        number = float(self.text)
        if not math.isfinite(number):
            raise self._error("the number is beyond every data type")
        return number

    def _unexpected(self, wanted: str, hint: str | None = None) -> DocumentError:
        if self.text == '"':
            return self._error("not JSON: the text in quotes does not end, or has a control character")
        return self._error("not JSON", got=self.text or "the end of the text", allowed=wanted, hint=hint)

    def _error(self, message: str, **fields: Any) -> DocumentError:
        return DocumentError(
            message, code="syntax", location=self._source.location(self.start << 32 | self.start), **fields
        )


# The objects and lists that are written with one line per item: by key, "*" for any key.
_OPENED: dict[str, Any] = {"resources": {}, "dispatchables": {"*": {"desc": {}}}, "commands": {}}


def layout(model: Mapping[str, Any]) -> str:
    """A model as JSON text: one line for each resource, each field of an operator, and each command."""
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
