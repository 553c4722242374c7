"""Reductions, softmax and normalizations as parts, see dmlgraph.devices.cpu.parts; running totals.

Sums are accumulated in float64; the powers of softmax, which are positive, are added in fours before.  Compared with
`evaluate`, which computes everything in float64, a float32 result differs by a few units in the last place:
tests/devices/cpu states by how many.
"""

from __future__ import annotations

from collections.abc import Callable

from dmlgraph._native import cpu_steps
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.devices.cpu.element_wise import finished
from dmlgraph.devices.cpu.expressions import Expression, apply
from dmlgraph.devices.cpu.lowering import Lowerings, lowers
from dmlgraph.devices.cpu.nodes import Lowered
from dmlgraph.devices.cpu.parts import Parts, Tensor, packed_step
from dmlgraph.operators.directml_enums import AxisDirection, ReduceFunction
from dmlgraph.operators.normalization import (
    BatchNormalization,
    LpNormalization,
    MeanVariance,
    MeanVarianceNormalization,
    MeanVarianceNormalization1,
    MeanVarianceNormalization2,
    Normalization,
)
from dmlgraph.operators.reduction import Reduce
from dmlgraph.operators.scan import CumulativeProduct, CumulativeSummation
from dmlgraph.operators.selection import ArgExtreme, Argmax, Argmin
from dmlgraph.operators.softmax import (
    ActivationHardmax,
    ActivationHardmax1,
    ActivationLogSoftmax,
    ActivationLogSoftmax1,
    ActivationSoftmax,
    ActivationSoftmax1,
    AlongAxes,
)

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


def _reduce(operator: Reduce) -> Lowered | None:
    parts = Parts(operator)
    x = parts.input("input")
    if operator.function in _REDUCTIONS:
        return _reduction(_REDUCTIONS[operator.function], x, operator.axes, operator.output)
    function, last = _ROOTS_AND_LOGARITHMS[operator.function]
    if operator.function is ReduceFunction.LOG_SUM_EXP:
        x = parts.store(x.single().apply("EXP"))
    return parts.store(x.reduce(function, operator.axes, DOUBLE).apply(last), operator.output).finish()


def _reduction(function: str, x: Tensor, axes: tuple[int, ...], output: TensorDesc) -> Lowered | None:
    if x.dtype.bits == 4 or output.dtype.bits == 4:
        return None
    return x.reduce(function, axes, output.dtype, output).finish()


def _extreme(name: str) -> Callable[[ArgExtreme], Lowered | None]:
    def lower(operator: ArgExtreme) -> Lowered | None:
        function = name if operator.axis_direction is AxisDirection.INCREASING else f"LAST_{name}"
        return _reduction(function, Parts(operator).input("input"), operator.axes, operator.output)

    return lower


# Softmax and its variants.


