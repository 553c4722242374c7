"""Reads the section `training` of a graph file, and describes it for editors.

training: {loss: error, parameters: ["*.weight"], optimizer: {op: adam, rate: 1e-3}}
"""

from __future__ import annotations

import dataclasses
import pathlib
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from dmlgraph.base.errors import Location, Problem, listing, suggestion
from dmlgraph.base.report import DocumentReport, Report
from dmlgraph.formats.text_tree.keys import known_keys
from dmlgraph.formats.text_tree.text import read_text
from dmlgraph.formats.text_tree.tree import Tree, parse
from dmlgraph.graph import trainable
from dmlgraph.operators.declaration.fields import Schema
from dmlgraph.training.description import OPTIMIZERS, Lora, Training, kinds, meaning
from dmlgraph.training.named_loss import LOSSES, MEANINGS, NamedLoss, options, tensors
from dmlgraph.training.optimizers import Optimizer

if TYPE_CHECKING:
    from dmlgraph.graph.graph import Graph

Made = TypeVar("Made", bound=Optimizer | Lora)
Name = typing.NewType("Name", str)
EXAMPLE = "training: {loss: error, parameters: ['*.weight'], optimizer: {op: adam, rate: 1e-3}}"
KEYS = ("loss", "parameters", "optimizer", "lora", "straight_through", "recompute")
SECTION = "training"
_EXAMPLES = {"loss": "loss: error", "parameters": 'parameters: ["*.weight"]', "optimizer": "optimizer: {op: adam}"}
_TYPES: dict[Any, tuple[str, tuple[type, ...], Schema]] = {  # what a file may have: in words, in Python, in JSON Schema
    float: ("a number", (int, float), {"type": "number"}),
    int: ("a whole number", (int,), {"type": "integer"}),
    bool: ("true or false", (bool,), {"type": "boolean"}),
    str: ("an expression of step, as text", (str,), {"type": "string"}),
    Name: ("the name of a value", (str,), {"type": "string"}),
    Sequence[str]: ("a list of names", (list,), {"type": "array", "items": {"type": "string"}}),
}
_SWITCHES: Mapping[str, Any] = {"straight_through": bool, "recompute": Literal["cheap"]}


@dataclasses.dataclass(frozen=True)
class Section:
    """What a file says of training, before it is held against a graph.

    Attributes:
        training: with names that may mean nothing.
        place: gives problems of its fields their places in the file.
    """

    training: Training
    place: Callable[[Problem], Problem]

    def put_on(self, graph: Graph) -> None:
        """Says of a graph that it is trained so.

        The weights of a model are states already: they are the parameters then.

        Raises:
            DmlGraphError: a name means nothing, or something does not fit.
        """
        training = self.training
        if graph.origin.is_model and training.parameters:
            training = dataclasses.replace(training, parameters=tuple(trainable.free_states(graph)))
        with Report(place=self.place):
            training.check(graph)
        graph.origin.training = training


def read_file(path: pathlib.Path) -> Section:
    """The section of a file that has nothing else.

    Raises:
        DocumentError: every problem found.
    """
    section, empty = None, Location(str(path), 1, 1)
    with DocumentReport() as report:
        tree = parse(read_text(path), str(path), report)
        if tree is not None and isinstance(tree.value, dict):
            tree = known_keys(tree, [SECTION], report)
        if tree is not None and isinstance(tree.value, dict) and SECTION in tree.value:
            section = read_training(tree.value[SECTION], lambda reference: reference, report)
        elif not report.problems:
            message = "must be given: how the graph is trained"
            report.add(Problem(message, code="missing", field=SECTION, location=empty, hint=EXAMPLE))
    assert section is not None
    return section


