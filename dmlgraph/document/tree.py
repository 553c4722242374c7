"""YAML text → a tree of plain values that remember where they stand.

YAML 1.2's core schema: `null`, `true`, `false`, numbers, `.inf`, `.nan`; everything else is text, so that names
such as `on` or `y` are names.  The tree is built from the parser's events, without recursion and without
constructing any object: tags are refused, and anchors are counted out so that they cannot blow a file up.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator
from typing import Any

import yaml

from dmlgraph.document.syntax import character_problem, syntax_problem
from dmlgraph.errors import Location, Problem

MAX_DEPTH = 64  # levels of nesting in a graph file, aliases written out; real ones need 6
MAX_DIGITS = 400  # of an integer: float64 ends at 309
MAX_NODES = 10_000_000  # values in a file once its aliases are written out

_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
}


@dataclasses.dataclass(slots=True)
class Tree:
    """A value and its place.

    `value` is a scalar, a list of trees, or a dict from scalars to trees; `keys` holds the places of a dict's
    keys.
    """

    value: Any
    location: Location
    keys: dict[Any, Location] = dataclasses.field(default_factory=dict)

    @property
    def plain(self) -> Any:
        """The value without places, all the way down."""
        if isinstance(self.value, list):
            return [item.plain for item in self.value]
        if isinstance(self.value, dict):
            return {key: item.plain for key, item in self.value.items()}
        return self.value

    def find(self, path: str | None, *, key: bool = False) -> Location:
        """The place of the deepest part of a dotted path that is there; `key`: of its key, not its value."""
        tree, location = self, self.location
        for part in (path or "").split("."):
            name: Any = int(part) if part.isdigit() and isinstance(tree.value, list) else part
            if isinstance(tree.value, dict) and name in tree.value:
                location = tree.keys[name] if key else tree.value[name].location
            elif isinstance(tree.value, list) and isinstance(name, int) and name < len(tree.value):
                location = tree.value[name].location
            else:
                break
            tree = tree.value[name]
        return location


def resolve(text: str) -> Any:
    """What a plain scalar means; a number beyond every data type stays text, so that it becomes no other number."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        # A sign rules the other bases out; leading zeros are decimal in YAML 1.2.
        base = 0 if text[:2] in ("0x", "0o") else 10
        return int(text, base) if len(text) <= MAX_DIGITS else text
    if _FLOAT.fullmatch(text):
        number = float(text)
        return number if math.isfinite(number) else text
    return text


def parse(text: str, file: str) -> tuple[Tree | None, list[Problem]]:
    """The tree of a YAML document, and what is wrong with it; no tree where it cannot be read at all."""
    builder = _Builder(file, text)
    try:
        for event in _events(text):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        builder.problems.append(syntax_problem(error, builder.lines, file, builder.open_bracket))
        return None, builder.problems
    except (yaml.reader.ReaderError, UnicodeEncodeError):
        builder.problems.append(character_problem(text, file))
        return None, builder.problems
    except _TooMuchError as error:
        builder.problems.append(error.problem)
        return None, builder.problems
    return builder.root, builder.problems


