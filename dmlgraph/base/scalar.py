"""Scalar: one number and its data type, as the 8 bytes of DML_SCALAR_UNION.

The rules, for any Python or NumPy number:

- float types accept every real number, rounded once to nearest even; a finite number beyond the type's range is an
error (write infinity if you mean it).  NaN payloads and −0.0 are kept.  - integer types accept whole numbers (also
3.0).  An unsigned type of N bits stores a negative number down to −2^(N−1) as its two's complement.  A fraction, NaN,
infinity or a number that does not fit is an error.  - `{"bits": 0x7FC00001}` is a bit pattern, for any type.
"""

from __future__ import annotations

import dataclasses
import fractions
import math
import numbers
import operator
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np

from dmlgraph.base.errors import ScalarError
from dmlgraph.base.tensor import DataType

UNION_BYTES = 8
# Beyond the range of every float type; the exact value of a number with a larger exponent would fill memory.
_DECIMAL_EXPONENT_LIMIT = 1000


@dataclasses.dataclass(frozen=True, slots=True)
class Scalar:
    """A number of a data type, stored as its bit pattern (an int of `dtype.bits` bits)."""

    dtype: DataType
    bits: int

    @classmethod
    def of(cls, value: object, dtype: DataType) -> Scalar:
        """The number `value` as a `dtype`, by the rules above.

        Raises:
            ScalarError: not a number, or the type cannot hold it; the message says why.
        """
        if isinstance(value, Scalar):
            if value.dtype is not dtype:
                raise ScalarError("has another data type", code="dtype", got=f"a {value.dtype}", allowed=f"a {dtype}")
            return value
        if isinstance(value, Mapping):
            return cls(dtype, _bit_pattern(value, dtype))
        if isinstance(value, np.generic) and value.dtype == dtype.numpy:
            return cls(dtype, _numpy_bits(value, dtype))
        return cls(dtype, (_float_bits if dtype.is_float else _integer_bits)(check_number(value), dtype))

    @property
    def union(self) -> bytes:
        """The 8 bytes of DML_SCALAR_UNION: little-endian, the upper bytes zero."""
        return self.bits.to_bytes(UNION_BYTES, "little")

    @property
    def value(self) -> Any:
        """The number as a scalar of the type's NumPy type."""
        if self.dtype.bits == 4:
            low, high = self.dtype.range
            return self.dtype.numpy.type(self.bits if self.bits <= high else self.bits + 2 * low)
        return np.frombuffer(self.union, self.dtype.numpy, 1)[0]

    @property
    def plain(self) -> int | float | dict[str, str]:
        """A form that reads back as this scalar: a Python number, or its bits where a number would lose some."""
        number: int | float = self.value.item() if self.dtype.bits > 4 else int(self.value)
        number = math.nan if math.isnan(number) else number  # in text every NaN is the same
        if Scalar.of(number, self.dtype) == self:
            return number
        return {"bits": f"0x{self.bits:0{self.dtype.bits // 4}x}"}

    def __str__(self) -> str:
        # NumPy's text is the shortest that reads back in the type: 0.1, not 0.10000000149011612.
        return str(self.plain if isinstance(self.plain, dict) else self.value)


def check_number(value: object) -> int | float | fractions.Fraction:
    """`value` as an exact Python number.

    Raises:
        ScalarError: it is not a real number.
    """
    if isinstance(value, np.longdouble):
        finite = np.isfinite(value) and value != 0
        value = fractions.Fraction(*value.as_integer_ratio()) if finite else float(value)
    elif isinstance(value, (np.integer, np.floating)):
        value = value.item()
    elif isinstance(value, np.generic) and value.dtype.isbuiltin == 2:  # the small types of ml_dtypes
        value = float(value)
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (numbers.Real, Decimal)):
        hint = None
        if isinstance(value, str):
            hint = "a number, without quotes; infinities and NaN are .inf, -.inf and .nan in YAML"
        raise ScalarError("is not a number", code="kind", got=value, hint=hint)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, numbers.Integral):
        return operator.index(value)
    if isinstance(value, Decimal):
        return _exact(value)
    return fractions.Fraction(value) if isinstance(value, numbers.Rational) else float(value)


