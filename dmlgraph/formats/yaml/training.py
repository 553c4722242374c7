"""Reads the section `training` of a graph file, and describes it for editors.

training: {loss: error, parameters: ["*.weight"], optimizer: {op: adam, rate: 1e-3}}
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dmlgraph.base.errors import Problem, listing, suggestion
from dmlgraph.base.report import Report
from dmlgraph.formats.text_tree.keys import known_keys
from dmlgraph.formats.text_tree.tree import Tree
from dmlgraph.operators.declaration.fields import Schema
from dmlgraph.training.description import OPTIMIZERS, Training, kinds, meaning
from dmlgraph.training.optimizers import Optimizer

if TYPE_CHECKING:
    from dmlgraph.graph.graph import Graph

KEYS = ("loss", "parameters", "optimizer")
SECTION = "training"
_EXAMPLES = {"loss": "loss: error", "parameters": 'parameters: ["*.weight"]', "optimizer": "optimizer: {op: adam}"}
_TYPES: dict[Any, tuple[str, tuple[type, ...], Schema]] = {  # what a file may have: in words, in Python, in JSON Schema
    float: ("a number", (int, float), {"type": "number"}),
    int: ("a whole number", (int,), {"type": "integer"}),
    bool: ("true or false", (bool,), {"type": "boolean"}),
    str: ("an expression of step, as text", (str,), {"type": "string"}),
    Sequence[str]: ("a list of names", (list,), {"type": "array", "items": {"type": "string"}}),
}


def read_training(tree: Tree, graph: Graph, actual: Callable[[str], str], report: Report) -> Training | None:
    """What a section says; None, and problems, where it is wrong.

    Args:
        tree: of the section.
        graph: as far as it could be read; it is only asked where nothing is wrong yet.
        actual: a reference with the node in place of a use of a template.
        report: gets the problems.
    """
    if not isinstance(tree.value, dict):
        hint = "such as {loss: error, parameters: ['*.weight'], optimizer: {op: adam, rate: 1e-3}}"
        report.problem("must be a mapping", tree, "kind", SECTION, got=tree.plain, hint=hint)
        return None
    tree, before = known_keys(tree, KEYS, report, within=SECTION), len(report.problems)
    for key in KEYS:
        if key not in tree.value:
            report.problem("must be given", tree, "missing", f"{SECTION}.{key}", hint=_EXAMPLES[key])
    loss, parameters = (tree.value.get(key) for key in ("loss", "parameters"))
    if loss is not None and not isinstance(loss.value, str):
        report.problem("must be the name of a node", loss, "kind", f"{SECTION}.loss", got=loss.plain)
    if parameters is not None and not _are_texts(parameters):
        message, hint = "must be a list of names", "such as ['*.weight']"
        report.problem(message, parameters, "kind", f"{SECTION}.parameters", got=parameters.plain, hint=hint)
    optimizer = _optimizer(tree.value["optimizer"], report) if "optimizer" in tree.value else None
    if optimizer is None or len(report.problems) > before:
        return None
    training = Training(actual(loss.value), tuple(each.value for each in parameters.value), optimizer)
    if not report.problems:
        with report.at(place=_placing(tree, SECTION)):
            training.check(graph)
    return training


def _are_texts(tree: Tree) -> bool:
    value = tree.value
    return isinstance(value, list) and bool(value) and all(isinstance(each.value, str) for each in value)


def _optimizer(tree: Tree, report: Report) -> Optimizer | None:
    """The optimizer that a mapping names; None, and problems, where it is wrong."""
    path = f"{SECTION}.optimizer"
    if not isinstance(tree.value, dict):
        report.problem("must be a mapping", tree, "kind", path, got=tree.plain, hint="such as {op: adam, rate: 1e-3}")
        return None
    op = tree.value.get("op")
    if op is None or op.value not in OPTIMIZERS:
        problem = {"code": "missing"} if op is None else {"code": "unknown-name", "got": op.plain}
        hint = suggestion(str(op.value), OPTIMIZERS) if op is not None else None
        message = "must be given" if op is None else "is not an optimizer"
        report.problem(message, op or tree, field=f"{path}.op", allowed=listing(OPTIMIZERS), hint=hint, **problem)
        return None
    kind = OPTIMIZERS[op.value]
    fields = {each.name: each for each in dataclasses.fields(kind)}
    tree, before = known_keys(tree, ("op", *fields), report, within=path), len(report.problems)
    given = {name: item for name, item in tree.value.items() if name != "op" and item.value is not None}
    for name, item in given.items():
        allowed = kinds(kind, name)
        if not any(_is(item.value, each) for each in allowed):
            words = listing(_TYPES[each][0] if each in _TYPES else each for each in allowed)
            report.problem("is of another kind", item, "kind", f"{path}.{name}", got=item.plain, allowed=words)
    missing = [name for name, each in fields.items() if each.default is dataclasses.MISSING and name not in given]
    for name in missing:
        report.problem("must be given", tree, "missing", f"{path}.{name}", hint=f"such as {name}: 1e-3")
    if len(report.problems) > before:
        return None
    with report.at(place=_placing(tree, path)):
        return kind(**{name: item.plain for name, item in given.items()})
    return None


def _is(value: object, allowed: Any) -> bool:
    """Whether a value of a file is of a type, or is a text that stands for itself."""
    if allowed not in _TYPES:
        return bool(value == allowed)
    return isinstance(value, _TYPES[allowed][1]) and (allowed is bool or not isinstance(value, bool))


def _placing(tree: Tree, path: str) -> Callable[[Problem], Problem]:
    """Gives problems of fields their places in a mapping that is at a path."""

    def place(problem: Problem) -> Problem:
        field = problem.field if problem.node is None else None
        return dataclasses.replace(problem.within(path) if field else problem, location=tree.find(field).location)

    return place


def training_schema() -> Schema:
    """The JSON Schema of the section."""
    optimizers = [_optimizer_schema(name, kind) for name, kind in OPTIMIZERS.items()]
    keys: dict[str, tuple[Schema, str]] = {
        "loss": ({"type": "string"}, "The value that becomes small: the name of a node of one float, or of an output."),
        "parameters": (
            {"type": "array", "items": {"type": "string"}, "minItems": 1},
            "What is trained: names of constants and states; * stands for any text.",
        ),
        "optimizer": ({"anyOf": optimizers}, "How it changes."),
    }
    return _object({name: schema | {"description": text} for name, (schema, text) in keys.items()}, list(KEYS))


def _optimizer_schema(name: str, kind: type[Optimizer]) -> Schema:
    fields = dataclasses.fields(kind)
    properties: Schema = {"op": {"const": name, "description": "The optimizer."}}
    for each in fields:
        forms = [_TYPES[one][2] if one in _TYPES else {"const": one} for one in kinds(kind, each.name)]
        properties[each.name] = {"anyOf": forms} | {"description": meaning(kind, each.name)}
    return _object(properties, ["op", *(each.name for each in fields if each.default is dataclasses.MISSING)])


def _object(properties: Schema, required: list[str]) -> Schema:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
