"""Losses: how far what a graph computes is from what it should, as one number that is made small.

    loss = dg.losses.softmax_cross_entropy(logits, labels)

Each is computed so that numbers of ±10,000 do not overflow.  `reduction` says what becomes of the losses of the
examples: their "mean", their "sum", both of sizes [1], or "none" for all of them.
"""

from __future__ import annotations

import math
from typing import Literal

from dmlgraph import operators as ops
from dmlgraph.base.errors import GraphError, listing
from dmlgraph.graph.calls import apply
from dmlgraph.graph.value import Value

Reduction = Literal["mean", "sum", "none"]
_REDUCTIONS = ("mean", "sum", "none")


def softmax_cross_entropy(
    logits: Value,
    labels: Value,
    *,
    axis: int = -1,
    label_smoothing: float = 0.0,
    ignore_index: int | None = None,
    reduction: Reduction = "mean",
) -> Value:
    """−Σ target · ln softmax(logits) along an axis.

    Args:
        logits: numbers whose softmax is the predicted distribution.
        labels: integers: the index of each example's class, with the logits' sizes without the axis, or with size 1
            there.  Floats: a distribution over the classes, such as a one-hot row, with the logits' sizes.
        axis: that of the classes.
        label_smoothing: the share of each target that is spread evenly over the classes.
        ignore_index: the label of examples that do not count; the mean is over the others.
        reduction: see the module.

    Raises:
        GraphError: the sizes or data types do not fit, or a number is out of its range.
    """
    _check_float("logits", logits)
    axis = checked_axis(axis, logits)
    _check_share(label_smoothing)
    logs = apply(ops.ActivationLogSoftmax1, logits, axes=[axis])
    classes = logits.sizes[axis]
    if labels.dtype.is_float:
        if ignore_index is not None:
            raise _wrong("ignore_index", "needs labels that are indices", ignore_index, "conflict")
        _check_alike("labels", labels, logits)
        counted, losses = None, -_sum(labels * logs, axis)
    else:
        labels = _indices(labels, logits, axis)
        counted = None if ignore_index is None else labels != ignore_index
        chosen = labels if labels.dtype.is_signed else apply(ops.Cast, labels, dtype="int32")
        places = logits.graph.fill_value_sequence(
            sizes=[classes if each == axis else 1 for each in range(logits.rank)],
            dtype=chosen.dtype,
            value_start=0,
            value_delta=1,
        )
        losses = -_sum(apply(ops.If, chosen == places, logs, 0), axis)
    if label_smoothing:
        losses = losses * (1 - label_smoothing) - _sum(logs, axis) * (label_smoothing / classes)
    return _reduced(losses if counted is None else apply(ops.If, counted, losses, 0), reduction, counted)


def kl_divergence(logits: Value, target_logits: Value, *, axis: int = -1, reduction: Reduction = "mean") -> Value:
    """Σ p · ln(p / q) along an axis, for p = softmax(target_logits) and q = softmax(logits).

    The mean is over the distributions.

    Raises:
        GraphError: the sizes or data types do not fit.
    """
    _check_float("logits", logits)
    _check_alike("target_logits", target_logits, logits)
    axis = checked_axis(axis, logits)
    predicted, wanted = (apply(ops.ActivationLogSoftmax1, each, axes=[axis]) for each in (logits, target_logits))
    return _reduced(_sum(apply(ops.Exp, wanted) * (wanted - predicted), axis), reduction)


def binary_cross_entropy(logits: Value, targets: Value, *, reduction: Reduction = "mean") -> Value:
    """−t · ln σ(x) − (1 − t) · ln(1 − σ(x)) for logits x and targets t from 0 to 1, element by element.

    Raises:
        GraphError: the sizes or data types do not fit.
    """
    _check_float("logits", logits)
    _check_alike("targets", targets, logits)
    # max(x, 0) has the slope ½ at 0, and |x| has 0: so the sum has that of the loss everywhere.
    rest = apply(ops.ActivationSoftplus, -abs(logits))
    return _reduced(apply(ops.Max, logits, 0) - logits * targets + rest, reduction)


def mean_squared_error(predictions: Value, targets: Value, *, reduction: Reduction = "mean") -> Value:
    """(prediction − target)², element by element.

    Raises:
        GraphError: the sizes or data types do not fit.
    """
    _check_float("predictions", predictions)
    _check_alike("targets", targets, predictions)
    return _reduced(apply(ops.DifferenceSquare, predictions, targets), reduction)


