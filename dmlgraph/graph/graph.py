"""Graph: operators, inputs and constants, and the edges between them.

    g = Graph("ramp_times_x")
    x = g.input("x", sizes=[2, 3], dtype="float32")
    ramp = g.fill_value_sequence(sizes=[2, 3], dtype="float32", value_start=3, value_delta=2)
    g.output("y", dg.activation_relu(x * ramp))

Every node is checked when it is added, at the graph's target feature level.  Sizes may be computed from dims; the
graph is built with their values, and `with_dims` builds it again with others.  A value can only be used after it
exists, so a graph has no cycles, and the order in which nodes were added is an execution order.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dmlgraph.base.errors import GraphError, listing, plural
from dmlgraph.base.expressions import Expression, Size
from dmlgraph.base.levels import NEWEST, FeatureLevel
from dmlgraph.base.read_only import ReadOnly
from dmlgraph.base.report import Report
from dmlgraph.base.tensor import DataTypeLike, TensorDesc
from dmlgraph.graph import calls, lint, operands, references
from dmlgraph.graph.checking import Checker
from dmlgraph.graph.constant_data import ConstantData, constant_array
from dmlgraph.graph.dims import Dims
from dmlgraph.graph.editing import EditableGraph, redeclared
from dmlgraph.graph.names import Names, check_name
from dmlgraph.graph.network import Network, Output, Outputs
from dmlgraph.graph.nodes import ConstantNode, InputNode, Node, OperatorNode, StateNode, kept
from dmlgraph.graph.origin import Origin
from dmlgraph.graph.scopes import Scope, check_scope
from dmlgraph.graph.sizes import Sizes
from dmlgraph.graph.uses import UsableGraph
from dmlgraph.graph.value import Value
from dmlgraph.operators.declaration.number_types import hint_on_numbers
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.declaration.signatures import signature
from dmlgraph.operators.diagonal import DiagonalMatrix, DiagonalMatrix1
from dmlgraph.operators.fill import FillValueConstant, FillValueSequence

if TYPE_CHECKING:
    from dmlgraph.training.custom_gradient import OwnGradient


def _source(operator: type[Operator]) -> Callable[..., Value]:
    """A method of Graph that adds a source; it has the operator's signature, with keyword arguments only."""

    def method(self: Graph, *tensors: Any, name: str | None = None, **fields: Any) -> Value:
        given = calls.take_tensors(operator, tensors, fields)
        (value,) = calls.add(self, operator, given, fields, name)
        assert value is not None
        return value

    plain = signature(operator)
    receiver = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    method.__signature__ = plain.replace(parameters=[receiver, *plain.parameters.values()])  # type: ignore[attr-defined]
    method.__name__ = method.__qualname__ = operator.function_name()
    method.__doc__ = operator.__doc__
    return method


