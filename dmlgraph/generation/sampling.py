"""How a token is chosen of logits, as nodes of the graph: so that several steps need one wait.

    token = choose(logits, tokens, Sampling(temperature=0.7, top_k=40))

What may change from run to run are states of the scope `sampling`: numbers such as `sampling/temperature`, the random
generator's, and which tokens the text has.  `settings` has the arrays of a `Sampling` for them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

import dmlgraph as dg
from dmlgraph.base.errors import GraphError
from dmlgraph.base.expressions import Size
from dmlgraph.base.tensor import DataType
from dmlgraph.graph.graph import Graph
from dmlgraph.graph.nodes import InputNode, StateNode
from dmlgraph.graph.value import Value

Array = np.ndarray[Any, Any]

SCOPE = "sampling"
RANDOM, SEEN = f"{SCOPE}/random", f"{SCOPE}/seen"
_FLOAT = DataType.FLOAT32
_WORD = 0xFFFFFFFF
_PER_COUNT = 4  # random words for each count of the generator


@dataclasses.dataclass(frozen=True, slots=True)
class Sampling:
    """How a token is chosen.

    Steps that are None are left out of the graph.  They are in this order: penalty, temperature, top_k, top_p, min_p.

    Attributes:
        temperature: what logits are divided by; 0: always the likeliest token, so that all below but the penalty is of
            no use.
        top_k: only the likeliest tokens, so many.
        top_p: only the likeliest tokens, until their probabilities together are at least this.  Without `top_k`, all
            tokens are sorted for it.
        min_p: only tokens at least this times as likely as the likeliest.
        repetition_penalty: what positive logits of tokens that the text has are divided by, negative ones multiplied.
        seed: of the random numbers.

    Raises:
        GraphError: a number is outside its range.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for field, low, high, allowed in _RANGES:
            given = getattr(self, field)
            whole = field in ("top_k", "seed")
            kinds = (int, np.integer) if whole else (int, float, np.integer, np.floating)
            if given is None and field not in ("temperature", "seed"):
                continue
            if isinstance(given, bool) or not isinstance(given, kinds) or not low <= given <= high:
                raise GraphError("is outside its range", code="range", field=field, got=given, allowed=allowed)

    @property
    def is_greedy(self) -> bool:
        return self.temperature == 0

    @property
    def structure(self) -> Sampling:
        """What of it decides the nodes: the same for all that one graph serves, whatever its states hold."""
        default = Sampling()
        penalty = None if self.repetition_penalty is None else 1.0
        if self.is_greedy:
            return dataclasses.replace(default, temperature=0.0, repetition_penalty=penalty)
        top_p, min_p = (None if each is None else 1.0 for each in (self.top_p, self.min_p))
        return dataclasses.replace(default, top_k=self.top_k, top_p=top_p, min_p=min_p, repetition_penalty=penalty)

    def settings(self) -> dict[str, Array]:
        """What the states of the scope hold before the first token, without what the text has."""
        names = [] if self.is_greedy else ["temperature", "top_p", "min_p"]
        numbers = {name: getattr(self, name) for name in (*names, "repetition_penalty")}
        found = {
            f"{SCOPE}/{name}": np.array([number], np.float32) for name, number in numbers.items() if number is not None
        }
        return found if self.is_greedy else found | {RANDOM: random_state(self.seed)}


_LEAST = float(np.finfo(np.float32).tiny)
_MOST = float(np.finfo(np.float32).max)
_RANGES = (
    ("temperature", 0, _MOST, "at least 0"),
    ("top_k", 1, math.inf, "a whole number of at least 1"),
    ("top_p", _LEAST, 1, "above 0, at most 1"),
    ("min_p", 0, 1, "0 to 1"),
    ("repetition_penalty", _LEAST, _MOST, "above 0"),
    ("seed", 0, 2**64 - 1, "a whole number from 0 to 2^64 - 1"),
)


def random_state(seed: int, drawn: int = 0) -> Array:
    """The state of the random generator of a sequence, uint32 [1, 6], after so many counts were used."""
    counter = [drawn >> 32 * place & _WORD for place in range(4)]
    return np.array([[*counter, seed & _WORD, seed >> 32]], np.uint32)


