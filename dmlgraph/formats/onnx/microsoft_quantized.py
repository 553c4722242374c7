"""Quantized operators of the domain com.microsoft."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dmlgraph.formats.onnx.activations import BY_AXIS, along_axis, along_the_rest
from dmlgraph.formats.onnx.matrix import Factor, dequantized_product, product_shape
from dmlgraph.formats.onnx.node import Maybe, Node, Result, at_axis, broadcast
from dmlgraph.formats.onnx.one_to_one import of_one
from dmlgraph.formats.onnx.quantization import DequantizeLinear, QLinearConv, QuantizeLinear
from dmlgraph.formats.onnx.recurrent import recurrent
from dmlgraph.formats.onnx.reduction import reduced
from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.formats.onnx.shapes import as_channels_first, as_channels_last
from dmlgraph.formats.onnx.table import MICROSOFT, OLDEST, imports
from dmlgraph.formats.onnx.tensors import Tensor, stored
from dmlgraph.formats.onnx.windows import AveragePool, GlobalAveragePool
from dmlgraph.graph.value import Value


def _single(node: Node, tensor: Maybe, rank: int, dtype: Any) -> Value:
    """A scale or zero point of one element, {1, …}; a zero point that is left out is 0."""
    if tensor is None:
        tensor = Tensor.of(np.zeros(1, dtype))
    if tensor.count != 1:
        got = list(tensor.shape)
        raise Refusal("must have one element", code="count", field=node.place(tensor), got=got)
    return node.reshaped(tensor, (1,) * max(rank, 1))


def _numbers(node: Node, x: Tensor, scale: Tensor, zero: Maybe) -> Tensor:
    """The numbers that a quantized input stands for."""
    parts = [_single(node, each, x.rank, x.dtype) for each in (scale, zero)]
    return node.tensor(node.dequantize_linear(x, *parts), x.shape)


def _steps(node: Node, x: Tensor, scale: Tensor, zero: Maybe, dtype: Any) -> Tensor:
    """Numbers quantized with a scale and zero point."""
    parts = [_single(node, each, x.rank, dtype) for each in (scale, zero)]
    made = node.quantize_linear(x, *parts, dtype=stored(np.dtype(dtype)))
    return node.tensor(made, x.shape)


@imports(domain=MICROSOFT, how="quantized_linear_add")
def QLinearAdd(
    node: Node,
    A: Tensor,
    A_scale: Tensor,
    A_zero_point: Maybe,
    B: Tensor,
    B_scale: Tensor,
    B_zero_point: Maybe,
    C_scale: Tensor,
    C_zero_point: Maybe = None,
) -> Tensor:
    shape = broadcast([A, B])
    of_a, of_b, of_c = (
        [_single(node, each, 1, A.dtype) for each in pair]
        for pair in ((A_scale, A_zero_point), (B_scale, B_zero_point), (C_scale, C_zero_point))
    )
    return node.tensor(node.quantized_linear_add(A, *of_a, B, *of_b, *of_c), shape)


# Operators on the numbers that quantized tensors stand for.


def _on_numbers(rule: Callable[..., Tensor], tensors: int, plain: int = 0) -> Callable[..., Tensor]:
    """A rule on numbers as one on quantized tensors.

    Its inputs are `plain` ones, each of the tensors with its scale and zero point, and those of the result.
    """

    def quantized(node: Node, *_: Tensor, **attributes: Any) -> Tensor:
        inputs: list[Any] = [*node.inputs, None]  # the last zero point may be left out
        last = plain + 3 * tensors
        numbers = [_numbers(node, *inputs[at : at + 3]) for at in range(plain, last, 3)]
        made = rule(node, *inputs[:plain], *numbers, **attributes)
        return _steps(node, made, inputs[last], inputs[last + 1], inputs[plain].dtype)

    return quantized


def _product(node: Node, a: Tensor, b: Tensor) -> Tensor:
    return node.tensor(node.multiply(a, b), broadcast([a, b]))


def _chosen(node: Node, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return node.tensor(node.if_(condition, x, y), broadcast([condition, x, y]))


def _softmax(node: Node, x: Tensor, *, axis: int = -1, opset: int = 13) -> Tensor:
    """As in an opset of ONNX."""
    if opset < OLDEST:
        raise Refusal("there is no Softmax in this opset", code="opset", field="opset", got=opset)
    return (along_axis if opset >= BY_AXIS else along_the_rest)(node, "activation_softmax", x, axis)


def _mean(node: Node, x: Tensor, **attributes: Any) -> Tensor:
    return reduced(node, x, "average", **attributes)


def _pooling(rule: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def pooled(node: Node, x: Tensor, *, channels_last: int = 0, **attributes: Any) -> Tensor:
        made = rule(node, as_channels_first(node, x) if channels_last else x, **attributes)
        return as_channels_last(node, made) if channels_last else made

    return pooled


for _name, _function, _rule in (
    ("Mul", "multiply", _on_numbers(_product, 2)),
    ("Where", "if_", _on_numbers(_chosen, 2, plain=1)),
    ("Softmax", "activation_softmax1", _on_numbers(_softmax, 1)),
    ("ReduceMean", "reduce", _on_numbers(_mean, 1)),
    ("AveragePool", "average_pooling1", _on_numbers(_pooling(AveragePool), 1)),
    ("GlobalAveragePool", "reduce", _on_numbers(_pooling(GlobalAveragePool), 1)),
    ("Sigmoid", "activation_sigmoid", _on_numbers(of_one("activation_sigmoid"), 1)),
    ("LeakyRelu", "activation_leaky_relu", _on_numbers(of_one("activation_leaky_relu", alpha=0.01), 1)),
):
    _how = f"dequantize_linear, {_function}, quantize_linear" + (", views" if _name.endswith("Pool") else "")
    imports(f"QLinear{_name}", domain=MICROSOFT, how=_how)(_rule)


@imports(domain=MICROSOFT, how="dequantize_linear, quantize_linear, join")
def QLinearConcat(node: Node, Y_scale: Tensor, Y_zero_point: Tensor, *inputs: Tensor, axis: int) -> Tensor:
    """The inputs are each tensor with its scale and zero point."""
    if len(node.inputs) < 5 or len(node.inputs) % 3 != 2:
        raise Refusal("needs a scale and a zero point for each tensor", code="count", got=len(node.inputs))
    for at, each in enumerate(node.inputs):
        node.there(at, each)
    parts = [
        x
        if _are_same(scale, Y_scale) and _are_same(zero, Y_zero_point)
        else _steps(node, _numbers(node, x, scale, zero), Y_scale, Y_zero_point, Y_zero_point.dtype)
        for x, scale, zero in zip(inputs[::3], inputs[1::3], inputs[2::3], strict=True)
    ]
    axis = at_axis(axis, parts[0].rank)
    return node.tensor(node.join(parts, axis=axis)) if len(parts) > 1 else parts[0]


def _are_same(one: Tensor, other: Tensor) -> bool:
    """Whether two scales or zero points are known to be the same."""
    if one.known is None or other.known is None:
        return False
    return np.array_equal(one.known.ravel(), other.known.ravel())


# Products.


def _with_bias(node: Node, made: Value, bias: Tensor | None, shape: tuple[int, ...]) -> Tensor:
    return node.tensor(made if bias is None else node.add(made, bias), shape)


@imports(domain=MICROSOFT, how="matrix_multiply_integer, cast, multiply, add")
def MatMulIntegerToFloat(
    node: Node,
    A: Tensor,
    B: Tensor,
    a_scale: Tensor,
    b_scale: Tensor,
    a_zero_point: Maybe = None,
    b_zero_point: Maybe = None,
    bias: Maybe = None,
) -> Result:
    """Inputs: a, b, their scales, their zero points, bias."""
    left, right = Factor(A, a_scale, a_zero_point), Factor(B, b_scale, b_zero_point)
    shape = product_shape(A.shape, B.shape)
    return _with_bias(node, dequantized_product(node, left, right), bias, shape)


@imports(domain=MICROSOFT, how="dynamic_quantize_linear, matrix_multiply_integer, multiply, add")
def DynamicQuantizeMatMul(
    node: Node, A: Tensor, B: Tensor, b_scale: Tensor, b_zero_point: Maybe = None, bias: Maybe = None
) -> Result:
    """Inputs: a as floats, b, its scale and zero point, bias."""
    a = node.dynamic_quantize_linear(A, dtype="uint8")
    scale, zero = (node.tensor(each, ()) for each in (a.output_scale, a.output_zero_point))
    left = Factor(node.tensor(a.output, A.shape), scale, zero)
    right = Factor(B, b_scale, b_zero_point)
    shape = product_shape(A.shape, B.shape)
    return _with_bias(node, dequantized_product(node, left, right), bias, shape)


@imports(domain=MICROSOFT, how="matrix_multiply_integer, add, cast, multiply; quantize_linear")
def QGemm(
    node: Node,
    A: Tensor,
    a_scale: Tensor,
    a_zero_point: Tensor,
    B: Tensor,
    b_scale: Tensor,
    b_zero_point: Tensor,
    C: Maybe = None,
    y_scale: Maybe = None,
    y_zero_point: Maybe = None,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    """C are steps of the product."""
    a, b = (
        node.tensor(node.transposed(each, [1, 0])) if turned else each for each, turned in ((A, transA), (B, transB))
    )
    left, right = Factor(a, a_scale, a_zero_point), Factor(b, b_scale, b_zero_point)
    made = node.tensor(dequantized_product(node, left, right, alpha, C))
    if y_scale is None:
        return made
    return _steps(node, made, y_scale, y_zero_point, A.dtype if y_zero_point is None else y_zero_point.dtype)


@imports("QLinearConv", domain=MICROSOFT, how="quantized_linear_convolution, transpose")
def _convolution(node: Node, x: Tensor, *rest: Tensor, channels_last: int = 0, **attributes: Any) -> Tensor:
    """The weights have their channels in the second dimension, whatever the layout of the others."""
    made = QLinearConv(node, as_channels_first(node, x) if channels_last else x, *rest, **attributes)
    return as_channels_last(node, made) if channels_last else made


# Below level 6.2 there must be a zero point.


@imports("QuantizeLinear", domain=MICROSOFT, how="as ONNX's own")
def _quantized(node: Node, x: Tensor, y_scale: Tensor, y_zero_point: Maybe = None, *, axis: int = 1) -> Tensor:
    zero = Tensor.of(np.zeros(y_scale.shape, np.uint8)) if y_zero_point is None else y_zero_point
    return QuantizeLinear(node, x, y_scale, zero, axis=axis)


@imports("DequantizeLinear", domain=MICROSOFT, how="as ONNX's own")
def _dequantized(node: Node, x: Tensor, x_scale: Tensor, x_zero_point: Maybe = None, *, axis: int = 1) -> Tensor:
    zero = Tensor.of(np.zeros(x_scale.shape, x.dtype)) if x_zero_point is None else x_zero_point
    return DequantizeLinear(node, x, x_scale, zero, axis=axis)


@imports(domain=MICROSOFT, how="dequantized weights, then as LSTM")
def DynamicQuantizeLSTM(
    node: Node,
    X: Tensor,
    W: Tensor,
    R: Tensor,
    B: Maybe,
    sequence_lens: Maybe,
    initial_h: Maybe,
    initial_c: Maybe,
    P: Maybe,
    W_scale: Tensor,
    W_zero_point: Tensor,
    R_scale: Tensor,
    R_zero_point: Tensor,
    **attributes: Any,
) -> list[Tensor]:
    """The weights are integers {D, inputs, 4 · H}.

    The inputs and states stay floats, which ONNX Runtime rounds to 8 bits.
    """
    weights = [_gates(node, *each) for each in ((W, W_scale, W_zero_point), (R, R_scale, R_zero_point))]
    return recurrent(node, X, weights[0], weights[1], B, sequence_lens, initial_h, initial_c, P, **attributes)


def _gates(node: Node, weights: Tensor, steps: Tensor, zeros: Tensor) -> Tensor:
    """Quantized weights {D, inputs, 4 · H} as LSTM takes them: floats {D, 4 · H, inputs}."""
    if steps.shape not in ((weights.shape[0],), (weights.shape[0], weights.shape[2])):
        allowed = f"{[weights.shape[0]]} or {[weights.shape[0], weights.shape[2]]}"
        raise Refusal("needs scales for directions or columns", code="sizes", got=list(steps.shape), allowed=allowed)
    columns = (weights.shape[0], 1, steps.count // weights.shape[0])
    offsets = node.reshaped(node.converted(zeros, "float32"), columns)
    numbers = node.subtract(node.converted(weights, "float32"), offsets)
    made = node.multiply(numbers, node.reshaped(steps, columns))
    return node.tensor(node.transposed(made, [0, 2, 1]))
