"""Normalizations."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from dmlgraph.base.tensor import DataType
from dmlgraph.formats.onnx.node import Node, Result, at_axis
from dmlgraph.formats.onnx.refusals import ByDefinition, Refusal
from dmlgraph.formats.onnx.table import imports
from dmlgraph.formats.onnx.tensors import Calls, Tensor, stored
from dmlgraph.graph.value import Value

FLOAT = 1  # TensorProto.FLOAT
LEAST = 1.1754943508222875e-38  # of float32: zeros stay zeros, and nothing else changes


def _per_channel(node: Node, tensor: Tensor, rank: int) -> Value:
    """{C} as {1, C, 1, …}."""
    return node.dml.reshaped(tensor, (1, tensor.count, *(1,) * (rank - 2)) if rank > 1 else (tensor.count,))


@imports("BatchNormalization", how="batch_normalization; in training batch_normalization_training; in the widest type")
def _batch(node: Node) -> Result:
    x, epsilon = node[0], node.attribute("epsilon", 1e-5)
    if not node.attribute("spatial", 1):
        raise node.refuse("spatial", "1")
    training = node.opset >= 14 and bool(node.attribute("training_mode", 0))
    if node.opset < 14 and any(node.outputs[1:]):
        raise Refusal("the mean and variance of training are not read in this opset", field="outputs")
    # In the widest type of all: a variance may be beyond float16.  ONNX computes that of a batch in float32.
    wide = stored(functools.reduce(np.promote_types, [each.dtype for each in node.given], x.dtype))
    wide = DataType.FLOAT32 if training and wide is DataType.FLOAT16 else wide
    image = node.dml.converted(x, wide)
    scale, bias, mean, variance = (
        node.dml.converted(_per_channel(node, node[index], x.rank), wide) for index in range(1, 5)
    )
    if training:
        return _batch_training(node, image, scale, bias, mean, variance)
    made = node.dml.batch_normalization(image, mean, variance, scale, bias, spatial=True, epsilon=epsilon)
    return node.tensor(made, x.shape)


def _batch_training(node: Node, x: Value, scale: Value, bias: Value, mean: Value, variance: Value) -> Result:
    """Also the running mean and variance: momentum · the old one + (1 − momentum) · the batch's."""
    momentum = node.attribute("momentum", 0.9)
    made = node.dml.batch_normalization_training(x, scale, bias, epsilon=node.attribute("epsilon", 1e-5))

    def running(old: Value, new: Value) -> Tensor:
        kept = node.dml.multiply(old, momentum)
        return node.tensor(node.dml.add(kept, node.dml.multiply(new, 1 - momentum)), node[3].shape)

    return [made.output, running(mean, made.output_mean), running(variance, made.output_variance)]


@imports("InstanceNormalization", how="mean_variance_normalization1")
def _instance(node: Node) -> Result:
    x = node[0]
    scale, bias = (_per_channel(node, node[index], x.rank) for index in (1, 2))
    return _normalized(node, list(range(2, x.rank)), scale, bias, node.attribute("epsilon", 1e-5))


def is_wide(node: Node) -> bool:
    """Whether the mean and variance of a float16 are float32: always, unless `stash_type` says that they are not."""
    return node[0].dtype == np.float16 and node.attribute("stash_type", FLOAT) == FLOAT


def widened(dml: Calls, tensor: Any) -> Value:
    """A tensor or value in float32.  A known tensor is converted now, and costs no dispatch."""
    if isinstance(tensor, Tensor) and tensor.known is not None:
        tensor = Tensor.of(tensor.known.astype(np.float32), name=tensor.name)
    return dml.converted(tensor, "float32")


def _normalized(node: Node, axes: list[int], scale: Any, bias: Any, epsilon: float, *, wide: bool = False) -> Tensor:
    """(x − mean) / √(variance + epsilon) · scale + bias; wide, all of it in float32."""
    x, dml = node[0], node.dml
    if scale is None and bias is not None:
        raise Refusal("a bias needs a scale", code="missing", field="scale")
    given = [each if each is None or not wide else widened(dml, each) for each in (x, scale, bias)]
    whole, scale, bias = (each if each is None else dml.expanded(each, x.sizes) for each in given)
    fields = {"axes": axes, "normalize_variance": True, "epsilon": epsilon}
    if bias is None and scale is not None:
        made = dml.multiply(dml.mean_variance_normalization1(whole, **fields), scale)
    else:
        made = dml.mean_variance_normalization1(whole, scale, bias, **fields)
    return node.tensor(dml.converted(made, dml.value(x).dtype), x.shape)


