"""The report of a diagnosis, as text and as a page: for a vendor, so that nothing of the user's is in it unless asked.

What is not shown then: the names, sizes and fields of the graph, what errors say of it, and numbers that were not made
by shrinking.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import platform
from collections.abc import Iterator, Sequence
from typing import Any

from dmlgraph.base.tables import lines
from dmlgraph.doctor import reproducer
from dmlgraph.doctor.diagnosis import Diagnosis
from dmlgraph.doctor.trials import Outcome
from dmlgraph.doctor.ways import Treatment, Tried
from dmlgraph.doctor.words import SAID
from dmlgraph.files.web_page import page
from dmlgraph.formats.dxdispatch import writer as dxdispatch
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.measure.report import greatest, neighbours
from dmlgraph.operators.declaration.operator import Operator

Row = Sequence[str]
HIDDEN = "The case has numbers of yours, which are not shown: --with-data adds them, and the reproducer."

TOGETHER = "Each node is right alone: the fault is one of several together, and there is no smaller case."


@dataclasses.dataclass(frozen=True, slots=True)
class Section:
    """A part of a report: lines of text, a table, or files."""

    title: str
    text: Sequence[str] = ()
    head: Row = ()
    rows: Sequence[Row] = ()
    files: Sequence[tuple[str, str]] = ()


def text(found: Diagnosis, *, with_names: bool = False, with_data: bool = False) -> str:
    """The report for a terminal.

    Args:
        found: the diagnosis.
        with_names: whether names, sizes and fields of the graph are shown.
        with_data: whether numbers are shown that were not made by shrinking.
    """
    return "\n".join(_lines(sections(found, with_names, with_data))) + "\n"


def html(found: Diagnosis, *, with_names: bool = False, with_data: bool = False) -> str:
    """The report as a page that needs nothing else; the arguments are those of `text`."""
    what = _from_to([each.dml for each in found.operators]) or "A graph"
    title = f"{what} on {found.device.device.adapter_name or found.device.device.name}"
    parts = [dataclasses.asdict(each) for each in sections(found, with_names, with_data)]
    return page("dmlgraph.doctor", title, {"title": title, "sections": parts})


def sections(found: Diagnosis, with_names: bool, with_data: bool) -> list[Section]:
    """What the report says, in order."""
    shown = found.case is not None and (found.case.is_anonymous or with_data)
    made = [
        Section("Where", head=("what", "value"), rows=list(_machine(found))),
        Section("What", head=("what", "value"), rows=list(_node(found, with_names))),
    ]
    if found.case is None:
        made.append(Section("Case", [TOGETHER]))
    elif not shown:
        made.append(Section("Case", [HIDDEN]))
    else:
        made += _case(found)
    if found.treatment is not None:
        made.append(Section("Ways round", list(_verdict(found.treatment)), *_ways(found.treatment, with_names)))
    return made


def _machine(found: Diagnosis) -> Iterator[Row]:
    device = found.device.device
    yield "device", device.name
    yield "adapter", device.adapter_name or "-"
    yield "driver", device.driver_version or "-"
    yield "feature level", str(device.level)
    for path, version in getattr(getattr(device, "runtime", None), "library", _NoLibrary).files:
        yield path.name, version or "version not known"
    yield "metacommands", "permitted" if found.device.metacommands else "not permitted"
    yield "half precision", "permitted" if found.device.half_precision else "not permitted"
    yield "dmlgraph", importlib.metadata.version("dmlgraph")
    yield "system", platform.platform()


class _NoLibrary:
    """Of a device without DirectML."""

    files: Sequence[tuple[Any, str]] = ()


def _node(found: Diagnosis, with_names: bool) -> Iterator[Row]:
    nodes = (each for each in found.graph.nodes if isinstance(each, OperatorNode))
    computed = [each.name for each in nodes if not each.operator.is_view]
    yield "finding", SAID[found.kind].replace("'{node}'", "the node")
    yield "operator", ", ".join(dict.fromkeys(each.dml for each in found.operators)) or "-"
    yield "executions", str(found.executions)
    places = sorted({computed.index(name) + 1 for name in found.nodes if name in computed})
    shown = _from_to([str(place) for place in places]) or "some"
    named = f", {', '.join(map(repr, found.nodes))}" if with_names and found.nodes else ""
    yield "node", f"{shown} of {len(computed)}{named}"
    if not with_names:
        return
    yield "graph", found.graph.name
    for operator in found.operators:
        yield from _fields(operator)


def _from_to(words: Sequence[str]) -> str:
    """The first and the last of some words, which may be the same."""
    return " … ".join(dict.fromkeys([*words[:1], *words[-1:]]))


def _fields(operator: Operator) -> Iterator[Row]:
    """The tensors and attributes of an operator."""
    for field, desc in operator.tensors.items():
        for each in desc if isinstance(desc, tuple) else (desc,):
            if each is not None:
                yield field, str(each)
    for field, value in operator.attributes.items():
        yield field, str(value)


def _case(found: Diagnosis) -> Iterator[Section]:
    """The shrunk case: what came of it, and its files."""
    case, outcome = found.case, found.outcome
    assert case is not None
    if outcome is None:
        told = [found.ended]
    elif outcome.is_wrong:
        comparison = outcome.compared[outcome.worst]
        told = [greatest(comparison), *neighbours(outcome.worst, comparison, ("got", "expected"))]
    else:
        told = ["it was right when it was run again: its results change from run to run"]
    files = [
        (reproducer.FILES[0], reproducer.text(case.graph, case.inputs, outcome or Outcome())),
        (reproducer.FILES[1], dxdispatch.dumps(case.graph, inputs=case.inputs)),
    ]
    smallest = "" if case.is_smallest else "; smaller ones were not tried, because the executions were used up"
    yield Section("Case", [f"the node alone, after {case.executions} executions{smallest}", *told], files=files)


def _verdict(treatment: Treatment) -> Iterator[str]:
    if not treatment.before.is_wrong:
        yield "The outputs of the whole graph are right as it is, within what many operators may differ by."
    advised, elsewhere = treatment.advised, treatment.elsewhere
    what = "the graph" if treatment.before.is_wrong else "the case"
    yield f"No way makes {what} right." if advised is None else f"{advised.way.name}: {advised.way.meaning}"
    if elsewhere is not None:
        yield f"{elsewhere.way.name} makes the case right: another node may be wrong, too."


def _ways(treatment: Treatment, with_names: bool) -> tuple[Row, list[Row]]:
    """The ways as the head and the rows of a table."""
    rows = [[each.way.name, _result(each, with_names), _cost(each, treatment)] for each in treatment.tried]
    return ("way", "result", "dispatches"), [*rows, ["as it is", "", str(treatment.before.dispatches)]]


def _result(tried: Tried, with_names: bool) -> str:
    """What came of a way; errors name nodes."""
    errors = [outcome.error for outcome in (tried.whole, tried.case) if outcome is not None and outcome.error]
    return f"{tried.result}: {errors[0]}" if errors and with_names else tried.result


def _cost(tried: Tried, treatment: Treatment) -> str:
    """How many dispatches a way that helps needs, marked where they are the fewest."""
    if not treatment.is_proved(tried) or tried.whole is None:
        return ""
    return f"{tried.whole.dispatches}{' *' if tried is treatment.advised else ''}"


def _lines(parts: Sequence[Section]) -> Iterator[str]:
    for part in parts:
        yield from (part.title, "-" * len(part.title), *part.text)
        if part.rows:
            head = [part.head] if part.head[0] != "what" else []
            yield from lines([*head, *part.rows], "<" * len(part.rows[0]))
        for name, content in part.files:
            yield from ("", f"{name}:", content.rstrip("\n"))
        yield ""
