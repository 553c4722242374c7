"""Element-wise arithmetic: each element of the output comes from the elements at the same place of the inputs.

Sizes broadcast like NumPy's, by zero strides.  Integers wrap modulo 2^N.  float16 is computed in float32 and rounded
once; some functions are computed by DirectML's formulas, of which every step is rounded to float32: see `Unary.half`.
Functions of float32 such as exp are computed in float64 and rounded, so the reference is right to half a unit in the
last place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any, ClassVar

import numpy as np

from dmlgraph import operators as ops
from dmlgraph.base.errors import Problem
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.scalar import Scalar
from dmlgraph.base.tensor import DataType
from dmlgraph.operators.common import shader
from dmlgraph.operators.common.element_wise import (
    Binary,
    ElementWise,
    ScaledUnary,
    Unary,
    clipped,
    finite_bound,
    for_typed_store,
    holds_bound,
    plain_bound,
)
from dmlgraph.operators.common.numerics import accurate, accurately, convert, erf, greater, lesser, working
from dmlgraph.operators.common.powers import half_power, integer_power, power
from dmlgraph.operators.declaration.constraints import determined, dtype_is
from dmlgraph.operators.declaration.derivative import Backward, Gradients, Tensor, by_slope, flat, passing
from dmlgraph.operators.declaration.fields import (
    Float,
    Input,
    NumberType,
    OptionalScaleBias,
    Output,
    ScalarDataType,
    ScalarValue,
    ScaleBias,
    TypedBy,
    inferred,
)
from dmlgraph.operators.declaration.fused import (
    OptionalActivation,
    activate,
    activation_fits,
    activation_fits_level,
)
from dmlgraph.operators.declaration.operator import Array, Operator
from dmlgraph.operators.declaration.outputs import Given, Outcome
from dmlgraph.operators.declaration.traits import (
    AffineMap,
    Bounds,
    Extreme,
    NumberOfType,
    inverse,
    other_number,
    plain,
)
from dmlgraph.operators.directml_enums import RoundingMode


class Identity(ScaledUnary, dml="ELEMENT_WISE_IDENTITY"):
    """A copy of the input; with other strides for the output, a change of layout."""

    same_on_bytes: ClassVar = True
    order_preserving: ClassVar = "input"

    def affine(self, numbers: Sequence[Scalar | None]) -> AffineMap | None:
        return AffineMap.of(self.scale_bias)

    def why_copy(self) -> str | None:
        return "a copy of its input" if self.scale_bias is None else None

    def function(self, x: Array) -> Array:
        return x

    @by_slope
    def derivative(self, back: Backward, x: Tensor) -> float:
        return 1.0


class Abs(ScaledUnary, dml="ELEMENT_WISE_ABS"):
    """|x|; the least integer is unchanged, because its opposite does not exist, but −128 in int8 becomes 127."""

    idempotent: ClassVar = True

    def function(self, x: Array) -> Array:
        return np.abs(for_typed_store(x))

    @by_slope
    def derivative(self, back: Backward, x: Tensor) -> Tensor:
        return back(ops.Sign, x)


class Exp(ScaledUnary, dml="ELEMENT_WISE_EXP"):
    """The exponential function: e^x."""

    half_type: ClassVar = np.float32
    function: ClassVar = accurate(np.exp)

    def half(self, x: Array) -> Array:
        return shader.exp(x)

    @by_slope
    def derivative(self, back: Backward, x: Tensor) -> Tensor:
        return back.y


class Log(ScaledUnary, dml="ELEMENT_WISE_LOG"):
    """The natural logarithm: −infinity at zero, NaN below.

    DirectML computes that of float16 as log2 x · ln 2 in float16, within 2 units in the last place (measured).
    """

    function: ClassVar = accurate(np.log)

    @by_slope
    def derivative(self, back: Backward, x: Tensor) -> Tensor:
        return back(ops.Recip, x)


class Sqrt(ScaledUnary, dml="ELEMENT_WISE_SQRT"):
    """The square root of x, NaN below zero."""

    function: ClassVar = np.sqrt

    @by_slope
    def derivative(self, back: Backward, x: Tensor) -> Tensor:
        return 0.5 / back.y


class Clip(ScaledUnary, dml="ELEMENT_WISE_CLIP"):
    """max(min, min(x, max)): if min > max, min wins.

    The bounds are first converted to the tensor's type, toward zero for integers.
    """

    example: ClassVar = "min: 0, max: 6"

    min: Float
    max: Float

    def bounds(self, numbers: Sequence[Scalar | None]) -> Bounds | None:
        if math.isnan(self.min) or math.isnan(self.max):
            return None
        low, high = (plain_bound(each, self.input.dtype) for each in (self.min, self.max))
        return Bounds.between(low, high)

    def as_activation(self) -> tuple[type[Operator], Mapping[str, Any]] | None:
        if self.scale_bias is None:
            return Clip, {"min": self.min, "max": self.max}
        scaled = AffineMap.of(self.scale_bias)
        is_unit = self.min == 0.0 and self.max == 1.0
        return (ops.ActivationHardSigmoid, {"alpha": scaled.scale, "beta": scaled.bias}) if is_unit else None

    def function(self, x: Array) -> Array:
        low, high = (finite_bound(number, self.input.dtype) for number in (self.min, self.max))
        return greater(low, lesser(x, high))

    def derivative(self, back: Backward) -> Gradients:
        return clipped(self, back, self.min, self.max)


class Recip(ScaledUnary, dml="ELEMENT_WISE_RECIP"):
    """The reciprocal: 1 / x."""

    def function(self, x: Array) -> Array:
        return np.asarray(x.dtype.type(1) / x)

    @by_slope
    def derivative(self, back: Backward, x: Tensor) -> Tensor:
        return -(back.y * back.y)


class Erf(ScaledUnary, dml="ELEMENT_WISE_ERF"):
    """The error function, 2/√π ∫ e^(−t²) dt from 0 to x; measured: DirectML approximates it within 5e-7."""

    half_type: ClassVar = np.float32
    function: ClassVar = accurate(erf)

    def half(self, x: Array) -> Array:
        return shader.erf(x)

    @by_slope
    def derivative(self, back: Backward, x: Tensor) -> Tensor:
        return back(ops.Exp, -(x * x)) * (2 / math.sqrt(math.pi))


class Floor(ScaledUnary, dml="ELEMENT_WISE_FLOOR"):
    """The greatest whole number that is not above x."""

    idempotent: ClassVar = True
    function: ClassVar = np.floor

    derivative = flat


class Ceil(ScaledUnary, dml="ELEMENT_WISE_CEIL"):
    """The least whole number that is not below x."""

    idempotent: ClassVar = True
    function: ClassVar = np.ceil

    derivative = flat


class Round(Unary, dml="ELEMENT_WISE_ROUND"):
    """The nearest whole number, or the one toward zero.

    For halves `halves_to_nearest_even` takes the even number, and `toward_infinity` the one farther from zero;
    `toward_zero` truncates the fraction.  `toward_infinity` is sign(x) · ⌊|x| + ½⌋ in float32 (measured): a sum that is
    rounded up, such as that of 0.49999997, gives the next whole number.
    """

    meanings: ClassVar = {"rounding_mode": "How numbers are rounded: halves, or all of them toward zero."}

    rounding_mode: RoundingMode = RoundingMode.HALVES_TO_NEAREST_EVEN

    def function(self, x: Array) -> Array:
        return _ROUNDINGS[self.rounding_mode](x)

    derivative = flat


def _halves_away(x: Array) -> Array:
    return np.asarray(np.sign(x) * np.floor(np.abs(x) + x.dtype.type(0.5)))


_ROUNDINGS: dict[RoundingMode, Callable[[Array], Array]] = {
    RoundingMode.HALVES_TO_NEAREST_EVEN: np.rint,
    RoundingMode.TOWARD_ZERO: np.trunc,
    RoundingMode.TOWARD_INFINITY: _halves_away,
}


class Sign(Unary, dml="ELEMENT_WISE_SIGN"):
    """−1 below zero, 1 above, else 0, also for NaN."""

    def function(self, x: Array) -> Array:
        return np.where(x > 0, 1, np.where(x < 0, -1, 0)).astype(x.dtype)

    derivative = flat


class Threshold(ScaledUnary, dml="ELEMENT_WISE_THRESHOLD"):
    """max(x, min); the bound is first converted to the tensor's type, toward zero for integers.

    16-bit integers are compared as 32-bit ones (measured): of a bound beyond their range the low bits are stored.
    """

    example: ClassVar = "min: 0"

    min: Float

    def bounds(self, numbers: Sequence[Scalar | None]) -> Bounds | None:
        dtype = self.input.dtype
        if not holds_bound(self.min, dtype):
            return None
        is_infinite = dtype.is_float and math.isinf(self.min)
        return Bounds.above(self.min if is_infinite else plain_bound(self.min, dtype), dtype)

    def as_activation(self) -> tuple[type[Operator], Mapping[str, Any]] | None:
        return (ops.ActivationRelu, {}) if self.scale_bias is None and self.min == 0.0 else None

    def function(self, x: Array) -> Array:
        wide = x.astype(f"{x.dtype.kind}4") if x.dtype.itemsize == 2 else x
        return greater(wide, convert(np.float32(self.min), DataType.parse(wide.dtype)))

    @passing
    def derivative(self, back: Backward, x: Tensor) -> Tensor:
        return x > self.min


class ConstantPow(ScaledUnary, dml="ELEMENT_WISE_CONSTANT_POW"):
    """x ^ exponent; NaN for a negative x unless the exponent is a whole number.

    It is 2 ^ (exponent · log2 |x|), with x's sign if the exponent is odd (measured).  So 0 and ±∞ to the power of 0,
    and 1 to the power of ±∞, are NaN, and −0 counts as 0.
    """

    half_type: ClassVar = np.float32

    example: ClassVar = "exponent: 2"

    exponent: Float

    def function(self, x: Array) -> Array:
        return accurately(lambda wide: power(wide, np.asarray(self.exponent)), x)

    def half(self, x: Array) -> Array:
        return half_power(x, np.asarray(self.exponent, np.float32))

    @by_slope
    def derivative(self, back: Backward, x: Tensor) -> Tensor | float:
        if self.exponent in (0, 1):  # 0^0 is NaN
            return self.exponent
        return x * 2 if self.exponent == 2 else back(ops.ConstantPow, x, exponent=self.exponent - 1) * self.exponent


class Clip1(ScaledUnary, dml="ELEMENT_WISE_CLIP1"):
    """max(min, min(x, max)); the bounds have the tensor's type, and if min > max, min wins."""

    example: ClassVar = "min: 0, max: 6"

    min_max_data_type: ScalarDataType = inferred()
    min: Annotated[ScalarValue, TypedBy("min_max_data_type")]
    max: Annotated[ScalarValue, TypedBy("min_max_data_type")]

    def bounds(self, numbers: Sequence[Scalar | None]) -> Bounds | None:
        return Bounds.between(plain(self.min), plain(self.max))

    def function(self, x: Array) -> Array:
        return greater(working(self.min.value), lesser(x, working(self.max.value)))

    def derivative(self, back: Backward) -> Gradients:
        return clipped(self, back, plain(self.min), plain(self.max))


