"""Layouts of images: ONNX's has the channels first, some operators of com.microsoft have them last."""

from __future__ import annotations

from dmlgraph.formats.onnx.node import Node
from dmlgraph.formats.onnx.tensors import Tensor


def as_channels_first(node: Node, x: Tensor) -> Tensor:
    """{N, spatial…, C} as {N, C, spatial…}."""
    return node.tensor(node.transposed(x, [0, x.rank - 1, *range(1, x.rank - 1)]))


def as_channels_last(node: Node, x: Tensor) -> Tensor:
    """{N, C, spatial…} as {N, spatial…, C}."""
    return node.tensor(node.transposed(x, [0, *range(2, x.rank), 1]))
