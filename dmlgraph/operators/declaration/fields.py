"""The kinds of fields of an operator's struct, as annotations for the classes that declare operators.

    class Gemm(Operator, dml="GEMM"):
        a: Input
        c: OptionalInput = None
        output: Output = inferred()
        trans_a: MatrixTransform = MatrixTransform.NONE
        alpha: Float = 1.0

Each annotation says which values Pydantic accepts, and which kind of C member they become (`Kind`).
"""

from __future__ import annotations

import dataclasses
import enum
import numbers
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainValidator,
    ValidationError,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

from dmlgraph.base.errors import Problem, ScalarError
from dmlgraph.base.scalar import Scalar, check_number
from dmlgraph.base.tensor import MOST_ENTRIES, DataType, DataTypeField, TensorDesc, problems_of, refusal
from dmlgraph.operators.common.numerics import convert

Schema = dict[str, Any]  # JSON Schema of a field in a graph file

_COMPUTED: Schema = {"type": "string", "description": "a dim, or an expression over dims"}
_INTEGER: Schema = {"type": ["integer", "string"]}
_UINT: Schema = {"anyOf": [{"type": "integer", "minimum": 0}, _COMPUTED]}
_NUMBER: Schema = {"anyOf": [{"type": "number"}, _COMPUTED]}
_BITS: Schema = {"type": "object", "properties": {"bits": {"type": ["string", "integer"]}}, "required": ["bits"]}
_ACTIVATION: Schema = {
    "anyOf": [{"type": "string"}, {"type": "object", "properties": {"op": {"type": "string"}}, "required": ["op"]}]
}
_SCALE_BIAS: Schema = {
    "type": "object",
    "properties": {"scale": _NUMBER, "bias": _NUMBER},
    "required": [],
    "additionalProperties": False,
}


