"""What attention is made of: heads, masks, rotary positions, and itself as gemm, softmax and views.

There are B sequences, N heads of queries and M of keys and values, S queries, T keys.  A head has H numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dmlgraph.formats.onnx.export.emitter import INT64, Emitter, Sizes, Symbol
from dmlgraph.formats.onnx.indexing import Gather
from dmlgraph.formats.onnx.node import Node
from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.formats.onnx.shapes import sliced
from dmlgraph.formats.onnx.table import exports
from dmlgraph.formats.onnx.tensors import Appended, Tensor
from dmlgraph.graph.value import Value
from dmlgraph.operators.attention import SOURCES, Attention, Dimensions
from dmlgraph.operators.directml_enums import MultiheadAttentionMaskType as MaskType


def attend(
    node: Node,
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
        node: adds the nodes.
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
    scores = node.gemm(node.reshaped(q, (*together, q.sizes[3])), k, trans_b="transpose", alpha=scale)
    # Of one query, the product itself adds what is the same for all heads.
    if queries > 1 or sink is not None or any(node.value(each).sizes[-3:-2] != (1,) for each in added):
        scores = node.reshaped(scores, (batch, heads, queries, keys))
    if softcap:
        scores = node.multiply(node.activation_tanh(node.multiply(scores, 1 / softcap)), softcap)
    for each in added:
        scores = node.add(scores, each)
    if sink is not None:
        scores = node.join([scores, node.expanded(sink, (batch, heads, queries, 1))], axis=3)
    weights = node.activation_softmax1(scores, axes=[3])
    if sink is not None:
        weights = node.split(weights, axis=3, outputs=[keys, 1])[0]
    made = node.gemm(node.reshaped(weights, (*together, keys)), v)
    return node.reshaped(made, (batch, heads, queries, v.sizes[3]))


def as_heads(node: Node, x: Any, heads: int) -> Value:
    """{B, S, heads · H} as {B, heads, S, H}."""
    value = node.value(x)
    batch, length, width = value.sizes
    if heads < 1 or width % heads:
        raise Refusal("must be a multiple of the heads", code="sizes", field="num_heads", got=heads, allowed=str(width))
    return node.transposed(node.reshaped(value, (batch, length, heads, width // heads)), [0, 2, 1, 3])


def side_by_side(node: Node, x: Value) -> Value:
    """{B, N, S, V} as {B, S, N · V}."""
    batch, heads, length, width = x.sizes
    return node.reshaped(node.transposed(x, [0, 2, 1, 3]), (batch, length, heads * width))


def extended(node: Node, past: Any, new: Value) -> Value:
    """The new keys or values after the past ones, along dimension 2."""
    if past is None or (isinstance(past, Tensor) and 0 in past.shape):
        return new
    return node.join([past, new], axis=2)


def present(past: Any, new: Value, whole: Value | None, *, counts: bool = False) -> Tensor:
    """Past keys or values and new ones, of which it is known what they are made of.

    Args:
        past, new: the parts.
        whole: all; None where nothing reads it.
        counts: as in `Appended`.
    """
    appended = None if past is None else Appended(past, lambda _: new, 2, counts)
    sizes = new.sizes if whole is None else whole.sizes
    return Tensor(new.dtype.numpy, sizes, made=whole, appended=appended)


# Masks, which are added to scores.


def lowest(x: Value) -> float:
    """The number that no score outweighs."""
    return float(np.finfo(x.dtype.numpy).min)


def where_kept(node: Node, kept: Any, excluded: float, like: Value) -> Value:
    """0 where the mask is true, else a number."""
    zero, number = (Tensor.of(np.full((1,) * 4, each, like.dtype.numpy)) for each in (0, excluded))
    return node.if_(kept, zero, number)


def seen(
    node: Node, keys: int | Tensor, last: Tensor, window: int, like: Value, *, first: Value | None = None
) -> Value:
    """0 for each key up to the last one, and only `window` of them if it is not 0, else the lowest number.

    Args:
        node: adds the nodes.
        keys: how many there are, T; or the place of each one, {B or 1, 1, 1, T}, int32.
        last: {B or 1, 1, S or 1, 1}, int32: the last key that counts.
        window: how many keys count; 0 for all.
        like: has the data type.
        first: the first key that counts, like `last`; None for all.
    """
    places = keys if isinstance(keys, Tensor) else Tensor.of(np.arange(keys, dtype=np.int32).reshape(1, 1, 1, -1))
    kept = node.logical_less_than_or_equal(places, last, dtype="uint8")
    if window:
        near = node.logical_greater_than(places, node.subtract(last, window), dtype="uint8")
        kept = node.logical_and(kept, near)
    if first is not None:
        kept = node.logical_and(kept, node.logical_greater_than_or_equal(places, first, dtype="uint8"))
    return where_kept(node, kept, lowest(like), like)


def causal(node: Node, queries: int, keys: int, like: Value) -> Value:
    """{1, 1, S, T}: the last query sees all keys, the one before it all but the last, and so on."""
    last = np.arange(keys - queries, keys, dtype=np.int32).reshape(1, 1, queries, 1)
    return seen(node, keys, Tensor.of(last), 0, like)


Lengths = tuple[int, int, int]  # B, S and T


def padding(node: Node, mask: Tensor, sizes: Lengths, excluded: float, like: Value) -> Value:
    """A mask of keys as numbers to add, which broadcast to {B, N, S, T}.

    Args:
        node: whose mask it is.
        mask: {B}: where each sequence of keys ends; {2 · B}: the ends, then the starts; {3 · B + 2}: the ends, then
            bounds that belong to sequences without padding; {B, T} or {B, S, T}: 1 for keys that count.
        sizes: B, S and T.
        excluded: for keys that do not count.
        like: has the data type.
    """
    batch, _, keys = sizes
    _check_mask(mask, sizes)
    if mask.rank > 1:
        return where_kept(node, _flags(node, mask, sizes), excluded, like)
    places = Tensor.of(np.arange(keys, dtype=np.int32).reshape(1, 1, 1, keys))
    ends, starts = (
        node.reshaped(sliced(node, mask, [slice(first, first + batch)]), (batch, 1, 1, 1))
        if first < mask.count
        else None
        for first in (0, batch)
    )
    kept = node.logical_less_than(places, ends, dtype="uint8")
    if mask.count == 2 * batch:
        kept = node.logical_and(kept, node.logical_greater_than_or_equal(places, starts, dtype="uint8"))
    return where_kept(node, kept, excluded, like)


def masking(node: Node, mask: Tensor, sizes: Lengths, excluded: float) -> dict[str, Any]:
    """A mask of keys as fields of DirectML's multihead_attention; the arguments are those of `padding`."""
    batch = sizes[0]
    _check_mask(mask, sizes)
    if mask.rank > 1:
        kind, made = "boolean", node.converted(_flags(node, mask, sizes), "int32")
    elif mask.count == 2 * batch:
        kind, made = "key_sequence_end_start", node.reshaped(mask, (2, batch))
    else:
        kind, made = "key_sequence_length", node.reshaped(sliced(node, mask, [slice(batch)]), (1, batch))
    return {"mask": made, "mask_type": kind, "mask_filter_value": excluded}


