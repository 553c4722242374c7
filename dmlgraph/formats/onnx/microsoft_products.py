"""Matrix products of the domain com.microsoft: with transpositions, activations, and weights of a few bits."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from dmlgraph.base.levels import FeatureLevel
from dmlgraph.formats.onnx.matrix import Gemm, as_matrices, product_shape
from dmlgraph.formats.onnx.microsoft import activated
from dmlgraph.formats.onnx.node import Maybe, Node
from dmlgraph.formats.onnx.refusals import Refusal, unsupported
from dmlgraph.formats.onnx.shapes import sliced
from dmlgraph.formats.onnx.table import MICROSOFT, imports
from dmlgraph.formats.onnx.tensors import Array, Tensor
from dmlgraph.graph.value import Value


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
    how="gemm; the weights: below level 6.3, and for 2 bits, unpacked into uint8, dequantize_linear; else dequantize",
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
    weight_prepacked: int = 0,
) -> Tensor:
    """The inputs are {…, K}, packed weights {N, blocks, bytes}, …"""
    if bits not in (2, 4, 8):
        raise unsupported("bits", "2, 4, 8", bits)
    if weight_prepacked:
        raise unsupported("weight_prepacked", "0", weight_prepacked)
    if block_size < 1 or K < 1:
        raise Refusal("must be positive", code="range", field="block_size, K", got=[block_size, K])
    if A.shape[-1] != K:
        raise Refusal("must have K columns", code="sizes", field="A", got=list(A.shape), allowed=str(K))
    if g_idx is not None and not (node.known(g_idx).ravel()[:K] == np.arange(K) // block_size).all():
        raise Refusal("groups in another order than the blocks have no counterpart", field="g_idx")
    sizes = (N, -(-K // block_size), block_size)
    whole = node.tensor(_dequantized(node, B, scales, zero_points, sizes, bits))
    weights = sliced(node, whole, [slice(None), slice(K)])
    rows = node.reshaped(A, (A.count // K, K))
    added = None if bias is None else node.expanded(bias, (A.count // K, N))
    made = node.gemm(rows, weights, added, trans_b="transpose")
    return node.tensor(made, (*A.shape[:-1], N))


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
        zero = sliced(node, _unpacked(node, zero, bits, (columns, per)), [slice(None), slice(blocks)])
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
