"""Pooling and local response normalization as native steps: numbers of windows that slide over a tensor.

What follows sums is instructions on them before they are stored: operand 0 is the sums, in float32, and operand k from
2 on is the step's input k.  Input 1 is the tensor again, and is not read.  Sums of a quantized tensor are float64, in
which they are exact: whether a mean is above or below a half decides the result.  Then input 1 is the scale, and the
last one the zero point.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from dmlgraph._native import cpu_steps
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.devices.cpu.element_wise import quantized
from dmlgraph.devices.cpu.expressions import Expression, Operand, apply, choose, instructions
from dmlgraph.devices.cpu.lowering import Lowerings, lowers
from dmlgraph.devices.cpu.nodes import Fill, Lowered, Native
from dmlgraph.devices.cpu.parts import Parts, Tensor, packed_step
from dmlgraph.operators.common.windows import Sizes, Windows
from dmlgraph.operators.declaration.operator import Array
from dmlgraph.operators.normalization import LocalResponseNormalization
from dmlgraph.operators.normalization_grad import LocalResponseNormalizationGrad
from dmlgraph.operators.patches import Fold
from dmlgraph.operators.pooling import (
    AveragePooling,
    AveragePooling1,
    AveragePoolingGrad,
    LpPooling,
    LpPooling1,
    Maxima,
    MaxPooling,
    MaxPooling1,
    MaxPooling2,
    MaxPoolingGrad,
    MaxUnpooling,
    QuantizedLinearAveragePooling,
)

_SINGLE = DataType.FLOAT32
_SUMS = Operand(0, _SINGLE)
_EXACT_SUMS = Operand(0, DataType.FLOAT64)  # of a quantized tensor
_OPERAND = 2  # the port of the first one of instructions
_MOST_INDICES = 2**32 - 1  # elements of a plane whose places 32 bits hold


def _maximum(operator: Maxima) -> Lowered | None:
    x, indices = operator.input, operator.indices_desc
    if indices is not None and math.prod(x.sizes[2:]) >= _MOST_INDICES:
        return None
    window = operator.window
    is_reduction = indices is None and window.taps == x.sizes[2:] and not any((*window.start, *window.end))
    step = _pooling(window, is_maximum=True, from_infinity=is_reduction)
    followers = instructions(_SUMS.convert(x.dtype)) if x.dtype.is_float else ()
    return None if followers is None else Native(step, followers)


def _average(operator: AveragePooling | AveragePooling1) -> Lowered:
    parts = Parts(operator)
    x = parts.input("input")
    divisors = parts.constant(_divisors(operator.window, x.desc.sizes[2:], operator.include_padding), _SINGLE)
    mean = _SUMS / Operand(_OPERAND, _SINGLE)
    return _sums(_pooling(operator.window), x, x, [divisors], mean, operator.output).finish()


def _quantized_average(operator: QuantizedLinearAveragePooling) -> Lowered:
    parts, dtype, output = Parts(operator), operator.output.dtype, operator.output
    divisors = _divisors(operator.window, operator.input.sizes[2:], operator.include_padding)
    read = [parts.constant(divisors, _SINGLE), parts.input("output_scale")]
    divisor, scale = (Operand(_OPERAND + k, _SINGLE) for k in range(2))
    mean = _EXACT_SUMS.convert(_SINGLE) / divisor
    zero_point = parts.optional("output_zero_point")
    if zero_point is None:
        # The mean of no elements is the greatest integer: CLIP makes infinity of NaN.
        steps = (mean / scale).apply("CLIP", -math.inf, math.inf)
        result = quantized(steps, Operand(_OPERAND + 2, _SINGLE), None, dtype)
        read.append(parts.number(1, _SINGLE, output.rank))
    else:
        result = quantized(mean, scale, Operand(_OPERAND + 2, zero_point.dtype), dtype)
        read.append(zero_point)
    x_zero_point = parts.optional("input_zero_point") or parts.port("input_zero_point")
    x, x_scale = parts.input("input"), parts.input("input_scale")
    return _sums(_pooling(operator.window), x, x_scale, read, result, output, x_zero_point).finish()


def _divisors(window: Windows, sizes: Sizes, include_padding: bool) -> Array:
    """The divisors of windows' sums, {1, 1, counts…}, or {1, 1, 1, …} if all are the same.

    They are the number of each window's taps, or of those inside the tensor.
    """
    inside = list(window.inside_counts(sizes))
    if include_padding:
        divisors = np.array(window.tap_count)
    elif all((each == each[0]).all() for each in inside):
        divisors = np.array(math.prod(int(each[0]) for each in inside))
    else:
        divisors = np.asarray(functools.reduce(np.multiply.outer, inside))
    return divisors.reshape(1, 1, *divisors.shape or (1,) * len(sizes))


def _norm(operator: LpPooling | LpPooling1) -> Lowered:
    parts, p = Parts(operator), operator.p
    x = parts.input("input")
    root: Expression = _SUMS
    if p == 2:
        root = root.apply("SQRT")
    elif p > 2:
        root = root.apply("CONSTANT_POW", 1 / p)
    return _sums(_pooling(operator.window, power=p), x, x, [], root, operator.output).finish()


def _neighbourhood(
    operator: LocalResponseNormalization | LocalResponseNormalizationGrad, x: TensorDesc
) -> Windows | None:
    """The windows whose squares are added.

    Returns None for logarithms of negative numbers, and infinity to the power of 0.
    """
    positive = all(math.isfinite(each) and each >= 0 for each in (operator.alpha, operator.bias))
    if not positive or operator.beta == 0:
        return None
    before, after = (operator.local_size - 1) // 2, operator.local_size // 2
    sizes = x.sizes[1:] if operator.cross_channel else x.sizes[2:]
    extends = [axis in operator.neighbourhood for axis in range(x.rank - len(sizes), x.rank)]
    # Neighbours beyond the tensor add nothing.
    start = tuple(min(before, size - 1) if each else 0 for each, size in zip(extends, sizes, strict=True))
    end = tuple(min(after, size - 1) if each else 0 for each, size in zip(extends, sizes, strict=True))
    taps = tuple(1 + sum(each) for each in zip(start, end, strict=True))
    one = (1,) * len(sizes)
    return Windows(taps, one, one, start, end)


def _local_response(operator: LocalResponseNormalization) -> Lowered | None:
    parts = Parts(operator)
    x = parts.input("input")
    window = _neighbourhood(operator, x.desc)
    if window is None:
        return None
    base = _SUMS.linear(operator.alpha_share, operator.bias)
    result = Operand(_OPERAND, x.dtype).convert(_SINGLE) / _power(base, operator.beta)
    return _sums(_pooling(window, power=2), x, x, [x], result, operator.output).finish()


def _local_response_gradient(operator: LocalResponseNormalizationGrad) -> Lowered | None:
    """g / s^beta − 2 · alpha · beta / size · x · Σ (g / s^beta · x / s), with the sums s of squares."""
    desc = operator.input
    window = _neighbourhood(operator, desc)
    if window is None:
        return None
    parts, whole = Parts(operator), TensorDesc(dtype=_SINGLE, sizes=desc.sizes)
    x, gradient = (each.single() for each in parts.inputs())
    squares = _in_range(_SUMS, desc.dtype).linear(operator.alpha_share, operator.bias)
    base = _sums(_pooling(window, power=2), x, x, [], squares, whole)
    direct = parts.store(gradient / _power(base, operator.beta))
    products = parts.store(direct * (x / base))
    passed, number = (Operand(_OPERAND + k, _SINGLE) for k in range(2))
    result = passed - number.linear(2 * operator.alpha_share * operator.beta) * _SUMS
    return _sums(_pooling(window), products, products, [direct, x], result, operator.output_gradient).finish()


def _in_range(x: Expression, dtype: DataType) -> Expression:
    """x, but infinite or zero if it is in the type."""
    if dtype is x.dtype:
        return x
    kept = x.convert(dtype).convert(x.dtype)
    is_infinite = kept.apply("IS_INFINITY", 0, result=DataType.UINT8)
    return choose(apply("LOGICAL_OR", is_infinite, kept.equals(kept.linear(0.0))), kept, x)


def _power(base: Expression, exponent: float) -> Expression:
    if exponent == 1:
        return base
    if exponent not in (0.5, 0.75):
        return base.apply("CONSTANT_POW", exponent)
    root = base.apply("SQRT")
    return root if exponent == 0.5 else root * root.apply("SQRT")  # √x · √√x


def placement(window: Windows) -> dict[str, Sizes]:
    """The arguments of native steps that say where windows are."""
    return {"strides": window.strides, "dilations": window.dilations, "padding": window.start}


def _pooling(
    window: Windows, *, is_maximum: bool = False, from_infinity: bool = False, power: int = 0
) -> cpu_steps.Pooling:
    return cpu_steps.Pooling(
        is_maximum=is_maximum, from_infinity=from_infinity, power=power, taps=window.taps, **placement(window)
    )


def _sums(
    step: cpu_steps.Pooling, x: Tensor, scale: Tensor, read: Sequence[Tensor], result: Expression, output: TensorDesc,
    *zero_point: Tensor | int,
) -> Tensor:  # fmt: skip
    """Sums of the windows of x, and the result that follows from them and from the tensors `read`.

    `scale` and `zero_point` are those of a quantized x; the scale of others is x again.
    """
    repeated = [each.as_desc(each.desc.broadcast_to(output.sizes)) for each in read]
    followers = instructions(result.convert(output.dtype))
    return x.parts.step(step, x, scale, *repeated, *zero_point, output=output, followers=followers)


def _gradient_step(window: Windows, *, is_maximum: bool) -> cpu_steps.PoolingGradient:
    return cpu_steps.PoolingGradient(is_maximum=is_maximum, taps=window.taps, **placement(window))


def _maximum_gradient(operator: MaxPoolingGrad) -> Lowered | None:
    if math.prod(operator.input.sizes[2:]) >= _MOST_INDICES:
        return None
    return packed_step(operator, _gradient_step(operator.window, is_maximum=True))


def _average_gradient(operator: AveragePoolingGrad) -> Lowered:
    """The gradient divided by the number of each window's taps, then added at all of them."""
    parts, output = Parts(operator), operator.output_gradient
    gradient = parts.input("input_gradient")
    divisors = _divisors(operator.window, output.sizes[2:], operator.include_padding)
    shares = parts.store(gradient / parts.constant(divisors, gradient.dtype))
    step = _gradient_step(operator.window, is_maximum=False)
    return parts.step(step, shares, output=output.like()).finish(output)


