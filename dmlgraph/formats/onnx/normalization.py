"""Normalizations."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dmlgraph.base.tensor import DataType
from dmlgraph.formats.onnx.export.emitter import Emitter, Symbol
from dmlgraph.formats.onnx.node import Maybe, Node, Result, at_axis
from dmlgraph.formats.onnx.reduction import emit_reduction
from dmlgraph.formats.onnx.refusals import ByDefinition, Refusal, unsupported
from dmlgraph.formats.onnx.table import exports, imports
from dmlgraph.formats.onnx.tensors import Tensor, stored
from dmlgraph.graph.value import Value

FLOAT = 1  # TensorProto.FLOAT
_SAYS_TRAINING = 14  # the opset from which BatchNormalization has `training_mode`
LEAST = 1.1754943508222875e-38  # of float32: zeros stay zeros, and nothing else changes


def _per_channel(node: Node, tensor: Tensor, rank: int) -> Value:
    """{C} as {1, C, 1, …}."""
    return node.reshaped(tensor, (1, tensor.count, *(1,) * (rank - 2)) if rank > 1 else (tensor.count,))


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
    image = node.converted(X, wide)
    gain, bias, mean, variance = (node.converted(_per_channel(node, each, X.rank), wide) for each in given)
    if not training_mode:
        made = node.batch_normalization(image, mean, variance, gain, bias, spatial=True, epsilon=epsilon)
        return node.tensor(made, X.shape)
    made = node.batch_normalization_training(image, gain, bias, epsilon=epsilon)

    def running(old: Value, new: Value) -> Tensor:
        kept = node.multiply(old, momentum)
        return node.tensor(node.add(kept, node.multiply(new, 1 - momentum)), input_mean.shape)

    return [made.output, running(mean, made.output_mean), running(variance, made.output_variance)]


@exports("batch_normalization", how="BatchNormalization; parameters of other sizes: Sub, Sqrt, Div, Mul, Add")
def _batch(node: Emitter) -> Symbol:
    sizes, fields = node.output.sizes, ("scale", "bias", "mean", "variance")
    by_channel = (1, *sizes[1:2], *(1,) * (len(sizes) - 2))
    if len(sizes) > 1 and all(node.desc(field).sizes == by_channel for field in fields):
        parameters = [node.flat(field, sizes[1]) for field in fields]
        made = node.call("BatchNormalization", node["input"], *parameters, epsilon=node.field("epsilon"))
        return node.activated(made)
    centred = node.wide("input") - node.wide("mean")
    return _finished(node, _divided(node, centred, node.wide("variance")))


def _divided(node: Emitter, centred: Symbol, variance: Symbol) -> Symbol:
    """centred / √(variance + epsilon)"""
    return centred / node.call("Sqrt", variance + node.field("epsilon"))


def _finished(node: Emitter, x: Symbol) -> Symbol:
    """activation(x · scale + bias), without what is left out."""
    x = x if node.field("scale") is None else (x * node.wide("scale"))
    x = x if node.field("bias") is None else (x + node.wide("bias"))
    return node.cast(node.activated(x), node.dtype)


@imports(how="mean_variance_normalization1")
def InstanceNormalization(node: Node, input: Tensor, scale: Tensor, B: Tensor, *, epsilon: float = 1e-5) -> Tensor:
    gain, bias = (_per_channel(node, each, input.rank) for each in (scale, B))
    return _normalized(node, input, list(range(2, input.rank)), gain, bias, epsilon)


def is_wide(x: Tensor, stash_type: int) -> bool:
    """Whether the mean and variance of a float16 are float32: always, unless `stash_type` says that they are not."""
    return x.dtype == np.float16 and stash_type == FLOAT


def widened(node: Node, tensor: Any) -> Value:
    """A tensor or value in float32.  A known tensor is converted now, and costs no dispatch."""
    if isinstance(tensor, Tensor) and tensor.known is not None:
        tensor = Tensor.of(tensor.known.astype(np.float32), name=tensor.name)
    return node.converted(tensor, "float32")


def _normalized(
    node: Node, x: Tensor, axes: list[int], scale: Any, bias: Any, epsilon: float, *, wide: bool = False
) -> Tensor:
    """(x − mean) / √(variance + epsilon) · scale + bias; wide, all of it in float32."""
    if scale is None and bias is not None:
        raise Refusal("a bias needs a scale", code="missing", field="scale")
    given = [each if each is None or not wide else widened(node, each) for each in (x, scale, bias)]
    whole, scale, bias = (each if each is None else node.expanded(each, x.sizes) for each in given)
    fields = {"axes": axes, "normalize_variance": True, "epsilon": epsilon}
    if bias is None and scale is not None:
        made = node.multiply(node.mean_variance_normalization1(whole, **fields), scale)
    else:
        made = node.mean_variance_normalization1(whole, scale, bias, **fields)
    return node.tensor(node.converted(made, node.value(x).dtype), x.shape)


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


@exports(
    "mean_variance_normalization",
    "mean_variance_normalization1",
    "mean_variance_normalization2",
    how="LayerNormalization; other axes: ReduceMean, Sub, Sqrt, Div, Mul, Add",
)
def _mean_variance(node: Emitter) -> Symbol:
    operator: object = node.operator
    axes: tuple[int, ...] = operator.reduced  # type: ignore[attr-defined]
    use_mean, use_variance = operator.uses  # type: ignore[attr-defined]
    layer = _layer(node, axes) if use_mean and use_variance else None
    if layer is not None:
        return node.activated(layer)
    x = node.wide("input")
    if use_mean:
        x = x - emit_reduction(node, "ReduceMean", x, axes)
    if use_variance:
        x = _divided(node, x, emit_reduction(node, "ReduceMean", x * x, axes))
    return _finished(node, x)


def _layer(node: Emitter, axes: tuple[int, ...]) -> Symbol | None:
    """As LayerNormalization, if the axes are the last ones and the scale has their sizes."""
    sizes, rank = node.output.sizes, node.output.rank
    start = rank - len(axes)
    wanted = (*(1,) * start, *sizes[start:])
    present = [node.desc(field) for field in ("scale", "bias") if node.field(field) is not None]
    if not axes or sorted(axes) != list(range(start, rank)) or any(desc.sizes != wanted for desc in present):
        return None
    scale = node.number(np.ones(sizes[start:]), node.dtype) if node.field("scale") is None else None
    scale = node.flat("scale", *sizes[start:]) if scale is None else scale
    bias = None if node.field("bias") is None else node.flat("bias", *sizes[start:])
    return node.call("LayerNormalization", node["input"], scale, bias, axis=start, epsilon=node.field("epsilon"))


@imports(since=23, how="mean_variance_normalization2, multiply")
def RMSNormalization(
    node: Node, X: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = FLOAT
) -> Tensor:
    axes = list(range(at_axis(axis, X.rank), X.rank))
    whole = widened(node, X) if is_wide(X, stash_type) else X
    made = node.mean_variance_normalization2(whole, axes=axes, use_mean=False, use_variance=True, epsilon=epsilon)
    return node.tensor(node.multiply(node.converted(made, node.value(X).dtype), scale), X.shape)


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
    if num_groups < 1 or X.shape[1] % num_groups:
        message = "the channels must be a multiple of the groups"
        raise Refusal(message, code="sizes", field="num_groups", got=num_groups)
    whole = widened(node, X) if is_wide(X, stash_type) else X
    grouped = node.reshaped(whole, (X.shape[0], num_groups, X.count // (X.shape[0] * num_groups)))
    made = node.mean_variance_normalization1(grouped, axes=[2], normalize_variance=True, epsilon=epsilon)
    made = node.converted(made, node.value(X).dtype)
    if scale.count == num_groups and num_groups != X.shape[1]:  # opset 18: a scale for each group
        gain, added = (node.reshaped(each, (1, num_groups, 1)) for each in (scale, bias))
        return node.tensor(node.add(node.multiply(made, gain), added), X.shape)
    gain, added = (_per_channel(node, each, X.rank) for each in (scale, bias))
    return node.tensor(node.add(node.multiply(node.reshaped(made, X.shape), gain), added))


@imports(how="local_response_normalization")
def LRN(node: Node, X: Tensor, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Tensor:
    sizes = (*X.shape[:2], 1, math.prod(X.shape[2:])) if X.rank != 4 else X.shape
    image, fields = node.reshaped(X, sizes), {"alpha": alpha, "beta": beta, "bias": bias}
    made = node.local_response_normalization(image, cross_channel=True, local_size=size, **fields)
    return node.tensor(made, X.shape)


@exports(
    "local_response_normalization",
    how="LRN; others than across an odd number of channels: AveragePool, Mul, Add, Pow, Div",
)
def _local_response(node: Emitter) -> Symbol:
    alpha, beta, bias = (node.field(name) for name in ("alpha", "beta", "bias"))
    if node.field("cross_channel") and node.field("local_size") % 2:
        return node.call("LRN", node["input"], alpha=alpha, beta=beta, bias=bias, size=node.field("local_size"))
    bases = local_bases(node)
    power = node.call("Pow", bases, node.number(beta, bases.dtype))
    return node.cast(node.wide("input") / power, node.dtype)


def local_bases(node: Emitter) -> Symbol:
    """bias + alpha / size · Σ x² over the neighbourhoods."""
    x = node.wide("input")
    factor: float = node.field("alpha") / node.field("local_size")
    return local_sums(node, x * x) * factor + float(node.field("bias"))


def local_sums(node: Emitter, x: Symbol) -> Symbol:
    """Sums over the neighbourhood of each element: averages that count the padding, times their number."""
    size, rank = node.field("local_size"), node.output.rank
    before, after = (size - 1) // 2, size // 2
    if node.field("cross_channel"):  # the channels as rows
        x = node.transpose(x, (0, 2, 1, *range(3, rank)))
        kernel, starts, ends = [size, 1], [before, 0], [after, 0]
    else:
        kernel, starts, ends = [size, size], [before] * 2, [after] * 2
    made = node.call("AveragePool", x, kernel_shape=kernel, pads=[*starts, *ends], count_include_pad=1)
    made = made * float(np.prod(kernel))
    return node.transpose(made, (0, 2, 1, *range(3, rank))) if node.field("cross_channel") else made


@imports(how="lp_normalization; of float16 in float32")
def LpNormalization(node: Node, input: Tensor, *, axis: int = -1, p: int = 2) -> Result:
    x = node.value(input)
    if x.dtype is DataType.FLOAT16:  # in which the sum may overflow, and epsilon is 0
        x = node.converted(x, DataType.FLOAT32)
    made = node.lp_normalization(x, axis=at_axis(axis, input.rank), epsilon=LEAST, p=p)
    return node.tensor(made, input.shape)


MEAN_VARIANCE_EPSILON = 1e-18  # ONNX adds its root to the deviation


@imports(since=9, how="mean_variance_normalization1")
def MeanVarianceNormalization(node: Node, X: Tensor, *, axes: Sequence[int] = (0, 2, 3)) -> Tensor:
    fields = {"axes": sorted(at_axis(axis, X.rank) for axis in axes), "normalize_variance": True}
    return node.tensor(node.mean_variance_normalization1(X, **fields, epsilon=MEAN_VARIANCE_EPSILON))


@exports("batch_normalization_training", how="ReduceMean, Sub, Sqrt, Div, Mul, Add")
def _batch_training(node: Emitter) -> list[Symbol]:
    x, axes = node.wide("input"), parameter_axes(node)
    mean = emit_reduction(node, "ReduceMean", x, axes)
    centred = x - mean
    variance = emit_reduction(node, "ReduceMean", centred * centred, axes)
    made = _divided(node, centred, variance) * node.wide("scale")
    made = made + node.wide("bias")
    made = made if node.field("fused_add") is None else (made + node.wide("fused_add"))
    return [node.cast(each, node.dtype) for each in (node.activated(made), mean, variance)]


def parameter_axes(node: Emitter) -> tuple[int, ...]:
    """The dimensions over which a batch is normalized: those in which the scale has the size 1."""
    return tuple(axis for axis, size in enumerate(node.desc("scale").sizes) if size == 1)


@exports("lp_normalization", how="ReduceL1, ReduceSumSquare, Mul, Add, Sqrt, Div")
def _lp(node: Emitter) -> Symbol:
    x, axes = node["input"], (node.field("axis"),)
    if node.field("p") == 1:
        norm = emit_reduction(node, "ReduceL1", x, axes)
        square = norm * norm
    else:
        square = emit_reduction(node, "ReduceSumSquare", x, axes)
    return _divided(node, x, square)
