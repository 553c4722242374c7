"""Quantization, and operators on quantized tensors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from dmlgraph.base.tensor import DataType
from dmlgraph.formats.onnx.export.emitter import FLOAT32, INT32, DType, Emitter, Sizes, Symbol, taken
from dmlgraph.formats.onnx.matrix import as_matrices, product_shape
from dmlgraph.formats.onnx.node import Maybe, Node, Result, at_axis, numbered_dtype
from dmlgraph.formats.onnx.reduction import emit_reduction
from dmlgraph.formats.onnx.refusals import Refusal, give_values
from dmlgraph.formats.onnx.table import exports, imports
from dmlgraph.formats.onnx.tensors import Tensor, stored
from dmlgraph.formats.onnx.windows import by_channel, filter_window, window
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
        return node.reshaped(tensor, (1,) * len(x.sizes))
    if tensor.rank != 1:
        raise Refusal("must be one number, or one for each index of the axis", code="sizes", got=list(tensor.shape))
    place = at_axis(axis, x.rank)
    return node.reshaped(tensor, [tensor.count if each == place else 1 for each in range(x.rank)])


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
            return node.reshaped(tensor, (*wanted[: axis + 1], 1, *wanted[axis + 1 :]))
        if stored(tensor.dtype).bits == 4:  # GATHER takes none
            if tensor.known is None:
                message = "zero points of 4 bits must be known where the last block is not whole"
                raise Refusal(message, code="unknown-value", got=tensor.name or None, hint=give_values(tensor.depends))
            return node.value(Tensor.of(tensor.known.take(places, axis), name=tensor.name))
        indices = places.reshape((1,) * (x.rank - 1) + (-1,))
        return node.gather(tensor, Tensor.of(indices), axis=axis, index_dimensions=1)

    return (*x.shape[:axis], blocks, block, *x.shape[axis + 1 :]) if is_whole else x.shape, spread


@dataclasses.dataclass(frozen=True, slots=True)
class Steps:
    """A scale and a zero point that broadcast to a tensor.

    Attributes:
        scale, zero_point: with `sizes`; a zero point that is left out is 0.
        sizes: theirs; each is 1 or the tensor's.
    """

    scale: Symbol
    zero_point: Symbol | None
    sizes: tuple[int, ...]

    @property
    def axes(self) -> list[int]:
        """The dimensions along which there are several."""
        return [axis for axis, size in enumerate(self.sizes) if size != 1]


def _steps(node: Emitter, scale: str, zero_point: str, sizes: Sizes) -> Steps:
    """The steps of two fields, for a tensor of these sizes: as one number, or with as many dimensions."""
    given = [field for field in (scale, zero_point) if node.field(field) is not None]
    found = np.broadcast_shapes(*(_own_sizes(node, field, sizes) for field in given))
    found = (*(1,) * (len(sizes) - len(found)), *found)
    tensors = [node.expand(_own(node, field, sizes), found, _own_sizes(node, field, sizes)) for field in given]
    return Steps(tensors[0], tensors[1] if len(tensors) > 1 else None, found)


def _own_sizes(node: Emitter, field: str, sizes: Sizes) -> tuple[int, ...]:
    """The sizes of a parameter before it is broadcast to the tensor, with as many dimensions."""
    desc = node.desc(field)
    strides = desc.effective_strides
    own = tuple(1 if stride == 0 else size for size, stride in zip(desc.sizes, strides, strict=True))
    return (*(1,) * (len(sizes) - len(own)), *own)


def _own(node: Emitter, field: str, sizes: Sizes) -> Symbol:
    own, desc = _own_sizes(node, field, sizes), node.desc(field)
    return node.reshape(node.raw(field) if np.prod(own) != desc.element_count else node[field], own)


def quantized(node: Emitter, x: Symbol, steps: Steps, dtype: DType) -> Symbol:
    """clamp(round(x / scale) + zero_point)"""
    axes = steps.axes
    x, scale = node.cast(x, FLOAT32), node.cast(steps.scale, FLOAT32)
    if len(axes) <= 1 and dtype in taken("QuantizeLinear", 2):
        vector = () if not axes else (steps.sizes[axes[0]],)
        zero = node.number(np.zeros(vector), dtype) if steps.zero_point is None else None
        zero = node.reshape(steps.zero_point, vector) if steps.zero_point is not None else zero
        scale = node.reshape(scale, vector)
        return node.call("QuantizeLinear", x, scale, zero, dtype=dtype, axis=axes[0] if axes else None)
    made = node.call("Round", x / scale)
    if steps.zero_point is not None:
        made = made + node.cast(steps.zero_point, FLOAT32)
    low, high = DataType.parse(dtype).range
    made = node.call("Clip", made, node.number(low, FLOAT32), node.number(high, FLOAT32))
    return node.cast(made, dtype)


def dequantized(node: Emitter, x: Symbol, steps: Steps, dtype: DType, *, plain: bool = False) -> Symbol:
    """(x − zero_point) · scale; if `plain`, without DequantizeLinear."""
    axes = steps.axes
    if (
        not plain
        and len(axes) <= 1
        and x.dtype in taken("DequantizeLinear", 0)
        and (x.dtype != INT32 or steps.zero_point is None)
    ):
        vector = () if not axes else (steps.sizes[axes[0]],)
        zero = None if steps.zero_point is None else node.reshape(steps.zero_point, vector)
        scale = node.reshape(steps.scale, vector)
        return node.call("DequantizeLinear", x, scale, zero, axis=axes[0] if axes else None)
    made = node.cast(x, FLOAT32)
    if steps.zero_point is not None:
        made = made - node.cast(steps.zero_point, FLOAT32)
    return node.cast(made * node.cast(steps.scale, FLOAT32), dtype)


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
    numbers = node.reshaped(x, sizes)
    bits = stored(dtype).bits
    if bits == 4:
        quantizations = [scale] if point is None else [scale, point]
        kind = "scale" if point is None else "scale_zero_point"
        made = node.quantize(numbers, quantizations, dtype=stored(dtype), quantization_type=kind)
    elif bits == 8:
        made = node.quantize_linear(numbers, scale, point, dtype=stored(dtype))
    else:
        made = _as_steps(node, numbers, scale, point, stored(dtype))
    return Tensor(dtype, x.shape, made=node.reshaped(made, x.sizes))


def _as_steps(node: Node, x: Value, scale: Value | None, point: Value | None, dtype: DataType) -> Value:
    """clamp(round(x / scale) + zero point), for types that DirectML does not quantize to; exact for 16 bits."""
    assert scale is not None
    steps = node.round(node.divide(*(node.converted(each, "float32") for each in (x, scale))))
    if point is not None:
        steps = node.add(steps, node.converted(point, "float32"))
    low, high = dtype.range
    return node.converted(node.clip(steps, min=low, max=high), dtype)


@exports("quantize_linear", how="QuantizeLinear; scales along several dimensions: Div, Round, Add, Clip, Cast")
def _quantize(node: Emitter) -> Symbol:
    steps = _steps(node, "scale", "zero_point", node.output.sizes)
    return quantized(node, node["input"], steps, node.dtype)


@exports("quantize", how="QuantizeLinear; blocks: Expand, Div, Round, Add, Clip, Cast")
def _quantize_blocks(node: Emitter) -> Symbol:
    return quantized(node, node["input"], _blocks(node), node.dtype)


@imports(since=10, how="dequantize_linear; 4 bits: dequantize")
def DequantizeLinear(
    node: Node, x: Tensor, x_scale: Tensor, x_zero_point: Maybe = None, *, axis: int = 1, block_size: int = 0
) -> Tensor:
    sizes, spread = _spread(node, x, axis, block_size)
    scale, point = spread(x_scale), spread(x_zero_point)
    steps = node.reshaped(x, sizes)
    if stored(x.dtype).bits == 4:
        quantizations = [scale] if point is None else [scale, point]
        kind = "scale" if point is None else "scale_zero_point"
        made = node.dequantize(steps, quantizations, quantization_type=kind)
    else:
        made = node.dequantize_linear(steps, scale, point)
    return Tensor(x_scale.dtype, x.shape, made=node.reshaped(made, x.sizes))


@exports("dequantize_linear", how="DequantizeLinear; scales along several dimensions: Cast, Sub, Mul")
def _dequantize(node: Emitter) -> Symbol:
    steps = _steps(node, "scale", "zero_point", node.output.sizes)
    return dequantized(node, node["input"], steps, node.dtype)


def _blocks(node: Emitter) -> Steps:
    """The scale and zero point of each block, repeated over the block; 1 and none if they are left out."""
    sizes = node.output.sizes
    parameters: Sequence[Symbol] = node.all("quantizations") if node.field("quantizations") else ()
    descs = node.field("quantizations")
    spread = [_repeat_blocks(node, each, desc.sizes, sizes) for each, desc in zip(parameters, descs, strict=True)]
    if not spread:
        return Steps(node.number(np.ones((1,) * len(sizes)), FLOAT32), None, (1,) * len(sizes))
    whole = np.broadcast_shapes(*(each for _, each in spread))
    tensors = [node.expand(each, whole, own) for each, own in spread]
    return Steps(tensors[0], tensors[1] if len(tensors) > 1 else None, whole)


def _repeat_blocks(node: Emitter, x: Symbol, blocks: Sizes, sizes: Sizes) -> tuple[Symbol, tuple[int, ...]]:
    """A parameter that broadcasts to the tensor: repeated along dimensions with several blocks."""
    if all(count in (1, size) for count, size in zip(blocks, sizes, strict=True)):
        return x, tuple(blocks)
    outer = [each for count in blocks for each in (count, 1)]
    inner = [
        each for count, size in zip(blocks, sizes, strict=True) for each in (count, size // count if count > 1 else 1)
    ]
    whole = tuple(1 if count == 1 else size for count, size in zip(blocks, sizes, strict=True))
    return node.reshape(node.expand(node.reshape(x, outer), inner), whole), whole


@exports("dequantize", how="DequantizeLinear; blocks: Expand, Cast, Sub, Mul")
def _dequantize_blocks(node: Emitter) -> Symbol:
    steps = _blocks(node)
    scale = steps.scale if node.field("quantizations") else node.cast(steps.scale, node.dtype)
    return dequantized(node, node["input"], dataclasses.replace(steps, scale=scale), node.dtype)


@exports("quantized_linear_add", how="DequantizeLinear, Add, QuantizeLinear")
def _add(node: Emitter) -> Symbol:
    sizes = node.output.sizes
    terms = [
        dequantized(node, node.raw(each), _steps(node, f"{each}_scale", f"{each}_zero_point", sizes), FLOAT32)
        for each in ("a", "b")
    ]
    return quantized(node, node.call("Add", *terms), _output_steps(node, sizes), node.dtype)


def _output_steps(node: Emitter, sizes: Sizes) -> Steps:
    return _steps(node, "output_scale", "output_zero_point", sizes)


@exports("matrix_multiply_integer_to_float", how="DequantizeLinear, MatMul, Add; scales by row: Cast, Sub, Mul")
def _product_to_float(node: Emitter) -> Symbol:
    """ONNX Runtime takes scales by row for scales by column if DequantizeLinear has them."""
    left, right = (
        dequantized(
            node,
            node[each],
            _steps(node, f"{each}_scale", f"{each}_zero_point", node.desc(each).sizes),
            node.dtype,
            plain=not _is_single(node, "a_scale", "a_zero_point"),
        )
        for each in "ab"
    )
    made = left @ right
    return made if node.field("bias") is None else (made + node.raw("bias"))


@exports("quantized_linear_average_pooling", how="DequantizeLinear, AveragePool, QuantizeLinear")
def _average(node: Emitter) -> Symbol:
    """ONNX Runtime's own operator for the three has no dilations, and one scale."""
    steps = _steps(node, "input_scale", "input_zero_point", node.desc("input").sizes)
    plain = "dilations" in window(node) or not _is_single(node, *node.operator.input_fields[1:])
    x = dequantized(node, node["input"], steps, FLOAT32, plain=plain)
    made = node.call(
        "AveragePool",
        x,
        count_include_pad=int(node.field("include_padding")),
        **window(node),
    )
    return quantized(node, made, _output_steps(node, node.output.sizes), node.dtype)


