"""Data types and tensor descriptions: DML_TENSOR_DATA_TYPE and DML_BUFFER_TENSOR_DESC with their rules.

A `TensorDesc` describes the layout of a tensor in a buffer: the element at coordinate c is at element offset sum(c[i] *
strides[i]).  `pack` and `unpack` copy a NumPy array into such a buffer and back.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

import numpy as np  # before ml_dtypes, whose own import of it turns an interrupt into another error

# isort: split
import ml_dtypes
from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, StrictBool, ValidationError
from pydantic_core import PydanticCustomError

from dmlgraph.base.errors import Problem, TensorError, listing, plural, suggestion

MAX_RANK = 8  # DML_TENSOR_DIMENSION_COUNT_MAX1
MAX_ELEMENTS = 2**32 - 1
MOST_ENTRIES = 8 * MAX_RANK  # the most entries of a list that are checked: the length of a longer one is wrong anyway
_MOST_PLACES = 1 << 25  # the most addresses of an output that are checked one by one


class DataType(enum.Enum):
    """A DML_TENSOR_DATA_TYPE; the value is DirectML's.

    It is equal to its name, `dtype == "float32"`, and to NumPy's type.
    """

    FLOAT32 = 1
    FLOAT16 = 2
    UINT32 = 3
    UINT16 = 4
    UINT8 = 5
    INT32 = 6
    INT16 = 7
    INT8 = 8
    FLOAT64 = 9
    UINT64 = 10
    INT64 = 11
    UINT4 = 12
    INT4 = 13

    bits: int
    numpy: np.dtype[Any]

    def __init__(self, value: int) -> None:
        name = self.name.lower()
        self.bits = int(name.lstrip("uintfloa"))
        self.numpy = np.dtype(getattr(ml_dtypes, name) if self.bits == 4 else name)

    @classmethod
    def parse(cls, value: object) -> DataType:
        """A data type from its name (`"float32"`), a NumPy or ml_dtypes type, or itself.

        Raises:
            TensorError: it is not one of DirectML's 13 types.
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            found = _BY_NAME.get(value)
        else:
            # NumPy takes None for float64.
            found = None if value is None else _BY_NUMPY.get(_numpy_type(value))
        if found is None:
            hint = suggestion(value.lower(), _BY_NAME, _ELSEWHERE) if isinstance(value, str) else None
            raise TensorError(
                "not a data type of DirectML",
                code="unknown-dtype",
                field="dtype",
                got=value,
                allowed=listing(_BY_NAME),
                hint=hint,
            )
        return found

    @property
    def is_float(self) -> bool:
        return self in (DataType.FLOAT16, DataType.FLOAT32, DataType.FLOAT64)

    @property
    def is_signed(self) -> bool:
        """Whether the type has negative numbers (floats are signed)."""
        return not self.name.startswith("U")

    @property
    def range(self) -> tuple[int, int]:
        """Smallest and largest value of an integer type."""
        if self.is_signed:
            return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        return 0, (1 << self.bits) - 1

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return _BY_NAME.get(other) is self
        return self is other or (isinstance(other, (type, np.dtype)) and _BY_NUMPY.get(_numpy_type(other)) is self)

    def __hash__(self) -> int:
        return hash(self.name.lower())

    def __str__(self) -> str:
        return self.name.lower()

    def __repr__(self) -> str:
        return f"DataType.{self.name}"


def _numpy_type(given: Any) -> np.dtype[Any] | None:
    """A type as NumPy's; None if NumPy does not know it."""
    try:
        found: np.dtype[Any] = np.dtype(given)
    except TypeError:
        return None
    return found


_BY_NAME = {str(dtype): dtype for dtype in DataType}
_BY_NUMPY: dict[np.dtype[Any] | None, DataType] = {dtype.numpy: dtype for dtype in DataType}
# Names of the types in C, PyTorch and others; booleans are uint8 in DirectML.
_ELSEWHERE = {
    **{"float": "float32", "single": "float32", "double": "float64", "half": "float16", "bool": "uint8"},
    **{"byte": "uint8", "char": "int8", "short": "int16", "int": "int32", "uint": "uint32", "long": "int64"},
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}


DataTypeName = Literal[
    "float32",
    "float16",
    "uint32",
    "uint16",
    "uint8",
    "int32",
    "int16",
    "int8",
    "float64",
    "uint64",
    "int64",
    "uint4",
    "int4",
]
# What `DataType.parse` accepts, and with it every argument that is a data type.
DataTypeLike = DataType | DataTypeName | np.dtype[Any] | type[np.generic]