def _powers(x: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """The maxima of x along the axes, and e^(x − max)."""
    greatest = x.max(axes)
    return greatest, x.parts.store(apply("EXP_BELOW", x, greatest))


def _softmax(operator: AlongAxes) -> Lowered | None:
    parts, axes = Parts(operator), operator.over(operator.input.rank)
    _, powers = _powers(parts.input("input").single(), axes)
    total = powers.reduce("SUM_ALIKE", axes, DOUBLE)
    return parts.store(powers * parts.store(total.apply("RECIP").convert(SINGLE)), operator.output).finish()


def _log_softmax(operator: AlongAxes) -> Lowered | None:
    """x − (max + ln Σ), the latter in float64."""
    parts, axes = Parts(operator), operator.over(operator.input.rank)
    x = parts.input("input").single()
    greatest, powers = _powers(x, axes)
    less = parts.store(powers.sum(axes).apply("LOG") + greatest.convert(DOUBLE))
    return parts.store(apply("SUBTRACT_WIDE", x, less, result=SINGLE), operator.output).finish()


def _hardmax(operator: AlongAxes) -> Lowered | None:
    parts, axes = Parts(operator), operator.over(operator.input.rank)
    x = parts.input("input")
    place = x.reduce("ARGMAX", axes, DataType.UINT32)
    places = parts.sequence(tuple(size if axis in axes else 1 for axis, size in enumerate(x.desc.sizes)))
    return parts.store(places.equals(place), operator.output).finish()


# Normalizations.


def inverse_root(square: Expression, epsilon: float, factor: float = 1.0) -> Expression:
    """1 / √(square · factor + epsilon) in float32, of a float64."""
    return square.apply("SCALE_BIAS", factor, epsilon).apply("SQRT").apply("RECIP").convert(SINGLE)


def centred(x: Tensor, mean: Tensor) -> Tensor:
    """The float32 x minus the mean, which is rounded once if that is float64."""
    opcode = "SUBTRACT_WIDE" if mean.dtype is DOUBLE else "SUBTRACT"
    return x.parts.store(apply(opcode, x, mean, result=SINGLE))


def single(parts: Parts, field: str) -> Tensor | None:
    """The input in float32; None if it is absent."""
    found = parts.optional(field)
    return None if found is None else found.single()


def finish(x: Expression, addend: Tensor | None, operator: Normalization) -> Expression | None:
    """activation(x + addend) in the type of the output; None if the activation is not element-wise."""
    return finished(operator.fused_activation, x if addend is None else x + addend, operator.output.dtype)


def _mean_variance(operator: MeanVariance) -> Lowered | None:
    parts, axes = Parts(operator), operator.reduced
    use_mean, use_variance = operator.uses
    x = parts.input("input").single()
    if use_mean:
        x = centred(x, x.mean(axes))
    result: Expression = x
    if use_variance:
        squares = x.reduce("SUM_SQUARE_WIDE", axes, DOUBLE)
        count = x.desc.element_count // squares.desc.element_count
        result = result * parts.store(inverse_root(squares, operator.epsilon, 1 / count))
    scale, bias = single(parts, "scale"), single(parts, "bias")
    return parts.result(finish(result if scale is None else result * scale, bias, operator), operator.output)


def _batch_normalization(operator: BatchNormalization) -> Lowered | None:
    """(x - mean) · factor + bias, where the factor scale / √(variance + epsilon) is computed once for each channel."""
    parts = Parts(operator)
    x, mean = parts.input("input").single(), parts.input("mean").single()
    root = parts.store(inverse_root(parts.input("variance").convert(DOUBLE), operator.epsilon))
    factor = parts.store(root * parts.input("scale").single())
    difference = parts.store(x - mean)
    return parts.result(finish(difference * factor, single(parts, "bias"), operator), operator.output)


def _lp_normalization(operator: LpNormalization) -> Lowered | None:
    """x / √(norm² + epsilon); norm² and the sum that it is computed from are rounded to the tensor's type."""
    parts = Parts(operator)
    x = parts.input("input").single()
    norm = x.reduce("SUM_ABS" if operator.p == 1 else "SUM_SQUARE_WIDE", (operator.axis,), DOUBLE)
    square = norm.convert(operator.input.dtype)
    square = square * square if operator.p == 1 else square
    factor = parts.store(inverse_root(square.convert(DOUBLE), operator.epsilon))
    return parts.store(x * factor, operator.output).finish()


# Running totals: a native step.


def _total(operator: CumulativeSummation) -> Lowered | None:
    return _scan(operator, is_exclusive=operator.has_exclusive_sum, is_product=False)


def _total_product(operator: CumulativeProduct) -> Lowered | None:
    return _scan(operator, is_exclusive=operator.has_exclusive_product, is_product=True)


def _scan(operator: CumulativeSummation | CumulativeProduct, *, is_exclusive: bool, is_product: bool) -> Lowered | None:
    from_end = operator.axis_direction is AxisDirection.DECREASING
    step = cpu_steps.Scan(axis=operator.axis, from_end=from_end, is_exclusive=is_exclusive, is_product=is_product)
    return packed_step(operator, step)


REDUCTIONS: Lowerings = {
    **lowers(_reduce, Reduce),
    **lowers(_extreme("ARGMAX"), Argmax),
    **lowers(_extreme("ARGMIN"), Argmin),
    **lowers(_softmax, ActivationSoftmax, ActivationSoftmax1),
    **lowers(_log_softmax, ActivationLogSoftmax, ActivationLogSoftmax1),
    **lowers(_hardmax, ActivationHardmax, ActivationHardmax1),
    **lowers(_mean_variance, MeanVarianceNormalization, MeanVarianceNormalization1, MeanVarianceNormalization2),
    **lowers(_batch_normalization, BatchNormalization),
    **lowers(_lp_normalization, LpNormalization),
    **lowers(_total, CumulativeSummation),
    **lowers(_total_product, CumulativeProduct),
}
