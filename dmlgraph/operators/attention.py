"""Attention of many heads: every query weights the values by how well their keys fit it.

There are B sequences, S queries, K new keys after P past ones, T = P + K.  A head has D numbers in queries and keys,
and V in values.  Everything is computed in float64 and rounded once.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from dmlgraph.base.errors import OperatorError, Problem, listing, shorten
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.operators.common import composed_attention
from dmlgraph.operators.common.numerics import convert
from dmlgraph.operators.common.scales import with_rank
from dmlgraph.operators.declaration.constraints import (
    at_least,
    determined,
    is_given,
    multiple_of,
    rank_at_least,
    require,
    rule,
    sizes_hold,
)
from dmlgraph.operators.declaration.derivative import Backward, Tensor, by_composition
from dmlgraph.operators.declaration.fields import AskedOutput, Float, NumberType, OptionalInput, Output, UInt, inferred
from dmlgraph.operators.declaration.operator import Array, Operator
from dmlgraph.operators.declaration.outputs import Given, Outcome
from dmlgraph.operators.directml_enums import MultiheadAttentionMaskType
from dmlgraph.operators.matrix import broadcast_field

# Where queries, keys and values may come from: field → index in the stack, or None in a separate tensor.
SOURCES: dict[str, dict[str, int | None]] = {
    "query": {"query": None, "stacked_query_key": 0, "stacked_query_key_value": 0},
    "key": {"key": None, "stacked_query_key": 1, "stacked_key_value": 0, "stacked_query_key_value": 1},
    "value": {"value": None, "stacked_key_value": 1, "stacked_query_key_value": 2},
}
_STACKED = {"stacked_query_key": 2, "stacked_key_value": 2, "stacked_query_key_value": 3}
# How many dimensions a tensor has, not counting leading dimensions of size 1.
_RANKS = {
    **dict.fromkeys(("query", "key", "value"), 3),
    **dict.fromkeys(_STACKED, 5),
    **dict.fromkeys(("relative_position_bias", "past_key", "past_value"), 4),
    **dict.fromkeys(("bias", "past_sequence_lengths"), 1),
}

Descs = Mapping[str, TensorDesc | None]
Arrays = Mapping[str, Array | None]


@dataclasses.dataclass(frozen=True, slots=True)
class Dimensions:
    """The sizes of which all tensors' sizes consist."""

    batch: int
    queries: int
    new: int  # keys and values that are not past; 0 if there are only past ones
    past: int
    query_heads: int
    key_heads: int
    head: int
    value_head: int

    @classmethod
    def of(cls, descs: Descs, query_heads: int, key_heads: int) -> Dimensions:
        """From the descriptions of the inputs, which have all their dimensions and come from one source each.

        Raises:
            OperatorError: the tensors do not determine the sizes.
        """
        require(at_least("query_head_count", query_heads))
        require(at_least("key_value_head_count", key_heads))
        query, key, value = _source(descs, "query"), _new_source(descs, "key"), _new_source(descs, "value")
        past_key, past_value = descs.get("past_key"), descs.get("past_value")
        for field, past in (("past_key", past_key), ("past_value", past_value)):
            require(rank_at_least(field, past, _RANKS[field]))
        batch, queries = _rows(query)
        return cls(
            batch=batch,
            queries=queries,
            new=0 if key is None else _rows(key)[1],
            past=0 if past_key is None else past_key.sizes[-2],
            query_heads=query_heads,
            key_heads=key_heads,
            head=_head(query, query_heads),
            value_head=_head(value, key_heads) if value is not None else past_value.sizes[-1] if past_value else 0,
        )

    @property
    def total(self) -> int:
        return self.past + self.new

    @property
    def scores(self) -> tuple[int, ...]:
        """{B, heads, S, T}"""
        return self.batch, self.query_heads, self.queries, self.total

    def sizes(self, field: str) -> tuple[int, ...] | None:
        """The required last sizes of an input; None for the mask, whose sizes depend on its type."""
        return {
            "query": (self.batch, self.queries, self.query_heads * self.head),
            "key": (self.batch, self.new, self.key_heads * self.head),
            "value": (self.batch, self.new, self.key_heads * self.value_head),
            "stacked_query_key": (self.batch, self.queries, self.query_heads, 2, self.head),
            "stacked_key_value": (self.batch, self.new, self.key_heads, 2, self.head),
            "stacked_query_key_value": (self.batch, self.queries, self.query_heads, 3, self.head),
            "bias": (sum(self.hidden),),
            "relative_position_bias": self.scores,
            "past_key": (self.batch, self.key_heads, self.past, self.head),
            "past_value": (self.batch, self.key_heads, self.past, self.value_head),
            "past_sequence_lengths": (self.batch,),
        }.get(field)

    @property
    def hidden(self) -> tuple[int, int, int]:
        """How many numbers a query, a key and a value have in all heads: the parts of the bias."""
        return self.query_heads * self.head, self.key_heads * self.head, self.key_heads * self.value_head


