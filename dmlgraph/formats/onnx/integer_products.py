"""Products of quantized matrices as floats: a product of integers, times the scales."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from dmlgraph.formats.onnx.matrix import as_matrices
from dmlgraph.formats.onnx.node import Node
from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.formats.onnx.tensors import Tensor
from dmlgraph.graph.value import Value


@dataclasses.dataclass(frozen=True, slots=True)
class Factor:
    """A quantized matrix {…, rows, columns}; its scale and zero point are one number, or one for each row or column.

    Those of the left factor are for rows, those of the right one for columns.
    """

    steps: Tensor
    scale: Tensor
    zero: Tensor | None = None


def dequantized_product(node: Node, left: Factor, right: Factor, alpha: float = 1.0, c: Any = None) -> Value:
    """alpha · (left · right + c), with the sizes that gemm gives; c are steps of the product, int32."""
    a, b = as_matrices(node, left.steps, right.steps)
    rank = len(a.sizes)
    zeros = (_along(node, left.zero, left.steps, rank, -2), _along(node, right.zero, right.steps, rank, -1))
    made = node.matrix_multiply_integer(a, zeros[0], b, zeros[1])
    if c is not None:
        made = node.add(made, node.expanded(c, made.sizes))
    scales = (_along(node, left.scale, left.steps, rank, -2), _along(node, right.scale, right.steps, rank, -1))
    scale = node.multiply(*scales)
    scale = scale if alpha == 1 else node.multiply(scale, alpha)
    return node.multiply(node.converted(made, "float32"), scale)


def _along(node: Node, tensor: Tensor | None, steps: Tensor, rank: int, axis: int) -> Value:
    """A scale or zero point that broadcasts along the rows (−2) or columns (−1) of a matrix; a missing one is 0."""
    if tensor is None:
        tensor = Tensor.of(np.zeros(1, steps.dtype))
    sizes = [1] * rank
    if tensor.count != 1:
        if tensor.count != steps.shape[axis]:
            allowed = f"one number, or {steps.shape[axis]}"
            raise Refusal("does not fit the matrix", code="sizes", got=list(tensor.shape), allowed=allowed)
        sizes[axis] = tensor.count
    return node.reshaped(tensor, sizes)