def read_training(tree: Tree, actual: Callable[[str], str], report: Report) -> Section | None:
    """What a section says; None, and problems, where it is wrong.

    Args:
        tree: of the section.
        actual: a reference with the node in place of a use of a template.
        report: gets the problems.
    """
    if not isinstance(tree.value, dict):
        report.problem("must be a mapping", tree, "kind", SECTION, got=tree.plain, hint=f"such as {EXAMPLE}")
        return None
    tree, before = known_keys(tree, KEYS, report, within=SECTION), len(report.problems)
    for key, example in _EXAMPLES.items():
        if key not in tree.value and not (key == "parameters" and "lora" in tree.value):
            report.problem("must be given", tree, "missing", f"{SECTION}.{key}", hint=example)
    loss = _loss(tree.value["loss"], actual, report) if "loss" in tree.value else None
    parameters = tree.value.get("parameters")
    if parameters is not None and not _are_texts(parameters):
        message, hint = "must be a list of names", "such as ['*.weight']"
        report.problem(message, parameters, "kind", f"{SECTION}.parameters", got=parameters.plain, hint=hint)
    optimizer = _optimizer(tree.value["optimizer"], report) if "optimizer" in tree.value else None
    pairs = _made(tree.value["lora"], Lora, f"{SECTION}.lora", report) if "lora" in tree.value else None
    switches = _given(tree, _SWITCHES, SECTION, report)
    if loss is None or optimizer is None or len(report.problems) > before:
        return None
    names = () if parameters is None else tuple(parameters.plain)
    training = Training(loss, names, optimizer, pairs, **{name: each.value for name, each in switches.items()})
    return Section(training, _placing(tree, SECTION))


def _loss(tree: Tree, actual: Callable[[str], str], report: Report) -> str | NamedLoss | None:
    """A name, or a loss of `dg.losses`; None, and problems, where it is wrong."""
    path = f"{SECTION}.loss"
    if isinstance(tree.value, str):
        return actual(tree.value)
    if not isinstance(tree.value, dict):
        hint = f"or a loss, such as {{op: {next(iter(LOSSES))}, …}}"
        report.problem("must be the name of a node", tree, "kind", path, got=tree.plain, hint=hint)
        return None
    op = _op(tree, LOSSES, "a loss", path, report)
    if op is None:
        return None
    before, compared, types = len(report.problems), tensors(op), options(op)
    given = _fields(tree, dict.fromkeys(compared, Name) | types, path, report)
    for name in compared:
        if name not in given:
            report.problem("must be given", tree, "missing", f"{path}.{name}", hint=f"such as {name}: {name}")
    if len(report.problems) > before:
        return None
    return NamedLoss(
        op,
        {name: actual(given[name].value) for name in compared},
        {name: given[name].plain for name in types if name in given},
    )


def _are_texts(tree: Tree) -> bool:
    value = tree.value
    return isinstance(value, list) and bool(value) and all(isinstance(each.value, str) for each in value)


def _optimizer(tree: Tree, report: Report) -> Optimizer | None:
    """The optimizer that a mapping names; None, and problems, where it is wrong."""
    path = f"{SECTION}.optimizer"
    if not isinstance(tree.value, dict):
        report.problem("must be a mapping", tree, "kind", path, got=tree.plain, hint="such as {op: adam, rate: 1e-3}")
        return None
    op = _op(tree, OPTIMIZERS, "an optimizer", path, report)
    return None if op is None else _made(tree, OPTIMIZERS[op], path, report)


def _op(tree: Tree, known: Collection[str], what: str, path: str, report: Report) -> str | None:
    """The name in a mapping's `op`; None, and a problem, where it is wrong."""
    op = tree.value.get("op")
    if op is not None and isinstance(op.value, str) and op.value in known:
        return op.value
    problem = {"code": "missing"} if op is None else {"code": "unknown-name", "got": op.plain}
    hint = suggestion(str(op.value), known) if op is not None else None
    message = "must be given" if op is None else f"is not {what}"
    report.problem(message, op or tree, field=f"{path}.op", allowed=listing(known), hint=hint, **problem)
    return None