def _wrap(parse: Any) -> Any:
    """A Pydantic validator of a parser that raises our errors; keeps the fields of their problems."""

    def validate(value: object) -> object:
        try:
            return parse(value)
        except TensorError as error:
            raise refusal(*error.problems) from None

    return BeforeValidator(validate)


def refusal(*problems: Problem) -> PydanticCustomError:
    """A Pydantic error that carries our problems; `problems_of` returns them."""
    return PydanticCustomError("dmlgraph", "{problems}", {"problems": problems})


def _integers(value: object, check: Callable[[int], Problem | None]) -> tuple[int, ...]:
    """A tuple of plain ints from any sequence of Python or NumPy integers.

    Raises:
        TensorError: every item that is not an integer, or for which `check` returns a problem.
    """
    # Lists and tuples first: a check against an abstract class takes as long as the rest.
    if not isinstance(value, (list, tuple, np.ndarray)) and (
        isinstance(value, (str, bytes)) or not isinstance(value, Sequence)
    ):
        raise TensorError("must be a list of integers", code="kind", got=value)
    result, problems = [], []
    for index, item in enumerate(itertools.islice(value, MOST_ENTRIES)):
        try:
            if isinstance(item, (bool, np.bool_)):
                raise TypeError
            number = operator.index(item)
        except TypeError:
            hint = "a size that is known later is a dim: declare it, with a size for now" if item is None else None
            problem: Problem | None = Problem("must be an integer", code="kind", got=item, hint=hint)
        else:
            result.append(number)
            problem = check(number)
        if problem is not None:
            problems.append(problem.within(str(index)))
    if problems:
        raise TensorError(problems)
    return tuple(result)


def _size_problem(size: int) -> Problem | None:
    if size >= 1:
        return None
    message, hint = "a size must be at least 1", None
    if size == 0:
        message += "; empty tensors do not exist in DirectML"
    elif size == -1:
        hint = "sizes are not inferred: write the number"
    return Problem(message, code="sizes", got=size, allowed="1 or more", hint=hint)


def _stride_problem(stride: int) -> Problem | None:
    if 0 <= stride <= MAX_ELEMENTS:
        return None
    return Problem(
        "a stride is a number of elements, zero to repeat", code="strides", got=stride, allowed=f"0 to {MAX_ELEMENTS}"
    )


def _sizes(value: object) -> tuple[int, ...]:
    return _integers(value, _size_problem)


def _strides(value: object) -> tuple[int, ...] | None:
    return None if value is None else _integers(value, _stride_problem)


def _data_type(value: object) -> DataType:
    """As `DataType.parse`, without the field, which the caller knows better."""
    try:
        return DataType.parse(value)
    except TensorError as error:
        raise TensorError(dataclasses.replace(problem, field=None) for problem in error.problems) from None


DataTypeField = Annotated[DataType, _wrap(_data_type), PlainSerializer(str, return_type=str, when_used="json")]


