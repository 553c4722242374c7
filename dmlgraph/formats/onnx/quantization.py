"""Quantization, and operators on quantized tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir

from dmlgraph.base.tensor import DataType
from dmlgraph.formats.onnx.matrix import as_matrices, product_shape
from dmlgraph.formats.onnx.node import Maybe, Node, Result, at_axis, numbered_dtype
from dmlgraph.formats.onnx.refusals import Refusal, give_values
from dmlgraph.formats.onnx.table import imports
from dmlgraph.formats.onnx.tensors import Tensor, stored
from dmlgraph.formats.onnx.windows import by_channel, filter_window
from dmlgraph.graph.value import Value

Spread = Callable[[Tensor | None], Value | None]


def _spread(node: Node, x: Tensor, axis: int, block: int) -> tuple[tuple[int, ...], Spread]:
    """The sizes in which the input is quantized, and what gives a scale or zero point sizes that broadcast to them.

    There is one number for all, one for each index of the axis, or one for each block along it: then the axis becomes
    two, of blocks and of places in one.
    """
    if block < 0:
        raise Refusal("is negative", code="range", field="block_size", got=block)
    if not block:
        return x.sizes, lambda tensor: _along(node, tensor, x, axis)
    return _blocked(node, x, at_axis(axis, x.rank), block)


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


@imports(since=10, how="quantize_linear; 4 bits: quantize; 16 bits: divide, round, clip, cast")
def QuantizeLinear(
    node: Node,
    x: Tensor,
    y_scale: Tensor,
    y_zero_point: Maybe = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Tensor:
    if y_zero_point is not None:
        dtype = y_zero_point.dtype
    else:
        dtype = numbered_dtype("output_dtype", output_dtype or ir.DataType.UINT8)
    sizes, spread = _spread(node, x, axis, block_size)
    scale, point = spread(y_scale), spread(y_zero_point)
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


@imports(since=10, how="dequantize_linear; 4 bits: dequantize")
def DequantizeLinear(
    node: Node, x: Tensor, x_scale: Tensor, x_zero_point: Maybe = None, *, axis: int = 1, block_size: int = 0
) -> Tensor:
    sizes, spread = _spread(node, x, axis, block_size)
    scale, point = spread(x_scale), spread(x_zero_point)
    steps = node.dml.reshaped(x, sizes)
    if stored(x.dtype).bits == 4:
        quantizations = [scale] if point is None else [scale, point]
        kind = "scale" if point is None else "scale_zero_point"
        made = node.dml.dequantize(steps, quantizations, quantization_type=kind)
    else:
        made = node.dml.dequantize_linear(steps, scale, point)
    return Tensor(x_scale.dtype, x.shape, made=node.dml.reshaped(made, x.sizes))


@imports(since=11, how="dynamic_quantize_linear")
def DynamicQuantizeLinear(node: Node, x: Tensor) -> Result:
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


@imports(since=10, how="matrix_multiply_integer, views")
def MatMulInteger(node: Node, A: Tensor, B: Tensor, a_zero_point: Maybe = None, b_zero_point: Maybe = None) -> Result:
    a, b = as_matrices(node.dml, A, B)
    rank = len(a.sizes)
    made = node.dml.matrix_multiply_integer(
        a,
        _per_matrix(node, a_zero_point, rank, rows=True),
        b,
        _per_matrix(node, b_zero_point, rank, rows=False),
    )
    return node.tensor(made, product_shape(A.shape, B.shape))


@imports(since=10, how="quantized_linear_matrix_multiply, views")
def QLinearMatMul(
    node: Node,
    a: Tensor,
    a_scale: Tensor,
    a_zero_point: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero_point: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor,
) -> Result:
    left, right = as_matrices(node.dml, a, b)

    def of(tensor: Tensor, *, rows: bool) -> Value | None:
        if tensor.dtype == np.float16:
            tensor = node.tensor(node.dml.converted(tensor, "float32"), tensor.shape)
        return _per_matrix(node, tensor, len(left.sizes), rows=rows)

    made = node.dml.quantized_linear_matrix_multiply(
        left,
        *(of(each, rows=True) for each in (a_scale, a_zero_point)),
        right,
        *(of(each, rows=False) for each in (b_scale, b_zero_point)),
        *(of(each, rows=True) for each in (y_scale, y_zero_point)),
        dtype=stored(y_zero_point.dtype),
    )
    return node.tensor(made, product_shape(a.shape, b.shape))


@imports(since=10, how="convolution_integer")
def ConvInteger(
    node: Node,
    x: Tensor,
    w: Tensor,
    x_zero_point: Maybe = None,
    w_zero_point: Maybe = None,
    *,
    group: int = 1,
    **window: Any,
) -> Tensor:
    zeros = [by_channel(node, each, x.rank) for each in (x_zero_point, w_zero_point)]
    fields = filter_window(x, w, **window).fields()
    return node.tensor(node.dml.convolution_integer(x, zeros[0], w, zeros[1], group_count=group, **fields))


@imports(since=10, how="quantized_linear_convolution")
def QLinearConv(
    node: Node,
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor,
    w: Tensor,
    w_scale: Tensor,
    w_zero_point: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor,
    B: Maybe = None,
    *,
    group: int = 1,
    **window: Any,
) -> Tensor:
    of_x, of_w, of_y = (
        [by_channel(node, each, x.rank) for each in pair]
        for pair in ((x_scale, x_zero_point), (w_scale, w_zero_point), (y_scale, y_zero_point))
    )
    bias, fields = by_channel(node, B, x.rank), filter_window(x, w, **window).fields()
    made = node.dml.quantized_linear_convolution(x, *of_x, w, *of_w, bias, *of_y, group_count=group, **fields)
    return node.tensor(made)
