"""An operator as the native module takes it: its type and its struct's members, kind and value, in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dmlgraph import _native
from dmlgraph.operators.fields import Kind
from dmlgraph.operators.operator import Operator
from dmlgraph.tensor import TensorDesc

OWNED_BY_DML = 1  # DML_TENSOR_FLAG_OWNED_BY_DML


def tensor_desc(desc: TensorDesc | None) -> _native.TensorDesc | None:
    """A DML_BUFFER_TENSOR_DESC; None stays None, a null pointer."""
    if desc is None:
        return None
    flags = OWNED_BY_DML if desc.owned else 0
    return _native.TensorDesc(desc.dtype.value, flags, desc.sizes, desc.strides, desc.total_bytes)


def operator_desc(operator: Operator) -> _native.OperatorDesc:
    """A DML_OPERATOR_DESC."""
    fields = [(member.kind.native, _convert(member.kind, value)) for member, value in operator.struct_values()]
    return _native.OperatorDesc(operator.support().value, fields)


def _convert(kind: Kind, value: Any) -> object:
    converter = _CONVERTERS.get(kind)
    return value if converter is None or value is None else converter(value)


_CONVERTERS: dict[Kind, Callable[[Any], object]] = {
    Kind.TENSOR: tensor_desc,
    Kind.TENSORS: lambda descs: [tensor_desc(desc) for desc in descs],
    Kind.ENUM: lambda member: member.value,
    Kind.DATA_TYPE: lambda dtype: dtype.value,
    Kind.SCALAR: lambda scalar: scalar.union,
    Kind.SCALE_BIAS: lambda both: (both.scale, both.bias),
    Kind.OPERATOR: operator_desc,
    Kind.OPERATORS: lambda operators: [operator_desc(each) for each in operators],
}
