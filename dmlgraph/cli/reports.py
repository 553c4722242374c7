"""What commands print for programs: each report as plain data, in one shape that only grows.

`SHAPES` documents the keys; docs/reports.md is made from it, and a test compares what the commands print with it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dmlgraph.base.errors import Problem, Severity, shorten
from dmlgraph.cli.output import print_document

if TYPE_CHECKING:
    from dmlgraph.compiler.desc import GraphDesc
    from dmlgraph.devices import Choice
    from dmlgraph.devices.device import Listing
    from dmlgraph.operators.declaration.operator import Operator

Plain = dict[str, Any]

VERSION = 1  # of all shapes; keys are added without a new one

_GENERAL = {"report": "The command.", "version": "The version of the shape: 1."}
SHAPES: dict[str, Mapping[str, str]] = {
    "check": {
        **_GENERAL,
        "files": "A list: what was checked, each as *file*.",
        "skipped": "A list of the files in folders that are not graph files.",
        "errors": "The number of errors in all files.",
        "warnings": "The number of warnings in all files.",
    },
    "file": {
        "file": "The path as it was given.",
        "status": "`fine` or `wrong`.",
        "operators": "The number of operators in the file; null where it is wrong.",
        "nodes": "The number of nodes after lowering, without fusion: views need none; null where the file is wrong.",
        "level": "The feature level at which the graph is valid; null where the file is wrong.",
        "problems": "A list of errors and warnings, each as *problem*.",
    },
    "problem": {
        "severity": "`error` or `warning`.",
        "code": "Its kind, one of [the codes](errors.md).",
        "message": "What is wrong, in one sentence.",
        "node": "The node, or null.",
        "field": "The field inside the node, or null.",
        "got": "What was given, as text, or null.",
        "allowed": "What is allowed, or null.",
        "hint": "What to do, or null.",
        "file": "The file, or null.",
        "line": "The line, from 1, or null.",
        "column": "The column in characters, from 1, or null.",
        "end_column": "The column after the last character, or null.",
        "used_by": "Which use of a template is meant, or null.",
    },
    "devices": {
        **_GENERAL,
        "devices": "A list of all devices, each as *device*.",
        "auto": "What `auto` takes here: its `name`, and the `reason`.",
    },
    "device": {
        "name": "The name for `--device`.",
        "description": "What it is.",
        "missing": "Why it cannot be used here; null if it can.",
    },
    "lower": {
        **_GENERAL,
        "graph": "The name of the graph.",
        "level": "Its feature level.",
        "digest": "The SHA-256 of the printed graph: equal digests are equal graphs.",
        "source_nodes": "The number of operators in the file, before fusion.",
        "inputs": "A list of the slots of the inputs, each as *slot*; constants are such slots, too.",
        "outputs": "A list of the slots of the outputs, each as *slot*.",
        "nodes": "A list of the nodes, each as *node*.",
        "edges": "The lists `input`, `output` and `intermediate`; numbers are indices of slots, nodes and ports.",
        "compiled": "What the devices of `--device` need, by name: descriptors, bytes; empty without it.",
    },
    "slot": {
        "name": "The name of the input or output.",
        "dtype": "The data type.",
        "sizes": "A list of the sizes.",
        "strides": "A list of the strides; null where the tensor is packed.",
        "bytes": "The size of the tensor.",
    },
    "node": {
        "name": "The name of the node.",
        "operator": "The operator's name; `constant` for a constant node.",
        "fields": "Each member of the operator's C struct, as `lower` prints it.",
    },
    "operators": {**_GENERAL, "operators": "A list of all operators, or of the one that is named, each as *operator*."},
    "operator": {
        "name": "The name in graph files and in Python.",
        "family": "The family, which is a page of the documentation.",
        "dml": "The name that follows DML_OPERATOR_.",
        "level": "The feature level from which it exists.",
        "meaning": "What it computes; of one that is named in full, else the first line.",
        "fields": "A list: each field's `field`, what it `takes`, and its `default`; only of one that is named.",
        "support": "A list: from a `level` on, which `dimensions` and `dtypes` the `tensors` may have; likewise.",
        "example": "A graph file with it; likewise.",
    },
    "bench": {
        **_GENERAL,
        "graph": "The name of the graph.",
        "fused": "Whether it was fused.",
        "devices": "A list of what was measured, each as *measurement*.",
    },
    "measurement": {
        "device": "The device.",
        "reason": "Why it was chosen.",
        "nodes": "The number of nodes after fusion.",
        "compile_seconds": "The time of the compilation.",
        "first_seconds": "The time of the first run.",
        "median_seconds": "The median of the steady runs.",
        "min_seconds": "The least of the steady runs.",
        "run_seconds": "A list: the time of each steady run.",
        "in_flight_seconds": "The time of one of the runs in flight; null where there were none.",
        "phases": "Upload, execution and readback of the last run, where the device tells them apart.",
        "input_bytes": "The bytes of what every run is given.",
        "output_bytes": "The bytes of the outputs.",
        "dispatches": "The dispatches of one run; null where the device does not count them.",
        "descriptors": "The descriptors that a run binds; null where the device has none.",
        "persistent_bytes": "The bytes that stay on the device; null where it does not say.",
        "temporary_bytes": "The bytes that a run needs beside them; null where it does not say.",
        "peak_bytes": "The bytes that a run needs in all besides inputs, outputs and constants, with what stays on the "
        "device, packed weights, states and the threads' scratch memory; null where the device does not say.",
        "stats": "All numbers of the executable, which depend on the device.",
        "roof": "What the device can do at the most, or null.",
        "steps": "A list of the nodes that are timed, or null: nodes, how, start, seconds, bytes, kernel, operations, "
        "of_integers, dispatches, operators.",
        "source_nodes": "The number of operators in the file.",
    },
    "run": {
        **_GENERAL,
        "graph": "The name of the graph.",
        "device": "Where it ran.",
        "outputs": "Each output's `dtype`, `sizes` and `data` in row-major order, by name.",
    },
    "doctor": {
        **_GENERAL,
        "kind": "What was found, one of [the kinds](doctor.md#what-it-finds).",
        "device": "The device that was examined.",
        "node": "The first node that is computed wrong, or null.",
        "operator": "Its operator with the data types and sizes that it reads, or null.",
        "place": "Its place in the file, or null.",
        "group": "A list of the nodes that are wrong together, if one alone is right.",
        "rules": "A list of the fusion rules that made the node.",
        "why": "What else is known, in a sentence; may be empty.",
        "executions": "How often the device ran something.",
        "measures": "How far the first wrong output is off, or null.",
        "places": "A list of where along each axis the errors lie.",
        "outputs": "The same measures of each output of the graph, by name.",
    },
}


def print_report(name: str, content: Mapping[str, Any], *, indent: int | None = 2) -> None:
    """Prints a report of this name as JSON."""
    print_document(text(name, content, indent=indent))


def text(name: str, content: Mapping[str, Any], *, indent: int | None = 2) -> str:
    """A report of this name as JSON."""
    shown = {"report": name, "version": VERSION, **content}
    return json.dumps(shown, indent=indent, ensure_ascii=False, allow_nan=False) + "\n"


def problem(given: Problem) -> Plain:
    """A problem in its shape."""
    place = given.location
    return {
        "severity": str(given.severity),
        "code": given.code,
        "message": given.message,
        "node": given.node,
        "field": given.field,
        "got": None if given.got is None else shorten(given.got),
        "allowed": given.allowed,
        "hint": given.hint,
        "file": place and place.file,
        "line": place and place.line,
        "column": place and place.column,
        "end_column": place and place.end_column,
        "used_by": place and place.used_by,
    }


def checked(files: Sequence[Plain], skipped: Iterable[object]) -> Plain:
    """The report of `check`, from its files in their shape."""
    severities = [each["severity"] for file in files for each in file["problems"]]
    return {
        "files": files,
        "skipped": [str(each) for each in skipped],
        "errors": severities.count(Severity.ERROR),
        "warnings": severities.count(Severity.WARNING),
    }


def devices(listed: Iterable[Listing], automatic: Choice) -> Plain:
    """The report of `devices`."""
    auto = {"name": automatic.device.name, "reason": automatic.reason.removeprefix("auto: ")}
    return {"devices": [dataclasses.asdict(each) for each in listed], "auto": auto}


def lowered(desc: GraphDesc, source_nodes: int, compiled: Mapping[str, Plain]) -> Plain:
    """The report of `lower`."""
    from dmlgraph.compiler.desc import OperatorDescNode, field_texts

    return {
        "graph": desc.name,
        "level": str(desc.level),
        "digest": hashlib.sha256(str(desc).encode()).hexdigest(),
        "source_nodes": source_nodes,
        "inputs": [_slot(each.name, each.desc) for each in desc.inputs],
        "outputs": [_slot(each.name, each.desc) for each in desc.outputs],
        "nodes": [
            {"name": each.name, "operator": each.operator.name, "fields": dict(field_texts(each.operator))}
            if isinstance(each, OperatorDescNode)
            else {"name": each.name, "operator": "constant", "fields": {"desc": str(each.desc)}}
            for each in desc.nodes
        ],
        "edges": {
            kind: [dataclasses.asdict(each) for each in edges]
            for kind, edges in (
                ("input", desc.input_edges),
                ("output", desc.output_edges),
                ("intermediate", desc.intermediate_edges),
            )
        },
        "compiled": compiled,
    }


def _slot(name: str, desc: Any) -> Plain:
    strides = None if desc.strides is None else list(desc.strides)
    sizes, size = list(desc.sizes), desc.total_bytes
    return {"name": name, "dtype": str(desc.dtype), "sizes": sizes, "strides": strides, "bytes": size}


def operator(given: type[Operator], *, whole: bool) -> Plain:
    """An operator in its shape; `whole`: with its fields, its support and an example."""
    import inspect

    from dmlgraph.operators.catalog.examples import example
    from dmlgraph.operators.catalog.help import field_rows, level_rows

    meaning = inspect.getdoc(given) or ""
    shown = {
        "name": given.name,
        "family": given.family,
        "dml": given.dml,
        "level": str(given.support().introduced),
        "meaning": meaning if whole else meaning.partition("\n")[0],
    }
    if not whole:
        return shown
    rows = (dict(zip(("level", "tensors", "dimensions", "dtypes"), row, strict=True)) for row in level_rows(given))
    fields = (dict(zip(("field", "takes", "default"), row, strict=True)) for row in field_rows(given))
    return {**shown, "fields": list(fields), "support": list(rows), "example": example(given)}
