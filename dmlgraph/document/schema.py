"""JSON Schema of graph files, for editors; generated from the operators' classes."""

from __future__ import annotations

import inspect
from typing import Any

from dmlgraph.codes import WARNINGS
from dmlgraph.document.reader import FORMAT_VERSION
from dmlgraph.levels import FeatureLevel
from dmlgraph.operators.declaration.fields import Kind, Schema
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.declaration.struct import Member
from dmlgraph.operators.registry import REGISTRY
from dmlgraph.tensor import MAX_RANK

_REFERENCE = {"type": "string", "description": "an input, constant or node; node.field for one of several outputs"}
_COMPUTED = {"type": "string", "description": "a dim, or an expression over dims"}
_SIZE = {"anyOf": [{"type": "integer", "minimum": 1}, _COMPUTED]}
_STRIDE = {"anyOf": [{"type": "integer", "minimum": 0}, _COMPUTED]}
_DTYPE = Kind.DATA_TYPE.form.schema
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


_OUTPUT = _object({"dtype": _DTYPE, "sizes": _list(_SIZE), "strides": _list(_STRIDE)})


_CONSTANT_IN_FILE = _object({"file": {"type": "string"}, "dtype": _DTYPE, "sizes": _list(_SIZE)}, ["file"])
_CONSTANT = _object(
    {"dtype": _DTYPE, "sizes": _list(_SIZE), "data": {"type": "array"}},
    ["dtype", "sizes", "data"],
)


def schema() -> Schema:
    """The JSON Schema (draft 2020-12) of a graph file."""
    operators = sorted(REGISTRY.values(), key=lambda each: each.name)
    return _object(
        {
            "dmlgraph": {"const": FORMAT_VERSION, "description": "the format version"},
            "name": {"type": "string"},
            "target": {
                "enum": [str(level) for level in FeatureLevel],
                "description": "the feature level at which the graph must be legal",
            },
            "allow": {
                "type": "array",
                "items": {"enum": list(WARNINGS)},
                "description": "codes of warnings that are not reported",
            },
            "dims": _named({"type": "integer", "minimum": 1}),
            "inputs": _named(
                _object(
                    {"dtype": _DTYPE, "sizes": _list(_SIZE), "strides": _list(_STRIDE), "owned": {"type": "boolean"}},
                    ["dtype", "sizes"],
                )
            ),
            "constants": _named({"anyOf": [_CONSTANT_IN_FILE, _CONSTANT]}),
            "nodes": _named(
                {
                    "type": "object",
                    "required": ["op"],
                    "properties": {"op": {"enum": [name for each in operators for name in _names(each)]}},
                    "allOf": [_rule(each) for each in operators],
                }
            ),
            "outputs": {"anyOf": [{"type": "array", "items": _REFERENCE, "minItems": 1}, _named(_REFERENCE)]},
        },
        ["dmlgraph", "outputs"],
        **{
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "dmlgraph graph file",
            "$defs": {each.name: _operator(each) for each in operators},
        },
    )


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
        return {"type": "array", "items": _AXIS} if member.count else _AXIS
    form = member.kind.form
    if member.entries is not None or form.entry_for_all:
        return {"anyOf": [form.schema, form.entry]}  # one number for all entries
    return form.schema


def _operator(operator: type[Operator]) -> Schema:
    properties: Schema = {"op": {"type": "string"}}
    required = ["op"]
    for name, member in operator.members_by_field().items():
        info = operator.model_fields[name]
        if name in operator.output_fields:
            parts = {"anyOf": [{"type": "array", "items": {"anyOf": [_SIZE, _OUTPUT]}}, _SIZE]}
            properties[name] = parts if member.kind is Kind.TENSORS else _OUTPUT
            if member.optional:
                properties[name] = {"anyOf": [{"type": "boolean"}, properties[name]]}
        elif name in operator.input_fields:
            several = {"type": "array", "items": _REFERENCE}
            properties[name] = several if member.kind is Kind.TENSORS else _REFERENCE
        elif member.kind is Kind.ENUM:
            properties[name] = {"enum": operator.enumeration(name).names()}
        else:
            properties[name] = _attribute(member)
        if info.is_required():
            required.append(name)
        elif name in operator.input_fields or info.default is None:
            properties[name] = {"anyOf": [properties[name], {"type": "null"}]}
    return _object(properties, required, description=inspect.getdoc(operator) or "")
