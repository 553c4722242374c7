"""Detours through simpler operators: an operator as a composition of others.

An operator's own `compose` comes first; COMPOSITIONS has those of operators whose derivatives do not need them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from dmlgraph import operators as ops
from dmlgraph.compiler.detours.site import Made, NoDetourError, Site
from dmlgraph.graph.value import Value
from dmlgraph.operators.declaration.derivative import Backward, Tensor
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.declaration.traits import Traits
from dmlgraph.operators.directml_enums import ReduceFunction

Compose = Callable[[Any, Backward], "Tensor | Sequence[Tensor | None]"]  # the output, or all of them by port

FUSED = "fused_activation"


def activation_apart(site: Site) -> Value:
    site.need_one_output()
    activation = site.operator.attributes.get(FUSED)
    if activation is None:
        raise NoDetourError("it has no fused activation")
    made = site.again(**{FUSED: None})
    return cast("Value", site.back(activation.operator, made, **activation.attributes))


def decomposed(site: Site) -> Made:
    """The composition of the operator without its fused activation, then that."""
    operator = site.operator
    if type(operator).compose is not Traits.compose:
        return _outputs(site, operator.compose(site.back))
    compose = COMPOSITIONS.get(type(operator))
    if compose is None:
        raise NoDetourError("its operator has no composition")
    made = compose(operator, site.back)
    first, *others = made if isinstance(made, Sequence) else [made]
    activation = operator.attributes.get(FUSED)
    if activation is not None:
        first = site.back(activation.operator, first, **activation.attributes)
    return _outputs(site, [first, *others])


def _outputs(site: Site, made: Sequence[Tensor | None]) -> Made:
    """What stands in the place of the outputs that the node has."""
    if site.has_one_output:
        return _found(made[0])
    pairs = itertools.zip_longest(made, site.operator.output_descs)
    return [None if desc is None else _found(value) for value, desc in pairs]


def _found(made: Any) -> Value:
    if not isinstance(made, Value):
        raise NoDetourError("its composition is one of its inputs, or lacks an output")
    return made


def _sigmoid(back: Backward, x: Tensor) -> Tensor:
    return back(ops.Recip, back(ops.Exp, -x) + 1)


def _of_argument(function: Callable[[Any, Backward, Tensor], Tensor]) -> Compose:
    """A function of x · scale + bias."""

    def compose(operator: Any, back: Backward) -> Tensor:
        argument, _ = operator.argument(back)
        return function(operator, back, argument)

    return compose


def _below(back: Backward, x: Tensor, below: Tensor) -> Tensor:
    """x where it is positive, else another value."""
    return back.choose(x > 0, x, below)


def _elu(operator: ops.ActivationElu, back: Backward) -> Tensor:
    """What overflows is not chosen; a minimum of x and 0 would lose NaN."""
    return _below(back, back.x, (back(ops.Exp, back.x) - 1) * operator.alpha)


def _softmax(operator: Any, back: Backward) -> Tensor:
    axes = operator.over(back.x.rank)
    powers = back(ops.Exp, back.x - back(ops.Reduce, back.x, function="max", axes=axes))
    return powers / back.total(powers, axes)


def _log_softmax(operator: Any, back: Backward) -> Tensor:
    axes = operator.over(back.x.rank)
    shifted = back.x - back(ops.Reduce, back.x, function="max", axes=axes)
    return shifted - back(ops.Log, back.total(back(ops.Exp, shifted), axes))


def _scaled(back: Backward, x: Tensor, first: int) -> Tensor:
    """x · scale + bias, of those of these ports that are there."""
    scale, bias = back.inputs[first : first + 2]
    scaled = x if scale is None else x * back.channels(scale)
    return scaled if bias is None else scaled + back.channels(bias)


def _normalized(operator: Any, back: Backward) -> Tensor:
    use_mean, use_variance = operator.uses
    x = back.x

    def average(value: Tensor) -> Tensor:
        return back(ops.Reduce, value, function="average", axes=operator.reduced)

    x = x - average(x) if use_mean else x
    if use_variance:
        x = x / back(ops.Sqrt, average(x * x) + operator.epsilon)
    return _scaled(back, x, 1)


def _batch_normalized(operator: ops.BatchNormalization, back: Backward) -> Tensor:
    x, mean, variance = back.x, *map(back.channels, back.given[1:3])
    return _scaled(back, (x - mean) / back(ops.Sqrt, variance + operator.epsilon), 3)


def _batch_trained(operator: ops.BatchNormalizationTraining, back: Backward) -> list[Tensor | None]:
    """The output, the mean and the variance."""
    more = back.inputs[3]
    axes = [axis for axis, size in enumerate(operator.scale.sizes) if size == 1]
    mean = back(ops.Reduce, back.x, function="average", axes=axes)
    away = back.x - mean
    variance = back(ops.Reduce, away * away, function="average", axes=axes)
    made = _scaled(back, away / back(ops.Sqrt, variance + operator.epsilon), 1)
    return [made if more is None else made + more, mean, variance]


def _lp_normalized(operator: ops.LpNormalization, back: Backward) -> Tensor:
    x, axes = back.x, [operator.axis]
    if operator.p == 1:
        norm = back.total(back(ops.Abs, x), axes)
        square = norm * norm
    else:
        square = back.total(x * x, axes)
    return x / back(ops.Sqrt, square + operator.epsilon)


def _gemm(operator: ops.Gemm, back: Backward) -> Tensor:
    """The product alone, then its factor and what is added."""
    if operator.alpha == 1 and operator.c is None and operator.attributes[FUSED] is None:
        raise NoDetourError("it is a product alone")
    a, b, c = back.inputs
    made = back(ops.Gemm, a, b, trans_a=operator.trans_a, trans_b=operator.trans_b)
    made = made if operator.alpha == 1 else made * operator.alpha
    if c is None:
        return made
    return made + (c if operator.beta == 1 else c * operator.beta)


def _convolution(operator: ops.Convolution, back: Backward) -> Tensor:
    """The sums of products alone, then the bias."""
    x, weights, bias = back.inputs
    if bias is None and operator.attributes[FUSED] is None:
        raise NoDetourError("it has neither a bias nor an activation")
    made = back(ops.Convolution, x, weights, **{**operator.attributes, FUSED: None})
    return made if bias is None else made + back.channels(bias.reshape(-1))


def _log_sum(back: Backward, x: Tensor, axes: list[int]) -> Tensor:
    """ln Σ e^x; the greatest element is subtracted first, so that nothing overflows."""
    greatest = back(ops.Reduce, x, function="max", axes=axes)
    return back(ops.Log, back.total(back(ops.Exp, x - greatest), axes)) + greatest


def _softplus(operator: ops.ActivationSoftplus, back: Backward) -> Tensor:
    """ln(1 + e^z) = max(z, 0) + ln(1 + e^−|z|), which does not overflow."""
    z = back.x * operator.steepness
    made = back(ops.Max, z, 0) + back(ops.Log, back(ops.Exp, -back(ops.Abs, z)) + 1)
    return made * (1 / operator.steepness)


def _reduced(operator: ops.Reduce, back: Backward) -> Tensor:
    x, axes = back.x, list(operator.axes)
    count = math.prod(x.sizes[axis] for axis in axes)
    made: dict[ReduceFunction, Callable[[], Tensor]] = {
        ReduceFunction.AVERAGE: lambda: back.total(x, axes) * (1 / count),
        ReduceFunction.L1: lambda: back.total(back(ops.Abs, x), axes),
        ReduceFunction.L2: lambda: back(ops.Sqrt, back.total(x * x, axes)),
        ReduceFunction.SUM_SQUARE: lambda: back.total(x * x, axes),
        ReduceFunction.LOG_SUM: lambda: back(ops.Log, back.total(x, axes)),
        ReduceFunction.LOG_SUM_EXP: lambda: _log_sum(back, x, axes),
        ReduceFunction.MIN: lambda: -back(ops.Reduce, -x, function="max", axes=axes),
        ReduceFunction.MAX: lambda: -back(ops.Reduce, -x, function="min", axes=axes),
    }
    if operator.function not in made or not x.dtype.is_float:
        raise NoDetourError("its function has no composition")
    return made[operator.function]()


def _clipped(operator: ops.Clip, back: Backward, x: Tensor) -> Tensor:
    if not x.dtype.is_float or operator.min > operator.max:
        raise NoDetourError("its bounds are not those of floats in order")
    return back(ops.Max, back(ops.Min, x, operator.max), operator.min)


def _dequantized(operator: ops.DequantizeLinear, back: Backward) -> Tensor:
    x, scale, zero = back.inputs
    wide = back(ops.Cast, x, dtype=operator.first_output.dtype)
    if zero is not None:
        wide = wide - back(ops.Cast, zero, dtype=operator.first_output.dtype)
    return wide * scale


COMPOSITIONS: Mapping[type[Operator], Compose] = {
    ops.ActivationRelu: lambda _, back: back(ops.Max, back.x, 0),
    ops.ActivationLeakyRelu: lambda operator, back: _below(back, back.x, back.x * operator.alpha),
    ops.ActivationElu: _elu,
    ops.ActivationSigmoid: lambda _, back: _sigmoid(back, back.x),
    ops.ActivationTanh: lambda _, back: _sigmoid(back, back.x * 2) * 2 - 1,
    ops.ActivationSoftplus: _softplus,
    ops.ActivationSoftsign: lambda _, back: back.x / (back(ops.Abs, back.x) + 1),
    ops.ActivationGelu: lambda _, back: back.x * 0.5 * (back(ops.Erf, back.x * math.sqrt(0.5)) + 1),
    ops.ActivationSwish: lambda operator, back: back.x * _sigmoid(back, back.x * operator.sigmoid_input_scale),
    ops.ActivationHardSigmoid: lambda operator, back: back(
        ops.Max, back(ops.Min, back.x * operator.alpha + operator.beta, 1), 0
    ),
    ops.ActivationLinear: lambda operator, back: back.x * operator.alpha + operator.beta,
    ops.ActivationSoftmax: _softmax,
    ops.ActivationSoftmax1: _softmax,
    ops.ActivationLogSoftmax: _log_softmax,
    ops.ActivationLogSoftmax1: _log_softmax,
    ops.BatchNormalization: _batch_normalized,
    ops.BatchNormalizationTraining: _batch_trained,
    ops.MeanVarianceNormalization: _normalized,
    ops.MeanVarianceNormalization1: _normalized,
    ops.MeanVarianceNormalization2: _normalized,
    ops.LpNormalization: _lp_normalized,
    ops.Gemm: _gemm,
    ops.Convolution: _convolution,
    ops.Reduce: _reduced,
    ops.Add1: lambda _, back: back.given[0] + back.given[1],
    ops.Subtract: lambda _, back: back.given[0] + back.given[1] * -1,
    ops.Divide: lambda _, back: back.given[0] * back(ops.Recip, back.given[1]),
    ops.Mean: lambda _, back: (back.given[0] + back.given[1]) * 0.5,
    ops.DifferenceSquare: lambda _, back: (back.given[0] - back.given[1]) * (back.given[0] - back.given[1]),
    ops.Clip: _of_argument(_clipped),
    ops.Recip: _of_argument(lambda _, back, x: 1 / x),
    ops.Sqrt: _of_argument(lambda _, back, x: back(ops.ConstantPow, x, exponent=0.5)),
    ops.Tan: _of_argument(lambda _, back, x: back(ops.Sin, x) / back(ops.Cos, x)),
    ops.DequantizeLinear: _dequantized,
}
