"""Quantized tensors: an integer q stands for (q − zero_point) · scale."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from dmlgraph.base.tensor import DataType
from dmlgraph.formats.onnx.export.emitter import FLOAT32, INT32, DType, Emitter, Sizes, Symbol, taken
from dmlgraph.formats.onnx.export.reduction import reduced
from dmlgraph.formats.onnx.export.windows import window
from dmlgraph.formats.onnx.table import exports


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
    made = node.call("Round", node.call("Div", x, scale))
    if steps.zero_point is not None:
        made = node.call("Add", made, node.cast(steps.zero_point, FLOAT32))
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
        return node.call("DequantizeLinear", x, scale, zero, dtype=dtype, axis=axes[0] if axes else None)
    made = node.cast(x, FLOAT32)
    if steps.zero_point is not None:
        made = node.call("Sub", made, node.cast(steps.zero_point, FLOAT32))
    return node.cast(node.call("Mul", made, node.cast(steps.scale, FLOAT32)), dtype)


@exports("quantize_linear", how="QuantizeLinear; scales along several dimensions: Div, Round, Add, Clip, Cast")
def _quantize(node: Emitter) -> Symbol:
    steps = _steps(node, "scale", "zero_point", node.output.sizes)
    return quantized(node, node["input"], steps, node.dtype)


@exports("dequantize_linear", how="DequantizeLinear; scales along several dimensions: Cast, Sub, Mul")
def _dequantize(node: Emitter) -> Symbol:
    steps = _steps(node, "scale", "zero_point", node.output.sizes)
    return dequantized(node, node["input"], steps, node.dtype)


def _blocks(node: Emitter) -> Steps:
    """The scale and zero point of each block, repeated over the block; 1 and none if they are left out."""
    sizes = node.output.sizes
    parameters: Sequence[Symbol] = node.all("quantizations") if node.field("quantizations") else ()
    descs = node.field("quantizations")
    spread = [_spread(node, each, desc.sizes, sizes) for each, desc in zip(parameters, descs, strict=True)]
    if not spread:
        return Steps(node.number(np.ones((1,) * len(sizes)), FLOAT32), None, (1,) * len(sizes))
    whole = np.broadcast_shapes(*(each for _, each in spread))
    tensors = [node.expand(each, whole, own) for each, own in spread]
    return Steps(tensors[0], tensors[1] if len(tensors) > 1 else None, whole)


def _spread(node: Emitter, x: Symbol, blocks: Sizes, sizes: Sizes) -> tuple[Symbol, tuple[int, ...]]:
    """A parameter that broadcasts to the tensor: repeated along dimensions with several blocks."""
    if all(count in (1, size) for count, size in zip(blocks, sizes, strict=True)):
        return x, tuple(blocks)
    outer = [each for count in blocks for each in (count, 1)]
    inner = [
        each for count, size in zip(blocks, sizes, strict=True) for each in (count, size // count if count > 1 else 1)
    ]
    whole = tuple(1 if count == 1 else size for count, size in zip(blocks, sizes, strict=True))
    return node.reshape(node.expand(node.reshape(x, outer), inner), whole), whole


@exports("quantize", how="QuantizeLinear; blocks: Expand, Div, Round, Add, Clip, Cast")
def _quantize_blocks(node: Emitter) -> Symbol:
    return quantized(node, node["input"], _blocks(node), node.dtype)


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


@exports("dynamic_quantize_linear", how="ReduceMin, ReduceMax, QuantizeLinear; uint8: DynamicQuantizeLinear")
def _dynamic(node: Emitter) -> list[Symbol]:
    x, dtype, rank = node.cast(node["input"], FLOAT32), node.dtype, node.output.rank
    single = (1,) * rank
    if dtype == np.uint8:
        made, scale, zero = node.calls("DynamicQuantizeLinear", x, dtypes=[dtype, FLOAT32, dtype])
        return [made, node.reshape(scale, single), node.reshape(zero, single)]
    low, high = DataType.parse(dtype).range
    least, greatest = (
        node.call(function, reduced(node, f"Reduce{function}", x, range(rank)), node.number(0, FLOAT32))
        for function in ("Min", "Max")
    )
    span = node.call("Sub", greatest, least)
    scale = node.call("Div", span, node.number(high - low, FLOAT32))
    begin = node.call("Sub", node.number(low, FLOAT32), node.call("Div", least, scale))
    whole = node.call("Clip", node.call("Round", begin), node.number(low, FLOAT32), node.number(high, FLOAT32))
    zero = node.cast(whole, dtype)
    return [quantized(node, x, Steps(scale, zero, single), dtype), scale, zero]


# Products and convolutions.


def _vector(node: Emitter, field: str, dtype: DType | None = None) -> Symbol:
    """A scale or zero point as ONNX takes it: one number, or one for each row, column or channel; zero by default."""
    if node.field(field) is None:
        assert dtype is not None
        return node.number(0, dtype)
    count = node.desc(field).element_count
    return node.flat(field, *(() if count == 1 else (count,)))


@exports("convolution_integer", how="ConvInteger")
def _convolution(node: Emitter) -> Symbol:
    zeros = [
        None if node.field(f"{each}_zero_point") is None else _vector(node, f"{each}_zero_point")
        for each in ("input", "filter")
    ]
    group = node.field("group_count")
    return node.call("ConvInteger", node["input"], node["filter"], *zeros, dtype=INT32, group=group, **window(node))


@exports("quantized_linear_convolution", how="QLinearConv")
def _linear_convolution(node: Emitter) -> Symbol:
    tensors = [
        each
        for name in ("input", "filter")
        for each in (
            node[name],
            _vector(node, f"{name}_scale"),
            _vector(node, f"{name}_zero_point", node.desc(name).dtype.numpy),
        )
    ]
    outputs = [_vector(node, "output_scale"), _vector(node, "output_zero_point", node.dtype)]
    bias = None if node.field("bias") is None else node.flat("bias", node.output.sizes[1])
    group = node.field("group_count")
    return node.call("QLinearConv", *tensors, *outputs, bias, dtype=node.dtype, group=group, **window(node))


def _is_single(node: Emitter, *fields: str) -> bool:
    """Whether none of the fields has more than one number."""
    return all(node.field(field) is None or node.desc(field).element_count == 1 for field in fields)


def _sums(node: Emitter) -> Symbol:
    """Σ (a − a_zero_point) · (b − b_zero_point), as int32; ONNX Runtime takes one zero point for all rows of a."""
    if not _is_single(node, "a_zero_point"):
        return node.call("MatMul", *(_centred(node, each) for each in "ab"))
    zeros = [None if node.field(f"{each}_zero_point") is None else _vector(node, f"{each}_zero_point") for each in "ab"]
    return node.call("MatMulInteger", node.raw("a"), node.raw("b"), *zeros, dtype=INT32)


def _centred(node: Emitter, name: str) -> Symbol:
    """a − a_zero_point, as int32."""
    x, zero = node.cast(node[name], INT32), node.get(f"{name}_zero_point")
    return x if zero is None else node.call("Sub", x, node.cast(zero, INT32))


@exports("matrix_multiply_integer", how="MatMulInteger; zero points by row: Cast, Sub, MatMul")
def _product(node: Emitter) -> Symbol:
    return _sums(node)


@exports("quantized_linear_matrix_multiply", how="QLinearMatMul; scales by row: MatMulInteger, Mul, QuantizeLinear")
def _linear_product(node: Emitter) -> Symbol:
    sizes = node.output.sizes
    if _is_single(node, "a_scale", "a_zero_point", "output_scale", "output_zero_point"):
        tensors = [
            each
            for name in "ab"
            for each in (
                node.raw(name),
                _vector(node, f"{name}_scale"),
                _vector(node, f"{name}_zero_point", node.desc(name).dtype.numpy),
            )
        ]
        outputs = [_vector(node, "output_scale"), _vector(node, "output_zero_point", node.dtype)]
        return node.call("QLinearMatMul", *tensors, *outputs, dtype=node.dtype)
    scale = node.call("Mul", node["a_scale"], node["b_scale"])
    made = node.call("Mul", node.cast(_sums(node), FLOAT32), scale)
    return quantized(node, made, _output_steps(node, sizes), node.dtype)


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
    made = node.call("MatMul", left, right)
    return made if node.field("bias") is None else node.call("Add", made, node.raw("bias"))


@exports("quantized_linear_average_pooling", how="DequantizeLinear, AveragePool, QuantizeLinear")
def _average(node: Emitter) -> Symbol:
    """ONNX Runtime's own operator for the three has no dilations, and one scale."""
    steps = _steps(node, "input_scale", "input_zero_point", node.desc("input").sizes)
    plain = "dilations" in window(node) or not _is_single(node, *node.operator.input_fields[1:])
    x = dequantized(node, node["input"], steps, FLOAT32, plain=plain)
    made = node.call(
        "AveragePool",
        x,
        kernel_shape=list(node.field("window_size")),
        count_include_pad=int(node.field("include_padding")),
        **window(node),
    )
    return quantized(node, made, _output_steps(node, node.output.sizes), node.dtype)
