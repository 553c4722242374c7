"""How a graph is trained, as its file says it: the loss, what is trained, and the optimizer.

    training: {loss: error, parameters: ["*.weight"], optimizer: {op: adam, rate: 1e-3}}
    training: {loss: {op: huber, predictions: y, targets: target}, lora: {products: ["*"]}, optimizer: {op: adam}}

The graph itself only computes: with the same states it evaluates what is trained.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from dmlgraph.base.free_names import FreeNames
from dmlgraph.base.report import Report
from dmlgraph.graph import trainable
from dmlgraph.graph.value import Value
from dmlgraph.training import lora
from dmlgraph.training.gradient import check_loss
from dmlgraph.training.named_loss import NamedLoss, named_value
from dmlgraph.training.optimizers import SGD, Adam, AdamW, Optimizer
from dmlgraph.training.rates import rate_expression

if TYPE_CHECKING:
    from dmlgraph.base.errors import Problem
    from dmlgraph.graph.graph import Graph

OPTIMIZERS: Mapping[str, type[Optimizer]] = {"sgd": SGD, "adam": Adam, "adamw": AdamW}


@dataclasses.dataclass(frozen=True)
class Lora:
    """Low-rank pairs beside products: see `dg.add_lora`.

    Attributes:
        products: names of products or of their weights, in which `*` stands for any text.
        rank: the smaller size of the small matrices.
        alpha: the factor of a pair is alpha / rank; by default 1.
        seed: of what the pairs are at first.
    """

    products: Sequence[str]
    rank: int = 8
    alpha: float | None = None
    seed: int = 0


@dataclasses.dataclass(frozen=True)
class Training:
    """How a graph is trained.

    Attributes:
        loss: a reference to a value of one float, the name of an output, or a loss of `dg.losses`.
        parameters: names of constants and states, in which `*` stands for any text.
        optimizer: its rate is a number or an expression.
        lora: pairs that are trained too; None for none.
        straight_through: whether rounding counts as the identity, which trains quantized networks.
        recompute: "cheap" for less memory and more work.
    """

    loss: str | NamedLoss
    parameters: tuple[str, ...]
    optimizer: Optimizer
    lora: Lora | None = None
    straight_through: bool = False
    recompute: Literal["cheap"] | None = None

    def without(self, removed: Collection[str]) -> Training | None:
        """The same for a graph without some nodes or outputs; None if the loss, or all that is trained, is removed."""
        losses = [self.loss] if isinstance(self.loss, str) else self.loss.tensors.values()
        parameters = tuple(each for each in self.parameters if each not in removed)
        if any(each in removed or each.partition(".")[0] in removed for each in losses):
            return None
        return dataclasses.replace(self, parameters=parameters) if parameters or self.lora else None

    def check(self, graph: Graph) -> None:
        """Checks the names and the rate against a graph.

        Raises:
            GraphError: one is wrong; its field is that of the section `training`.
        """
        check_loss(self._loss(copy.copy(graph)))
        self._model(graph, "")
        if isinstance(self.optimizer.rate, str):
            rate_expression(self.optimizer.rate, "optimizer.rate")

    def model(self, graph: Graph) -> Graph:
        """A copy of the graph whose parameters are states: it evaluates them.

        Raises:
            GraphError: a name means nothing, or cannot be trained.
        """
        return self._model(graph, "training.")

    def _model(self, graph: Graph, path: str) -> Graph:
        model = copy.copy(graph)
        if self.parameters:
            trainable.make_parameters(model, self.parameters, f"{path}parameters")
        if self.lora is not None:
            given = self.lora
            with Report(place=lambda problem: _of_lora(problem).within(f"{path}lora")):
                lora.add_lora(model, *given.products, rank=given.rank, alpha=given.alpha, seed=given.seed)
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
        patterns = (*self.parameters, *([] if self.lora is None else [f"{lora.SCOPE}/*"]))
        parameters = trainable.make_parameters(graph, patterns, "training.parameters")
        loss = graph.outputs[name]
        graph.minimize(
            loss, parameters, self.optimizer, straight_through=self.straight_through, recompute=self.recompute
        )
        return graph, name

    def tuned(self, model: Graph, states: trainable.Arrays) -> Graph:
        """The model with what states hold in the place of its states; weights take in their pairs where they can.

        Quantized weights cannot: the pairs are constants beside them.
        """
        if self.lora is None or not lora.can_merge(model):
            return model.with_states(states)
        return lora.merge_lora(model, states)

    def _loss(self, graph: Graph) -> Value:
        return self.loss.value(graph) if isinstance(self.loss, NamedLoss) else named_value(graph, self.loss, "loss")

    def plain(self) -> dict[str, Any]:
        """The section of a file."""
        loss = self.loss.plain() if isinstance(self.loss, NamedLoss) else self.loss
        found = {"loss": loss, "parameters": list(self.parameters), "optimizer": plain_optimizer(self.optimizer)}
        if not self.parameters:
            del found["parameters"]
        if self.lora is not None:
            found["lora"] = _changed(self.lora, ("products",))
        switches = {"straight_through": self.straight_through, "recompute": self.recompute}
        return found | {name: value for name, value in switches.items() if value}


def _of_lora(problem: Problem) -> Problem:
    """A problem of `add_lora`, whose patterns are products here."""
    field = problem.field and re.sub(r"^patterns\b", "products", problem.field)
    return dataclasses.replace(problem, field=field)


def _changed(given: Any, always: Sequence[str]) -> dict[str, Any]:
    """Fields as a file says them: some, and those that differ from their defaults."""
    members = {each.name: (getattr(given, each.name), each.default) for each in dataclasses.fields(given)}
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, (value, default) in members.items()
        if name in always or value != default
    }


def plain_optimizer(optimizer: Optimizer) -> dict[str, Any]:
    """An optimizer as a file says it: its name, its rate, and what differs from the defaults."""
    op = next(name for name, kind in OPTIMIZERS.items() if type(optimizer) is kind)
    return {"op": op} | _changed(optimizer, ("rate",))


def kinds(hint: Any) -> tuple[Any, ...]:
    """What something of a type may be in a file: types, and texts that stand for themselves."""
    several = isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
    found: list[Any] = []
    for each in typing.get_args(hint) if several else (hint,):
        found += typing.get_args(each) if typing.get_origin(each) is typing.Literal else [each]
    return tuple(each for each in found if each not in (Value, type(None)))


def meaning(of: type, field: str) -> str:
    """What a field of an optimizer or of `Lora` means: what its docstring says, or that of a base."""
    for kind in of.__mro__:
        found = re.search(rf"^ *{field}: (.*(?:\n  .*)*)", inspect.cleandoc(kind.__doc__ or ""), re.MULTILINE)
        if found is not None:
            first, *rest = found[1].split("\n")
            text = " ".join([first, *(line.strip() for line in rest if not re.match(r" *\w+: ", line))])
            return text[0].upper() + text[1:]
    return field  # Python removes docstrings with -OO