@imports(since=11, how="dynamic_quantize_linear")
def DynamicQuantizeLinear(node: Node, x: Tensor) -> Result:
    made = node.dynamic_quantize_linear(x, dtype="uint8")
    scalars = (node.tensor(each, ()) for each in (made.output_scale, made.output_zero_point))
    return [node.tensor(made.output, x.shape), *scalars]


def _per_matrix(node: Node, tensor: Tensor | None, rank: int, *, rows: bool) -> Value | None:
    """A scale or zero point of a matrix: one number, or one for each row of A or column of B."""
    if tensor is None:
        return None
    if tensor.count == 1:
        return node.reshaped(tensor, (1,) * rank)
    sizes = (tensor.count, 1) if rows and tensor.rank == 1 else tensor.shape
    return node.reshaped(tensor, (1,) * (rank - len(sizes)) + tuple(sizes))


@imports(since=10, how="matrix_multiply_integer, views")
def MatMulInteger(node: Node, A: Tensor, B: Tensor, a_zero_point: Maybe = None, b_zero_point: Maybe = None) -> Result:
    a, b = as_matrices(node, A, B)
    rank = len(a.sizes)
    made = node.matrix_multiply_integer(
        a,
        _per_matrix(node, a_zero_point, rank, rows=True),
        b,
        _per_matrix(node, b_zero_point, rank, rows=False),
    )
    return node.tensor(made, product_shape(A.shape, B.shape))


