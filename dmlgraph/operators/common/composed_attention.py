"""Attention as products and a softmax: what its derivative goes through."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from dmlgraph import operators as ops
from dmlgraph.base.tensor import DataType
from dmlgraph.operators.declaration.derivative import Backward, NoDerivativeError, Tensor
from dmlgraph.operators.directml_enums import MultiheadAttentionMaskType

if TYPE_CHECKING:
    from dmlgraph.operators.attention import Attention, Dimensions

Given = Mapping[str, Tensor | None]


def composed(operator: Attention, back: Backward, sources: Mapping[str, Mapping[str, int | None]]) -> list[Tensor]:
    """The outputs, and all keys and values {B, heads, T, …}; `sources`: by role, the fields and places in stacks.

    Raises:
        NoDerivativeError: its mask has a form that is not written.
    """
    given = dict(zip(operator.input_fields, back.inputs, strict=True))
    sizes = operator.dimensions
    heads = (sizes.query_heads, sizes.key_heads, sizes.key_heads)
    parts = []
    start = 0
    for (role, fields), count, hidden in zip(sources.items(), heads, sizes.hidden, strict=True):
        part = _part(given, fields, count)
        bias = given["bias"]
        if bias is not None and part is not None:
            part = part + bias.reshape(-1)[start : start + hidden].reshape(1, count, 1, -1)
        start += hidden
        parts.append(_joined(back, given.get(f"past_{role}"), part))
    query, keys, values = parts
    repeats = sizes.query_heads // sizes.key_heads
    scores = back(ops.Gemm, query, _repeated(keys, repeats), trans_b="transpose", alpha=operator.scale)
    if (bias := given["relative_position_bias"]) is not None:
        scores = scores + bias
    scores = _masked(operator, back, given, sizes, scores)
    weights = back(ops.ActivationSoftmax1, scores, axes=[3])
    attended = back(ops.Gemm, weights, _repeated(values, repeats))
    return [attended.transpose(0, 2, 1, 3), keys, values]


def _part(given: Given, fields: Mapping[str, int | None], heads: int) -> Tensor | None:
    """Queries, keys or values by heads, {B, heads, rows, numbers}; None if there are only past ones."""
    for field, place in fields.items():
        tensor = given[field]
        if tensor is None:
            continue
        if place is None:
            batch, rows, hidden = tensor.sizes[-3:]
            by_head = tensor.reshape(batch, rows, heads, hidden // heads)
        else:
            by_head = tensor.reshape(tensor.sizes[-5:])[:, :, :, place]
        return by_head.transpose(0, 2, 1, 3)
    return None


def _joined(back: Backward, past: Tensor | None, new: Tensor | None) -> Tensor:
    parts = [] if past is None else [past.reshape(past.sizes[-4:])]
    parts += [] if new is None else [new]
    return parts[0] if len(parts) == 1 else back(ops.Join, parts, axis=2)


def _repeated(tensor: Tensor, repeats: int) -> Tensor:
    """Each head of keys or values for all heads of queries that share it."""
    if repeats == 1:
        return tensor
    batch, heads, rows, numbers = tensor.sizes
    copies = tensor.reshape(batch, heads, 1, rows, numbers).broadcast_to(batch, heads, repeats, rows, numbers)
    return copies.reshape(batch, heads * repeats, rows, numbers)


def _masked(operator: Attention, back: Backward, given: Given, sizes: Dimensions, scores: Tensor) -> Tensor:
    """The scores with the filter value added where the mask says so, and keys that do not count left out."""
    mask, lengths = given["mask"], given.get("past_sequence_lengths")
    keys = back.builder.sequence(0, 1, (sizes.total,), DataType.INT32)
    if mask is not None:
        if operator.mask_type is MultiheadAttentionMaskType.BOOLEAN:
            times = 1 - back(ops.Cast, mask, dtype=scores.dtype)
            scores = scores + back.choose(mask < 1, times * operator.mask_filter_value, times * 0)
        elif operator.mask_type in _LEFT_OUT:
            left_out = _LEFT_OUT[operator.mask_type](mask, keys, sizes.batch)
            scores = back.choose(left_out, scores + operator.mask_filter_value, scores)
        else:
            raise NoDerivativeError(f"that of the mask type {operator.mask_type} is not written")
    if lengths is not None:
        new, queries = np.arange(sizes.total) - sizes.past, np.arange(sizes.queries)[:, None]
        seen = (new >= 0) & (new <= queries + sizes.new - sizes.queries)
        past = back.builder.constant((new < 0).astype(np.uint8))
        counts = past & (keys < lengths.reshape(-1, 1, 1, 1))
        counted = back(ops.LogicalOr, counts, back.builder.constant(seen.astype(np.uint8)))
        scores = back.choose(counted, scores, float(np.finfo(scores.dtype.numpy).min))
    return scores


def _after_the_end(mask: Tensor, keys: Tensor, batch: int) -> Tensor:
    return keys >= mask.reshape(batch, 1, 1, 1)


def _outside(mask: Tensor, keys: Tensor, batch: int) -> Tensor:
    bounds = mask.reshape(2, batch, 1, 1, 1)
    return (keys < bounds[1]) | (keys >= bounds[0])


# Which keys the filter value is added to, from the mask and the keys' numbers.
_LEFT_OUT: dict[MultiheadAttentionMaskType, Callable[[Tensor, Tensor, int], Tensor]] = {
    MultiheadAttentionMaskType.KEY_SEQUENCE_LENGTH: _after_the_end,
    MultiheadAttentionMaskType.KEY_SEQUENCE_END_START: _outside,
}
