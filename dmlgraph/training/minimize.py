"""Graph.minimize: a graph that takes a step of training at each run."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dmlgraph import operators as ops
from dmlgraph.base import expressions
from dmlgraph.base.errors import GraphError
from dmlgraph.base.report import Report
from dmlgraph.base.tensor import DataType, DataTypeLike
from dmlgraph.graph import operands, trainable
from dmlgraph.graph.calls import apply
from dmlgraph.graph.nodes import StateNode
from dmlgraph.graph.value import Value
from dmlgraph.training.gradient import gradient
from dmlgraph.training.optimizers import Optimizer, Step

if TYPE_CHECKING:
    from dmlgraph.graph.graph import Graph

SCOPE = "optimizer"
_TINY = 1e-6  # keeps the norm of the gradients from zero, as in PyTorch


def minimize(graph: Graph, loss: Value, parameters: Sequence[Value | str], optimizer: Optimizer) -> None:
    """See `Graph.minimize`."""
    parameters = _checked(graph, parameters, optimizer)
    count, origin = len(graph.nodes), graph.origin.copy()
    try:
        gradients = gradient(loss, parameters)
        with graph.scope(SCOPE):
            updates = _Updates(graph)
            updates.all(parameters, _clipped(gradients, optimizer.clip_norm), optimizer)
    except Exception:
        graph.remove_unread(count, [])
        graph.origin = origin
        raise
    for state, value in updates.made:
        graph.update(state, value)


class _Updates:
    """The states of an optimizer, and the next values of these and of the parameters."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.made: list[tuple[Value, Value]] = []

    def all(self, parameters: Sequence[Value], gradients: Sequence[Value], optimizer: Optimizer) -> None:
        numbers = {name: self._changing(name, "float32", change) for name, change in optimizer.numbers.items()}
        step = Step(self._rate(optimizer.rate), numbers)
        for parameter, change in zip(parameters, gradients, strict=True):
            with self.graph.scope(parameter.node):
                kept = [
                    self.graph.state(name, sizes=self._sizes(parameter), dtype=parameter.dtype)
                    for name in optimizer.kept
                ]
                after = optimizer.next(step, parameter, change, *kept)
            self.made += zip((parameter, *kept), after, strict=True)

    def _sizes(self, parameter: Value) -> Sequence[Any]:
        """The parameter's sizes as they are declared, by dims."""
        node = self.graph.node(parameter.node)
        assert isinstance(node, StateNode)
        sizes: Sequence[Any] = node.declared["sizes"]
        return sizes

    def _changing(self, name: str, dtype: DataTypeLike, change: Callable[[Value], Value]) -> Value:
        """A number of the whole optimizer, after this step."""
        state = self.graph.state(name, sizes=[1], dtype=dtype)
        after = change(state)
        self.made.append((state, after))
        return after

    def _rate(self, rate: Any) -> Value | float:
        """The rate of this step; an expression counts steps."""
        if isinstance(rate, Value):
            operands.own(self.graph, rate, "rate")
            if rate.dtype is not DataType.FLOAT32 or rate.desc.element_count != 1:
                got = f"{rate.dtype} {list(rate.sizes)}"
                raise GraphError("must be one float32", code="sizes", field="rate", got=got)
            return rate.reshape(1)
        if not isinstance(rate, str):
            return float(rate)
        step = self._changing("step", "uint32", lambda before: before + 1)
        return computed(rate, apply(ops.Cast, step, dtype="float32"))


def computed(text: str, step: Value) -> Value | float:
    """A rate's expression as nodes, in float32; a number if it has no `step`.

    Raises:
        GraphError: it cannot be read, or has another name.
    """
    expression = rate_expression(text, "rate")
    if "step" not in expression.names:
        return float(expression.value({}))

    def leaf(part: Any) -> Any:
        return step if part == "step" else expressions.CONSTANTS[part] if isinstance(part, str) else part

    found: Value | float = expression.folded(leaf, _applied)
    return found


def rate_expression(text: str, field: str) -> expressions.Expression:
    """The expression in a text, which may have `step` in it.

    Raises:
        GraphError: it cannot be read, or has another name.
    """
    with Report(field=field):
        expression = expressions.parse(text)
    unknown = [name for name in expression.names if name != "step" and name not in expressions.CONSTANTS]
    if unknown:
        raise GraphError("is not known here", code="expression", field=field, got=unknown[0], allowed="step, pi")
    return expression


def _applied(name: str, parts: list[Any]) -> Any:
    """An operator or function of an expression: of numbers a number, else a node."""
    if not any(isinstance(part, Value) for part in parts):
        return expressions.compute(name, parts)
    if name in _NODES:
        return functools.reduce(lambda a, b: apply(_NODES[name], a, b), parts)
    if name == "//":
        return apply(ops.Floor, apply(ops.Divide, *parts))
    return -parts[0] if name == expressions.NEGATIVE else apply(_FUNCTIONS[name], parts[0])


_NODES: dict[str, Any] = {
    "+": ops.Add,
    "-": ops.Subtract,
    "*": ops.Multiply,
    "/": ops.Divide,
    "%": ops.ModulusFloor,
    "**": ops.Pow,
    "min": ops.Min,
    "max": ops.Max,
}
_FUNCTIONS: dict[str, Any] = {
    "ceil": ops.Ceil,
    "floor": ops.Floor,
    "sqrt": ops.Sqrt,
    "log": ops.Log,
    "exp": ops.Exp,
}


def _clipped(gradients: Sequence[Value], norm: float | None) -> Sequence[Value]:
    """The gradients, scaled so that the norm of all of them together is at most `norm`."""
    if norm is None:
        return gradients
    squares = [apply(ops.Reduce, each, function="sum_square").reshape(1) for each in gradients]
    root = apply(ops.Sqrt, functools.reduce(lambda a, b: a + b, squares))
    share = apply(ops.Min, norm / (root + _TINY), 1)
    return [each * share for each in gradients]


def _checked(graph: Graph, parameters: Sequence[Value | str], optimizer: Optimizer) -> list[Value]:
    """The parameters as values."""
    if not isinstance(optimizer, Optimizer):
        raise GraphError(
            "is not an optimizer", code="kind", field="optimizer", got=optimizer, allowed="dg.SGD, dg.Adam or dg.AdamW"
        )
    if isinstance(parameters, (Value, str)) or not isinstance(parameters, Sequence) or not parameters:
        raise GraphError("takes a list of states", code="kind", field="parameters", got=parameters)
    values = trainable.named_states(graph, parameters, "parameters")
    for index, each in enumerate(values):
        field = f"parameters.{index}"
        value = operands.own(graph, each, field)
        if not isinstance(graph.node(value.node), StateNode):
            hint = "g.state makes a tensor that changes from run to run"
            raise GraphError("is not a state", code="not-a-state", field=field, got=value.reference, hint=hint)
        if value.dtype is not DataType.FLOAT32:
            raise GraphError(
                "must be float32: narrower floats lose most steps",
                code="dtype",
                field=field,
                got=f"{value.reference}: {value.dtype}",
                hint="keep it in float32, and cast what is read of it",
            )
        if value.node in graph.next_values:
            raise GraphError("has a next value already", code="duplicate", node=value.node, field=field)
        if any(each is other or each.node == other.node for other in values[:index]):
            raise GraphError("is given twice", code="duplicate", node=value.node, field=field)
    return values
