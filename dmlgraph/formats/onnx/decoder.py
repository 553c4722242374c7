"""Inputs of a decoder that follow from the length of its caches: masks, positions and lengths, computed in the graph.

A run has B sequences of S new tokens, and caches whose capacity is C.  The model sees C past rows, and S new ones
behind them.  Of the past only the first rows count, as many as the states have.  So the inputs are in every run, at
every length, those of C + S rows, of which a mask says which count.  What is left for the caller are the tokens: such a
decoder graph has the input `input_ids` {B, S}, the output `logits` {B, S, V}, and a growing state for each cache, with
the cache's name, all of one capacity and length.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from dmlgraph.base.errors import ModelError, Problem
from dmlgraph.formats.onnx.arguments import OpenDim, dims_of
from dmlgraph.formats.onnx.caches import whole_number
from dmlgraph.formats.onnx.names import Names, as_text, printable
from dmlgraph.formats.onnx.node import Node
from dmlgraph.formats.onnx.refusals import DATA, PAST, AlreadyNotedError, Refusal
from dmlgraph.formats.onnx.states import Pair
from dmlgraph.formats.onnx.table import MICROSOFT
from dmlgraph.formats.onnx.tensors import Array, Calls, Counted, Tensor, parse_dtype, stored
from dmlgraph.graph.value import Value

Dtype = np.dtype[Any]
DtypeOf = Callable[[Dtype], Dtype]
Rule = Callable[[Calls, "Step", Dtype, int], Tensor]  # the last argument is the number of dimensions
LAST_BY_DEFAULT = 13  # the opset from which Softmax is over the last dimension by default
PADDING = "padding"  # the name of the input that says how many rows are padding
TOKENS = ("input_ids", "decoder_input_ids", "inputs_embeds")  # what models call the input with the new tokens


class Decoder:
    """The inputs of a model with caches that are computed.

    Args:
        graph: the model's.
        pairs: its caches; no pairs where nothing is to be computed.
        values: the inputs that are known.
        is_padded: whether an input says how many of the first rows of each sequence are padding.
    """

    def __init__(
        self, graph: ir.Graph, pairs: Iterable[Pair], values: Mapping[str, Any], *, is_padded: bool = False
    ) -> None:
        self._is_padded = is_padded
        self.padding: Value | None = None  # uint32 {B}, once it is an input
        self._step: Step | None = None
        self._covered = 0  # attentions that are masked here
        self._growing = [each for each in pairs if each.grows is not None]
        inputs = {as_text(each.name): each for each in graph.inputs}
        self.tokens = next((inputs[name] for name in TOKENS if name in inputs), None)
        rules = {each: _rule(each) for name, each in inputs.items() if self._growing and name not in values}
        self._rules = {each: rule for each, rule in rules.items() if rule is not None}

    @property
    def is_active(self) -> bool:
        """Whether inputs are computed for caches."""
        return bool(self._growing)

    @property
    def _reads_mask(self) -> bool:
        return any(rule is _mask and value.uses() for value, rule in self._rules.items())

    @property
    def is_masked(self) -> bool:
        """Whether only written rows count: by a mask that the model reads, or in each attention over caches."""
        return self._reads_mask or 0 < len(self._growing) <= 2 * self._covered

    def cover(self, node: Node) -> None:
        """Masks an attention of a model without masks, such as Whisper's, which counts all rows of its past."""
        if self._step is None or self._step.in_place or self._reads_mask:
            return
        kind = node.domain, node.operator
        first = node.inputs[0] if node.inputs else None
        if kind == (MICROSOFT, "MultiHeadAttention") and node.appends:
            node.inputs += [None] * (6 - len(node.inputs))
            if node.inputs[4] is None and node.inputs[5] is None:
                node.inputs[4] = _mask(node, self._step, np.dtype(np.int32), 2)
                self._covered += 1
        elif kind == ("", "Softmax") and first is not None and _weighs_rows(node, first):
            counts = node.reshaped(_mask(node, self._step, np.dtype(bool), 2), _across(self._step, first.rank))
            zero, lowest = (np.full((1,) * first.rank, each, first.dtype) for each in (0, np.finfo(first.dtype).min))
            added = node.if_(counts, Tensor.of(zero), Tensor.of(lowest))
            node.inputs[0] = node.tensor(node.add(first, added), first.shape)
            self._covered += 1

    def resolved(self, dims: Mapping[str, int]) -> Mapping[str, int]:
        """The sizes of dims, in which `batch`, `tokens` and `capacity` stand for what the model calls these.

        GroupQueryAttention tells the width of its heads, which the builder of onnxruntime-genai leaves open.

        Raises:
            ModelError: the model has another size there, or another is given.
        """
        if not self._growing or not isinstance(dims, Mapping):
            return dims
        places = {"capacity": [(each.past, each.grows) for each in self._growing if each.grows is not None]}
        if self.tokens is not None:
            places |= {"batch": [(self.tokens, 0)], "tokens": [(self.tokens, 1)]}
        own = {dim.name for pair in self._growing for dim in dims_of(pair.past) if isinstance(dim, OpenDim)}
        found, problems = dict(dims), []
        for name in places.keys() & dims.keys() - own:
            size = found.pop(name)
            for value, axis in places[name]:
                dim = (*dims_of(value), *[size] * (axis + 1))[axis]  # what has no such dimension is refused later
                there = found.setdefault(dim.name, size) if isinstance(dim, OpenDim) else dim
                if there != size:
                    problems.append(_other_size(name, size, dim, there))
        for pair in self._growing:
            width = None if pair.growth is None else pair.growth.width
            for dim in dims_of(pair.past)[-1:]:
                if width is not None and isinstance(dim, OpenDim) and dim.place not in found:
                    found.setdefault(dim.name, width)
        if problems:
            raise ModelError(problems)
        return found

    @property
    def computed(self) -> Collection[ir.Value]:
        """The inputs that follow from the length."""
        return self._rules.keys()

    def inputs(
        self, env: Mapping[ir.Value, Tensor | None], dtype_of: DtypeOf, calls: Callable[[str], Calls], names: Names
    ) -> dict[ir.Value, Tensor]:
        """The computed inputs.

        Args:
            env: the other inputs.
            dtype_of: the type in place of a type.
            calls: adds the nodes of an input of this name.
            names: allocates names.

        Raises:
            Refusal: the caches have different capacities, or no input has the new tokens.
            AlreadyNotedError: an input is refused.
        """
        if not self._growing:
            return {}
        states = [(each.state, each.grows) for each in self._growing if each.state is not None]
        if len(states) < len(self._growing):
            raise AlreadyNotedError
        capacities = sorted({state.sizes[axis] for state, axis in states if axis is not None})
        if len(capacities) > 1:
            raise Refusal("the caches have different capacities", code="sizes", got=capacities)
        tokens = None if self.tokens is None else env.get(self.tokens)
        if tokens is None or tokens.rank < 2:
            if not (self._rules or self._is_padded):
                return {}
            message, allowed = "the model has no input with the new tokens", " or ".join(TOKENS)
            raise Refusal(message, code="unknown-array", allowed=allowed)
        in_place = any(each.growth is not None and each.growth.counts for each in self._growing)
        batch, length = tokens.shape[0], states[0][0].length
        if self._is_padded:
            self.padding = length.graph.input(names.take(PADDING), sizes=[batch], dtype="uint32")
        self._step = step = Step(batch, tokens.shape[1], capacities[0], length, in_place, self.padding)
        made = {}
        for value, rule in self._rules.items():
            assert value.dtype is not None
            name, dtype = as_text(value.name), dtype_of(parse_dtype(value.dtype.name.lower()))
            made[value] = rule(calls(printable(name)), step, dtype, len(value.shape or ()))
            made[value].name = printable(name)
        return made


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """A run of a decoder.

    Attributes:
        batch, tokens, capacity: B, S and C.
        length: of the caches before the run, uint32 {1}.
        in_place: whether the new rows are behind those that count, and not behind all of the past.
        padding: how many of the first rows of each sequence do not count, uint32 {B}; None for none.
    """

    batch: int
    tokens: int
    capacity: int
    length: Value
    in_place: bool
    padding: Value | None

    def first(self, calls: Calls) -> Value:
        """The position of the first new token, int32 {1, 1}."""
        return calls.reshaped(calls.converted(self.length, "int32"), (1, 1))

    def places(self, calls: Calls) -> Value:
        """The places of the new rows, int32 {1, S}."""
        if self.tokens == 1:
            return self.first(calls)
        return calls.add(self.first(calls), Tensor.of(np.arange(self.tokens, dtype=np.int32)[None]))

    def begins(self, calls: Calls) -> Value:
        """The place of each sequence's first row that counts, int32 {B, 1}."""
        assert self.padding is not None
        return calls.reshaped(calls.converted(self.padding, "int32"), (self.batch, 1))


