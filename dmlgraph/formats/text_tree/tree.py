"""YAML text → a tree of plain values with their locations.

YAML 1.2's core schema: `null`, `true`, `false`, numbers, `.inf`, `.nan`; everything else is text, so that `on` or `y`
can be names.  The tree is built from the parser's events, without recursion and without constructing objects: tags are
refused, and the values of aliases are counted, so that they cannot expand a file without bound.
"""

from __future__ import annotations

import bisect
import contextlib
import functools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import yaml

from dmlgraph.base.errors import Location, Problem, shorten
from dmlgraph.base.memory import collector_paused
from dmlgraph.base.report import Report
from dmlgraph.formats.text_tree.syntax import MAX_DEPTH, TOO_DEEP, character_problem, syntax_problem

MAX_DIGITS = 400  # of an integer: float64 has at most 309
MAX_UNFOLDED = 100_000  # values in a file, aliases expanded, in addition to one per character

_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")  # where libyaml counts a new line
_TAG_DIRECTIVE = re.compile("^%TAG", re.MULTILINE)
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NUMBER_STARTS = frozenset("+-.0123456789")
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
}


class Source:
    """A text and its name; computes the lines and columns of a range of characters on demand.

    Most locations are never needed, so a tree keeps ranges: `start << 32 | stop`, in characters.
    """

    def __init__(self, file: str, text: str, breaks: re.Pattern[str] = _BREAK) -> None:
        self.file, self.text, self._breaks = file, text, breaks

    @functools.cached_property
    def _starts(self) -> list[int]:
        """Where each line begins."""
        return [0, *(match.end() for match in self._breaks.finditer(self.text))]

    @functools.cached_property
    def lines(self) -> list[str]:
        """The lines without line ends; no empty line after the last line end."""
        lines = self._breaks.split(self.text)
        return lines if lines[-1] else lines[:-1]

    def location(self, span: int) -> Location:
        """The location of a range; it has an end column if the range ends on the same line."""
        start, stop = span >> 32, span & 0xFFFFFFFF
        line = bisect.bisect_right(self._starts, start) - 1
        first = self._starts[line]
        ends_here = start < stop and (line + 1 == len(self._starts) or stop < self._starts[line + 1])
        end_column = stop - first + 1 if ends_here else None
        source = self.lines[line] if line < len(self.lines) else None
        return Location(self.file, line + 1, start - first + 1, end_column, source)


class Tree:
    """A value and its location.

    `value` is a scalar, a list of trees, or a dict from scalars to trees; `keys` holds the trees of a dict's keys.
    """

    __slots__ = ("_source", "_span", "keys", "value")

    def __init__(self, value: Any, source: Source, span: int, keys: dict[Any, Tree] | None = None) -> None:
        self.value, self._source, self._span = value, source, span
        self.keys = _NO_KEYS if keys is None else keys

    @property
    def location(self) -> Location:
        return self._source.location(self._span)

    @property
    def plain(self) -> Any:
        """The value without places, all the way down."""
        if isinstance(self.value, list):
            return [item.plain if type(item.value) in (list, dict) else item.value for item in self.value]
        if isinstance(self.value, dict):
            return {key: item.plain for key, item in self.value.items()}
        return self.value

    def copy(self) -> Tree:
        """A dict of the same trees, to be changed."""
        return Tree(dict(self.value), self._source, self._span, dict(self.keys))

    def with_value(self, value: Any, keys: dict[Any, Tree] | None = None) -> Tree:
        """Another value in the same place."""
        return Tree(value, self._source, self._span, keys)

    def reach(self, stop: int) -> None:
        """Makes the range end before a character."""
        self._span = self._span >> 32 << 32 | stop

    def find(self, path: str | None, *, key: bool = False) -> Tree:
        """The place of the deepest existing part of a dotted path; `key`: of its key instead of its value.

        Keys may contain dots: a path that is a key as a whole is that key.
        """
        tree, found, rest = self, self, path or ""
        while rest:
            value = tree.value
            part = rest if isinstance(value, dict) and rest in value else rest.partition(".")[0]
            name: Any = int(part) if isinstance(value, list) and part.isdecimal() and len(part) < 10 else part
            if isinstance(value, dict) and name in value:
                found = tree.keys[name] if key else value[name]
            elif isinstance(value, list) and isinstance(name, int) and name < len(value):
                found = value[name]
            else:
                break
            tree, rest = value[name], rest[len(part) + 1 :]
        return found


_NO_KEYS: dict[Any, Tree] = {}  # of everything that is not a dict


def resolve(text: str) -> Any:
    """The value of a plain scalar; a number beyond every data type stays text, so that it is not rounded."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_STARTS:
        return text
    if _INTEGER.fullmatch(text):
        # A signed number is decimal, and so is one with leading zeros in YAML 1.2.
        base = 0 if text[:2] in ("0x", "0o") else 10
        return int(text, base) if len(text) <= MAX_DIGITS else text
    if _FLOAT.fullmatch(text):
        number = float(text)
        return number if math.isfinite(number) else text
    return text


def is_finite(value: object) -> bool:
    """Whether a value is a number, and neither infinite nor a NaN; a whole number may be beyond all floats."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -math.inf < value < math.inf


