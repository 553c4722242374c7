"""Gradients of the user's own, for what a function makes.

@dg.custom_gradient(lambda inputs, outputs, gradients: [-each for each in gradients])
def reversed_gradient(x):
    return x
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from dmlgraph.base.errors import DmlGraphError, GraphError
from dmlgraph.base.tensor import broadcast_sizes
from dmlgraph.graph import operands
from dmlgraph.graph.value import Value

if TYPE_CHECKING:
    from dmlgraph.graph.graph import Graph

Port = tuple[str, int]  # an output of a node
Rule = Callable[[list[Value], list[Value], list[Value | None]], Sequence[Value | None]]
Function = TypeVar("Function", bound=Callable[..., Any])


def custom_gradient(rule: Rule) -> Callable[[Function], Function]:
    """Makes of a function that makes nodes one whose derivative is a rule; what is in it is not differentiated.

    Values that the function is given by position are its inputs.  Its nodes are in a scope of its name.

    Args:
        rule: makes nodes too.  It gets lists of the inputs, of the outputs, and of the outputs' gradients, which are
            None for integers.  It returns the gradient of each input: of the input's data type, with its sizes or
            what broadcasts to them; None for zeros.

    Returns:
        A decorator.  The function that it makes returns what the given one returns: a value, or a list of values.

    Raises:
        GraphError: no value is given, or something else than values is returned.  `dg.gradient` raises it where the
            rule's results do not fit, where the function reads a value on the way that it is not given, or where the
            way leads through one that it does not return.
    """

    def decorate(function: Function) -> Function:
        name = getattr(function, "__name__", "custom").strip("<>")

        @functools.wraps(function)
        def made(*given: Any, **keywords: Any) -> Any:
            inputs = [each for each in given if isinstance(each, Value)]
            if not inputs:
                raise GraphError("needs at least one value of a graph", code="missing", node=name)
            graph = inputs[0].graph
            count = len(graph.nodes)
            with graph.scope(name):
                result = function(*given, **keywords)
                outputs = _returned(graph, name, result, {node.name for node in graph.nodes[count:]})
            nodes = frozenset(node.name for node in graph.nodes[count:])
            ports = tuple(map(port_of, inputs)), tuple(map(port_of, outputs))
            graph.own_gradients = (*graph.own_gradients, OwnGradient(name, nodes, *ports, rule))
            return outputs[0] if isinstance(result, Value) else outputs

        return made  # type: ignore[return-value]  # a tuple becomes a list

    return decorate


def straight_through(function: Function) -> Function:
    """A decorator: the gradient passes unchanged what a function makes, such as quantization.

        @dg.straight_through
        def quantized(x):
            return dg.round(x * 16) * (1 / 16)

    The function returns as many values as it is given, with their data types and sizes.  See `dg.custom_gradient`.
    """
    return custom_gradient(lambda inputs, outputs, gradients: gradients)(function)


@dataclasses.dataclass(frozen=True)
class OwnGradient:
    """Nodes that have a rule together.

    Attributes:
        name: of the function that made them.
        nodes: their names.
        inputs, outputs: of all of them together.
        rule: see `custom_gradient`.
    """

    name: str
    nodes: frozenset[str]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    rule: Rule

    def without(self, removed: Iterable[str]) -> OwnGradient | None:
        """The same after nodes were removed from the graph, whose names others may get; None if none is left."""
        nodes = self.nodes.difference(removed)
        return dataclasses.replace(self, nodes=nodes) if nodes else None

    def check(self, graph: Graph, node: str, varying: set[Port]) -> None:
        """Refuses what a node reads past this rule: its gradient would be lost.

        Raises:
            GraphError: it is one of these nodes and reads what varies and is not an input, or it is another one and
                reads what is not an output.
        """
        for source in filter(None, graph.sources(node)):
            inside = source[0] in self.nodes
            if node in self.nodes and not inside and source in varying and source not in self.inputs:
                self._refuse(node, Value(graph, *source), "reads a value that it is not given", "give it by position")
            if node not in self.nodes and inside and source not in self.outputs:
                self._refuse(node, Value(graph, *source), "is read past its outputs", "let the function return it")

    def _refuse(self, node: str, value: Value, what: str, hint: str) -> None:
        message = f"'{self.name}', which has a gradient of its own, {what}"
        raise GraphError(message, code="no-derivative", node=node, got=value.reference, hint=hint)

    def check_target(self, graph: Graph, target: Value, field: str) -> None:
        """Refuses a value inside as one by which a loss is differentiated.

        Raises:
            GraphError: it is one.
        """
        if target.node in self.nodes and port_of(target) not in self.outputs:
            message = f"is inside of '{self.name}', which has a gradient of its own"
            hint = "let the function take it, or return it"
            raise GraphError(message, code="no-derivative", field=field, got=target.reference, hint=hint)

    def gradients(
        self, graph: Graph, found: Sequence[Value | None], read: Callable[[Value], Value]
    ) -> list[Value | None]:
        """The gradients of the inputs, from those of the outputs; `read` gives the values that the rule gets.

        Raises:
            GraphError: the rule returns something else.
        """
        inputs, outputs = ([Value(graph, *port) for port in ports] for ports in (self.inputs, self.outputs))
        made = self.rule([*map(read, inputs)], [*map(read, outputs)], list(found))
        if isinstance(made, Value) or not isinstance(made, Sequence) or len(made) != len(inputs):
            message = f"the rule of '{self.name}' must return a list of one gradient for each input"
            raise GraphError(
                message, code="count", field="gradients", got=made, allowed=f"{len(inputs)} values or None"
            )
        for index, (value, each) in enumerate(zip(inputs, made, strict=True)):
            if each is not None:
                self._check_gradient(operands.own(graph, each, f"gradients.{index}"), value, f"gradients.{index}")
        return list(made)

    def _check_gradient(self, found: Value, value: Value, field: str) -> None:
        try:
            fits = found.dtype is value.dtype and bool(broadcast_sizes(found.sizes, value.sizes))
        except DmlGraphError:
            fits = False
        if not fits:
            raise GraphError(
                f"the rule of '{self.name}' returns a gradient that does not fit the input",
                code="sizes",
                field=field,
                got=f"{found.dtype} {list(found.sizes)}",
                allowed=f"{value.dtype} {list(value.sizes)}",
            )


def _returned(graph: Graph, name: str, result: Any, made: set[str]) -> list[Value]:
    """The values that a function returns, each from a node of its own: given ones as views of them."""
    several = [result] if isinstance(result, Value) else result
    if not isinstance(several, (list, tuple)) or not several:
        message = "a function with a gradient of its own returns a value, or a list of values"
        raise GraphError(message, code="kind", node=name, got=result)
    values = [operands.own(graph, each, f"outputs.{index}") for index, each in enumerate(several)]
    return [each if each.node in made else each.reshape(each.sizes) for each in values]


def port_of(value: Value) -> Port:
    """The output of a node that a value is."""
    return value.node, value.port