def _mask(calls: Calls, step: Step, dtype: Dtype, _: int) -> Tensor:
    """Which rows count, {B, C + S}: those of the past that are below the length, and all new ones, without padding."""
    places: Array = np.arange(step.capacity + step.tokens, dtype=np.int32)[None]
    past = places[:, : step.capacity]
    below = places - step.tokens if step.in_place else np.where(places < step.capacity, places, -1)  # the length
    counts = calls.logical_less_than(Tensor.of(below.astype(np.int32)), step.first(calls), dtype="uint8")
    if step.padding is not None and not step.in_place:  # GroupQueryAttention leaves padding out itself
        real = calls.join([Tensor.of(past), step.places(calls)], axis=1)
        counts = calls.logical_and(
            counts, calls.logical_greater_than_or_equal(real, step.begins(calls), dtype="uint8")
        )
    return _given(calls, counts, dtype, (step.batch, places.size))


def _positions(calls: Calls, step: Step, dtype: Dtype, rank: int) -> Tensor:
    """The positions of the new tokens: {S}, {B, S} or {3, B, S}, of which all three are those of text."""
    places, shape = step.places(calls), (3, step.batch, step.tokens)[3 - rank :]
    if step.padding is not None and rank > 1:
        zero = Tensor.of(np.zeros((1, 1), np.int32))
        places = calls.max(calls.subtract(places, step.begins(calls)), zero)
    rows = places.sizes[0]
    return _given(calls, calls.reshaped(places, (1, rows, step.tokens)[3 - rank :]), dtype, shape)


