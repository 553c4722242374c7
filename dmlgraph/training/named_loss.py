"""Losses that a file names, of the functions in `dg.losses`.

    loss: {op: softmax_cross_entropy, logits: logits, labels: label}

What the graph computes is compared with what it should; that becomes an input where the graph has no such value.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from dmlgraph.base.errors import GraphError, listing, suggestion
from dmlgraph.base.report import Report
from dmlgraph.base.tensor import DataType
from dmlgraph.graph.value import Value
from dmlgraph.training import losses

if TYPE_CHECKING:
    from dmlgraph.graph.graph import Graph

LOSSES: Mapping[str, Callable[..., Value]] = {
    each.__name__: each
    for each in (
        losses.softmax_cross_entropy,
        losses.binary_cross_entropy,
        losses.kl_divergence,
        losses.mean_squared_error,
        losses.mean_absolute_error,
        losses.huber,
    )
}
MEANINGS: Mapping[str, str] = {  # of what the functions take
    "logits": "What the graph computes: a node or an output.",
    "predictions": "What the graph computes: a node or an output.",
    "labels": "The index of each example's class: a value of the graph, else the name of a new input of int32.",
    "targets": "What the predictions should be: a value of the graph, else the name of a new input like them.",
    "target_logits": "Logits of the distribution wanted: a value of the graph, else the name of a new input like them.",
    "axis": "That of the classes; the last one by default.",
    "label_smoothing": "The share of each target that is spread evenly over the classes.",
    "ignore_index": "The label of examples that do not count.",
    "delta": "The error above which the loss grows evenly.",
    "reduction": "What becomes of the losses of the examples: their mean or their sum.",
}


def tensors(op: str) -> tuple[str, str]:
    """What a loss compares: the predictions, and what they should be."""
    first, second = (name for name, each in _parameters(op).items() if each.kind is not each.KEYWORD_ONLY)
    return first, second


def options(op: str) -> dict[str, Any]:
    """The other arguments of a loss: the type of each."""
    hints = typing.get_type_hints(LOSSES[op])
    return {name: hints[name] for name, each in _parameters(op).items() if each.kind is each.KEYWORD_ONLY}


def _parameters(op: str) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(LOSSES[op]).parameters


@dataclasses.dataclass(frozen=True)
class NamedLoss:
    """A loss by its name.

    Attributes:
        op: the function of `dg.losses`.
        tensors: references to what it compares, by argument.
        options: its other arguments.
    """

    op: str
    tensors: Mapping[str, str]
    options: Mapping[str, Any]

    def value(self, graph: Graph) -> Value:
        """Adds the loss to a graph, in the scope `loss`, and an input for what it does not have.

        Raises:
            GraphError: a name means nothing, or what is compared does not fit.
        """
        first, second = tensors(self.op)
        predictions = named_value(graph, self.tensors[first], f"loss.{first}")
        with Report(field="loss"):
            given = self._target(graph, second, predictions)
            with graph.scope("loss"):
                return LOSSES[self.op](predictions, given, **self.options)

    def _target(self, graph: Graph, field: str, predictions: Value) -> Value:
        """What the predictions should be: a value of the graph, else a new input."""
        name = self.tensors[field]
        known = _found(graph, name)
        if known is not None:
            return known
        if field != "labels":
            return graph.input(name, sizes=predictions.sizes, dtype=predictions.dtype)
        axis = losses.checked_axis(self.options.get("axis", -1), predictions)
        sizes = predictions.sizes[:axis] + predictions.sizes[axis + 1 :]
        return graph.input(name, sizes=sizes or (1,), dtype=DataType.INT32)

    def plain(self) -> dict[str, Any]:
        """As a file says it."""
        return {"op": self.op, **self.tensors, **self.options}


def named_value(graph: Graph, name: str, field: str) -> Value:
    """The value that a file means: by its reference, the name of an output, or that of a tensor of a model.

    Raises:
        GraphError: nothing has this name.
    """
    found = _found(graph, name)
    if found is not None:
        return found
    known = [*graph.outputs, *(node.name for node in graph.nodes)]
    raise GraphError(
        "no node and no output has this name",
        code="unknown-node",
        field=field,
        got=name,
        allowed=listing(known, at_most=8),
        hint=suggestion(name, known),
    )


def _found(graph: Graph, name: str) -> Value | None:
    try:
        return graph.value(graph.origin.tensors.get(name, name))
    except GraphError:
        return graph.outputs.get(name)