def _exact(number: Decimal) -> float | fractions.Fraction:
    if number.is_nan():
        return math.nan
    if not number or not number.is_finite():
        return float(number)  # a fraction has no −0.0 and no infinity
    sign, _, _ = number.as_tuple()
    if abs(number.adjusted()) > _DECIMAL_EXPONENT_LIMIT:
        number = Decimal((sign, (1,), int(math.copysign(_DECIMAL_EXPONENT_LIMIT, number.adjusted()))))
    return fractions.Fraction(number)


def array_of(data: object, dtype: DataType) -> np.ndarray[Any, Any]:
    """An array of a data type from numbers in lists, or from an array of another type, by the rules above.

    Raises:
        ScalarError: an element is not a number, or the type cannot hold it.
        TensorError: the array's type is not a DirectML data type.
    """
    if not isinstance(data, np.ndarray):
        objects = np.array(data, dtype=object)
        values = [Scalar.of(each, dtype).value for each in objects.flat]
        return np.array(values, dtype.numpy).reshape(objects.shape)
    if DataType.parse(data.dtype) is dtype:
        return data
    with np.errstate(all="ignore"):
        array = data.astype(dtype.numpy)
        if dtype.is_float:
            lost = np.isinf(array) & ~np.isinf(data.astype(np.float64))
        else:
            lost = array.astype(data.dtype) != data
    for index in zip(*np.nonzero(lost), strict=True):  # negative numbers for unsigned types, or an error
        array[index] = Scalar.of(data[index], dtype).value
    return array


def _bit_pattern(value: Mapping[str, object], dtype: DataType) -> int:
    bits = value.get("bits")
    if isinstance(bits, str):
        try:
            bits = int(bits, 0)
        except ValueError:
            bits = None
    if set(value) != {"bits"} or isinstance(bits, bool) or not isinstance(bits, int):
        raise ScalarError("is not a number", code="kind", got=dict(value), allowed="a number, or {bits: 0x…}")
    if not 0 <= bits < 1 << dtype.bits:
        raise ScalarError(
            f"is not a bit pattern of {dtype}",
            code="does-not-fit",
            got=hex(bits),
            allowed=f"0 to {(1 << dtype.bits) - 1:#x}",
        )
    return bits


def _numpy_bits(value: np.generic, dtype: DataType) -> int:
    if dtype.bits == 4:
        return int(value) & 0xF
    return int.from_bytes(value.tobytes(), "little")


def _integer_bits(number: int | float | fractions.Fraction, dtype: DataType) -> int:
    if (isinstance(number, float) and not math.isfinite(number)) or number != math.floor(number):
        raise ScalarError(f"{dtype} holds whole numbers only", code="does-not-fit", got=number)
    whole = int(number)
    low, high = dtype.range
    least = low if dtype.is_signed else -(1 << (dtype.bits - 1))
    if not least <= whole <= high:
        negatives = "" if dtype.is_signed else "; negative numbers are stored as two's complement"
        raise ScalarError(
            f"does not fit in {dtype}", code="does-not-fit", got=whole, allowed=f"{least} to {high}{negatives}"
        )
    return whole & ((1 << dtype.bits) - 1)


def _float_bits(number: int | float | fractions.Fraction, dtype: DataType) -> int:
    try:
        # Rounding to float64 happens here; a narrower type rounds once more.
        narrow = dtype is not DataType.FLOAT64
        exact = not isinstance(number, float)
        double = _to_odd(fractions.Fraction(number)) if narrow and exact else float(number)
    except OverflowError:
        double = math.inf
    with np.errstate(all="ignore"):
        rounded = np.float64(double).astype(dtype.numpy)
    if np.isinf(rounded) and number not in (math.inf, -math.inf):
        limit = np.finfo(dtype.numpy).max
        raise ScalarError(
            f"is beyond the range of {dtype}",
            code="does-not-fit",
            got=number,
            allowed=f"-{limit} to {limit}, infinity and NaN",
        )
    return int.from_bytes(rounded.tobytes(), "little")


def _to_odd(number: fractions.Fraction) -> float:
    """The number as a double whose second rounding, to a narrower type, is still correct.

    Rounding twice to nearest is wrong at the midpoints of the narrower type.  Rounding to odd (toward zero, then
    setting the last bit if anything was cut) is right, given two spare bits (Boldo and Melquiond, 2005).
    """
    double = float(number)
    exact = fractions.Fraction(double)
    if exact == number:
        return double
    if abs(exact) > abs(number):
        double = math.nextafter(double, 0.0)
    bits = np.float64(double).view(np.uint64) | np.uint64(1)
    return float(bits.view(np.float64))