def _last(calls: Calls, step: Step, dtype: Dtype, rank: int) -> Tensor:
    """The position of the last new token: {B} or {B, 1}."""
    last = calls.add(step.first(calls), Tensor.of(np.full((1, 1), step.tokens - 1, np.int32)))
    return _given(calls, calls.reshaped(last, (1,) * rank), dtype, (step.batch, 1)[:rank])


def _total(_: Calls, step: Step, dtype: Dtype, rank: int) -> Tensor:
    """All rows that the model sees."""
    made = Tensor.of(np.full((1,) * rank, step.capacity + step.tokens, dtype), depends=frozenset([PAST]))
    made.counted = Counted(np.ones(made.shape, np.int64), step.length, step.capacity)
    return made


def _has_past(_: Calls, __: Step, dtype: Dtype, rank: int) -> Tensor:
    """A merged decoder has one branch for every length: in the first run no row of the past counts."""
    return Tensor.of(np.ones((1,) * rank, dtype))


def _weighs_rows(node: Node, scores: Tensor) -> bool:
    """Whether a Softmax is over past rows and new ones, which are the last dimension."""
    axis = whole_number(node.attributes, "axis")
    if axis is None:
        axis = -1 if node.opset >= LAST_BY_DEFAULT else 1
    last = scores.rank - 1
    return scores.dtype.kind == "f" and scores.rows == last and axis in (-1, last)


def _across(step: Step, rank: int) -> tuple[int, ...]:
    """The sizes of a mask {B, C + S} for scores {B, …, C + S}."""
    return (step.batch,) + (1,) * (rank - 2) + (step.capacity + step.tokens,)


def _given(calls: Calls, value: Value, dtype: Dtype, shape: tuple[int, ...]) -> Tensor:
    made = calls.expanded(calls.converted(value, stored(dtype)), shape)
    return Tensor(dtype, shape, made=made, depends=frozenset([DATA]))


# Inputs by the names that exporters give them: what computes each, and the numbers of dimensions that it may have.
_RULES: dict[str, tuple[Rule, tuple[int, ...]]] = {
    "attention_mask": (_mask, (2,)),
    "decoder_attention_mask": (_mask, (2,)),
    "position_ids": (_positions, (1, 2, 3)),
    "cache_position": (_positions, (1,)),
    "seqlens_k": (_last, (1, 2)),
    "total_sequence_length": (_total, (0, 1)),
    "use_cache_branch": (_has_past, (0, 1)),
}


def _rule(value: ir.Value) -> Rule | None:
    """What computes an input; None for one that does not follow from the length."""
    rule, ranks = _RULES.get(as_text(value.name), (None, ()))
    return rule if value.shape is not None and len(value.shape) in ranks and value.dtype is not None else None


def _other_size(name: str, got: int, dim: int | OpenDim, there: int) -> Problem:
    field = f"dims.{name}"
    if isinstance(dim, OpenDim):
        return Problem(f"'{dim}' has another size", code="conflict", field=field, got=got, allowed=f"{there}")
    return Problem("the model has another size", code="sizes", field=field, got=got, allowed=f"{there}")
