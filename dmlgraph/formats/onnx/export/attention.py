"""Attention, as products and a softmax: ONNX's own operator is newer than opset 21."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dmlgraph.formats.onnx.export.emitter import BOOL, INT64, Emitter, Sizes, Symbol
from dmlgraph.formats.onnx.table import exports
from dmlgraph.operators.attention import SOURCES, Attention, Dimensions
from dmlgraph.operators.directml_enums import MultiheadAttentionMaskType as MaskType


@exports("multihead_attention", "multihead_attention1", how="MatMul, Mul, Add, Where, Softmax")
def _attention(node: Emitter) -> list[Symbol]:
    operator = node.operator
    assert isinstance(operator, Attention)
    sizes = operator.dimensions
    query, keys, values = _parts(node, sizes)
    upright = node.transpose(_shared(node, keys, sizes, sizes.head), (0, 1, 3, 2))
    scores = node.call("MatMul", node.line(query, node.field("scale"), 0), upright)
    if node.field("relative_position_bias") is not None:
        scores = node.call("Add", scores, node.flat("relative_position_bias", *sizes.scores))
    if node.field("mask") is not None:
        scores = node.call("Add", scores, _MASKS[node.field("mask_type")](node, sizes))
    if getattr(operator, "past_sequence_lengths", None) is not None:
        least = node.number(-np.inf, scores.dtype)
        scores = node.call("Where", _counted(node, sizes), scores, least, dtype=scores.dtype)
    weights = node.call("Softmax", scores, axis=-1)
    made = node.call("MatMul", weights, _shared(node, values, sizes, sizes.value_head))
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
            made = node.call("Add", made, node.reshape(bias, (shape[1], 1, shape[2])))
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
    return node.call("Where", excluded, value, zero, dtype=node.dtype)


def _by_flags(node: Emitter, _: Dimensions) -> Symbol:
    """1 − mask times the filter value."""
    times = node.cast(node.call("Sub", node.number(1, node["mask"].dtype), node["mask"]), node.dtype)
    none = node.call("Equal", times, node.number(0, node.dtype), dtype=BOOL)
    filled = node.call("Mul", times, node.number(node.field("mask_filter_value"), node.dtype))
    return node.call("Where", none, node.number(0, node.dtype), filled, dtype=node.dtype)


def _keys(node: Emitter, sizes: Dimensions) -> Symbol:
    return node.constant(np.arange(sizes.total), INT64)


def _by_length(node: Emitter, sizes: Dimensions) -> Symbol:
    lengths = node.cast(node.flat("mask", sizes.batch, 1, 1, 1), INT64)
    return _filtered(node, node.call("GreaterOrEqual", _keys(node, sizes), lengths, dtype=BOOL))


def _by_bounds(node: Emitter, sizes: Dimensions) -> Symbol:
    bounds = node.cast(node.flat("mask", 2, sizes.batch, 1, 1, 1), INT64)
    end, start = (node.call("Gather", bounds, node.number(row, INT64), axis=0) for row in (0, 1))
    keys = _keys(node, sizes)
    before = node.call("Less", keys, start, dtype=BOOL)
    return _filtered(node, node.call("Or", before, node.call("GreaterOrEqual", keys, end, dtype=BOOL)))


def _by_segments(node: Emitter, sizes: Dimensions) -> Symbol:
    """Lengths of keys, bounds of queries and of keys, counted through the whole batch."""
    batch = sizes.batch
    numbers = node.cast(node.reshape(node["mask"], (-1,)), INT64)

    def part(start: int) -> Symbol:
        taken = node.call("Slice", numbers, node.ints([start]), node.ints([start + batch]))
        return node.reshape(taken, (batch, 1, 1, 1))

    def inside(places: Symbol, start: Symbol, end: Symbol) -> Symbol:
        after = node.call("LessOrEqual", start, places, dtype=BOOL)
        return node.call("And", after, node.call("Less", places, end, dtype=BOOL))

    sequences = np.arange(batch)[:, None, None, None]
    queries = node.constant(sequences * sizes.queries + np.arange(sizes.queries)[:, None], INT64)
    keys = node.constant(sequences * sizes.total + np.arange(sizes.total), INT64)
    lengths, first = part(0), part(2 * batch + 1)
    of_queries = inside(queries, part(batch), part(batch + 1))
    of_keys = inside(keys, first, node.call("Add", first, lengths))
    return _filtered(node, node.call("Not", node.call("And", of_queries, of_keys)))


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
    valid = node.call("Less", _keys(node, sizes), lengths, dtype=BOOL)
    valid = node.call("And", valid, node.constant(keys < sizes.past))
    return node.call("Or", valid, node.constant(seen))
