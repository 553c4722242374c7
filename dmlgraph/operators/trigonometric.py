"""Circular and hyperbolic functions, element by element; angles are in radians."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from dmlgraph import operators as ops
from dmlgraph.base.tensor import DataType
from dmlgraph.operators.common import shader
from dmlgraph.operators.common.element_wise import Binary, ScaledUnary
from dmlgraph.operators.common.numerics import accurate, accurately
from dmlgraph.operators.declaration.derivative import Backward, Gradients, Tensor, by_slope
from dmlgraph.operators.declaration.operator import Array, Operator


class Sin(ScaledUnary, dml="ELEMENT_WISE_SIN"):
    """The sine of x, an angle in radians."""

    function: ClassVar = accurate(np.sin)

    @by_slope
    def derivative(self, back: Backward, x: Tensor) -> Tensor:
        return back(ops.Cos, x)


class Cos(ScaledUnary, dml="ELEMENT_WISE_COS"):
    """The cosine of x, an angle in radians."""

    function: ClassVar = accurate(np.cos)

    @by_slope
    def derivative(self, back: Backward, x: Tensor) -> Tensor:
        return -back(ops.Sin, x)


class Tan(ScaledUnary, dml="ELEMENT_WISE_TAN"):
    """The tangent of x, an angle in radians."""

    function: ClassVar = accurate(np.tan)

    @by_slope
    def derivative(self, back: Backward, x: Tensor) -> Tensor:
        return back.y * back.y + 1


class Asin(ScaledUnary, dml="ELEMENT_WISE_ASIN"):
    """The angle in radians whose sine is x; NaN outside [-1, 1].

    Measured: DirectML approximates it in float32, within 7e-5, also near zero.
    """

    function: ClassVar = accurate(np.arcsin)

    @by_slope
    def derivative(self, back: Backward, x: Tensor) -> Tensor:
        return 1 / back(ops.Sqrt, 1 - x * x)


class Acos(ScaledUnary, dml="ELEMENT_WISE_ACOS"):
    """The angle in radians whose cosine is x; NaN outside [-1, 1].

    Measured: DirectML approximates it in float32, within 7e-5.
    """

    function: ClassVar = accurate(np.arccos)

    @by_slope
    def derivative(self, back: Backward, x: Tensor) -> Tensor:
        return -1 / back(ops.Sqrt, 1 - x * x)


class Atan(ScaledUnary, dml="ELEMENT_WISE_ATAN"):
    """The angle in radians whose tangent is x.

    Measured: DirectML approximates it in float32, within 2e-5, and gives 0.7854096 for NaN.
    """

    function: ClassVar = accurate(np.arctan)

    @by_slope
    def derivative(self, back: Backward, x: Tensor) -> Tensor:
        return 1 / (x * x + 1)


class Sinh(ScaledUnary, dml="ELEMENT_WISE_SINH"):
    """The hyperbolic sine of x; measured: DirectML's float32 overflows beyond 88.72, where e^x does."""

    half_type: ClassVar = np.float32
    function: ClassVar = accurate(np.sinh)

    @by_slope
    def derivative(self, back: Backward, x: Tensor) -> Tensor:
        return back(ops.Cosh, x)


class Cosh(ScaledUnary, dml="ELEMENT_WISE_COSH"):
    """The hyperbolic cosine of x; measured: DirectML's float32 overflows beyond 88.72, where e^x does."""

    half_type: ClassVar = np.float32
    function: ClassVar = accurate(np.cosh)

    @by_slope
    def derivative(self, back: Backward, x: Tensor) -> Tensor:
        return back(ops.Sinh, x)


class Tanh(ScaledUnary, dml="ELEMENT_WISE_TANH"):
    """The hyperbolic tangent of x."""

    half_type: ClassVar = np.float32

    def as_activation(self) -> tuple[type[Operator], Mapping[str, Any]] | None:
        is_same = self.scale_bias is None and self.input.dtype is DataType.FLOAT32
        return (ops.ActivationTanh, {}) if is_same else None

    function: ClassVar = accurate(np.tanh)

    @by_slope
    def derivative(self, back: Backward, x: Tensor) -> Tensor:
        return 1 - back.y * back.y


class Asinh(ScaledUnary, dml="ELEMENT_WISE_ASINH"):
    """The inverse of sinh, ln(x + √(x² + 1)), evaluated literally in float32 (measured).

    So digits cancel below zero, −infinity gives NaN, and the square overflows beyond 1.8e19.
    """

    half_type: ClassVar = np.float32

    def function(self, x: Array) -> Array:
        return accurately(np.log, x + np.sqrt(x * x + x.dtype.type(1)))

    def half(self, x: Array) -> Array:
        return shader.log(x + np.sqrt(x * x + np.float32(1)))

    @by_slope
    def derivative(self, back: Backward, x: Tensor) -> Tensor:
        return 1 / back(ops.Sqrt, x * x + 1)


class Acosh(ScaledUnary, dml="ELEMENT_WISE_ACOSH"):
    """The inverse of cosh, ln(x + √(x² − 1)), NaN below 1, evaluated literally in float32 (measured).

    So the square overflows beyond 1.8e19, and if x² − 1 rounds to x², the result below zero is −infinity.
    """

    half_type: ClassVar = np.float32

    def function(self, x: Array) -> Array:
        return accurately(np.log, x + np.sqrt(x * x - x.dtype.type(1)))

    def half(self, x: Array) -> Array:
        return shader.log(x + np.sqrt(x * x - np.float32(1)))

    @by_slope
    def derivative(self, back: Backward, x: Tensor) -> Tensor:
        return 1 / back(ops.Sqrt, x * x - 1)


class Atanh(ScaledUnary, dml="ELEMENT_WISE_ATANH"):
    """The inverse of tanh, ½ ln((1 + x) / (1 − x)): ±infinity at ±1, NaN beyond.

    This formula is evaluated literally in float32 (measured).
    """

    half_type: ClassVar = np.float32

    def function(self, x: Array) -> Array:
        one = x.dtype.type(1)
        return np.asarray(0.5 * accurately(np.log, (one + x) / (one - x)))

    def half(self, x: Array) -> Array:
        one = np.float32(1)
        return shader.log((one + x) / (one - x), 0.5)

    @by_slope
    def derivative(self, back: Backward, x: Tensor) -> Tensor:
        return 1 / (1 - x * x)


class AtanYx(Binary, dml="ELEMENT_WISE_ATAN_YX"):
    """The angle of the point (b, a): atan(a / b) in the right quadrant, from −π to π.

    Measured: DirectML approximates it in float32, within 2e-5, where NaN gives an angle.
    """

    def function(self, a: Array, b: Array) -> Array:
        return np.arctan2(a.astype(np.float64), b.astype(np.float64))

    def derivative(self, back: Backward) -> Gradients:
        a, b = back.given
        gradient = back.g / (a * a + b * b)
        return [gradient * b, -(gradient * a)]
