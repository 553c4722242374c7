"""Rates of training that follow the number of the step: their expressions as nodes."""

from __future__ import annotations

import functools
from typing import Any

from dmlgraph import operators as ops
from dmlgraph.base import expressions
from dmlgraph.base.errors import GraphError
from dmlgraph.base.report import Report
from dmlgraph.graph.calls import apply
from dmlgraph.graph.value import Value


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