Found = tuple[str, TensorDesc]  # a source and its description


def _source(descs: Descs, role: str) -> Found:
    """Where queries, keys or values come from; OperatorError if no tensor gives them, or two do."""
    present = [(field, desc) for field in SOURCES[role] if (desc := descs.get(field)) is not None]
    if not present:
        raise OperatorError("must be given, by itself or stacked with others", code="missing", field=role)
    (field, desc), *more = present
    if more:
        message, hint = f"gives the {role} a second time", f"'{field}' gives it, too"
        raise OperatorError(message, code="duplicate", field=more[0][0], hint=hint)
    require(rank_at_least(field, desc, _RANKS[field]))
    return field, desc


def _new_source(descs: Descs, role: str) -> Found | None:
    """Where keys or values come from; None if there are only past ones."""
    only_past = descs.get(f"past_{role}") is not None and all(descs.get(field) is None for field in SOURCES[role])
    return None if only_past else _source(descs, role)


def _rows(found: Found) -> tuple[int, int]:
    """The number of sequences, and of queries or keys in each."""
    field, desc = found
    front = desc.sizes[-_RANKS[field] :]
    return front[0], front[1]


def _head(found: Found, heads: int) -> int:
    """How many numbers a head has."""
    field, desc = found
    if field in _STACKED:
        return desc.sizes[-1]
    message = "must be a multiple of the heads"
    require(multiple_of(f"{field}.sizes", desc.sizes[-1], heads, message, list(desc.sizes)))
    return desc.sizes[-1] // heads


def _implied_heads(descs: Descs, query_heads: int | None, key_heads: int | None) -> tuple[int | None, int | None]:
    """Heads of queries and of keys: as given, else as the tensors determine; None if they do not."""

    def size(axis: int, *fields: str) -> int | None:
        found = (desc for desc in (descs.get(field) for field in fields) if desc is not None and desc.rank >= 4)
        return next((desc.sizes[axis] for desc in found), None)

    def parts(field: str, head: int | None) -> int | None:
        desc = descs.get(field)
        return None if desc is None or not head or desc.sizes[-1] % head else desc.sizes[-1] // head

    if query_heads is None:
        biased = size(-3, "relative_position_bias")  # 1 may be broadcast
        query_heads = size(-3, "stacked_query_key", "stacked_query_key_value") or (biased if biased != 1 else None)
    if key_heads is None:
        key_heads = size(-3, *_STACKED, "past_key", "past_value")
    head = size(-1, *_STACKED, "past_key") or parts("query", query_heads) or parts("key", key_heads)
    return (
        parts("query", head) if query_heads is None else query_heads,
        parts("key", head) if key_heads is None else key_heads,
    )


def _mask_sizes(kind: MultiheadAttentionMaskType, dimensions: Dimensions) -> tuple[int, ...]:
    return {
        MultiheadAttentionMaskType.NONE: (),
        MultiheadAttentionMaskType.BOOLEAN: dimensions.scores,
        MultiheadAttentionMaskType.KEY_SEQUENCE_LENGTH: (1, dimensions.batch),
        MultiheadAttentionMaskType.KEY_SEQUENCE_END_START: (2, dimensions.batch),
        MultiheadAttentionMaskType.KEY_QUERY_SEQUENCE_LENGTH_START_END: (3 * dimensions.batch + 2,),
    }[kind]


def _by_flags(mask: Array, dimensions: Dimensions) -> Array:
    return np.asarray(1 - mask.reshape(dimensions.scores).astype(np.float64))


