"""Quantization, and operators on quantized tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir

from dmlgraph.base.tensor import DataType
from dmlgraph.formats.onnx.matrix import as_matrices, product_shape
from dmlgraph.formats.onnx.node import Node, Result, at_axis
from dmlgraph.formats.onnx.refusals import Refusal, give_values
from dmlgraph.formats.onnx.table import imports
from dmlgraph.formats.onnx.tensors import Tensor, stored
from dmlgraph.formats.onnx.windows import filter_window
from dmlgraph.graph.value import Value

Spread = Callable[[Tensor | None], Value | None]


def _spread(node: Node, x: Tensor) -> tuple[tuple[int, ...], Spread]:
    """The sizes in which the input is quantized, and what gives a scale or zero point sizes that broadcast to them.

    There is one number for all, one for each index of the axis, or one for each block along it: then the axis becomes
    two, of blocks and of places in one.
    """
    block, axis = int(node.attribute("block_size", 0)), node.attribute("axis", 1)
    if block < 0:
        raise Refusal("is negative", code="range", field="block_size", got=block)
    if not block:
        return x.sizes, lambda tensor: _along(node, tensor, x, axis)
    axis = at_axis(axis, x.rank)
    return _blocked(node, x, axis, block)


def _along(node: Node, tensor: Tensor | None, x: Tensor, axis: int) -> Value | None:
    if tensor is None:
        return None
    if tensor.count == 1:
        return node.dml.reshaped(tensor, (1,) * len(x.sizes))
    if tensor.rank != 1:
        raise Refusal("must be one number, or one for each index of the axis", code="sizes", got=list(tensor.shape))
    place = at_axis(axis, x.rank)
    return node.dml.reshaped(tensor, [tensor.count if each == place else 1 for each in range(x.rank)])


def _blocked(node: Node, x: Tensor, axis: int, block: int) -> tuple[tuple[int, ...], Spread]:
    """The same for blocks; where the last one is not whole, the numbers are repeated instead."""
    block = min(block, max(x.shape[axis], 1))
    blocks = -(-x.shape[axis] // block)
    wanted = (*x.shape[:axis], blocks, *x.shape[axis + 1 :])
    is_whole = blocks * block == x.shape[axis]
    places = np.arange(x.shape[axis], dtype=np.int32) // block

    def spread(tensor: Tensor | None) -> Value | None:
        if tensor is None:
            return None
        if tensor.shape != wanted:
            message = "must have the input's shape, with the number of blocks along the axis"
            raise Refusal(message, code="sizes", got=list(tensor.shape), allowed=str(list(wanted)))
        if is_whole:
            return node.dml.reshaped(tensor, (*wanted[: axis + 1], 1, *wanted[axis + 1 :]))
        if stored(tensor.dtype).bits == 4:  # GATHER takes none
            if tensor.known is None:
                message = "zero points of 4 bits must be known where the last block is not whole"
                raise Refusal(message, code="unknown-value", got=tensor.name or None, hint=give_values(tensor.depends))
            repeated: Value = node.dml.value(Tensor.of(tensor.known.take(places, axis), name=tensor.name))
            return repeated
        indices = places.reshape((1,) * (x.rank - 1) + (-1,))
        made: Value = node.dml.gather(tensor, Tensor.of(indices), axis=axis, index_dimensions=1)
        return made

    return (*x.shape[:axis], blocks, block, *x.shape[axis + 1 :]) if is_whole else x.shape, spread


@imports("QuantizeLinear", since=10, how="quantize_linear; 4 bits: quantize; 16 bits: divide, round, clip, cast")
def _quantize(node: Node) -> Result:
    x, zero = node[0], node.get(2)
    dtype = zero.dtype if zero is not None else node.dtype("output_dtype", ir.DataType.UINT8)
    sizes, spread = _spread(node, x)
    scale, point = spread(node[1]), spread(zero)
    numbers = node.dml.reshaped(x, sizes)
    bits = stored(dtype).bits
    if bits == 4:
        quantizations = [scale] if point is None else [scale, point]
        kind = "scale" if point is None else "scale_zero_point"
        made = node.dml.quantize(numbers, quantizations, dtype=stored(dtype), quantization_type=kind)
    elif bits == 8:
        made = node.dml.quantize_linear(numbers, scale, point, dtype=stored(dtype))
    else:
        made = _as_steps(node, numbers, scale, point, stored(dtype))
    return Tensor(dtype, x.shape, made=node.dml.reshaped(made, x.sizes))


def _as_steps(node: Node, x: Value, scale: Value | None, point: Value | None, dtype: DataType) -> Value:
    """clamp(round(x / scale) + zero point), for types that DirectML does not quantize to; exact for 16 bits."""
    steps = node.dml.round(node.dml.divide(*(node.dml.converted(each, "float32") for each in (x, scale))))
    if point is not None:
        steps = node.dml.add(steps, node.dml.converted(point, "float32"))
    low, high = dtype.range
    return node.dml.converted(node.dml.clip(steps, min=low, max=high), dtype)


@imports("DequantizeLinear", since=10, how="dequantize_linear; 4 bits: dequantize")
def _dequantize(node: Node) -> Result:
    x = node[0]
    sizes, spread = _spread(node, x)
    scale, point = spread(node[1]), spread(node.get(2))
    steps = node.dml.reshaped(x, sizes)
    if stored(x.dtype).bits == 4:
        quantizations = [scale] if point is None else [scale, point]
        kind = "scale" if point is None else "scale_zero_point"
        made = node.dml.dequantize(steps, quantizations, quantization_type=kind)
    else:
        made = node.dml.dequantize_linear(steps, scale, point)
    return Tensor(node[1].dtype, x.shape, made=node.dml.reshaped(made, x.sizes))


@imports("DynamicQuantizeLinear", since=11, how="dynamic_quantize_linear")
def _dynamic(node: Node) -> Result:
    x = node[0]
    made = node.dml.dynamic_quantize_linear(x, dtype="uint8")
    scalars = (node.tensor(each, ()) for each in (made.output_scale, made.output_zero_point))
    return [node.tensor(made.output, x.shape), *scalars]


def _per_matrix(node: Node, tensor: Tensor | None, rank: int, *, rows: bool) -> Value | None:
    """A scale or zero point of a matrix: one number, or one for each row of A or column of B."""
    if tensor is None:
        return None
    if tensor.count == 1:
        return node.dml.reshaped(tensor, (1,) * rank)
    sizes = (tensor.count, 1) if rows and tensor.rank == 1 else tensor.shape
    return node.dml.reshaped(tensor, (1,) * (rank - len(sizes)) + tuple(sizes))


@imports("MatMulInteger", since=10, how="matrix_multiply_integer, views")
def _matmul_integer(node: Node) -> Result:
    a, b = as_matrices(node.dml, node[0], node[1])
    rank = len(a.sizes)
    made = node.dml.matrix_multiply_integer(
        a,
        _per_matrix(node, node.get(2), rank, rows=True),
        b,
        _per_matrix(node, node.get(3), rank, rows=False),
    )
    return node.tensor(made, product_shape(node[0].shape, node[1].shape))


@imports("QLinearMatMul", since=10, how="quantized_linear_matrix_multiply, views")
def _qlinear_matmul(node: Node) -> Result:
    a, b = as_matrices(node.dml, node[0], node[3])
    rank = len(a.sizes)

    def of(index: int, rows: bool) -> Value | None:
        tensor = node[index]
        if tensor.dtype == np.float16:
            tensor = node.tensor(node.dml.converted(tensor, "float32"), tensor.shape)
        return _per_matrix(node, tensor, rank, rows=rows)

    made = node.dml.quantized_linear_matrix_multiply(
        a,
        of(1, True),
        of(2, True),
        b,
        of(4, False),
        of(5, False),
        of(6, True),
        of(7, True),
        dtype=stored(node[7].dtype),
    )
    return node.tensor(made, product_shape(node[0].shape, node[3].shape))


def _channels(node: Node, tensor: Tensor | None, rank: int) -> Value | None:
    """{C} as {1, C, 1, …}; one number as {1, 1, 1, …}."""
    return None if tensor is None else node.dml.reshaped(tensor, (1, tensor.count, *(1,) * (rank - 2)))


def _convolved(node: Node, x: Tensor, w: Tensor) -> dict[str, Any]:
    window = filter_window(node, x, w)
    return {"group_count": node.attribute("group", 1), **window.fields()}


@imports("ConvInteger", since=10, how="convolution_integer")
def _conv_integer(node: Node) -> Result:
    x, w = node[0], node[1]
    return node.tensor(
        node.dml.convolution_integer(
            x,
            _channels(node, node.get(2), x.rank),
            w,
            _channels(node, node.get(3), x.rank),
            **_convolved(node, x, w),
        )
    )


@imports("QLinearConv", since=10, how="quantized_linear_convolution")
def _qlinear_conv(node: Node) -> Result:
    x, w = node[0], node[3]
    scalars = [_channels(node, node[index], x.rank) for index in (1, 2, 4, 5, 6, 7)]
    return node.tensor(
        node.dml.quantized_linear_convolution(
            x,
            scalars[0],
            scalars[1],
            w,
            scalars[2],
            scalars[3],
            _channels(node, node.get(8), x.rank),
            scalars[4],
            scalars[5],
            **_convolved(node, x, w),
        )
    )
