"""Quantized operators of the domain com.microsoft."""

from __future__ import annotations

from typing import Any

import numpy as np

from dmlgraph.formats.onnx.delegation import channels_first, channels_last, own, own_outputs
from dmlgraph.formats.onnx.integer_products import Factor, dequantized_product
from dmlgraph.formats.onnx.matrix import product_shape
from dmlgraph.formats.onnx.node import Node, Result, at_axis, broadcast
from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.formats.onnx.table import MICROSOFT, imports
from dmlgraph.formats.onnx.tensors import Tensor, stored
from dmlgraph.graph.value import Value


def _single(node: Node, index: int, rank: int, dtype: Any) -> Value:
    """A scale or zero point of one element, {1, …}; a zero point that is left out is 0."""
    tensor = node.get(index)
    if tensor is None:
        tensor = Tensor.of(np.zeros(1, dtype))
    if tensor.count != 1:
        raise Refusal("must have one element", code="count", field=f"input {index}", got=list(tensor.shape))
    return node.dml.reshaped(tensor, (1,) * max(rank, 1))


def _numbers(node: Node, x: int, scale: int, zero: int) -> Tensor:
    """The numbers that a quantized input stands for; the arguments are indices of inputs."""
    tensor = node[x]
    parts = [_single(node, index, tensor.rank, tensor.dtype) for index in (scale, zero)]
    return node.tensor(node.dml.dequantize_linear(tensor, *parts), tensor.shape)


def _steps(node: Node, x: Tensor, scale: int, zero: int, dtype: Any) -> Tensor:
    """Numbers quantized with a scale and zero point; the latter are indices of inputs."""
    parts = [_single(node, index, x.rank, dtype) for index in (scale, zero)]
    made = node.dml.quantize_linear(x, *parts, dtype=stored(np.dtype(dtype)))
    return node.tensor(made, x.shape)


# Element-wise; inputs: each tensor with its scale and zero point, then the result's.


@imports("QLinearAdd", domain=MICROSOFT, how="quantized_linear_add")
def _add(node: Node) -> Result:
    a, b = node[0], node[3]
    shape = broadcast([a, b])
    left, right, wanted = ([_single(node, index + part, 1, a.dtype) for part in (0, 1)] for index in (1, 4, 6))
    return node.tensor(node.dml.quantized_linear_add(a, *left, b, *right, *wanted), shape)


@imports("QLinearMul", domain=MICROSOFT, how="dequantize_linear, multiply, quantize_linear")
def _mul(node: Node) -> Result:
    a, b = _numbers(node, 0, 1, 2), _numbers(node, 3, 4, 5)
    product = node.tensor(node.dml.multiply(a, b), broadcast([a, b]))
    return _steps(node, product, 6, 7, node[0].dtype)


@imports("QLinearSigmoid", domain=MICROSOFT, how="dequantize_linear, activation_sigmoid, quantize_linear")
@imports("QLinearLeakyRelu", domain=MICROSOFT, how="dequantize_linear, activation_leaky_relu, quantize_linear")
def _activation(node: Node) -> Result:
    made = own(node, node.operator.removeprefix("QLinear"), _numbers(node, 0, 1, 2))
    return _steps(node, made, 3, 4, node[0].dtype)


@imports("QLinearSoftmax", domain=MICROSOFT, how="dequantize_linear, activation_softmax1, quantize_linear")
def _softmax(node: Node) -> Result:
    opset, axis = int(node.attribute("opset", 13)), node.attribute("axis", -1)
    made = own(node, "Softmax", _numbers(node, 0, 1, 2), opset=opset, axis=axis)
    return _steps(node, made, 3, 4, node[0].dtype)


@imports("QLinearWhere", domain=MICROSOFT, how="dequantize_linear, if_, quantize_linear")
def _where(node: Node) -> Result:
    made = own(node, "Where", node[0], _numbers(node, 1, 2, 3), _numbers(node, 4, 5, 6))
    return _steps(node, made, 7, 8, node[1].dtype)


@imports("QLinearConcat", domain=MICROSOFT, how="dequantize_linear, quantize_linear, join")
def _concat(node: Node) -> Result:
    """Inputs: the result's scale and zero point, then each tensor with its own."""
    if len(node.inputs) < 5 or len(node.inputs) % 3 != 2:
        raise Refusal("needs a scale and a zero point for each tensor", code="count", got=len(node.inputs))
    dtype = node[1].dtype
    parts = [
        node[index]
        if _same_steps(node, index)
        else _steps(node, _numbers(node, index, index + 1, index + 2), 0, 1, dtype)
        for index in range(2, len(node.inputs), 3)
    ]
    axis = at_axis(int(node.required("axis")), parts[0].rank)
    return node.tensor(node.dml.join(parts, axis=axis)) if len(parts) > 1 else parts[0]


def _same_steps(node: Node, index: int) -> bool:
    """Whether an input's scale and zero point are known to be the result's."""
    pairs = [(node[part].known, node[index + 1 + part].known) for part in (0, 1)]
    return all(a is not None and b is not None and np.array_equal(a.ravel(), b.ravel()) for a, b in pairs)


# Averages.


@imports("QLinearReduceMean", domain=MICROSOFT, how="dequantize_linear, reduce, quantize_linear")
def _mean(node: Node) -> Result:
    made = own(node, "ReduceMean", _numbers(node, 0, 1, 2), opset=13)
    return _steps(node, made, 3, 4, node[0].dtype)


