"""Batch normalization in training and its gradients as parts, see dmlgraph.devices.cpu.parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dmlgraph.base.tensor import TensorDesc
from dmlgraph.devices.cpu.element_wise import Code, activate
from dmlgraph.devices.cpu.parts import Parts, Tensor, operands
from dmlgraph.devices.cpu.reduction import DOUBLE, SINGLE, inverse_root
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.normalization import BatchNormalizationTraining, reduced_axes
from dmlgraph.operators.normalization_grad import BatchGradient, BatchNormalizationGrad, BatchNormalizationTrainingGrad

Payload = tuple[str, Any]


def _centred(parts: Parts, x: Tensor, mean: Tensor) -> Tensor:
    """The float32 x minus the mean, which is rounded once if that is float64."""
    code = Code()
    opcode = "SUBTRACT_WIDE" if mean.desc.dtype is DOUBLE else "SUBTRACT"
    code.add(opcode, *operands(x, mean), result=SINGLE)
    return parts.compute(code, x, mean, output=TensorDesc(dtype=SINGLE, sizes=x.desc.sizes))


def _batch_normalization_training(operator: BatchNormalizationTraining) -> Payload | None:
    parts, axes = Parts(), reduced_axes(operator.scale.sizes)
    x, scale, bias = (parts.single(Tensor(port, desc)) for port, desc in enumerate(operator.input_descs[:3]) if desc)
    mean = parts.reduce("AVERAGE", x, axes, DOUBLE)
    centred = _centred(parts, x, mean)
    squares = parts.reduce("SUM_SQUARE_WIDE", centred, axes, DOUBLE)
    count = x.desc.element_count // squares.desc.element_count
    code = Code()
    code.add("SCALE_BIAS", *operands(squares), immediates=(1 / count, 0.0))
    variance = parts.compute(code, squares, output=squares.desc)
    code = Code()
    (value,) = operands(variance)
    factor = inverse_root(parts, code, value, variance, operator.epsilon)
    given = [centred, factor, scale, bias]
    if operator.fused_add is not None:
        given.append(parts.single(Tensor(3, operator.fused_add)))
    code = Code()
    number, by, and_by, *addends = operands(*given)
    result = code.add("MULTIPLY", code.add("MULTIPLY", number, by), and_by)
    for each in addends:
        result = code.add("ADD", result, each)
    if operator.fused_activation is not None:
        activated = activate(code, operator.fused_activation, result, operator.output.dtype)
        if activated is None:
            return None
        result = activated
    code.convert(result, operator.output.dtype)
    parts.compute(code, *given, output=operator.output)
    for made, desc in ((mean, operator.output_mean), (variance, operator.output_variance)):
        parts.convert_to(made, desc)
    return parts.finish()


def _batch_gradient(operator: BatchGradient) -> Payload | None:
    """The gradients of input, scale and bias; `is_own` if mean and variance come from the input."""
    is_own = isinstance(operator, BatchNormalizationTrainingGrad)
    sizes = operator.scale.sizes
    if any(size not in (1, whole) for size, whole in zip(operator.variance.sizes, sizes, strict=True)):
        return None  # a gradient of the scale for each variance
    parts, axes = Parts(), reduced_axes(sizes)
    x, gradient, mean, variance, scale = (
        parts.single(Tensor(port, desc)) for port, desc in enumerate(operator.input_descs) if desc
    )
    whole, narrow = (TensorDesc(dtype=SINGLE, sizes=each) for each in (x.desc.sizes, sizes))
    centred = _centred(parts, x, mean)
    code = Code()
    code.add("MULTIPLY", *operands(gradient, centred))
    products = parts.compute(code, gradient, centred, output=whole)
    total, of_products = (parts.reduce("SUM", each, axes, DOUBLE) for each in (gradient, products))
    code = Code()
    (value,) = operands(variance)
    root = inverse_root(parts, code, code.convert(value, DOUBLE), variance, operator.epsilon)
    code = Code()
    code.add("MULTIPLY", *operands(scale, root))
    factor = parts.compute(code, scale, root, output=narrow)
    if is_own:
        gradient = _without_own(parts, centred, gradient, total, of_products, root)
    code = Code()
    code.convert(code.add("MULTIPLY", *operands(gradient, factor)), operator.output_gradient.dtype)
    parts.compute(code, gradient, factor, output=operator.output_gradient)
    code = Code()
    of_scale, by = operands(of_products, root)
    scaled = code.add("MULTIPLY", of_scale, code.convert(by, DOUBLE))
    code.convert(scaled, operator.output_scale_gradient.dtype)
    parts.compute(code, of_products, root, output=operator.output_scale_gradient)
    parts.convert_to(total, operator.output_bias_gradient)
    return parts.finish()


def _without_own(
    parts: Parts, centred: Tensor, gradient: Tensor, total: Tensor, of_products: Tensor, root: Tensor
) -> Tensor:
    """gradient − average(gradient) − centred · average(gradient · centred) / (variance + epsilon)"""
    part = total.desc.element_count / gradient.desc.element_count
    code = Code()
    code.convert(code.add("SCALE_BIAS", *operands(total), immediates=(part, 0.0)), DOUBLE)
    average = parts.compute(code, total, output=total.desc)
    code = Code()
    products, inverse = operands(of_products, root)
    inverse = code.convert(inverse, DOUBLE)
    share = code.add("MULTIPLY", products, code.add("MULTIPLY", inverse, inverse))
    code.convert(code.add("SCALE_BIAS", share, immediates=(part, 0.0)), SINGLE)
    share_of_all = parts.compute(code, of_products, root, output=total.desc.like(dtype=SINGLE))
    less = _centred(parts, gradient, average)
    code = Code()
    given = (less, centred, share_of_all)
    rest, number, by = operands(*given)
    code.add("SUBTRACT", rest, code.add("MULTIPLY", number, by))
    return parts.compute(code, *given, output=TensorDesc(dtype=SINGLE, sizes=gradient.desc.sizes))


TRAINING: Mapping[type[Operator], Callable[[Any], Payload | None]] = {
    BatchNormalizationTraining: _batch_normalization_training,
    BatchNormalizationGrad: _batch_gradient,
    BatchNormalizationTrainingGrad: _batch_gradient,
}