def _check_mask(mask: Tensor, sizes: Lengths) -> None:
    batch, queries, keys = sizes
    allowed = [(batch,), (2 * batch,), (3 * batch + 2,), (batch, keys), (batch, queries, keys)]
    if mask.shape not in allowed:
        forms = ", ".join(str(list(each)) for each in allowed)
        message = "a mask of this shape has no counterpart"
        raise Refusal(message, code="sizes", field="mask", got=list(mask.shape), allowed=forms)


def _flags(node: Node, mask: Tensor, sizes: Lengths) -> Value:
    """Which keys count: {B, 1, 1 or S, T}, uint8."""
    batch, queries, keys = sizes
    rows = node.reshaped(mask, (batch, 1, 1 if mask.rank == 2 else queries, keys))
    return node.logical_greater_than(rows, 0, dtype="uint8")


# Rotary positions.


def rotary_table(node: Node, table: Tensor, places: Tensor) -> Value:
    """The rows {M, R} of a table of cosines or sines at the places {B or 1, S}, as {B or 1, 1, S, R}."""
    rows = Gather(node, table, places, axis=0)
    return node.reshaped(rows, (places.shape[0], 1, *rows.shape[1:]))


def rotated(node: Node, x: Value, cosines: Value, sines: Value, *, interleaved: bool) -> Value:
    """Pairs of numbers of each head turned by the angle of their position.

    Args:
        node: adds the nodes.
        x: {B, N, S, H}.
        cosines, sines: {B or 1, 1, S, R}; the first 2 · R numbers of a head are turned, the others kept.
        interleaved: a pair is two numbers beside each other; else one of the first R and one of the next R.
    """
    half, width = cosines.sizes[3], x.sizes[3]
    if 2 * half > width:
        raise Refusal("has more numbers than a head", code="sizes", field="cos_cache", got=2 * half, allowed=str(width))
    rest = None
    if 2 * half < width:
        x, rest = node.split(x, axis=3, outputs=[2 * half, width - 2 * half])
    made = _turned(node, x, cosines, sines, axis=4 if interleaved else 3)
    return made if rest is None else node.join([made, rest], axis=3)


