"""Operators of com.microsoft, which ONNX Runtime's optimizer writes: element-wise, images, indices, products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.tensor import DataType
from dmlgraph.formats.onnx.fills import MOST_COUNTED, Range
from dmlgraph.formats.onnx.indexing import Gather, GatherND
from dmlgraph.formats.onnx.matrix import Gemm, as_matrices, product_shape
from dmlgraph.formats.onnx.node import Maybe, Node, Result, at_axis
from dmlgraph.formats.onnx.one_to_one import ACTIVATIONS, applied, of_one
from dmlgraph.formats.onnx.refusals import Refusal, one_of, unsupported
from dmlgraph.formats.onnx.sampling import GridSample
from dmlgraph.formats.onnx.shapes import Pad, Trilu, Unsqueeze, as_channels_first, as_channels_last, sliced, viewed
from dmlgraph.formats.onnx.spectral import DFT
from dmlgraph.formats.onnx.table import MICROSOFT, imports
from dmlgraph.formats.onnx.tensors import Array, Tensor
from dmlgraph.formats.onnx.windows import Conv, ConvTranspose, MaxPool
from dmlgraph.graph.value import Value

# ONNX's name → the function of dmlgraph and its fields, in the order of a fused operator's parameters.
_FUSED: dict[str, tuple[str, tuple[str, ...]]] = {
    **{name: (function, tuple(fields)) for name, (function, fields) in ACTIVATIONS.items()},
    "Clip": ("clip", ("min", "max")),
    "HardSwish": ("activation_hard_swish", ()),
    "Relu": ("activation_relu", ()),
    "Softplus": ("activation_softplus", ()),
}
_FUSED = dict(sorted(_FUSED.items()))
_FIXED = {"HardSwish": {"alpha": 1 / 6, "beta": 0.5}}  # fields of an activation without parameters


def activated(node: Node, x: Tensor, name: str, parameters: Sequence[float]) -> Tensor:
    """With the activation of a name, if there is one."""
    if not name:
        return x
    one_of("activation", name, _FUSED)
    function, fields = _FUSED[name]
    if len(parameters) < len(fields):
        message = "the activation needs more parameters"
        raise Refusal(message, code="missing", field="activation", got=name, allowed=str(fields))
    return applied(node, function, x, **dict(zip(fields, parameters, strict=False)), **_FIXED.get(name, {}))


imports("Gelu", domain=MICROSOFT, how="activation_gelu")(of_one("activation_gelu"))


@imports(domain=MICROSOFT, how="add, activation_gelu")
def BiasGelu(node: Node, A: Tensor, B: Tensor) -> Result:
    return node.tensor(node.activation_gelu(node.add(A, B)), node.broadcast)


@imports(domain=MICROSOFT, how="multiply, add, activation_tanh")
def FastGelu(node: Node, X: Tensor, bias: Maybe = None) -> Result:
    """½ x (1 + tanh(√(2/π) (x + 0.044715 x³)))."""
    x = node.value(X) if bias is None else node.add(X, bias)
    cube = node.multiply(node.multiply(x, x), node.multiply(x, 0.044715))
    bent = node.activation_tanh(node.multiply(node.add(x, cube), 0.7978845608028654))
    return node.tensor(node.multiply(node.multiply(x, 0.5), node.add(bent, 1)), X.shape)


@imports(domain=MICROSOFT, how="multiply, activation_sigmoid")
def QuickGelu(node: Node, X: Tensor, *, alpha: float = 1.702) -> Result:
    """x · sigmoid(alpha · x)."""
    gate = node.activation_sigmoid(node.multiply(X, alpha))
    return node.tensor(node.multiply(X, gate), X.shape)


@imports(domain=MICROSOFT, how="add, split, activation_gelu, multiply")
def BiasSplitGelu(node: Node, X: Tensor, bias: Tensor) -> Result:
    """The first half times the gelu of the second, along the last dimension."""
    if X.shape[-1] % 2:
        raise Refusal("must have an even last dimension", code="sizes", field="X", got=list(X.shape))
    total = node.add(X, bias)
    first, second = node.split(total, axis=X.rank - 1, outputs=[X.shape[-1] // 2] * 2)
    return node.tensor(node.multiply(first, node.activation_gelu(second)))


@imports(domain=MICROSOFT, how="add")
def BiasAdd(node: Node, X: Tensor, bias: Tensor, skip: Tensor) -> Result:
    return node.tensor(node.add(node.add(X, bias), skip), X.shape)


# Images.


@imports(domain=MICROSOFT, how="convolution, add, an activation")
def FusedConv(
    node: Node,
    X: Tensor,
    W: Tensor,
    B: Maybe = None,
    Z: Maybe = None,
    *,
    activation: str = "",
    activation_params: Sequence[float] = (),
    **attributes: Any,
) -> Tensor:
    """Activation(convolution + Z)."""
    made = Conv(node, X, W, B, **attributes)
    if Z is not None:
        made = node.tensor(node.add(made, Z), made.shape)
    return activated(node, made, activation, activation_params)


@imports(domain=MICROSOFT, how="as ONNX's ConvTranspose; known padding only")
def ConvTransposeWithDynamicPads(
    node: Node, X: Tensor, W: Tensor, Pads: Maybe = None, B: Maybe = None, **attributes: Any
) -> Tensor:
    return ConvTranspose(node, X, W, B, pads=node.ints("Pads", Pads), **attributes)


@imports(domain=MICROSOFT, how="max_pooling2, transpose")
def NhwcMaxPool(node: Node, x: Tensor, **attributes: Any) -> Tensor:
    first = MaxPool(node, as_channels_first(node, x), **attributes)
    assert isinstance(first, Tensor)  # the indices are not asked for
    return as_channels_last(node, first)


@imports(domain=MICROSOFT, how="gather, gemm with weights computed from the rois, if_")
def CropAndResize(
    node: Node,
    X: Tensor,
    rois: Tensor,
    batch_indices: Tensor,
    crop_size: Tensor,
    *,
    mode: str = "bilinear",
    extrapolation_value: float = 0.0,
) -> Result:
    """Inputs: x {N, C, H, W}, rois {R, 4} as parts of the image, batch_indices {R}, crop_size; result {R, C, …}."""
    x = X
    crop = [int(each) for each in node.known(crop_size).ravel()]
    one_of("mode", mode, ("bilinear", "nearest"))
    if len(crop) != 2 or min(crop) < 1 or max(crop) > MOST_COUNTED:
        raise Refusal("needs a positive height and width", code="range", field="crop_size", got=crop)
    images = node.value(Gather(node, x, batch_indices, axis=0))
    corners = node.split(rois, axis=1, outputs=[1] * 4)
    made, inside = images, None
    for axis in (0, 1):
        places = _places(node, corners[axis], corners[axis + 2], x.shape[2 + axis], crop[axis])
        weights = _weights(node, places, x.shape[2 + axis], mode == "nearest")
        sizes = (rois.shape[0], x.shape[1], *weights.sizes[1:])
        weights = node.expanded(node.reshaped(weights, (rois.shape[0], 1, *weights.sizes[1:])), sizes)
        made = node.gemm(weights, made) if axis == 0 else node.gemm(made, weights, trans_b="transpose")
        within = node.logical_equals(places, node.clip(places, min=0, max=x.shape[2 + axis] - 1), dtype="uint8")
        within = node.reshaped(within, (rois.shape[0], 1, crop[0], 1) if axis == 0 else (rois.shape[0], 1, 1, crop[1]))
        inside = within if inside is None else node.logical_and(inside, within)
    outside = Tensor.of(np.full((1, 1, 1, 1), extrapolation_value, x.dtype))
    return node.tensor(node.if_(inside, made, outside))


def _places(node: Node, first: Value, last: Value, size: int, count: int) -> Value:
    """Where a crop reads along a dimension, {R, count, 1}, in elements; the corners are {R, 1}."""
    if count == 1:
        place = node.multiply(node.add(first, last), (size - 1) / 2)
    else:
        step = node.multiply(node.subtract(last, first), (size - 1) / (count - 1))
        steps = node.multiply(step, Tensor.of(np.arange(count, dtype=np.float32)[None]))
        place = node.add(node.multiply(first, size - 1), steps)
    return node.reshaped(place, (first.sizes[0], count, 1))


def _weights(node: Node, places: Value, size: int, nearest: bool) -> Value:
    """What each element counts at each place: {R, count, size}."""
    elements = Tensor.of(np.arange(size, dtype=np.float32)[None, None])
    if nearest:
        places = node.floor(node.add(places, 0.5))
    away = node.abs(node.subtract(places, elements))
    return node.clip(node.subtract(1, away), min=0, max=1)


# Indices and shapes.


for _rule in (GatherND, GridSample, Pad, Trilu):
    imports(_rule.__name__, domain=MICROSOFT, how=f"as ONNX's {_rule.__name__}")(_rule)


@imports("Range", domain=MICROSOFT, how="as ONNX's Range; the step is 1 by default")
def range_by_one(node: Node, start: Tensor, limit: Tensor, delta: Maybe = None) -> Tensor:
    return Range(node, start, limit, Tensor.of(np.ones((), start.dtype)) if delta is None else delta)


@imports(domain=MICROSOFT, how="reshape")
def ExpandDims(node: Node, X: Tensor, axis: Tensor) -> Tensor:
    return Unsqueeze(node, X, [node.scalar(axis)])


# Fourier transforms along the last dimension.


def _check_transform(*, onesided: int = 1, normalized: int = 0, signal_ndim: int = 1) -> None:
    for name, got, allowed in (
        ("onesided", onesided, 1),
        ("normalized", normalized, 0),
        ("signal_ndim", signal_ndim, 1),
    ):
        if got != allowed:
            raise unsupported(name, str(allowed), got)


@imports(domain=MICROSOFT, how="as ONNX's DFT")
def Rfft(node: Node, X: Tensor, **attributes: int) -> Tensor:
    _check_transform(**attributes)
    return DFT(node, viewed(node, X, (*X.shape, 1)), axis=X.rank - 1, onesided=1)


@imports(domain=MICROSOFT, how="as ONNX's DFT")
def Irfft(node: Node, X: Tensor, **attributes: int) -> Tensor:
    _check_transform(**attributes)
    made = DFT(node, X, axis=X.rank - 2, onesided=1, inverse=1)
    return viewed(node, made, made.shape[:-1])


@imports("FusedMatMul", "TransposeMatMul", domain=MICROSOFT, how="gemm, views")
def FusedMatMul(
    node: Node,
    A: Tensor,
    B: Tensor,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Tensor:
    a, b = _turned(node, A, transA, transBatchA), _turned(node, B, transB, transBatchB)
    shape = product_shape(a.shape, b.shape)
    return node.tensor(node.gemm(*as_matrices(node, a, b), alpha=alpha), shape)


def _turned(node: Node, x: Tensor, transposed: int, batch: int) -> Tensor:
    """The dimensions in the order that the attributes trans… and transBatch… say."""
    if x.rank < 2:
        return x
    order = list(range(x.rank))
    if batch:  # the first dimension is that of the rows
        order = [*order[1:-1], 0, order[-1]]
    if transposed:
        order[-2:] = reversed(order[-2:])
    return node.tensor(node.transposed(x, order))


@imports(domain=MICROSOFT, how="gemm, an activation")
def FusedGemm(
    node: Node,
    A: Tensor,
    B: Tensor,
    C: Maybe = None,
    *,
    activation: str = "",
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
    **attributes: Any,
) -> Tensor:
    given = (activation_alpha, activation_beta, activation_gamma)
    made = Gemm(node, A, B, C, **attributes)
    return activated(node, made, activation, [each for each in given if each is not None])


@imports(domain=MICROSOFT, how="gemm, an activation, views")
def FusedMatMulActivation(
    node: Node,
    A: Tensor,
    B: Tensor,
    *,
    activation: str,
    activation_alpha: float | None = None,
    activation_axis: int | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
    **attributes: Any,
) -> Tensor:
    """What ONNX Runtime makes of a product and an activation for DirectML; only softmaxes have an axis."""
    given = (activation_alpha, activation_beta, activation_gamma)
    made = FusedMatMul(node, A, B, **attributes)
    return activated(node, made, activation, [each for each in given if each is not None])


# Weights of 2, 4 or 8 bits.


@imports(
    domain=MICROSOFT,
    how="gemm, padding; the weights: below level 6.3, and for 2 bits, unpacked into uint8, dequantize_linear; else "
    "dequantize; accuracy_level 4: quantize_linear and dequantize_linear of A",
)
def MatMulNBits(
    node: Node,
    A: Tensor,
    B: Tensor,
    scales: Tensor,
    zero_points: Maybe = None,
    g_idx: Maybe = None,
    bias: Maybe = None,
    *,
    K: int,
    N: int,
    block_size: int,
    bits: int = 4,
    accuracy_level: int = 0,
    weight_prepacked: int = 0,
) -> Tensor:
    """The inputs are {…, K}, packed weights {N, blocks, bytes}, …"""
    one_of("bits", bits, (2, 4, 8))
    one_of("accuracy_level", accuracy_level, range(5))
    if weight_prepacked:
        raise unsupported("weight_prepacked", "0", weight_prepacked)
    if block_size < 1 or K < 1:
        raise Refusal("must be positive", code="range", field="block_size, K", got=[block_size, K])
    if A.shape[-1] != K:
        raise Refusal("must have K columns", code="sizes", field="A", got=list(A.shape), allowed=str(K))
    if g_idx is not None and not (node.known(g_idx).ravel()[:K] == np.arange(K) // block_size).all():
        raise Refusal("groups in another order than the blocks have no counterpart", field="g_idx")
    sizes = (N, -(-K // block_size), block_size)
    weights = _dequantized(node, B, scales, zero_points, sizes, bits)
    rows = node.reshaped(A, (A.count // K, K))
    if rest := -K % block_size:  # zeros meet what a last block has beyond K weights
        rows = node.padding(rows, padding_mode="constant", start_padding=[0, 0], end_padding=[0, rest])
    added = None if bias is None else node.expanded(bias, (A.count // K, N))
    has_steps = bits == 4 and (zero_points is None or not zero_points.is_float)
    if accuracy_level == _EIGHT_BITS and has_steps and block_size in _ROUNDED_BLOCKS:
        rows = _rounded(node, rows, block_size)
    made = node.gemm(rows, weights, added, trans_b="transpose")
    return node.tensor(made, (*A.shape[:-1], N))


_EIGHT_BITS = 4  # the accuracy_level
_ROUNDED_BLOCKS = (16, 32, 64, 128, 256)


def _rounded(node: Node, rows: Value, block: int) -> Value:
    """Rows {rows, K} of float32 as ONNX Runtime's CPU multiplies them at accuracy_level 4; others stay as they are.

    They are rounded to 8 bits, with a scale for each block: its largest number becomes ±127.
    """
    if rows.dtype is not DataType.FLOAT32:
        return rows
    sizes = rows.sizes
    x = node.reshaped(rows, (sizes[0], sizes[1] // block, block))
    least = 127 * float(np.finfo(np.float32).tiny)  # of a divisor, where a block has only zeros
    most = node.clip(node.reduce(node.abs(x), function="max", axes=[2]), min=least, max=math.inf)
    largest, one = (Tensor.of(np.full(1, number, np.float32)) for number in (127, 1))
    steps = node.quantize_linear(node.multiply(x, node.divide(largest, most)), one, dtype="int8")
    return node.reshaped(node.dequantize_linear(steps, node.divide(most, largest)), sizes)


@imports(domain=MICROSOFT, how="gather, dequantize_linear; 2 and 4 bits: bit_shift_right, bit_and")
def GatherBlockQuantized(
    node: Node,
    data: Tensor,
    indices: Tensor,
    scales: Tensor,
    zero_points: Maybe = None,
    *,
    bits: int = 4,
    block_size: int = 128,
    gather_axis: int = 0,
    quantize_axis: int = 1,
) -> Tensor:
    """Rows of a table {rows, bytes} that stays packed: an embedding.  There are scales {rows, blocks}."""
    one_of("bits", bits, (2, 4, 8))
    if data.dtype != np.uint8 or data.rank != 2:
        got = f"{data.dtype} {list(data.shape)}"
        raise Refusal("only packed rows are read", code="dtype", field="data", got=got, allowed="uint8 [rows, bytes]")
    one_of("gather_axis", at_axis(gather_axis, 2), (0,))
    one_of("quantize_axis", at_axis(quantize_axis, 2), (1,))
    width = data.shape[1] * 8 // bits
    if block_size < 1 or width % block_size:
        raise Refusal("must divide the width of the rows", code="range", field="block_size", got=block_size)
    packed, scale = (Gather(node, each, indices) for each in (data, scales))
    zero = None if zero_points is None else Gather(node, zero_points, indices)
    made = _dequantized(node, packed, scale, zero, (indices.count, width // block_size, block_size), bits)
    return node.tensor(made, (*indices.shape, width))


def _dequantized(
    node: Node, packed: Tensor, scales: Tensor, zero: Maybe, sizes: tuple[int, int, int], bits: int
) -> Value:
    """The weights {N, blocks · block} as floats: (weight − zero point) · scale, for each block."""
    columns, blocks, block = sizes
    weights, scale = _unpacked(node, packed, bits, sizes), node.reshaped(scales, (columns, blocks, 1))
    if zero is not None and zero.is_float:
        steps = node.subtract(node.converted(weights, scale.dtype), node.reshaped(zero, (columns, blocks, 1)))
        return node.reshaped(node.multiply(steps, scale), (columns, blocks * block))
    if zero is None:
        zero = Tensor.of(np.full((columns, blocks), 1 << (bits - 1), np.uint8))
    else:
        per = -(-blocks * bits // 8) * 8 // bits
        rows = _unpacked(node, zero, bits, (columns, per))
        known = None if rows.known is None else Tensor.of(rows.known[:, :blocks])  # a constant stays one
        zero = known or sliced(node, rows, [slice(None), slice(blocks)])
    if node.level >= FeatureLevel.V6_3 and bits > 2 and weights.known is not None and zero.known is not None:
        dtype = ml_dtypes.uint4 if bits == 4 else np.uint8
        narrow, point = (Tensor.of(np.ascontiguousarray(each.known).astype(dtype)) for each in (weights, zero))
        flat = node.reshaped(narrow, (columns, blocks * block))
        pair = [node.reshaped(scale, (columns, blocks)), node.value(point)]
        return node.dequantize(flat, pair, quantization_type="scale_zero_point")
    dtype = scale.dtype
    if node.level < FeatureLevel.V6_0:  # dequantize_linear takes only float32
        scale = node.converted(scale, "float32")
    made = node.dequantize_linear(weights, scale, node.reshaped(zero, (columns, blocks, 1)))
    return node.converted(node.reshaped(made, (columns, blocks * block)), dtype)


def _unpacked(node: Node, packed: Tensor, bits: int, shape: tuple[int, ...]) -> Tensor:
    """Numbers that share bytes, the first in the lowest bits, one in each byte."""
    if packed.dtype != np.uint8:
        raise Refusal("must be packed in bytes", code="dtype", got=str(packed.dtype), allowed="uint8")
    if packed.count * 8 // bits != math.prod(shape):
        raise Refusal("holds another number of weights or zero points", code="sizes", got=list(packed.shape))
    shifts: Array = np.arange(0, 8, bits, dtype=np.uint8)[None]
    if packed.known is not None:
        return Tensor.of(((packed.known.reshape(-1, 1) >> shifts) & ((1 << bits) - 1)).reshape(shape))
    if bits == 8:
        return node.tensor(node.value(packed), shape)
    column: Any = node.reshaped(packed, (packed.count, 1))
    parts = node.bit_and(node.bit_shift_right(column, Tensor.of(shifts)), (1 << bits) - 1)
    return node.tensor(parts, shape)
