"""Attention with heads of keys that heads of queries share, and its cache, of the domain com.microsoft."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dmlgraph.formats.onnx.attention import (
    as_heads,
    attend,
    extended,
    present,
    rotary_table,
    rotated,
    seen,
    side_by_side,
)
from dmlgraph.formats.onnx.microsoft_attention import consecutive
from dmlgraph.formats.onnx.microsoft_normalization import normalized_by_root
from dmlgraph.formats.onnx.node import Maybe, Node, Result
from dmlgraph.formats.onnx.refusals import Refusal, unsupported
from dmlgraph.formats.onnx.shapes import sliced
from dmlgraph.formats.onnx.table import MICROSOFT, imports
from dmlgraph.formats.onnx.tensors import Array, Tensor
from dmlgraph.graph.value import Value

NOT_QUANTIZED, PER_TENSOR, PER_CHANNEL = "NONE", "PER_TENSOR", "PER_CHANNEL"  # how a cache holds numbers


@dataclasses.dataclass(slots=True)
class Cache:
    """Where the new keys of each sequence come in the cache.

    Attributes:
        begin: the place of the first new key, int32: {1} if it is the same and known for all sequences, else {B}.
        lengths: of the sequences, less 1: {B}.
        queries: the number of new keys, S.
        total: of the keys of the longest sequence, T.
        past: the length of the given past.
        padding: how many of the first keys of each sequence do not count, int32 {B}; None for none.
    """

    begin: Tensor
    lengths: Tensor
    queries: int
    total: int
    past: int
    padding: Value | None = None

    @classmethod
    def of(cls, node: Node, lengths: Tensor, total: int, queries: int, past: int) -> Cache:
        if not queries <= total <= past + queries:
            allowed = f"{queries} to {past + queries}"
            field = "total_sequence_length"
            raise Refusal("does not fit the keys", code="range", field=field, got=total, allowed=allowed)
        if queries == total:
            return cls(Tensor.of(np.zeros(1, np.int32)), lengths, queries, total, past)
        if lengths.known is None:
            made = node.add(node.reshaped(lengths, (lengths.count,)), 1 - queries)
            return cls(node.tensor(made), lengths, queries, total, past)
        known: Array = lengths.known.ravel().astype(np.int32) + (1 - queries)
        if (known < 0).any() or (known + queries > total).any():
            raise Refusal("do not fit the keys", code="range", field="seqlens_k", got=lengths.known.ravel().tolist())
        return cls(Tensor.of(known[:1] if (known == known[0]).all() else known), lengths, queries, total, past)

    @property
    def fixed(self) -> int | None:
        """The first new place, if it is the same and known for all sequences."""
        known = self.begin.known
        return int(known[0]) if known is not None and known.size == 1 else None

    def positions(self, node: Node) -> Tensor:
        """The positions of the queries, counted from the first key that is not padding: {B or 1, S}, int32."""
        places = self.places(node)
        if self.padding is None:
            return places
        zero = Tensor.of(np.zeros((1, 1), np.int32))
        counted = node.subtract(places, node.reshaped(self.padding, (self.padding.sizes[0], 1)))
        return node.tensor(node.max(counted, zero))

    def first(self, node: Node, last: Tensor) -> Value | None:
        """The first key that counts for each query: {B, 1, S or 1, 1}; None for all.  Padding sees itself."""
        if self.padding is None:
            return None
        return node.min(node.reshaped(self.padding, (self.padding.sizes[0], 1, 1, 1)), last)

    def places(self, node: Node) -> Tensor:
        """The places of the queries in the cache: {B or 1, S}, int32."""
        steps = np.arange(self.queries, dtype=np.int32)[None]
        if self.begin.known is not None:
            return Tensor.of(self.begin.known.reshape(-1, 1) + steps)
        return node.tensor(node.add(node.reshaped(self.begin, (self.begin.count, 1)), Tensor.of(steps)))

    def filled(self, node: Node, past: Tensor | None, new: Value) -> Value:
        """Past, then new keys or values, then zeros: {B, M, the longer of past and total, H}."""
        length, begin = max(self.past, self.total), self.fixed
        batch, heads, queries, width = new.sizes

        def zeros(count: int) -> Tensor:
            return Tensor.of(np.broadcast_to(np.zeros((), new.dtype.numpy), (batch, heads, count, width)))

        if begin is not None:
            parts: list[Any] = [new]
            if past is not None and begin:
                parts.insert(0, sliced(node, past, [slice(None), slice(None), slice(begin), slice(None)]))
            if begin + queries < length:
                parts.append(zeros(length - begin - queries))
            return new if len(parts) == 1 else node.join(parts, axis=2)
        pool = node.join([*([past] if self.past else []), new, zeros(1)], axis=2)
        place = Tensor.of(np.arange(length, dtype=np.int32).reshape(1, 1, length, 1))
        first = node.reshaped(self.begin, (batch, 1, 1, 1))
        moved = node.add(node.subtract(place, first), self.past)
        moved = node.min(moved, Tensor.of(np.full((1,) * 4, self.past + queries, np.int32)))
        source = node.if_(node.logical_less_than(place, first, dtype="uint8"), place, moved)
        return node.gather_elements(pool, node.expanded(source, (batch, heads, length, width)), axis=2)

    def last(self, node: Node, window: int, *, causal: bool) -> tuple[Tensor, int]:
        """The last key that counts for each query, and how many do: {B or 1, 1, S or 1, 1}, and 0 for all.

        Keys after the query, and before its window, do not count, or keys after the end of a sequence.  Queries after
        the end are padding; what they see means nothing.
        """
        if not causal:
            return node.tensor(self.lengths, (self.lengths.count, 1, 1, 1)), 0
        queries = self.places(node)
        return node.tensor(queries, (queries.shape[0], 1, self.queries, 1)), max(window, 0)

    def beside(self, node: Node, past: Tensor | None, new: Value) -> Value:
        """All past keys or values, also those that do not count, and then the new ones: nothing is moved."""
        assert past is not None
        before = sliced(node, past, [slice(None), slice(None), slice(self.total), slice(None)])
        return extended(node, before, new)

    def places_beside(self, node: Node, past: int) -> Tensor:
        """The place of each key of `beside`, and beyond all places where it does not count: {B, 1, 1, T}, int32."""
        before = Tensor.of(np.arange(past, dtype=np.int32).reshape(1, 1, 1, past))
        begin = node.reshaped(self.begin, (self.begin.count, 1, 1, 1))
        beyond = Tensor.of(np.full((1,) * 4, np.iinfo(np.int32).max, np.int32))
        counts = node.logical_less_than(before, begin, dtype="uint8")
        kept = node.if_(counts, before, beyond)
        places = node.tensor(self.places(node), (self.begin.count, 1, 1, self.queries))
        return node.tensor(node.join([kept, places], axis=3))


@imports(
    domain=MICROSOFT,
    how="gemm, activation_softmax1, gather_elements, add, views; caches of 8 bits: quantize_linear, dequantize_linear",
)
def GroupQueryAttention(
    node: Node,
    query: Tensor,
    key: Maybe,
    value: Maybe,
    past_key: Maybe,
    past_value: Maybe,
    seqlens_k: Tensor,
    total_sequence_length: Tensor,
    cos_cache: Maybe = None,
    sin_cache: Maybe = None,
    position_ids: Maybe = None,
    attention_bias: Maybe = None,
    head_sink: Maybe = None,
    k_scale: Maybe = None,
    v_scale: Maybe = None,
    q_norm_weight: Maybe = None,
    k_norm_weight: Maybe = None,
    query_seqlens: Maybe = None,
    *,
    num_heads: int,
    kv_num_heads: int,
    causal: int = 1,
    do_rotary: int = 0,
    k_norm_epsilon: float | None = None,
    local_window_size: int = -1,
    q_norm_epsilon: float | None = None,
    qk_norm_epsilon: float = 1e-6,
    rotary_interleaved: int = 0,
    scale: float = 0.0,
    smooth_softmax: int = 0,
    softcap: float = 0.0,
    **others: Any,
) -> Result:
    """The past keys and values are {B, M, P, H}, the lengths are those of the keys less 1, {B}."""
    kinds = _check_grouped(is_state=node.appends >= {1, 2}, **others)
    if local_window_size != -1 and (local_window_size < 1 or not causal):
        raise unsupported("local_window_size", "-1; positive numbers with causal 1", local_window_size)
    if others.get("qk_output", 0) or node.wants(3):
        raise Refusal("the scores are not read", field="outputs", got="output_qk")
    if query_seqlens is not None:
        raise Refusal("chunks of queries with padding have no counterpart", field="query_seqlens")
    turned, v = _grouped_heads(node, query, key, value, num_heads, kv_num_heads)
    if q_norm_weight is not None and len(turned) == 1:
        turned = [*_cut(node, turned[0], num_heads)]
    past = [None if each is None or 0 in each.shape else each for each in (past_key, past_value)]
    longest = int(node.scalar(total_sequence_length))
    cache = Cache.of(node, seqlens_k, longest, v.sizes[2], 0 if past[0] is None else past[0].shape[2])
    if node.padded_rows is not None and node.appends >= {1, 2}:
        cache.padding = node.converted(node.padded_rows, "int32")
    if q_norm_weight is not None:
        epsilons = [qk_norm_epsilon if each is None else each for each in (q_norm_epsilon, k_norm_epsilon)]
        weights = (q_norm_weight, node.there(15, k_norm_weight))
        turned = [_normalized_heads(node, *each) for each in zip(turned, weights, epsilons, strict=True)]
    if do_rotary:
        positions = _positions(node, cache, position_ids)
        tables = (node.there(at, each) for at, each in ((7, cos_cache), (8, sin_cache)))
        cosines, sines = (rotary_table(node, each, positions) for each in tables)
        turn = bool(rotary_interleaved)
        turned = [rotated(node, each, cosines, sines, interleaved=turn) for each in turned]
    q, k = turned if len(turned) == 2 else _cut(node, turned[0], num_heads)
    masks: list[Any] = [] if attention_bias is None else [attention_bias]
    several = zip((12, 13), kinds, (k_scale, v_scale), past, (k, v), strict=True)
    steps = [_Steps.of(node, *each) for each in several]
    k, v = (each.quantized(node, x) for each, x in zip(steps, (k, v), strict=True))
    held, places, whole = _cached(node, cache, past, (k, v), in_place=attention_bias is not None)
    keys, values = (each.dequantized(node, x) for each, x in zip(steps, held, strict=True))
    last, window = cache.last(node, local_window_size, causal=bool(causal))
    masks.append(seen(node, places, last, window, q, first=cache.first(node, last)))
    factor, sink = scale or 1 / math.sqrt(q.sizes[3]), _sink(node, q, head_sink, smooth_softmax)
    made = attend(node, q, keys, values, scale=factor, added=masks, softcap=softcap, sink=sink)
    # With new keys at a known place the model is for one length, unless it is for none.
    pasts = past if cache.begin.known is None or cache.fixed == 0 else (None, None)
    presents = [present(*each, counts=True) for each in zip(pasts, (k, v), whole, strict=True)]
    return [side_by_side(node, made), *presents]


def _cached(
    node: Node, cache: Cache, past: list[Maybe], new: tuple[Value, Value], *, in_place: bool
) -> tuple[tuple[Value, Value], int | Tensor, Sequence[Value | None]]:
    """Keys and values of the past and new ones, their places, and buffers with both, or None where nothing reads them.

    With `in_place` each key is at its place.
    """
    nothing = (None, None)
    if node.appends >= {1, 2} and not in_place:
        if cache.begin.known is None:
            keys, values = (cache.beside(node, *each) for each in zip(past, new, strict=True))
            return (keys, values), cache.places_beside(node, keys.sizes[2] - cache.queries), nothing
        if cache.fixed == 0:
            return new, cache.queries, nothing
    whole = [cache.filled(node, *each) for each in zip(past, new, strict=True)]
    cut = [slice(None), slice(None), slice(cache.total), slice(None)]
    keys, values = (node.value(sliced(node, node.tensor(each), cut)) for each in whole)
    return (keys, values), cache.total, whole


@dataclasses.dataclass(frozen=True, slots=True)
class _Steps:
    """How a cache holds numbers: as they are, or as multiples of a scale, int8.

    Attributes:
        scale: {1, 1, 1, 1}, or {1, M, 1, H}, of channels; None for numbers as they are.
    """

    scale: Tensor | None

    @classmethod
    def of(cls, node: Node, at: int, kind: str, scale: Maybe, past: Maybe, new: Value) -> _Steps:
        """How a cache of keys or values like the new ones {B, M, S, H} is held; `at` is the place of the scale."""
        if kind == NOT_QUANTIZED:
            return cls(None)
        given, (_, heads, _, width) = node.there(at, scale), new.sizes
        if past is not None and past.dtype != np.int8:
            raise Refusal("a quantized cache has 8 bits", code="dtype", got=str(past.dtype), allowed="int8")
        sizes = (1, 1, 1, 1) if kind == PER_TENSOR else (1, heads, 1, width)
        if given.count != math.prod(sizes):
            allowed = f"{math.prod(sizes)} numbers"
            raise Refusal(
                "does not fit the cache", code="sizes", field=f"input {at}", got=[*given.shape], allowed=allowed
            )
        return cls(node.tensor(node.reshaped(given, sizes)))

    def quantized(self, node: Node, x: Value) -> Value:
        """New keys or values as the cache holds them."""
        if self.scale is None:
            return x
        return node.quantize_linear(x, node.expanded(self.scale, x.sizes), dtype="int8")

    def dequantized(self, node: Node, x: Value) -> Value:
        """What the cache holds, as floats."""
        return x if self.scale is None else node.dequantize_linear(x, node.expanded(self.scale, x.sizes))


def _normalized_heads(node: Node, x: Value, weight: Tensor, epsilon: float) -> Value:
    """Each head by its root mean square, times a weight {H}."""
    return normalized_by_root(node, x, [3], epsilon, weight)


def _check_grouped(
    *,
    is_state: bool,
    k_quant_type: str = "NONE",
    kv_cache_bit_width: int = 0,
    qk_output: int = 0,
    sliding_window_cache: int = 0,
    v_quant_type: str = "NONE",
) -> tuple[str, str]:
    """The kinds in which keys and values are held."""
    for name, kind in (("k_quant_type", k_quant_type), ("v_quant_type", v_quant_type)):
        if kind not in (NOT_QUANTIZED, PER_TENSOR, PER_CHANNEL):
            raise unsupported(name, f"{NOT_QUANTIZED}, {PER_TENSOR} or {PER_CHANNEL}", kind)
    if kv_cache_bit_width not in (0, 8):
        raise unsupported("kv_cache_bit_width", "0 or 8", kv_cache_bit_width)
    if sliding_window_cache and not is_state:  # a state has all rows, of which those of the window count
        raise unsupported("sliding_window_cache", "0; any where the past is a growing state", sliding_window_cache)
    return k_quant_type, v_quant_type


def _grouped_heads(
    node: Node, query: Tensor, key: Maybe, value: Maybe, count: int, shared: int
) -> tuple[list[Value], Value]:
    """Queries {B, N, S, H} and keys {B, M, S, H}, or both {B, N + M, S, H} if they come in one tensor; and values."""
    if key is not None:
        q, k, v = (node.value(node.there(at, each)) for at, each in enumerate((query, key, value)))
        return [as_heads(node, q, count), as_heads(node, k, shared)], as_heads(node, v, shared)
    width = query.shape[2] // (count + 2 * shared)
    if width * (count + 2 * shared) != query.shape[2]:
        raise Refusal("holds no queries, keys and values", code="sizes", field="query", got=list(query.shape))
    both, v = _cut(node, as_heads(node, query, count + 2 * shared), count + shared)
    return [both], v


def _cut(node: Node, x: Value, count: int) -> tuple[Value, Value]:
    """The first heads, so many, and the others."""
    heads = node.tensor(x)
    first, rest = (
        node.value(sliced(node, heads, [slice(None), each, slice(None), slice(None)]))
        for each in (slice(count), slice(count, None))
    )
    return first, rest


def _positions(node: Node, cache: Cache, given: Maybe) -> Tensor:
    """The positions of the queries for the tables of cosines, as given or as the lengths say."""
    if given is None:
        return cache.positions(node)
    if 0 in given.shape:
        got = [*given.shape]
        raise Refusal(
            "a tensor without elements has no counterpart", code="empty-tensor", field="position_ids", got=got
        )
    if cache.queries != cache.total:
        return given
    if given.known is None:  # of a first prompt only the first position counts
        first = sliced(node, given, [slice(1), slice(1)])
        return consecutive(node, Tensor(first.dtype, (1,), made=node.reshaped(first, (1,))), cache.queries)
    return consecutive(node, Tensor.of(given.known.ravel()[:1]), cache.queries)


def _sink(node: Node, q: Value, given: Maybe, smooth: int) -> Any:
    """The score beside those of the keys: one for each head, or 0."""
    if given is not None:
        return node.reshaped(given, (1, q.sizes[1], 1, 1))
    return Tensor.of(np.zeros((1, 1, 1, 1), q.dtype.numpy)) if smooth == 1 else None
