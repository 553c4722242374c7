"""Makes dmlgraph/operators/data.json and dmlgraph/operators/directml_enums.py from the DirectML reference data.

tests/reference has directml_operators.json and directml_enums.json.  The results have, for every operator, its
DML_OPERATOR_TYPE value, the level that introduced it, its tensor support by feature level, which tensors must agree in
which properties, and into which operators it can be fused as an activation; and every enumeration that is a field of an
operator.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

ROOT = pathlib.Path(__file__).parents[2]
PACKAGE = ROOT / "dmlgraph" / "operators"

# Where the reference is wrong: data types of a tensor.  The library refuses the table's float types.  The lengths have
# the type that ONNX Runtime passes; their page has the other tensors' types by mistake.
MEASURED_TYPES = {
    ("ADAM_OPTIMIZER", "TrainingStepTensor"): ["UINT32"],
    ("MULTIHEAD_ATTENTION1", "PastSequenceLengthsTensor"): ["INT32"],
}
# Operators whose pages demand equal dimension counts and show examples with different ones.
UNEQUAL_DIMENSION_COUNTS = ("FOLD", "UNFOLD")

ENUMS_HEADER = '''"""The enumerations that appear as fields of operators; values are DirectML's.

Made by tools/generate.py: change the script, not this file.
"""

from dmlgraph.operators.declaration.enumeration import Enumeration

'''


def level(text: str) -> str:
    return text.replace("_", ".")


def tensor_row(operator: str, row: dict[str, Any], type_sets: list[str]) -> list[Any]:
    """[tensor, least rank, greatest rank, index of its type set] and the functions to which it applies, if any."""
    types = " ".join(MEASURED_TYPES.get((operator, row["tensor"]), row["types"])).lower()
    if types not in type_sets:
        type_sets.append(types)
    compact = [row["tensor"], *row["dims"], type_sets.index(types)]
    if "functions" in row:
        compact.append(" ".join(name.lower() for name in row["functions"]))
    return compact


def agreeing(operator: str, rule: dict[str, Any]) -> list[str]:
    """The tensors of a rule, without those whose data type was measured to be another."""
    apart = [
        tensor for tensor in rule["tensors"] if "DataType" in rule["same"] and (operator, tensor) in MEASURED_TYPES
    ]
    return [tensor for tensor in rule["tensors"] if tensor not in apart]


def operator_data(operators: list[dict[str, Any]]) -> str:
    """The data file's text: one line per operator, so that a change is a small diff."""
    type_sets: list[str] = []
    lines = []
    for operator in operators:
        entry = {
            "value": operator["enum_value"],
            "introduced": level(operator["introduced_feature_level"]),
            "levels": {
                level(key): [tensor_row(operator["name"], row, type_sets) for row in rows]
                for key, rows in operator["tensor_support"].items()
            },
            "same": [
                [agreeing(operator["name"], rule), rule["same"]]
                for rule in operator["same_constraints"]
                if operator["name"] not in UNEQUAL_DIMENSION_COUNTS
            ],
        }
        if operator.get("fusable_into"):
            entry["fusable"] = [level(operator["fusable_since"]), operator["fusable_into"]]
        lines.append(f"{json.dumps(operator['name'])}: {json.dumps(entry, separators=(',', ':'))}")
    types = ",\n".join(json.dumps(each) for each in type_sets)
    return f'{{"types": [\n{types}\n],\n"operators": {{\n' + ",\n".join(lines) + "\n}}\n"


def class_name(enum: str) -> str:
    return "".join(word.capitalize() for word in enum.removeprefix("DML_").split("_"))


def enums_module(enums: list[dict[str, Any]], used: set[str]) -> str:
    """The text of the module with one class for each enumeration that operators use."""
    classes = []
    for enum in enums:
        if enum["name"] not in used:
            continue
        members = [
            f"    {member['name'].removeprefix(enum['name'] + '_')} = {member['value']}" for member in enum["members"]
        ]
        classes.append(
            f"\nclass {class_name(enum['name'])}(Enumeration):\n"
            f'    """{enum["name"]}"""\n\n' + "\n".join(members) + "\n"
        )
    return ENUMS_HEADER + "\n".join(classes)


def files(folder: pathlib.Path = ROOT / "tests" / "reference") -> dict[pathlib.Path, str]:
    operators = json.loads((folder / "directml_operators.json").read_text(encoding="utf-8"))["operators"]
    enums = json.loads((folder / "directml_enums.json").read_text(encoding="utf-8"))["enums"]
    used = {field["enum"] for operator in operators for field in operator["fields"] if field.get("enum")}
    return {
        PACKAGE / "data.json": operator_data(operators),
        PACKAGE / "directml_enums.py": enums_module(enums, used - {"DML_TENSOR_DATA_TYPE"}),
    }
