"""Constants that become states, which training changes, and states that become constants again.

parameters = g.make_trainable("encoder/*")
tuned = g.with_states(exe.states)
"""

from __future__ import annotations

import copy
import fnmatch
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dmlgraph.base.errors import GraphError, listing, suggestion
from dmlgraph.graph.constant_data import ConstantData
from dmlgraph.graph.nodes import ConstantNode, OperatorNode, StateNode
from dmlgraph.graph.value import Value
from dmlgraph.operators.declaration.operator import Operator

if TYPE_CHECKING:
    from dmlgraph.graph.graph import Graph

Array = np.ndarray[Any, Any]
FLOATS = "floats"


class Arrays(Protocol):
    """What states hold, by name: a set of states, or a dictionary of arrays."""

    def __contains__(self, name: object, /) -> bool: ...

    def __getitem__(self, name: str, /) -> Any: ...


def make_trainable(graph: Graph, patterns: Sequence[str], field: str = "patterns") -> list[Value]:
    """See `Graph.make_trainable`; `field` is that of the patterns in errors."""
    return _made(graph, patterns, field, ())


def make_parameters(graph: Graph, patterns: Sequence[str], field: str) -> list[Value]:
    """What training may change: as `make_trainable`, but the patterns mean states, too, that nothing changes yet."""
    return _made(graph, patterns, field, free_states(graph))


def _made(graph: Graph, patterns: Sequence[str], field: str, states: Sequence[str]) -> list[Value]:
    constants = {node.name: node for node in graph.nodes if isinstance(node, ConstantNode)}
    found = matched(patterns, [*states, *constants], field)
    floats = [name for name in found if name not in constants or constants[name].desc.dtype.is_float]
    chosen = [
        name
        for name in found
        if name in floats or _is_trainable(graph, constants[name], floats, is_named=name in patterns)
    ]
    if not chosen:
        message = "only floats can be trained"
        raise GraphError(message, code="dtype", field=field, got=listing(found), allowed=FLOATS)
    for constant in (constants[name] for name in chosen if name in constants):
        graph.replace_source(StateNode.of(constant, constant.elements))
    return [Value(graph, name, 0) for name in chosen]


def free_states(graph: Graph) -> list[str]:
    """The states of floats that nothing changes."""
    changed = graph.next_values
    free = (each.name for each in graph.states if each.desc.dtype.is_float and each.grows is None)
    return [name for name in free if name not in changed]


def with_states(graph: Graph, states: Arrays) -> Graph:
    """See `Graph.with_states`."""
    other, live = copy.copy(graph), graph.live_nodes()
    for state in graph.states:
        if state.grows is None:
            if state.name not in states:
                message, hint = "the set has no state of this name", "give a set that runs of this graph have used"
                raise GraphError(message, code="unknown-state", node=state.name, hint=hint)
            other.replace_source(ConstantNode(state.name, state.desc, _held(state, states[state.name])))
            other._next.pop(state.name, None)
    other.remove_dead(live)
    other.origin.tests = {}  # they say what the states computed that the graph had
    return other


def named_states(graph: Graph, given: Sequence[Any], field: str) -> list[Any]:
    """Values as they are given, and for a name or a pattern the states of floats that nothing changes yet.

    Raises:
        GraphError: a pattern means nothing.
    """
    names = free_states(graph)
    found: list[Any] = []
    for index, each in enumerate(given):
        if isinstance(each, str):
            known = {value.node for value in found if isinstance(value, Value)}
            new = (name for name in matched([each], names, field, index) if name not in known)
            found += [Value(graph, name, 0) for name in new]
        else:
            found.append(each)
    return found


def matched(patterns: Sequence[str], known: Iterable[str], field: str, first: int = 0) -> list[str]:
    """The known names that a name or a pattern with `*` means, in the order of the known ones.

    Args:
        patterns: names and patterns.
        known: all names.
        field: of the patterns, in errors.
        first: the number of the first pattern in it.

    Raises:
        GraphError: the patterns are not a list of texts, or one means nothing.
    """
    if isinstance(patterns, str) or not all(isinstance(each, str) for each in patterns):
        message, hint = "takes names, or patterns such as '*.weight'", f"write ['{patterns}']"
        raise GraphError(message, code="kind", field=field, got=patterns, hint=hint)
    names = list(known)
    found: set[str] = set()
    for index, pattern in enumerate(patterns, first):
        those = [name for name in names if name == pattern or fnmatch.fnmatchcase(name, pattern)]
        if not those:
            raise GraphError(
                "nothing has this name",
                code="unknown-name",
                field=f"{field}.{index}",
                got=pattern,
                allowed=listing(names, at_most=8) or "nothing",
                hint=suggestion(pattern, names),
            )
        found.update(those)
    return [name for name in names if name in found]


def _is_trainable(graph: Graph, constant: ConstantNode, floats: Sequence[str], *, is_named: bool) -> bool:
    """False for integers: those that a pattern means among others, such as indices, stay constants.

    Raises:
        GraphError: it is quantized, or is an integer that is named itself; `floats` are what could be named.
    """
    dtype = constant.desc.dtype
    reader = next((node for node in _readers(graph, constant.name) if reads_quantized(node.operator)), None)
    if reader is None and not is_named:
        return False
    what = "only floats can be trained" if reader is None else f"is quantized: '{reader.name}' reads it"
    hint = None if reader is None else beside_quantized(floats)
    raise GraphError(what, code="dtype", node=constant.name, got=str(dtype), allowed=FLOATS, hint=hint)


def beside_quantized(floats: Sequence[str]) -> str:
    """What to do where a pattern means quantized weights and, maybe, these floats."""
    pairs = "lora (dg.add_lora) trains a pair of small matrices beside it"
    return f"name floats alone: {listing(floats, at_most=8)}; {pairs}" if floats else pairs


def _readers(graph: Graph, name: str) -> Iterable[OperatorNode]:
    """The operators that read a node, also through views."""
    for reader in graph._network.successors(name):
        node = graph.node(reader)
        if isinstance(node, OperatorNode):
            if node.operator.is_view:
                yield from _readers(graph, reader)
            yield node


def reads_quantized(operator: Operator) -> bool:
    """Whether the integers that an operator reads are quantized numbers."""
    fields = operator.input_fields
    return operator.multiplies_integers or any("scale" in each or "quantizations" in each for each in fields)


def _held(state: StateNode, given: Any) -> ConstantData:
    """What a set holds for a state."""
    array, desc = np.array(given, order="C"), state.desc
    if (array.dtype, array.shape) != (desc.dtype.numpy, desc.sizes):
        raise GraphError(
            "has another data type or other sizes than the state",
            code="sizes",
            node=state.name,
            got=f"{array.dtype} {list(array.shape)}",
            allowed=f"{desc.dtype} {list(desc.sizes)}",
        )
    array.flags.writeable = False
    return ConstantData(array)
