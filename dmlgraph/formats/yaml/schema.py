"""JSON Schema of graph files, for editors; generated from the operators' classes."""

from __future__ import annotations

import inspect
import json
import pathlib
import re
from collections.abc import Sequence
from typing import Any

from dmlgraph.base.codes import WARNINGS
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.tensor import MAX_RANK
from dmlgraph.devices.names import NAMES
from dmlgraph.files.whole import write_text
from dmlgraph.formats.yaml.declarations import FORMAT_VERSION
from dmlgraph.formats.yaml.training import training_schema
from dmlgraph.formats.yaml.workarounds import workarounds_schema
from dmlgraph.operators.catalog.examples import example
from dmlgraph.operators.catalog.help import field_rows
from dmlgraph.operators.catalog.registry import REGISTRY
from dmlgraph.operators.declaration.fields import AXIS_COUNT, Kind, Schema
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.declaration.struct import Member

TITLE = "dmlgraph graph file"
FILE_NAME = "dmlgraph.schema.json"  # of the schema beside graph files
OUTPUT = "_output"  # a definition beside those of operators: what may be requested of an output
_REFERENCE = {"type": "string", "description": "an input, constant or node; node.field for one of several outputs"}
_COMPUTED = {"type": "string", "description": "a dim, or an expression over dims"}
_WHOLE = {"type": "integer", "minimum": 1}
_SIZE = {"anyOf": [_WHOLE, _COMPUTED]}
_COUNT = {"anyOf": [{"type": "integer", "minimum": 0}, _COMPUTED]}
_DTYPE = Kind.DATA_TYPE.form.schema
_DEVICES = dict.fromkeys(re.sub(r"\d+$", r"\\d+", name) for name in NAMES)  # with any index
_AXIS = {
    "anyOf": [
        {"type": "integer", "minimum": -MAX_RANK, "maximum": MAX_RANK - 1, "description": "negative from the end"},
        _COMPUTED,
    ]
}


def _object(properties: Schema, required: list[str] | None = None, **more: Any) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": required or [],
        "additionalProperties": False,
    } | more


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items, "minItems": 1, "maxItems": MAX_RANK}