class Graph(EditableGraph, UsableGraph):
    """A DirectML graph that is being built.

    Args:
        name: the graph's name in messages and in DirectML.
        target: the feature level at which every node must be legal, such as "5.0"; by default the newest known.
        dims: values of names that can be used as sizes.
        allow: codes of warnings that are not reported, such as "unused-input".
    """

    def __init__(
        self,
        name: str = "graph",
        *,
        target: str | FeatureLevel | None = None,
        dims: Mapping[str, int] | None = None,
        allow: Iterable[str] = (),
    ) -> None:
        if not isinstance(name, str) or not name or not name.isprintable():
            raise GraphError("is not a name", code="name", field="name", got=name, allowed="printable text")
        self.name = name
        self.target = None if target is None else FeatureLevel.parse(target)
        self.allow = lint.allowed(allow) if allow != () else ()
        self._dims = Dims(dims)
        self._network = Network()
        self._outputs: dict[str, Output] = {}  # by name
        self._next = {}
        self._sizes: Sizes | None = None  # made when a size is asked for as an expression
        self.checker = Checker(self._dims, self.level)
        self.names = Names(self._network)
        self.origin = Origin()
        self.own_gradients: tuple[OwnGradient, ...] = ()  # files do not have them

    # Scopes.

    def scope(self, name: str) -> Scope:
        """Puts `name/` before the names of what is made inside: inputs, constants, nodes and outputs.

            with g.scope("encoder"):
                h = dg.activation_relu(x, name="h")  # encoder/h

        Names that are given and names that are derived from operators get it; scopes inside one another add up.  A
        scope may be entered again.

        Raises:
            GraphError: it is not a name.
        """
        check_scope(name)
        return Scope(self, name)

    # Sources.

    def input(
        self,
        name: str,
        *,
        sizes: Sequence[Size],
        dtype: DataTypeLike,
        strides: Sequence[Size] | None = None,
        owned: bool = False,
    ) -> Value:
        """A tensor given at every run; `owned`: the device takes it once, at the first run."""
        declared = {"dtype": dtype, "sizes": kept(sizes), "strides": kept(strides), "owned": owned}
        with Report(node=self.names.shown(name)):
            desc = self.checker.describe(**declared)
            return self._add_source(InputNode(self.names.take(name), desc, declared))

    def constant(self, name: str, data: Any, *, dtype: DataTypeLike | None = None) -> Value:
        """A tensor known in advance: an array, or numbers with a `dtype`; copies the data, unless it lies in `bytes`.

        With a `dtype`, numbers are converted by the rules of `dmlgraph.base.scalar`: floats are rounded, and a number
        that the type cannot hold is an error.  Truth values become uint8, and an array without dimensions one element.
        """
        with Report(node=self.names.shown(name)):
            array, desc = constant_array(data, dtype)
            return self._add_source(ConstantNode(self.names.take(name), desc, ConstantData(array)))

    def array(self, data: Any, dtype: DataTypeLike | None = None) -> Value:
        """A constant, as in `constant`, whose name is found: what an array in place of a tensor becomes."""
        array, desc = constant_array(data, dtype)
        return self._add_source(ConstantNode(self.names.free("constant"), desc, ConstantData(array)))

    fill_value_constant = _source(FillValueConstant)
    fill_value_sequence = _source(FillValueSequence)
    diagonal_matrix = _source(DiagonalMatrix)
    diagonal_matrix1 = _source(DiagonalMatrix1)

    # Operators and outputs.

    def add(
        self,
        operator: type[Operator],
        tensors: Mapping[str, Any],
        attributes: Mapping[str, Any],
        outputs: Mapping[str, Any],
        name: str | None = None,
    ) -> tuple[Value | None, ...]:
        """Adds a node and returns its outputs in binding order, None for outputs that are left out.

        The functions of `dmlgraph` are a more convenient way to call this.

        Args:
            operator: its class.
            tensors: input field → Value, number, sequence of these, or None.
            attributes: the other fields, validated here; numbers in them may be expressions over dims.
            outputs: output field → requests (`{"dtype": …, "sizes": …, "strides": …}`).
            name: the node's name; by default derived from the operator's.

        Raises:
            DmlGraphError: the node is wrong; its problems have the node and field.
        """
        count = len(self._network)
        name = self.names.free(operator.name) if name is None else self.names.take(name)
        try:
            return self._add_operator(name, operator, tensors, attributes, outputs)
        except Exception:
            # A refused node leaves no trace: neither the fills made of its numbers nor its name.
            fills = list(self._network)[count:]
            self._network.remove_nodes_from(fills)
            for each in (*fills, name):
                self.names.release(each)
            raise

    def _add_operator(
        self,
        name: str,
        operator: type[Operator],
        tensors: Mapping[str, Any],
        attributes: Mapping[str, Any],
        outputs: Mapping[str, Any],
    ) -> tuple[Value | None, ...]:
        with Report(node=name, place=hint_on_numbers(tensors)) as report:
            node, written, sources = self.described(name, operator, tensors, attributes, outputs, report)
        references.check_meaning(self._network, name, written)
        self._network.insert(node, written, sources)
        return tuple(
            None if desc is None else Value.known(self, name, port, desc) for port, desc in enumerate(written.descs)
        )

    def described(
        self,
        name: str,
        operator: type[Operator],
        tensors: Mapping[str, Any],
        attributes: Mapping[str, Any],
        outputs: Mapping[str, Any],
        report: Report,
    ) -> tuple[OperatorNode, Outputs, tuple[Output | None, ...]]:
        """A node that is not in the graph yet, its outputs, and what it reads; the rest is as in `add`."""
        values = operands.values(self, operator, tensors, outputs)
        descs = {field: _describe(value) for field, value in values.items()}
        if attributes or outputs:
            attributes, outputs = kept(attributes), kept(outputs)
        node, written = self.checker.node(name, operator, descs, attributes, outputs, report)
        sources: list[Output | None] = []
        for value in values.values():
            if isinstance(value, list):
                sources += [(each.node, each.port) for each in value]
            else:
                sources.append(None if value is None else (value.node, value.port))
        return node, written, tuple(sources)

    def output(self, name: str, value: Value) -> None:
        """Makes a value an output of the graph."""
        if not isinstance(value, Value):
            raise GraphError(
                operands.NOT_A_VALUE,
                code="not-a-value",
                field=f"outputs.{name}",
                got=value,
                hint=operands.one_of(value),
            )
        operands.own(self, value)
        check_name(name)
        name = self.names.in_scope(name)
        if name in self._outputs:
            raise GraphError("there is already an output of this name", code="duplicate", field=f"outputs.{name}")
        self._outputs[name] = value.node, value.port

    def remove_unread(self, count: int, wanted: Iterable[Value]) -> None:
        """Removes the nodes after the first `count` on which no wanted value depends."""
        kept = self._network.upstream(value.node for value in wanted)
        self._remove(name for name in list(self._network)[count:] if name not in kept)

    def remove_dead(self, live: set[str]) -> None:
        """Removes those of some nodes on which no output and no state depends any more."""
        self._remove(live - self.live_nodes())

    def _remove(self, names: Iterable[str]) -> None:
        """Removes nodes that nothing else reads."""
        removed = list(names)
        self._network.remove_nodes_from(removed)
        self.forget(removed)

    def forget(self, removed: Collection[str]) -> None:
        """Lets other nodes get the names of removed ones, and forgets sizes that may have changed."""
        self._sizes = None
        if not removed:
            return
        for name in removed:
            self.names.release(name)
        self.origin.forget(removed)
        left = (each.within(self) for each in self.origin.workarounds)
        self.origin.workarounds = tuple(each for each in left if each is not None)
        own = (each.without(removed) for each in self.own_gradients)
        self.own_gradients = tuple(each for each in own if each is not None)

    def replace_source(self, node: StateNode | ConstantNode) -> None:
        """Puts a state or a constant in the place of the one of its name, which has the same description."""
        self._network.replace(node)

    def dim(self, name: str) -> Expression:
        """A dim as a number to compute with: `sizes=[g.dim("heads") * g.dim("depth")]`.

        Arithmetic on it gives expressions that follow the dim's size; text such as "1 / sqrt(depth)" is the same.
        """
        return self._dims.dim(name)

    # Queries.

    @property
    def dims(self) -> dict[str, int]:
        """The sizes of the dims, by name."""
        return ReadOnly(self._dims.values, "g.with_dims({…}) is the same graph with other sizes")

    @property
    def level(self) -> FeatureLevel:
        """The level at which nodes are checked."""
        return NEWEST if self.target is None else self.target

    @property
    def nodes(self) -> list[Node]:
        """All nodes in execution order."""
        return self._network.all_nodes()

    @property
    def inputs(self) -> list[InputNode]:
        return [node for node in self.nodes if isinstance(node, InputNode)]

    @property
    def outputs(self) -> dict[str, Value]:
        """The outputs by name; `output` and `remove_output` change them."""
        values = {name: Value(self, node, port) for name, (node, port) in self._outputs.items()}
        return ReadOnly(values, "g.output(name, value) and g.remove_output(name) change the outputs")

    @property
    def output_descs(self) -> dict[str, TensorDesc]:
        """The descriptions of the outputs, by name."""
        return {name: value.desc for name, value in self.outputs.items()}

    def node(self, name: str) -> Node:
        """The node of this name; raises GraphError if no node has it."""
        references.check_node(self._network, name)
        return self._network.node_of(name)

    def desc(self, name: str, port: int) -> TensorDesc:
        """The description of an output of a node.

        Raises:
            GraphError: the node or the output does not exist, or the output is left out.
        """
        return references.desc_of(self._network, name, port)

    def shape(self, name: str, port: int) -> tuple[int, ...]:
        """The sizes of an output of a node; those that follow dims are expressions in whatever is made of them.

        Raises:
            GraphError: as `desc`.
        """
        if not self._dims.values:
            return self.desc(name, port).sizes
        if self._sizes is None:
            self._sizes = Sizes(self)
        return self._sizes.of(self, name, port)

    def producers(self, name: str) -> list[tuple[str, int, int]]:
        """The sources of a node: (node, its output port, the input port here), by input port."""
        return self._network.producers(name)

    def sources(self, name: str) -> tuple[Output | None, ...]:
        """What a node reads, by input port; None where an optional tensor is left out."""
        return self._network.sources_of(name)

    def writes(self, value: Value) -> bool:
        """Whether a node of the graph writes a value of this graph."""
        return self._network.writes(value.node, value.port, value.desc)

    def live_nodes(self) -> set[str]:
        """The names of the nodes on which an output or the next value of a state depends."""
        return self._network.upstream(node for node, _ in (*self._outputs.values(), *self._next.values()))

    def upstream(self, name: str) -> set[str]:
        """The names of a node and of all nodes on which it depends."""
        self.node(name)
        return self._network.upstream([name])

    def reference(self, name: str, port: int) -> str:
        """The reference to an output of a node in a graph file."""
        self.node(name)
        return name + self._network.outputs_of(name).paths[port]

    def value(self, reference: str) -> Value:
        """The value of a reference in a graph file: `node`, `node.output_index`, `node.outputs.1`.

        Raises:
            GraphError: the node does not exist, or has several outputs and the reference names none or an unknown one.
        """
        name, port, desc = references.resolved(self._network, reference)
        return Value(self, name, port) if desc is None else Value.known(self, name, port, desc)

    # Other forms.

    def with_dims(self, dims: Mapping[str, int]) -> Graph:
        """The same graph with other values for some of its dims.

        Raises:
            GraphError: a dim is unknown, or decides how many nodes the graph has.
            DmlGraphError: the graph is not legal with these sizes.
        """
        self.origin.check_changed(self._dims.changed(dims), self.dims)
        other = redeclared(self, self._dims.changed(dims), {})
        other._dims.used |= self._dims.used  # sizes of constants do not keep the names
        return other

    def __copy__(self) -> Graph:
        """An independent graph with the same nodes, which never change."""
        other = Graph.__new__(type(self))
        other.__dict__.update(vars(self))
        other._dims, other._network, other._outputs = self._dims.copy(), self._network.copy(), dict(self._outputs)
        other._next, other._sizes = dict(self._next), None
        other.checker = self.checker.copy(other._dims)
        other.names, other.origin = self.names.copy(other._network), self.origin.copy()
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Graph:
        memo[id(self)] = other = self.__copy__()
        return other

    def __repr__(self) -> str:
        return f"<Graph {self.name}: {plural(len(self._network), 'node')}, outputs {listing(self._outputs) or 'none'}>"


def _describe(value: Any) -> TensorDesc | tuple[TensorDesc, ...] | None:
    if isinstance(value, list):
        return tuple(each.desc for each in value)
    return None if value is None else value.desc
