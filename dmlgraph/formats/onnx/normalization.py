"""Normalizations."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dmlgraph.base.tensor import DataType
from dmlgraph.formats.onnx.node import Maybe, Node, Result, at_axis
from dmlgraph.formats.onnx.refusals import ByDefinition, Refusal, unsupported
from dmlgraph.formats.onnx.table import imports
from dmlgraph.formats.onnx.tensors import Calls, Tensor, stored
from dmlgraph.graph.value import Value

FLOAT = 1  # TensorProto.FLOAT
_SAYS_TRAINING = 14  # the opset from which BatchNormalization has `training_mode`
LEAST = 1.1754943508222875e-38  # of float32: zeros stay zeros, and nothing else changes


def _per_channel(node: Node, tensor: Tensor, rank: int) -> Value:
    """{C} as {1, C, 1, …}."""
    return node.dml.reshaped(tensor, (1, tensor.count, *(1,) * (rank - 2)) if rank > 1 else (tensor.count,))


@imports(how="batch_normalization; in training batch_normalization_training; in the widest type")
def BatchNormalization(
    node: Node,
    X: Tensor,
    scale: Tensor,
    B: Tensor,
    input_mean: Tensor,
    input_var: Tensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    spatial: int = 1,
    training_mode: int = 0,
) -> Result:
    """In training also the running mean and variance: momentum · the old one + (1 − momentum) · the batch's."""
    if not spatial:
        raise unsupported("spatial", "1", spatial)
    if not training_mode and node.opset < _SAYS_TRAINING and any(node.outputs[1:]):
        raise Refusal("the mean and variance of training are not read in this opset", field="outputs")
    # In the widest type of all: a variance may be beyond float16.  ONNX computes that of a batch in float32.
    given = (scale, B, input_mean, input_var)
    wide = stored(functools.reduce(np.promote_types, [each.dtype for each in given], X.dtype))
    wide = DataType.FLOAT32 if training_mode and wide is DataType.FLOAT16 else wide
    image = node.dml.converted(X, wide)
    gain, bias, mean, variance = (node.dml.converted(_per_channel(node, each, X.rank), wide) for each in given)
    if not training_mode:
        made = node.dml.batch_normalization(image, mean, variance, gain, bias, spatial=True, epsilon=epsilon)
        return node.tensor(made, X.shape)
    made = node.dml.batch_normalization_training(image, gain, bias, epsilon=epsilon)

    def running(old: Value, new: Value) -> Tensor:
        kept = node.dml.multiply(old, momentum)
        return node.tensor(node.dml.add(kept, node.dml.multiply(new, 1 - momentum)), input_mean.shape)

    return [made.output, running(mean, made.output_mean), running(variance, made.output_variance)]


@imports(how="mean_variance_normalization1")
def InstanceNormalization(node: Node, input: Tensor, scale: Tensor, B: Tensor, *, epsilon: float = 1e-5) -> Tensor:
    gain, bias = (_per_channel(node, each, input.rank) for each in (scale, B))
    return _normalized(node, input, list(range(2, input.rank)), gain, bias, epsilon)


def is_wide(x: Tensor, stash_type: int) -> bool:
    """Whether the mean and variance of a float16 are float32: always, unless `stash_type` says that they are not."""
    return x.dtype == np.float16 and stash_type == FLOAT


def widened(dml: Calls, tensor: Any) -> Value:
    """A tensor or value in float32.  A known tensor is converted now, and costs no dispatch."""
    if isinstance(tensor, Tensor) and tensor.known is not None:
        tensor = Tensor.of(tensor.known.astype(np.float32), name=tensor.name)
    return dml.converted(tensor, "float32")


def _normalized(
    node: Node, x: Tensor, axes: list[int], scale: Any, bias: Any, epsilon: float, *, wide: bool = False
) -> Tensor:
    """(x − mean) / √(variance + epsilon) · scale + bias; wide, all of it in float32."""
    dml = node.dml
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