def counts(elements: int) -> int:
    """How many counts of the random generator so many numbers use."""
    return -(-elements // _PER_COUNT)


def mark(tokens: Value, vocabulary: int) -> Value:
    """Which tokens the text has, float32 [batch, vocabulary]: those of before and `tokens` [batch, count]; a state."""
    g = tokens.graph
    batch, _ = sizes_of(tokens)
    seen = g.state(SEEN, sizes=[batch, vocabulary], dtype=_FLOAT)
    ones = g.fill_value_constant(sizes=[1, 1], dtype=_FLOAT, value=1).broadcast_to(sizes_of(tokens))
    marked = dg.scatter_elements(seen, tokens, ones, axis=1)
    g.update(seen, marked)
    return marked


def choose(logits: Value, tokens: Value, how: Sampling, *, rows: Size) -> Value:
    """The chosen tokens, uint32 [batch, rows].

    Args:
        logits: [batch, rows, vocabulary], of float32 or float16.
        tokens: [batch, count], an input or a state: what the run reads of the text.
        how: the steps, and what their states hold at first.
        rows: that of the logits, as it is declared.

    Raises:
        GraphError: the graph has a state of one of the names.
    """
    scores = dg.cast(logits, dtype=_FLOAT) if logits.dtype is not _FLOAT else logits
    vocabulary = logits.sizes[-1]
    if how.repetition_penalty is not None:
        seen = mark(tokens, vocabulary).reshape(sizes_of(tokens)[0], 1, vocabulary)
        scores = _penalized(scores, seen, _number(scores.graph, "repetition_penalty", how.repetition_penalty))
    if how.is_greedy:
        return dg.reduce(scores, function="argmax", axes=[2]).squeeze(2)
    scores = scores / _number(scores.graph, "temperature", how.temperature)
    best, count = None, vocabulary
    if how.top_k is not None or how.top_p is not None:
        count = min(how.top_k or vocabulary, vocabulary)
        best = dg.top_k1(scores, axis=2, k=count, axis_direction="decreasing")
        scores = best.output_value
    kept = _kept(scores, how, is_sorted=best is not None)
    noise = _noise(scores.graph, tokens.sizes[0], [1, rows, count], how)
    choice = dg.reduce(kept + noise, function="argmax", axes=[2])
    if best is not None:
        choice = dg.gather_elements(best.output_index, choice, axis=2)
    return choice.squeeze(2)


def _penalized(scores: Value, seen: Value, penalty: Value) -> Value:
    less = dg.if_(scores > 0, scores / penalty, scores * penalty)
    return dg.if_(seen > 0, less, scores)


def _kept(scores: Value, how: Sampling, *, is_sorted: bool) -> Value:
    """The scores, of which those are minus infinity that `top_p` and `min_p` leave out."""
    g = scores.graph
    never = g.fill_value_constant(sizes=[1], dtype=_FLOAT, value=-math.inf)
    if how.top_p is not None:
        shares = dg.activation_softmax1(scores, axes=[2])
        before = dg.cumulative_summation(shares, axis=2, has_exclusive_sum=True)
        scores = dg.if_(before < _number(g, "top_p", how.top_p), scores, never)
    if how.min_p is not None:
        first = scores[:, :, :1] if is_sorted else dg.reduce(scores, function="max", axes=[2])
        least = first + dg.log(_number(g, "min_p", how.min_p))
        scores = dg.if_(scores >= least, scores, never)
    return scores


def _noise(g: Graph, batch: int, sizes: list[Size], how: Sampling) -> Value:
    """Gumbel noise: the greatest of scores with it is each with its probability.

    Args:
        batch: how many sequences; each has its own generator, so that its numbers do not depend on the others.
        sizes: of one.
    """
    with g.scope(SCOPE):
        random = g.state("random", sizes=[batch, 6], dtype="uint32", initial=random_state(how.seed).repeat(batch, 0))
    parts = [random] if batch == 1 else [random[place : place + 1] for place in range(batch)]
    bits = [dg.random_generator(each, sizes=sizes) for each in parts]
    g.update(random, _joined([each.output_state for each in bits]))
    words = _joined([each.output for each in bits])
    upper = dg.bit_shift_right(words, g.fill_value_constant(sizes=[1], dtype="uint32", value=9))
    waited = dg.log(dg.cast(upper, dtype=_FLOAT), scale_bias={"scale": 2**-23, "bias": 2**-24})
    return -dg.log(waited, scale_bias={"scale": -1, "bias": 0})


def _joined(parts: list[Value]) -> Value:
    return parts[0] if len(parts) == 1 else dg.join(parts, axis=0)


def _number(g: Graph, name: str, value: float) -> Value:
    """A setting, float32 [1]: a state that no run changes."""
    with g.scope(SCOPE):
        return g.state(name, sizes=[1], dtype=_FLOAT, initial=[value])


def sizes_of(tokens: Value) -> tuple[Size, ...]:
    """The sizes of an input or a state as they are declared, with dims by name."""
    node = tokens.graph.node(tokens.node)
    assert isinstance(node, (InputNode, StateNode))
    declared: Mapping[str, Any] = node.declared
    return tuple(declared["sizes"])
