"""Gradients by reverse mode: nodes that compute the derivatives of a loss.

    dw, db = dg.gradient(loss, [w, b])

From the loss back to the values, each operator's `derivative` makes the gradients of its inputs of those of its
outputs.  Only nodes on a way from a value to the loss are differentiated.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from dmlgraph import operators as ops
from dmlgraph.base.errors import GraphError, OperatorError, listing
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.tensor import DataType, broadcast_sizes
from dmlgraph.graph import calls, operands
from dmlgraph.graph.nodes import Node, OperatorNode
from dmlgraph.graph.scopes import AGAIN, Scope
from dmlgraph.graph.value import Value
from dmlgraph.operators.declaration.derivative import Backward, NoDerivativeError
from dmlgraph.operators.declaration.fields import Role
from dmlgraph.operators.declaration.operator import Array, Operator
from dmlgraph.training.custom_gradient import OwnGradient, Port, port_of
from dmlgraph.training.recompute import CHEAP, Again, to_recompute
from dmlgraph.training.straight_through import straight_through_rules

if TYPE_CHECKING:
    from dmlgraph.graph.graph import Graph


def gradient(
    loss: Value,
    values: Sequence[Value],
    *,
    seed: Value | float = 1.0,
    straight_through: bool = False,
    recompute: Literal["cheap"] | None = None,
) -> list[Value]:
    """Adds nodes that compute the derivatives of a loss by values; they are in the scope `gradient`.

    Args:
        loss: one element of a float type.
        values: inputs, states, constants or outputs of nodes, of float types.
        seed: the gradient of the loss itself, by which all are multiplied: a number, or a value with one element.
        straight_through: whether rounding counts as the identity: `round`, and `quantize_linear` that only
            `dequantize_linear` read, which passes the gradient where nothing was clamped.
        recompute: "cheap": element-wise operators, normalizations and views compute again what the gradients read,
            where fewer bytes are kept for them then.

    Returns:
        For each value its gradient: the same sizes and data type.  Zeros where the loss depends on the value only
        through `stop_gradient`, integers, or functions that are constant nearly everywhere, such as `round`.

    Raises:
        GraphError: the loss is not one float, it does not depend on a value at all, or an operator on the way has no
            derivative.
    """
    graph = check_loss(loss)
    if isinstance(values, Value) or not isinstance(values, Iterable):
        raise GraphError("takes a list of values", code="kind", field="values", got=values, hint="write [w]")
    if recompute not in (None, CHEAP):
        raise GraphError("is not known here", code="unknown-name", field="recompute", got=recompute, allowed=CHEAP)
    targets = [_checked_value(graph, each, f"values.{index}") for index, each in enumerate(values)]
    forward = graph.nodes
    count = len(forward)
    found: list[Value] = []
    try:
        found = _gradients(graph, loss, targets, seed, straight_through)
        if recompute is not None:
            graph.remove_unread(count, found)
            read = {source[0] for node in graph.nodes[count:] for source in graph.sources(node.name) if source}
            again = Again(graph, to_recompute(graph, forward, read))
            graph.remove_unread(count, [])
            found = []
            found = _gradients(graph, loss, targets, seed, straight_through, again)
    finally:
        graph.remove_unread(count, found)
    # A rule sees sizes, and not the dims that they came from.
    graph.origin.fixed |= dict.fromkeys(graph.dims, "gradients, which have the sizes of now")
    return found


def _gradients(
    graph: Graph,
    loss: Value,
    targets: Sequence[Value],
    seed: Value | float,
    straight_through: bool,
    read: Callable[[Value], Value] | None = None,
) -> list[Value]:
    upstream = graph.upstream(loss.node)
    for index, target in enumerate(targets):
        if target.node not in upstream:
            raise GraphError(
                "the loss does not depend on the value",
                code="independent",
                field=f"values.{index}",
                got=target.reference,
                hint="take it from the list, or add stop_gradient(value) * 0 to the loss for zeros",
            )
        for own in graph.own_gradients:
            own.check_target(graph, target, f"values.{index}")
    nodes = [node for node in graph.nodes if node.name in upstream]
    with Scope(graph, "gradient" if read is None else AGAIN):
        builder = GraphBuilder(graph)
        more = straight_through_rules(graph, nodes) if straight_through else ()
        reverse = _Reverse(builder, nodes, targets, more, read)
        found = reverse.run([(loss, _seed(builder, loss, seed))])
        pairs = zip(targets, found, strict=True)
        return [builder.fill(0, target.sizes, target.dtype) if each is None else each for target, each in pairs]


def _seed(builder: GraphBuilder, loss: Value, seed: Value | float) -> Value:
    """The gradient of the loss itself, in its data type and sizes."""
    if not isinstance(seed, Value):
        return builder.fill(seed, loss.sizes, loss.dtype)
    operands.own(builder.graph, seed, "seed")
    _check_one_float(seed, "seed")
    narrow = seed if seed.dtype is loss.dtype else calls.apply(ops.Cast, seed, dtype=loss.dtype)
    return narrow if narrow.sizes == loss.sizes else narrow.reshape(loss.sizes)


def fitted(gradient: Value, sizes: tuple[int, ...]) -> Value:
    """A gradient with the sizes of its value: repeated where it has one element, summed up where the value has one."""
    if gradient.sizes == sizes:
        return gradient
    common = broadcast_sizes(gradient.sizes, sizes)
    if common == sizes:
        return gradient.broadcast_to(sizes)
    if gradient.sizes != common:
        gradient = gradient.broadcast_to(common)
    missing = len(common) - len(sizes)
    repeated = (axis < missing or sizes[axis - missing] != size for axis, size in enumerate(common))
    axes = [axis for axis, (size, each) in enumerate(zip(common, repeated, strict=True)) if each and size > 1]
    total = calls.apply(ops.Reduce, gradient, function="sum", axes=axes) if axes else gradient
    return total if total.sizes == sizes else total.reshape(sizes)


@dataclasses.dataclass(frozen=True)
class GraphBuilder:
    """Adds the nodes of derivatives to a graph."""

    graph: Graph

    @property
    def level(self) -> FeatureLevel:
        return self.graph.level

    def call(self, operator: type[Operator], tensors: Sequence[Any], fields: dict[str, Any]) -> Any:
        return calls.make_function(operator)(*tensors, **fields)

    @property
    def count(self) -> int:
        return len(self.graph.nodes)

    def fill(self, value: float, sizes: Sequence[int], dtype: DataType) -> Value:
        return self.graph.fill_value_constant(sizes=sizes, dtype=dtype, value=value)

    def constant(self, data: Array) -> Value:
        names = self.graph.names
        return self.graph.constant(names.free("constant").removeprefix(names.in_scope("")), data)

    def sequence(self, start: float, delta: float, sizes: Sequence[int], dtype: DataType) -> Value:
        return self.graph.fill_value_sequence(sizes=sizes, dtype=dtype, value_start=start, value_delta=delta)

    def pull_back(
        self, count: int, outputs: Sequence[Any], gradients: Sequence[Any], inputs: Sequence[Any]
    ) -> list[Value | None]:
        nodes = self.graph.nodes[count:]
        # An input that is given twice gets all of its gradient once.
        first = {port_of(each): place for place, each in reversed(list(enumerate(inputs))) if each is not None}
        reverse = _Reverse(self, nodes, [inputs[place] for place in first.values()])
        pairs = zip(outputs, gradients, strict=True)
        found = reverse.run([(output, each) for output, each in pairs if output is not None and each is not None])
        by_place = dict(zip(first.values(), found, strict=True))
        return [by_place.get(place) for place in range(len(inputs))]


class _Reverse:
    """The gradients of some nodes' values that are known, by output.

    Args:
        builder: of the graph.
        nodes: in execution order.
        targets: whose gradients are wanted.
        rules: of some nodes, beside those that the graph has.
        read: gives a value of these nodes as gradients read it; by default itself.
    """

    def __init__(
        self,
        builder: GraphBuilder,
        nodes: Sequence[Node],
        targets: Sequence[Value],
        rules: Iterable[OwnGradient] = (),
        read: Callable[[Value], Value] | None = None,
    ) -> None:
        self.builder, self.graph, self.nodes, self.targets = builder, builder.graph, nodes, targets
        self.own = {name: own for own in self.graph.own_gradients for name in own.nodes}  # by node
        for own in rules:
            if not own.nodes & self.own.keys():
                self.own |= dict.fromkeys(own.nodes, own)
        self.varying = _varying(self.graph, nodes, targets, self.own)
        self.read = read or (lambda value: value)
        self.parts: dict[Port, list[Value]] = {}  # the gradients from each reader
        self.way: dict[str, str] = {}  # node → the reader from which its gradient comes

    def run(self, seeds: Iterable[tuple[Value, Value]]) -> list[Value | None]:
        """The gradients of the targets, from values and their gradients; None for a target that has none."""
        for value, found in seeds:
            if port_of(value) in self.varying:
                self.parts.setdefault(port_of(value), []).append(found)
        done: set[int] = set()
        for node in reversed(self.nodes):
            own = self.own.get(node.name)
            if own is not None:
                if id(own) not in done:
                    self._by_own_rule(own)
                done.add(id(own))
            elif isinstance(node, OperatorNode):
                with Scope(self.graph, node.name):
                    self._differentiate(node)
        return [self._total(port_of(target)) for target in self.targets]

    def _by_own_rule(self, own: OwnGradient) -> None:
        """Adds the gradients that a rule of the user's gives; the nodes that read its outputs are done."""
        found = [self._total(port) for port in own.outputs]
        if not any(port in self.varying for port in own.inputs) or all(each is None for each in found):
            return
        outputs = [Value(self.graph, *port) for port in own.outputs]
        known = [
            self.builder.fill(0, value.sizes, value.dtype) if each is None and value.dtype.is_float else each
            for value, each in zip(outputs, found, strict=True)
        ]
        with Scope(self.graph, own.name):
            for port, each in zip(own.inputs, own.gradients(self.graph, known, self.read), strict=True):
                if each is not None and port in self.varying:
                    self.parts.setdefault(port, []).append(fitted(each, Value(self.graph, *port).sizes))
                    self.way.setdefault(port[0], own.outputs[0][0])

    def _total(self, port: Port) -> Value | None:
        """The gradient of a value, once all its readers are done."""
        parts = self.parts.get(port)
        if not parts:
            return None
        if len(parts) > 1:
            self.parts[port] = [functools.reduce(lambda a, b: a + b, parts)]
        return self.parts[port][0]

    def _differentiate(self, node: OperatorNode) -> None:
        """Adds the gradients of a node's inputs to what is known of them."""
        sources = self.graph.sources(node.name)
        if not any(source in self.varying for source in sources if source is not None):
            return
        outputs = [
            None if desc is None else Value(self.graph, node.name, port)
            for port, desc in enumerate(node.operator.output_descs)
        ]
        gradients = [self._total((node.name, port)) for port in range(len(outputs))]
        if all(each is None for each in gradients):
            return
        inputs = [None if source is None else Value(self.graph, *source) for source in sources]
        wanted = [source in self.varying for source in sources]
        given, made = ([None if each is None else self.read(each) for each in values] for values in (inputs, outputs))
        back = Backward(self.builder, node.operator, given, made, gradients, wanted)
        for source, value, found in zip(sources, inputs, self._rule(node, back), strict=True):
            if found is not None and value is not None and source in self.varying:
                self.parts.setdefault(port_of(value), []).append(fitted(found, value.sizes))
                self.way.setdefault(value.node, node.name)

    def _rule(self, node: OperatorNode, back: Backward) -> Sequence[Any]:
        operator = node.operator
        fused = next((field for field in operator.activation_fields if getattr(operator, field) is not None), None)
        if fused is not None:
            back = self._without_activation(back, fused)
        try:
            if not operator.has_derivative():
                raise NoDerivativeError(operator.no_derivative)
            return operator.derivative(back)
        except (NoDerivativeError, OperatorError) as error:
            if isinstance(error, OperatorError) and error.code != "does-not-fit":
                raise
            why = f"{error.got} {error.problems[0].message}" if isinstance(error, OperatorError) else error
            raise GraphError(
                f"{operator.name} has no derivative here: {why}",
                code="no-derivative",
                node=node.name,
                got=" ← ".join(self._way(node.name)),
                hint="dg.stop_gradient on what it reads, or gives, ends the way there",
            ) from None

    def _without_activation(self, back: Backward, field: str) -> Backward:
        """A node with a fused activation as the one without it, whose output's gradient is that of the activation."""
        host = back.operator
        tensors = host.by_field(Role.INPUT, dict(enumerate(back.inputs)))
        plain = {name: getattr(host, name) for name in host.attribute_fields} | {field: None}
        given = {name: value for name, value in plain.items() if name not in host.scalars.values()}
        made = calls.make_function(type(host))(*tensors.values(), **given)
        first = made if isinstance(made, Value) else made[0]
        activation = getattr(host, field).on(first.desc)
        inner = Backward(self.builder, activation, [first], back.outputs[:1], back.gradients[:1], [True])
        (gradient,) = activation.derivative(inner)
        outputs, gradients = [first, *back.outputs[1:]], [gradient, *back.gradients[1:]]
        return Backward(self.builder, host.replace(**{field: None}), back.inputs, outputs, gradients, back.wanted)

    def _way(self, name: str) -> list[str]:
        """The nodes from the loss to this one."""
        way = [name]
        while name in self.way:
            name = self.way[name]
            way.append(name)
        return way[::-1]


