"""What attention is made of: heads, masks, rotary positions, and itself as gemm, softmax and views.

There are B sequences, N heads of queries and M of keys and values, S queries, T keys.  A head has H numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dmlgraph.formats.onnx.indexing import Gather
from dmlgraph.formats.onnx.node import Node
from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.formats.onnx.shapes import sliced
from dmlgraph.formats.onnx.tensors import Calls, Tensor
from dmlgraph.graph.value import Value


def attend(
    dml: Calls,
    q: Value,
    k: Value,
    v: Value,
    *,
    scale: float,
    added: Sequence[Any] = (),
    softcap: float = 0.0,
    sink: Any = None,
) -> Value:
    """softmax(softcap(scale · q · kᵀ) + added…) · v.

    Args:
        dml: adds the nodes.
        q: {B, N, S, H}.
        k, v: {B, M, T, H} and {B, M, T, V}; N is a multiple of M, and consecutive heads of queries share one.
        scale: of the products.
        added: to the scores; each broadcasts to {B, N, S, T}.
        softcap: the scores s become softcap · tanh(s / softcap); 0 leaves them.
        sink: a score beside those of the keys, that broadcasts to {B, N, S, 1}.

    Returns:
        {B, N, S, V}.
    """
    batch, heads, queries, _ = q.sizes
    shared, keys = k.sizes[1], k.sizes[2]
    if heads % shared:
        raise Refusal("the heads of queries must be a multiple of those of keys", code="sizes", got=[heads, shared])
    together = (batch, shared, heads // shared * queries)
    scores = dml.gemm(dml.reshaped(q, (*together, q.sizes[3])), k, trans_b="transpose", alpha=scale)
    scores = dml.reshaped(scores, (batch, heads, queries, keys))
    if softcap:
        scores = dml.multiply(dml.activation_tanh(dml.multiply(scores, 1 / softcap)), softcap)
    for each in added:
        scores = dml.add(scores, each)
    if sink is not None:
        scores = dml.join([scores, dml.expanded(sink, (batch, heads, queries, 1))], axis=3)
    weights = dml.activation_softmax1(scores, axes=[3])
    if sink is not None:
        weights = dml.split(weights, axis=3, outputs=[keys, 1])[0]
    made = dml.gemm(dml.reshaped(weights, (*together, keys)), v)
    return dml.reshaped(made, (batch, heads, queries, v.sizes[3]))


def as_heads(dml: Calls, x: Any, heads: int) -> Value:
    """{B, S, heads · H} as {B, heads, S, H}."""
    value: Value = dml.value(x)
    batch, length, width = value.sizes
    if heads < 1 or width % heads:
        raise Refusal("must be a multiple of the heads", code="sizes", field="num_heads", got=heads, allowed=str(width))
    return dml.transposed(dml.reshaped(value, (batch, length, heads, width // heads)), [0, 2, 1, 3])


def side_by_side(dml: Calls, x: Value) -> Value:
    """{B, N, S, V} as {B, S, N · V}."""
    batch, heads, length, width = x.sizes
    return dml.reshaped(dml.transposed(x, [0, 2, 1, 3]), (batch, length, heads * width))


def extended(dml: Calls, past: Any, new: Value) -> Value:
    """The new keys or values after the past ones, along dimension 2."""
    if past is None or (isinstance(past, Tensor) and 0 in past.shape):
        return new
    made: Value = dml.join([past, new], axis=2)
    return made


# Masks, which are added to scores.


def lowest(x: Value) -> float:
    """The number that no score outweighs."""
    return float(np.finfo(x.dtype.numpy).min)


def where_kept(dml: Calls, kept: Any, excluded: float, like: Value) -> Value:
    """0 where the mask is true, else a number."""
    zero, number = (Tensor.of(np.full((1,) * 4, each, like.dtype.numpy)) for each in (0, excluded))
    made: Value = dml.if_(kept, zero, number)
    return made


def seen(dml: Calls, keys: int, last: Tensor, window: int, like: Value) -> Value:
    """0 for each key up to the last one, and only `window` of them if it is not 0, else the lowest number.

    Args:
        dml: adds the nodes.
        keys: how many there are, T.
        last: {B or 1, 1, S or 1, 1}, int32: the last key that counts.
        window: how many keys count; 0 for all.
        like: has the data type.
    """
    places = Tensor.of(np.arange(keys, dtype=np.int32).reshape(1, 1, 1, -1))
    kept = dml.logical_less_than_or_equal(places, last, dtype="uint8")
    if window:
        near = dml.logical_greater_than(places, dml.subtract(last, window), dtype="uint8")
        kept = dml.logical_and(kept, near)
    return where_kept(dml, kept, lowest(like), like)


def causal(dml: Calls, queries: int, keys: int, like: Value) -> Value:
    """{1, 1, S, T}: the last query sees all keys, the one before it all but the last, and so on."""
    last = np.arange(keys - queries, keys, dtype=np.int32).reshape(1, 1, queries, 1)
    return seen(dml, keys, Tensor.of(last), 0, like)


Sizes = tuple[int, int, int]  # B, S and T


def padding(node: Node, mask: Tensor, sizes: Sizes, excluded: float, like: Value) -> Value:
    """A mask of keys as numbers to add, which broadcast to {B, N, S, T}.

    Args:
        node: whose mask it is.
        mask: {B}: where each sequence of keys ends; {2 · B}: the ends, then the starts; {3 · B + 2}: the ends, then
            bounds that belong to sequences without padding; {B, T} or {B, S, T}: 1 for keys that count.
        sizes: B, S and T.
        excluded: for keys that do not count.
        like: has the data type.
    """
    dml, (batch, _, keys) = node.dml, sizes
    _check_mask(mask, sizes)
    if mask.rank > 1:
        return where_kept(dml, _flags(dml, mask, sizes), excluded, like)
    places = Tensor.of(np.arange(keys, dtype=np.int32).reshape(1, 1, 1, keys))
    ends, starts = (
        dml.reshaped(sliced(dml, mask, [slice(first, first + batch)]), (batch, 1, 1, 1)) if first < mask.count else None
        for first in (0, batch)
    )
    kept = dml.logical_less_than(places, ends, dtype="uint8")
    if mask.count == 2 * batch:
        kept = dml.logical_and(kept, dml.logical_greater_than_or_equal(places, starts, dtype="uint8"))
    return where_kept(dml, kept, excluded, like)


def masking(node: Node, mask: Tensor, sizes: Sizes, excluded: float) -> dict[str, Any]:
    """A mask of keys as fields of DirectML's multihead_attention; the arguments are those of `padding`."""
    dml, batch = node.dml, sizes[0]
    _check_mask(mask, sizes)
    if mask.rank > 1:
        kind, made = "boolean", dml.converted(_flags(dml, mask, sizes), "int32")
    elif mask.count == 2 * batch:
        kind, made = "key_sequence_end_start", dml.reshaped(mask, (2, batch))
    else:
        kind, made = "key_sequence_length", dml.reshaped(sliced(dml, mask, [slice(batch)]), (1, batch))
    return {"mask": made, "mask_type": kind, "mask_filter_value": excluded}


