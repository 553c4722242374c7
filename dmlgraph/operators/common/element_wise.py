"""Bases of the element-wise operators, of one input array or two, and what several families of them share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dmlgraph import operators as ops
from dmlgraph.base.errors import Problem
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.operators.common.numerics import FLOAT16_MAX, convert, working
from dmlgraph.operators.declaration.derivative import Backward, Gradients, Tensor
from dmlgraph.operators.declaration.fields import Input, OptionalScaleBias, Output, ScaleBias, inferred
from dmlgraph.operators.declaration.operator import Array, Operator

EXACT_INTEGERS = 1 << 24  # float32, the type of FLOAT attributes, holds all integers up to here


class ElementWise(Operator):
    """Base: the output has the sizes of all inputs."""

    in_place: ClassVar = True
    inner_dimensions: ClassVar = 0

    if TYPE_CHECKING:  # fields of the subclasses, each in the order of its struct
        output: TensorDesc

    broadcasts: ClassVar = True

    def evaluate(self, *inputs: Any, **_: Any) -> tuple[Array, ...]:  # typed so that subclasses may have other tensors
        arrays = [working(array) for array in inputs if array is not None]
        with np.errstate(all="ignore"):
            return (convert(self.apply(*arrays), self.output.dtype),)

    def apply(self, *arrays: Array) -> Array:
        """The function of arrays in the type of its computation."""
        raise NotImplementedError


class Unary(ElementWise):
    """Base of f(x).

    Attributes:
        function: f, of an array in the type of its computation; a method or a function.
        half_type: the type in which DirectML computes the function of a float16 tensor (measured).
    """

    function: ClassVar[Callable[..., Array]]
    half_type: ClassVar[type[np.floating[Any]]] = np.float16

    input: Input
    output: Output = inferred()

    def apply(self, *arrays: Array) -> Array:
        x = arrays[0]
        return self.half(x.astype(self.half_type)) if self.of_half else self.function(x)

    def argument(self, back: Backward) -> tuple[Tensor, float]:
        """The function's argument, and its slope: for its derivative."""
        return back.x, 1.0

    @property
    def of_half(self) -> bool:
        """Whether the input is a float16 tensor."""
        return self.input.dtype is DataType.FLOAT16

    def half(self, x: Array) -> Array:
        """The function of a float16 tensor, given in `half_type`, as DirectML computes it; here in float32."""
        return convert(self.function(x.astype(np.float32)), DataType.FLOAT32)


def finite_bound(value: float, dtype: DataType) -> Array:
    """A FLOAT attribute as the nearest number of a type, toward zero for integers.

    Measured for float16: bounds are clamped to ±65504, even infinite ones.
    """
    if dtype is DataType.FLOAT16:
        value = min(max(value, -FLOAT16_MAX), FLOAT16_MAX)
    return working(convert(np.float32(value), dtype))


def plain_bound(value: float, dtype: DataType) -> int | float:
    """`finite_bound` as a number of Python."""
    bound = finite_bound(value, dtype)
    return float(bound) if dtype.is_float else int(bound)


def clipped(operator: Unary, back: Backward, low: float, high: float) -> Gradients:
    """The derivative of what clamps its argument to bounds."""
    x, scale = operator.argument(back)
    gradient = between(back, x, back.g, low, high)
    return [gradient if scale == 1 else gradient * scale]


def between(back: Backward, x: Tensor, gradient: Tensor, low: float, high: float) -> Tensor:
    """The gradient where x is strictly between the bounds, else 0."""
    if back.legal(ops.ClipGrad):
        return back(ops.ClipGrad, x, gradient, min=low, max=high)
    return back.choose((x > low) & (x < high), gradient, 0)


def holds_bound(value: float, dtype: DataType) -> bool:
    """Whether a type can represent a FLOAT attribute as a bound: false for NaN and for non-representable integers."""
    if dtype.is_float:
        return not math.isnan(value)
    return abs(value) <= EXACT_INTEGERS and dtype.range[0] <= value <= dtype.range[1]


class ScaledUnary(Unary):
    """Base of f(x · scale + bias); for float16 the argument is computed in the function's `half_type` (measured)."""

    scale_bias: OptionalScaleBias = None

    def apply(self, *arrays: Array) -> Array:
        return super().apply(arrays[0] if self.scale_bias is None else self.scale_bias.apply(arrays[0]))

    def argument(self, back: Backward) -> tuple[Tensor, float]:
        if self.scale_bias is None:
            return back.x, 1.0
        return back(ops.Identity, back.x, scale_bias=self.scale_bias), self.scale_bias.scale

    def constraints(self) -> Iterator[Problem]:
        return scale_bias_fits(self.scale_bias, self.input)


def scale_bias_fits(scale_bias: ScaleBias | None, tensor: TensorDesc) -> Iterator[Problem]:
    """Measured: DirectML refuses scale and bias for 64-bit types, unless they are 1 and 0."""
    if scale_bias is not None and not scale_bias.changes_nothing and tensor.dtype.bits == 64:
        message, allowed = "cannot be given for 64-bit types", "types of at most 32 bits"
        yield Problem(message, code="dtype", field="scale_bias", got=str(tensor.dtype), allowed=allowed)


class Binary(ElementWise):
    """Base of f(a, b); `function` is as in `Unary`."""

    function: ClassVar[Callable[..., Array]]

    a: Input
    b: Input
    output: Output = inferred()

    def apply(self, *arrays: Array) -> Array:
        return self.function(*arrays)


def for_typed_store(x: Array) -> Array:
    """8-bit integers widened, so that the store saturates results beyond their range."""
    return x.astype(np.int32) if x.dtype == np.int8 else x
