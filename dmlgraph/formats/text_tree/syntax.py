"""Problems of text that is not YAML, in words that say what to do.

libyaml reports what its grammar expected and where it noticed; the user's mistake is often a little earlier.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any

import yaml

from dmlgraph.base.errors import Location, Problem

MAX_DEPTH = 64  # levels of nesting in a graph file, aliases expanded; real files need 6
TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep"

# The complement of what YAML 1.2 calls c-printable.
_NOT_YAML = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NO_SPACE = re.compile(r"\s*[\w.-]+:[^\s:/]")  # `key:value`, which is one word
_WORD = re.compile(r"[^\s,\[\]{}:]+\s*$")
_CLOSING = {"{": "}", "[": "]"}


@dataclasses.dataclass(frozen=True, slots=True)
class _Trouble:
    """Where libyaml noticed (`line` and `column` from 0), where the construct it was reading began, the last open
    bracket."""

    lines: Sequence[str]
    line: int
    column: int
    begin: Any
    bracket: Location | None

    @property
    def character(self) -> str:
        return self.lines[self.line][self.column : self.column + 1] if self.line < len(self.lines) else ""

    @property
    def before(self) -> str:
        return self.lines[self.line][: self.column] if self.line < len(self.lines) else ""

    @property
    def begun(self) -> str:
        return f"line {self.begin.line + 1}, column {self.begin.column + 1}"

    def at_word(self) -> _Trouble:
        """The trouble, moved to the word before a colon: the misplaced key."""
        word = _WORD.search(self.before) if self.character == ":" else None
        return self if word is None else dataclasses.replace(self, column=word.start())

    def at_begin(self) -> _Trouble:
        return dataclasses.replace(self, line=self.begin.line, column=self.begin.column)

    def location(self, file: str) -> Location:
        source = self.lines[self.line] if self.line < len(self.lines) else None
        word = re.match(r"[\w.+-]+", (source or "")[self.column :])
        end = self.column + 1 + len(word[0]) if word else None
        return Location(file, self.line + 1, self.column + 1, end, source)


_Description = tuple[_Trouble, str, str | None]


def _no_mapping(at: _Trouble) -> _Description:
    above = at.lines[at.line - 1] if 0 < at.line < len(at.lines) else ""
    if _NO_SPACE.match(above):
        hint = f"line {at.line} needs a space after its ':'"
    else:
        hint = "indent all entries of a mapping equally; text that contains ': ' needs quotes"
    return at.at_word(), "a key is not allowed here", hint


def _no_token(at: _Trouble) -> _Description:
    if at.character == "\t":
        return _tab(at)
    return at, f"a value cannot begin with '{at.character}'", "put it in quotes"


def _tab(at: _Trouble) -> _Description:
    return at, "a tab in the indentation", "indent with spaces"


def _no_key(at: _Trouble) -> _Description:
    if at.before.endswith("'"):
        return at, "text continues after its closing quote", "inside '…' write a quote twice: ''"
    begun = f"the mapping begun in line {at.begin.line + 1} is indented by {at.begin.column}"
    return at, "the indentation matches no mapping above", f"{begun}: indent all its entries equally"


def _no_item(at: _Trouble) -> _Description:
    hint = f"the list begun in line {at.begin.line + 1} is indented by {at.begin.column}"
    return at, "an item of the list must begin with '- ' here", hint


def _not_closed(opening: str) -> Callable[[_Trouble], _Description]:
    closing = _CLOSING[opening]

    def describe(at: _Trouble) -> _Description:
        if not at.character:
            return at.at_begin(), f"this '{opening}' is never closed", f"close it with '{closing}'"
        return at.at_word(), f"a ',' or '{closing}' is missing before this", f"the '{opening}' is in {at.begun}"

    return describe


def _no_value(at: _Trouble) -> _Description:
    if not at.character and at.bracket is not None:
        at = dataclasses.replace(at, line=at.bracket.line - 1, column=at.bracket.column - 1)
        return at, f"this '{at.character}' is never closed", f"close it with '{_CLOSING[at.character]}'"
    return at, f"a value is expected, not '{at.character}'", "text that begins with such a character needs quotes"


def _ends(at: _Trouble) -> _Description:
    return at.at_begin(), "this quote is never closed", None


def _escape(at: _Trouble) -> _Description:
    return at, "no such escape in double quotes", r"write a backslash as '\\', or use single quotes"


def _no_colon(at: _Trouble) -> _Description:
    return at.at_begin(), "a ':' is missing after this key", None


def _no_space(at: _Trouble) -> _Description:
    return at, "a space is missing after this ':'", None


def _no_list(at: _Trouble) -> _Description:
    return at, "a list with '- ' begins on a new line", "or write it as [a, b]"


_DESCRIPTIONS: dict[str, Callable[[_Trouble], _Description]] = {
    "mapping values are not allowed in this context": _no_mapping,
    "found character that cannot start any token": _no_token,
    "found a tab character that violates indentation": _tab,
    "found a tab character where an indentation space is expected": _tab,
    "did not find expected key": _no_key,
    "did not find expected '-' indicator": _no_item,
    "did not find expected ',' or '}'": _not_closed("{"),
    "did not find expected ',' or ']'": _not_closed("["),
    "did not find expected node content": _no_value,
    "found unexpected end of stream": _ends,
    "found unexpected ':'": _no_space,
    "found unknown escape character": _escape,
    "could not find expected ':'": _no_colon,
    "block sequence entries are not allowed in this context": _no_list,
}


def syntax_problem(
    error: yaml.MarkedYAMLError, lines: Sequence[str], file: str, bracket: Location | None = None
) -> Problem:
    """What is wrong, where, and what to do; in libyaml's words if this module has none.

    Args:
        error: libyaml's error.
        lines: the lines of the text.
        file: the name of the file.
        bracket: the innermost '{' or '[' that is open where reading ended.
    """
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return Problem(f"not YAML: {error.problem}", code="syntax", location=Location(file, 1, 1))
    at = _Trouble(lines, mark.line, mark.column, error.context_mark or mark, bracket)
    if error.problem == "exceeded maximum nesting depth":  # libyaml 0.2.6 looks ahead, up to a limit of its own
        return Problem(TOO_DEEP, code="syntax", location=at.location(file))
    describe = _DESCRIPTIONS.get(error.problem or "")
    at, message, hint = describe(at) if describe else (at, error.problem or "", None)
    if at.line >= len(lines) and lines:  # the end of the file: shown after its last line
        at = dataclasses.replace(at, line=len(lines) - 1, column=len(lines[-1]))
    return Problem(f"not YAML: {message}", code="syntax", hint=hint, location=at.location(file))


def character_problem(text: str, file: str) -> Problem:
    """The first character that YAML does not allow."""
    bad = _NOT_YAML.search(text)
    lines = text[: bad.end() if bad else 0].splitlines() or [""]
    line = text.splitlines()[len(lines) - 1] if bad else None
    return Problem(
        "not YAML: a control character or another code point that YAML does not allow",
        code="syntax",
        got=repr(bad[0]) if bad else None,
        location=Location(file, len(lines), max(1, len(lines[-1])), None, line),
    )
