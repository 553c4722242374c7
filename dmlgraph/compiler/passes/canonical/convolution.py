"""Convolutions: an ADD or a normalization with constant statistics after one goes into its bias and weights; taps that
meet padding alone are left out.
"""

from __future__ import annotations

import numpy as np

from dmlgraph.base.tensor import TensorDesc
from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import IrNode, Operand
from dmlgraph.compiler.rule import Constant, Declined, Differs, New, Outcome, Rewrite, Tensors, alone, demand, rule
from dmlgraph.operators.common.numerics import convert
from dmlgraph.operators.convolution import Convolution
from dmlgraph.operators.directml_enums import ConvolutionDirection, ConvolutionMode
from dmlgraph.operators.element_wise import Add
from dmlgraph.operators.normalization import BatchNormalization

FILTER_BYTES = 1 << 26  # larger filters are not copied


@rule(
    Add,
    after=(Convolution,),
    effect="saves the rounding of the convolution: at most 1/2 ULP of it",
    differs=Differs.ROUNDED,
)
def convolution_bias(ir: IrGraph, node: IrNode) -> Outcome:
    """convolution(x, w) + b → convolution with a bias, for a b of one number per channel, or one in total."""
    a, b = node.needed("a"), node.needed("b")
    for product, bias in ((a, b), (b, a)):
        convolution = ir.made_by(product, Convolution)
        if convolution is None or product.desc != ir.produced(product):
            continue
        operator = _changeable(ir, convolution, product)
        demand(operator.bias is None, f"'{convolution.name}' has a bias already")
        why = f"'{convolution.name}' pads its output, and its own bias would not apply to the padding"
        demand(not any(operator.output_padding), why)
        per_channel = _per_channel(ir, bias, product.desc)
        demand(per_channel is not None, "the added values differ within a channel")
        new = New.like(convolution, {"bias": per_channel}, {})
        return Rewrite.of(new, f"'{convolution.name}' adds a bias without a dispatch")
    return None


@rule(
    BatchNormalization,
    after=(Convolution,),
    effect="rounds the filter once more: at most 2 ULP of the sum of the products' magnitudes",
    differs=Differs.ROUNDED,
)
def normalized_convolution(ir: IrGraph, node: IrNode) -> Outcome:
    """batch_normalization(convolution(x, w)) with constant statistics → a convolution with other weights.

    With k = scale / √(variance + epsilon) for each channel the filter is w · k and the bias (b − mean) · k + bias,
    computed in float64 and rounded once.  Infinite or NaN statistics are not folded.
    """
    product = node.operand("input")
    convolution = ir.made_by(product, Convolution)
    if product is None or convolution is None or product.desc != ir.produced(product):
        return None
    operator, normalization = _changeable(ir, convolution, product), node.computing(BatchNormalization)
    is_plain = operator.direction is ConvolutionDirection.FORWARD and not any(operator.output_padding)
    demand(is_plain, f"'{convolution.name}' goes backward or pads its output")
    channels = product.desc.sizes[1]
    statistics = [_channel_values(ir, node.operand(field), channels) for field in normalization.parameters]
    filters, biases = convolution.operand("filter"), convolution.operand("bias")
    weights = ir.values(filters) if filters is not None and filters.desc.total_bytes <= FILTER_BYTES else None
    before = np.zeros(channels) if biases is None else _channel_values(ir, biases, channels)
    if weights is None or before is None or any(each is None for each in statistics):
        raise Declined("the filter and all statistics must be constants, one number per channel")
    mean, variance, scale, bias = (np.asarray(each, np.float64) for each in statistics)
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + np.float64(np.float32(normalization.epsilon)))
        shift = (np.asarray(before, np.float64) - mean) * factor + bias
        dtype = product.desc.dtype
        shape = (channels, *(1,) * (weights.ndim - 1))
        new_weights = convert(weights.astype(np.float64) * factor.reshape(shape), dtype)
        new_bias = convert(shift.reshape(1, channels, *(1,) * (product.desc.rank - 2)), dtype)
    is_finite = np.isfinite(new_weights).all() and np.isfinite(new_bias).all()
    demand(is_finite, "the scaled filter or bias would not be finite")
    tensors: Tensors = {"filter": Constant(new_weights), "bias": Constant(new_bias)}
    new = New.like(convolution, tensors, {"fused_activation": normalization.fused_activation})
    return Rewrite.of(new, f"the statistics go into the filter and the bias of '{convolution.name}'")