def _turned(node: Node, x: Value, cosines: Value, sines: Value, *, axis: int) -> Value:
    """Each pair along an axis, (a, b), becomes (a, b) · cos + (b, a) · (−sin, sin)."""
    half, signs = cosines.sizes[3], np.array([-1, 1], x.dtype.numpy)
    pair, beside = ((2, half), (1, half)) if axis == 3 else ((half, 2), (half, 1))
    pairs = node.tensor(node.reshaped(x, (*x.sizes[:3], *pair)))
    cosines, sines = (node.reshaped(each, (*each.sizes[:3], *beside)) for each in (cosines, sines))
    signed = node.multiply(sines, Tensor.of(signs.reshape([2 if each == axis else 1 for each in range(5)])))
    swapped = sliced(node, pairs, [slice(None, None, -1 if each == axis else None) for each in range(5)])
    made = node.add(node.multiply(pairs, cosines), node.multiply(swapped, signed))
    return node.reshaped(made, x.sizes)


@exports("multihead_attention", "multihead_attention1", how="MatMul, Mul, Add, Where, Softmax")
def _attention(node: Emitter) -> list[Symbol]:
    operator = node.operator
    assert isinstance(operator, Attention)
    sizes = operator.dimensions
    query, keys, values = _parts(node, sizes)
    upright = node.transpose(_shared(node, keys, sizes, sizes.head), (0, 1, 3, 2))
    scores = (query * node.field("scale")) @ upright
    if node.field("relative_position_bias") is not None:
        scores = scores + node.flat("relative_position_bias", *sizes.scores)
    if node.field("mask") is not None:
        scores = scores + _MASKS[node.field("mask_type")](node, sizes)
    if getattr(operator, "past_sequence_lengths", None) is not None:
        least = node.number(-np.inf, scores.dtype)
        scores = node.call("Where", _counted(node, sizes), scores, least)
    weights = node.call("Softmax", scores, axis=-1)
    made = weights @ _shared(node, values, sizes, sizes.value_head)
    made = node.reshape(node.transpose(made, (0, 2, 1, 3)), node.desc("output").sizes)
    given = {"output": made, "output_present_key": keys, "output_present_value": values}
    return [given[field] for field in operator.output_fields if getattr(operator, field) is not None]


def _parts(node: Emitter, sizes: Dimensions) -> list[Symbol]:
    """Queries, keys and values with their biases, past ones first: {B, heads, S or T, D or V}."""
    found, start = [], 0
    rows = (sizes.queries, sizes.new, sizes.new)
    heads = (sizes.query_heads, sizes.key_heads, sizes.key_heads)
    widths = (sizes.head, sizes.head, sizes.value_head)
    for (role, sources), hidden, *shape in zip(SOURCES.items(), sizes.hidden, rows, heads, widths, strict=True):
        made = None
        for field, place in sources.items():
            if node.field(field) is not None:
                made = _by_heads(node, field, place, (sizes.batch, *shape))
        if made is not None and node.field("bias") is not None:
            whole = node.reshape(node["bias"], (-1,))
            bias = node.call("Slice", whole, node.ints([start]), node.ints([start + hidden]))
            made = made + node.reshape(bias, (shape[1], 1, shape[2]))
        past = f"past_{role}"
        if past in node.operator.input_fields and node.field(past) is not None:
            before = node.flat(past, *node.desc(past).sizes[-4:])
            made = before if made is None else node.call("Concat", before, made, axis=2)
        assert made is not None
        found.append(made)
        start += hidden
    return found


def _by_heads(node: Emitter, field: str, place: int | None, shape: Sizes) -> Symbol:
    """A tensor, or a part of a stack, as {B, heads, rows, width}."""
    batch, rows, heads, width = shape
    if place is None:
        x = node.flat(field, batch, rows, heads, width)
    else:
        count = node.desc(field).sizes[-2]
        stack = node.flat(field, batch, rows, heads, count, width)
        x = node.call("Gather", stack, node.number(place, INT64), axis=3)
    return node.transpose(x, (0, 2, 1, 3))


