"""How a graph is trained, as its file says it: the loss, what is trained, and the optimizer.

    training: {loss: error, parameters: ["*.weight"], optimizer: {op: adam, rate: 1e-3}}

The graph itself only computes: with the same states it evaluates what is trained.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dmlgraph.base.errors import GraphError, listing, suggestion
from dmlgraph.base.free_names import FreeNames
from dmlgraph.graph import trainable
from dmlgraph.graph.value import Value
from dmlgraph.training.gradient import check_loss
from dmlgraph.training.optimizers import SGD, Adam, AdamW, Optimizer
from dmlgraph.training.rates import rate_expression

if TYPE_CHECKING:
    from dmlgraph.graph.graph import Graph

OPTIMIZERS: Mapping[str, type[Optimizer]] = {"sgd": SGD, "adam": Adam, "adamw": AdamW}


@dataclasses.dataclass(frozen=True)
class Training:
    """How a graph is trained.

    Attributes:
        loss: a reference to a value of one float, or the name of an output.
        parameters: names of constants and states, in which `*` stands for any text.
        optimizer: its rate is a number or an expression.
    """

    loss: str
    parameters: tuple[str, ...]
    optimizer: Optimizer

    def check(self, graph: Graph) -> None:
        """Checks the names and the rate against a graph.

        Raises:
            GraphError: one is wrong; its field is that of the section `training`.
        """
        check_loss(self._loss(graph))
        trainable.make_parameters(copy.copy(graph), self.parameters, "parameters")
        if isinstance(self.optimizer.rate, str):
            rate_expression(self.optimizer.rate, "optimizer.rate")

    def model(self, graph: Graph) -> Graph:
        """A copy of the graph whose parameters are states: it evaluates them.

        Raises:
            GraphError: a name means nothing, or cannot be trained.
        """
        model = copy.copy(graph)
        trainable.make_parameters(model, self.parameters, "training.parameters")
        return model

    def evaluation(self, model: Graph) -> tuple[Graph, str]:
        """A copy of a model whose loss is an output, and the name of that."""
        graph = copy.copy(model)
        loss = self._loss(graph)
        names = [name for name, value in graph.outputs.items() if (value.node, value.port) == (loss.node, loss.port)]
        name = names[0] if names else FreeNames(graph.outputs).take("loss")
        if not names:
            graph.output(name, loss)
        return graph, name

    def step(self, model: Graph) -> tuple[Graph, str]:
        """A copy of a model that takes a step of training at each run, and the output that is its loss.

        Raises:
            GraphError: see `Graph.minimize`.
        """
        graph, name = self.evaluation(model)
        parameters = trainable.make_parameters(graph, self.parameters, "training.parameters")
        graph.minimize(graph.outputs[name], parameters, self.optimizer)
        return graph, name

    def _loss(self, graph: Graph) -> Value:
        outputs = graph.outputs
        try:
            return graph.value(self.loss)
        except GraphError:
            if self.loss in outputs:
                return outputs[self.loss]
            known = [*outputs, *(node.name for node in graph.nodes)]
            raise GraphError(
                "no node and no output has this name",
                code="unknown-node",
                field="loss",
                got=self.loss,
                allowed=listing(known, at_most=8),
                hint=suggestion(self.loss, known),
            ) from None

    def plain(self) -> dict[str, Any]:
        """The section of a file."""
        return {"loss": self.loss, "parameters": list(self.parameters), "optimizer": plain_optimizer(self.optimizer)}


def plain_optimizer(optimizer: Optimizer) -> dict[str, Any]:
    """An optimizer as a file says it: its name, its rate, and what differs from the defaults."""
    op = next(name for name, kind in OPTIMIZERS.items() if type(optimizer) is kind)
    members = {each.name: (getattr(optimizer, each.name), each.default) for each in dataclasses.fields(optimizer)}
    return {"op": op} | {
        name: list(value) if isinstance(value, tuple) else value
        for name, (value, default) in members.items()
        if name == "rate" or value != default
    }


def kinds(optimizer: type[Optimizer], field: str) -> tuple[Any, ...]:
    """What a field of an optimizer may be in a file: types, and texts that stand for themselves."""
    hint = typing.get_type_hints(optimizer)[field]
    several = isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
    found: list[Any] = []
    for each in typing.get_args(hint) if several else (hint,):
        found += typing.get_args(each) if typing.get_origin(each) is typing.Literal else [each]
    return tuple(each for each in found if each not in (Value, type(None)))


def meaning(optimizer: type[Optimizer], field: str) -> str:
    """What a field of an optimizer means: what its docstring says, or that of a base."""
    for kind in optimizer.__mro__:
        found = re.search(rf"^ *{field}: (.*(?:\n  .*)*)", inspect.cleandoc(kind.__doc__ or ""), re.MULTILINE)
        if found is not None:
            first, *rest = found[1].split("\n")
            text = " ".join([first, *(line.strip() for line in rest if not re.match(r" *\w+: ", line))])
            return text[0].upper() + text[1:]
    return field  # Python removes docstrings with -OO