class Negate(Unary, dml="ELEMENT_WISE_NEGATE"):
    """−x; the least integer is unchanged, because its opposite does not exist, but −128 in int8 becomes 127."""

    involution: ClassVar = frozenset(DataType) - {DataType.INT8}  # where −(−128) is −127

    def affine(self, numbers: Sequence[Scalar | None]) -> AffineMap | None:
        return AffineMap(-1.0)

    @staticmethod
    def line(starts: Sequence[Fraction], deltas: Sequence[Fraction]) -> tuple[Fraction, Fraction]:
        return -starts[0], -deltas[0]

    def function(self, x: Array) -> Array:
        return np.negative(for_typed_store(x))

    @by_slope
    def derivative(self, back: Backward, x: Tensor) -> float:
        return -1.0


class Cast(Operator, dml="CAST"):
    """The input's values in the output's data type, which must be given.

    From float to integer the fraction is truncated, a number beyond the type's range becomes the nearest bound, and NaN
    becomes zero.  A narrower integer keeps the low bits.  Floats round to nearest even.
    """

    inner_dimensions: ClassVar = 0
    output_keywords: ClassVar = ("dtype",)
    example: ClassVar = "output: {dtype: float16}"

    input: Input
    output: Output = inferred()

    @staticmethod
    def line(starts: Sequence[Fraction], deltas: Sequence[Fraction]) -> tuple[Fraction, Fraction]:
        return starts[0], deltas[0]

    def why_copy(self) -> str | None:
        return "casts to the type its input has" if self.input.dtype is self.output.dtype else None

    def infer(self, given: Given) -> Outcome:
        dtype = determined(given["output"].dtype, "output.dtype", "it is the type to cast to")
        return {"output": self.input.like(dtype=dtype)}

    def evaluate(self, x: Array) -> tuple[Array, ...]:
        return (convert(x, self.output.dtype),)

    def derivative(self, back: Backward) -> Gradients:
        return [back(ops.Cast, back.g, dtype=back.x.dtype)]


