"""Reductions, softmax and normalizations as parts, see dmlgraph.devices.cpu.parts; running totals.

Sums are accumulated in float64; the powers of softmax, which are positive, are added in fours before.  Compared with
`evaluate`, which computes everything in float64, a float32 result differs by a few units in the last place:
tests/devices/cpu states by how many.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.devices.cpu.element_wise import Code, Value, activate
from dmlgraph.devices.cpu.parts import Parts, Tensor, operands, packed_step
from dmlgraph.operators.declaration.fused import FusedActivation
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.directml_enums import AxisDirection, ReduceFunction
from dmlgraph.operators.normalization import (
    BatchNormalization,
    LpNormalization,
    MeanVarianceNormalization,
    MeanVarianceNormalization1,
    MeanVarianceNormalization2,
)
from dmlgraph.operators.reduction import Reduce
from dmlgraph.operators.scan import CumulativeProduct, CumulativeSummation
from dmlgraph.operators.selection import Argmax, Argmin
from dmlgraph.operators.softmax import (
    ActivationHardmax,
    ActivationHardmax1,
    ActivationLogSoftmax,
    ActivationLogSoftmax1,
    ActivationSoftmax,
    ActivationSoftmax1,
    AlongAxes,
)

Payload = tuple[str, Any]
SINGLE, DOUBLE = DataType.FLOAT32, DataType.FLOAT64


# Reductions to one number.

_REDUCTIONS = {
    ReduceFunction.ARGMAX: "ARGMAX",
    ReduceFunction.ARGMIN: "ARGMIN",
    ReduceFunction.AVERAGE: "AVERAGE",
    ReduceFunction.L1: "SUM_ABS",
    ReduceFunction.MAX: "MAX",
    ReduceFunction.MIN: "MIN",
    ReduceFunction.MULTIPLY: "MULTIPLY",
    ReduceFunction.SUM: "SUM",
    ReduceFunction.SUM_SQUARE: "SUM_SQUARE",
}
_ROOTS_AND_LOGARITHMS = {
    ReduceFunction.L2: ("SUM_SQUARE", "SQRT"),
    ReduceFunction.LOG_SUM: ("SUM", "LOG"),
    ReduceFunction.LOG_SUM_EXP: ("SUM", "LOG"),
}


def _reduce(operator: Reduce) -> Payload | None:
    parts, x = Parts(), Tensor(0, operator.input)
    if operator.function in _REDUCTIONS:
        return _reduction(_REDUCTIONS[operator.function], x, operator.axes, operator.output)
    function, last = _ROOTS_AND_LOGARITHMS[operator.function]
    if operator.function is ReduceFunction.LOG_SUM_EXP:
        x = parts.single(x)
        code = Code()
        code.add("EXP", *operands(x))
        x = parts.compute(code, x, output=x.desc.like(strides=None))
    total = parts.reduce(function, x, operator.axes, DOUBLE)
    code = Code()
    code.convert(code.add(last, *operands(total)), operator.output.dtype)
    parts.compute(code, total, output=operator.output)
    return parts.finish()


def _reduction(function: str, x: Tensor, axes: tuple[int, ...], output: TensorDesc) -> Payload | None:
    if x.desc.dtype.bits == 4 or output.dtype.bits == 4:
        return None
    parts = Parts()
    parts.reduce(function, x, axes, output.dtype, output)
    return parts.finish()


def _extreme(name: str) -> Callable[[Any], Payload | None]:
    def way(operator: Argmax | Argmin) -> Payload | None:
        function = name if operator.axis_direction is AxisDirection.INCREASING else f"LAST_{name}"
        return _reduction(function, Tensor(0, operator.input), operator.axes, operator.output)

    return way


# Softmax and its variants.


def _powers(
    parts: Parts, operator: AlongAxes, axes: tuple[int, ...], function: str
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """x, its maxima along the axes, e^(x − max), and the sums of these in float64, by a reduction."""
    x = parts.single(Tensor(0, operator.input))
    greatest = parts.reduce("MAX", x, axes, SINGLE)
    code = Code()
    code.add("EXP_BELOW", *operands(x, greatest))
    powers = parts.compute(code, x, greatest, output=TensorDesc(dtype=SINGLE, sizes=x.desc.sizes))
    return x, greatest, powers, parts.reduce(function, powers, axes, DOUBLE)


def _softmax(operator: AlongAxes) -> Payload | None:
    parts, axes = Parts(), operator.over(operator.input.rank)
    _, _, powers, total = _powers(parts, operator, axes, "SUM_ALIKE")
    code = Code()
    code.convert(code.add("RECIP", *operands(total)), SINGLE)
    factor = parts.compute(code, total, output=total.desc.like(dtype=SINGLE))
    code = Code()
    code.convert(code.add("MULTIPLY", *operands(powers, factor)), operator.output.dtype)
    parts.compute(code, powers, factor, output=operator.output)
    return parts.finish()


def _log_softmax(operator: AlongAxes) -> Payload | None:
    """x − (max + ln Σ), the latter in float64."""
    parts, axes = Parts(), operator.over(operator.input.rank)
    x, greatest, _, total = _powers(parts, operator, axes, "SUM")
    code = Code()
    of_total, of_greatest = operands(total, greatest)
    code.add("ADD", code.add("LOG", of_total), code.convert(of_greatest, DOUBLE))
    less = parts.compute(code, total, greatest, output=total.desc)
    code = Code()
    code.convert(code.add("SUBTRACT_WIDE", *operands(x, less), result=SINGLE), operator.output.dtype)
    parts.compute(code, x, less, output=operator.output)
    return parts.finish()


def _hardmax(operator: AlongAxes) -> Payload | None:
    parts, axes = Parts(), operator.over(operator.input.rank)
    x = Tensor(0, operator.input)
    place = parts.reduce("ARGMAX", x, axes, DataType.UINT32)
    places = parts.sequence(tuple(size if axis in axes else 1 for axis, size in enumerate(x.desc.sizes)))
    code = Code()
    code.convert(code.add("EQUAL", *operands(places, place), result=DataType.UINT8), operator.output.dtype)
    parts.compute(code, places, place, output=operator.output)
    return parts.finish()


# Normalizations.


def inverse_root(
    parts: Parts, code: Code, square: Value, tensor: Tensor, epsilon: float, factor: float = 1.0
) -> Tensor:
    """1 / √(square · factor + epsilon) in float32; the float64 square is a result of the code, or the tensor."""
    shifted = code.add("SCALE_BIAS", square, immediates=(factor, epsilon))
    code.convert(code.add("RECIP", code.add("SQRT", shifted)), SINGLE)
    return parts.compute(code, tensor, output=TensorDesc(dtype=SINGLE, sizes=tensor.desc.sizes))


def _normalize(
    parts: Parts,
    x: Tensor,
    factors: list[Tensor],
    shift: Tensor | None,
    activation: FusedActivation | None,
    out: TensorDesc,
) -> Payload | None:
    """activation(x · factors + shift) in `out`; all operands are float32."""
    given = [x, *factors, *(() if shift is None else (shift,))]
    values = operands(*given)
    code = Code()
    result = values[0]
    for factor in values[1 : 1 + len(factors)]:
        result = code.add("MULTIPLY", result, factor)
    if shift is not None:
        result = code.add("ADD", result, values[-1])
    if activation is not None:
        activated = activate(code, activation, result, out.dtype)
        if activated is None:
            return None
        result = activated
    code.convert(result, out.dtype)
    parts.compute(code, *given, output=out)
    return parts.finish()


def _optional(parts: Parts, port: int, desc: TensorDesc | None) -> list[Tensor]:
    return [] if desc is None else [parts.single(Tensor(port, desc))]


def _mean_variance(operator: Any) -> Payload | None:
    parts, axes = Parts(), operator.reduced
    use_mean, use_variance = operator.uses
    x = parts.single(Tensor(0, operator.input))
    sizes = x.desc.sizes
    if use_mean:
        mean = parts.reduce("AVERAGE", x, axes, DOUBLE)
        code = Code()
        code.add("SUBTRACT_WIDE", *operands(x, mean), result=SINGLE)
        x = parts.compute(code, x, mean, output=TensorDesc(dtype=SINGLE, sizes=sizes))
    factors = []
    if use_variance:
        squares = parts.reduce("SUM_SQUARE_WIDE", x, axes, DOUBLE)
        count = x.desc.element_count // squares.desc.element_count
        code = Code()
        (square,) = operands(squares)
        factors.append(inverse_root(parts, code, square, squares, operator.epsilon, 1 / count))
    factors += _optional(parts, 1, operator.scale)
    shift = _optional(parts, 2, operator.bias)
    return _normalize(parts, x, factors, shift[0] if shift else None, operator.fused_activation, operator.output)


def _batch_normalization(operator: BatchNormalization) -> Payload | None:
    """(x - mean) · factor + bias, where the factor scale / √(variance + epsilon) is computed once for each channel."""
    parts = Parts()
    x = parts.single(Tensor(0, operator.input))
    mean, variance = parts.single(Tensor(1, operator.mean)), Tensor(2, operator.variance)
    code = Code()
    (value,) = operands(variance)
    root = inverse_root(parts, code, code.convert(value, DOUBLE), variance, operator.epsilon)
    (scale,) = _optional(parts, 3, operator.scale)
    code = Code()
    code.add("MULTIPLY", *operands(root, scale))
    sizes = tuple(map(max, root.desc.sizes, scale.desc.sizes))
    factor = parts.compute(code, root, scale, output=TensorDesc(dtype=SINGLE, sizes=sizes))
    code = Code()
    code.add("SUBTRACT", *operands(x, mean))
    centred = parts.compute(code, x, mean, output=TensorDesc(dtype=SINGLE, sizes=x.desc.sizes))
    (shift,) = _optional(parts, 4, operator.bias)
    return _normalize(parts, centred, [factor], shift, operator.fused_activation, operator.output)


def _lp_normalization(operator: LpNormalization) -> Payload | None:
    """x / √(norm² + epsilon); norm² and the sum that it is computed from are rounded to the tensor's type."""
    parts, dtype = Parts(), operator.input.dtype
    x = parts.single(Tensor(0, operator.input))
    norm = parts.reduce("SUM_ABS" if operator.p == 1 else "SUM_SQUARE_WIDE", x, (operator.axis,), DOUBLE)
    code = Code()
    (total,) = operands(norm)
    square = code.convert(total, dtype)
    if operator.p == 1:
        square = code.add("MULTIPLY", square, square)
    factor = inverse_root(parts, code, code.convert(square, DOUBLE), norm, operator.epsilon)
    return _normalize(parts, x, [factor], None, None, operator.output)


