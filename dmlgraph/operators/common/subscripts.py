"""Subscripts: NumPy's basic indexing as text, `1:, 0, ::-1, None, ...`, and what it takes from a tensor.

entries("1:, None, 0")  →  (Range(1, None, None), NEW, 0)
"""

from __future__ import annotations

import dataclasses
import enum
import operator
from collections.abc import Callable, Sequence

from dmlgraph.base.errors import OperatorError, shorten
from dmlgraph.base.expressions import Expression
from dmlgraph.base.sized import Sized
from dmlgraph.operators.declaration.constraints import between, require, rule

ALLOWED = "integers, ranges such as 1:-1 or ::2, None, ... in one text or NumPy's index"
_GATHER = "dg.gather and dg.gather_nd take elements by indices that are tensors"


class Mark(enum.Enum):
    """Entries that are no numbers."""

    NEW = "None"  # a new dimension of size 1
    REST = "..."  # all dimensions that no other entry names


@dataclasses.dataclass(frozen=True, slots=True)
class Range:
    """A slice of Python: from `start` to before `stop` in steps."""

    start: int | None = None
    stop: int | None = None
    step: int | None = None

    def __str__(self) -> str:
        start, stop = ("" if each is None else str(each) for each in (self.start, self.stop))
        return f"{start}:{stop}" + ("" if self.step is None else f":{self.step}")


Entry = int | Range | Mark


def as_text(index: object) -> str:
    """The text of what stands in `x[…]`; numbers may be expressions over dims.

    Raises:
        OperatorError: something else stands there.
    """
    if isinstance(index, str):
        return index
    if isinstance(index, tuple) and not index:
        return Mark.REST.value  # x[()] is x[...]
    return ", ".join(_text(each) for each in (index if isinstance(index, tuple) else (index,)))


def _text(entry: object) -> str:
    if entry is None:
        return Mark.NEW.value
    if entry is Ellipsis:
        return Mark.REST.value
    if isinstance(entry, slice):
        bounds = ["" if each is None else _number_text(each) for each in (entry.start, entry.stop)]
        return ":".join(bounds if entry.step is None else [*bounds, _number_text(entry.step)])
    return _number_text(entry)


def _number_text(number: object) -> str:
    if isinstance(number, (Expression, Sized)):
        return number.text if isinstance(number, Expression) else number.expression.text
    try:
        if isinstance(number, bool) or not hasattr(number, "__index__"):
            raise TypeError
        return str(operator.index(number))
    except (TypeError, ValueError):  # Python writes no integers of thousands of digits
        raise _not_an_index(number, hint=_GATHER) from None


def _not_an_index(got: object, hint: str | None = None) -> OperatorError:
    return OperatorError("is not an index", code="kind", field="index", got=got, allowed=ALLOWED, hint=hint)


def entries(text: str, number: Callable[[str], int]) -> tuple[Entry, ...]:
    """The entries of a text; `number` gives the number that a part of it stands for."""
    parts = [part.strip() for part in _split(text, ",")]
    if len(parts) > 1 and not parts[-1]:
        parts.pop()  # as in Python, a comma may end the list
    return tuple(_entry(part, number) for part in parts)


def with_numbers(text: str, number: Callable[[str], object]) -> str:
    """The text with what `number` gives in place of each part of it that stands for a number."""

    def entry(part: str) -> str:
        marks = (mark.value for mark in Mark)
        return part if part.strip() in marks else ":".join(map(bound, _split(part, ":")))

    def bound(part: str) -> str:
        bare = part.strip()
        return part.replace(bare, str(number(bare)), 1) if bare else part

    return ",".join(map(entry, _split(text, ",")))


def _entry(part: str, number: Callable[[str], int]) -> Entry:
    for mark in Mark:
        if part == mark.value:
            return mark
    bounds = [each.strip() for each in _split(part, ":")]
    if len(bounds) == 1:
        return number(part)
    if len(bounds) > 3:
        raise _not_an_index(part)
    return Range(*(number(each) if each else None for each in bounds))


def _split(text: str, sign: str) -> list[str]:
    """The parts of a text between signs that are in no parentheses."""
    parts, depth = [""], 0
    for letter in text:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == sign and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def literal(text: str) -> int:
    """The number that a text of digits stands for."""
    try:
        return int(text)
    except ValueError:
        raise _not_an_index(text) from None


@dataclasses.dataclass(frozen=True, slots=True)
class Taken:
    """What an index takes from a tensor: a window with steps, then dimensions that go and come.

    Attributes:
        starts: the first element along each dimension of the tensor.
        steps: to the next one; negative ones go back.
        counts: how many elements.
        sizes: of the result: `counts` without the dimensions that an integer took, with new ones of size 1.
        axes: the dimension of the tensor for each dimension of the result; −1 for a new one.
    """

    starts: tuple[int, ...]
    steps: tuple[int, ...]
    counts: tuple[int, ...]
    sizes: tuple[int, ...]
    axes: tuple[int, ...]


def take(index: Sequence[Entry], sizes: tuple[int, ...]) -> Taken:
    """What an index takes from a tensor of these sizes.

    Raises:
        OperatorError: an index out of range, too many of them, or nothing taken.
    """
    given = _completed(index, len(sizes))
    starts: list[int] = []
    steps: list[int] = []
    counts: list[int] = []
    kept: list[tuple[int, int]] = []  # (axis or −1, size)
    for place, entry in given:
        if isinstance(entry, Mark):
            kept.append((-1, 1))
            continue
        axis = len(starts)
        start, step, count = _along(entry, axis, sizes[axis], place)
        starts.append(start)
        steps.append(step)
        counts.append(count)
        if isinstance(entry, Range):
            kept.append((axis, count))
    if not kept:  # every dimension was indexed: a tensor has at least one
        kept.append((len(sizes) - 1, 1))
    return Taken(
        tuple(starts), tuple(steps), tuple(counts), tuple(size for _, size in kept), tuple(axis for axis, _ in kept)
    )


def _completed(index: Sequence[Entry], rank: int) -> list[tuple[int, Entry]]:
    """The entries, each with its place in the index, with ranges for the dimensions that it does not name."""
    named = sum(not isinstance(each, Mark) for each in index)
    rests = [place for place, each in enumerate(index) if each is Mark.REST]
    message, got = "names more dimensions than there are", f"{named} indices"
    require(rule(named <= rank, "index", message, "rank", got=got, allowed=f"{rank} dimensions"))
    if len(rests) > 1:
        raise OperatorError("may have '...' once", code="duplicate", field="index", got=shorten(joined(index)))
    rest = rests[0] if rests else len(index)
    given = list(enumerate(index))
    return [*given[:rest], *[(rest, Range())] * (rank - named), *given[rest + 1 :]]


def joined(index: Sequence[Entry]) -> str:
    """The text of entries."""
    return ", ".join(each.value if isinstance(each, Mark) else str(each) for each in index)


def _along(entry: int | Range, axis: int, size: int, place: int) -> tuple[int, int, int]:
    """Start, step and count along a dimension."""
    field = f"index.{place}"
    if isinstance(entry, int):
        require(between(field, entry, -size, size - 1, f"is not an element of dimension {axis}"))
        return entry % size, 1, 1
    require(rule(entry.step != 0, field, "a step must not be zero", "range", got=str(entry)))
    start, stop, step = slice(entry.start, entry.stop, entry.step).indices(size)
    count = len(range(start, stop, step))
    message = f"takes nothing of dimension {axis}; empty tensors do not exist in DirectML"
    require(rule(count, field, message, "sizes", got=str(entry), allowed=f"a part of the {size} elements"))
    return start, step, count