class TensorDesc(BaseModel):
    """The layout of a tensor in a buffer (DML_BUFFER_TENSOR_DESC).

    Attributes:
        dtype: the element type.
        sizes: 1 to 8 sizes, each at least 1; at most 2^32−1 elements in total.
        strides: elements to step per dimension; zero repeats (broadcasts); None: packed, row-major.
        owned: the buffer is handed to DirectML at initialisation (DML_TENSOR_FLAG_OWNED_BY_DML).

    Raises:
        TensorError: has the field, what was given and what is allowed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    dtype: DataTypeField
    sizes: Annotated[tuple[int, ...], _wrap(_sizes)]
    strides: Annotated[tuple[int, ...] | None, _wrap(_strides)] = None
    owned: StrictBool = False

    def __init__(self, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise TensorError(problems_of(error, type(self).model_fields)) from None
        _check(self)

    def __hash__(self) -> int:
        return hash((self.dtype, self.sizes, self.strides, self.owned))

    @property
    def rank(self) -> int:
        return len(self.sizes)

    @property
    def element_count(self) -> int:
        return math.prod(self.sizes)

    @property
    def packed_strides(self) -> tuple[int, ...]:
        """The strides of the same sizes packed row-major."""
        return packed_strides(self.sizes)

    @property
    def effective_strides(self) -> tuple[int, ...]:
        return self.strides if self.strides is not None else self.packed_strides

    @functools.cached_property
    def span(self) -> int:
        """The number of elements from the first to the last that the description addresses, inclusive."""
        if self.strides is None:
            return self.element_count
        return 1 + sum((size - 1) * stride for size, stride in zip(self.sizes, self.strides, strict=True))

    @functools.cached_property
    def total_bytes(self) -> int:
        """DMLCalcBufferTensorSize: the bytes of `span` elements, rounded up to a multiple of 4."""
        return ((self.span * self.dtype.bits + 7) // 8 + 3) & ~3

    @property
    def overlaps_itself(self) -> bool:
        """Whether two coordinates share an address: allowed for inputs, not for outputs."""
        return self.strides is not None and _overlaps(self.sizes, self.strides)

    def broadcast_to(self, sizes: tuple[int, ...]) -> TensorDesc:
        """The same buffer read as `sizes`, by NumPy's rules: new and repeated dimensions get stride zero.

        Raises:
            TensorError: the sizes cannot be broadcast.
        """
        if sizes == self.sizes:
            return self
        missing = len(sizes) - self.rank
        old_sizes = (1,) * missing + self.sizes
        if missing < 0 or any(old not in (1, new) for old, new in zip(old_sizes, sizes, strict=True)):
            raise TensorError(
                "cannot be broadcast", code="sizes", field="sizes", got=self.sizes, allowed=f"{list(sizes)}"
            )
        old_strides = (0,) * missing + self.effective_strides
        strides = tuple(
            0 if old == 1 and new != 1 else stride
            for old, new, stride in zip(old_sizes, sizes, old_strides, strict=True)
        )
        return TensorDesc(dtype=self.dtype, sizes=sizes, strides=strides, owned=self.owned)

    def like(self, **changes: Any) -> TensorDesc:
        """A packed, not owned description with this one's dtype and sizes, and these changes."""
        return TensorDesc(**{"dtype": self.dtype, "sizes": self.sizes} | changes)

    def pack(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """A new buffer of `total_bytes` bytes that holds `array` (shape `sizes`, the dtype's NumPy type).

        Bytes that belong to no element are zero.
        """
        elements = np.zeros(self._buffer_elements, self.dtype.numpy)
        self._view(elements)[...] = array
        if self.dtype.bits == 4:
            nibbles = elements.view(np.uint8) & 0xF
            return np.asarray(nibbles[0::2] | nibbles[1::2] << 4, np.uint8)
        return elements.view(np.uint8)

    def unpack(self, buffer: np.ndarray[Any, np.dtype[np.uint8]]) -> np.ndarray[Any, Any]:
        """The tensor in a buffer of `total_bytes` bytes: a view, or an unpacked copy for 4-bit types."""
        if self.dtype.bits == 4:
            nibbles = np.empty(self._buffer_elements, np.uint8)
            nibbles[0::2] = buffer & 0xF
            nibbles[1::2] = buffer >> 4
            if self.dtype.is_signed:
                signed = ((nibbles ^ 8) - np.uint8(8)).view(np.int8)  # sign extension, modulo 256
                return self._view(signed.astype(self.dtype.numpy))
            return self._view(nibbles.view(self.dtype.numpy))
        return self._view(buffer.view(self.dtype.numpy))

    @property
    def _buffer_elements(self) -> int:
        return self.total_bytes * 8 // self.dtype.bits

    def _view(self, elements: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        strides = [stride * elements.itemsize for stride in self.effective_strides]
        return np.lib.stride_tricks.as_strided(elements, self.sizes, strides)

    def __str__(self) -> str:
        text = f"{self.dtype} [{','.join(map(str, self.sizes))}]"
        if self.strides is not None:
            text += f" strides [{','.join(map(str, self.strides))}]"
        return text + (" owned" if self.owned else "")


def is_masked(data: object) -> bool:
    """Whether data, an array or arrays in lists, has a mask: NumPy's functions would drop it silently."""
    if isinstance(data, (list, tuple)):
        return any(map(is_masked, data))
    return isinstance(data, np.ma.MaskedArray)


MASKED = "is a masked array: tensors have no masks"
UNMASK = "array.filled(value) replaces the masked elements"


def packed_strides(sizes: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides in elements, without gaps."""
    strides = [1] * len(sizes)
    for axis in range(len(sizes) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * sizes[axis + 1]
    return tuple(strides)


def broadcast_sizes(*sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes to which NumPy would broadcast all of these.

    Raises:
        TensorError: two sizes differ and neither is 1.
    """
    first = sizes[0]
    if all(other == first for other in sizes):
        return first
    try:
        return np.broadcast_shapes(*sizes)
    except ValueError:
        raise TensorError(
            "sizes cannot be broadcast together",
            code="sizes",
            got=" and ".join(str(list(each)) for each in sizes),
            allowed="equal sizes, or 1, dimension by dimension from the right",
        ) from None


def problems_of(error: ValidationError, known: Sequence[str] | Any) -> list[Problem]:
    """The problems of a Pydantic error; `known` are the fields to suggest."""
    return [problem for details in error.errors(include_url=False) for problem in _problems(details, known)]


def _problems(details: Any, known: Sequence[str] | Any) -> Sequence[Problem]:
    given = details.get("ctx", {}).get("problems")
    if given is None:
        return [_problem(details, known)]
    field = _path(details)
    return [problem.within(field) if field else problem for problem in given]


def _path(details: Any) -> str | None:
    """The field path of an error."""
    # Strings in the path that are not field names name the branch of a union: not useful for people.
    path = [part for part in details["loc"] if not isinstance(part, str) or part.isidentifier()]
    return ".".join(map(str, path)) or None


def _problem(details: Any, known: Sequence[str] | Any) -> Problem:
    field = _path(details)
    if details["type"] == "missing":
        return Problem("must be given", code="missing", field=field)
    if details["type"] == "extra_forbidden":
        *outer, name = map(str, details["loc"])
        if outer:  # inside a field, whose fields are not `known`
            return Problem("is not known here", code="unknown-field", field=field)
        return Problem(
            "is not known here", code="unknown-field", field=name, allowed=listing(known), hint=suggestion(name, known)
        )
    if details["type"] in ("bool_type", "bool_parsing"):
        got = details["input"]
        is_word = isinstance(got, str) and got.lower() in ("yes", "no", "on", "off")
        hint = "YAML 1.2 reads yes, no, on and off as text" if is_word else None
        return Problem("must be true or false", code="kind", field=field, got=got, hint=hint)
    message = details["msg"]
    return Problem(message[:1].lower() + message[1:], code="kind", field=field, got=details["input"])


def _check(desc: TensorDesc) -> None:
    """The rules about several fields, or about all numbers of one."""
    sizes, strides = desc.sizes, desc.strides
    if not 1 <= len(sizes) <= MAX_RANK:
        raise TensorError(
            "a tensor has 1 to 8 dimensions",
            code="rank",
            field="sizes",
            got=list(sizes),
            allowed=f"1 to {MAX_RANK} sizes",
        )
    if desc.element_count > MAX_ELEMENTS:
        raise TensorError(
            "more than 2^32-1 elements",
            code="too-large",
            field="sizes",
            got=list(sizes),
            allowed=f"at most {MAX_ELEMENTS}",
        )
    if strides is None:
        return
    if len(strides) != len(sizes):
        raise TensorError(
            "there must be one stride for each size",
            code="strides",
            field="strides",
            got=list(strides),
            allowed=plural(len(sizes), "stride"),
        )
    if desc.span > MAX_ELEMENTS:
        raise TensorError(
            "the strides reach beyond 2^32-1 elements",
            code="strides",
            field="strides",
            got=list(strides),
            allowed=f"1 + sum((size - 1) * stride) of at most {MAX_ELEMENTS}",
        )


@functools.lru_cache(maxsize=4096)
def _overlaps(sizes: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    dimensions = sorted((stride, size) for size, stride in zip(sizes, strides, strict=True) if size > 1)
    # A dimension with a stride beyond the reach of all smaller strides repeats them without overlap.
    while dimensions and dimensions[-1][0] > (reach := sum((size - 1) * stride for stride, size in dimensions[:-1])):
        dimensions.pop()
    if not dimensions:
        return False
    if dimensions[0][0] == 0:
        return True
    common = math.gcd(*(stride for stride, _ in dimensions))
    dimensions = [(stride // common, size) for stride, size in dimensions]
    reach = sum((size - 1) * stride for stride, size in dimensions)
    elements = math.prod(size for _, size in dimensions)
    if elements > reach + 1:
        return True  # more elements than addresses
    if reach >= _MOST_PLACES:
        return True  # too many to check: refused rather than accepted
    places = 1  # a bitmap of the addresses of elements
    for stride, size in dimensions:
        done = 1
        while done < size:
            more = min(done, size - done)
            places |= places << stride * more
            done += more
    return places.bit_count() < elements