def _by_length(mask: Array, dimensions: Dimensions) -> Array:
    lengths = mask.reshape(-1, 1, 1, 1)
    return np.asarray(np.arange(dimensions.total) >= lengths)


def _by_bounds(mask: Array, dimensions: Dimensions) -> Array:
    ends, starts = mask.reshape(2, dimensions.batch, 1, 1, 1)
    keys = np.arange(dimensions.total)
    return np.asarray((keys < starts) | (keys >= ends))


def _by_segments(mask: Array, dimensions: Dimensions) -> Array:
    batch = dimensions.batch
    lengths, query_bounds, key_bounds = np.split(mask.reshape(-1).astype(np.int64), [batch, 2 * batch + 1])
    sequences = np.arange(batch)[:, None, None]
    queries = sequences * dimensions.queries + np.arange(dimensions.queries)[:, None]
    keys = sequences * dimensions.total + np.arange(dimensions.total)

    def inside(places: Array, starts: Array, ends: Array) -> Array:
        return np.asarray((starts[:, None, None] <= places) & (places < ends[:, None, None]))

    counted = inside(queries, query_bounds[:-1], query_bounds[1:]) & inside(
        keys, key_bounds[:-1], key_bounds[:-1] + lengths
    )
    return ~counted[:, None]


# How many times the filter value is added, as an array that broadcasts to the scores.
_FILTERED: dict[MultiheadAttentionMaskType, Callable[[Array, Dimensions], Array]] = {
    MultiheadAttentionMaskType.BOOLEAN: _by_flags,
    MultiheadAttentionMaskType.KEY_SEQUENCE_LENGTH: _by_length,
    MultiheadAttentionMaskType.KEY_SEQUENCE_END_START: _by_bounds,
    MultiheadAttentionMaskType.KEY_QUERY_SEQUENCE_LENGTH_START_END: _by_segments,
}