@imports("LayerNormalization", since=17, how="mean_variance_normalization1; with its mean: ONNX's definition")
def _layer(node: Node) -> Result:
    x = node[0]
    if node.wants(1) or node.wants(2):
        raise ByDefinition
    axes = list(range(node.axis(-1), x.rank))
    return _normalized(node, axes, node.get(1), node.get(2), node.attribute("epsilon", 1e-5), wide=is_wide(node))


@imports("RMSNormalization", since=23, how="mean_variance_normalization2, multiply")
def _root_mean_square(node: Node) -> Result:
    x, dml = node[0], node.dml
    axes = list(range(node.axis(-1), x.rank))
    made = dml.mean_variance_normalization2(
        widened(dml, x) if is_wide(node) else x,
        axes=axes,
        use_mean=False,
        use_variance=True,
        epsilon=node.attribute("epsilon", 1e-5),
    )
    return node.tensor(dml.multiply(dml.converted(made, dml.value(x).dtype), node[1]), x.shape)


@imports("GroupNormalization", since=18, how="mean_variance_normalization1, multiply, add, views")
def _group(node: Node) -> Result:
    x, dml, groups = node[0], node.dml, node.required("num_groups")
    if groups < 1 or x.shape[1] % groups:
        raise Refusal("the channels must be a multiple of the groups", code="sizes", field="num_groups", got=groups)
    whole = widened(dml, x) if node.opset >= 21 and is_wide(node) else x
    grouped = (x.shape[0], groups, x.count // (x.shape[0] * groups))
    made = dml.mean_variance_normalization1(
        dml.reshaped(whole, grouped), axes=[2], normalize_variance=True, epsilon=node.attribute("epsilon", 1e-5)
    )
    made = dml.converted(made, dml.value(x).dtype)
    if node[1].count == groups and groups != x.shape[1]:  # opset 18: a scale for each group
        scale, bias = (dml.reshaped(node[index], (1, groups, 1)) for index in (1, 2))
        return node.tensor(dml.add(dml.multiply(made, scale), bias), x.shape)
    scale, bias = (_per_channel(node, node[index], x.rank) for index in (1, 2))
    return node.tensor(dml.add(dml.multiply(dml.reshaped(made, x.shape), scale), bias))


@imports("LRN", how="local_response_normalization")
def _local_response(node: Node) -> Result:
    x = node[0]
    sizes = (*x.shape[:2], 1, math.prod(x.shape[2:])) if x.rank != 4 else x.shape
    made = node.dml.local_response_normalization(
        node.dml.reshaped(x, sizes),
        cross_channel=True,
        local_size=node.required("size"),
        alpha=node.attribute("alpha", 1e-4),
        beta=node.attribute("beta", 0.75),
        bias=node.attribute("bias", 1.0),
    )
    return node.tensor(made, x.shape)


@imports("LpNormalization", how="lp_normalization; of float16 in float32")
def _lp(node: Node) -> Result:
    x = node.dml.value(node[0])
    if x.dtype is DataType.FLOAT16:  # in which the sum may overflow, and epsilon is 0
        x = node.dml.converted(x, DataType.FLOAT32)
    made = node.dml.lp_normalization(x, axis=node.axis(-1), epsilon=LEAST, p=node.attribute("p", 2))
    return node.tensor(made, node[0].shape)


MEAN_VARIANCE_EPSILON = 1e-18  # ONNX adds its root to the deviation


@imports("MeanVarianceNormalization", since=9, how="mean_variance_normalization1")
def _mean_variance(node: Node) -> Result:
    x = node[0]
    axes = sorted(at_axis(axis, x.rank) for axis in node.attribute("axes", [0, 2, 3]))
    return node.tensor(
        node.dml.mean_variance_normalization1(x, axes=axes, normalize_variance=True, epsilon=MEAN_VARIANCE_EPSILON)
    )
