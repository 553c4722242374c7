"""DirectML's spelling of names in models: enumerations, data types, operators, and members of structs.

The runner accepts an enumerator with or without the name of its enumeration: `DML_REDUCE_FUNCTION_SUM` or `SUM`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from dmlgraph.base.errors import OperatorError, listing, suggestion
from dmlgraph.base.tensor import DataType
from dmlgraph.operators.catalog.registry import REGISTRY, find
from dmlgraph.operators.declaration.enumeration import Enumeration
from dmlgraph.operators.declaration.operator import Operator

DATA_TYPE = "DML_TENSOR_DATA_TYPE"
OPERATOR = "DML_OPERATOR"
# The header has both names for one operator; the runner knows only the older one.
_OLDER_NAMES = {"SCATTER_ELEMENTS": "SCATTER"}
# The members of a tensor and of a scale and bias, by our field names.
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
        OperatorError: it is not one of the names.
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
    """The data type with this C name; raises OperatorError if no data type has it."""
    return DataType[enumerator(value, DATA_TYPE, DataType.__members__)]


def operator_class(value: object) -> type[Operator]:
    """The operator of a `Type`: `DML_OPERATOR_GEMM`, or without the prefix; raises OperatorError if it is unknown."""
    short = value.removeprefix(f"{OPERATOR}_") if isinstance(value, str) else None
    # The lookup uses lower case; a name that is not in upper case is not DirectML's.
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
    """The `Type` of an operator in the runner."""
    return f"{OPERATOR}_{_OLDER_NAMES.get(operator.dml, operator.dml)}"


def member_path(operator: type[Operator], field: str) -> str:
    """A field's dotted path in the spelling of the structs: `input.sizes.1` → `InputTensor.Sizes.1`."""
    first, *rest = field.split(".")
    member = operator.fields.get(first)
    return ".".join([member.name if member else first, *(MEMBERS.get(part, part) for part in rest)])