def mean_absolute_error(predictions: Value, targets: Value, *, reduction: Reduction = "mean") -> Value:
    """|prediction − target|, element by element.

    Raises:
        GraphError: the sizes or data types do not fit.
    """
    _check_float("predictions", predictions)
    _check_alike("targets", targets, predictions)
    return _reduced(abs(predictions - targets), reduction)


def huber(predictions: Value, targets: Value, *, delta: float = 1.0, reduction: Reduction = "mean") -> Value:
    """½ d² for errors d = |prediction − target| up to delta, and delta · (d − ½ delta) above.

    Raises:
        GraphError: the sizes or data types do not fit, or delta is not above 0.
    """
    _check_float("predictions", predictions)
    _check_alike("targets", targets, predictions)
    if isinstance(delta, bool) or not isinstance(delta, (int, float)) or not 0 < delta < math.inf:
        raise _wrong("delta", "is not a bound", delta, "range", "a number above 0")
    error = abs(predictions - targets)
    near = apply(ops.Min, error, delta)
    return _reduced(near * (error - near * 0.5), reduction)


def _reduced(losses: Value, reduction: str, counted: Value | None = None) -> Value:
    """The losses reduced; the mean leaves out those that do not count."""
    if reduction not in _REDUCTIONS:
        raise _wrong("reduction", "is not a reduction", reduction, "unknown-name", listing(_REDUCTIONS))
    if reduction == "none":
        return losses
    if reduction == "mean" and counted is None:
        return apply(ops.Reduce, losses, function="average").reshape(1)
    total = apply(ops.Reduce, losses, function="sum").reshape(1)
    if reduction == "sum" or counted is None:
        return total
    count = apply(ops.Reduce, apply(ops.Cast, counted, dtype=losses.dtype), function="sum").reshape(1)
    return total / apply(ops.Max, count, 1)


def _sum(x: Value, axis: int) -> Value:
    return apply(ops.Reduce, x, function="sum", axes=[axis])


def _indices(labels: Value, logits: Value, axis: int) -> Value:
    """Labels with size 1 along the axis."""
    kept = tuple(1 if each == axis else size for each, size in enumerate(logits.sizes))
    without = logits.sizes[:axis] + logits.sizes[axis + 1 :]
    if labels.sizes not in (kept, without):
        allowed = f"{list(without)} for indices, {list(logits.sizes)} for distributions, which are floats"
        raise _wrong("labels", "do not fit the logits", f"{labels.dtype} {list(labels.sizes)}", "sizes", allowed)
    return labels if labels.sizes == kept else labels.reshape(kept)


def checked_axis(axis: int, logits: Value) -> int:
    """An axis of logits, counted from the first.

    Raises:
        GraphError: they have no such axis.
    """
    rank = logits.rank
    if isinstance(axis, bool) or not isinstance(axis, int) or not -rank <= axis < rank:
        raise _wrong("axis", "is not an axis", axis, "range", f"{-rank} to {rank - 1}")
    return axis % rank


def _check_share(share: float) -> None:
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share < 1:
        raise _wrong("label_smoothing", "is not a share", share, "range", "0 to less than 1")


def _check_float(field: str, value: Value) -> None:
    if not isinstance(value, Value):
        raise _wrong(field, "is not a value of a graph", value, "not-a-value")
    if not value.dtype.is_float:
        raise _wrong(field, "must be floats", str(value.dtype), "dtype")


def _check_alike(field: str, value: Value, other: Value) -> None:
    """Refuses what would broadcast: a loss of [N, 1] and [N] is a mistake."""
    if not isinstance(value, Value):
        raise _wrong(field, "is not a value of a graph", value, "not-a-value")
    if (value.dtype, value.sizes) != (other.dtype, other.sizes):
        code = "dtype" if value.dtype is not other.dtype else "sizes"
        got, allowed = (f"{each.dtype} {list(each.sizes)}" for each in (value, other))
        raise _wrong(field, "must have the data type and sizes of the predictions", got, code, allowed)


def _wrong(field: str, message: str, got: object, code: str, allowed: str | None = None) -> GraphError:
    return GraphError(message, code=code, field=field, got=got, allowed=allowed)
