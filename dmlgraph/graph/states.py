"""States: tensors that live on the device from run to run.

    keys = g.state("keys", sizes=[1, 8, "capacity", 64], dtype="float16", grows=2)
    g.append(keys, rows)        # go behind the rows that it has
    step = g.state("step", sizes=[1], dtype="float32")
    g.update(step, step + 1)    # its next value

Everything in a run reads a state as it was before the run; all changes take effect together after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dmlgraph import operators as ops
from dmlgraph.base.errors import GraphError
from dmlgraph.base.expressions import Size
from dmlgraph.base.report import Report
from dmlgraph.base.tensor import DataType, DataTypeLike
from dmlgraph.graph import calls, operands, references, trainable
from dmlgraph.graph.checking import Checker
from dmlgraph.graph.hinted import Hinted
from dmlgraph.graph.names import Names
from dmlgraph.graph.network import Network, Output, Outputs
from dmlgraph.graph.nodes import ConstantNode, InputNode, StateNode, kept
from dmlgraph.graph.state_rules import axis_of, check_next, initial_of
from dmlgraph.graph.value import Value

if TYPE_CHECKING:
    from dmlgraph.graph.graph import Graph


class StatefulGraph(Hinted):
    """The part of a `Graph` that declares and changes states."""

    checker: Checker
    names: Names
    _network: Network
    _next: dict[str, Output]  # state → its next value, or the rows that are appended to it

    def state(
        self,
        name: str,
        *,
        sizes: Sequence[Size],
        dtype: DataTypeLike,
        initial: Any = None,
        grows: int | None = None,
    ) -> Value:
        """A tensor that lives on the device from run to run: what it held before the run.

        Args:
            name: of the state; `states` of an executable has it by this name.
            sizes: of all of it; of a growing state with its capacity, the most rows that it can have.
            dtype: its data type, of at least 8 bits.
            initial: what it holds at first: an array, or a number for all elements; by default 0.
            grows: the axis along which `append` adds rows; the state is empty at first.  Without it, `update` replaces
                all of the state.

        Raises:
            GraphError, TensorError: a field is wrong.
        """
        declared = {"dtype": dtype, "sizes": kept(sizes)}
        with Report(node=self.names.shown(name)):
            desc = self.checker.describe(**declared)
            held, axis = initial_of(initial, desc, grows), axis_of(grows, desc)
            return self._add_source(StateNode(self.names.take(name), desc, declared, held, axis))

    def make_state(self, name: str, *, initial: Any = None) -> Value:
        """Turns an input into a state of its name: runs are not given it any more, and `update` makes its next value.

        Args:
            name: of the input.
            initial: as in `state`.

        Raises:
            GraphError: it is not an input that is given packed at every run, or `initial` does not fit.
        """
        node = self._network.node_of(self._graph.node(name).name)
        if not isinstance(node, InputNode) or node.desc.owned or node.declared["strides"] is not None:
            message = "is not an input that is given packed at every run"
            raise GraphError(message, code="not-an-input", node=name)
        with Report(node=name):
            self._network.replace(StateNode.of(node, initial_of(initial, node.desc, None)))
        return Value(self._graph, name, 0)

    def update(self, state: Value, value: Value) -> None:
        """Makes a value the next one of a state: runs after this one read it.

        Raises:
            GraphError: it has another data type or other sizes, the state grows, or it has a next value already.
        """
        node = self._changed(state, grows=False)
        self._check_next(node, value)

    def append(self, state: Value, rows: Value) -> None:
        """Puts rows behind those that a growing state has, after the run.

        Raises:
            GraphError: they do not fit it, the state does not grow, or it has rows to append already.
        """
        node = self._changed(state, grows=True)
        self._check_next(node, rows)

    def make_trainable(self, *patterns: str) -> list[Value]:
        """Turns constants into states of the same names, which hold the same at first: what training may change.

        The other constants stay as they are: no gradient of them is computed.

        Args:
            patterns: names of constants; `*` stands for any text, also for `/`.  Integers that a pattern with `*` means
                among others, such as indices, stay constants.

        Returns:
            The states, in the order of the graph.

        Raises:
            GraphError: a pattern means nothing, or a constant is quantized or not of floats; nothing has changed then.
        """
        return trainable.make_trainable(self._graph, patterns)

    def with_states(self, states: trainable.Arrays) -> Graph:
        """The graph with constants in the place of its states: what they hold in a set, such as `exe.states`.

        Growing states stay states.  What only changed the others is left out, such as gradients and what an optimizer
        keeps; so are the tests beside the graph.

        Args:
            states: a set of states, or a mapping from names to arrays; it may have others too.

        Raises:
            GraphError: the set lacks a state of the graph, or has it with another data type or other sizes.
        """
        return trainable.with_states(self._graph, states)

    @property
    def states(self) -> list[StateNode]:
        """The nodes of the states."""
        return [node for node in self._network.all_nodes() if isinstance(node, StateNode)]

    @property
    def next_values(self) -> dict[str, Value]:
        """The next value of every state that has one, by name; of a growing state, the rows that are appended."""
        return {name: Value(self._graph, node, port) for name, (node, port) in self._next.items()}

    @property
    def _graph(self) -> Graph:
        return cast("Graph", self)

    def _changed(self, state: Value, *, grows: bool) -> StateNode:
        """The node of a state that is updated, or appended to."""
        given = operands.own(self._graph, state, "state")
        node = self._network.node_of(given.node)
        if not isinstance(node, StateNode) or given.port:
            raise GraphError("is not a state", code="not-a-state", node=given.node, got=given.reference)
        if grows is not (node.grows is not None):
            field, message = ("append", "the state does not grow") if grows else ("next", "the state grows")
            hint = "update makes its next value, 'next' in a file" if grows else "append adds rows, also in a file"
            raise GraphError(message, code="conflict", node=node.name, field=field, hint=hint)
        if node.name in self._next:
            what = "rows are appended to it" if grows else "has a next value"
            raise GraphError(f"{what} already", code="duplicate", node=node.name, got=given.reference)
        return node

    def _check_next(self, node: StateNode, value: Value) -> None:
        """Notes the next value of a state, which must have its data type and sizes, but fewer rows may be appended."""
        field = "next" if node.grows is None else "append"
        value = operands.own(self._graph, value, f"{node.name}.{field}")
        check_next(node, value.desc)
        self._next[node.name] = value.node, value.port

    def _add_source(self, node: InputNode | StateNode | ConstantNode) -> Value:
        outputs = self.checker.known.shared(Outputs.of(node))
        references.check_meaning(self._network, node.name, outputs)
        self._network.insert(node, outputs, ())
        return Value(self._graph, node.name, 0)


def length_mask(state: Value, *, dtype: DataTypeLike | None = None, name: str | None = None) -> Value:
    """What to add to the scores of a growing state's rows so that only those count that it has.

    Args:
        state: it grows.
        dtype: a float type; by default the state's.
        name: the name of the last node.

    Returns:
        Sizes [capacity]: 0 for the rows before the state's length, the lowest number of the type for the others.

    Raises:
        GraphError: the state does not grow, or the type is not a float type.
    """
    graph = state.graph
    length, node = state.length, graph.node(state.node)
    assert isinstance(node, StateNode)
    assert node.grows is not None
    kind = node.desc.dtype if dtype is None else DataType.parse(dtype)
    if kind not in (DataType.FLOAT16, DataType.FLOAT32):
        raise GraphError("must be a float type", code="dtype", node=node.name, field="dtype", got=str(kind))
    sizes = [node.declared["sizes"][node.grows]]
    places = graph.fill_value_sequence(sizes=sizes, dtype="uint32", value_start=0, value_delta=1)
    numbers = (
        graph.fill_value_constant(sizes=[1], dtype=kind, value=value).broadcast_to(sizes)
        for value in (0, float(np.finfo(kind.numpy).min))
    )
    return calls.apply(ops.If, places < length.broadcast_to(sizes), *numbers, name=name)


def refuse_states(graph: StatefulGraph, what: str) -> None:
    """Raises a GraphError if a graph has states, which `what` cannot have."""
    for state in graph.states:
        hint = "make them inputs and outputs"
        raise GraphError(f"{what} cannot have states", code="states", node=state.name, hint=hint)
