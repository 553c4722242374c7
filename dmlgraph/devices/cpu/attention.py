"""Attention in float32, in blocks of scores that fit into the cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dmlgraph.operators.attention import Dimensions
from dmlgraph.operators.declaration.operator import Array

from .single import finite, product, single

_BLOCK = 1 << 19  # scores that are computed together: 2 MiB

Part = tuple[slice, slice, slice]  # of batch, heads of keys, and queries


def attention(operator: Any, *inputs: Array | None) -> tuple[Array, ...]:
    """softmax(scale · Q · Kᵀ + bias and masks) · V.

    The error of a score is a few units in the last place of its greatest term; that is the relative error of a weight.
    """
    given, sizes = dict(zip(operator.input_fields, inputs, strict=True)), operator.dimensions
    query, keys, values = operator.parts(given, sizes, np.float32)
    group = sizes.query_heads // sizes.key_heads
    by_group = (sizes.batch, sizes.key_heads, group, sizes.queries)
    query = query.reshape(*by_group, sizes.head) * np.float32(operator.scale)
    added = [_by_group(single(each), sizes) for each in operator.added_scores(given, sizes)]
    counted = operator.counted_keys(given, sizes)
    if counted is not None:
        added.append(_by_group(np.where(counted, np.float32(0), -np.inf), sizes))
    attended = np.empty((*by_group, sizes.value_head), np.float32)
    for batch, heads, queries in _parts(sizes):
        block = (batch, heads, slice(None), queries)
        part = (batch, heads, None)
        scores = finite(product(query[block], keys[part].swapaxes(-1, -2)))
        for each in added:
            scores += each[block]
        scores -= scores.max(-1, keepdims=True)
        np.exp(scores, out=scores)
        weighed = product(scores, values[part])
        weighed /= scores.sum(-1, keepdims=True)
        attended[block] = weighed
    finite(attended)
    attended = attended.reshape(sizes.batch, sizes.query_heads, sizes.queries, sizes.value_head)
    outputs: tuple[Array, ...] = operator.outputs(attended.swapaxes(1, 2), keys, values)
    return outputs


def _by_group(scores: Array, sizes: Dimensions) -> Array:
    """An addend of the scores, which broadcasts to {B, heads, S, T}, as {B, key heads, group, S, T}."""
    full = np.broadcast_to(scores, sizes.scores)
    by_group = (sizes.batch, sizes.key_heads, sizes.query_heads // sizes.key_heads, sizes.queries, sizes.total)
    return np.lib.stride_tricks.as_strided(
        full,
        by_group,
        (full.strides[0], full.strides[1] * by_group[2], full.strides[1], *full.strides[2:]),
        writeable=False,
    )


def _parts(sizes: Dimensions) -> Iterator[Part]:
    """Yields parts of at most `_BLOCK` scores: whole heads if they are small, else some queries of one head."""
    group = sizes.query_heads // sizes.key_heads
    scores = group * sizes.queries * sizes.total
    batches = max(1, _BLOCK // (scores * sizes.key_heads))
    heads = max(1, _BLOCK // scores)
    queries = max(1, _BLOCK // (group * sizes.total))
    for batch in range(0, sizes.batch, batches):
        for head in range(0, sizes.key_heads, heads):
            for query in range(0, sizes.queries, queries):
                yield slice(batch, batch + batches), slice(head, head + heads), slice(query, query + queries)
