"""Element-wise arithmetic: each element of the output comes from the elements at the same place of the inputs.

Sizes broadcast like NumPy's, by zero strides.  float16 is computed in float32 and rounded once; integers wrap
modulo 2^N.  Functions such as exp are computed in float64 and rounded, so the reference is right to half a
unit in the last place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from dmlgraph.errors import OperatorError, Problem
from dmlgraph.levels import FeatureLevel
from dmlgraph.operators.fields import Float, Input, OptionalScaleBias, Output, inferred
from dmlgraph.operators.numerics import accurately, convert, working
from dmlgraph.operators.operator import Array, Operator
from dmlgraph.operators.outputs import Given, Outcome
from dmlgraph.tensor import DataType


class ElementWise(Operator):
    """Base: the output has the first input's sizes (all inputs have them) and the data type of the values."""

    broadcasts: ClassVar = True

    def infer(self, given: Given) -> Outcome:
        values = self.__dict__[self.input_fields[-1]]
        return {"output": values.like()}

    def evaluate(self, *inputs: Array | None) -> tuple[Array, ...]:
        arrays = [working(array) for array in inputs if array is not None]
        with np.errstate(all="ignore"):
            return (convert(self.apply(*arrays), self.__dict__["output"].dtype),)

    def apply(self, *arrays: Array) -> Array:
        """The function on arrays in the type it is computed in."""
        raise NotImplementedError


class Unary(ElementWise):
    """Base of f(x)."""

    input: Input
    output: Output = inferred()

    def apply(self, *arrays: Array) -> Array:
        return self.function(arrays[0])

    def function(self, x: Array) -> Array:
        raise NotImplementedError


class ScaledUnary(Unary):
    """Base of f(x · scale + bias)."""

    scale_bias: OptionalScaleBias = None

    def apply(self, *arrays: Array) -> Array:
        x = arrays[0]
        return self.function(x if self.scale_bias is None else self.scale_bias.apply(x))


class Identity(ScaledUnary, dml="ELEMENT_WISE_IDENTITY"):
    """A copy of the input; with other strides for the output, a change of layout."""

    def function(self, x: Array) -> Array:
        return x


class Abs(ScaledUnary, dml="ELEMENT_WISE_ABS"):
    """|x|; the least integer stays as it is, since its opposite does not exist."""

    def function(self, x: Array) -> Array:
        return np.abs(x)


class Exp(ScaledUnary, dml="ELEMENT_WISE_EXP"):
    """e^x"""

    def function(self, x: Array) -> Array:
        return accurately(np.exp, x)


class Log(ScaledUnary, dml="ELEMENT_WISE_LOG"):
    """ln x: −infinity at zero, NaN below."""

    def function(self, x: Array) -> Array:
        return accurately(np.log, x)


class Sqrt(ScaledUnary, dml="ELEMENT_WISE_SQRT"):
    """√x, NaN below zero."""

    def function(self, x: Array) -> Array:
        return np.sqrt(x)


class Sin(ScaledUnary, dml="ELEMENT_WISE_SIN"):
    """sin x, x in radians."""

    def function(self, x: Array) -> Array:
        return accurately(np.sin, x)


class Cos(ScaledUnary, dml="ELEMENT_WISE_COS"):
    """cos x, x in radians."""

    def function(self, x: Array) -> Array:
        return accurately(np.cos, x)


class Clip(ScaledUnary, dml="ELEMENT_WISE_CLIP"):
    """max(min, min(x, max)): where min > max, min wins.

    The bounds are converted to the tensor's type first, toward zero for integers.
    """

    min: Float
    max: Float

    def function(self, x: Array) -> Array:
        low, high = (convert(np.float32(bound), DataType.parse(x.dtype)) for bound in (self.min, self.max))
        return np.fmax(low, np.fmin(x, high))


class Negate(Unary, dml="ELEMENT_WISE_NEGATE"):
    """−x; the least integer stays as it is, since its opposite does not exist."""

    def function(self, x: Array) -> Array:
        return np.negative(x)


class Cast(Operator, dml="CAST"):
    """The input's values in the output's data type, which must be given.

    A float becomes an integer by cutting its fraction; beyond the type's range it becomes the nearest bound,
    NaN becomes zero.  An integer becomes a narrower one by its low bits.  Floats round to nearest even.
    """

    output_keywords: ClassVar = ("dtype",)

    input: Input
    output: Output = inferred()

    def infer(self, given: Given) -> Outcome:
        if given["output"].dtype is None:
            raise OperatorError("must be given: it says what to cast to", field="output.dtype")
        return {"output": self.input.like(dtype=given["output"].dtype)}

    def evaluate(self, *inputs: Array | None) -> tuple[Array, ...]:
        (x,) = inputs
        assert x is not None
        return (convert(x, self.output.dtype),)


