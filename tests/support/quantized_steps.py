"""Steps of random graphs: operators between dequantization and quantization."""

from __future__ import annotations

import numpy as np
from support.sketches import Sketch, Value

import dmlgraph as dg
from dmlgraph.base.tensor import DataType

SCALES = (0.1, 0.5, 0.25, 1 / 3, 0.02)


def quantized(sketch: Sketch) -> None:
    """An operator of dequantized tensors, maybe a RELU or a clip, and mostly quantization."""
    dtype = sketch.pick((DataType.UINT8, DataType.INT8))
    scale, zero = _parameters(sketch, dtype)
    kind = sketch.integer(0, 6)
    same = kind >= 4 or sketch.chance(1, 3)
    if kind == 0:
        value = _convolution(sketch, dtype, scale, zero)
    elif kind == 1:
        value = _product(sketch, dtype, scale, zero)
    elif kind == 2:
        first, second = (_dequantized(sketch, dtype, sketch.sizes, *_parameters(sketch, dtype)) for _ in range(2))
        value = dg.add(first, second)
    elif kind == 3:
        x = _dequantized(sketch, dtype, (1, 2, 4, 4), scale, zero)
        value = dg.average_pooling1(
            x, window_size=[2, 2], start_padding=[sketch.integer(0, 1), 0], include_padding=sketch.chance(1, 2)
        )
    else:
        value = _moved(sketch, _dequantized(sketch, dtype, (1, 2, 4, 4), scale, zero))
    sketch.keep(value)
    if sketch.chance(1, 6):
        return
    if sketch.chance(1, 3):
        value = dg.activation_relu(value) if sketch.chance(1, 2) else dg.clip(value, min=-1.0, max=1000.0)
        sketch.keep(value)
    out_scale, out_zero = (scale, zero) if same else _parameters(sketch, dtype)
    sketch.keep(dg.quantize_linear(value, out_scale, out_zero))


def _parameters(sketch: Sketch, dtype: DataType) -> tuple[Value, Value]:
    """A scale and a zero point."""
    zero = sketch.pick((0, dtype.range[0], 3))
    return (
        sketch.constant(np.full(1, sketch.pick(SCALES), np.float32)),
        sketch.constant(np.full(1, zero, dtype.numpy)),
    )


def _dequantized(sketch: Sketch, dtype: DataType, sizes: tuple[int, ...], scale: Value, zero: Value) -> Value:
    return dg.dequantize_linear(sketch.fitting(dtype, sizes), scale, zero)


def _bias(sketch: Sketch, first: Value, second: Value, sizes: tuple[int, ...]) -> Value | None:
    """A dequantized bias of int32; its scale is the product of two constant ones, or another number."""
    if sketch.chance(1, 3):
        return None
    graph = sketch.graph
    numbers = [node.data for node in graph.nodes if node.name in (first.node, second.node)]  # type: ignore[union-attr]
    unit = np.float32(np.prod([each.flat[0] for each in numbers]) if len(numbers) == 2 else numbers[0].flat[0] ** 2)
    if sketch.chance(1, 6):
        unit = np.float32(0.3)
    steps = sketch.constant(sketch.random().integers(-200, 200, sizes).astype(np.int32))
    return dg.dequantize_linear(steps, sketch.constant(np.full(1, unit)), sketch.constant(np.zeros(1, np.int32)))


def _convolution(sketch: Sketch, dtype: DataType, scale: Value, zero: Value) -> Value:
    x = _dequantized(sketch, dtype, (1, 2, 4, 4), scale, zero)
    weight_scale, weight_zero = _parameters(sketch, dtype)
    weights = _dequantized(sketch, dtype, (3, 2, 2, 2), weight_scale, weight_zero)
    bias = _bias(sketch, scale, weight_scale, (1, 3, 1, 1))
    return dg.convolution(x, weights, bias, start_padding=[1, sketch.integer(0, 1)], strides=[sketch.integer(1, 2), 1])


def _product(sketch: Sketch, dtype: DataType, scale: Value, zero: Value) -> Value:
    rows, inner, columns = (sketch.integer(1, 4) for _ in range(3))
    a = _dequantized(sketch, dtype, (1, 1, rows, inner), scale, zero)
    weight_scale, weight_zero = _parameters(sketch, dtype)
    transposed = sketch.chance(1, 3)
    sizes = (1, 1, columns, inner) if transposed else (1, 1, inner, columns)
    b = _dequantized(sketch, dtype, sizes, weight_scale, weight_zero)
    c = _bias(sketch, scale, weight_scale, (1, 1, 1, columns))
    c = None if c is None else dg.broadcast_to(c, sizes=[1, 1, rows, columns])
    return dg.gemm(a, b, c, trans_b="transpose" if transposed else "none")


def _moved(sketch: Sketch, x: Value) -> Value:
    """Elements of {1, 2, 4, 4} in other places."""
    kind = sketch.integer(0, 4)
    if kind == 0:
        made = dg.max_pooling2(x, window_size=[2, 2], end_padding=[sketch.integer(0, 1), 0])
        return made if isinstance(made, Value) else made.output
    if kind == 1:
        return sketch.pick(dg.split(x, axis=3, outputs=[1, 3]))
    if kind == 2:
        return dg.join([x, x], axis=sketch.integer(0, 3))
    if kind == 3:
        return dg.transpose(x, permutation=[0, 2, 3, 1])
    return dg.slice(x, offsets=[0, 0, 1, 0], sizes=[1, 2, 2, 2], strides=[1, 1, 1, 2])
