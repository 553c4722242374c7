"""Matrix products of quantized tensors, and GEMM with an activation that works on rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from dmlgraph.operators.common.numerics import convert
from dmlgraph.operators.common.scales import Quantized, clamp_steps, of_quantized_pair
from dmlgraph.operators.declaration.operator import Array
from dmlgraph.operators.directml_enums import MatrixTransform
from dmlgraph.operators.quantization import from_steps
from dmlgraph.tensor import DataType

from .single import activated, exact_type, finite, product, single


def gemm(operator: Any, a: Array, b: Array, c: Array | None) -> tuple[Array, ...]:
    result = product(_transformed(a, operator.trans_a), _transformed(b, operator.trans_b))
    if operator.alpha != 1:
        result *= np.float32(operator.alpha)
    if c is not None:
        result += single(c) if operator.beta == 1 else single(c) * np.float32(operator.beta)
    dtype = operator.output.dtype
    return (convert(activated(operator.fused_activation, finite(result), dtype), dtype),)


def _transformed(matrix: Array, transform: MatrixTransform) -> Array:
    return matrix.swapaxes(-1, -2) if transform is MatrixTransform.TRANSPOSE else matrix


def matrix_multiply_integer(
    _: Any, a: Array, a_zero: Array | None, b: Array, b_zero: Array | None
) -> tuple[Array, ...]:
    sums = _sums(a, a_zero, b, b_zero)
    # Converted through int64, so that a sum beyond 32 bits wraps.
    return ((sums if sums.dtype == np.float32 else sums.astype(np.int64)).astype(np.int32),)


@of_quantized_pair
def quantized_linear_matrix_multiply(
    operator: Any, a: Quantized, b: Quantized, scale: Array, zero: Array | None
) -> tuple[Array, ...]:
    # The order of the products decides which steps are exact halves.
    steps = single(_sums(a.steps, a.zero_point, b.steps, b.zero_point)) * (b.scale * (a.scale / scale))
    return (clamped(steps, np.zeros(1) if zero is None else zero, operator.output.dtype),)


@of_quantized_pair
def matrix_multiply_integer_to_float(
    operator: Any, a: Quantized, b: Quantized, bias: Array | None
) -> tuple[Array, ...]:
    dtype = operator.output.dtype
    result = product(from_steps(*a, dtype), from_steps(*b, dtype))
    if bias is not None:
        result += single(bias)
    return (convert(finite(result), dtype),)


def _sums(a: Array, a_zero: Array | None, b: Array, b_zero: Array | None) -> Array:
    """Σ (a − a_zero_point) · (b − b_zero_point) of 8-bit integers: exact, in float32 if that is wide enough."""
    left, right = centred(a, a_zero), centred(b, b_zero)
    most = np.abs(left).max() * np.abs(right).sum(-2, dtype=np.float64).max()
    dtype = exact_type(most)
    return product(left.astype(dtype, copy=False), right.astype(dtype, copy=False))


def centred(x: Array, zero_point: Array | None) -> Array:
    """x − zero_point, arrays that broadcast, exact in float32."""
    result = x.astype(np.float32)
    if zero_point is not None:
        result -= zero_point
    return result


def clamped(steps: Array, zero_point: Array, dtype: DataType) -> Array:
    """clamp(round(steps) + zero_point), halves to even; NaN gives the least number.  `steps` is overwritten.

    float32 is enough for 8 bits: a sum that it cannot hold exactly is out of range, and so is the exact sum.
    """
    if steps.dtype != np.float32 or dtype.bits > 8:
        return clamp_steps(steps, zero_point, dtype)
    least, greatest = dtype.range
    np.rint(steps, out=steps)
    steps += single(zero_point)
    np.fmax(steps, np.float32(least), out=steps)
    np.fmin(steps, np.float32(greatest), out=steps)
    return steps.astype(dtype.numpy)