# Running totals: a native step.


def _scan(operator: CumulativeSummation | CumulativeProduct) -> Payload | None:
    if isinstance(operator, CumulativeProduct):
        is_product, is_exclusive = True, operator.has_exclusive_product
    else:
        is_product, is_exclusive = False, operator.has_exclusive_sum
    from_end = operator.axis_direction is AxisDirection.DECREASING
    parameters = {
        "axis": operator.axis,
        "from_end": from_end,
        "is_exclusive": is_exclusive,
        "is_product": is_product,
    }
    return packed_step("scan", operator, parameters)


REDUCTIONS: Mapping[type[Operator], Callable[[Any], Payload | None]] = {
    Reduce: _reduce,
    Argmax: _extreme("ARGMAX"),
    Argmin: _extreme("ARGMIN"),
    ActivationSoftmax: _softmax,
    ActivationSoftmax1: _softmax,
    ActivationLogSoftmax: _log_softmax,
    ActivationLogSoftmax1: _log_softmax,
    ActivationHardmax: _hardmax,
    ActivationHardmax1: _hardmax,
    MeanVarianceNormalization: _mean_variance,
    MeanVarianceNormalization1: _mean_variance,
    MeanVarianceNormalization2: _mean_variance,
    BatchNormalization: _batch_normalization,
    LpNormalization: _lp_normalization,
    CumulativeSummation: _scan,
    CumulativeProduct: _scan,
}
