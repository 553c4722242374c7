"""Attention whose heads of queries share heads of keys, and rotary positions, of the domain com.microsoft."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from dmlgraph.formats.onnx.attention import as_heads, attend, rotary_table, rotated, seen, side_by_side
from dmlgraph.formats.onnx.microsoft_normalization import normalized
from dmlgraph.formats.onnx.node import Node, Result
from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.formats.onnx.shapes import sliced
from dmlgraph.formats.onnx.table import MICROSOFT, imports
from dmlgraph.formats.onnx.tensors import Array, Tensor
from dmlgraph.graph.value import Value


@imports("RotaryEmbedding", domain=MICROSOFT, how="gather, multiply, add, views")
def _rotary(node: Node) -> Result:
    """Inputs: x {B, S, N · H} or {B, N, S, H}, positions {1} (of the first) or {B, S}, cosines, sines {M, R}.

    ONNX Runtime reads the attributes `scale` and `is_packed_batching` and computes the same whatever they are.
    """
    dml, x, places = node.dml, node[0], node[1]
    width = 2 * node[2].shape[1]
    heads = int(node.attribute("num_heads", 0))
    split = dml.value(x) if x.rank == 4 else as_heads(dml, x, heads or x.shape[2] // width)
    wanted = (split.sizes[0], split.sizes[2])
    if places.shape not in ((1,), wanted):
        got, allowed = list(places.shape), f"[1], {list(wanted)}"
        raise Refusal("has another shape", code="sizes", field="position_ids", got=got, allowed=allowed)
    if places.rank == 1:
        places = _counted(node, places, split.sizes[2])
    cosines, sines = (rotary_table(node, node[index], places) for index in (2, 3))
    made = rotated(dml, split, cosines, sines, interleaved=bool(node.attribute("interleaved", 0)))
    return made if x.rank == 4 else side_by_side(dml, made)


def _counted(node: Node, first: Tensor, count: int) -> Tensor:
    """The positions {1, count} from the first on."""
    steps = np.arange(count, dtype=np.int64)[None]
    if first.known is not None:
        return Tensor.of(steps + first.known.reshape(1, 1))
    return node.tensor(node.dml.add(node.dml.reshaped(first, (1, 1)), Tensor.of(steps)))


@dataclasses.dataclass(slots=True)
class Cache:
    """Where the new keys of each sequence come in the cache.

    Attributes:
        begin: the place of the first new key, int32: {1} if it is the same and known for all sequences, else {B}.
        queries: the number of new keys, S.
        total: of the keys of the longest sequence, T.
        past: the length of the given past.
    """

    begin: Tensor
    queries: int
    total: int
    past: int

    @classmethod
    def of(cls, node: Node, queries: int, past: int) -> Cache:
        total, lengths = int(node.scalar(6)), node[5]
        if not queries <= total <= past + queries:
            allowed = f"{queries} to {past + queries}"
            raise Refusal(
                "does not fit the keys", code="range", field="total_sequence_length", got=total, allowed=allowed
            )
        if queries == total:
            return cls(Tensor.of(np.zeros(1, np.int32)), queries, total, past)
        if lengths.known is None:
            made = node.dml.add(node.dml.reshaped(lengths, (lengths.count,)), 1 - queries)
            return cls(node.tensor(made), queries, total, past)
        known: Array = lengths.known.ravel().astype(np.int32) + (1 - queries)
        if (known < 0).any() or (known + queries > total).any():
            raise Refusal("do not fit the keys", code="range", field="seqlens_k", got=lengths.known.ravel().tolist())
        return cls(Tensor.of(known[:1] if (known == known[0]).all() else known), queries, total, past)

    @property
    def fixed(self) -> int | None:
        """The first new place, if it is the same and known for all sequences."""
        known = self.begin.known
        return int(known[0]) if known is not None and known.size == 1 else None

    def places(self, node: Node) -> Tensor:
        """The positions of the queries: {B or 1, S}, int32."""
        steps = np.arange(self.queries, dtype=np.int32)[None]
        if self.begin.known is not None:
            return Tensor.of(self.begin.known.reshape(-1, 1) + steps)
        return node.tensor(node.dml.add(node.dml.reshaped(self.begin, (self.begin.count, 1)), Tensor.of(steps)))

    def filled(self, node: Node, past: Tensor | None, new: Value) -> Value:
        """Past, then new keys or values, then zeros: {B, M, the longer of past and total, H}."""
        dml, length, begin = node.dml, max(self.past, self.total), self.fixed
        batch, heads, queries, width = new.sizes

        def zeros(count: int) -> Tensor:
            return Tensor.of(np.broadcast_to(np.zeros((), new.dtype.numpy), (batch, heads, count, width)))

        if begin is not None:
            parts: list[Any] = [new]
            if past is not None and begin:
                parts.insert(0, sliced(dml, past, [slice(None), slice(None), slice(begin), slice(None)]))
            if begin + queries < length:
                parts.append(zeros(length - begin - queries))
            made: Value = new if len(parts) == 1 else dml.join(parts, axis=2)
            return made
        pool = dml.join([*([past] if self.past else []), new, zeros(1)], axis=2)
        place = Tensor.of(np.arange(length, dtype=np.int32).reshape(1, 1, length, 1))
        first = dml.reshaped(self.begin, (batch, 1, 1, 1))
        moved = dml.add(dml.subtract(place, first), self.past)
        moved = dml.min(moved, Tensor.of(np.full((1,) * 4, self.past + queries, np.int32)))
        source = dml.if_(dml.logical_less_than(place, first, dtype="uint8"), place, moved)
        whole: Value = dml.gather_elements(pool, dml.expanded(source, (batch, heads, length, width)), axis=2)
        return whole

    def mask(self, node: Node, window: int, like: Value) -> Any:
        """What is added to the scores: keys after the query, and before its window, do not count.

        Queries after the end of a sequence are padding; what they see means nothing.
        """
        places = self.places(node)
        last = node.tensor(places, (places.shape[0], 1, self.queries, 1))
        return seen(node.dml, self.total, last, window, like)

    def ends(self, node: Node, like: Value) -> Any:
        """What is added to the scores: keys after the end of a sequence do not count."""
        lengths = node[5]
        return seen(node.dml, self.total, node.tensor(lengths, (lengths.count, 1, 1, 1)), 0, like)


@imports("GroupQueryAttention", domain=MICROSOFT, how="gemm, activation_softmax1, gather_elements, add, views")
def _grouped(node: Node) -> Result:
    """Inputs: query, key, value, past keys and values {B, M, P, H}, lengths less 1 {B}, the greatest length, …."""
    _check_grouped(node)
    dml = node.dml
    q, k, v = _grouped_heads(node)
    past = [None if each is None or 0 in each.shape else each for each in (node.get(3), node.get(4))]
    cache = Cache.of(node, q.sizes[2], 0 if past[0] is None else past[0].shape[2])
    if node.get(14) is not None:
        q, k = _normalized_heads(node, q, 14, "q"), _normalized_heads(node, k, 15, "k")
    if node.attribute("do_rotary", 0):
        places = _positions(node, cache)
        cosines, sines = (rotary_table(node, node[index], places) for index in (7, 8))
        turn = bool(node.attribute("rotary_interleaved", 0))
        q, k = (rotated(dml, each, cosines, sines, interleaved=turn) for each in (q, k))
    k, v = (cache.filled(node, before, new) for before, new in zip(past, (k, v), strict=True))
    cut = [slice(None), slice(None), slice(cache.total), slice(None)]
    keys, values = (dml.value(sliced(dml, node.tensor(each), cut)) for each in (k, v))
    masks: list[Any] = [] if node.get(10) is None else [node[10]]
    window = max(int(node.attribute("local_window_size", -1)), 0)
    masks.append(cache.mask(node, window, q) if node.attribute("causal", 1) else cache.ends(node, q))
    scale, cap = node.attribute("scale", 0.0) or 1 / math.sqrt(q.sizes[3]), node.attribute("softcap", 0.0)
    made = attend(dml, q, keys, values, scale=scale, added=masks, softcap=cap, sink=_sink(node, q))
    return [side_by_side(dml, made), k, v]


def _normalized_heads(node: Node, x: Value, weight: int, which: str) -> Value:
    """Each head by its root mean square, times a weight {H}."""
    epsilon = node.attribute(f"{which}_norm_epsilon", node.attribute("qk_norm_epsilon", 1e-6))
    made: Value = node.dml.multiply(normalized(node.dml, x, [3], epsilon, centred=False), node[weight])
    return made


_QUANTIZED = ("k_quant_type", "v_quant_type")


def _check_grouped(node: Node) -> None:
    for name in _QUANTIZED:
        if str(node.attribute(name, "NONE")) != "NONE":
            raise node.refuse(name, "NONE")
    for name in ("kv_cache_bit_width", "sliding_window_cache"):
        if node.attribute(name, 0):
            raise node.refuse(name, "0")
    window = int(node.attribute("local_window_size", -1))
    if window != -1 and (window < 1 or not node.attribute("causal", 1)):
        raise node.refuse("local_window_size", "-1; positive numbers with causal 1", window)
    if node.attribute("qk_output", 0) or node.wants(3):
        raise Refusal("the scores are not read", field="outputs", got="output_qk")
    if node.get(16) is not None:
        raise Refusal("chunks of queries with padding have no counterpart", field="query_seqlens")


def _grouped_heads(node: Node) -> tuple[Value, Value, Value]:
    """Queries {B, N, S, H}, keys and values {B, M, S, H}, which may come in one tensor."""
    count, shared = int(node.required("num_heads")), int(node.required("kv_num_heads"))
    x = node[0]
    if node.get(1) is not None:
        q, k, v = (node.dml.value(node[index]) for index in range(3))
    else:
        width = x.shape[2] // (count + 2 * shared)
        if width * (count + 2 * shared) != x.shape[2]:
            raise Refusal("holds no queries, keys and values", code="sizes", field="query", got=list(x.shape))
        q, k, v = node.dml.split(x, axis=2, outputs=[count * width, shared * width, shared * width])
    return as_heads(node.dml, q, count), as_heads(node.dml, k, shared), as_heads(node.dml, v, shared)


def _positions(node: Node, cache: Cache) -> Tensor:
    """The positions of the queries for the tables of cosines, as given or as the lengths say."""
    given = node.get(9)
    if given is None:
        return cache.places(node)
    if cache.queries != cache.total:
        return given
    if given.known is None:  # of a first prompt only the first position counts
        first = sliced(node.dml, given, [slice(1), slice(1)])
        return _counted(node, Tensor(first.dtype, (1,), made=node.dml.reshaped(first, (1,))), cache.queries)
    return _counted(node, Tensor.of(given.known.ravel()[:1]), cache.queries)


def _sink(node: Node, q: Value) -> Any:
    """The score beside those of the keys: one for each head, or 0."""
    given = node.get(11)
    if given is not None:
        return node.dml.reshaped(given, (1, q.sizes[1], 1, 1))
    if node.attribute("smooth_softmax", 0) == 1:
        return Tensor.of(np.zeros((1, 1, 1, 1), q.dtype.numpy))
    return None