class Add(Binary, dml="ELEMENT_WISE_ADD"):
    """The sum: a + b."""

    commutative: ClassVar = True
    neutral: ClassVar = NumberOfType(floats=-0.0, integers=0)  # x + 0.0 is not x for −0.0

    def affine(self, numbers: Sequence[Scalar | None]) -> AffineMap | None:
        return AffineMap(bias=float(other_number(numbers).value))

    @staticmethod
    def line(starts: Sequence[Fraction], deltas: Sequence[Fraction]) -> tuple[Fraction, Fraction]:
        return sum(starts, Fraction(0)), sum(deltas, Fraction(0))

    @classmethod
    def with_activation(cls) -> type[Operator]:
        return Add1

    function: ClassVar = np.add

    def derivative(self, back: Backward) -> Gradients:
        return [back.g, back.g]


class Add1(Binary, dml="ELEMENT_WISE_ADD1"):
    """An activation of the sum: activation(a + b)."""

    example: ClassVar = "fused_activation: activation_relu"

    fused_activation: OptionalActivation = None

    def constraints(self) -> Iterator[Problem]:
        return activation_fits(self, self.fused_activation)

    def level_constraints(self, level: FeatureLevel) -> Iterator[Problem]:
        return activation_fits_level(self.fused_activation, level)

    def function(self, a: Array, b: Array) -> Array:
        return activate(self.fused_activation, a + b, self.output.dtype)

    def derivative(self, back: Backward) -> Gradients:
        return [back.g, back.g]


