"""The errors dmlgraph raises: a small tree of exceptions, each made of problems with fields.

A `Problem` is one thing that is wrong, or a warning of what is surely not meant: where (node, field, place in a
file), what was given, what is allowed, and what to do about it.  An exception carries one or more of them; its own
`node`, `field`, `got`, `allowed`, `hint` and `location` are those of the first.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import difflib
import enum
import itertools
import string
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set, Sized
from typing import Any, ClassVar, Self

from dmlgraph.codes import WARNINGS


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

    `code` says of which kind it is, one of `dmlgraph.codes.CODES`; `field` is a dotted path inside the node
    (`output.sizes`, `axes.1`); `got` is the offending value or None where there is none to show;
    `allowed` and `hint` are phrases for people.
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
            where.append(f"node '{shorten(self.node)}'")
        if self.field:
            where.append(f"field '{shorten(self.field)}'")
        text = f"{', '.join(where)}: {self.message}" if where else self.message
        if self.got is not None:
            text += f"; got {shorten(self.got)}"
        return text

    def within(self, field: str) -> Problem:
        """The same problem seen from outside: its field path starts with `field`."""
        return dataclasses.replace(self, field=f"{field}.{self.field}" if self.field else field)

    def at(self, *, node: str | None = None, location: Location | None = None) -> Problem:
        """The same problem with its node or its place in a file filled in where they are still unknown."""
        return dataclasses.replace(self, node=self.node or node, location=self.location or location)


class DmlGraphError(Exception):
    """Base of everything dmlgraph raises on purpose."""

    CODE: ClassVar[str]  # of its problems, where a class of errors is of one kind

    def __init__(self, problems: Iterable[Problem] | Problem | str, **fields: Any) -> None:
        """Made of problems, or of one message and the fields of its problem."""
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

    CODE = "memory"


class Within:
    """Adds a place to every problem of an error that is raised inside.

    Args:
        node: named where a problem names none.  A description of a tensor that is wrong there is an OperatorError.
        field: put in front of a problem's own field.
        place: makes of a problem the one with its place, in a file for example.
        kind: the class of the error; by default it stays.
    """

    def __init__(
        self,
        node: object = None,
        field: str | None = None,
        *,
        place: Callable[[Problem], Problem] | None = None,
        kind: type[DmlGraphError] | None = None,
    ) -> None:
        self.node = node if isinstance(node, str) else None  # of another kind: the problem is the name itself
        self.field, self.place, self.kind = field, place, kind

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, DmlGraphError):
            problems = [self._placed(problem) for problem in error.problems]
            other = self.kind or (OperatorError if self.node and isinstance(error, TensorError) else type(error))
            raise (error.with_problems(problems) if type(error) is other else other(problems)) from None
        if isinstance(error, MemoryError) and self.node is not None:
            from dmlgraph.memory import not_enough_memory  # which needs this module

            raise not_enough_memory("make the node", error, node=self.node) from None

    def _placed(self, problem: Problem) -> Problem:
        if self.field:
            problem = problem.within(self.field)
        if self.node is not None:
            problem = problem.at(node=self.node)
        return problem if self.place is None else self.place(problem)


MOST_PROBLEMS = 3000  # told of one document: more are not read, and would take longer than reading the document


class Gathered:
    """The problems of several checks, to be raised together.

    found = Gathered()
    with found:  # as often as there are checks
        check_one_thing()
    found.settle(OperatorError)
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        if not isinstance(error, DmlGraphError):
            return False
        self.problems += error.problems
        return True

    def settle(self, error: type[DmlGraphError]) -> None:
        """Raises what was found, if anything was."""
        if self.problems:
            raise error(self.problems)


class TooManyError(Exception):
    """So much is wrong that looking on is no use."""


