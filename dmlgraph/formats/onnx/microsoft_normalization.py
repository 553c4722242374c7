"""Normalizations as ONNX Runtime writes them: of layers, with residual sums, of embeddings and of groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.tensor import DataType
from dmlgraph.formats.onnx.delegation import channels_first, channels_last, own
from dmlgraph.formats.onnx.node import Node, Result
from dmlgraph.formats.onnx.shapes import sliced
from dmlgraph.formats.onnx.table import MICROSOFT, imports
from dmlgraph.formats.onnx.tensors import Calls, Tensor
from dmlgraph.graph.value import Value


def normalized(dml: Calls, x: Any, axes: Sequence[int], epsilon: float, *, centred: bool = True) -> Value:
    """(x − mean) / √(variance + epsilon); not centred, x / √(mean of x² + epsilon)."""
    x = dml.value(x)
    wide = dml.converted(x, "float32") if x.dtype is DataType.FLOAT16 else x  # squares overflow in float16
    if centred:
        made = dml.mean_variance_normalization1(wide, axes=axes, normalize_variance=True, epsilon=epsilon)
    elif dml.level >= FeatureLevel.V6_3:
        made = dml.mean_variance_normalization2(wide, axes=axes, use_mean=False, use_variance=True, epsilon=epsilon)
    else:
        wide = dml.converted(x, "float32")
        made = dml.multiply(wide, inverse_deviation(dml, wide, axes, epsilon))
    return dml.converted(made, x.dtype)


def inverse_deviation(dml: Calls, x: Value, axes: Sequence[int], epsilon: float) -> Value:
    """1 / √(mean of x² + epsilon)."""
    squares = dml.reduce(dml.multiply(x, x), function="average", axes=axes)
    made: Value = dml.recip(dml.sqrt(dml.add(squares, epsilon)))
    return made


def _scaled(dml: Calls, x: Value, scale: Tensor | None, bias: Tensor | None) -> Value:
    """x · scale + bias, with the data type of the scale."""
    if scale is not None:
        x = dml.multiply(dml.converted(x, dml.value(scale).dtype), scale)
    if bias is not None:
        x = dml.add(x, bias)
    return x


# ONNX Runtime has both in the default domain, before ONNX had the first.
@imports("SimplifiedLayerNormalization", how="mean_variance_normalization2; below level 6.3 reduce, sqrt, multiply")
@imports("LayerNormalization", until=16, how="mean_variance_normalization1; its mean and deviation: reduce, sqrt")
def _layer(node: Node) -> Result:
    """Outputs: y, mean, inverse deviation; simplified: y, inverse deviation."""
    x, dml, simplified = node[0], node.dml, node.operator.startswith("Simplified")
    axes, epsilon = list(range(node.axis(-1), x.rank)), node.attribute("epsilon", 1e-5)
    bias = None if simplified else node.get(2)
    made = _scaled(dml, normalized(dml, x, axes, epsilon, centred=not simplified), node[1], bias)
    mean, deviation = _statistics(node, dml.value(x), axes, epsilon, centred=not simplified, last=1 + (not simplified))
    return [node.tensor(made, x.shape), *(() if simplified else (mean,)), deviation]


def _statistics(
    node: Node, x: Value, axes: Sequence[int], epsilon: float, *, centred: bool, last: int
) -> tuple[Value | None, Value | None]:
    """What was computed for a normalization, in float32: the mean, output 1, and the inverse deviation, output `last`.

    Not centred, the mean counts as 0; None is what is not asked for.
    """
    dml, wanted = node.dml, node.wants(last)
    if not wanted and not (centred and node.wants(1)):
        return None, None
    wide = dml.converted(x, "float32")
    mean = dml.reduce(wide, function="average", axes=axes) if centred else None
    away = wide if mean is None else dml.subtract(wide, mean)
    return mean, inverse_deviation(dml, away, axes, epsilon) if wanted else None


@imports(
    "SkipLayerNormalization",
    domain=MICROSOFT,
    how="add, mean_variance_normalization1; its mean and deviation: reduce, sqrt",
)
@imports(
    "SkipSimplifiedLayerNormalization",
    domain=MICROSOFT,
    how="add, mean_variance_normalization2; below level 6.3 reduce, sqrt, multiply",
)
def _skip_layer(node: Node) -> Result:
    """Inputs: x, skip, gamma, beta, bias; simplified: x, skip, gamma, bias.

    Outputs: y, mean, inverse deviation, the sum.
    """
    simplified = node.operator.startswith("SkipSimplified")
    total = node.dml.add(node[0], node[1])
    bias = node.get(3 if simplified else 4)
    total = total if bias is None else node.dml.add(total, bias)
    axes, epsilon = [node[0].rank - 1], node.attribute("epsilon", 1e-12)
    made = normalized(node.dml, total, axes, epsilon, centred=not simplified)
    made = _scaled(node.dml, made, node[2], None if simplified else node.get(3))
    mean, deviation = _statistics(node, total, axes, epsilon, centred=not simplified, last=2)
    zeros = np.broadcast_to(np.float32(0), (*node[0].shape[:-1], 1))  # ONNX Runtime's mean of the simplified one
    return [made, zeros if simplified else mean, deviation, total]


@imports("EmbedLayerNormalization", domain=MICROSOFT, how="gather, add, mean_variance_normalization1; reduce")
def _embedded(node: Node) -> Result:
    """Inputs: word and segment numbers, embeddings of words, positions and segments, gamma, beta, mask, positions."""
    ids, segments, places, mask = node[0], node.get(1), node.get(8), node.get(7)
    total = node.dml.value(own(node, "Gather", node[2], ids, axis=0))
    if places is not None:
        positions = own(node, "Gather", node[3], places, axis=0)
    else:
        positions = sliced(node.dml, node[3], [slice(ids.shape[1]), slice(None)])
    total = node.dml.add(total, positions)
    if segments is not None:
        total = node.dml.add(total, own(node, "Gather", node[4], segments, axis=0))
    made = normalized(node.dml, total, [2], node.attribute("epsilon", 1e-12))
    made = _scaled(node.dml, made, node[5], node[6])
    counted: Any = np.zeros(ids.shape[:1], np.int32)
    if mask is not None and node.wants(1):
        ones = node.dml.converted(node.dml.logical_equals(mask, 1, dtype="uint8"), "int32")
        counted = node.tensor(node.dml.reduce(ones, function="sum", axes=[1]), ids.shape[:1])
    return [made, counted, total]


@imports("GroupNorm", domain=MICROSOFT, how="as ONNX's GroupNormalization; activation_sigmoid, multiply, transpose")
@imports("SkipGroupNorm", domain=MICROSOFT, how="add, then as GroupNorm")
def _group(node: Node) -> Result:
    """Inputs: x, gamma, beta, skip, bias; outputs: y, and the sum that is normalized."""
    x, dml, last = node[0], node.dml, bool(node.attribute("channels_last", 1))
    total, channels = dml.value(x), x.shape[-1 if last else 1]
    for each in (node.get(3), node.get(4)):
        if each is not None and each.shape != x.shape:  # {N, C}, {N, 1, 1, C} or {C}
            batch = each.count // channels
            spatial = (1,) * (x.rank - 2)
            sizes = (batch, *spatial, channels) if last else (batch, channels, *spatial)
            total = dml.add(total, dml.reshaped(each, sizes))
        elif each is not None:
            total = dml.add(total, each)
    summed = node.tensor(total, x.shape)
    scale, bias = (node.tensor(dml.converted(node[index], total.dtype)) for index in (1, 2))
    first = channels_first(node, summed) if last else summed
    made = own(node, "GroupNormalization", first, scale, bias, num_groups=node.required("groups"))
    if node.attribute("activation", 0):
        made = node.tensor(dml.multiply(made, dml.activation_sigmoid(made)), made.shape)
    return [channels_last(node, made) if last else made, summed]
