"""Gradients, and a step of training."""

from __future__ import annotations

import numpy as np

from dmlgraph.formats.onnx.activations import passing
from dmlgraph.formats.onnx.element_wise import bound
from dmlgraph.formats.onnx.export.emitter import Emitter, Symbol
from dmlgraph.formats.onnx.normalization import local_bases, local_sums, parameter_axes
from dmlgraph.formats.onnx.reduction import emit_reduction
from dmlgraph.formats.onnx.table import exports


@exports("activation_relu_grad", how="Greater, Where")
def _relu(node: Emitter) -> Symbol:
    x = node["input"]
    return passing(node, x > 0, node["input_gradient"])


@exports("clip_grad", "clip_grad1", how="Less, And, Where")
def _clip(node: Emitter) -> Symbol:
    x = node["input"]
    low, high = (node.number(bound(node.operator, field, x), x.dtype) for field in ("min", "max"))
    return passing(node, (low < x) & (x < high), node["input_gradient"])


@exports(
    "batch_normalization_grad",
    "batch_normalization_training_grad",
    how="Sub, Mul, ReduceSum, ReduceMean, Sqrt, Div",
)
def _batch(node: Emitter) -> list[Symbol]:
    gradient = node.wide("input_gradient")
    axes = parameter_axes(node)
    centred = node.wide("input") - node.wide("mean")
    square = node.wide("variance") + node.field("epsilon")
    deviation = node.call("Sqrt", square)
    terms = gradient * centred
    passed = gradient
    if node.operator.name == "batch_normalization_training_grad":
        share = emit_reduction(node, "ReduceMean", terms, axes) / square
        passed = gradient - emit_reduction(node, "ReduceMean", gradient, axes)
        passed = passed - centred * share
    of_input = node.wide("scale") / deviation * passed
    of_scale = emit_reduction(node, "ReduceSum", terms, axes) / deviation
    results = of_input, of_scale, emit_reduction(node, "ReduceSum", gradient, axes)
    return [node.cast(each, node.dtype) for each in results]


@exports("local_response_normalization_grad", how="AveragePool, Mul, Add, Pow, Sub")
def _local_response(node: Emitter) -> Symbol:
    x, gradient, beta = node.wide("input"), node.wide("input_gradient"), node.field("beta")
    bases = local_bases(node)
    powers = [node.call("Pow", bases, node.number(-each, bases.dtype)) for each in (beta, beta + 1)]
    sums = local_sums(node, gradient * x * powers[1])
    factor = 2 * node.field("alpha") * beta / node.field("local_size")
    through = x * factor * sums
    return node.cast(gradient * powers[0] - through, node.dtype)


@exports("adam_optimizer", how="Mul, Add, Pow, Sqrt, Div, Sub")
def _adam(node: Emitter) -> list[Symbol]:
    gradient = node.wide("gradient")
    beta1, beta2 = node.field("beta1"), node.field("beta2")
    square = gradient * gradient
    moments = [
        node.wide(field) * beta + term * (1 - beta)
        for field, beta, term in (
            ("input_first_moment", beta1, gradient),
            ("input_second_moment", beta2, square),
        )
    ]
    step = node.cast(node["training_step"], np.dtype("float32"))
    lefts = [node.call("Pow", node.number(beta, np.float32), step) * -1 + 1 for beta in (beta1, beta2)]  # 1 − beta^T
    correction = node.call("Sqrt", lefts[1]) / lefts[0]
    first = node.call("Equal", step, node.number(0, np.float32))
    correction = node.call("Where", first, node.number(1, np.float32), correction)
    alpha = node.cast(correction * node.field("learning_rate"), gradient.dtype)
    divisor = node.call("Sqrt", moments[1]) + node.field("epsilon")
    change = alpha * moments[0] / divisor
    parameters = node.wide("input_parameters") - change
    return [node.cast(each, node.dtype) for each in (parameters, *moments)]