class Problems:
    """The problems of a document as they are found, up to MOST_PROBLEMS."""

    def __init__(self) -> None:
        self.found: list[Problem] = []

    def add(self, *problems: Problem) -> None:
        """Notes problems.

        Raises:
            TooManyError: there are MOST_PROBLEMS now.
        """
        self.found += problems[: MOST_PROBLEMS - len(self.found)]
        if len(self.found) == MOST_PROBLEMS:
            raise TooManyError

    def __bool__(self) -> bool:
        return bool(self.found)

    @contextlib.contextmanager
    def gathering(self) -> Iterator[None]:
        """Inside, a document is read; at the end all that is wrong with it is raised.

        Raises:
            DocumentError: every problem, by place.
        """
        with contextlib.suppress(TooManyError), few_hints():
            yield
        if self.found:
            raise self._error()

    def _error(self) -> DocumentError:
        """All of them, by place; a last one says so where there may be more."""
        ordered = sorted(self.found, key=_by_place)
        if len(ordered) == MOST_PROBLEMS:
            last = Problem(f"there may be more errors: the first {MOST_PROBLEMS} are told", code="too-many")
            ordered.append(dataclasses.replace(last, location=ordered[-1].location))
        return DocumentError(ordered)


def _by_place(problem: Problem) -> tuple[int, int]:
    return (problem.location.line, problem.location.column) if problem.location else (0, 0)


def suggestion(name: str, known: Iterable[str], elsewhere: Mapping[str, str] | None = None) -> str | None:
    """A hint with the known name nearest to `name`, or None where nothing is near.

    `elsewhere`: known names by what they are called in other libraries; such a name means just that.
    """
    near = (elsewhere or {}).get(name) or nearest(name, known)
    return None if near is None else f"did you mean '{near}'?"


def unknown_array(name: object, known: Collection[str], what: str) -> BindingError:
    """An array that is given for what is not an input, or an output, of the graph."""
    return BindingError(
        f"is not an {what} of the graph",
        code="unknown-array",
        field=str(name),
        allowed=listing(known) or f"nothing: the graph has no {what}s",
        hint=suggestion(str(name), known),
    )


# What looking for the name that was meant may take.  A document may have wrong names by the thousand, and as many
# right ones; each hint of a document is looked for in well under a millisecond, and only so many are.
MOST_COMPARED = 250  # names that a name is compared with one by one: all of DirectML's operators
LONGEST_COMPARED = 80  # characters of a name that is compared with others
MOST_HINTS = 300  # of a document
_hints: contextvars.ContextVar[Iterator[int] | None] = contextvars.ContextVar("hints", default=None)


@contextlib.contextmanager
def few_hints() -> Iterator[None]:
    """Inside, the nearest names of MOST_HINTS wrong ones are looked for, and none of others."""
    token = _hints.set(iter(range(MOST_HINTS)))
    try:
        yield
    finally:
        _hints.reset(token)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` is most likely a misspelling of, or None where nothing is near.

    Of many known names (MOST_COMPARED) only those are found that are one letter away, or differ in case.
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
    near = difflib.get_close_matches(name, comparable, n=1, cutoff=0.6)
    return near[0] if near else None


def _one_letter_away(name: str) -> Iterator[str]:
    """The name in another case, and with two letters swapped, one left out, one changed, or one put in."""
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
    """A count, in a format of Python's, and its noun: `1 node`, `2 nodes`, `0 entries`."""
    several = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{noun}s"
    return f"{count:{form}} {noun if count == 1 else several}"


def _line(problem: Problem) -> str:
    return f"{problem.location}: {problem}" if problem.location else str(problem)


def shorten(value: object, limit: int = 120) -> str:
    """A value for a message: text as it is, all else as Python writes it, cut after `limit` characters."""
    text = value[: limit + 1] if isinstance(value, str) else _beginning(value, limit + 1)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _beginning(value: object, limit: int) -> str:
    """The beginning of `repr(value)`, at least `limit` characters of it, without writing all of it first."""
    pieces: list[str] = []
    length = 0
    for piece in _pieces(value):
        pieces.append(piece)
        length += len(piece)
        if length >= limit:
            break
    return "".join(pieces)


def _pieces(value: object) -> Iterator[str]:
    """What `repr` writes, piece by piece."""
    if type(value) in (list, tuple):
        opening, closing = "[]" if type(value) is list else "()"
        items: Iterator[tuple[object, ...]] = ((each,) for each in value)  # type: ignore[attr-defined]
    elif type(value) is dict:
        opening, closing = "{}"
        items = iter(value.items())
    else:
        try:
            yield repr(value[:1000] if type(value) is str else value)
        except ValueError:  # Python does not print integers of more than some thousand digits
            yield "a number of thousands of digits"
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
