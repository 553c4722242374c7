"""DirectML's own spelling of what models name: enumerations, data types, operators, and members of structs.

The runner takes an enumerator with or without the name of its enumeration in front: `DML_REDUCE_FUNCTION_SUM` or
`SUM`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from dmlgraph.errors import OperatorError, listing, suggestion
from dmlgraph.operators.declaration.enumeration import Enumeration
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.registry import REGISTRY, find
from dmlgraph.tensor import DataType

DATA_TYPE = "DML_TENSOR_DATA_TYPE"
OPERATOR = "DML_OPERATOR"
# The header has both names for one operator; the runner knows it by the older.
_OLDER_NAMES = {"SCATTER_ELEMENTS": "SCATTER"}
# A tensor's members by the fields of TensorDesc, and a scale and bias's.
MEMBERS = {
    "dtype": "DataType",
    "sizes": "Sizes",
    "strides": "Strides",
    "owned": "Flags",
    "scale": "Scale",
    "bias": "Bias",
}


def enumeration_name(enumeration: type[Enumeration]) -> str:
    """The C name of an enumeration: ReduceFunction → DML_REDUCE_FUNCTION."""
    return "DML_" + re.sub(r"(?<!^)(?=[A-Z])", "_", enumeration.__name__).upper()


def enumerator(value: object, prefix: str, names: Iterable[str]) -> str:
    """The name of an enumerator without the prefix of its enumeration.

    Raises:
        OperatorError: none of the names.
    """
    names = list(names)
    short = value.removeprefix(f"{prefix}_") if isinstance(value, str) else None
    if short not in names:
        hint = suggestion(short.upper(), names) if short is not None else None
        raise OperatorError(
            f"is not an enumerator of {prefix}",
            code="unknown-name",
            got=value,
            allowed=listing(names),
            hint=hint or f"with or without {prefix}_",
        )
    assert short is not None
    return short


def data_type(value: object) -> DataType:
    """The data type of its C name; OperatorError if there is none."""
    return DataType[enumerator(value, DATA_TYPE, DataType.__members__)]


def operator_class(value: object) -> type[Operator]:
    """The operator of a `Type`: `DML_OPERATOR_GEMM`, or without the prefix; OperatorError if there is none."""
    short = value.removeprefix(f"{OPERATOR}_") if isinstance(value, str) else None
    # Found in lower case: what is not in DirectML's upper case is not its name.
    found = find(short.lower()) if short is not None and short == short.upper() else None
    if found is None or (short != found.dml and short != _OLDER_NAMES.get(found.dml)):
        names = [each.dml for each in REGISTRY.values()]
        hint = suggestion(short.upper(), names) if short is not None else None
        raise OperatorError(
            "is not an operator of DirectML",
            code="unknown-operator",
            got=value,
            hint=hint or "such as DML_OPERATOR_GEMM",
        )
    return found


def operator_type(operator: type[Operator]) -> str:
    """The `Type` of an operator as the runner knows it."""
    return f"{OPERATOR}_{_OLDER_NAMES.get(operator.dml, operator.dml)}"


def member_path(operator: type[Operator], field: str) -> str:
    """A field's dotted path in the spelling of the structs: `input.sizes.1` → `InputTensor.Sizes.1`."""
    first, *rest = field.split(".")
    member = operator.members_by_field().get(first)
    return ".".join([member.name if member else first, *(MEMBERS.get(part, part) for part in rest)])
