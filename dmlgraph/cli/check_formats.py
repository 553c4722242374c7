"""What `check` found, in the forms of other programs: annotations of GitHub's workflows, and SARIF 2.1.0."""

from __future__ import annotations

import json
import pathlib
import urllib.parse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from dmlgraph.base.codes import CODES
from dmlgraph.base.errors import Location, Problem

if TYPE_CHECKING:
    from dmlgraph.cli.check import Checked

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def github(results: Sequence[Checked], _skipped: Sequence[pathlib.Path]) -> str:
    """A line for each problem, which a workflow of GitHub shows beside the line of the file."""
    return "".join(f"{_command(file, each)}\n" for file, each in _problems(results))


def _command(file: str, given: Problem) -> str:
    place = given.location
    properties = {"file": file}
    if place is not None:
        properties |= {"line": str(place.line), "col": str(place.column)}
        if place.end_column is not None:
            properties["endColumn"] = str(place.end_column - 1)  # of the last character
    properties["title"] = f"dmlgraph {given.code}"
    shown = ",".join(f"{key}={_escaped(value, ':,')}" for key, value in properties.items())
    return f"::{given.severity} {shown}::{_escaped(str(given))}"


def _escaped(text: str, more: str = "") -> str:
    """Text in which the characters that end a command, a property or a line are written as in a URL."""
    return "".join(f"%{ord(each):02X}" if each in f"%\r\n{more}" else each for each in text)


def sarif(results: Sequence[Checked], _skipped: Sequence[pathlib.Path]) -> str:
    """A log for code scanning."""
    from importlib.metadata import version

    problems = list(_problems(results))
    codes = sorted({each.code for _, each in problems})
    driver = {
        "name": "dmlgraph",
        "version": version("dmlgraph"),
        "rules": [{"id": code, "shortDescription": {"text": CODES[code]}} for code in codes],
    }
    found = [_result(file, each, codes.index(each.code)) for file, each in problems]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": found}
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2, ensure_ascii=False) + "\n"


def _result(file: str, given: Problem, rule: int) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": _uri(file)}}
    if given.location is not None:
        physical["region"] = _region(given.location)
    return {
        "ruleId": given.code,
        "ruleIndex": rule,
        "level": str(given.severity),
        "message": {"text": str(given)},
        "locations": [{"physicalLocation": physical}],
    }


def _region(place: Location) -> dict[str, int]:
    end = {} if place.end_column is None else {"endColumn": place.end_column}
    return {"startLine": place.line, "startColumn": place.column, **end}


def _uri(file: str) -> str:
    """The file as a URI: relative where the path is."""
    path = pathlib.PurePath(file)
    return path.as_uri() if path.is_absolute() else urllib.parse.quote(path.as_posix())


def _problems(results: Sequence[Checked]) -> Iterator[tuple[str, Problem]]:
    """Every problem with the file in which it is, which may be one that the checked file names."""
    for result in results:
        for each in (*result.errors, *result.warnings):
            yield each.location.file if each.location else result.file, each
