"""The errors dmlgraph raises: a small tree of exceptions, each made of problems with fields.

A `Problem` is one thing that is wrong, or a warning of what is surely not meant: where (node, field, place in a
file), what was given, what is allowed, and what to do about it.  An exception carries one or more of them; its own
`node`, `field`, `got`, `allowed`, `hint` and `location` are those of the first.
"""

from __future__ import annotations

import dataclasses
import difflib
import enum
from collections.abc import Iterable, Mapping
from typing import Any, Self


@dataclasses.dataclass(frozen=True, slots=True)
class Location:
    """A place in a file; line and column count from 1, columns in characters.

    `end_column` is the column behind the last character of what stands there, None where that is not known or on
    another line; `source` is the text of the whole line.  Neither makes one place different from another.
    """

    file: str
    line: int
    column: int
    end_column: int | None = dataclasses.field(default=None, compare=False)
    source: str | None = dataclasses.field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Severity(enum.StrEnum):
    """How bad a problem is: an error is raised, a warning is told."""

    ERROR = "error"
    WARNING = "warning"


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, or a warning: legal, but surely not meant.

    `field` is a dotted path inside the node (`output.sizes`, `axes.1`); `got` is the offending value or None
    where there is none to show; `allowed` and `hint` are phrases for people.
    """

    message: str
    node: str | None = None
    field: str | None = None
    got: object = None
    allowed: str | None = None
    hint: str | None = None
    location: Location | None = None
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        text = self.headline
        if self.allowed is not None:
            text += f"; allowed: {self.allowed}"
        if self.hint is not None:
            text += f" ({self.hint})"
        return text

    @property
    def headline(self) -> str:
        """Where, what is wrong, and what was given: all but the advice."""
        where = []
        if self.node is not None:
            where.append(f"node '{self.node}'")
        if self.field:
            where.append(f"field '{self.field}'")
        text = f"{', '.join(where)}: {self.message}" if where else self.message
        if self.got is not None:
            text += f"; got {_shorten(self.got)}"
        return text

    def within(self, field: str) -> Problem:
        """The same problem seen from outside: its field path starts with `field`."""
        return dataclasses.replace(self, field=f"{field}.{self.field}" if self.field else field)

    def at(self, *, node: str | None = None, location: Location | None = None) -> Problem:
        """The same problem with its node or its place in a file filled in where they are still unknown."""
        return dataclasses.replace(self, node=self.node or node, location=self.location or location)


class DmlGraphError(Exception):
    """Base of everything dmlgraph raises on purpose."""

    def __init__(self, problems: Iterable[Problem] | Problem | str, **fields: Any) -> None:
        """Made of problems, or of one message and the fields of its problem."""
        if isinstance(problems, str):
            problems = Problem(problems, **fields)
        elif fields:
            raise TypeError("fields go with a message, not with problems")
        self.problems = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__("\n".join(_line(problem) for problem in self.problems))

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

    def at(self, node: str) -> Self:
        """The same error told of the node it happened in."""
        return self.with_problems(problem.at(node=node) for problem in self.problems)

    def with_problems(self, problems: Iterable[Problem]) -> Self:
        """The same error with other problems; what else it carries stays."""
        other = type(self)(problems)
        other.__dict__.update({key: value for key, value in self.__dict__.items() if key != "problems"})
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.problems,)


class TensorError(DmlGraphError, ValueError):
    """A tensor description that cannot be: rank, sizes, strides, data type."""


class ScalarError(DmlGraphError, ValueError):
    """A number that its data type cannot hold."""


class OperatorError(DmlGraphError, ValueError):
    """A field of an operator is missing, unknown, of the wrong kind, or breaks a rule of the operator."""


class GraphError(DmlGraphError, ValueError):
    """The graph as a whole is wrong: names, cycles, values of another graph, missing outputs, dims."""


class DocumentError(DmlGraphError, ValueError):
    """A graph file is wrong; every problem has its line and column."""


class BindingError(DmlGraphError, ValueError):
    """The arrays given to a run do not fit the graph's inputs and outputs."""


class DeviceError(DmlGraphError, RuntimeError):
    """A device is unknown, missing, or failed."""


class NotEnoughMemoryError(DeviceError, MemoryError):
    """There is not enough memory; the message says for what."""


class ToldOf:
    """Errors raised inside are told of the node: names it in every problem."""

    def __init__(self, name: object) -> None:
        self.name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, MemoryError):
            from dmlgraph.memory import not_enough_memory  # which needs this module

            raise not_enough_memory("make the node", error, node=str(self.name)) from None
        if isinstance(error, DmlGraphError) and isinstance(self.name, str):
            cls = OperatorError if isinstance(error, TensorError) else type(error)
            raise cls(problem.at(node=self.name) for problem in error.problems) from None


def suggestion(name: str, known: Iterable[str], elsewhere: Mapping[str, str] | None = None) -> str | None:
    """A hint with the known name nearest to `name`, or None where nothing is near.

    `elsewhere`: known names by what they are called in other libraries; such a name means just that.
    """
    near = (elsewhere or {}).get(name) or nearest(name, known)
    return None if near is None else f"did you mean '{near}'?"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` is most likely a misspelling of, or None where nothing is near."""
    names = list(known)
    same = [each for each in names if each.lower() == name.lower()]  # but for the case of letters
    near = same or difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return near[0] if near else None


def listing(names: Iterable[object], at_most: int | None = None) -> str:
    """Names for a message: `a, b, c`, or `a, b and 7 more`."""
    words = [str(name) for name in names]
    if at_most is None or len(words) <= at_most:
        return ", ".join(words)
    return f"{', '.join(words[:at_most])} and {len(words) - at_most} more"


def plural(count: int, noun: str, form: str = "") -> str:
    """A count, in a format of Python's, and its noun: `1 node`, `2 nodes`, `0 entries`."""
    several = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{noun}s"
    return f"{count:{form}} {noun if count == 1 else several}"


def _line(problem: Problem) -> str:
    return f"{problem.location}: {problem}" if problem.location else str(problem)


def _shorten(value: object, limit: int = 120) -> str:
    try:
        text = value if isinstance(value, str) else repr(value)
    except ValueError:  # Python does not print integers of more than some thousand digits
        text = "a number of thousands of digits"
    return text if len(text) <= limit else text[: limit - 1] + "…"
