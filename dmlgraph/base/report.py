"""Reports: how code says what is wrong, and goes on to find more.

    with Report(GraphError, node="y") as report:
        with report.at(field="sizes"):  # an error inside is noted, and work goes on after it
            check_sizes()
        report.problem("must be given", code="missing", field="dtype")

What is noted is raised as one error at the end of the outermost block: nothing else raises it.  A report adds what it
knows of the place to each problem: the node, the field path, the place in a file.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, Protocol

from dmlgraph.base.errors import (
    DmlGraphError,
    DocumentError,
    Location,
    OperatorError,
    Problem,
    TensorError,
    few_hints,
    plural,
)

MOST_PROBLEMS = 3000  # reported for one document: nobody reads more, and finding them is slower than reading it
Placing = Callable[[Problem], "Problem | None"]  # a problem with more of its place; None: it is not worth reporting


class StopError(Exception):
    """Searching on is useless: what is noted is enough."""


class Placed(Protocol):
    """What has a place in a file."""

    @property
    def location(self) -> Location: ...


class Report:
    """The problems of one piece of work.

    Attributes:
        problems: those found so far.

    Args:
        kind: the class of the error to raise; by default that of the first error inside, in which a TensorError at a
            node becomes an OperatorError.
        node: set where a problem has no node.
        field: put in front of a problem's field path.
        place: returns a problem with its place, in a file for example.
    """

    def __init__(
        self,
        kind: type[DmlGraphError] | None = None,
        *,
        node: object = None,
        field: str | None = None,
        place: Placing | None = None,
    ) -> None:
        self.problems: list[Problem] = []
        self._kind, self._field, self._place = kind, field, place
        self._node = node if isinstance(node, str) else None  # else the problem is the name itself
        self._first: DmlGraphError | None = None

    def problem(
        self, message: str, at: Placed | None = None, code: str = "", field: str | None = None, **more: Any
    ) -> None:
        """Notes a problem, at the place of something; `code`, `field` and `more` are its other fields."""
        location = None if at is None else at.location
        self.add(Problem(message, code=code, field=field, location=location, **more))

    def add(self, *problems: Problem) -> None:
        """Notes problems."""
        for problem in problems:
            placed = self._placed(problem)
            if placed is not None:
                self.problems.append(placed)

    def at(self, *, node: object = None, field: str | None = None, place: Placing | None = None) -> Part:
        """A part of the work, which may fail while the rest goes on; its problems are those of this report."""
        return Part(self, node, field, place)

    @property
    def failed(self) -> bool:
        """Whether an error was raised inside, or a problem noted."""
        return self._first is not None or bool(self.problems)

    def stop(self) -> NoReturn:
        """Ends the block: what is noted is raised, and nothing more is looked for."""
        raise StopError

    def _placed(self, problem: Problem) -> Problem | None:
        if self._field:
            problem = problem.within(self._field)
        if self._node is not None:
            problem = problem.at(node=self._node)
        return problem if self._place is None else self._place(problem)

    def _note(self, error: BaseException | None) -> bool:
        """Notes the problems of an error, if it is one of ours."""
        if isinstance(error, MemoryError) and not isinstance(error, DmlGraphError) and self._node is not None:
            from dmlgraph.base.memory import not_enough_memory  # which needs `errors`

            error = not_enough_memory("make the node", error, node=self._node)
        if not isinstance(error, DmlGraphError):
            return False
        self._first = self._first or error
        self.add(*error.problems)
        return True

    def __enter__(self) -> Report:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if (isinstance(error, StopError | None) or self._note(error)) and self.problems:
            raise self._error() from None

    def _error(self) -> DmlGraphError:
        first, kind = self._first, self._kind
        if kind is None:
            at_node = self._node is not None and isinstance(first, TensorError)
            kind = OperatorError if first is None or at_node else type(first)
        return first.with_problems(self.problems) if first and type(first) is kind else kind(self.problems)


class Part(Report):
    """A part of the work of a report: an error ends the part, and no more."""

    def __init__(self, whole: Report, node: object, field: str | None, place: Placing | None) -> None:
        super().__init__(node=node, field=field, place=place)
        self._whole = whole

    def add(self, *problems: Problem) -> None:
        count = len(self.problems)
        super().add(*problems)
        self._whole.add(*self.problems[count:])

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:  # type: ignore[override]
        noted = self._note(error)
        self._whole._first = self._whole._first or self._first
        return noted


class DocumentReport(Report):
    """The problems of a document, by place; the first MOST_PROBLEMS, and hints for the first of them.

    A problem at one place of a template is reported once for all uses.

    Attributes:
        uses: the uses of templates by the nodes they make; as text, they follow "used by".
    """

    def __init__(self) -> None:
        super().__init__(DocumentError)
        self.uses: Mapping[str, object] = {}
        self._in_templates = OncePerPlace()
        self._hints = contextlib.ExitStack()

    def add(self, *problems: Problem) -> None:
        """Notes problems.

        Raises:
            StopError: there are MOST_PROBLEMS now.
        """
        for problem in map(self._with_use, problems):
            if self._in_templates.is_first(problem):
                self.problems.append(problem)
            if len(self.problems) == MOST_PROBLEMS:
                raise StopError

    def _with_use(self, problem: Problem) -> Problem:
        used = self.uses.get(problem.node) if problem.node is not None else None
        return problem if used is None else used_by(problem, used)

    def __enter__(self) -> DocumentReport:
        self._hints.enter_context(few_hints())
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._hints.close()
        if self.problems and isinstance(error, StopError | None):
            raise self._error() from None

    def _error(self) -> DocumentError:
        """All of them, by place; a last one says that there may be more."""
        ordered = sorted(map(self._in_templates.counted, self.problems), key=_by_place)
        if len(ordered) == MOST_PROBLEMS:
            last = Problem(f"there may be more errors: only the first {MOST_PROBLEMS} are reported", code="too-many")
            ordered.append(last.at(location=ordered[-1].location))
        return DocumentError(ordered)


def used_by(problem: Problem, used: object) -> Problem:
    """A problem at a place in a template, with the use in which it happens; None: it is in the file itself."""
    if used is None or problem.location is None:
        return problem
    return dataclasses.replace(problem, location=dataclasses.replace(problem.location, used_by=str(used)))


def _by_place(problem: Problem) -> tuple[str, int, int]:
    place = problem.location
    return (place.file, place.line, place.column) if place else ("", 0, 0)


class OncePerPlace:
    """Finds problems that differ only in the use of a template in which they happen."""

    def __init__(self) -> None:
        self._times: collections.Counter[object] = collections.Counter()

    @staticmethod
    def _key(problem: Problem) -> object:
        place = problem.location
        return None if place is None or place.used_by is None else (str(place), problem.code, problem.field)

    def is_first(self, problem: Problem) -> bool:
        """Whether no problem before it is the same at another use; counts it."""
        key = self._key(problem)
        if key is None:
            return True
        self._times[key] += 1
        return self._times[key] == 1

    def counted(self, problem: Problem) -> Problem:
        """The problem; says in how many other uses it happens."""
        more = self._times[self._key(problem)] - 1
        if more < 1 or problem.location is None:
            return problem
        return used_by(problem, f"{problem.location.used_by}, and {plural(more, 'other use')}")
