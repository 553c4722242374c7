"""Matrix products of the domain com.microsoft: with transpositions, activations, and weights of a few bits."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from dmlgraph.base.levels import FeatureLevel
from dmlgraph.formats.onnx.delegation import own
from dmlgraph.formats.onnx.matrix import as_matrices, product_shape
from dmlgraph.formats.onnx.microsoft import activated
from dmlgraph.formats.onnx.node import Node, Result
from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.formats.onnx.shapes import sliced
from dmlgraph.formats.onnx.table import MICROSOFT, imports
from dmlgraph.formats.onnx.tensors import Array, Tensor
from dmlgraph.graph.value import Value


@imports("FusedMatMul", "TransposeMatMul", domain=MICROSOFT, how="gemm, views")
def _fused_matmul(node: Node) -> Result:
    a, b = (_turned(node, node[index], "AB"[index]) for index in range(2))
    shape = product_shape(a.shape, b.shape)
    made = node.dml.gemm(*as_matrices(node.dml, a, b), alpha=node.attribute("alpha", 1.0))
    return node.tensor(made, shape)


def _turned(node: Node, x: Tensor, which: str) -> Tensor:
    """The dimensions in the order that the attributes trans… and transBatch… say."""
    if x.rank < 2:
        return x
    order = list(range(x.rank))
    if node.attribute(f"transBatch{which}", 0):  # the first dimension is that of the rows
        order = [*order[1:-1], 0, order[-1]]
    if node.attribute(f"trans{which}", 0):
        order[-2:] = reversed(order[-2:])
    return node.tensor(node.dml.transposed(x, order))


@imports("FusedGemm", domain=MICROSOFT, how="gemm, an activation")
def _fused_gemm(node: Node) -> Result:
    names = ("activation_alpha", "activation_beta", "activation_gamma")
    given = [node.attribute(name) for name in names]
    made = own(node, "Gemm", node[0], node[1], node.get(2))
    return activated(node, made, [each for each in given if each is not None])


# Weights of 2, 4 or 8 bits.


@imports(
    "MatMulNBits",
    domain=MICROSOFT,
    how="gemm; the weights: below level 6.3, and for 2 bits, unpacked into uint8, dequantize_linear; else dequantize",
)
def _few_bits(node: Node) -> Result:
    """Inputs: a {…, K}, packed weights {N, blocks, bytes}, scales, zero points, g_idx, bias."""
    inner, columns = int(node.required("K")), int(node.required("N"))
    bits, block = int(node.attribute("bits", 4)), int(node.required("block_size"))
    _check_few_bits(node, inner, bits, block)
    a, blocks = node[0], -(-inner // block)
    whole = node.tensor(_dequantized(node, (columns, blocks, block), bits))
    weights = sliced(node.dml, whole, [slice(None), slice(inner)])
    rows = node.dml.reshaped(a, (a.count // inner, inner))
    bias = node.get(5)
    added = None if bias is None else node.dml.expanded(bias, (a.count // inner, columns))
    made = node.dml.gemm(rows, weights, added, trans_b="transpose")
    return node.tensor(made, (*a.shape[:-1], columns))


def _check_few_bits(node: Node, inner: int, bits: int, block: int) -> None:
    if bits not in (2, 4, 8):
        raise node.refuse("bits", "2, 4, 8")
    if node.attribute("weight_prepacked", 0):
        raise node.refuse("weight_prepacked", "0")
    if block < 1 or inner < 1:
        raise Refusal("must be positive", code="range", field="block_size, K", got=[block, inner])
    if node[0].shape[-1] != inner:
        raise Refusal("must have K columns", code="sizes", field="A", got=list(node[0].shape), allowed=str(inner))
    if node.get(4) is not None and not (node.known(4).ravel()[:inner] == np.arange(inner) // block).all():
        raise Refusal("groups in another order than the blocks have no counterpart", field="g_idx")


def _dequantized(node: Node, sizes: tuple[int, int, int], bits: int) -> Value:
    """The weights {N, blocks · block} as floats: (weight − zero point) · scale, for each block."""
    dml, (columns, blocks, block) = node.dml, sizes
    weights, scale = _unpacked(node, node[1], bits, sizes), node.dml.reshaped(node[2], (columns, blocks, 1))
    zero = node.get(3)
    if zero is not None and zero.is_float:
        steps = dml.subtract(dml.converted(weights, scale.dtype), dml.reshaped(zero, (columns, blocks, 1)))
        return dml.reshaped(dml.multiply(steps, scale), (columns, blocks * block))
    if zero is None:
        zero = Tensor.of(np.full((columns, blocks), 1 << (bits - 1), np.uint8))
    else:
        per = -(-blocks * bits // 8) * 8 // bits
        zero = sliced(dml, _unpacked(node, zero, bits, (columns, per)), [slice(None), slice(blocks)])
    if dml.level >= FeatureLevel.V6_3 and bits > 2 and weights.known is not None and zero.known is not None:
        dtype = ml_dtypes.uint4 if bits == 4 else np.uint8
        narrow, point = (Tensor.of(np.ascontiguousarray(each.known).astype(dtype)) for each in (weights, zero))
        flat = dml.reshaped(narrow, (columns, blocks * block))
        pair = [dml.reshaped(scale, (columns, blocks)), dml.value(point)]
        made: Value = dml.dequantize(flat, pair, quantization_type="scale_zero_point")
        return made
    dtype = scale.dtype
    if dml.level < FeatureLevel.V6_0:  # dequantize_linear takes only float32
        scale = dml.converted(scale, "float32")
    made = dml.dequantize_linear(weights, scale, dml.reshaped(zero, (columns, blocks, 1)))
    return dml.converted(dml.reshaped(made, (columns, blocks * block)), dtype)


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
        return node.tensor(node.dml.value(packed), shape)
    column: Any = node.dml.reshaped(packed, (packed.count, 1))
    parts = node.dml.bit_and(node.dml.bit_shift_right(column, Tensor.of(shifts)), (1 << bits) - 1)
    return node.tensor(parts, shape)
