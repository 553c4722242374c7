"""Results of tests as a matrix of graphs and places: a page of HTML, and a table for the terminal."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
from typing import Any

from dmlgraph.base.errors import plural
from dmlgraph.base.tables import lines, show_seconds
from dmlgraph.files.web_page import page
from dmlgraph.testing.records import ALLOWED, Outcome, Place, Record, counted

# From the worst: a cell that stands for several tests shows the worst of them.
WORDS = (
    Outcome.BROKEN.value,
    Outcome.CRASHED.value,
    Outcome.TIMED_OUT.value,
    Outcome.LOST.value,
    Outcome.FAILED.value,
    ALLOWED,
    Outcome.PASSED.value,
    Outcome.SKIPPED.value,
)
_NO_TEST = ""  # a place in which nothing of a graph ran


def render(records: Sequence[Record]) -> str:
    """The results as a page, which opens without a network; the order is that of the records."""
    places = _places(records)
    numbers = {place: index for index, place in enumerate(places)}
    graphs: dict[tuple[str, str], dict[str, list[list[Any]]]] = {}
    for record in records:
        tests = graphs.setdefault((record.file, record.sizes), {})
        if record.place is None:
            tests[record.name] = [_cell(record, -1)]
        else:
            tests.setdefault(record.test, []).append(_cell(record, numbers[record.place]))
    data = {
        "words": WORDS,
        "places": [[place.device, place.machine, place.description] for place in places],
        "graphs": [[file, sizes, list(tests.items())] for (file, sizes), tests in graphs.items()],
    }
    return page(__name__, f"Tests of {_counts(records, places)}", data)


def table(records: Sequence[Record]) -> Iterator[str]:
    """The lines of two tables: the places with their numbers, and what became of each graph in each."""
    places = _places(records)
    if not places:
        return
    of_place: dict[Place, list[Record]] = {place: [] for place in places}
    of_graph: dict[str, dict[Place, list[Record]]] = {}
    for record in records:
        if record.place is not None:
            of_place[record.place].append(record)
            graph = f"{record.file}{f' with {record.sizes}' if record.sizes else ''}"
            of_graph.setdefault(graph, {}).setdefault(record.place, []).append(record)
    yield ""
    heads = ("", "device", "machine", "tests", "time", "")
    rows = [
        (str(number), place.device, place.machine, counted(members), _time(members), place.description)
        for number, (place, members) in enumerate(of_place.items(), 1)
    ]
    yield from lines([heads, *rows], "><<<><")
    yield ""
    cells = [
        (graph, *(_tests(members[place]) if place in members else _NO_TEST for place in places))
        for graph, members in of_graph.items()
    ]
    yield from lines([("", *map(str, range(1, len(places) + 1))), *cells], "<" * (len(places) + 1))
    yield ""


def _places(records: Sequence[Record]) -> list[Place]:
    """The places, by machine and device."""
    found = dict.fromkeys(record.place for record in records if record.place is not None)
    return sorted(found, key=lambda place: (place.machine, place.device, place.description))


def _cell(record: Record, place: int) -> list[Any]:
    """What the page's program knows of a record; page.js uses the same positions."""
    result = record.result
    word = WORDS.index(record.word)
    return [place, word, show_seconds(result.seconds), result.report, record.attempts, record.may_fail or ""]


def _tests(members: Sequence[Record]) -> str:
    """What is wrong, `1 failed, 2 crashed`, or else `ok`; `skipped` if nothing ran."""
    words = collections.Counter(record.word for record in members)
    wrong = [f"{words[word]} {word}" for word in WORDS[: WORDS.index(Outcome.PASSED.value)] if words[word]]
    return ", ".join(wrong) or ("ok" if words[Outcome.PASSED.value] else Outcome.SKIPPED.value)


def _time(members: Sequence[Record]) -> str:
    return show_seconds(sum(record.result.seconds for record in members))


def _counts(records: Sequence[Record], places: Sequence[Place]) -> str:
    graphs = len({(record.file, record.sizes) for record in records})
    return f"{plural(graphs, 'graph')} on {plural(len(places), 'device')}"