def _array(entry: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": entry} | more


class Computed(enum.Enum):
    """Which numbers of a field may be expressions over dims."""

    NONE = enum.auto()
    WHOLE = enum.auto()  # its number or entries, which are whole
    REAL = enum.auto()  # its number or entries
    PARTS = enum.auto()  # those inside it, as in {scale: number, bias: number}
    INDEX = enum.auto()  # those in the text of a subscript, which are whole


@dataclasses.dataclass(frozen=True, slots=True)
class Form:
    """A kind of field in each of an operator's forms.

    Tensors and enumerations have only `native`: the rest depends on the field.

    Attributes:
        native: the native module's name for the C member.
        takes: the values of a field, in words.
        parameter: the type of the Python function's parameter.
        schema: the JSON Schema in a graph file.
        entry: the schema of an array's entry, which may be given once for all entries.
        entry_for_all: whether every field of the kind allows that; else a field's annotation does (`Entries`).
        convert: the field's value → the native module's argument; None: the value itself.
        computed: which of its numbers may be expressions over dims.
    """

    native: str
    takes: str = ""
    parameter: str = ""
    schema: Schema = dataclasses.field(default_factory=dict)
    entry: Schema = dataclasses.field(default_factory=dict)
    entry_for_all: bool = False
    convert: Callable[[Any], object] | None = None
    computed: Computed = Computed.NONE


class Kind(enum.Enum):
    """The kinds of fields, each with its forms; with the annotations below, this is the whole definition of a kind."""

    form: Form

    def __new__(cls, form: Form) -> Kind:
        kind = object.__new__(cls)
        kind._value_ = len(cls.__members__)
        kind.form = form
        return kind

    TENSOR = Form("tensor")  # const DML_TENSOR_DESC*, null when absent
    TENSORS = Form("tensors")  # const DML_TENSOR_DESC* to an array
    UINT = Form("u32", "integer ≥ 0", "Size", _UINT, computed=Computed.WHOLE)
    INT = Form("i32", "integer", "Size", _INTEGER, computed=Computed.WHOLE)
    FLOAT = Form("f32", "number", "Real", _NUMBER, computed=Computed.REAL)
    BOOL = Form("bool", "true or false", "bool", {"type": "boolean"})
    ENUM = Form("enum", convert=lambda member: member.value)
    DATA_TYPE = Form(  # DML_TENSOR_DATA_TYPE
        "enum",
        "data type",
        "DataTypeLike",
        {"enum": [str(dtype) for dtype in DataType]},
        convert=lambda dtype: dtype.value,
    )
    SCALAR = Form(  # DML_SCALAR_UNION
        "scalar",
        "number",
        "Real | Scalar | Mapping[str, Any]",
        {"anyOf": [_NUMBER, _BITS]},
        convert=lambda scalar: scalar.union,
        computed=Computed.REAL,
    )
    # const UINT*, INT*, FLOAT* to an array.
    UINTS = Form("u32s", "list of integers ≥ 0", "Sequence[Size]", _array(_UINT), _UINT, computed=Computed.WHOLE)
    INTS = Form("i32s", "list of integers", "Sequence[Size]", _array(_INTEGER), _INTEGER, computed=Computed.WHOLE)
    FLOATS = Form("f32s", "list of numbers", "Sequence[Real]", _array(_NUMBER), _NUMBER, computed=Computed.REAL)
    SCALE_BIAS = Form(  # const DML_SCALE_BIAS*, null when absent
        "scale_bias",
        "{scale: number, bias: number}",
        "ScaleBias | Mapping[str, Real]",
        _SCALE_BIAS,
        convert=lambda both: (both.scale, both.bias),
        computed=Computed.PARTS,
    )
    SIZE_2D = Form(  # DML_SIZE_2D
        "size_2d",
        "[width, height], or one number for both",
        "Sequence[Size]",
        _array(_INTEGER, minItems=2, maxItems=2),
        _INTEGER,
        entry_for_all=True,
        computed=Computed.WHOLE,
    )
    INDEX = Form(  # of a view: no C member
        "",
        'index as in NumPy, such as "1:, 0, ::2"',
        "str",
        {"type": ["string", "integer"]},
        computed=Computed.INDEX,
    )
    # const DML_OPERATOR_DESC*, null when absent, or to an array.
    OPERATOR = Form(
        "operator",
        "activation, as name or {op: name, …}",
        "str | Mapping[str, Any] | Operator",
        _ACTIVATION,
        computed=Computed.PARTS,
    )
    OPERATORS = Form(
        "operators",
        "list of activations",
        "Sequence[str | Mapping[str, Any] | Operator]",
        _array(_ACTIVATION),
        computed=Computed.PARTS,
    )


class Role(enum.Enum):
    """Whether a tensor field is read or written."""

    INPUT = "input"
    OUTPUT = "output"


@dataclasses.dataclass(frozen=True, slots=True)
class Count:
    """Marks an array field: its length is the struct member `member`, which precedes the first array."""

    member: str


@dataclasses.dataclass(frozen=True, slots=True)
class TypedBy:
    """Marks a scalar field: its data type is the field `field`'s."""

    field: str


@dataclasses.dataclass(frozen=True, slots=True)
class Entries:
    """Marks an array field with one entry per dimension of the first input; a single number is used for all.

    Attributes:
        skipped: leading dimensions without an entry: batch and channel, if only the spatial ones have one.
        default: every entry of a field that is left out; None: it is required, or the operator computes it.
    """

    skipped: int = 0
    default: float | None = None

    @property
    def of(self) -> str:
        """What each entry belongs to."""
        return "spatial dimension" if self.skipped else "dimension"


class AxesDefault(enum.Enum):
    """The default of a field for axes."""

    ALL = "all axes"
    LAST = "the last axis"
    REVERSED = "all axes, reversed"


@dataclasses.dataclass(frozen=True, slots=True)
class Axes:
    """Marks a field for an axis of the first input, or a list of axes; negative ones count from the end."""

    default: AxesDefault | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class RankOf:
    """Marks a count whose default is the number of dimensions with which the tensor `field` is given."""

    field: str


# Sources of the data type of a number given for a tensor: a field (the type of its tensor, or the requested type of an
# output), a data type, or a function of the number.
NumberSource = str | DataType | Callable[[Any], DataType]


class NumberType:
    """Marks an input that may be given as a number: its data type is that of the first of `sources` that has one.

    Fields that must have the input's own type, according to the data file, come first; a source whose type is not legal
    for the input is ignored.  In an array of inputs each member has a tuple of sources.
    """

    def __init__(self, *sources: NumberSource | tuple[NumberSource, ...]) -> None:
        self.sources = sources


def index_type(number: Any) -> DataType:
    """The data type of an index: signed if it is negative, which counts from the end."""
    return DataType.INT32 if isinstance(number, numbers.Real) and number < 0 else DataType.UINT32


class Missing(enum.Enum):
    """Whether an optional output is present by default."""

    THERE = True
    LEFT_OUT = False


@dataclasses.dataclass(frozen=True, slots=True)
class Everywhere:
    """One number that is given for all entries of an array field."""

    value: Any


class ScaleBias(BaseModel):
    """DML_SCALE_BIAS: x · scale + bias, applied to the input before the operator's function."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    scale: Float = 1.0
    bias: Float = 0.0

    @property
    def changes_nothing(self) -> bool:
        """Whether scale is 1 and bias 0, which is like no ScaleBias: −0.0 and large integers stay (measured)."""
        return self.scale == 1 and self.bias == 0

    def apply(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """x · scale + bias, rounded after each step: in float32 or wider.

        Measured: integers are scaled in float32, then truncated to 32-bit integers, which saturate.
        """
        if self.changes_nothing:
            return x
        if x.dtype.kind == "f":
            floats: np.ndarray[Any, Any] = x * x.dtype.type(self.scale) + x.dtype.type(self.bias)
            return floats
        scaled = x.astype(np.float32) * np.float32(self.scale) + np.float32(self.bias)
        return convert(scaled, DataType.UINT32 if x.dtype.kind == "u" else DataType.INT32)


def _refuse(message: str, got: object, allowed: str | None = None, *, code: str) -> PydanticCustomError:
    return refusal(Problem(message, code=code, got=got, allowed=allowed))


def _integer(low: int, high: int) -> PlainValidator:
    def validate(value: object) -> int:
        whole = value
        if isinstance(value, np.integer):
            whole = int(value)
        if isinstance(whole, bool) or not isinstance(whole, int):
            raise _refuse("must be an integer", value, code="kind")
        if not low <= whole <= high:
            raise _refuse("is out of range", whole, f"{low} to {high}", code="range")
        return whole

    return PlainValidator(validate)


def as_float32(value: object) -> float:
    """A number rounded to float32, as in the struct, so that fields of equal structs are equal."""
    try:
        return float(Scalar.of(check_number(value), DataType.FLOAT32).value)
    except ScalarError as error:
        raise refusal(*error.problems) from None


def _boolean(value: object) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise _refuse("must be true or false", value, code="kind")
    return bool(value)


def _one_for_all(value: object, validate: Callable[[object], object]) -> object:
    """A list, or a single number instead, which is checked as an entry of the list."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        return validate(value)
    try:
        entries: Any = validate((value,))
    except ValidationError as error:
        raise refusal(dataclasses.replace(problems_of(error, ())[0], field=None)) from None
    return Everywhere(entries[0])


def as_list(value: object) -> object:
    """A list with one entry per dimension or similar, so of few entries."""
    if isinstance(value, np.ndarray) and value.ndim:
        value = value.tolist()
    entries = _as_values(value)
    if len(entries) > MOST_ENTRIES:
        raise _refuse("has too many entries", len(entries), f"at most {MOST_ENTRIES}", code="count")
    return entries


AXIS_COUNT = "AxisCount"  # the count of a list of axes, for which one number may stand


def _axes(value: object) -> object:
    """A list of axes; one number is a list of one."""
    is_one = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    return as_list([value] if is_one else value)


def _as_values(value: object) -> tuple[object, ...]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise _refuse("must be a list", value, code="kind")
    return tuple(value)


def _pair(value: object) -> object:
    pair = _one_for_all(value, as_list)
    return (pair.value,) * 2 if isinstance(pair, Everywhere) else pair


_UINT_MAX = 2**32 - 1
_OneForAll = WrapValidator(_one_for_all)

Input = Annotated[TensorDesc, Kind.TENSOR, Role.INPUT]
OptionalInput = Annotated[TensorDesc | None, Kind.TENSOR, Role.INPUT]
Inputs = Annotated[tuple[TensorDesc, ...], BeforeValidator(_as_values), Kind.TENSORS, Role.INPUT, Count("InputCount")]
Output = Annotated[TensorDesc, Kind.TENSOR, Role.OUTPUT]
# Optional outputs: present unless `false` is given, and present if requested.
OptionalOutput = Annotated[TensorDesc | None, Kind.TENSOR, Role.OUTPUT, Missing.THERE]
AskedOutput = Annotated[TensorDesc | None, Kind.TENSOR, Role.OUTPUT, Missing.LEFT_OUT]
Outputs = Annotated[tuple[TensorDesc, ...], Kind.TENSORS, Role.OUTPUT, Count("OutputCount")]

UInt = Annotated[int, _integer(0, _UINT_MAX), Kind.UINT]
Int = Annotated[int, _integer(-(2**31), 2**31 - 1), Kind.INT]
_Float32 = Annotated[float, PlainValidator(as_float32)]
Float = Annotated[_Float32, Kind.FLOAT]
Bool = Annotated[bool, PlainValidator(_boolean), Kind.BOOL]
# Arrays need a Count: Annotated[UInts, Count("AxisCount")].
UInts = Annotated[tuple[UInt, ...], BeforeValidator(as_list), Kind.UINTS]
Ints = Annotated[tuple[Int, ...], BeforeValidator(as_list), Kind.INTS]
Floats = Annotated[tuple[_Float32, ...], BeforeValidator(as_list), Kind.FLOATS]
# (width, height), in DML_SIZE_2D's order; one number is both.
Size2d = Annotated[tuple[UInt, UInt], BeforeValidator(_pair), Kind.SIZE_2D]
# Lists with one entry per dimension, or per spatial one.
UIntPerDimension = Annotated[UInts, Count("DimensionCount"), Entries(), _OneForAll]
IntPerDimension = Annotated[Ints, Count("DimensionCount"), Entries(), _OneForAll]
FloatPerDimension = Annotated[Floats, Count("DimensionCount"), Entries(), _OneForAll]
UIntPerSpatial = Annotated[UInts, Count("DimensionCount"), Entries(skipped=2), _OneForAll]
OnePerSpatial = Annotated[UIntPerSpatial, Entries(skipped=2, default=1)]
ZeroPerSpatial = Annotated[UIntPerSpatial, Entries(skipped=2, default=0)]
# Axes of the first input.
Axis = Annotated[int, _integer(-(2**31), _UINT_MAX), Kind.UINT, Axes()]
AxisList = Annotated[
    tuple[Annotated[int, _integer(-(2**31), _UINT_MAX)], ...],
    BeforeValidator(_axes),
    Kind.UINTS,
    Count(AXIS_COUNT),
    Axes(),
]
AxisPlaces = Annotated[tuple[Int, ...], BeforeValidator(_axes), Kind.INTS, Count(AXIS_COUNT)]  # of the result
# Inputs that may be given as a number, whose data type is not another tensor's.
ScaleInput = Annotated[Input, NumberType(DataType.FLOAT32)]
IndexInput = Annotated[Input, NumberType(index_type)]
CountInput = Annotated[Input, NumberType(DataType.UINT32)]
OptionalCountInput = Annotated[OptionalInput, NumberType(DataType.UINT32)]
OptionalScaleBias = Annotated[ScaleBias | None, Kind.SCALE_BIAS]
# A scalar needs a TypedBy: Annotated[ScalarValue, TypedBy("value_data_type")].
ScalarValue = Annotated[Scalar, PlainValidator(lambda value: value), Kind.SCALAR]  # checked when its type is known
# The data type of a scalar; by default the output's.
ScalarDataType = Annotated[DataTypeField, Kind.DATA_TYPE]


def zero() -> Any:
    """The default of scalars whose default is 0, in any data type."""
    return 0


def inferred() -> Any:
    """The default of fields that follow from others: the operator's completion gives them."""
    return None
