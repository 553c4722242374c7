"""Reads the section `workarounds` of a graph file, and describes it for editors; see `dmlgraph.devices.workarounds`.

workarounds:
- {device: directml, adapter: "Radeon*", driver: {below: "32"}, nodes: {"*/norm": decomposed}}
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from dmlgraph.base.report import Report
from dmlgraph.compiler.detours import DETOURS
from dmlgraph.devices.rules import RULES
from dmlgraph.devices.workarounds import Workaround
from dmlgraph.formats.text_tree.keys import known_keys
from dmlgraph.formats.text_tree.tree import Tree
from dmlgraph.operators.declaration.fields import Schema

if TYPE_CHECKING:
    from dmlgraph.graph.graph import Graph

SECTION = "workarounds"
EXAMPLE = "such as - {device: directml, nodes: {norm: decomposed}}"
_TEXT: Schema = {"type": "string"}


class _Key(NamedTuple):
    """A key: what it takes in words, whether a value is that, its JSON Schema and its meaning."""

    takes: str
    fits: Callable[[Any], bool]
    schema: Schema
    meaning: str


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _maps_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value)) and all(map(_is_text, value.values()))


def _off(meaning: str) -> _Key:
    return _Key("false", lambda value: value is False, {"const": False}, meaning)


_DRIVER: dict[str, _Key] = {
    "from": _Key("text, such as '31.0.21001'", _is_text, _TEXT, "The first version with the fault, in quotes."),
    "below": _Key("text, such as '32.0'", _is_text, _TEXT, "The first version without it, in quotes."),
}
_KEYS: dict[str, _Key] = {
    "device": _Key(
        "the name of a device",
        _is_text,
        _TEXT,
        "Where it applies: directml is any adapter, directml:software that one.",
    ),
    "adapter": _Key("text", _is_text, _TEXT, "The name of the adapter; * stands for any text."),
    "driver": _Key(
        "a mapping, such as {from: '31.0', below: '32'}",
        _maps_texts,
        {
            "type": "object",
            "properties": {name: key.schema | {"description": key.meaning} for name, key in _DRIVER.items()},
            "additionalProperties": False,
        },
        "The versions of the driver; by default all.",
    ),
    "why": _Key("text", _is_text, _TEXT, "What is wrong there, for people."),
    "metacommands": _off("DirectML must not use the driver's own implementations of operators."),
    "half_precision": _off("DirectML must not compute float32 in float16, also where the caller permits it."),
    "fuse": _off("Nothing is fused."),
    "without": _Key(
        "a list of fusion rules",
        _are_texts,
        {"type": "array", "items": {"enum": sorted(RULES)}},
        "Fusion rules that do not run.",
    ),
    "nodes": _Key(
        "a mapping from nodes to detours",
        _maps_texts,
        {
            "type": "object",
            "additionalProperties": {
                "oneOf": [{"const": name, "description": detour.meaning} for name, detour in DETOURS.items()]
            },
        },
        "How nodes are computed instead, by name; * stands for any text.",
    ),
}


def read_workarounds(tree: Tree, graph: Graph, report: Report) -> tuple[Workaround, ...]:
    """What a section says, without what is wrong, which is a problem.

    Args:
        tree: of the section.
        graph: as far as it could be read; names are only looked up where nothing is wrong yet.
        report: gets the problems.
    """
    if not isinstance(tree.value, list):
        report.problem("must be a list", tree, "kind", SECTION, got=tree.plain, hint=EXAMPLE)
        return ()
    found = [_read(item, f"{SECTION}.{index}", graph, report) for index, item in enumerate(tree.value)]
    return tuple(each for each in found if each is not None)


def _read(tree: Tree, path: str, graph: Graph, report: Report) -> Workaround | None:
    before = len(report.problems)
    fields = _fields(tree, _KEYS, path, report)
    driver = {}
    if _maps_texts(fields.pop("driver", None)):
        driver = _fields(tree.value["driver"], _DRIVER, f"{path}.driver", report)
    if len(report.problems) > before:
        return None
    if "device" not in fields:
        report.problem("must be given", tree, "missing", f"{path}.device", hint="such as device: directml")
        return None
    fields["without"] = tuple(fields.get("without", ()))
    read = Workaround(**fields, driver_from=driver.get("from"), driver_below=driver.get("below"))
    if not report.problems:
        with report.at(
            place=lambda each: dataclasses.replace(
                each.within(path), location=tree.find(each.field).location, node=None
            )
        ):
            read.check(graph)
    return read


def _fields(tree: Tree, keys: dict[str, _Key], path: str, report: Report) -> dict[str, Any]:
    """The values of a mapping by key; those that are wrong are problems."""
    if not isinstance(tree.value, dict):
        report.problem("must be a mapping", tree, "kind", path, got=tree.plain, hint=EXAMPLE)
        return {}
    tree = known_keys(tree, keys, report, within=path)
    given = {name: item for name, item in tree.value.items() if item.value is not None}
    for name, item in given.items():
        if not keys[name].fits(item.plain):
            report.problem(
                "is of another kind", item, "kind", f"{path}.{name}", got=item.plain, allowed=keys[name].takes
            )
    return {name: item.plain for name, item in given.items()}


def workarounds_schema() -> Schema:
    """The JSON Schema of the section."""
    properties = {name: key.schema | {"description": key.meaning} for name, key in _KEYS.items()}
    entry = {"type": "object", "properties": properties, "required": ["device"], "additionalProperties": False}
    return {"type": "array", "items": entry}
