"""Problems as a compiler prints them: the place, what is wrong, the line with the offending part underlined, advice.

    ramp.yaml:9:11: error[unknown-operator]: node 'y', field 'op': is not an operator; got multply
      9 |   y: {op: multply, a: x, b: ramp}
        |           ^^^^^^^
        = help: did you mean 'multiply'?

The form of the first line is fixed, for editors and scripts; the others are for people.
"""

from __future__ import annotations

import itertools
import os
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

import click

from dmlgraph.base.errors import Location, Problem, Severity, listing, plural
from dmlgraph.base.report import MOST_PROBLEMS

WIDTH = 100  # the most columns of a source line shown; a longer line is cut around the offending part
MOST_OF_A_KIND = 3  # warnings that are shown one by one
MOST_NAMED = 8  # of the nodes of the others
TAB = 4  # columns of a tab
_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow"}


def tell(problems: Sequence[Problem]) -> None:
    """Prints problems to standard error and, if any have places in a file, their number.

    Of many warnings of a kind the first is shown, and the nodes of the others.
    """
    colour = _wants_colour()
    shown, alike = _gathered(problems)
    for before, problem in itertools.islice(zip([None, *shown], shown, strict=False), MOST_PROBLEMS + 1):
        click.echo("\n".join(lines(problem, before, colour=colour)), err=True, color=colour)
        others = alike.get(id(problem))
        if others:
            nodes = listing((each.node for each in others), at_most=MOST_NAMED)
            click.echo(f"    = and {len(others)} more like it: {visible(nodes)}", err=True)
    if any(problem.location for problem in problems):
        more = len(problems) - MOST_PROBLEMS - 1  # a document's last says that there may be more
        click.echo(count(problems) + (f"; the last {more} are not shown" if more > 0 else ""), err=True)


def _gathered(problems: Sequence[Problem]) -> tuple[list[Problem], dict[int, list[Problem]]]:
    """The problems to show, and by the identity of a warning those of its kind at other nodes that follow from it.

    A model may have hundreds of warnings of a kind: of more than MOST_OF_A_KIND the first is shown in full.
    """
    kinds: dict[tuple[str, str], list[Problem]] = {}
    for problem in problems:
        if problem.severity is Severity.WARNING and problem.node is not None:
            kinds.setdefault((problem.code, problem.message), []).append(problem)
    many = [group for group in kinds.values() if len(group) > MOST_OF_A_KIND]
    hidden = {id(problem) for _, *others in many for problem in others}
    return [each for each in problems if id(each) not in hidden], {id(first): others for first, *others in many}


def lines(problem: Problem, before: Problem | None = None, *, colour: bool = False) -> Iterator[str]:
    """The lines of a problem; one line if it has no place in a file.

    Does not repeat what the problem `before` it has shown: the source line of the same place, and its advice.
    """
    place, severity = problem.location, problem.severity
    kind = _style(f"{severity}[{problem.code}]:", colour, fg=_COLOURS[severity], bold=True)
    if place is None:
        yield f"{kind} {visible(str(problem))}"
        return
    yield f"{_style(f'{place}:', colour, bold=True)} {kind} {_style(visible(problem.headline), colour, bold=True)}"
    number = f"{place.line:>3}"
    again = before is not None and before.location == place
    if place.source is not None and not again:
        text, mark = excerpt(place)
        yield f"{_style(f'{number} |', colour, fg='blue')} {text}".rstrip()
        gutter = _style(f"{'':>{len(number)}} |", colour, fg="blue")
        yield f"{gutter} {_style(mark, colour, fg=_COLOURS[severity], bold=True)}"
    for label, field in (("allowed", "allowed"), ("help", "hint")):
        advice = getattr(problem, field)
        if advice is not None and not (again and advice == getattr(before, field)):
            yield f"{'':>{len(number)}} {_style(f'= {label}:', colour, fg='cyan')} {visible(advice)}"
    if place.used_by is not None:
        yield f"{'':>{len(number)}} {_style('= used by', colour, fg='cyan')} {visible(place.used_by)}"


def count(problems: Iterable[Problem]) -> str:
    """`2 errors, 1 warning`."""
    severities = [problem.severity for problem in problems]
    numbers = ((severities.count(severity), severity) for severity in Severity)
    return ", ".join(f"{plural(number, severity)}" for number, severity in numbers if number)


def excerpt(place: Location, width: int = WIDTH) -> tuple[str, str]:
    """The source line of a place as it is shown, and the line that underlines the place.

    Tabs become spaces, and unprintable characters a replacement character; both lines align in a terminal, where many
    East Asian characters take two columns.  A line of more than `width` columns is cut at one or both ends, so that the
    place begins well inside.
    """
    source = place.source or ""
    first = min(place.column - 1, len(source))
    end = min(max(place.end_column - 1 if place.end_column else 0, first + 1), len(source))
    begin, stop = max(0, first - width), min(len(source), first + width)  # the most that could be shown
    shown = [_shown(character) for character in source[begin:stop]]
    columns = list(itertools.accumulate(map(_columns, shown), initial=0))  # the first column of each
    first, end = first - begin, min(end, stop) - begin
    low, high = 0, len(shown)
    if columns[-1] > width:
        while columns[first] - columns[low] > width // 2:
            low += 1
        while columns[high] - columns[low] > width:
            high -= 1
    before, after = "…" if begin + low else "", "…" if begin + high < len(source) else ""
    padding = len(before) + columns[first] - columns[low]
    underlined = columns[min(end, high)] - columns[first]
    return before + "".join(shown[low:high]) + after, " " * padding + "^" * max(1, underlined)


def visible(text: str) -> str:
    """Text with escapes in place of characters that could move a terminal's cursor or hide others."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def _shown(character: str) -> str:
    if character == "\t":
        return " " * TAB
    return character if character.isprintable() else "\N{REPLACEMENT CHARACTER}"


def _columns(text: str) -> int:
    return sum(
        0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text
    )


def _style(text: str, colour: bool, **style: str | bool) -> str:
    return click.style(text, **style) if colour else text  # type: ignore[arg-type]


def _wants_colour() -> bool:
    """Whether to use colours: in a terminal that has them, unless NO_COLOR is set to any value (no-color.org)."""
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