def _check_mask(mask: Tensor, sizes: Sizes) -> None:
    batch, queries, keys = sizes
    allowed = [(batch,), (2 * batch,), (3 * batch + 2,), (batch, keys), (batch, queries, keys)]
    if mask.shape not in allowed:
        forms = ", ".join(str(list(each)) for each in allowed)
        message = "a mask of this shape has no counterpart"
        raise Refusal(message, code="sizes", field="mask", got=list(mask.shape), allowed=forms)


def _flags(dml: Calls, mask: Tensor, sizes: Sizes) -> Value:
    """Which keys count: {B, 1, 1 or S, T}, uint8."""
    batch, queries, keys = sizes
    rows = dml.reshaped(mask, (batch, 1, 1 if mask.rank == 2 else queries, keys))
    made: Value = dml.logical_greater_than(rows, 0, dtype="uint8")
    return made


# Rotary positions.


def rotary_table(node: Node, table: Tensor, places: Tensor) -> Value:
    """The rows {M, R} of a table of cosines or sines at the places {B or 1, S}, as {B or 1, 1, S, R}."""
    rows = Gather(node, table, places, axis=0)
    return node.dml.reshaped(rows, (places.shape[0], 1, *rows.shape[1:]))


def rotated(dml: Calls, x: Value, cosines: Value, sines: Value, *, interleaved: bool) -> Value:
    """Pairs of numbers of each head turned by the angle of their position.

    Args:
        dml: adds the nodes.
        x: {B, N, S, H}.
        cosines, sines: {B or 1, 1, S, R}; the first 2 · R numbers of a head are turned, the others kept.
        interleaved: a pair is two numbers beside each other; else one of the first R and one of the next R.
    """
    half, width = cosines.sizes[3], x.sizes[3]
    if 2 * half > width:
        raise Refusal("has more numbers than a head", code="sizes", field="cos_cache", got=2 * half, allowed=str(width))
    rest = None
    if 2 * half < width:
        x, rest = dml.split(x, axis=3, outputs=[2 * half, width - 2 * half])
    if interleaved:
        pairs = Tensor(x.dtype.numpy, x.sizes, made=x)
        first, second = (
            dml.value(sliced(dml, pairs, [slice(None)] * 3 + [slice(start, None, 2)])) for start in range(2)
        )
    else:
        first, second = dml.split(x, axis=3, outputs=[half, half])
    turned = [
        dml.subtract(dml.multiply(first, cosines), dml.multiply(second, sines)),
        dml.add(dml.multiply(first, sines), dml.multiply(second, cosines)),
    ]
    if interleaved:
        made = dml.join([dml.reshaped(each, (*each.sizes, 1)) for each in turned], axis=4)
        turned = [dml.reshaped(made, x.sizes)]
    parts = turned if rest is None else [*turned, rest]
    whole: Value = parts[0] if len(parts) == 1 else dml.join(parts, axis=3)
    return whole