@exports("matrix_multiply_integer", how="MatMulInteger; zero points by row: Cast, Sub, MatMul")
def _product(node: Emitter) -> Symbol:
    return _sums(node)


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
    left, right = as_matrices(node, a, b)

    def of(tensor: Tensor, *, rows: bool) -> Value | None:
        if tensor.dtype == np.float16:
            tensor = node.tensor(node.converted(tensor, "float32"), tensor.shape)
        return _per_matrix(node, tensor, len(left.sizes), rows=rows)

    made = node.quantized_linear_matrix_multiply(
        left,
        *(of(each, rows=True) for each in (a_scale, a_zero_point)),
        right,
        *(of(each, rows=False) for each in (b_scale, b_zero_point)),
        *(of(each, rows=True) for each in (y_scale, y_zero_point)),
        dtype=stored(y_zero_point.dtype),
    )
    return node.tensor(made, product_shape(a.shape, b.shape))


@exports("quantized_linear_matrix_multiply", how="QLinearMatMul; scales by row: MatMulInteger, Mul, QuantizeLinear")
def _linear_product(node: Emitter) -> Symbol:
    sizes = node.output.sizes
    if _is_single(node, "a_scale", "a_zero_point", "output_scale", "output_zero_point"):
        tensors = [each for name in "ab" for each in (node.raw(name), *_vectors(node, name))]
        return node.call("QLinearMatMul", *tensors, *_vectors(node, "output"))
    scale = node["a_scale"] * node["b_scale"]
    made = node.cast(_sums(node), FLOAT32) * scale
    return quantized(node, made, _output_steps(node, sizes), node.dtype)


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
    return node.tensor(node.convolution_integer(x, zeros[0], w, zeros[1], group_count=group, **fields))


