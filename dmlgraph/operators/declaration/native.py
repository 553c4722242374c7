"""An operator in the native module's form: its type and its struct's members, kind and value, in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dmlgraph import _native
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.operators.declaration.fields import Kind, Role
from dmlgraph.operators.declaration.fused import FusedActivation
from dmlgraph.operators.declaration.operator import Operator

OWNED_BY_DML = 1  # DML_TENSOR_FLAG_OWNED_BY_DML


def tensor_desc(desc: TensorDesc | None, buffer_bytes: int = 0) -> _native.TensorDesc | None:
    """A DML_BUFFER_TENSOR_DESC; None stays None, a null pointer.

    Args:
        buffer_bytes: the size of its buffer, if that may be larger than up to the tensor's last element.
    """
    if desc is None:
        return None
    flags = OWNED_BY_DML if desc.owned else 0
    total = max(desc.total_bytes, buffer_bytes)
    return _native.TensorDesc(desc.dtype.value, flags, desc.sizes, desc.strides, total)


def operator_desc(operator: Operator, buffers: Mapping[int, int] | None = None) -> _native.OperatorDesc:
    """A DML_OPERATOR_DESC.

    Args:
        buffers: the bytes of the inputs' buffers, by port.
    """
    bound = _inputs(operator, buffers) if buffers else {}
    fields = [
        (member.kind.form.native, bound[member.field] if member.field in bound else _convert(member.kind, value))
        for member, value in operator.struct_values()
    ]
    return _native.OperatorDesc(operator.support().value, fields)


def _activation_desc(activation: FusedActivation) -> _native.OperatorDesc:
    fields = [(member.kind.form.native, _convert(member.kind, value)) for member, value in activation.struct_values()]
    return _native.OperatorDesc(activation.operator.support().value, fields)


def _inputs(operator: Operator, buffers: Mapping[int, int]) -> dict[str, Any]:
    """The input fields, each tensor with the bytes of its buffer."""
    descs = enumerate(operator.input_descs)
    return operator.by_field(Role.INPUT, {port: tensor_desc(desc, buffers.get(port, 0)) for port, desc in descs})


def _convert(kind: Kind, value: Any) -> object:
    convert = _DESCS.get(kind) or kind.form.convert
    return value if convert is None or value is None else convert(value)


# The kinds that contain descs.
_DESCS: dict[Kind, Callable[[Any], object]] = {
    Kind.TENSOR: tensor_desc,
    Kind.TENSORS: lambda descs: [tensor_desc(desc) for desc in descs],
    Kind.OPERATOR: _activation_desc,
    Kind.OPERATORS: lambda activations: [_activation_desc(each) for each in activations],
}