def _named(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


def _told(schema: Schema, text: str) -> Schema:
    """A schema with the text that an editor shows for its key."""
    return schema | {"description": text}


_TENSOR_DTYPE = _told(_DTYPE, "The data type.")
_TENSOR_SIZES = _told(_list(_SIZE), "The sizes, outermost first: numbers, dims, or expressions over dims.")
_TENSOR_STRIDES = _told(_list(_COUNT), "The strides in elements, one for each size; packed by default.")
_OUTPUT = _object({"dtype": _TENSOR_DTYPE, "sizes": _TENSOR_SIZES, "strides": _TENSOR_STRIDES})
_FILE = _told({"type": "string"}, "A .npy file in the folder of this file or below it.")
_WEIGHTS = _told({"type": "string"}, "A .npy or .safetensors file in the folder of this file or below it.")
_TENSOR = _told({"type": "string"}, "The name of the tensor in a .safetensors file.")
_DATA = _told({"type": "array"}, "The numbers in row-major order, flat or nested.")
_REPEAT = _told(_SIZE, "The number of copies; {index} in the name and in texts is the number of the copy.")
_CONSTANT_IN_FILE = _object(
    {"file": _WEIGHTS, "tensor": _TENSOR, "dtype": _TENSOR_DTYPE, "sizes": _TENSOR_SIZES, "repeat": _REPEAT}, ["file"]
)
_CONSTANT = _object(
    {"dtype": _TENSOR_DTYPE, "sizes": _TENSOR_SIZES, "data": _DATA, "repeat": _REPEAT},
    ["dtype", "sizes", "data"],
)
_INPUT = _object(
    {
        "dtype": _TENSOR_DTYPE,
        "sizes": _TENSOR_SIZES,
        "strides": _TENSOR_STRIDES,
        "owned": _told({"type": "boolean"}, "Given once and kept by the device, for example weights."),
        "repeat": _REPEAT,
    },
    ["dtype", "sizes"],
)

_PARAMETER = {"anyOf": [{"type": "number"}, _COMPUTED]}
_INITIAL: dict[str, Schema] = {"value": _told(_PARAMETER, "Every element."), "data": _DATA, "file": _FILE}
_IN_ARCHIVE = {
    "file": _told({"type": "string"}, "A safetensors file in the folder of this file or below it."),
    "tensor": _told({"type": "string"}, "The tensor in the file."),
}
_STATE = _object(
    {
        "dtype": _TENSOR_DTYPE,
        "sizes": _TENSOR_SIZES,
        "initial": _told(
            {"anyOf": [*(_object({kind: one}) for kind, one in _INITIAL.items()), _object(_IN_ARCHIVE, ["tensor"])]},
            "What it holds at first; zeros by default.",
        ),
        "next": _told(_REFERENCE, "What it holds after a run."),
        "grows": _told({"type": "integer"}, "The axis along which rows are appended."),
        "append": _told(_REFERENCE, "The rows that go behind those that it has."),
    },
    ["dtype", "sizes"],
)

_GIVEN = {"anyOf": [_REFERENCE, {"type": "null"}]}
_USE: Schema = {
    "type": "object",
    "description": "the nodes of a template; the other keys are its inputs",
    "properties": {
        "use": {"type": "string", "description": "the name of a template"},
        "repeat": _SIZE | {"description": "the number of copies"},
        "dims": _named({"anyOf": [_PARAMETER, {"type": "array", "items": _PARAMETER}]})
        | {"description": "values for the template's dims; a list has one for each copy"},
    },
    "required": ["use"],
    "additionalProperties": {
        "anyOf": [
            _GIVEN,
            {"type": "array", "items": _GIVEN, "description": "one for each copy"},
            _object(
                {
                    "first": _GIVEN | {"description": "what the first copy reads"},
                    "then": {"type": "string", "description": "the output of the copy before that the others read"},
                },
                ["first", "then"],
            ),
        ]
    },
}
_OUTPUTS = {"anyOf": [{"type": "array", "items": _REFERENCE, "minItems": 1}, _named(_REFERENCE)]}
_TEMPLATES_FILE = {"type": "string"}
_TEMPLATES: Schema = {
    "type": "object",
    "description": "parts of the graph that are written once and used often",
    "properties": {
        "file": _told(
            {"anyOf": [_TEMPLATES_FILE, {"type": "array", "items": _TEMPLATES_FILE}]},
            "A graph file of the folder whose templates are used here, or several.",
        )
    },
    "additionalProperties": _object(
        {
            "dims": _named({"anyOf": [_PARAMETER, {"type": "null"}]})
            | {"description": "its parameters and their defaults; null: every use gives one"},
            "inputs": {"type": "array", "items": {"type": "string"}, "description": "the names of what it is given"},
            "states": _told({"$ref": "#/properties/states"}, "Tensors that every copy has of its own, by name."),
            "nodes": _told({"$ref": "#/properties/nodes"}, "Operators and uses of templates, by name."),
            "outputs": _told(_OUTPUTS, "What the template gives: a list, or a mapping from names to references."),
        },
        ["outputs"],
        anyOf=[{"required": ["nodes"]}, {"required": ["states"]}],
    ),
}


def _node(operators: Sequence[type[Operator]]) -> Schema:
    """A node: one of the operators, or a use of a template."""
    names = {name: operator for operator in operators for name in _names(operator)}
    return {
        "type": "object",
        "properties": {
            "op": {
                "enum": list(names),
                "enumDescriptions": [_first_line(operator) for operator in names.values()],
                "description": "The operator: its DML_OPERATOR_ name in lower case, without ELEMENT_WISE_.",
            }
        },
        "if": {"required": ["use"]},
        "then": _USE,
        "else": {"required": ["op"]},
        "allOf": [_rule(each) for each in operators],
    }


def schema() -> Schema:
    """The JSON Schema (draft 2020-12) of a graph file.

    Every key, operator and field has a `description`, which editors show.
    """
    operators = sorted(REGISTRY.values(), key=lambda each: each.name)
    keys: dict[str, tuple[Schema, str]] = {
        "dmlgraph": ({"const": FORMAT_VERSION}, "The version of the file format."),
        "name": ({"type": "string"}, "The graph's name in messages and in DirectML."),
        "target": (
            {"enum": [str(level) for level in FeatureLevel]},
            "The feature level at which every node must be legal, in quotes; the newest by default.",
        ),
        "fused": ({"type": "boolean"}, "Whether the graph was saved after fusion; then nothing of it is fused again."),
        "allow": ({"type": "array", "items": {"enum": list(WARNINGS)}}, "Codes of warnings that are not reported."),
        "dims": (_named(_WHOLE), "Names for sizes, and their values; --dim gives them other values."),
        "fixed": (_named({"type": "string"}), "Dims that cannot have another value, and why; saved with the graph."),
        "templates": (_TEMPLATES, "Parts of the graph that are written once and used often, by name."),
        "inputs": (_named(_INPUT), "Tensors given at every run, by name."),
        "states": (_named(_STATE), "Tensors that live on the device from run to run, by name."),
        "constants": (_named({"anyOf": [_CONSTANT_IN_FILE, _CONSTANT]}), "Tensors known in advance, by name."),
        "nodes": (_named(_node(operators)), "Operators and uses of templates, by name, in any order."),
        "outputs": (_OUTPUTS, "The results: a list of references, or a mapping from output names to references."),
        "training": (training_schema(), "How 'dmlgraph train' trains the graph."),
        "workarounds": (
            workarounds_schema(),
            "For devices, by adapter and driver, that compute nodes wrong: what compiling for them does instead.",
        ),
        "tests": (_named(_test()), "Tests of this graph, by name; 'dmlgraph test' and pytest run them."),
    }
    return _object(
        {key: _told(schema, text) for key, (schema, text) in keys.items()},
        ["dmlgraph"],
        anyOf=[{"required": ["outputs"]}, {"required": ["templates"]}],  # a file may have templates only
        **{
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": TITLE,
            "$defs": {OUTPUT: _OUTPUT} | {each.name: _operator(each) for each in operators},
        },
    )


def dumps() -> str:
    """The JSON Schema as text."""
    return json.dumps(schema(), ensure_ascii=False, separators=(",", ":")) + "\n"


def write_beside(path: pathlib.Path) -> bool:
    """Writes the schema into the folder of a graph file; returns whether it did.

    It replaces a schema of another version, but no other file.

    Raises:
        OSError: it cannot be written.
    """
    target = path.parent / FILE_NAME
    text = dumps()
    try:
        before = target.read_text("utf-8")
    except FileNotFoundError:
        before = ""
    except UnicodeDecodeError:
        return False
    if before == text or (before and TITLE not in before):
        return False
    write_text(target, text)
    return True


_DEVICE = {"type": "string", "pattern": f"^({'|'.join(_DEVICES)})$"}
_SAME_AS: dict[str, Schema] = {"same_as": _told(_DEVICE, "The device that computes what is expected, without fusion.")}
_LENGTH = {"length": _told(_COUNT, "How many rows a growing state has, where the content does not say it.")}


def _test() -> Schema:
    """A test beside the graph."""
    given, expected = _contents()
    all_same = _object(_SAME_AS, ["same_as"])
    distance = {"type": "number", "minimum": 0}
    keys: dict[str, tuple[Schema, str]] = {
        "dims": (_named(_WHOLE), "The sizes of dims in this test."),
        "inputs": (_named(_one(given)), "The content of every input."),
        "states": (_named(_one(given, _LENGTH)), "What states hold before; others hold what they hold at first."),
        "steps": ({"type": "integer", "minimum": 1}, "How often the graph runs; once by default."),
        "collect": (
            {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
            "Outputs that are expected of every step: they have a new first axis.",
        ),
        "expect": (
            {"anyOf": [all_same, _named(_one(expected))]},
            "The content of outputs, or {same_as: DEVICE} for all of them.",
        ),
        "expect_states": (
            {"anyOf": [all_same, _named(_one(expected, _LENGTH))]},
            "The content of states after the last step, or {same_as: DEVICE} for all of them.",
        ),
        "ulp": (
            {"type": "integer", "minimum": 0},
            "Numbers at most this many units in the last place apart are equal.",
        ),
        "absolute": (distance, "Numbers that differ by at most this much are equal."),
        "relative": (distance, "Numbers that differ by at most this fraction of the larger one are equal."),
        "devices": (
            {"type": "array", "items": _DEVICE, "minItems": 1, "uniqueItems": True},
            "Where the test runs; by default on all devices of the machine.",
        ),
    }
    return _object(
        {key: _told(schema, text) for key, (schema, text) in keys.items()},
        anyOf=[{"required": ["expect"]}, {"required": ["expect_states"]}],
    )


def _contents() -> tuple[dict[str, Schema], dict[str, Schema]]:
    """The contents that a test gives and expects."""
    number = {"anyOf": [{"type": "number"}, _COMPUTED]}
    sequence = _object(
        {"start": _told(number, "The first element; 0 by default."), "delta": _told(number, "The step; 1 by default.")}
    )
    random = _object(
        {
            "seed": _told({"type": "integer", "minimum": 0}, "The same numbers for the same seed; 0 by default."),
            "low": _told(number, "The least number. Without 'low' and 'high' floats are normally distributed."),
            "high": _told(number, "The greatest number; among integers it is included."),
        }
    )
    scalar = {"anyOf": [*number["anyOf"], Kind.SCALAR.form.schema["anyOf"][-1]]}
    contents = {
        "value": _told(scalar, "Every element."),
        "sequence": _told({"anyOf": [sequence, {"type": "null"}]}, "Element i is start + i * delta, as in a fill."),
        "data": _DATA,
        "file": _FILE,
    }
    return contents | {"random": _told({"anyOf": [random, {"type": "null"}]}, "Random numbers.")}, contents | _SAME_AS


def _one(kinds: dict[str, Schema], beside: dict[str, Schema] | None = None) -> Schema:
    """One of these contents, with what may stand beside it."""
    return _object(kinds | (beside or {}), oneOf=[{"required": [kind]} for kind in kinds])


def _names(operator: type[Operator]) -> list[str]:
    full = operator.dml.lower()
    return [operator.name] if full == operator.name else [operator.name, full]


def _rule(operator: type[Operator]) -> Schema:
    """A node whose `op` is the operator has the operator's fields."""
    is_it = {"properties": {"op": {"enum": _names(operator)}}, "required": ["op"]}
    return {"if": is_it, "then": {"$ref": f"#/$defs/{operator.name}"}}


def _attribute(member: Member) -> Schema:
    """A field that is neither a tensor nor an enumeration."""
    if member.axes is not None:
        return {"anyOf": [{"type": "array", "items": _AXIS}, _AXIS]} if member.count else _AXIS
    form = member.kind.form
    if member.entries is not None or form.entry_for_all or member.count == AXIS_COUNT:
        return {"anyOf": [form.schema, form.entry]}  # one number for all entries
    return form.schema


def _operator(operator: type[Operator]) -> Schema:
    text = inspect.getdoc(operator) or ""
    properties: Schema = {"op": {"type": "string", "description": _first_line(operator)}}
    required = ["op"]
    for name, member in operator.fields.items():
        field: Schema
        if name in operator.output_fields:
            asked = {"$ref": f"#/$defs/{OUTPUT}"}
            parts = {"anyOf": [{"type": "array", "items": {"anyOf": [_SIZE, asked]}}, _SIZE]}
            field = parts if member.kind is Kind.TENSORS else asked
            if member.optional:
                field = {"anyOf": [{"type": "boolean"}, field]}
        elif name in operator.input_fields:
            several = {"type": "array", "items": _REFERENCE}
            field = several if member.kind is Kind.TENSORS else _REFERENCE
        elif member.kind is Kind.ENUM:
            field = {"enum": operator.enumeration(name).names()}
        else:
            field = _attribute(member)
        if member.required:
            required.append(name)
        elif name in operator.input_fields or member.default is None:
            field = {"anyOf": [field, {"type": "null"}]}
        properties[name] = field
    for name, takes, default in field_rows(operator):
        rest = f"{takes}, {default}" if default else takes
        properties[name] = _told(properties[name], f"{operator.meaning(name)} Takes: {rest}.")
    shown = f"{text}\n\n```yaml\n{example(operator)}```"
    return _object(properties, required, description=text, markdownDescription=shown)


def _first_line(operator: type[Operator]) -> str:
    return (inspect.getdoc(operator) or "").partition("\n")[0]