@exports("convolution_integer", how="ConvInteger")
def _convolution(node: Emitter) -> Symbol:
    zeros = [
        None if node.field(f"{each}_zero_point") is None else _vector(node, f"{each}_zero_point")
        for each in ("input", "filter")
    ]
    group = node.field("group_count")
    return node.call("ConvInteger", node["input"], node["filter"], *zeros, group=group, **window(node))


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
    made = node.quantized_linear_convolution(x, *of_x, w, *of_w, bias, *of_y, group_count=group, **fields)
    return node.tensor(made)


@exports("quantized_linear_convolution", how="QLinearConv")
def _linear_convolution(node: Emitter) -> Symbol:
    tensors = [each for name in ("input", "filter") for each in (node[name], *_vectors(node, name))]
    tensors += _vectors(node, "output")
    bias = None if node.field("bias") is None else node.flat("bias", node.output.sizes[1])
    group = node.field("group_count")
    return node.call("QLinearConv", *tensors, bias, group=group, **window(node))


def _is_single(node: Emitter, *fields: str) -> bool:
    """Whether none of the fields has more than one number."""
    return all(node.field(field) is None or node.desc(field).element_count == 1 for field in fields)


def _sums(node: Emitter) -> Symbol:
    """Σ (a − a_zero_point) · (b − b_zero_point), as int32; ONNX Runtime takes one zero point for all rows of a."""
    if not _is_single(node, "a_zero_point"):
        return node.call("MatMul", *(_centred(node, each) for each in "ab"))
    zeros = [None if node.field(f"{each}_zero_point") is None else _vector(node, f"{each}_zero_point") for each in "ab"]
    return node.call("MatMulInteger", node.raw("a"), node.raw("b"), *zeros)


