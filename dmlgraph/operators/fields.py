"""The kinds of fields an operator's struct has, as annotations for the classes that declare operators.

    class Gemm(Operator, dml="GEMM"):
        a: Input
        c: OptionalInput = None
        output: Output = inferred()
        trans_a: MatrixTransform = MatrixTransform.NONE
        alpha: Float = 1.0

Each annotation says both what Pydantic accepts and which kind of C member the value becomes (`Kind`).
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, GetJsonSchemaHandler, PlainValidator
from pydantic_core import PydanticCustomError

from dmlgraph.errors import Problem, ScalarError
from dmlgraph.operators.numerics import convert
from dmlgraph.scalar import Scalar, check_number
from dmlgraph.tensor import DataType, DataTypeField, TensorDesc, refusal


class Kind(enum.Enum):
    """The C member a field becomes."""

    TENSOR = "tensor"  # const DML_TENSOR_DESC*, null when absent
    TENSORS = "tensors"  # const DML_TENSOR_DESC* to an array
    UINT = "u32"
    INT = "i32"
    FLOAT = "f32"
    BOOL = "bool"
    ENUM = "enum"
    DATA_TYPE = "data_type"  # DML_TENSOR_DATA_TYPE
    SCALAR = "scalar"  # DML_SCALAR_UNION
    UINTS = "u32s"  # const UINT* to an array
    INTS = "i32s"
    FLOATS = "f32s"
    SCALE_BIAS = "scale_bias"  # const DML_SCALE_BIAS*, null when absent
    SIZE_2D = "size_2d"  # DML_SIZE_2D
    OPERATOR = "operator"  # const DML_OPERATOR_DESC*, null when absent
    OPERATORS = "operators"  # const DML_OPERATOR_DESC* to an array

    @property
    def native(self) -> str:
        """The native module's name for the member."""
        return "enum" if self is Kind.DATA_TYPE else self.value


class Role(enum.Enum):
    """Whether a tensor field is read or written."""

    INPUT = "input"
    OUTPUT = "output"


@dataclasses.dataclass(frozen=True, slots=True)
class Count:
    """Marks an array field: its length is the struct member `member`, which stands before the first array."""

    member: str


@dataclasses.dataclass(frozen=True, slots=True)
class TypedBy:
    """Marks a scalar field: its data type is that of the field `field`."""

    field: str


@dataclasses.dataclass(frozen=True, slots=True)
class Number:
    """A number whose data type is not known yet: what a scalar field holds until its operator is complete."""

    value: object


class ScaleBias(BaseModel):
    """DML_SCALE_BIAS: x · scale + bias, applied to the input before the operator's function."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    scale: Float = 1.0
    bias: Float = 0.0

    def apply(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """x · scale + bias, rounded after each step: in float32 or wider.

        Measured: integers are scaled in float32 and become 32-bit integers again, cut and saturated.
        """
        if x.dtype.kind == "f":
            floats: np.ndarray[Any, Any] = x * x.dtype.type(self.scale) + x.dtype.type(self.bias)
            return floats
        scaled = x.astype(np.float32) * np.float32(self.scale) + np.float32(self.bias)
        return convert(scaled, DataType.UINT32 if x.dtype.kind == "u" else DataType.INT32)


def _refuse(message: str, got: object, allowed: str | None = None) -> PydanticCustomError:
    return refusal(Problem(message, got=got, allowed=allowed))


def _integer(low: int, high: int) -> BeforeValidator:
    def validate(value: object) -> int:
        whole = value
        if isinstance(value, np.integer):
            whole = int(value)
        if isinstance(whole, bool) or not isinstance(whole, int):
            raise _refuse("must be an integer", value)
        if not low <= whole <= high:
            raise _refuse("is out of range", whole, f"{low} to {high}")
        return whole

    return BeforeValidator(validate)


def _float(value: object) -> float:
    """A number as the float32 it becomes in the struct; rounded here, so that equal structs are equal fields."""
    try:
        return float(Scalar.of(check_number(value), DataType.FLOAT32).value)
    except ScalarError as error:
        raise refusal(*error.problems) from None


def _boolean(value: object) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise _refuse("must be true or false", value)
    return bool(value)


def as_list(value: object) -> object:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise _refuse("must be a list", value)
    return tuple(value)


class _NumberSchema:
    """JSON Schema of a scalar field: a number, or the bits of one."""

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        bits = {"type": "object", "properties": {"bits": {"type": ["string", "integer"]}}}
        return {"anyOf": [{"type": "number"}, bits | {"required": ["bits"], "additionalProperties": False}]}


def _number(value: object) -> Number | Scalar:
    return value if isinstance(value, (Number, Scalar)) else Number(value)


_UINT_MAX = 2**32 - 1

Input = Annotated[TensorDesc, Kind.TENSOR, Role.INPUT]
OptionalInput = Annotated[TensorDesc | None, Kind.TENSOR, Role.INPUT]
Inputs = Annotated[tuple[TensorDesc, ...], BeforeValidator(as_list), Kind.TENSORS, Role.INPUT, Count("InputCount")]
Output = Annotated[TensorDesc, Kind.TENSOR, Role.OUTPUT]
OptionalOutput = Annotated[TensorDesc | None, Kind.TENSOR, Role.OUTPUT]
Outputs = Annotated[tuple[TensorDesc, ...], Kind.TENSORS, Role.OUTPUT, Count("OutputCount")]

UInt = Annotated[int, _integer(0, _UINT_MAX), Field(ge=0, le=_UINT_MAX), Kind.UINT]
Int = Annotated[int, _integer(-(2**31), 2**31 - 1), Kind.INT]
_Float32 = Annotated[float, BeforeValidator(_float)]
Float = Annotated[_Float32, Field(validate_default=True), Kind.FLOAT]
Bool = Annotated[bool, BeforeValidator(_boolean), Kind.BOOL]
# The arrays want a Count beside them: Annotated[UInts, Count("AxisCount")].
UInts = Annotated[tuple[UInt, ...], BeforeValidator(as_list), Kind.UINTS]
Ints = Annotated[tuple[Int, ...], BeforeValidator(as_list), Kind.INTS]
Floats = Annotated[tuple[_Float32, ...], BeforeValidator(as_list), Kind.FLOATS]
# (width, height), in DML_SIZE_2D's order.
Size2d = Annotated[tuple[UInt, UInt], BeforeValidator(as_list), Kind.SIZE_2D]
OptionalScaleBias = Annotated[ScaleBias | None, Kind.SCALE_BIAS]
# A scalar wants a TypedBy beside it: Annotated[ScalarValue, TypedBy("value_data_type")].
ScalarValue = Annotated[Scalar, PlainValidator(_number), _NumberSchema(), Kind.SCALAR]
# The data type a scalar is in; left out it is that of the output.
ScalarDataType = Annotated[DataTypeField, Kind.DATA_TYPE]


def inferred() -> Any:
    """The default of outputs and of scalar data types: worked out when the operator is made."""
    return Field(default=None)