def _fold(operator: Fold) -> Lowered:
    """Floats are added in float64, which is rounded once."""
    parts, output = Parts(operator), operator.output
    is_half = output.dtype is DataType.FLOAT16
    x = parts.input("input")
    sums = output.like(dtype=DataType.FLOAT64) if is_half else output.like()
    step = cpu_steps.Fold(
        planes=math.prod(output.sizes[:2]),
        sizes=output.sizes[2:],
        blocks=operator.blocks(output.sizes),
        window=operator.window_sizes,
        strides=operator.strides,
        dilations=operator.dilations,
        padding=operator.start_padding,
    )
    return parts.step(step, x.single() if is_half else x.packed(), output=sums).finish(output)


def _unpool(operator: MaxUnpooling) -> Lowered | None:
    x, indices, output = operator.input, operator.indices, operator.output
    if any(desc.strides is not None for desc in (x, indices, output)):
        return None
    parts, count, size = Parts(operator), x.element_count, output.element_count
    zeros = parts.add(Fill(bytes(x.dtype.bits // 8)), [], TensorDesc(dtype=x.dtype, sizes=(size,)))
    lines = [parts.input(field) for field in ("indices", "input")]
    given = [each.as_desc(TensorDesc(dtype=each.dtype, sizes=(count,))) for each in lines]
    return parts.step(cpu_steps.Scatter(tuples=count, slice=1, sizes=(size,)), zeros, *given, output=output).finish()


WINDOWS: Lowerings = {
    **lowers(_average, AveragePooling),
    **lowers(_average, AveragePooling1),
    **lowers(_norm, LpPooling),
    **lowers(_norm, LpPooling1),
    **lowers(_maximum, MaxPooling, MaxPooling1, MaxPooling2),
    **lowers(_quantized_average, QuantizedLinearAveragePooling),
    **lowers(_maximum_gradient, MaxPoolingGrad),
    **lowers(_average_gradient, AveragePoolingGrad),
    **lowers(_unpool, MaxUnpooling),
    **lowers(_local_response, LocalResponseNormalization),
    **lowers(_local_response_gradient, LocalResponseNormalizationGrad),
    **lowers(_fold, Fold),
}
