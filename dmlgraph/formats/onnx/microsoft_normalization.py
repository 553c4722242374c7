"""Normalizations as ONNX Runtime writes them: of layers, with residual sums, of embeddings and of groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.tensor import DataType
from dmlgraph.formats.onnx.indexing import Gather
from dmlgraph.formats.onnx.node import Maybe, Node, Result, at_axis
from dmlgraph.formats.onnx.normalization import GroupNormalization
from dmlgraph.formats.onnx.shapes import as_channels_first, as_channels_last, sliced
from dmlgraph.formats.onnx.table import MICROSOFT, imports
from dmlgraph.formats.onnx.tensors import Tensor
from dmlgraph.graph.value import Value


def normalized(node: Node, x: Any, axes: Sequence[int], epsilon: float, *, centred: bool = True) -> Value:
    """(x − mean) / √(variance + epsilon); not centred, x / √(mean of x² + epsilon)."""
    x = node.value(x)
    wide = node.converted(x, "float32") if x.dtype is DataType.FLOAT16 else x  # squares overflow in float16
    if centred:
        made = node.mean_variance_normalization1(wide, axes=axes, normalize_variance=True, epsilon=epsilon)
    elif node.level >= FeatureLevel.V6_3:
        made = node.mean_variance_normalization2(wide, axes=axes, use_mean=False, use_variance=True, epsilon=epsilon)
    else:
        made = _by_root(node, node.converted(x, "float32"), axes, epsilon, None)
    return node.converted(made, x.dtype)


def normalized_by_root(node: Node, x: Value, axes: Sequence[int], epsilon: float, scale: Tensor) -> Value:
    """x / √(mean of x² + epsilon) · scale, with the data type of the scale."""
    if node.level < FeatureLevel.V6_3 and x.dtype is node.value(scale).dtype is DataType.FLOAT32:
        return _by_root(node, x, axes, epsilon, scale)
    return _scaled(node, normalized(node, x, axes, epsilon, centred=False), scale, None)


def _by_root(node: Node, x: Value, axes: Sequence[int], epsilon: float, scale: Tensor | None) -> Value:
    """The same of float32 in two passes: of n numbers it is x · (√n · scale) / √(sum of x² + n · epsilon)."""
    count = math.prod(x.sizes[axis] for axis in axes)
    root, zero = (Tensor.of(np.full((1,) * x.rank, each, np.float32)) for each in (math.sqrt(count), 0))
    return node.batch_normalization(
        x,
        mean=zero,
        variance=node.reduce(x, function="sum_square", axes=axes),
        scale=root if scale is None else node.multiply(root, scale),
        bias=zero,
        spatial=True,
        epsilon=count * epsilon,
    )


def inverse_deviation(node: Node, x: Value, axes: Sequence[int], epsilon: float) -> Value:
    """1 / √(mean of x² + epsilon)."""
    squares = node.reduce(node.multiply(x, x), function="average", axes=axes)
    return node.recip(node.sqrt(node.add(squares, epsilon)))


def _scaled(node: Node, x: Value, scale: Tensor | None, bias: Tensor | None) -> Value:
    """x · scale + bias, with the data type of the scale."""
    if scale is not None:
        x = node.multiply(node.converted(x, node.value(scale).dtype), scale)
    if bias is not None:
        x = node.add(x, bias)
    return x


# ONNX Runtime has both in the default domain, before ONNX had the first.


@imports(how="mean_variance_normalization2; below level 6.3 reduce, batch_normalization")
def SimplifiedLayerNormalization(
    node: Node, X: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5
) -> Result:
    """The outputs are y and the inverse deviation."""
    axes = list(range(at_axis(axis, X.rank), X.rank))
    made = normalized_by_root(node, node.value(X), axes, epsilon, scale)
    _, deviation = _statistics(node, node.value(X), axes, epsilon, centred=False, last=1)
    return [node.tensor(made, X.shape), deviation]


@imports(until=16, how="mean_variance_normalization1; its mean and deviation: reduce, sqrt")
def LayerNormalization_1(
    node: Node, X: Tensor, Scale: Tensor, B: Maybe = None, *, axis: int = -1, epsilon: float = 1e-5
) -> Result:
    """The outputs are y, the mean, and the inverse deviation."""
    axes = list(range(at_axis(axis, X.rank), X.rank))
    made = _scaled(node, normalized(node, X, axes, epsilon), Scale, B)
    return [node.tensor(made, X.shape), *_statistics(node, node.value(X), axes, epsilon, centred=True, last=2)]


def _statistics(
    node: Node, x: Value, axes: Sequence[int], epsilon: float, *, centred: bool, last: int
) -> tuple[Value | None, Value | None]:
    """What was computed for a normalization, in float32: the mean, output 1, and the inverse deviation, output `last`.

    Not centred, the mean counts as 0; None is what is not asked for.
    """
    wanted = node.wants(last)
    if not wanted and not (centred and node.wants(1)):
        return None, None
    wide = node.converted(x, "float32")
    mean = node.reduce(wide, function="average", axes=axes) if centred else None
    away = wide if mean is None else node.subtract(wide, mean)
    return mean, inverse_deviation(node, away, axes, epsilon) if wanted else None


@imports(domain=MICROSOFT, how="add, mean_variance_normalization1; its mean and deviation: reduce, sqrt")
def SkipLayerNormalization(
    node: Node,
    input: Tensor,
    skip: Tensor,
    gamma: Tensor,
    beta: Maybe = None,
    bias: Maybe = None,
    *,
    epsilon: float = 1e-12,
) -> Result:
    return _skipped(node, input, [skip, bias], gamma, beta, epsilon, centred=True)


@imports(domain=MICROSOFT, how="add, mean_variance_normalization2; below level 6.3 reduce, batch_normalization")
def SkipSimplifiedLayerNormalization(
    node: Node, input: Tensor, skip: Tensor, gamma: Tensor, bias: Maybe = None, *, epsilon: float = 1e-12
) -> Result:
    return _skipped(node, input, [skip, bias], gamma, None, epsilon, centred=False)


def _skipped(
    node: Node, x: Tensor, added: list[Maybe], gamma: Tensor, beta: Maybe, epsilon: float, *, centred: bool
) -> Result:
    """The outputs are y, the mean, the inverse deviation and the sum; not centred, ONNX Runtime's mean is 0."""
    total, axes = node.value(x), [x.rank - 1]
    for each in added:
        total = total if each is None else node.add(total, each)
    if centred:
        made = _scaled(node, normalized(node, total, axes, epsilon), gamma, beta)
    else:
        made = normalized_by_root(node, total, axes, epsilon, gamma)
    mean, deviation = _statistics(node, total, axes, epsilon, centred=centred, last=2)
    zeros = np.broadcast_to(np.float32(0), (*x.shape[:-1], 1))
    return [made, mean if centred else zeros, deviation, total]