def _events(text: str) -> Iterator[Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    yield from yaml.parse(text, Loader=loader)


class _TooMuchError(Exception):
    """The document is nested too deep or grows too large to go on."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


_NO_KEY = object()


@dataclasses.dataclass(slots=True)
class _Open:
    """A list or dict whose end has not been met: `key` is a dict's key that waits for its value."""

    tree: Tree
    anchor: str | None
    size: int = 1
    depth: int = 1  # levels of nesting in it, aliases written out
    key: Any = _NO_KEY
    key_location: Location | None = None


class _Builder:
    """Takes parser events one by one and builds the tree."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.lines = text.removeprefix("\ufeff").splitlines()  # libyaml does not count the mark either
        self.root: Tree | None = None
        self.problems: list[Problem] = []
        self._stack: list[_Open] = []
        self._anchors: dict[str, tuple[Tree, int, int]] = {}  # the tree, its values and its depth
        self._documents = 0

    @property
    def open_bracket(self) -> Location | None:
        """The innermost bracket that is not closed yet."""
        opened = (each.tree.location for each in reversed(self._stack))
        return next((place for place in opened if place.end_column is not None), None)

    def take(self, event: Any) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self._refuse_tag(event)
            value = resolve(event.value) if event.implicit[0] else event.value
            self._place(Tree(value, self._location(event)), event.anchor)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._refuse_tag(event)
            self._check_depth(1, self._location(event))
            value = {} if isinstance(event, yaml.MappingStartEvent) else []
            self._stack.append(_Open(Tree(value, self._location(event)), event.anchor))
        elif isinstance(event, yaml.CollectionEndEvent):
            done = self._stack.pop()
            if done.tree.location.end_column is not None:  # in brackets: up to the closing one
                done.tree.location = self._span(done.tree.location, event)
            self._place(done.tree, done.anchor, done.size, done.depth)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)
        elif isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents == 2:
                self._problem("a graph file holds one document; this '---' starts another", event)

    def _alias(self, event: Any) -> None:
        if event.anchor not in self._anchors:
            inside = any(each.anchor == event.anchor for each in self._stack)
            self._problem(
                f"the alias *{event.anchor} stands {'inside its own anchor' if inside else 'before its anchor'}",
                event,
            )
            self._place(Tree(None, self._location(event)))
        else:
            tree, size, depth = self._anchors[event.anchor]
            self._check_depth(depth, self._location(event))
            self._place(Tree(tree.value, self._location(event), tree.keys), None, size, depth)

    def _check_depth(self, depth: int, location: Location) -> None:
        if len(self._stack) + depth > MAX_DEPTH:
            raise _TooMuchError(Problem(f"nested more than {MAX_DEPTH} levels deep", location=location))

    def _place(self, tree: Tree, anchor: str | None = None, size: int = 1, depth: int = 0) -> None:
        """Puts a finished value where it belongs; `size` counts the values in it, `depth` its levels of nesting."""
        if anchor is not None:
            self._anchors[anchor] = (tree, size, depth)
        if not self._stack:
            if self.root is None:
                self.root = tree
            return
        parent = self._stack[-1]
        parent.size += size
        parent.depth = max(parent.depth, depth + 1)
        if parent.size > MAX_NODES:
            raise _TooMuchError(
                Problem(
                    f"the aliases here unfold to more than {MAX_NODES} values",
                    location=tree.location,
                    hint="write the values out",
                )
            )
        if isinstance(parent.tree.value, list):
            parent.tree.value.append(tree)
        elif parent.key is _NO_KEY:
            self._key(parent, tree)
        else:
            key, parent.key = parent.key, _NO_KEY
            if parent.key_location is not None and tree.value is None and ":" in key:
                key, tree = self._split(key, parent.key_location)
            if parent.key_location is not None:  # else a problem with the key was reported: its value is dropped
                parent.tree.value[key] = tree
                parent.tree.keys[key] = parent.key_location

    def _key(self, parent: _Open, tree: Tree) -> None:
        parent.key, parent.key_location = tree.value, tree.location
        if not isinstance(tree.value, str):
            problem = Problem("a key must be text", got=tree.plain, location=tree.location, hint="write it in quotes")
        elif tree.value in parent.tree.value:
            first = parent.tree.keys[tree.value]
            problem = Problem(
                f"the key '{tree.value}' is given twice",
                location=tree.location,
                hint=f"first in line {first.line}",
            )
        else:
            return
        self.problems.append(problem)
        parent.key, parent.key_location = None, None

    def _split(self, key: str, location: Location) -> tuple[str, Tree]:
        """`key:value`, which YAML takes for a key without a value, as what was surely meant; a problem all the same."""
        meant, _, value = key.partition(":")
        hint = f"write '{meant}: {value}'" if value else None
        self.problems.append(Problem(f"a space is missing after the ':' of '{key}'", location=location, hint=hint))
        return meant, Tree(resolve(value), location)

    def _refuse_tag(self, event: Any) -> None:
        if event.tag is not None:
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")  # as it is written
            self._problem(f"the tag {tag} is not allowed: a graph file holds plain values only", event)

    def _problem(self, message: str, event: Any) -> None:
        self.problems.append(Problem(message, location=self._location(event)))

    def _location(self, event: Any) -> Location:
        """From an event's first character to behind its last, where that is on the same line."""
        start, end = event.start_mark, event.end_mark
        line, column = start.line, start.column
        source = self.lines[line] if line < len(self.lines) else None
        end_column = end.column + 1 if end.line == line and end.column > column else None
        return Location(self.file, line + 1, column + 1, end_column, source)

    def _span(self, start: Location, end: Any) -> Location:
        """From a place to behind the last character of an event."""
        same = end.end_mark.line == start.line - 1
        return dataclasses.replace(start, end_column=end.end_mark.column + 1 if same else None)