def _made(tree: Tree, kind: type[Made], path: str, report: Report) -> Made | None:
    """A dataclass from a mapping of its fields; None, and problems, where it is wrong."""
    before = len(report.problems)
    if not isinstance(tree.value, dict):
        report.problem("must be a mapping", tree, "kind", path, got=tree.plain, hint="such as {products: ['*']}")
        return None
    fields: dict[str, Any] = {each.name: each for each in dataclasses.fields(kind)}
    hints = typing.get_type_hints(kind)
    given = _fields(tree, {name: hints[name] for name in fields}, path, report)
    missing = [name for name, each in fields.items() if each.default is dataclasses.MISSING and name not in given]
    for name in missing:
        example = "1e-3" if name == "rate" else "['*']"
        report.problem("must be given", tree, "missing", f"{path}.{name}", hint=f"such as {name}: {example}")
    if len(report.problems) > before:
        return None
    with report.at(place=_placing(tree, path)):
        return kind(**{name: item.plain for name, item in given.items()})
    return None


def _fields(tree: Tree, types: Mapping[str, Any], path: str, report: Report) -> dict[str, Tree]:
    """What a mapping with an `op` gives of some fields, where null is not given; wrong types are problems."""
    return _given(known_keys(tree, ("op", *types), report, within=path), types, path, report)


def _given(tree: Tree, types: Mapping[str, Any], path: str, report: Report) -> dict[str, Tree]:
    """Those of some keys that a mapping gives."""
    given = {name: item for name, item in tree.value.items() if name in types and item.value is not None}
    for name, item in given.items():
        allowed = kinds(types[name])
        if not any(_is(item.value, each) for each in allowed):
            words = listing(_TYPES[each][0] if each in _TYPES else each for each in allowed)
            report.problem("is of another kind", item, "kind", f"{path}.{name}", got=item.plain, allowed=words)
    return given


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
    optimizers = [_schema_of(kind, "The optimizer.", name) for name, kind in OPTIMIZERS.items()]
    named = "The value that becomes small: the name of a node of one float, or of an output."
    losses = [{"type": "string", "description": named}, *map(_loss_schema, LOSSES)]
    pairs = _schema_of(Lora)
    keys: dict[str, tuple[Schema, str]] = {
        "loss": ({"anyOf": losses}, "What becomes small: a name, or a loss of dmlgraph.losses."),
        "parameters": (
            {"type": "array", "items": {"type": "string"}, "minItems": 1},
            "What is trained: names of constants and states; * stands for any text.",
        ),
        "optimizer": ({"anyOf": optimizers}, "How it changes."),
        "lora": (pairs, "Small matrices beside the weights of products, which are trained for them."),
        "straight_through": (_TYPES[bool][2], "Whether rounding counts as the identity, for quantized networks."),
        "recompute": ({"const": "cheap"}, "Whether cheap values are computed again rather than kept."),
    }
    told = {name: schema | {"description": text} for name, (schema, text) in keys.items()}
    either = [{"required": ["parameters"]}, {"required": ["lora"]}]
    return _object(told, ["loss", "optimizer"]) | {"anyOf": either}


def _loss_schema(op: str) -> Schema:
    types = dict.fromkeys(tensors(op), Name) | options(op)
    properties = {name: _forms(hint) | {"description": MEANINGS[name]} for name, hint in types.items()}
    return _object({"op": {"const": op, "description": "The loss."}} | properties, ["op", *tensors(op)])


def _schema_of(kind: type[Any], what: str = "", op: str | None = None) -> Schema:
    """That of a dataclass, with its name in `op`."""
    named: Schema = {} if op is None else {"op": {"const": op, "description": what}}
    fields, hints = dataclasses.fields(kind), typing.get_type_hints(kind)
    properties = {each.name: _forms(hints[each.name]) | {"description": meaning(kind, each.name)} for each in fields}
    required = [each.name for each in fields if each.default is dataclasses.MISSING]
    return _object(named | properties, [*named, *required])


def _forms(hint: Any) -> Schema:
    return {"anyOf": [_TYPES[one][2] if one in _TYPES else {"const": one} for one in kinds(hint)]}


def _object(properties: Schema, required: list[str]) -> Schema:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
