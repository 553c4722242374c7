"""The graphs that generation makes of a decoder graph: to read a prompt, to go on, to verify drafts, to search.

A decoder graph has one input, the tokens {batch, tokens}, and an output `logits` {batch, tokens or 1, vocabulary}; what
it knows of the text so far are growing states, all of one length.  It may have another input, `padding` {batch},
uint32: how many of the first rows of each sequence do not count.  Then texts of different lengths can share its runs.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

import dmlgraph as dg
from dmlgraph.base.errors import GraphError, listing
from dmlgraph.base.tensor import DataType
from dmlgraph.generation.caches import CacheType, narrowed
from dmlgraph.generation.sampling import Sampling, choose, mark
from dmlgraph.graph.graph import Graph
from dmlgraph.graph.nodes import InputNode
from dmlgraph.graph.value import Value

if TYPE_CHECKING:
    from dmlgraph.devices.executable import Array, Executable

BATCH, TOKENS, CAPACITY = "batch", "tokens", "capacity"
PADDING = "padding"
LOGITS = "logits"
TOKEN = "token"  # the output of a graph that goes on
SCORES = "scores"
_INTEGERS = (DataType.INT32, DataType.INT64, DataType.UINT32, DataType.UINT64)

Make = Callable[[Mapping[str, int]], Graph]


@dataclasses.dataclass(frozen=True, slots=True)
class Decoder:
    """A decoder graph of any sizes.

    Attributes:
        make: the graph for sizes of `batch`, `tokens` and `capacity`.
        input: the name of the input with the tokens.
        logits: the name of the output.
        vocabulary: how many tokens there are.
        capacity: of the states, as the graph was given.
        capacities: whether it can be made with others.
        can_rewind: whether all that it knows of a text is in growing states.
        is_shared: whether texts of different lengths can be the sequences of its batch: it has the input `padding`.
    """

    make: Make
    input: str
    logits: str
    vocabulary: int
    capacity: int
    capacities: bool
    can_rewind: bool
    is_shared: bool

    @classmethod
    def of(cls, given: Graph | Make, capacity: int | None = None, cache: CacheType | None = None) -> Decoder:
        """The decoder of a graph with dims, or of what makes it of sizes by the names `batch`, `tokens`, `capacity`.

        Args:
            given: the graph, or what makes it.
            capacity: another one than the graph's; for a function, it is needed.
            cache: the data type of the growing states of float32, in their place.

        Raises:
            GraphError: it is not a decoder graph: says what it lacks.
        """
        sizes = {} if capacity is None else {CAPACITY: capacity}
        make = _by_name(given) if isinstance(given, Graph) else given
        make = make if cache is None else _with_cache(make, cache)
        first = {BATCH: 1, TOKENS: 1} | sizes
        graph = make(first)
        tokens, logits = _tokens(graph), _logits(graph)
        if tokens.desc.sizes != (1, 1):
            raise _lacks("must be for one sequence of any number of tokens", tokens.name, f"{list(tokens.desc.sizes)}")
        growing = {node.name: node.desc.sizes[node.grows] for node in graph.states if node.grows is not None}
        if not growing:
            raise _lacks("has no growing states, which hold what it knows of a text", "states")
        if min(growing.values()) < (capacity or 1):
            field = f"dims.{CAPACITY}"
            raise GraphError("the graph cannot have this capacity", code="fixed-dim", field=field, got=capacity)
        changed = graph.next_values
        can_rewind = not any(node.grows is None and node.name in changed for node in graph.states)
        dims = _dims(given) if isinstance(given, Graph) else (BATCH, CAPACITY)
        padding = _padding(graph)
        if padding is not None and (padding.desc.dtype, padding.desc.sizes) != (DataType.UINT32, (1,)):
            raise _lacks(
                "the padding must be uint32 {batch}", PADDING, f"{padding.desc.dtype} {list(padding.desc.sizes)}"
            )
        is_shared = can_rewind and BATCH in dims and padding is not None
        vocabulary = graph.outputs[logits].sizes[-1]
        least = min(growing.values())
        make = _after(graph, first, make)
        return cls(make, tokens.name, logits, vocabulary, least, CAPACITY in dims, can_rewind, is_shared)

    def reader(self, dims: Mapping[str, int], *, marks: bool) -> Graph:
        """Reads tokens, an input, and gives nothing; `marks`: for a penalty, which tokens the text has."""
        graph, tokens, _ = self._parts(dims)
        if marks:
            mark(tokens, self.vocabulary)
        # An executable would keep the weights of the logits.  A state that is written counts, also if nothing reads it.
        graph.remove_dead({node.name for node in graph.nodes} - {node.name for node in graph.states})
        return graph

    def stepper(self, dims: Mapping[str, int], how: Sampling) -> Graph:
        """Reads the token that the state of the input's name has, and chooses the next: `token` {batch, 1}."""
        graph, _, logits = self._parts({**dims, TOKENS: 1})
        tokens = graph.make_state(self.input)
        chosen = choose(logits, tokens, how, rows=1)
        graph.update(tokens, dg.cast(chosen, dtype=tokens.dtype))
        graph.output(TOKEN, chosen)
        return graph

    def verifier(self, dims: Mapping[str, int], how: Sampling) -> Graph:
        """Reads tokens, an input, and chooses the next after each: `token` {1, tokens}.

        Raises:
            GraphError: the graph has logits of the last token only.
        """
        graph, tokens, logits = self._parts(dims)
        count = tokens.sizes[1]
        if logits.sizes[1] != count:
            raise _lacks("gives the logits of the last token only, so drafts cannot be verified", f"outputs.{LOGITS}")
        graph.output(TOKEN, choose(logits, tokens, how, rows=count))
        return graph

    def searcher(self, dims: Mapping[str, int], count: int) -> Graph:
        """Reads a token, an input, and gives the likeliest next ones: `token` and `scores`, {1, 1, count}."""
        graph, _, logits = self._parts({**dims, TOKENS: 1})
        scores = dg.activation_log_softmax1(dg.cast(logits, dtype="float32"), axes=[2])
        best = dg.top_k1(scores, axis=2, k=min(count, self.vocabulary), axis_direction="decreasing")
        graph.output(TOKEN, best.output_index)
        graph.output(SCORES, best.output_value)
        return graph

    def given(self, executable: Executable, tokens: Sequence[int]) -> Array:
        """Tokens as the array of the input."""
        (desc,) = (slot.desc for slot in executable.graph.given if slot.name == self.input)
        return np.array([tokens], desc.dtype.numpy)

    def _parts(self, dims: Mapping[str, int]) -> tuple[Graph, Value, Value]:
        """The graph without outputs, its tokens and its logits."""
        graph = copy.copy(self.make({BATCH: 1, **dims}))
        logits = graph.outputs[self.logits]
        for name in graph.outputs:
            graph.remove_output(name)
        if _padding(graph) is not None:
            graph.make_state(PADDING)  # none at first
        return graph, graph.value(self.input), logits