class Subtract(Binary, dml="ELEMENT_WISE_SUBTRACT"):
    """The difference: a − b."""

    neutral: ClassVar = NumberOfType(floats=0.0, integers=0)
    cancels: ClassVar = True

    def affine(self, numbers: Sequence[Scalar | None]) -> AffineMap | None:
        number = float(other_number(numbers).value)
        return AffineMap(bias=-number) if numbers[0] is None else AffineMap(-1.0, number)

    @staticmethod
    def line(starts: Sequence[Fraction], deltas: Sequence[Fraction]) -> tuple[Fraction, Fraction]:
        return starts[0] - starts[1], deltas[0] - deltas[1]

    function: ClassVar = np.subtract

    def derivative(self, back: Backward) -> Gradients:
        return [back.g, -back.g]


class Multiply(Binary, dml="ELEMENT_WISE_MULTIPLY"):
    """The product: a · b."""

    commutative: ClassVar = True
    neutral: ClassVar = NumberOfType(floats=1.0, integers=1)
    absorbing: ClassVar = NumberOfType(integers=0)  # x · 0.0 is not 0.0 for NaN

    def affine(self, numbers: Sequence[Scalar | None]) -> AffineMap | None:
        return AffineMap(scale=float(other_number(numbers).value))

    @staticmethod
    def line(starts: Sequence[Fraction], deltas: Sequence[Fraction]) -> tuple[Fraction, Fraction]:
        (a, b), (da, db) = starts, deltas
        return a * b, da * b + a * db  # one of them is constant

    function: ClassVar = np.multiply

    def derivative(self, back: Backward) -> Gradients:
        a, b = back.given
        return [back.g * b, back.g * a]