@rule(
    Convolution,
    effect="leaves out products with zeros: a zero may have another sign, and a device may add in another order",
    differs=Differs.ROUNDED,
)
def used_taps(ir: IrGraph, node: IrNode) -> Outcome:
    """A window whose outer taps meet padding alone → one without them, as one dilated beyond a small picture.

    The filter is a constant of finite numbers: zero times another one is NaN.
    """
    operator = node.computing(Convolution)
    window, filters = operator.window, node.needed("filter")
    if operator.direction is ConvolutionDirection.BACKWARD:
        return None
    used = list(window.met_taps(operator.input.sizes[2:]))
    if all(len(taps) == count for taps, count in zip(used, window.taps, strict=True)):
        return None
    before = [taps.start for taps in used]
    after = [count - taps.stop for taps, count in zip(used, window.taps, strict=True)]
    start, end = (
        tuple(
            padding - count * dilation for padding, count, dilation in zip(of, left_out, window.dilations, strict=True)
        )
        for of, left_out in ((window.start, before), (window.end, after))
    )
    weights = ir.values(filters) if filters.desc.total_bytes <= FILTER_BYTES else None
    if weights is None or not np.isfinite(weights).all():
        raise Declined("the filter must be a constant of finite numbers")
    demand(min(*start, *end) >= 0, "the first or last tap that is used begins within the input")
    if operator.mode is ConvolutionMode.CONVOLUTION:  # the last number of the filter is the first tap's
        before, after = after, before
    kept = tuple(slice(first, count - last) for first, last, count in zip(before, after, window.taps, strict=True))
    met = np.ascontiguousarray(weights[:, :, *kept])
    new = New.like(node, {"filter": Constant(met)}, {"start_padding": start, "end_padding": end})
    return Rewrite.of(new, f"{weights.size - met.size} numbers of the filter meet padding alone")


def _changeable(ir: IrGraph, convolution: IrNode, product: Operand) -> Convolution:
    """The convolution; raises Declined where it must stay as it is."""
    operator = convolution.computing(Convolution)
    alone(ir, product, "and would be computed twice")
    demand(operator.fused_activation is None, f"'{convolution.name}' has an activation before this")
    return operator


def _per_channel(ir: IrGraph, added: Operand, output: TensorDesc) -> Operand | Constant | None:
    """The number added to every element of each channel, as {1, C, 1, …}; None if it differs within a channel."""
    sizes = (1, output.sizes[1], *(1,) * (output.rank - 2))
    number = ir.number(added)
    if number is not None:
        return Constant(np.full(sizes, number.value, output.dtype.numpy))
    strides = added.desc.effective_strides
    if any(stride != 0 and output.sizes[axis] != 1 for axis, stride in enumerate(strides) if axis != 1):
        return None
    per_channel = tuple(stride if axis == 1 else 0 for axis, stride in enumerate(strides))
    return Operand(
        added.source, TensorDesc(dtype=output.dtype, sizes=sizes, strides=per_channel, owned=added.desc.owned)
    )


def _channel_values(ir: IrGraph, operand: Operand | None, channels: int) -> np.ndarray | None:
    """A constant of one number per channel, as {C}; None for anything else."""
    if operand is None:
        return None
    sizes = operand.desc.sizes
    if any(size != 1 for axis, size in enumerate(sizes) if axis != 1) or sizes[1] not in (1, channels):
        return None
    values = ir.values(operand)
    return None if values is None else np.broadcast_to(values.reshape(-1), (channels,))


RULES = (convolution_bias, normalized_convolution, used_taps)
