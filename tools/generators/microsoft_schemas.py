"""Makes dmlgraph/formats/onnx/microsoft_schemas.json: ONNX Runtime's schemas of com.microsoft.

The file has the operators that are read.  It is committed, because ONNX Runtime is not a dependency: this script runs
again when a rule for another operator is added.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

from onnxruntime.capi import onnxruntime_pybind11_state as runtime

from dmlgraph.formats.onnx.table import MICROSOFT, rows

# ONNX Runtime's schema demands these, and says in words what their defaults are.
OPTIONAL = {"QLinearReduceMean": ("axes", "keepdims")}
TARGET = pathlib.Path(__file__).parents[2] / "dmlgraph" / "formats" / "onnx" / "microsoft_schemas.json"


def entry(schema: Any) -> dict[str, Any]:
    """The schema of an operator as JSON."""
    optional = OPTIONAL.get(schema.name, ())
    return {
        "counts": [[schema.min_input, schema.max_input], [schema.min_output, schema.max_output]],
        "inputs": [[each.name, each.typeStr, each.option.name, each.isHomogeneous] for each in schema.inputs],
        "types": {each.type_param_str: sorted(each.allowed_type_strs) for each in schema.type_constraints},
        "attributes": {
            name: [each.type.name, each.required and name not in optional]
            for name, each in sorted(schema.attributes.items())
        },
    }


def text() -> str:
    """The file's text: one line per operator, so that a change is a small diff."""
    read = {operator for domain, operator in rows() if domain == MICROSOFT}
    found = {
        each.name: each
        for each in sorted(runtime.get_all_operator_schema(), key=lambda each: each.since_version)
        if each.domain == MICROSOFT and each.name in read
    }
    lines = [f"{json.dumps(name)}: {json.dumps(entry(found[name]), separators=(',', ':'))}" for name in sorted(read)]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def files() -> dict[pathlib.Path, str]:
    return {TARGET: text()}
