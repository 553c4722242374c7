"""Traits: facts about an operator's function that are true of every tensor, declared in the operator's class.

Whoever asks whether an operator commutes, or what its result's bounds are, asks the class: nothing outside lists
operators.  A trait that depends on the fields is a method.  Its default says that nothing is known.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from dmlgraph.base.scalar import Scalar
from dmlgraph.base.tensor import DataType
from dmlgraph.operators.declaration.fields import ScaleBias
from dmlgraph.operators.declaration.words import FIELDS

if TYPE_CHECKING:
    from dmlgraph.base.errors import Problem
    from dmlgraph.operators.declaration.derivative import Backward, Gradients, Tensor
    from dmlgraph.operators.declaration.operator import Operator

Number = int | float


class Traits:
    """The traits of an operator without any; `Operator` has them, and its subclasses declare theirs.

    Attributes:
        commutative: f(a, b) = f(b, a).
        neutral: the b for which f(a, b) = a.
        absorbing: the number that, as either operand, is the result.
        idempotent: f(x, x) = x; of one input f(f(x)) = f(x).
        cancels: f(x, x) = 0 for integers.
        involution: the data types for which f(f(x)) = x.
        inner_dimensions: how many dimensions at the end it works along, where all others only count elements or
            matrices.  0: each element of the output comes from one of each input; None: it works along any.
        moves: the fields of which the outputs' elements are elements, where `only_moves` holds.
        order_preserving: the field of which the outputs' elements are elements, chosen by their places or their order:
            so the operator commutes with every increasing function, such as quantization.
        reduces: every element of the output comes from the elements along `axes`.
        repeatable: the fields that it reads as fast through strides of zero, with the same bits.
        heavy: evaluating it may take many operations for each element.
        multiplies_integers: it sums up products of 8-bit integers, for which processors have instructions.
        same_on_bytes: of bytes in place of 4-bit numbers it computes the same, before results are clamped.
        is_truth: its output is 0 or 1 everywhere.
        finite_only: devices differ for NaN and infinities, not only in rounding.  Measured: DirectML's fused RELU
            and its THRESHOLDED_RELU keep a NaN, and ADD1 makes −∞ a NaN.
        in_place: DirectML may write its output over an input that has the same description (measured).
        no_derivative: why it has no `derivative`, if it has none, as a phrase.
        ends_gradients: what it gives counts as constant for gradients.
        meanings: what its own fields mean, each in a sentence that an editor shows; those of its bases hold, too.
    """

    commutative: ClassVar[bool] = False
    neutral: ClassVar[NumberOfType | None] = None
    absorbing: ClassVar[NumberOfType | None] = None
    idempotent: ClassVar[bool] = False
    cancels: ClassVar[bool] = False
    involution: ClassVar[frozenset[DataType]] = frozenset()
    inner_dimensions: ClassVar[int | None] = None
    moves: ClassVar[tuple[str, ...]] = ()
    order_preserving: ClassVar[str] = ""
    reduces: ClassVar[bool] = False
    repeatable: ClassVar[tuple[str, ...]] = ()
    heavy: ClassVar[bool] = False
    multiplies_integers: ClassVar[bool] = False
    same_on_bytes: ClassVar[bool] = False
    is_truth: ClassVar[bool] = False
    finite_only: ClassVar[bool] = False
    in_place: ClassVar[bool] = False
    no_derivative: ClassVar[str] = "its rule is not written"
    ends_gradients: ClassVar[bool] = False
    meanings: ClassVar[Mapping[str, str]] = FIELDS

    def why_copy(self) -> str | None:
        """Why the only output is the first input, as a phrase; None if it is not."""
        return None

    @property
    def only_moves(self) -> bool:
        """Whether every element of the outputs is one of the fields that `moves` names, or `padded_with`."""
        return bool(self.moves)

    def padded_with(self) -> Any:
        """The number between the elements that it moves; None if it puts nothing between them."""
        return None

    @property
    def counts(self) -> bool:
        """Whether the result of a reduction of equal numbers depends on how many there are."""
        return self.reduces

    def affine(self, numbers: Sequence[Scalar | None]) -> AffineMap | None:
        """The function of one operand as a scale and a bias; None if it is not such a function.

        Args:
            numbers: by input port: the numbers that the other operands are everywhere, None for the operand.
        """
        return None

    def bounds(self, numbers: Sequence[Scalar | None]) -> Bounds | None:
        """The bounds between which it clamps one operand; None if that is not what it does.

        Args:
            numbers: as for `affine`.
        """
        return None

    @staticmethod
    def line(starts: Sequence[Fraction], deltas: Sequence[Fraction]) -> tuple[Fraction, Fraction]:
        """The first element and the step of the result for sequences with these, in real numbers."""
        raise NotImplementedError

    def with_scale_bias(self) -> tuple[type[Operator], Mapping[str, Any]] | None:
        """An operator with a ScaleBias, and its attributes, that computes the same; None if no operator does."""
        return None

    def as_activation(self) -> tuple[type[Operator], Mapping[str, Any]] | None:
        """An activation that others can apply, and its attributes, that computes the same; None if none does."""
        return None

    @classmethod
    def with_activation(cls) -> type[Operator] | None:
        """The operator with a FusedActivation that computes the same; None if no operator does."""
        return None

    def products(self) -> int:
        """The products of two numbers that it sums up, including those with padding."""
        return 0

    def operations(self) -> int:
        """The multiplications and additions of the sums of products: what its time is compared with.

        It is 0 for others: they are bound by memory on every device, so for them it is their bytes that count.
        """
        return 2 * self.products()

    def derivative(self, back: Backward) -> Gradients:
        """The gradients of the inputs, by port, from those of the outputs: nodes that it makes.

        None where the outputs do not depend on an input, or only in steps.
        """
        raise NotImplementedError

    def compose(self, back: Backward) -> Sequence[Tensor | None]:
        """The outputs by port, as nodes of simpler operators; None for those that are left out."""
        raise NotImplementedError

    @classmethod
    def has_derivative(cls) -> bool:
        return cls.derivative is not Traits.derivative

    def doubts(self, ranks: Sequence[int | None]) -> Problem | None:
        """What is legal in the operator but probably a mistake: a warning."""
        return None

    @classmethod
    def meaning(cls, field: str) -> str:
        """What a field means, in a sentence; "" if nobody has written it down."""
        declared = (vars(each).get("meanings", {}) for each in cls.__mro__)
        return next((meanings[field] for meanings in declared if field in meanings), "")


class Extreme(enum.IntEnum):
    """The least or the greatest number of an integer type; the value is its index in `DataType.range`."""

    LEAST = 0
    GREATEST = 1


class NumberOfType(NamedTuple):
    """A number of every data type: one among floats and one among integers, −1 for all bits; None: no number is."""

    floats: float | None = None
    integers: int | Extreme | None = None

    def of(self, dtype: DataType) -> Scalar | None:
        if dtype.is_float:
            return None if self.floats is None else Scalar.of(self.floats, dtype)
        if isinstance(self.integers, Extreme):
            return Scalar.of(dtype.range[self.integers], dtype)
        return None if self.integers is None else Scalar(dtype, self.integers & ((1 << dtype.bits) - 1))


class AffineMap(NamedTuple):
    """x · scale + bias, both float32 numbers.

    A bias of −0.0 adds nothing to any x, not even to a zero, where 0.0 would turn −0.0 into 0.0.
    """

    scale: float = 1.0
    bias: float = -0.0

    @classmethod
    def of(cls, scale_bias: ScaleBias | None) -> AffineMap:
        """The map of a ScaleBias field."""
        return cls() if scale_bias is None else cls(scale_bias.scale, scale_bias.bias)

    @property
    def shifts(self) -> bool:
        """Whether the bias changes anything; 0.0 changes −0.0."""
        return self.bias != 0.0 or math.copysign(1.0, self.bias) > 0

    @property
    def is_identity(self) -> bool:
        return self.scale == 1.0 and not self.shifts

    @property
    def is_left_out(self) -> bool:
        """Whether DirectML skips it, although it turns −0.0 into 0.0."""
        return self.scale == 1.0 and self.bias == 0.0 and self.shifts

    @property
    def scale_bias(self) -> ScaleBias | None:
        """The field's value; None if the map changes nothing."""
        return None if self.is_identity else ScaleBias(scale=self.scale, bias=self.bias)

    def __str__(self) -> str:
        return f"x · {self.scale:g} + {self.bias:g}" if self.shifts else f"x · {self.scale:g}"