class Divide(Binary, dml="ELEMENT_WISE_DIVIDE"):
    """The quotient: a / b; integers truncate the fraction.

    Measured: an integer divided by zero is 2^N − 1 if unsigned and −1 if signed, but 1 for a negative int8 or int32.
    """

    neutral: ClassVar = NumberOfType(floats=1.0, integers=1)

    def affine(self, numbers: Sequence[Scalar | None]) -> AffineMap | None:
        factor = None if numbers[1] is None else inverse(numbers[1])
        return None if factor is None else AffineMap(factor)

    def function(self, a: Array, b: Array) -> Array:
        if a.dtype.kind == "f":
            return a / b
        # Floor division rounds down if the signs differ and there is a remainder; division truncates.
        quotient = a // b
        quotient += ((a < 0) != (b < 0)) & (quotient * b != a)
        return np.where(b == 0, _without_quotient(a), quotient)

    def derivative(self, back: Backward) -> Gradients:
        _, b = back.given
        numerator = back.g / b
        return [numerator, -(numerator * back.y)]


class Max(Binary, dml="ELEMENT_WISE_MAX"):
    """The greater of a and b; if one is NaN, the other."""

    commutative: ClassVar = True
    idempotent: ClassVar = True
    neutral: ClassVar = NumberOfType(integers=Extreme.LEAST)  # max(x, −∞) is not x for NaN
    absorbing: ClassVar = NumberOfType(integers=Extreme.GREATEST)

    def bounds(self, numbers: Sequence[Scalar | None]) -> Bounds | None:
        number = other_number(numbers)
        return Bounds.above(plain(number), number.dtype)

    function: ClassVar = staticmethod(greater)

    def derivative(self, back: Backward) -> Gradients:
        a, b = back.given
        return _shared(back, a - b)


class Min(Binary, dml="ELEMENT_WISE_MIN"):
    """The lesser of a and b; if one is NaN, the other."""

    commutative: ClassVar = True
    idempotent: ClassVar = True
    neutral: ClassVar = NumberOfType(integers=Extreme.GREATEST)
    absorbing: ClassVar = NumberOfType(integers=Extreme.LEAST)

    def bounds(self, numbers: Sequence[Scalar | None]) -> Bounds | None:
        number = other_number(numbers)
        return Bounds.below(plain(number), number.dtype)

    function: ClassVar = staticmethod(lesser)

    def derivative(self, back: Backward) -> Gradients:
        a, b = back.given
        return _shared(back, b - a)


