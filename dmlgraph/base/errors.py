"""The errors that dmlgraph raises: a small tree of exceptions, each with problems that have fields.

A `Problem` is one error, or a warning of a probable mistake: where it is (node, field, place in a file), what was
given, what is allowed, and what to do.  An exception carries one or more of them; its `node`, `field`, `got`,
`allowed`, `hint` and `location` are those of the first.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import difflib
import enum
import itertools
import string
from collections.abc import Collection, Iterable, Iterator, Mapping, Set, Sized
from typing import Any, ClassVar, Self

from dmlgraph.base.codes import WARNINGS


@dataclasses.dataclass(frozen=True, slots=True)
class Location:
    """A place in a file; line and column count from 1, columns in characters.

    `end_column` is the column after the last character, None if that is unknown or on another line; `source` is the
    text of the whole line; `used_by`, for a place in a template, says which use of it is meant: `'tower' (copy 3),
    model.yaml:20:3`.  Comparison ignores these.
    """

    file: str
    line: int
    column: int
    end_column: int | None = dataclasses.field(default=None, compare=False)
    source: str | None = dataclasses.field(default=None, compare=False, repr=False)
    used_by: str | None = dataclasses.field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Severity(enum.StrEnum):
    """How bad a problem is: an error is raised, a warning is only reported."""

    ERROR = "error"
    WARNING = "warning"


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Problem:
    """One error, or a warning of something legal that is probably a mistake.

    `code` is its kind, one of `dmlgraph.base.codes.CODES`; `field` is a dotted path inside the node (`output.sizes`,
    `axes.1`); `got` is the offending value, or None if there is none to show; `allowed` and `hint` are phrases for
    people.
    """

    message: str
    node: str | None = None
    field: str | None = None
    got: object = None
    allowed: str | None = None
    hint: str | None = None
    location: Location | None = None
    code: str = dataclasses.field(kw_only=True)

    @property
    def severity(self) -> Severity:
        return Severity.WARNING if self.code in WARNINGS else Severity.ERROR

    def __repr__(self) -> str:  # whatever `got` is: Python writes no integers of thousands of digits
        return f"<{self.severity} {self.code}: {self}>"

    def __str__(self) -> str:
        text = self.headline
        if self.allowed is not None:
            text += f"; allowed: {self.allowed}"
        if self.hint is not None:
            text += f" ({self.hint})"
        if self.location is not None and self.location.used_by is not None:
            text += f"; used by {self.location.used_by}"
        return text

    @property
    def headline(self) -> str:
        """Where, what is wrong, and what was given; without the advice."""
        where = []
        if self.node is not None:
            where.append(f"node '{shorten(self.node)}'")
        if self.field:
            where.append(f"field '{shorten(self.field)}'")
        text = f"{', '.join(where)}: {self.message}" if where else self.message
        if self.got is not None:
            text += f"; got {shorten(self.got)}"
        return text

    def within(self, field: str) -> Problem:
        """The same problem with `field` in front of its field path."""
        return dataclasses.replace(self, field=f"{field}.{self.field}" if self.field else field)

    def at(self, *, node: str | None = None, location: Location | None = None) -> Problem:
        """The same problem; fills in its node and its place in a file where they are unknown."""
        return dataclasses.replace(self, node=self.node or node, location=self.location or location)


class DmlGraphError(Exception):
    """Base class of all errors that dmlgraph raises on purpose."""

    CODE: ClassVar[str]  # of its problems, where all errors of a class are of one kind

    def __init__(self, problems: Iterable[Problem] | Problem | str, **fields: Any) -> None:
        """Takes problems, or a message and the other fields of one problem."""
        if isinstance(problems, str):
            kind = {"code": self.CODE} if hasattr(self, "CODE") else {}
            problems = Problem(problems, **kind | fields)
        elif fields:
            raise TypeError("fields go with a message, not with problems")
        self.problems = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__("\n".join(_line(problem) for problem in self.problems))

    @property
    def code(self) -> str:
        return self.problems[0].code

    @property
    def node(self) -> str | None:
        return self.problems[0].node

    @property
    def field(self) -> str | None:
        return self.problems[0].field

    @property
    def got(self) -> object:
        return self.problems[0].got

    @property
    def allowed(self) -> str | None:
        return self.problems[0].allowed

    @property
    def hint(self) -> str | None:
        return self.problems[0].hint

    @property
    def location(self) -> Location | None:
        return self.problems[0].location

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in place of a traceback."""
        from dmlgraph.base.notebook import rendered

        return rendered(self)

    def at(self, node: str) -> Self:
        """The same error with the node in which it happened."""
        return self.with_problems(problem.at(node=node) for problem in self.problems)

    def with_problems(self, problems: Iterable[Problem]) -> Self:
        """The same error with other problems; its other attributes stay."""
        other = type(self)(problems)
        other.__dict__.update({key: value for key, value in self.__dict__.items() if key != "problems"})
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.problems,)