class Bounds(NamedTuple):
    """max(low, min(x, high)), and the result for NaN; low is at most high."""

    low: Number
    high: Number
    nan: Number

    @classmethod
    def above(cls, low: Number, dtype: DataType) -> Bounds:
        """max(x, low), which gives low for NaN."""
        return cls(low, greatest(dtype), low)

    @classmethod
    def below(cls, high: Number, dtype: DataType) -> Bounds:
        """min(x, high), which gives high for NaN."""
        return cls(least(dtype), high, high)

    @classmethod
    def between(cls, low: Number, high: Number) -> Bounds | None:
        """max(low, min(x, high)), which gives the greater one for NaN; None if a bound is NaN."""
        if math.isnan(low) or math.isnan(high):
            return None
        return cls(low, max(low, high), max(low, high))

    def __call__(self, number: Number) -> Number:
        return max(self.low, min(number, self.high))

    def after(self, inner: Bounds) -> Bounds:
        """The bounds of both, `inner` applied first."""
        return Bounds(self(inner.low), self(inner.high), self(inner.nan))


def greatest(dtype: DataType) -> Number:
    return math.inf if dtype.is_float else dtype.range[1]


def least(dtype: DataType) -> Number:
    return -math.inf if dtype.is_float else dtype.range[0]


def plain(scalar: Scalar) -> Number:
    """The number of a scalar as Python's."""
    return float(scalar.value) if scalar.dtype.is_float else int(scalar.value)


def other_number(numbers: Sequence[Scalar | None]) -> Scalar:
    """The number beside the operand, which is None, of two."""
    (number,) = (each for each in numbers if each is not None)
    return number


def is_power_of_two(number: float) -> bool:
    """Whether a product with the number is exact, unless it over- or underflows."""
    return number != 0.0 and math.isfinite(number) and abs(math.frexp(number)[0]) == 0.5


def inverse(number: Scalar) -> float | None:
    """The normal float32 by which to multiply in place of a division by a number; None if that rounds."""
    if not is_power_of_two(value := float(number.value)):
        return None
    limits = np.finfo(np.float32)
    return 1.0 / value if float(limits.tiny) <= abs(1.0 / value) <= float(limits.max) else None