class Mean(Binary, dml="ELEMENT_WISE_MEAN"):
    """The mean: (a + b) / 2; the sum of integers wraps, and its half is truncated."""

    def function(self, a: Array, b: Array) -> Array:
        total = a + b
        if total.dtype.kind == "f":
            return np.asarray(total / 2)
        return np.asarray(np.where((total < 0) & (total % 2 != 0), total // 2 + 1, total // 2))

    def derivative(self, back: Backward) -> Gradients:
        half = back.g * 0.5
        return [half, half]


class DifferenceSquare(Binary, dml="ELEMENT_WISE_DIFFERENCE_SQUARE"):
    """The square of the difference: (a − b)²."""

    def function(self, a: Array, b: Array) -> Array:
        return np.asarray((a - b) * (a - b))

    def derivative(self, back: Backward) -> Gradients:
        a, b = back.given
        change = back.g * (a - b) * 2
        return [change, -change]


def _shared(back: Backward, difference: Tensor) -> Gradients:
    """The gradients of a greater or lesser number: for the operand that it is, and half for each where both are."""
    share = back(ops.Sign, difference) * 0.5 + 0.5
    first = back.g * share
    return [first, back.g - first]


class Modulus(Binary):
    """Base of a − b · whole(a / b).

    Floats are computed literally by this formula in float32, except that the quotient is replaced by the next float
    (measured).  So if a is a multiple of b except for rounding, the remainder is near 0, not near b, and it may have
    the wrong sign.  Modulo zero and infinity it is NaN.
    """

    whole: ClassVar[np.ufunc]
    remainder: ClassVar[np.ufunc]

    def function(self, a: Array, b: Array) -> Array:
        if a.dtype.kind == "f":
            quotient = a / b
            stays = (quotient == 0) | np.isinf(quotient)
            moved = np.where(stays, quotient, np.nextafter(quotient, self.beyond(quotient)))
            return np.asarray(a - b * self.whole(moved))
        return np.where(b == 0, self.by_zero(a), self.remainder(a, b))

    def beyond(self, quotient: Array) -> Array:
        """The direction in which the float after the quotient is taken."""
        raise NotImplementedError

    def by_zero(self, a: Array) -> Array:
        """The result for integers modulo zero."""
        raise NotImplementedError


class ModulusTruncate(Modulus, dml="ELEMENT_WISE_MODULUS_TRUNCATE"):
    """a − b · trunc(a / b): the remainder has the sign of a, as in C.

    Integers modulo zero have all bits set, except that int8 and int32 give a (measured).
    """

    whole: ClassVar = np.trunc
    remainder: ClassVar = np.fmod

    def beyond(self, quotient: Array) -> Array:
        return np.asarray(np.copysign(quotient.dtype.type(np.inf), quotient))

    def by_zero(self, a: Array) -> Array:
        return a if a.dtype in _DIVIDED_BY_MAGNITUDE else _without_quotient(a)

    def derivative(self, back: Backward) -> Gradients:
        a, b = back.given
        return [back.g, -(back.g * back(ops.Round, a / b, rounding_mode="toward_zero"))]


class ModulusFloor(Modulus, dml="ELEMENT_WISE_MODULUS_FLOOR"):
    """a − b · floor(a / b): the remainder has the sign of b, as in Python.

    Integers modulo zero have all bits set, except that a negative int8 or int32 gives 1 (measured).
    """

    whole: ClassVar = np.floor
    remainder: ClassVar = np.mod

    def beyond(self, quotient: Array) -> Array:
        return np.full_like(quotient, np.inf)

    def by_zero(self, a: Array) -> Array:
        return _without_quotient(a)

    def derivative(self, back: Backward) -> Gradients:
        a, b = back.given
        return [back.g, -(back.g * back(ops.Floor, a / b))]


# DirectML divides the magnitudes of these types and sets the sign afterwards.  For other signed types it divides the
# numbers themselves, which Direct3D leaves undefined if the divisor is zero.
_DIVIDED_BY_MAGNITUDE = (np.int8, np.int32)


def _without_quotient(a: Array) -> Array:
    """The result of Direct3D's division by zero: all bits set, with the sign of a if its magnitude was divided."""
    all_set = np.invert(np.zeros_like(a))
    return np.where(a < 0, -all_set, all_set) if a.dtype in _DIVIDED_BY_MAGNITUDE else all_set


class Pow(ElementWise, dml="ELEMENT_WISE_POW"):
    """input ^ exponent; the output has the input's data type.

    Two integers give an exact power modulo 2^32, stored in the output's type: 16 bits keep the low bits, 8 bits
    saturate.  Otherwise it is 2^(exponent · log2 |input|), with the sign of a negative input if the exponent is odd,
    and NaN if it is not whole.  So 0^0, NaN^0, infinity^0 and 1^NaN are NaN.  Scale and bias apply to both the input
    and the exponent.  A scaled 16-bit tensor has its own type again, and integers saturate, unless the other tensor has
    8 bits: then the power saturates instead.  All this is measured.  Below feature level 3.0 the exponent must have the
    input's data type.
    """

    input: Annotated[Input, NumberType("exponent")]
    exponent: Annotated[Input, NumberType("input")]
    output: Output = inferred()
    scale_bias: OptionalScaleBias = None

    def level_constraints(self, level: FeatureLevel) -> Iterator[Problem]:
        if level < FeatureLevel.V3_0:
            message = f"must have the input's data type at feature level {level}; others are legal from 3.0"
            yield from dtype_is("exponent", self.exponent, self.input.dtype, message, "level")

    def apply(self, *arrays: Array) -> Array:
        x, exponent = arrays
        if self.scale_bias is not None:
            x = self._scaled(self.scale_bias, x, self.input.dtype)
            exponent = self._scaled(self.scale_bias, exponent, self.exponent.dtype)
        if self.input.dtype is DataType.FLOAT16:
            return half_power(x, exponent.astype(np.float32))
        if x.dtype.kind == "f" or exponent.dtype.kind == "f":
            result = power(x.astype(np.float64), exponent.astype(np.float64))
            return result if x.dtype.kind == "f" else result.astype(np.float32)  # rounded before it is truncated
        result = integer_power(x, exponent)
        return np.clip(result, *self.input.dtype.range) if self.typed and self.input.dtype.bits == 16 else result

    @property
    def typed(self) -> bool:
        """Whether one tensor has 8 bits: then DirectML reads and writes all tensors through typed views (measured)."""
        return 8 in (self.input.dtype.bits, self.exponent.dtype.bits)

    def _scaled(self, scale_bias: ScaleBias, x: Array, dtype: DataType) -> Array:
        """x · scale + bias, for 16-bit types in the type itself."""
        if dtype.bits != 16 or self.typed:
            return scale_bias.apply(x)
        return working(convert(scale_bias.apply(x.astype(np.float32)), dtype))

    def derivative(self, back: Backward) -> Gradients:
        x, exponent = back.given
        scale = 1.0
        if exponent.dtype is not x.dtype:
            exponent = back(ops.Cast, exponent, dtype=x.dtype)
        if self.scale_bias is not None:
            scale = self.scale_bias.scale
            x, exponent = (back(ops.Identity, each, scale_bias=self.scale_bias) for each in (x, exponent))
        logarithm = back(ops.Log, back.choose(x > 0, x, 1))
        gradient = back.g * scale
        return [gradient * exponent * back(ops.Pow, x, exponent - 1), gradient * back.y * logarithm]


class If(ElementWise, dml="ELEMENT_WISE_IF"):
    """a where the condition (uint8) is not zero, else b."""

    meanings: ClassVar = {"condition": "Where it is not zero, the output is `a`, elsewhere `b`."}
    in_place: ClassVar = False
    moves: ClassVar = ("a", "b")
    idempotent: ClassVar = True
    output_keywords: ClassVar = ("dtype",)
    condition: Annotated[Input, NumberType(DataType.UINT8)]
    a: Input
    b: Input
    output: Output = inferred()

    def infer(self, given: Given) -> Outcome:
        return {"output": self.a.like()}

    def evaluate(self, condition: Array, a: Array, b: Array) -> tuple[Array, ...]:
        return (np.where(condition != 0, a, b),)

    def derivative(self, back: Backward) -> Gradients:
        condition = back.x
        return [None, back.choose(condition, back.g, 0), back.choose(condition, 0, back.g)]