def _varying(
    graph: Graph, nodes: Iterable[Node], targets: Iterable[Value], owns: Mapping[str, OwnGradient]
) -> set[Port]:
    """The floats among the outputs of nodes that vary with a target; inside of what has its own rule nothing does."""
    varying = {port_of(target) for target in targets}
    for node in nodes:
        own = owns.get(node.name)
        if own is not None:
            own.check(graph, node.name, varying)
            if any(port in varying for port in own.inputs):
                varying |= {port for port in own.outputs if graph.desc(*port).dtype.is_float}
            continue
        if not isinstance(node, OperatorNode) or node.operator.ends_gradients:
            continue
        sources = graph.sources(node.name)
        for own in {owns[source[0]] for source in sources if source is not None and source[0] in owns}:
            own.check(graph, node.name, varying)
        if any(source in varying for source in sources):
            descs = enumerate(node.operator.output_descs)
            varying |= {(node.name, port) for port, desc in descs if desc is not None and desc.dtype.is_float}
    return varying


def check_loss(loss: Any) -> Graph:
    """The graph of a loss.

    Raises:
        GraphError: it is not one float.
    """
    if not isinstance(loss, Value):
        raise GraphError(operands.NOT_A_VALUE, code="not-a-value", field="loss", got=loss, hint=operands.one_of(loss))
    graph = loss.graph
    operands.own(graph, loss, "loss")
    _check_one_float(loss, "loss")
    return graph


def _check_one_float(value: Value, field: str) -> None:
    if value.desc.element_count != 1:
        hint = 'reduce it: dg.reduce(x, function="average"), or "sum"'
        raise GraphError("must have one element", code="sizes", field=field, got=list(value.sizes), hint=hint)
    _check_float(value, field)


def _checked_value(graph: Graph, value: Any, field: str) -> Value:
    checked = operands.own(graph, value, field)
    _check_float(checked, field)
    return checked


def _check_float(value: Value, field: str) -> None:
    if not value.dtype.is_float:
        allowed = listing(str(dtype) for dtype in DataType if dtype.is_float)
        message = "only floats have gradients"
        raise GraphError(message, code="dtype", field=field, got=f"{value.reference}: {value.dtype}", allowed=allowed)
