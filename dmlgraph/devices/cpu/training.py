"""Batch normalization in training and its gradients as parts, see dmlgraph.devices.cpu.parts."""

from __future__ import annotations

from dmlgraph.base.tensor import TensorDesc
from dmlgraph.devices.cpu.lowering import Lowerings, lowers
from dmlgraph.devices.cpu.nodes import Lowered
from dmlgraph.devices.cpu.parts import Parts, Tensor
from dmlgraph.devices.cpu.reduction import DOUBLE, SINGLE, centred, finish, inverse_root, single
from dmlgraph.operators.normalization import BatchNormalizationTraining, reduced_axes
from dmlgraph.operators.normalization_grad import BatchGradient, BatchNormalizationGrad, BatchNormalizationTrainingGrad


def _batch_normalization_training(operator: BatchNormalizationTraining) -> Lowered | None:
    parts, axes = Parts(operator), reduced_axes(operator.scale.sizes)
    x, scale, bias = (parts.input(field).single() for field in ("input", "scale", "bias"))
    mean = x.mean(axes)
    difference = centred(x, mean)
    squares = difference.reduce("SUM_SQUARE_WIDE", axes, DOUBLE)
    count = x.desc.element_count // squares.desc.element_count
    variance = parts.store(squares.apply("SCALE_BIAS", 1 / count, 0.0))
    factor = parts.store(inverse_root(variance, operator.epsilon))
    result = finish(difference * factor * scale + bias, single(parts, "fused_add"), operator)
    if result is None:
        return None
    parts.store(result, operator.output)
    parts.store(mean, operator.output_mean)
    return parts.store(variance, operator.output_variance).finish()


def _batch_gradient(operator: BatchGradient) -> Lowered | None:
    """The gradients of input, scale and bias; the mean and variance may come from the input."""
    sizes = operator.scale.sizes
    if any(size not in (1, whole) for size, whole in zip(operator.variance.sizes, sizes, strict=True)):
        return None  # a gradient of the scale for each variance
    parts, axes = Parts(operator), reduced_axes(sizes)
    x, gradient, mean, variance, scale = (each.single() for each in parts.inputs())
    difference = centred(x, mean)
    products = parts.store(gradient * difference)
    total, of_products = gradient.sum(axes), products.sum(axes)
    root = parts.store(inverse_root(variance.convert(DOUBLE), operator.epsilon))
    factor = parts.store(scale * root, TensorDesc(dtype=SINGLE, sizes=sizes))
    if isinstance(operator, BatchNormalizationTrainingGrad):
        gradient = _without_own(difference, gradient, total, of_products, root)
    parts.store(gradient * factor, operator.output_gradient)
    parts.store(of_products * root.convert(DOUBLE), operator.output_scale_gradient)
    return parts.store(total, operator.output_bias_gradient).finish()


def _without_own(difference: Tensor, gradient: Tensor, total: Tensor, of_products: Tensor, root: Tensor) -> Tensor:
    """gradient − average(gradient) − centred · average(gradient · centred) / (variance + epsilon)"""
    parts, part = difference.parts, total.desc.element_count / gradient.desc.element_count
    average = parts.store(total.apply("SCALE_BIAS", part, 0.0))
    inverse = root.convert(DOUBLE)
    share = parts.store((of_products * (inverse * inverse)).apply("SCALE_BIAS", part, 0.0).convert(SINGLE))
    return parts.store(centred(gradient, average) - difference * share)


TRAINING: Lowerings = {
    **lowers(_batch_normalization_training, BatchNormalizationTraining),
    **lowers(_batch_gradient, BatchNormalizationGrad, BatchNormalizationTrainingGrad),
}