class TensorError(DmlGraphError, ValueError):
    """A tensor description is invalid: rank, sizes, strides, data type."""


class ScalarError(DmlGraphError, ValueError):
    """A data type cannot hold a number."""


class OperatorError(DmlGraphError, ValueError):
    """A field of an operator is missing, unknown, of the wrong kind, or breaks a rule of the operator."""


class GraphError(DmlGraphError, ValueError):
    """The graph as a whole is wrong: names, cycles, values of another graph, missing outputs, dims."""


class DocumentError(DmlGraphError, ValueError):
    """A graph file is wrong; every problem has its line and column."""


class ModelError(DmlGraphError, ValueError):
    """An ONNX model cannot be imported or exported; its problems name the nodes, inputs or dims."""


class BindingError(DmlGraphError, ValueError):
    """The arrays given to a run do not fit the graph's inputs and outputs."""

    @classmethod
    def another(
        cls, thing: str, name: str, got: object, allowed: object, *, of: str = "the input", hint: str | None = None
    ) -> BindingError:
        """An array has another `thing`: data type, shape or rank."""
        code = {"data type": "dtype", "shape": "sizes", "rank": "rank"}[thing]
        return cls(f"{of} has another {thing}", code=code, field=name, got=got, allowed=str(allowed), hint=hint)


class DeviceError(DmlGraphError, RuntimeError):
    """A device is unknown, missing, or failed."""


class NotEnoughMemoryError(DeviceError, MemoryError):
    """Not enough memory; the message says for what."""

    CODE = "memory"


def suggestion(name: str, known: Iterable[str], elsewhere: Mapping[str, str] | None = None) -> str | None:
    """A hint with the known name most similar to `name`, or None if none is similar.

    `elsewhere`: names in other libraries → known names; these have priority.
    """
    near = (elsewhere or {}).get(name) or nearest(name, known)
    return None if near is None else f"did you mean '{near}'?"


def check_known(names: Iterable[object], known: Collection[str], what: str) -> None:
    """Refuses arrays for names that are not inputs, or outputs, of the graph.

    Raises:
        BindingError: names the first.
    """
    for name in names:
        if name not in known:
            raise BindingError(
                f"is not an {what} of the graph",
                code="unknown-array",
                field=str(name),
                allowed=listing(known) or f"nothing: the graph has no {what}s",
                hint=suggestion(str(name), known),
            )


# Limits of the search for the intended name.  A document may have thousands of wrong names, and as many right ones;
# each search takes well under a millisecond, and their number is limited.
MOST_COMPARED = 250  # names that a name is compared with one by one; enough for all of DirectML's operators
LONGEST_COMPARED = 80  # characters of a name that is compared with others
MOST_HINTS = 300  # of a document
_hints: contextvars.ContextVar[Iterator[int] | None] = contextvars.ContextVar("hints", default=None)