def _centred(node: Emitter, name: str) -> Symbol:
    """a − a_zero_point, as int32."""
    x, zero = node.cast(node[name], INT32), node.get(f"{name}_zero_point")
    return x if zero is None else (x - node.cast(zero, INT32))


@exports("dynamic_quantize_linear", how="ReduceMin, ReduceMax, QuantizeLinear; uint8: DynamicQuantizeLinear")
def _dynamic(node: Emitter) -> list[Symbol]:
    x, dtype, rank = node.cast(node["input"], FLOAT32), node.dtype, node.output.rank
    single = (1,) * rank
    if dtype == np.uint8:
        made, scale, zero = node.calls("DynamicQuantizeLinear", x, dtypes=[dtype, FLOAT32, dtype])
        return [made, node.reshape(scale, single), node.reshape(zero, single)]
    low, high = DataType.parse(dtype).range
    least, greatest = (
        node.call(function, emit_reduction(node, f"Reduce{function}", x, range(rank)), node.number(0, FLOAT32))
        for function in ("Min", "Max")
    )
    span = greatest - least
    scale = span / node.number(high - low, FLOAT32)
    begin = node.number(low, FLOAT32) - least / scale
    whole = node.call("Clip", node.call("Round", begin), node.number(low, FLOAT32), node.number(high, FLOAT32))
    zero = node.cast(whole, dtype)
    return [quantized(node, x, Steps(scale, zero, single), dtype), scale, zero]


def _vectors(node: Emitter, name: str) -> list[Symbol]:
    """The scale and zero point of a tensor."""
    return [_vector(node, f"{name}_scale"), _vector(node, f"{name}_zero_point", node.desc(name).dtype.numpy)]


def _vector(node: Emitter, field: str, dtype: DType | None = None) -> Symbol:
    """A scale or zero point as ONNX takes it: one number, or one for each row, column or channel; zero by default."""
    if node.field(field) is None:
        assert dtype is not None
        return node.number(0, dtype)
    count = node.desc(field).element_count
    return node.flat(field, *(() if count == 1 else (count,)))
