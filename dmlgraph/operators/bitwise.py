"""Operators on the raw bits of the elements: the data type only determines how many there are."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from dmlgraph.base.tensor import DataType
from dmlgraph.operators.common.element_wise import Binary, Unary
from dmlgraph.operators.common.numerics import convert
from dmlgraph.operators.declaration.operator import Array
from dmlgraph.operators.declaration.outputs import Given, Outcome
from dmlgraph.operators.declaration.traits import NumberOfType

_BITS = "it works on bits"


def bits_of(array: Array) -> Array:
    """The elements as unsigned integers of their width."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


class BitwiseBinary(Binary):
    """Base of f(a, b) on bits; the result has the inputs' type."""

    no_derivative: ClassVar = _BITS

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        arrays = [bits_of(array) for array in inputs]
        return (self.function(*arrays).view(self.output.dtype.numpy),)


class BitAnd(BitwiseBinary, dml="ELEMENT_WISE_BIT_AND"):
    """The bits set in both a and b."""

    commutative: ClassVar = True
    idempotent: ClassVar = True
    neutral: ClassVar = NumberOfType(integers=-1)
    absorbing: ClassVar = NumberOfType(integers=0)
    function: ClassVar = np.bitwise_and


class BitOr(BitwiseBinary, dml="ELEMENT_WISE_BIT_OR"):
    """The bits set in a or b, or both."""

    commutative: ClassVar = True
    idempotent: ClassVar = True
    neutral: ClassVar = NumberOfType(integers=0)
    absorbing: ClassVar = NumberOfType(integers=-1)
    function: ClassVar = np.bitwise_or


class BitXor(BitwiseBinary, dml="ELEMENT_WISE_BIT_XOR"):
    """The bits set in one of a and b."""

    commutative: ClassVar = True
    neutral: ClassVar = NumberOfType(integers=0)
    cancels: ClassVar = True
    function: ClassVar = np.bitwise_xor


class BitShiftLeft(BitwiseBinary, dml="ELEMENT_WISE_BIT_SHIFT_LEFT"):
    """a · 2^b modulo 2^N.

    Only the lowest 5 bits of b count (measured), so shifts of 8- and 16-bit types by their width to 31 give zero.
    64-bit types are shifted as two words: if the low word of b is 32 or more, it counts as 32 and its lowest 5 bits.
    """

    neutral: ClassVar = NumberOfType(integers=0)

    def function(self, a: Array, b: Array) -> Array:
        wide, count = _for_shift(a, b)
        return np.left_shift(wide, count).astype(a.dtype)


class BitShiftRight(BitwiseBinary, dml="ELEMENT_WISE_BIT_SHIFT_RIGHT"):
    """⌊a / 2^b⌋: zeros are shifted in.  The same bits of b count as in BIT_SHIFT_LEFT."""

    neutral: ClassVar = NumberOfType(integers=0)

    def function(self, a: Array, b: Array) -> Array:
        wide, count = _for_shift(a, b)
        return np.right_shift(wide, count).astype(a.dtype)


def _for_shift(a: Array, b: Array) -> tuple[Array, Array]:
    """Shaders shift words of 32 bits and mask the count by that width; narrow types are truncated afterwards."""
    if a.dtype.itemsize == 8:
        count = b.astype(np.uint32)
        return a, np.where(count < 32, count, 32 + count % 32).astype(np.uint64)
    return a.astype(np.uint32), b.astype(np.uint32) % np.uint32(32)


class BitNot(Unary, dml="ELEMENT_WISE_BIT_NOT"):
    """Every bit inverted."""

    no_derivative: ClassVar = _BITS
    involution: ClassVar = frozenset(DataType)

    def evaluate(self, x: Array) -> tuple[Array, ...]:
        return (np.invert(bits_of(x)).view(self.output.dtype.numpy),)


class BitCount(Unary, dml="ELEMENT_WISE_BIT_COUNT"):
    """How many bits are set; the output is uint8 unless uint32 is requested."""

    in_place: ClassVar = False
    output_keywords: ClassVar = ("dtype",)

    def infer(self, given: Given) -> Outcome:
        return {"output": self.input.like(dtype=given["output"].dtype or DataType.UINT8)}

    def evaluate(self, x: Array) -> tuple[Array, ...]:
        return (convert(np.bitwise_count(bits_of(x)), self.output.dtype),)