@contextlib.contextmanager
def few_hints() -> Iterator[None]:
    """Inside, only the first MOST_HINTS wrong names get hints."""
    token = _hints.set(iter(range(MOST_HINTS)))
    try:
        yield
    finally:
        _hints.reset(token)


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known name that `name` most likely misspells, or None if none is similar, as difflib measures `cutoff`.

    Among more than MOST_COMPARED names it finds only those that are one letter away, or differ in case.
    """
    left = _hints.get()
    if len(name) > LONGEST_COMPARED or (left is not None and next(left, None) is None):
        return None
    names = known if isinstance(known, (Set, Mapping)) else dict.fromkeys(known)
    if len(names) > MOST_COMPARED:
        return next((each for each in _one_letter_away(name) if each in names), None)
    lower = name.lower()
    same = next((each for each in names if each.lower() == lower), None)
    if same is not None:
        return same
    comparable = [each for each in names if len(each) <= 2 * LONGEST_COMPARED]
    near = difflib.get_close_matches(name, comparable, n=1, cutoff=cutoff)
    return near[0] if near else None


def _one_letter_away(name: str) -> Iterator[str]:
    """The name in another case, and with two letters swapped, one removed, one changed, or one inserted."""
    yield from (name.lower(), name.upper(), name.capitalize())
    pairs = [(name[:index], name[index:]) for index in range(len(name) + 1)]
    yield from (head + tail[1] + tail[0] + tail[2:] for head, tail in pairs if len(tail) > 1)
    yield from (head + tail[1:] for head, tail in pairs if tail)
    for letter in sorted({*string.ascii_lowercase, *string.digits, *"_.", *name}):
        yield from (head + letter + tail[1:] for head, tail in pairs if tail)
        yield from (head + letter + tail for head, tail in pairs)


def listing(names: Iterable[object], at_most: int = 50) -> str:
    """Names for a message: `a, b, c`, or `a, b and 7 more`."""
    sized = names if isinstance(names, Sized) else list(names)
    words = [shorten(str(name)) for name in itertools.islice(sized, at_most)]
    more = len(sized) - len(words)
    return f"{', '.join(words)} and {more} more" if more else ", ".join(words)


def plural(count: int, noun: str, form: str = "") -> str:
    """A count, in a Python format, and its noun: `1 node`, `2 nodes`, `0 entries`."""
    several = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{noun}s"
    return f"{count:{form}} {noun if count == 1 else several}"


def _line(problem: Problem) -> str:
    return f"{problem.location}: {problem}" if problem.location else str(problem)


def shorten(value: object, limit: int = 120) -> str:
    """A value for a message: text unchanged, other values as `repr` writes them, cut after `limit` characters."""
    text = value[: limit + 1] if isinstance(value, str) else _beginning(value, limit + 1)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _beginning(value: object, limit: int) -> str:
    """At least the first `limit` characters of `repr(value)`, without computing all of it."""
    pieces: list[str] = []
    length = 0
    for piece in _pieces(value):
        pieces.append(piece)
        length += len(piece)
        if length >= limit:
            break
    return "".join(pieces)


def _pieces(value: object) -> Iterator[str]:
    """The text of `repr`, piece by piece."""
    if type(value) in (list, tuple):
        opening, closing = "[]" if type(value) is list else "()"
        items: Iterator[tuple[object, ...]] = ((each,) for each in value)  # type: ignore[attr-defined]
    elif type(value) is dict:
        opening, closing = "{}"
        items = iter(value.items())
    else:
        try:
            yield repr(value[:1000] if type(value) is str else value)
        except ValueError:  # Python does not print integers with thousands of digits
            yield "a number with thousands of digits"
        return
    yield opening
    count = 0
    for count, item in enumerate(items, 1):
        yield ", " if count > 1 else ""
        yield from _pieces(item[0])
        if len(item) == 2:
            yield ": "
            yield from _pieces(item[1])
    yield f",{closing}" if count == 1 and closing == ")" else closing