def _after(graph: Graph, sizes: Mapping[str, int], make: Make) -> Make:
    """What makes graphs; the first time that these sizes are wanted it gives this graph, since an import takes seconds.

    The graph is not kept for longer: it holds weights that executables have packed or do not read.
    """
    there = [graph]
    return lambda wanted: there.pop() if there and wanted == sizes else make(wanted)


def _with_cache(make: Make, cache: CacheType) -> Make:
    return lambda sizes: narrowed(make(sizes), cache)


def _by_name(graph: Graph) -> Make:
    """What makes a graph with dims of any names."""
    dims = _dims(graph)

    def make(sizes: Mapping[str, int]) -> Graph:
        return graph.with_dims({dims[role]: size for role, size in sizes.items() if role in dims})

    return make


def _dims(graph: Graph) -> dict[str, str]:
    """The dims of the graph that are its batch, tokens and capacity."""
    declared = _tokens(graph).declared["sizes"]
    found = dict(zip((BATCH, TOKENS), map(str, declared), strict=True))
    capacities = {str(node.declared["sizes"][node.grows]) for node in graph.states if node.grows is not None}
    if len(capacities) == 1:
        found[CAPACITY] = capacities.pop()
    known = {role: dim for role, dim in found.items() if dim in graph.dims}
    if TOKENS not in known:
        raise _lacks("the number of tokens must be a dim", "input_ids", str(declared[1]))
    return known


def _tokens(graph: Graph) -> InputNode:
    """The input with the tokens."""
    inputs = [node for node in graph.inputs if not node.desc.owned and node.name != PADDING]
    if len(inputs) != 1:
        raise _lacks("must have one input, the tokens", "inputs", listing(node.name for node in inputs) or "no inputs")
    desc = inputs[0].desc
    if desc.dtype not in _INTEGERS or desc.rank != 2:
        raise _lacks("the tokens must be integers {batch, tokens}", inputs[0].name, f"{desc.dtype} {list(desc.sizes)}")
    return inputs[0]


def _padding(graph: Graph) -> InputNode | None:
    """The input with the padding of each sequence."""
    return next((node for node in graph.inputs if node.name == PADDING), None)


def _logits(graph: Graph) -> str:
    """The name of the output with the logits."""
    outputs = graph.outputs
    name = LOGITS if LOGITS in outputs else next(iter(outputs), None) if len(outputs) == 1 else None
    if name is None:
        raise _lacks(f"has no output '{LOGITS}'", "outputs", listing(outputs) or "no outputs")
    value = outputs[name]
    if not value.dtype.is_float or value.rank != 3 or value.sizes[1] not in (1, _tokens(graph).desc.sizes[1]):
        allowed = "floats {batch, tokens or 1, vocabulary}"
        raise _lacks(f"the logits must be {allowed}", f"outputs.{name}", f"{value.dtype} {list(value.sizes)}")
    return name


def _lacks(message: str, field: str, got: str | None = None) -> GraphError:
    hint = "dmlgraph.load(path, states='auto', dims={'batch': 1, 'tokens': 1, 'capacity': 2048}) makes one of a model"
    return GraphError(f"is not a decoder graph: {message}", code="decoder", field=field, got=got, hint=hint)