class Attention(Operator):
    """Base: where queries, keys and values come from, and the function of them."""

    meanings: ClassVar = {
        "query": "The queries of all heads.",
        "key": "The keys of all heads.",
        "stacked_query_key": "Queries and keys in one tensor, in place of `query` and `key`.",
        "stacked_key_value": "Keys and values in one tensor, in place of `key` and `value`.",
        "stacked_query_key_value": "Queries, keys and values in one tensor, in place of all three.",
        "mask": "Which keys each query sees, in the form that `mask_type` names.",
        "relative_position_bias": "What is added to the scores before the softmax; it broadcasts to them.",
        "past_key": "The keys of earlier runs, which come before the new ones.",
        "past_value": "The values of earlier runs, which come before the new ones.",
        "output_present_key": "The past and the new keys together.",
        "output_present_value": "The past and the new values together.",
        "mask_type": "What the mask holds.",
        "mask_filter_value": "What is added to the scores of keys that are masked.",
    }
    heavy: ClassVar = True

    query: OptionalInput = None
    key: OptionalInput = None
    value: OptionalInput = None
    stacked_query_key: OptionalInput = None
    stacked_key_value: OptionalInput = None
    stacked_query_key_value: OptionalInput = None
    bias: OptionalInput = None
    mask: Annotated[OptionalInput, NumberType(DataType.INT32)] = None
    relative_position_bias: OptionalInput = None
    past_key: OptionalInput = None
    past_value: OptionalInput = None
    output: Output = inferred()
    output_present_key: AskedOutput = inferred()
    output_present_value: AskedOutput = inferred()
    scale: Float
    mask_filter_value: Float = inferred()

    head_fields: ClassVar[tuple[str, str]]  # the counts of query heads and of key heads
    if TYPE_CHECKING:
        mask_type: MultiheadAttentionMaskType  # a field of the subclasses, each at its place

    def products(self) -> int:
        """Those of queries and keys for the scores, and of these and values."""
        sizes = self.dimensions
        return math.prod(sizes.scores) * (sizes.head + sizes.value_head)

    @classmethod
    def adapt(cls, inputs: dict[str, Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
        """The position bias and a boolean mask broadcast to {B, heads, S, T}, by zero strides."""
        given = [attributes.get(field) for field in cls.head_fields]
        if not all(count is None or (isinstance(count, int) and 0 <= count < 2**32) for count in given):
            return inputs  # the fields' own check says what is wrong
        dimensions = Dimensions.of(inputs, *cls._heads(inputs, *given))
        flags = shorten(attributes.get("mask_type")) == str(MultiheadAttentionMaskType.BOOLEAN)
        adapted = dict(inputs)
        for field in ("relative_position_bias", *(("mask",) if flags else ())):
            desc = inputs.get(field)
            if desc is not None and desc.rank <= len(dimensions.scores):
                adapted[field] = broadcast_field(field, desc, dimensions.scores)
        mask = inputs.get("mask")
        if mask is not None and not flags and mask.rank == 1:
            adapted["mask"] = with_rank(mask, 2) if mask.element_count == dimensions.batch else mask
        return adapted

    @classmethod
    def is_source(cls) -> bool:
        return False  # no single input is required, but some inputs are

    @classmethod
    def _heads(cls, descs: Descs, query_heads: int | None, key_heads: int | None) -> tuple[int, int]:
        """Heads of queries and keys, as given or as the tensors determine; OperatorError if neither does."""
        query_heads, key_heads = _implied_heads(descs, query_heads, key_heads)
        query_field, key_field = cls.head_fields
        if query_field == key_field:  # one count for both
            query_heads = key_heads = query_heads if query_heads is not None else key_heads
        why = "the tensors do not determine the number of heads"
        return determined(query_heads, query_field, why), determined(key_heads, key_field, why)

    def fill_in(self, given: Given) -> Mapping[str, Any]:
        fill = given.get("mask_filter_value")
        if self.mask is not None:
            require(is_given("mask_filter_value", fill, "must be given with a mask"))
        heads = self._heads(self.given_tensors, *(given.get(field) for field in self.head_fields))
        return dict(zip(self.head_fields, heads, strict=True)) | {"mask_filter_value": fill or 0.0}

    @property
    def given_tensors(self) -> dict[str, TensorDesc | None]:
        """The inputs by field."""
        return {field: getattr(self, field) for field in self.input_fields}

    @property
    def dimensions(self) -> Dimensions:
        """The sizes of which the tensors' sizes consist; OperatorError if the tensors do not determine them."""
        query_heads, key_heads = (getattr(self, field) for field in self.head_fields)
        return Dimensions.of(self.given_tensors, query_heads, key_heads)

    def infer(self, given: Given) -> Outcome:
        (field, query), sizes = _source(self.given_tensors, "query"), self.dimensions
        front = query.sizes[:-3] if field == "query" else ()
        outputs = {
            "output": query.like(sizes=(*front, sizes.batch, sizes.queries, sizes.query_heads * sizes.value_head)),
        }
        for present, head in (("output_present_key", sizes.head), ("output_present_value", sizes.value_head)):
            if self.wants(given, present):
                outputs[present] = query.like(sizes=(sizes.batch, sizes.key_heads, sizes.total, head))
        return {name: outputs.get(name) for name in self.output_fields}

    def constraints(self) -> Iterator[Problem]:
        sizes, mask, kind = self.dimensions, self.mask, self.mask_type
        if (self.past_key is None) != (self.past_value is None):
            missing = "past_key" if self.past_key is None else "past_value"
            yield Problem("past keys and past values must be given together", code="conflict", field=missing)
        wanted = {field: sizes.sizes(field) for field in self.input_fields} | {"mask": _mask_sizes(kind, sizes)}
        for field, last in wanted.items():
            desc, message = getattr(self, field), "has other sizes, not counting leading sizes of 1"
            if desc is not None and last:
                holds = desc.sizes == (1,) * (desc.rank - len(last)) + last
                yield from sizes_hold(holds, field, desc, message, str(list(last)))
        no_mask = MultiheadAttentionMaskType.NONE
        if mask is not None and kind is no_mask:
            hint = f"mask_type is one of {listing(each for each in type(kind) if each is not no_mask)}"
            yield Problem(f"mask_type {kind} takes no mask", code="conflict", field="mask", hint=hint)
        if kind is not no_mask:
            yield from is_given("mask", mask, f"must be given for mask_type {kind}")
        message = "cannot be given if there are only past keys and values"
        yield from rule(self.bias is None or sizes.new, "bias", message, "conflict")
        message = "must be a multiple of key_value_head_count"
        yield from multiple_of("query_head_count", sizes.query_heads, sizes.key_heads, message)

    def evaluate(self, *inputs: Array | None) -> tuple[Array, ...]:
        given, sizes = dict(zip(self.input_fields, inputs, strict=True)), self.dimensions
        query, keys, values = self.parts(given, sizes, np.float64)
        group = sizes.query_heads // sizes.key_heads
        with np.errstate(all="ignore"):
            scores = self.scale * (query @ keys.repeat(group, 1).swapaxes(-1, -2))
            for more in self.added_scores(given, sizes):
                scores = scores + more
            counted = self.counted_keys(given, sizes)
            scores = scores if counted is None else np.where(counted, scores, -np.inf)
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            weights /= weights.sum(-1, keepdims=True)
            attended = weights @ values.repeat(group, 1)
        return self.outputs(attended.swapaxes(1, 2), keys, values)

    def outputs(self, attended: Array, keys: Array, values: Array) -> tuple[Array, ...]:
        """The requested outputs, from {B, S, heads, V} and all keys and values."""
        outputs = {"output": attended, "output_present_key": keys, "output_present_value": values}
        present = [(outputs[field], getattr(self, field)) for field in self.output_fields]
        return tuple(convert(array.reshape(desc.sizes), desc.dtype) for array, desc in present if desc is not None)

    def parts(self, given: Arrays, sizes: Dimensions, dtype: type[np.floating[Any]]) -> tuple[Array, Array, Array]:
        """Queries, keys and values with their biases, past ones first: {B, heads, S or T, D or V} in `dtype`."""
        parts: list[Array | None] = []
        start = 0
        for (role, sources), hidden in zip(SOURCES.items(), sizes.hidden, strict=True):
            heads = sizes.query_heads if role == "query" else sizes.key_heads
            found = ((given[field], place) for field, place in sources.items())
            part = next((_split(each, place, heads, dtype) for each, place in found if each is not None), None)
            bias = given["bias"]
            if bias is not None and part is not None:
                slice_ = bias.reshape(-1)[start : start + hidden].astype(dtype)
                part = part + slice_.reshape(heads, 1, -1)
            parts.append(part)
            start += hidden
        query, key, value = (
            _joined(given.get(f"past_{role}"), part, dtype) for role, part in zip(SOURCES, parts, strict=True)
        )
        return query, key, value

    def added_scores(self, given: Arrays, sizes: Dimensions) -> Iterator[Array]:
        """The addends of the products' scores: arrays that broadcast to {B, heads, S, T}."""
        bias, mask = given["relative_position_bias"], given["mask"]
        if bias is not None:
            yield bias.reshape(sizes.scores)
        if mask is not None:
            times = _FILTERED[self.mask_type](mask, sizes)
            # Zero times an infinite filter value is nothing.
            yield np.where(times == 0, 0.0, times * self.mask_filter_value)

    def counted_keys(self, given: Arrays, sizes: Dimensions) -> Array | None:
        """Which keys have a weight, as an array that broadcasts to {B, heads, S, T}; None if all have one."""
        return None

    derivative = by_composition

    def compose(self, back: Backward) -> Sequence[Tensor | None]:
        made = composed_attention.composed(self, back, SOURCES)
        pairs = zip(made, self.output_descs, strict=True)
        return [None if desc is None else each.reshape(desc.sizes) for each, desc in pairs]


def _split(tensor: Array, place: int | None, heads: int, dtype: type[np.floating[Any]]) -> Array:
    """A separate tensor, or a part of a stack, by heads: {B, heads, S, D}."""
    if place is not None:
        return tensor[..., place, :].astype(dtype, copy=False).swapaxes(-2, -3)
    *_, batch, rows, hidden = tensor.shape
    return tensor.astype(dtype, copy=False).reshape(batch, rows, heads, hidden // heads).swapaxes(1, 2)


def _joined(past: Array | None, new: Array | None, dtype: type[np.floating[Any]]) -> Array:
    """Past keys or values, then the new ones; either may be absent."""
    parts = [] if past is None else [past.astype(dtype, copy=False).reshape(past.shape[-4:])]
    parts += [] if new is None else [new]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=2)


class MultiheadAttention(Attention, dml="MULTIHEAD_ATTENTION"):
    """softmax(scale · Q · Kᵀ + relative_position_bias + mask) · V, for each head.

    Shapes, with H = head_count: query {B, S, H·D}, key {B, K, H·D}, value {B, K, H·V}, or stacked: query and key
    {B, S, H, 2, D}, key and value {B, K, H, 2, D}, all three {B, S, H, 3, D}; each of Q, K and V comes from one
    of them.  bias {H·D + H·D + H·V} is added to Q, K and V.  past_key {B, H, P, D} and past_value {B, H, P, V}
    come before the new keys and values, or replace them; the present outputs, which must be requested (`true`),
    are past and new ones together, {B, H, T, D} and {B, H, T, V}.  relative_position_bias broadcasts to
    {B, H, S, T}.  output {B, S, H·V}.  All tensors may have leading sizes of 1.

    If `head_count` is left out, stacked or past tensors, or the position bias, determine it.

    `mask_filter_value` is added to the scores of keys that the int32 mask excludes, by `mask_type`:
    `boolean`, {B, H, S, T}: where the mask is 0; in full (1 − mask) times (measured).
    `key_sequence_length`, {1, B}: from that key on.
    `key_sequence_end_start`, {2, B}: from the end in row 0 on and before the start in row 1.
    `key_query_sequence_length_start_end`, {3·B + 2}: B lengths of keys, B + 1 bounds of queries and B + 1 of keys,
    positions counted through the whole batch.  For the queries from bound b to bound b + 1 of sequence b the keys from
    bound b on, as many as length b, are unchanged; all others are excluded (measured).
    """

    meanings: ClassVar = {
        "value": "The values of all heads.",
        "head_count": "The number of heads.",
    }
    head_fields: ClassVar = ("head_count", "head_count")
    example: ClassVar = (
        "query: [1, 2, 8], key: [1, 3, 8], value: [1, 3, 8], mask: {dtype: int32, sizes: [1, 1], data: [2]}, "
        "scale: 0.5, mask_filter_value: -10000, head_count: 2, mask_type: key_sequence_length"
    )

    head_count: UInt = inferred()
    mask_type: MultiheadAttentionMaskType = MultiheadAttentionMaskType.NONE


class MultiheadAttention1(Attention, dml="MULTIHEAD_ATTENTION1"):
    """MULTIHEAD_ATTENTION with query heads that share heads of keys and values, and lengths of the past.

    Shapes are those of MULTIHEAD_ATTENTION with `key_value_head_count` for the heads of keys, values and past.
    query_head_count is a multiple of it: that many consecutive query heads share one.  past_sequence_lengths {B},
    int32, says how many of the past keys count for each sequence.

    The documentation does not define the lengths, and gives them the other tensors' type by mistake.  Here they are as
    ONNX Runtime uses them: they are int32, and if they are given, attention is causal (the last query sees every new
    key, the one before it all except the last, and so on), and a key that does not count has no weight.
    """

    meanings: ClassVar = {
        "value": "The values of all heads.",
        "past_sequence_lengths": "The number of past keys and values that count, of each sequence.",
        "query_head_count": "The number of heads of the queries.",
        "key_value_head_count": "The number of heads of the keys and values; several heads of queries share one.",
    }
    head_fields: ClassVar = ("query_head_count", "key_value_head_count")
    example: ClassVar = (
        "query: [1, 2, 8], key: [1, 2, 4], value: [1, 2, 4], scale: 0.5, mask_filter_value: -10000, "
        "query_head_count: 4, key_value_head_count: 2, mask_type: none"
    )

    past_sequence_lengths: Annotated[OptionalInput, NumberType(DataType.INT32)] = None
    query_head_count: UInt = inferred()
    key_value_head_count: UInt = inferred()
    mask_type: MultiheadAttentionMaskType = MultiheadAttentionMaskType.NONE

    def counted_keys(self, given: Arrays, sizes: Dimensions) -> Array | None:
        lengths = given["past_sequence_lengths"]
        if lengths is None:
            return None
        keys, queries = np.arange(sizes.total), np.arange(sizes.queries)[:, None]
        valid = keys < lengths.astype(np.int64).reshape(-1, 1, 1, 1)
        seen = (keys >= sizes.past) & (keys - sizes.past <= queries + sizes.new - sizes.queries)
        return np.asarray((valid & (keys < sizes.past)) | seen)