def parse(text: str, file: str, report: Report) -> Tree | None:
    """The tree of a YAML document; None where it cannot be read at all, or is empty.

    Args:
        text: the document.
        file: its name.
        report: collects what is wrong with it.
    """
    source = Source(file, text.removeprefix("\ufeff"))  # libyaml does not count the byte order mark either
    builder = _Builder(source, report)
    directive = _TAG_DIRECTIVE.search(source.text)
    if directive is not None:  # libyaml compares each with all previous ones
        place = source.location(directive.start() << 32 | directive.end())
        message = "the directive %TAG is not allowed: a graph file has no tags"
        report.add(Problem(message, code="syntax", location=place))
        return None
    try:
        with collector_paused(), _events(text) as events:
            builder.build(events)
    except yaml.MarkedYAMLError as error:
        report.add(syntax_problem(error, source.lines, file, builder.open_bracket))
        return None
    except (yaml.reader.ReaderError, UnicodeEncodeError):
        report.add(character_problem(text, file))
        return None
    except _TooMuchError as error:
        report.add(error.problem)
    return builder.root


@contextlib.contextmanager
def _events(text: str) -> Iterator[Iterator[Any]]:
    """The parser's events.  PyYAML's own iterator makes a third of a large file's parsing time."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        yield iter(loader.get_event, None)
    finally:
        loader.dispose()


class _TooMuchError(Exception):
    """The document is nested too deeply, expands too far or holds a second document: reading stops."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


_NO_KEY = object()
_SCALAR: Any = yaml.ScalarEvent


class _Open:
    """A list or dict whose end has not been read."""

    __slots__ = ("anchor", "bracket", "depth", "key", "size", "tree", "value")

    def __init__(self, tree: Tree, anchor: str | None, bracket: int | None) -> None:
        self.tree, self.value, self.anchor = tree, tree.value, anchor
        self.bracket = bracket  # where its bracket is; None: begun by indentation
        self.size = 1  # of the finished values in it, aliases expanded
        self.depth = 1  # levels of nesting in it, aliases expanded
        self.key: Any = _NO_KEY  # a dict's key that waits for its value; None: a refused one