@imports("QLinearAveragePool", domain=MICROSOFT, how="dequantize_linear, average_pooling1, quantize_linear, views")
@imports("QLinearGlobalAveragePool", domain=MICROSOFT, how="dequantize_linear, reduce, quantize_linear, views")
def _pool(node: Node) -> Result:
    x, last = _numbers(node, 0, 1, 2), bool(node.attribute("channels_last", 0))
    made = own(node, node.operator.removeprefix("QLinear"), channels_first(node, x) if last else x)
    return _steps(node, channels_last(node, made) if last else made, 3, 4, node[0].dtype)


# Products.


def _with_bias(node: Node, made: Value, bias: Tensor | None, shape: tuple[int, ...]) -> Result:
    return node.tensor(made if bias is None else node.dml.add(made, bias), shape)


@imports("MatMulIntegerToFloat", domain=MICROSOFT, how="matrix_multiply_integer, cast, multiply, add")
def _to_float(node: Node) -> Result:
    """Inputs: a, b, their scales, their zero points, bias."""
    left, right = Factor(node[0], node[2], node.get(4)), Factor(node[1], node[3], node.get(5))
    shape = product_shape(node[0].shape, node[1].shape)
    return _with_bias(node, dequantized_product(node, left, right), node.get(6), shape)


@imports(
    "DynamicQuantizeMatMul", domain=MICROSOFT, how="dynamic_quantize_linear, matrix_multiply_integer, multiply, add"
)
def _dynamic(node: Node) -> Result:
    """Inputs: a as floats, b, its scale and zero point, bias."""
    a = node.dml.dynamic_quantize_linear(node[0], dtype="uint8")
    scale, zero = (node.tensor(each, ()) for each in (a.output_scale, a.output_zero_point))
    left = Factor(node.tensor(a.output, node[0].shape), scale, zero)
    right = Factor(node[1], node[2], node.get(3))
    shape = product_shape(node[0].shape, node[1].shape)
    return _with_bias(node, dequantized_product(node, left, right), node.get(4), shape)


@imports("QGemm", domain=MICROSOFT, how="matrix_multiply_integer, add, cast, multiply; quantize_linear")
def _gemm(node: Node) -> Result:
    """Inputs: a, its scale and zero point, b, its own, c as steps of the product, the result's scale and zero point."""
    a, b = (
        node.tensor(node.dml.transposed(node[index], [1, 0])) if node.attribute(name, 0) else node[index]
        for index, name in ((0, "transA"), (3, "transB"))
    )
    left, right = Factor(a, node[1], node.get(2)), Factor(b, node[4], node.get(5))
    made = node.tensor(dequantized_product(node, left, right, node.attribute("alpha", 1.0), node.get(6)))
    if node.get(7) is None:
        return made
    zero: Tensor | None = node.get(8)
    return _steps(node, made, 7, 8, node[0].dtype if zero is None else zero.dtype)


@imports("QLinearConv", domain=MICROSOFT, how="quantized_linear_convolution, transpose")
def _conv(node: Node) -> Result:
    """The weights have their channels in the second dimension, whatever the layout of the others."""
    last, rest = bool(node.attribute("channels_last", 0)), [node.get(index) for index in range(1, 9)]
    made = own(node, "QLinearConv", channels_first(node, node[0]) if last else node[0], *rest)
    return channels_last(node, made) if last else made


@imports("QuantizeLinear", "DequantizeLinear", domain=MICROSOFT, how="as ONNX's own")
def _linear(node: Node) -> Result:
    x, scale, zero = node[0], node[1], node.get(2)
    if zero is None:  # below level 6.2 there must be one
        zero = Tensor.of(np.zeros(scale.shape, x.dtype if node.operator == "DequantizeLinear" else np.uint8))
    return own(node, node.operator, x, scale, zero)


@imports("DynamicQuantizeLSTM", domain=MICROSOFT, how="dequantized weights, then as LSTM")
def _lstm(node: Node) -> Result:
    """Inputs: those of LSTM, weights {D, inputs, 4 · H} of integers; then scale and zero point of both weights.

    The inputs and states stay floats, which ONNX Runtime rounds to 8 bits.
    """
    weights = [_gates(node, index, scale) for index, scale in ((1, 8), (2, 10))]
    rest = [node.get(index) for index in range(3, 8)]
    return own_outputs(node, "LSTM", node.outputs, node[0], *weights, *rest)


def _gates(node: Node, index: int, scale: int) -> Tensor:
    """Quantized weights {D, inputs, 4 · H} as LSTM takes them: floats {D, 4 · H, inputs}."""
    weights, steps, zeros = node[index], node[scale], node.get(scale + 1)
    if steps.shape not in ((weights.shape[0],), (weights.shape[0], weights.shape[2])):
        allowed = f"{[weights.shape[0]]} or {[weights.shape[0], weights.shape[2]]}"
        raise Refusal("needs scales for directions or columns", code="sizes", got=list(steps.shape), allowed=allowed)
    dml, columns = node.dml, (weights.shape[0], 1, steps.count // weights.shape[0])
    numbers = dml.converted(weights, "float32")
    if zeros is not None:
        numbers = dml.subtract(numbers, dml.reshaped(dml.converted(zeros, "float32"), columns))
    made = dml.multiply(numbers, dml.reshaped(steps, columns))
    return node.tensor(dml.transposed(made, [0, 2, 1]))