def _shared(node: Emitter, x: Symbol, sizes: Dimensions, width: int) -> Symbol:
    """Keys or values repeated for the query heads that share them."""
    group = sizes.query_heads // sizes.key_heads
    if group == 1:
        return x
    parts = node.reshape(x, (sizes.batch, sizes.key_heads, 1, sizes.total, width))
    spread = node.expand(parts, (sizes.batch, sizes.key_heads, group, sizes.total, width))
    return node.reshape(spread, (sizes.batch, sizes.query_heads, sizes.total, width))


# Masks: what is added to the scores.


def _filtered(node: Emitter, excluded: Symbol) -> Symbol:
    """The filter value where the bools are true, else 0."""
    value, zero = node.number(node.field("mask_filter_value"), node.dtype), node.number(0, node.dtype)
    return node.call("Where", excluded, value, zero)


def _by_flags(node: Emitter, _: Dimensions) -> Symbol:
    """1 − mask times the filter value."""
    times = node.cast(node.number(1, node["mask"].dtype) - node["mask"], node.dtype)
    none = node.call("Equal", times, node.number(0, node.dtype))
    filled = times * node.number(node.field("mask_filter_value"), node.dtype)
    return node.call("Where", none, node.number(0, node.dtype), filled)


def _keys(node: Emitter, sizes: Dimensions) -> Symbol:
    return node.constant(np.arange(sizes.total), INT64)


def _by_length(node: Emitter, sizes: Dimensions) -> Symbol:
    lengths = node.cast(node.flat("mask", sizes.batch, 1, 1, 1), INT64)
    return _filtered(node, _keys(node, sizes) >= lengths)


def _by_bounds(node: Emitter, sizes: Dimensions) -> Symbol:
    bounds = node.cast(node.flat("mask", 2, sizes.batch, 1, 1, 1), INT64)
    end, start = (node.call("Gather", bounds, node.number(row, INT64), axis=0) for row in (0, 1))
    keys = _keys(node, sizes)
    return _filtered(node, (keys < start) | (keys >= end))


def _by_segments(node: Emitter, sizes: Dimensions) -> Symbol:
    """Lengths of keys, bounds of queries and of keys, counted through the whole batch."""
    batch = sizes.batch
    numbers = node.cast(node.reshape(node["mask"], (-1,)), INT64)

    def part(start: int) -> Symbol:
        taken = node.call("Slice", numbers, node.ints([start]), node.ints([start + batch]))
        return node.reshape(taken, (batch, 1, 1, 1))

    def inside(places: Symbol, start: Symbol, end: Symbol) -> Symbol:
        return (start <= places) & (places < end)

    sequences = np.arange(batch)[:, None, None, None]
    queries = node.constant(sequences * sizes.queries + np.arange(sizes.queries)[:, None], INT64)
    keys = node.constant(sequences * sizes.total + np.arange(sizes.total), INT64)
    lengths, first = part(0), part(2 * batch + 1)
    of_queries = inside(queries, part(batch), part(batch + 1))
    of_keys = inside(keys, first, first + lengths)
    return _filtered(node, node.call("Not", of_queries & of_keys))


_MASKS: dict[MaskType, Callable[[Emitter, Dimensions], Symbol]] = {
    MaskType.BOOLEAN: _by_flags,
    MaskType.KEY_SEQUENCE_LENGTH: _by_length,
    MaskType.KEY_SEQUENCE_END_START: _by_bounds,
    MaskType.KEY_QUERY_SEQUENCE_LENGTH_START_END: _by_segments,
}


def _counted(node: Emitter, sizes: Dimensions) -> Symbol:
    """Which keys have a weight: the past ones within the lengths, and the new ones up to the query."""
    lengths = node.cast(node.flat("past_sequence_lengths", sizes.batch, 1, 1, 1), INT64)
    keys, queries = np.arange(sizes.total), np.arange(sizes.queries)[:, None]
    seen = (keys >= sizes.past) & (keys - sizes.past <= queries + sizes.new - sizes.queries)
    valid = _keys(node, sizes) < lengths
    valid = valid & node.constant(keys < sizes.past)
    return valid | node.constant(seen)