@imports(since=17, how="mean_variance_normalization1; with its mean: ONNX's definition")
def LayerNormalization(
    node: Node,
    X: Tensor,
    Scale: Tensor,
    B: Maybe = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = FLOAT,
) -> Tensor:
    if node.wants(1) or node.wants(2):
        raise ByDefinition
    axes = list(range(at_axis(axis, X.rank), X.rank))
    return _normalized(node, X, axes, Scale, B, epsilon, wide=is_wide(X, stash_type))


@imports(since=23, how="mean_variance_normalization2, multiply")
def RMSNormalization(
    node: Node, X: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = FLOAT
) -> Tensor:
    dml, axes = node.dml, list(range(at_axis(axis, X.rank), X.rank))
    whole = widened(dml, X) if is_wide(X, stash_type) else X
    made = dml.mean_variance_normalization2(whole, axes=axes, use_mean=False, use_variance=True, epsilon=epsilon)
    return node.tensor(dml.multiply(dml.converted(made, dml.value(X).dtype), scale), X.shape)


_GROUPS = "mean_variance_normalization1, multiply, add, views"


@imports(since=18, until=20, how=_GROUPS)
def GroupNormalization_18(node: Node, X: Tensor, scale: Tensor, bias: Tensor, **attributes: Any) -> Tensor:
    return GroupNormalization(node, X, scale, bias, **attributes, stash_type=0)


@imports(since=21, how=_GROUPS)
def GroupNormalization(
    node: Node,
    X: Tensor,
    scale: Tensor,
    bias: Tensor,
    *,
    num_groups: int,
    epsilon: float = 1e-5,
    stash_type: int = FLOAT,
) -> Tensor:
    dml = node.dml
    if num_groups < 1 or X.shape[1] % num_groups:
        message = "the channels must be a multiple of the groups"
        raise Refusal(message, code="sizes", field="num_groups", got=num_groups)
    whole = widened(dml, X) if is_wide(X, stash_type) else X
    grouped = dml.reshaped(whole, (X.shape[0], num_groups, X.count // (X.shape[0] * num_groups)))
    made = dml.mean_variance_normalization1(grouped, axes=[2], normalize_variance=True, epsilon=epsilon)
    made = dml.converted(made, dml.value(X).dtype)
    if scale.count == num_groups and num_groups != X.shape[1]:  # opset 18: a scale for each group
        gain, added = (dml.reshaped(each, (1, num_groups, 1)) for each in (scale, bias))
        return node.tensor(dml.add(dml.multiply(made, gain), added), X.shape)
    gain, added = (_per_channel(node, each, X.rank) for each in (scale, bias))
    return node.tensor(dml.add(dml.multiply(dml.reshaped(made, X.shape), gain), added))


@imports(how="local_response_normalization")
def LRN(node: Node, X: Tensor, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Tensor:
    sizes = (*X.shape[:2], 1, math.prod(X.shape[2:])) if X.rank != 4 else X.shape
    image, fields = node.dml.reshaped(X, sizes), {"alpha": alpha, "beta": beta, "bias": bias}
    made = node.dml.local_response_normalization(image, cross_channel=True, local_size=size, **fields)
    return node.tensor(made, X.shape)


@imports(how="lp_normalization; of float16 in float32")
def LpNormalization(node: Node, input: Tensor, *, axis: int = -1, p: int = 2) -> Result:
    x = node.dml.value(input)
    if x.dtype is DataType.FLOAT16:  # in which the sum may overflow, and epsilon is 0
        x = node.dml.converted(x, DataType.FLOAT32)
    made = node.dml.lp_normalization(x, axis=at_axis(axis, input.rank), epsilon=LEAST, p=p)
    return node.tensor(made, input.shape)


MEAN_VARIANCE_EPSILON = 1e-18  # ONNX adds its root to the deviation


@imports(since=9, how="mean_variance_normalization1")
def MeanVarianceNormalization(node: Node, X: Tensor, *, axes: Sequence[int] = (0, 2, 3)) -> Tensor:
    fields = {"axes": sorted(at_axis(axis, X.rank) for axis in axes), "normalize_variance": True}
    return node.tensor(node.dml.mean_variance_normalization1(X, **fields, epsilon=MEAN_VARIANCE_EPSILON))
