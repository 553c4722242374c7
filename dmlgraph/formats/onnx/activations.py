"""Activations and softmaxes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dmlgraph.formats.onnx.node import Node, Result
from dmlgraph.formats.onnx.refusals import ByDefinition
from dmlgraph.formats.onnx.table import OLDEST, imports
from dmlgraph.formats.onnx.tensors import Tensor

# ONNX's name → the function of dmlgraph, and its fields: the name of the attribute, its default.
_ACTIVATIONS: dict[str, tuple[str, dict[str, tuple[str, float]]]] = {
    "Celu": ("activation_celu", {"alpha": ("alpha", 1.0)}),
    "Elu": ("activation_elu", {"alpha": ("alpha", 1.0)}),
    "HardSigmoid": ("activation_hard_sigmoid", {"alpha": ("alpha", 0.2), "beta": ("beta", 0.5)}),
    "LeakyRelu": ("activation_leaky_relu", {"alpha": ("alpha", 0.01)}),
    "Relu": ("activation_relu", {}),
    "Selu": (
        "activation_scaled_elu",
        {"alpha": ("alpha", 1.67326319217681884765625), "gamma": ("gamma", 1.05070102214813232421875)},
    ),
    "Sigmoid": ("activation_sigmoid", {}),
    "Softplus": ("activation_softplus", {}),
    "Softsign": ("activation_softsign", {}),
    "Swish": ("activation_swish", {"sigmoid_input_scale": ("alpha", 1.0)}),
    "ThresholdedRelu": ("activation_thresholded_relu", {"alpha": ("alpha", 1.0)}),
}
_SINCE = {"Celu": 12, "Swish": 24}
_ALONG = {"Softmax": "activation_softmax1", "LogSoftmax": "activation_log_softmax1", "Hardmax": "activation_hardmax1"}


def _activation(node: Node) -> Result:
    if node.operator == "Relu" and node[0].dtype.itemsize == 8 and not node[0].is_float:
        zero = Tensor.of(np.zeros(1, node[0].dtype))
        return node.tensor(node.dml.max(node[0], zero), node[0].shape)
    function, names = _ACTIVATIONS[node.operator]
    fields: dict[str, Any] = {field: node.attribute(name, default) for field, (name, default) in names.items()}
    return node.tensor(getattr(node.dml, function)(node[0], **fields), node[0].shape)


for _name, (_function, _) in _ACTIVATIONS.items():
    imports(_name, how=_function, since=_SINCE.get(_name, OLDEST))(_activation)


@imports("Shrink", since=9, how="activation_shrink; of integers in float32; a negative lambd: also negate")
def _shrink(node: Node) -> Result:
    x, dml = node[0], node.dml
    bias, threshold = node.attribute("bias", 0.0), node.attribute("lambd", 0.5)
    value = dml.value(x)
    if not x.is_float:  # DirectML rounds the result to an integer, ONNX cuts its fraction
        value = dml.converted(value, "float32")
    # A number may be on both sides of a negative threshold: DirectML looks at the upper side first, ONNX at the lower.
    turned = threshold < 0
    made = dml.activation_shrink(dml.negate(value) if turned else value, bias=bias, threshold=threshold)
    return node.tensor(dml.negate(made) if turned else made, x.shape)


@imports("HardSwish", since=14, how="activation_hard_swish")
def _hard_swish(node: Node) -> Result:
    return node.tensor(node.dml.activation_hard_swish(node[0], alpha=1 / 6, beta=0.5), node[0].shape)


@imports("Gelu", since=20, how="activation_gelu; the approximation: ONNX's definition")
def _gelu(node: Node) -> Result:
    if node.attribute("approximate", "none") != "none":
        raise ByDefinition
    return node.tensor(node.dml.activation_gelu(node[0]), node[0].shape)


@imports("PRelu", how="activation_parameterized_relu; integers: multiply, if_")
def _prelu(node: Node) -> Result:
    if not node[0].is_float:
        x, zero = node.dml.value(node[0]), Tensor.of(np.zeros(1, node[0].dtype))
        below = node.dml.logical_less_than(x, zero, dtype="uint8")
        return node.tensor(node.dml.if_(below, node.dml.multiply(x, node[1]), x), node[0].shape)
    slope = node.dml.expanded(node[1], node[0].sizes)
    return node.tensor(node.dml.activation_parameterized_relu(node[0], slope), node[0].shape)


def _along_axis(node: Node) -> Result:
    return _softmax(node, [node.axis(-1)] if node[0].rank else [0])


def _along_the_rest(node: Node) -> Result:
    """Before opset 13 the input was taken as a matrix: the dimensions from the axis on count as one."""
    return _softmax(node, list(range(node.axis(1), node[0].rank)))


def _softmax(node: Node, axes: list[int]) -> Result:
    dml, x, function = node.dml, node[0], _ALONG[node.operator]
    if dml.has(function):
        return node.tensor(getattr(dml, function)(x, axes=axes), x.shape)
    # The earlier version works along the last axis of a matrix.
    order = [*(axis for axis in range(len(x.sizes)) if axis not in axes), *axes]
    moved = dml.transposed(x, order)
    columns = math.prod(x.sizes[axis] for axis in axes)
    made = getattr(dml, function.removesuffix("1"))(dml.reshaped(moved, (1, 1, x.count // columns, columns)))
    made = dml.reshaped(made, moved.sizes)
    return node.tensor(dml.transposed(made, [order.index(axis) for axis in range(len(order))]), x.shape)


for _name, _function in _ALONG.items():
    imports(_name, how=_function, until=12)(_along_the_rest)
    imports(_name, how=_function, since=13)(_along_axis)
