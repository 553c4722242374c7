"""Editing: graphs that change after they are built, and parts of graphs.

    new = g.insert_after(h, dg.activation_relu)     # whoever read h reads relu(h) from now on
    g.replace(g.value("head"), dg.gemm(new, w))     # whoever read the head reads another one
    g.set("softmax", axes=[2])                      # other fields
    encoder = g.cut(outputs=["encoder/11/add"])     # a part as a graph of its own

Whatever depends on a change is checked again, with sizes and data types that are inferred again.  A change that makes a
node wrong is refused, and changes nothing.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import networkx as nx

from dmlgraph.base.errors import GraphError, listing, suggestion
from dmlgraph.base.report import Report
from dmlgraph.graph import calls, operands, references
from dmlgraph.graph.checking import Checker
from dmlgraph.graph.constant_data import ConstantData, constant_array
from dmlgraph.graph.dims import Dims
from dmlgraph.graph.names import check_name
from dmlgraph.graph.network import Network, Output, Outputs
from dmlgraph.graph.nodes import ConstantNode, InputNode, Node, OperatorNode, StateNode, kept
from dmlgraph.graph.state_rules import axis_of, check_next, initial_of
from dmlgraph.graph.states import StatefulGraph
from dmlgraph.graph.value import Value
from dmlgraph.operators.declaration.fields import Role

if TYPE_CHECKING:
    from dmlgraph.graph.graph import Graph

Read = tuple[Output | None, ...]  # what a node reads, by input port


class EditableGraph(StatefulGraph):
    """The part of a `Graph` that changes what is built.

    A value may be given as its reference, and a node by its name or by one of its values.  Values of nodes that a
    change describes anew are no longer valid: `g.value(reference)` gives them again.  The tests beside the graph stay,
    but for those of inputs and states that are removed, and what they expect of removed outputs.
    """

    _outputs: dict[str, Output]  # by name

    def replace(self, old: Value | str, new: Value | str) -> None:
        """Lets everything that reads a value read another one: nodes, outputs and next values of states.

        The nodes on which the new value depends go on reading the old one.  If nothing reads the node of the old value
        then, it is removed, with what only it needed, but inputs and states stay.

        Raises:
            DmlGraphError: a node, or a state, does not take the new value; nothing has changed then.
        """
        given, other = self._value(old, "old"), self._value(new, "new")
        self._redirect(given, other, self._graph.upstream(other.node))

    def insert_after(self, value: Value | str, function: Callable[[Value], Value]) -> Value:
        """Lets everything that reads a value read what a function makes of it, and returns that.

        Raises:
            DmlGraphError: as in `replace`, or from the function; nothing has changed then.
        """
        given, count = self._value(value, "value"), len(self._network)
        with self.undoing():
            made = operands.own(self._graph, function(given), "function")
            self._redirect(given, made, {*self._graph.upstream(made.node), *list(self._network)[count:]})
        return made

    def remove(self, *nodes: Value | str) -> None:
        """Removes nodes that nothing else reads, and what only they needed; other inputs and states stay.

        Raises:
            GraphError: something reads one of them; it is named.
        """
        draft = Draft(self._graph)
        draft.remove([self._name(each) for each in nodes])
        draft.finish(self._graph)

    def remove_output(self, name: str) -> None:
        """Takes an output off the graph, with what tests expect of it; its nodes stay.

        Raises:
            GraphError: no output has this name.
        """
        if name not in self._outputs:
            hint = suggestion(name, self._outputs)
            raise GraphError("is not an output of the graph", code="unknown-output", field=f"outputs.{name}", hint=hint)
        del self._outputs[name]
        self._graph.origin.forget_output(name)

    def take_over(self, name: str, value: Value, count: int) -> None:
        """Lets a node compute what the node of a value does, of the same description; whoever reads it reads that then.

        The node of the value, which nothing reads, is removed; the other nodes after the first `count` come before it.
        """
        assert value.desc == self._graph.desc(name, 0)
        draft = Draft(self._graph)
        draft.take_over(name, value.node)
        draft.finish(self._graph)

    def stand_in(self, name: str, values: Sequence[Value | None]) -> None:
        """Lets whoever reads an output of a node read a value of the same description, by port; the node is removed."""
        draft = Draft(self._graph)
        for port, value in enumerate(values):
            if value is not None:
                assert value.desc == self._graph.desc(name, port)
                draft.redirect((name, port), (value.node, value.port))
        draft.discard([name])
        draft.finish(self._graph)

    def set(self, node: Value | str, **fields: Any) -> None:
        """Changes fields of a node: `g.set("softmax", axes=[2])`, `g.set("x", sizes=["N", 3])`, `g.set("w", data=w)`.

        Args:
            node: an operator, input, state or constant.
            **fields: by their names in graph files; None for a field that is left out from now on.  Of an operator its
                attributes, its tensors, and requests for its outputs; of an input `dtype sizes strides owned`; of a
                state `dtype sizes initial grows`; of a constant `data dtype`.

        Raises:
            DmlGraphError: the node, or one that depends on it, is not legal with them; nothing has changed then.
        """
        name = self._name(node)
        with self.undoing(), Report(node=name):
            made, read = self._with_fields(self._network.node_of(name), fields)
            draft = Draft(self._graph)
            draft.nodes[name], draft.sources[name] = made, read
            draft.finish(self._graph)

    def cut(
        self,
        outputs: Mapping[str, Value | str] | Iterable[Value | str],
        inputs: Mapping[str, Value | str] | Iterable[Value | str] = (),
    ) -> Graph:
        """A part as a graph of its own, with the dims, states and constants that it needs; this one stays as it is.

        A state of the part changes as before: what computes its next value belongs to the part.  The tests beside the
        graph, and what it says of training, stay with the whole.

        Args:
            outputs: values, references, or names of outputs; by name, else named by their references.
            inputs: values that are computed elsewhere: inputs of the part, of these names or those of their nodes.
                Those of the graph's own inputs that the part still reads are inputs, too.

        Raises:
            GraphError: a value does not exist, or the outputs do not depend on one of the inputs.
        """
        wanted = self._named(outputs, "outputs", lambda value: value.reference)
        given = self._named(inputs, "inputs", lambda value: value.reference.replace(".", "_"))
        other = copy.copy(self._graph)
        other._dims = Dims(self._graph.dims)
        other.checker = Checker(other._dims, other.level)
        other.origin = dataclasses.replace(other.origin, tests={}, training=None, remarks=())
        draft = Draft(other)
        draft.cut({name: (value.node, value.port) for name, value in wanted.items()}, given)
        draft.finish(other, again=True)
        other._dims.values = {dim: size for dim, size in other.dims.items() if dim in other._dims.used}
        return other

    def _redirect(self, old: Value, new: Value, keeping: Iterable[str]) -> None:
        if (old.node, old.port) == (new.node, new.port):
            return
        draft = Draft(self._graph)
        draft.redirect((old.node, old.port), (new.node, new.port), frozenset(keeping))
        draft.discard([old.node])
        draft.finish(self._graph)

    def _with_fields(self, node: Node, fields: Mapping[str, Any]) -> tuple[Node, Read]:
        """A node with other fields, and what it reads."""
        if not isinstance(node, OperatorNode):
            return _source_with(self.checker, node, fields), ()
        operator, graph = type(node.operator), self._graph
        sources = {port: Value(graph, *source) for port, source in enumerate(graph.sources(node.name)) if source}
        tensors = node.operator.by_field(Role.INPUT, sources)
        given = {field: value for field, value in fields.items() if field not in tensors}
        attributes, outputs = calls.sorted_fields(operator, given, node.name)
        left_out = {field for field, value in given.items() if value is None}
        attributes, outputs = (
            {field: value for field, value in {**before, **changed}.items() if field not in left_out}
            for before, changed in ((node.attributes, attributes), (node.outputs, outputs))
        )
        tensors |= {field: self._read(value, field) for field, value in fields.items() if field in tensors}
        with Report(node=node.name) as report:
            made, _, read = graph.described(node.name, operator, tensors, attributes, outputs, report)
        return made, read

    def _read(self, given: Any, field: str) -> Any:
        """What is given for a tensor, or a list of tensors: references stand for values."""
        if isinstance(given, (list, tuple)):
            return [self._read(each, f"{field}.{place}") for place, each in enumerate(given)]
        with Report(field=field):
            return self._graph.value(given) if isinstance(given, str) else given

    def _name(self, node: Value | str) -> str:
        """The name of a node that is given by it or by a value."""
        return operands.own(self._graph, node).node if isinstance(node, Value) else self._graph.node(node).name

    def _value(self, given: Value | str, field: str) -> Value:
        return self._graph.value(given) if isinstance(given, str) else operands.own(self._graph, given, field)

    def _named(
        self, given: Mapping[str, Value | str] | Iterable[Value | str], field: str, name: Callable[[Value], str]
    ) -> dict[str, Value]:
        """Values by the names that they get."""
        if isinstance(given, (str, Value)) or not isinstance(given, Iterable):
            raise GraphError("takes a list of values", code="kind", field=field, got=given, hint=f"{field}=[…]")
        pairs: Iterable[tuple[str | None, Value | str]]
        pairs = given.items() if isinstance(given, Mapping) else [(None, each) for each in given]
        found: dict[str, Value] = {}
        known = self._graph.outputs
        for key, each in pairs:
            with Report(GraphError, field=field):
                is_output = isinstance(each, str) and each in known and self._network.find(each) is None
                value = known[str(each)] if is_output else self._value(each, "")
                chosen = key if key is not None else str(each) if is_output else name(value)
                check_name(chosen)
                if chosen in found:
                    raise GraphError("is given twice", code="duplicate", got=chosen)
                found[chosen] = value
        return found

    @contextlib.contextmanager
    def undoing(self) -> Iterator[None]:
        """Removes the nodes that are made inside, should it fail."""
        count = len(self._network)
        try:
            yield
        except BaseException:
            self._graph.remove_unread(count, [])
            raise


class Draft:
    """The nodes of a graph and what reads them: changed at will, then checked again.

    Attributes:
        nodes: by name.
        sources: what each reads.
        outputs: those of the graph.
        next: the next value of each state that has one.
    """

    def __init__(self, graph: Graph) -> None:
        network = graph._network
        self.nodes = {name: network.node_of(name) for name in network}
        self.sources = {name: network.sources_of(name) for name in network}
        self.outputs, self.next = dict(graph._outputs), dict(graph._next)
        self._own = graph.own_gradients

    def redirect(self, old: Output, new: Output, keeping: frozenset[str] = frozenset()) -> None:
        """Lets everything that reads an output read another one, but some nodes."""

        def there(source: Output | None) -> Output | None:
            return new if source == old else source

        for name, sources in self.sources.items():
            if old in sources and name not in keeping:
                self.sources[name] = tuple(map(there, sources))
        for named in (self.outputs, self.next):
            named.update((name, new) for name, source in named.items() if source == old)
        self._own = tuple(
            own
            if own.nodes & keeping
            else dataclasses.replace(own, inputs=tuple(new if each == old else each for each in own.inputs))
            for own in self._own
        )

    def take_over(self, name: str, other: str) -> None:
        """Lets a node be what another one is, which is removed; nothing reads that one."""
        self.nodes[name] = dataclasses.replace(self.nodes.pop(other), name=name)
        self.sources[name] = self.sources.pop(other)

    def remove(self, names: Sequence[str]) -> None:
        """Removes nodes that only one another read, and what only they need."""
        freed: list[str] = []
        for name in dict.fromkeys(names):
            del self.nodes[name]
            freed += [each[0] for each in (*self.sources.pop(name), self.next.pop(name, None)) if each is not None]
        self.discard(freed)
        gone = set(names)
        readers = [name for name, sources in self.sources.items() if any(each and each[0] in gone for each in sources)]
        readers += [f"the output '{name}'" for name, (node, _) in self.outputs.items() if node in gone]
        readers += [f"the state '{name}'" for name, (node, _) in self.next.items() if node in gone]
        if readers:
            raise GraphError(
                "something reads it",
                code="conflict",
                node=listing(names, at_most=8),
                got=listing(readers, at_most=8),
                hint="g.replace gives its readers another value; g.remove_output(name) makes it no output any more",
            )

    def discard(self, names: Iterable[str]) -> None:
        """Removes those operators and constants of some nodes that nothing reads, and what only they need."""
        readers = collections.Counter(each[0] for sources in self.sources.values() for each in sources if each)
        readers.update(node for named in (self.outputs, self.next) for node, _ in named.values())
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if not readers[name] and isinstance(self.nodes.get(name), (OperatorNode, ConstantNode)):
                del self.nodes[name]
                read = [each[0] for each in self.sources.pop(name) if each]
                readers.subtract(read)
                waiting += read

    def cut(self, outputs: Mapping[str, Output], inputs: Mapping[str, Value]) -> None:
        """Leaves only what some outputs need; inputs stand for values that are computed elsewhere."""
        ends = {(value.node, value.port): name for name, value in inputs.items()}
        needed: set[str] = set()
        reached: set[Output] = set()
        waiting: list[Output | None] = list(outputs.values())
        while waiting:
            source = waiting.pop()
            if source is None or source in reached:
                continue
            reached.add(source)
            if source not in ends and source[0] not in needed:
                needed.add(source[0])
                waiting += [*self.sources[source[0]], self.next.get(source[0])]
        for end, name in ends.items():
            if end not in reached:
                message = "the outputs do not depend on this input"
                raise GraphError(message, code="conflict", field="inputs", got=name, hint="leave it out")
            if name in needed:
                raise GraphError("is also a node of the part", code="duplicate", field="inputs", got=name)
        before, self.outputs = self.nodes, dict(outputs)
        self.nodes = {name: _input_of(name, value, before) for name, value in inputs.items()}
        self.nodes |= {name: node for name, node in before.items() if name in needed}
        self.sources = {name: self.sources[name] if name in needed else () for name in self.nodes}
        self.next = {name: source for name, source in self.next.items() if name in needed}
        for end, name in ends.items():
            self.redirect(end, (name, 0))

    def finish(self, graph: Graph, *, again: bool = False) -> None:
        """Gives a graph these nodes: those that change, and those that read other descriptions then, are checked.

        Args:
            graph: stays as it is if this fails.
            again: whether to check all of them.

        Raises:
            GraphError: they form a cycle, or a state does not take its next value.
            DmlGraphError: a node is wrong.
        """
        before, network = graph._network, Network()
        for name in self._in_order():
            node, sources, outputs = self.nodes[name], self.sources[name], before.find(name)
            if again or outputs is None or not _is_same(node, sources, before, network):
                node, written = checked(graph.checker, node, sources, network)
                if outputs is None:
                    references.check_meaning(network, name, written)
                outputs = written
            network.insert(node, outputs, sources)
        for name, (source, port) in self.next.items():
            state, desc = network.node_of(name), network.outputs_of(source).descs[port]
            assert isinstance(state, StateNode)
            assert desc is not None
            check_next(state, desc)
        names, removed = graph.names.copy(network), set(before) - set(network)
        names.scopes = graph.names.scopes
        graph._network, graph.names, graph._outputs, graph._next = network, names, self.outputs, self.next
        graph.own_gradients = self._own
        graph.forget(removed)

    def _in_order(self) -> list[str]:
        """The names so that each comes after what it reads: in their order, but sources that come later move up."""
        known: set[str] = set()
        for name, sources in self.sources.items():
            if not all(each is None or each[0] in known for each in sources):
                break
            known.add(name)
        else:
            return list(self.nodes)
        reads: nx.DiGraph[str] = nx.DiGraph()
        reads.add_nodes_from(self.nodes)
        reads.add_edges_from((name, each[0]) for name, sources in self.sources.items() for each in sources if each)
        if not nx.is_directed_acyclic_graph(reads):
            circle = [name for _, name in reversed(nx.find_cycle(reads))]
            message, shown = "nodes would form a cycle", " → ".join([*circle, circle[0]])
            raise GraphError(message, code="cycle", node=circle[0], got=shown)
        return list(nx.dfs_postorder_nodes(reads))


def redeclared(graph: Graph, dims: Mapping[str, int], nodes: Mapping[str, Node]) -> Graph:
    """The same graph with other dims, and with other nodes in place of those of their names.

    Raises:
        DmlGraphError: it is not legal.
    """
    other = copy.copy(graph)
    other._dims = Dims(dims)
    other.checker = Checker(other._dims, other.level)
    draft = Draft(other)
    draft.nodes.update(nodes)
    draft.finish(other, again=True)
    return other


def _is_same(node: Node, sources: Read, before: Network, network: Network) -> bool:
    """Whether a node has what it had, and reads the same descriptions."""
    if before.node_of(node.name) is not node or before.sources_of(node.name) != sources:
        return False
    return all(
        each is None or before.outputs_of(each[0]).descs[each[1]] is network.outputs_of(each[0]).descs[each[1]]
        for each in sources
    )


def checked(checker: Checker, node: Node, sources: Read, network: Network) -> tuple[Node, Outputs]:
    """A node with the dims of a checker and what it reads in a network, and its outputs."""
    with Report(node=node.name) as report:
        if isinstance(node, OperatorNode):
            read = {port: network.outputs_of(each[0]).descs[each[1]] for port, each in enumerate(sources) if each}
            descs = node.operator.by_field(Role.INPUT, read)
            return checker.node(node.name, type(node.operator), descs, node.attributes, node.outputs, report)
        if not isinstance(node, ConstantNode):
            node = _described(checker, node)
        return node, checker.known.shared(Outputs.of(node))


def _described(checker: Checker, node: InputNode | StateNode) -> InputNode | StateNode:
    """An input or a state with its sizes as its declaration says them."""
    desc = checker.describe(**node.declared)
    if isinstance(node, StateNode) and desc != node.desc:
        return dataclasses.replace(node, desc=desc, initial=initial_of(node.initial, desc, node.grows))
    return dataclasses.replace(node, desc=desc)


def _input_of(name: str, value: Value, nodes: Mapping[str, Node]) -> Node:
    """The input that stands for a value; an input stands for itself."""
    node = nodes[value.node]
    declared = {"dtype": value.dtype, "sizes": kept(value.shape), "strides": None, "owned": False}
    if isinstance(node, InputNode):
        declared = dict(node.declared)
    return InputNode(name, value.desc, declared)


_FIELDS: dict[type[Node], tuple[str, ...]] = {
    InputNode: ("dtype", "sizes", "strides", "owned"),
    StateNode: ("dtype", "sizes", "initial", "grows"),
    ConstantNode: ("data", "dtype"),
}


def _source_with(checker: Checker, node: InputNode | StateNode | ConstantNode, fields: Mapping[str, Any]) -> Node:
    """An input, state or constant with other fields."""
    known = _FIELDS[type(node)]
    for field in fields:
        if field not in known:
            raise GraphError(
                "is not known here",
                code="unknown-field",
                field=field,
                allowed=listing(known),
                hint=suggestion(field, known),
            )
    if isinstance(node, ConstantNode):
        dtype = fields.get("dtype")
        array, desc = constant_array(fields.get("data", node.data), dtype)
        return ConstantNode(node.name, desc, ConstantData(array))
    declared = {field: kept(fields.get(field, value)) for field, value in node.declared.items()}
    if isinstance(node, InputNode):
        return InputNode(node.name, checker.describe(**declared), declared)
    desc = checker.describe(**declared)
    grows = axis_of(fields.get("grows", node.grows), desc)
    return StateNode(node.name, desc, declared, initial_of(fields.get("initial", node.initial), desc, grows), grows)