class Binary(ElementWise):
    """Base of f(a, b)."""

    a: Input
    b: Input
    output: Output = inferred()

    def apply(self, *arrays: Array) -> Array:
        return self.function(*arrays)

    def function(self, a: Array, b: Array) -> Array:
        raise NotImplementedError


class Add(Binary, dml="ELEMENT_WISE_ADD"):
    """a + b"""

    def function(self, a: Array, b: Array) -> Array:
        return a + b


class Subtract(Binary, dml="ELEMENT_WISE_SUBTRACT"):
    """a − b"""

    def function(self, a: Array, b: Array) -> Array:
        return a - b


class Multiply(Binary, dml="ELEMENT_WISE_MULTIPLY"):
    """a · b"""

    def function(self, a: Array, b: Array) -> Array:
        return a * b


class Divide(Binary, dml="ELEMENT_WISE_DIVIDE"):
    """a / b; integers cut the fraction, and give all bits set where b is zero."""

    def function(self, a: Array, b: Array) -> Array:
        if a.dtype.kind == "f":
            return a / b
        # Floor division rounds down where the signs differ and something is left over; division cuts.
        quotient = a // b
        quotient += ((a < 0) != (b < 0)) & (quotient * b != a)
        return np.where(b == 0, a.dtype.type(-1) if a.dtype.kind == "i" else ~a.dtype.type(0), quotient)


class Max(Binary, dml="ELEMENT_WISE_MAX"):
    """The greater of a and b; where one is NaN, the other."""

    def function(self, a: Array, b: Array) -> Array:
        return np.fmax(a, b)


class Min(Binary, dml="ELEMENT_WISE_MIN"):
    """The lesser of a and b; where one is NaN, the other."""

    def function(self, a: Array, b: Array) -> Array:
        return np.fmin(a, b)


class Pow(ElementWise, dml="ELEMENT_WISE_POW"):
    """input ^ exponent; the output has the input's data type.

    Two integers give an exact power, wrapped modulo 2^N; otherwise a negative base wants a whole exponent, else
    the result is NaN.  Below feature level 3.0 the exponent must have the input's data type.
    """

    input: Input
    exponent: Input
    output: Output = inferred()
    scale_bias: OptionalScaleBias = None

    def infer(self, given: Given) -> Outcome:
        return {"output": self.input.like()}

    def level_constraints(self, level: FeatureLevel) -> Iterator[Problem]:
        if level < FeatureLevel.V3_0 and self.exponent.dtype is not self.input.dtype:
            yield Problem(
                f"must have the input's data type at feature level {level}; others are legal from 3.0",
                field="exponent.dtype",
                got=str(self.exponent.dtype),
                allowed=str(self.input.dtype),
            )

    def apply(self, *arrays: Array) -> Array:
        x, exponent = arrays
        if self.scale_bias is not None:
            x = self.scale_bias.apply(x)
        if x.dtype.kind == "f" or exponent.dtype.kind == "f":
            return np.power(x.astype(np.float64), exponent.astype(np.float64))
        return _integer_power(x, exponent)


class If(ElementWise, dml="ELEMENT_WISE_IF"):
    """a where the condition (uint8) is not zero, else b."""

    condition: Input
    a: Input
    b: Input
    output: Output = inferred()

    def evaluate(self, *inputs: Array | None) -> tuple[Array, ...]:
        condition, a, b = inputs
        assert condition is not None
        assert a is not None
        assert b is not None
        return (np.where(condition != 0, a, b),)


def _integer_power(base: Array, exponent: Array) -> Array:
    """base ^ exponent modulo 2^N by squaring; a negative exponent gives the power cut toward zero."""
    result = np.ones(base.shape, base.dtype)
    square: Any = base
    remaining = np.where(exponent < 0, 0, exponent).astype(np.uint64)
    while remaining.any():
        result = np.where(remaining & np.uint64(1) != 0, result * square, result)
        square = square * square
        remaining = remaining >> np.uint64(1)
    # 1/x^n is whole only for x = ±1; for x = 0 it is infinite, which integers cannot say.
    inverse = np.where(base == 1, 1, np.where(base + base.dtype.type(1) == 0, 1 - 2 * (exponent & 1), 0))
    unsigned = base.dtype.kind == "u"
    inverse = np.where(base == 1, 1, 0) if unsigned else inverse
    return np.where(exponent < 0, inverse.astype(base.dtype), result)