@imports(domain=MICROSOFT, how="gather, add, mean_variance_normalization1; reduce")
def EmbedLayerNormalization(
    node: Node,
    input_ids: Tensor,
    segment_ids: Maybe,
    word_embedding: Tensor,
    position_embedding: Tensor,
    segment_embedding: Maybe,
    gamma: Tensor,
    beta: Tensor,
    mask: Maybe = None,
    position_ids: Maybe = None,
    *,
    epsilon: float = 1e-12,
) -> Result:
    total = node.value(Gather(node, word_embedding, input_ids, axis=0))
    if position_ids is not None:
        positions = Gather(node, position_embedding, position_ids, axis=0)
    else:
        positions = sliced(node, position_embedding, [slice(input_ids.shape[1]), slice(None)])
    total = node.add(total, positions)
    if segment_ids is not None:
        total = node.add(total, Gather(node, node.there(4, segment_embedding), segment_ids, axis=0))
    made = normalized(node, total, [2], epsilon)
    made = _scaled(node, made, gamma, beta)
    counted: Any = np.zeros(input_ids.shape[:1], np.int32)
    if mask is not None and node.wants(1):
        ones = node.converted(node.logical_equals(mask, 1, dtype="uint8"), "int32")
        counted = node.tensor(node.reduce(ones, function="sum", axes=[1]), input_ids.shape[:1])
    return [made, counted, total]


@imports("GroupNorm", domain=MICROSOFT, how="as ONNX's GroupNormalization; activation_sigmoid, multiply, transpose")
@imports("SkipGroupNorm", domain=MICROSOFT, how="add, then as GroupNorm")
def SkipGroupNorm(
    node: Node,
    X: Tensor,
    gamma: Tensor,
    beta: Tensor,
    skip: Maybe = None,
    bias: Maybe = None,
    *,
    groups: int,
    activation: int = 0,
    channels_last: int = 1,
    epsilon: float = 1e-5,
) -> Result:
    """The outputs are y, and the sum that is normalized."""
    last = bool(channels_last)
    total, channels = node.value(X), X.shape[-1 if last else 1]
    for each in (skip, bias):
        if each is not None and each.shape != X.shape:  # {N, C}, {N, 1, 1, C} or {C}
            batch = each.count // channels
            spatial = (1,) * (X.rank - 2)
            sizes = (batch, *spatial, channels) if last else (batch, channels, *spatial)
            total = node.add(total, node.reshaped(each, sizes))
        elif each is not None:
            total = node.add(total, each)
    summed = node.tensor(total, X.shape)
    gain, added = (node.tensor(node.converted(each, total.dtype)) for each in (gamma, beta))
    first = as_channels_first(node, summed) if last else summed
    made = GroupNormalization(node, first, gain, added, num_groups=groups, epsilon=epsilon)
    if activation:
        made = node.tensor(node.multiply(made, node.activation_sigmoid(made)), made.shape)
    return [as_channels_last(node, made) if last else made, summed]
