"""The fields of an operator → the members of its struct in a model."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dmlgraph.base.errors import OperatorError
from dmlgraph.base.scalar import Scalar
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.formats.dxdispatch.descs import at
from dmlgraph.formats.dxdispatch.names import enumeration_name, operator_type
from dmlgraph.operators.declaration.enumeration import Enumeration
from dmlgraph.operators.declaration.fields import Kind, ScaleBias
from dmlgraph.operators.declaration.fused import FusedActivation
from dmlgraph.operators.declaration.operator import Operator


def members(operator: Operator | FusedActivation) -> dict[str, Any]:
    """The members of an operator's struct in order, without null pointers (which include a fused operator's tensors).

    Raises:
        OperatorError: the format cannot express the payload of a NaN.
    """
    found = {}
    for member, value in operator.struct_values():
        if value is not None:
            with at(member.name):
                found[member.name] = _WRITERS.get(member.kind, _plain)(value)
    return found


def tensor(desc: TensorDesc) -> dict[str, Any]:
    """A DML_TENSOR_DESC without the members that follow from others."""
    found: dict[str, Any] = {"DataType": desc.dtype.name, "Sizes": list(desc.sizes)}
    if desc.strides is not None:
        found["Strides"] = list(desc.strides)
    return found | ({"Flags": "OWNED_BY_DML"} if desc.owned else {})


def plain_number(scalar: Scalar) -> int | float | str:
    """The shortest number that the runner reads as this one; infinities and NaN as text.

    The runner rounds twice: text to double, double to the type.
    """
    value = scalar.value
    if not scalar.dtype.is_float:
        return int(value)
    if not np.isfinite(value):
        return "nan" if np.isnan(value) else "inf" if value > 0 else "-inf"
    short = float(str(value))
    return (
        short
        if type(value)(np.float32(short) if scalar.dtype is DataType.FLOAT16 else short) == value
        else float(value)
    )


def _plain(value: Any) -> Any:
    return value


def _float(value: float) -> int | float | str:
    return plain_number(Scalar.of(value, DataType.FLOAT32))


def _enumerator(value: Enumeration) -> str:
    return f"{enumeration_name(type(value))}_{value.name}"


def _scalar(scalar: Scalar) -> Any:
    """A DML_SCALAR_UNION: a finite number, or else the union with the member of the type."""
    number = plain_number(scalar)
    if not isinstance(number, str):
        return number
    if scalar.dtype is DataType.FLOAT16:
        return {"UInt16": scalar.bits}
    if math.isnan(float(number)) and scalar != Scalar.of(math.nan, scalar.dtype):
        raise OperatorError(
            "the format has only one NaN, and this one has other bits", code="does-not-fit", got=str(scalar)
        )
    return {scalar.dtype.name.capitalize(): number}


def _scale_bias(both: ScaleBias) -> dict[str, Any]:
    return {"Scale": _float(both.scale), "Bias": _float(both.bias)}


def _activation(activation: FusedActivation) -> dict[str, Any]:
    return {"Type": operator_type(activation.operator)} | members(activation)


_WRITERS: dict[Kind, Callable[[Any], Any]] = {
    Kind.TENSOR: tensor,
    Kind.TENSORS: lambda descs: [tensor(desc) for desc in descs],
    Kind.FLOAT: _float,
    Kind.ENUM: _enumerator,
    Kind.DATA_TYPE: lambda dtype: dtype.name,
    Kind.SCALAR: _scalar,
    Kind.UINTS: list,
    Kind.INTS: list,
    Kind.FLOATS: lambda values: [_float(each) for each in values],
    Kind.SCALE_BIAS: _scale_bias,
    Kind.SIZE_2D: lambda size: {"Width": size[0], "Height": size[1]},
    Kind.OPERATOR: _activation,
    Kind.OPERATORS: lambda activations: [_activation(each) for each in activations],
}
