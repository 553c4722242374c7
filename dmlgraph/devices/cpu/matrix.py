"""GEMM with an activation that works on rows, or of one row or column."""

from __future__ import annotations

from typing import Any

import numpy as np

from dmlgraph.operators.common.numerics import convert
from dmlgraph.operators.common.scales import clamp_steps
from dmlgraph.operators.declaration.operator import Array
from dmlgraph.operators.directml_enums import MatrixTransform
from dmlgraph.tensor import DataType

from .single import activated, finite, product, single


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