class _Builder:
    """Builds the tree from parser events."""

    def __init__(self, source: Source, report: Report) -> None:
        self.source, self.report = source, report
        self.root: Tree | None = None
        self._stack: list[_Open] = []
        self._anchors: dict[str, tuple[Tree, int, int]] = {}  # the tree, its values and its depth
        self._limit = MAX_UNFOLDED + len(source.text)
        self._documents = 0

    @property
    def open_bracket(self) -> Location | None:
        """The innermost bracket that is not closed yet."""
        opened = (each.bracket for each in reversed(self._stack) if each.bracket is not None)
        bracket = next(opened, None)
        return None if bracket is None else self.source.location(bracket << 32 | bracket + 1)

    def build(self, events: Iterator[Any]) -> None:
        """Builds the tree of all events; most are scalars, so the usual ones are placed here."""
        take, source, stack, resolved = self._take, self.source, self._stack, dict(_WORDS)
        items: list[Tree] | None = None  # of the innermost list or dict, if it is a list
        top: _Open | None = None  # the innermost one, if it is a dict
        for event in events:
            if type(event) is not _SCALAR or event.anchor is not None or event.tag is not None:
                take[type(event)](self, event)
                items = stack[-1].value if stack and type(stack[-1].value) is list else None
                top = stack[-1] if stack and items is None else None
                continue
            value = event.value
            if event.implicit[0]:
                try:
                    value = resolved[value]
                except KeyError:
                    value = resolved[value] = resolve(value)
            tree = Tree(value, source, event.start_mark.index << 32 | event.end_mark.index)
            if items is not None:
                items.append(tree)
            elif top is None:
                self._place(tree, 0)
            elif top.key is _NO_KEY:
                usual = type(value) is str and value not in top.value
                top.key = tree if usual else self._key(top.tree, tree)
            elif top.key is None or value is None:
                self._place(tree, 0)
            else:
                key, top.key = top.key, _NO_KEY
                top.value[key.value], top.tree.keys[key.value] = tree, key

    def _scalar(self, event: Any) -> None:
        """A scalar with a tag or an anchor."""
        self._refuse_tag(event)
        tree = Tree(resolve(event.value) if event.implicit[0] else event.value, self.source, _span(event))
        self._name(event.anchor, tree, 1, 0)
        self._place(tree, 0)

    def _start(self, event: Any) -> None:
        self._refuse_tag(event)
        self._check_depth(1, event)
        is_dict = type(event) is yaml.MappingStartEvent
        tree = Tree({} if is_dict else [], self.source, _span(event), {} if is_dict else None)
        last = event.end_mark.index - 1  # `[a: 1]` begins a mapping that has no bracket
        bracket = last if event.flow_style and self.source.text[last] in "{[" else None
        self._stack.append(_Open(tree, event.anchor, bracket))

    def _end(self, event: Any) -> None:
        done = self._stack.pop()
        tree = done.tree
        if done.bracket is not None:
            tree.reach(event.end_mark.index)
        size = done.size + len(done.value)
        self._name(done.anchor, tree, size, done.depth)
        self._place(tree, done.depth, size - 1)

    def _alias(self, event: Any) -> None:
        if event.anchor not in self._anchors:
            inside = any(each.anchor == event.anchor for each in self._stack)
            where = "inside its own anchor" if inside else "before its anchor"
            self._problem(f"the alias *{event.anchor} is {where}", event)
            self._place(Tree(None, self.source, _span(event)), 0)
        else:
            tree, size, depth = self._anchors[event.anchor]
            self._check_depth(depth, event)
            self._place(Tree(tree.value, self.source, _span(event), tree.keys), depth, size - 1)

    def _document(self, event: Any) -> None:
        self._documents += 1
        if self._documents == 2:
            raise self._too_much("a graph file holds one document; this '---' starts another", event)

    def _name(self, anchor: str | None, tree: Tree, size: int, depth: int) -> None:
        if anchor is not None:
            self._anchors[anchor] = tree, size, depth

    def _check_depth(self, depth: int, event: Any) -> None:
        if len(self._stack) + depth > MAX_DEPTH:
            raise self._too_much(TOO_DEEP, event)

    def _place(self, tree: Tree, depth: int, more: int = 0) -> None:
        """Adds a finished value to its parent; it has `depth` levels of nesting, and `more` values inside it."""
        if not self._stack:
            self.root = self.root or tree
            return
        parent = self._stack[-1]
        parent.size += more
        parent.depth = max(parent.depth, depth + 1)
        if parent.size > self._limit:
            raise _TooMuchError(
                Problem(
                    f"the aliases here expand to more than {self._limit} values",
                    code="syntax",
                    location=tree.location,
                    hint="write the values out",
                )
            )
        if type(parent.value) is list:
            parent.value.append(tree)
        elif parent.key is _NO_KEY:
            parent.key = self._key(parent.tree, tree)
        else:
            key, parent.key = parent.key, _NO_KEY
            if key is not None:  # else this is the value of a refused key
                name = key.value
                if tree.value is None and ":" in name:
                    name, tree = self._split(key)
                parent.value[name], parent.tree.keys[name] = tree, key

    def _key(self, parent: Tree, key: Tree) -> Tree | None:
        """The key; None where it cannot be a key."""
        name = key.value
        if not isinstance(name, str):
            problem = Problem(
                "a key must be text", code="syntax", got=key.plain, location=key.location, hint="write it in quotes"
            )
        elif name in parent.value:
            problem = Problem(
                f"the key '{shorten(name)}' is given twice",
                code="duplicate",
                location=key.location,
                hint=f"first in line {parent.keys[name].location.line}",
            )
        else:
            return key
        self.report.add(problem)
        return None

    def _split(self, key: Tree) -> tuple[str, Tree]:
        """`key:value`, which YAML reads as a key without a value, as the key and value that are meant; reports a
        problem."""
        meant, _, value = key.value.partition(":")
        hint = f"write '{shorten(meant)}: {shorten(value)}'" if value else None
        message = f"a space is missing after the ':' of '{shorten(key.value)}'"
        self.report.add(Problem(message, code="syntax", location=key.location, hint=hint))
        return meant, key.with_value(resolve(value))

    def _refuse_tag(self, event: Any) -> None:
        if event.tag is not None:
            tag = shorten(event.tag.replace("tag:yaml.org,2002:", "!!"))  # as it is written
            self._problem(f"the tag {tag} is not allowed: a graph file holds plain values only", event)

    def _problem(self, message: str, event: Any) -> None:
        self.report.add(Problem(message, code="syntax", location=self.source.location(_span(event))))

    def _too_much(self, message: str, event: Any) -> _TooMuchError:
        return _TooMuchError(Problem(message, code="syntax", location=self.source.location(_span(event))))

    _take: ClassVar[Mapping[type, Callable[[_Builder, Any], None]]] = {
        yaml.ScalarEvent: _scalar,
        yaml.SequenceStartEvent: _start,
        yaml.MappingStartEvent: _start,
        yaml.SequenceEndEvent: _end,
        yaml.MappingEndEvent: _end,
        yaml.AliasEvent: _alias,
        yaml.DocumentStartEvent: _document,
        **dict.fromkeys((yaml.StreamStartEvent, yaml.StreamEndEvent, yaml.DocumentEndEvent), lambda *_: None),
    }


def _span(event: Any) -> int:
    """The range of an event's characters."""
    start: int = event.start_mark.index
    stop: int = event.end_mark.index
    return start << 32 | stop
