"""Graph.minimize: a graph that takes a step of training at each run."""

from __future__ import annotations

import fnmatch
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dmlgraph import operators as ops
from dmlgraph.base.errors import GraphError, listing
from dmlgraph.base.tensor import DataType, DataTypeLike
from dmlgraph.graph import operands, trainable
from dmlgraph.graph.calls import apply
from dmlgraph.graph.nodes import StateNode
from dmlgraph.graph.value import Value
from dmlgraph.training.gradient import gradient
from dmlgraph.training.optimizers import DYNAMIC, Optimizer, Step
from dmlgraph.training.rates import computed

if TYPE_CHECKING:
    from dmlgraph.graph.graph import Graph

SCOPE = "optimizer"
_TRAINED = (DataType.FLOAT32, DataType.FLOAT16)
_TINY = 1e-6  # keeps the norm of the gradients from zero, as in PyTorch
_GREATEST = float(np.finfo(np.float32).max)
# Of a dynamic loss scale: where it starts, between which numbers it stays, and the steps after which it is doubled.
_FIRST_SCALE, _SCALES, _STEPS_TO_DOUBLE = 2.0**16, (2.0**-24, 2.0**24), 2000


def minimize(
    graph: Graph,
    loss: Value,
    parameters: Sequence[Value | str],
    optimizer: Optimizer,
    *,
    straight_through: bool,
    recompute: Literal["cheap"] | None,
) -> None:
    """See `Graph.minimize`."""
    parameters = _checked(graph, parameters, optimizer)
    count, origin = len(graph.nodes), graph.origin.copy()
    try:
        with graph.scope(SCOPE):
            updates = _Updates(graph, optimizer)
        gradients = gradient(
            loss, parameters, seed=updates.scale, straight_through=straight_through, recompute=recompute
        )
        with graph.scope(SCOPE):
            updates.all(parameters, gradients)
    except Exception:
        graph.remove_unread(count, [])
        graph.origin = origin
        raise
    for state, value in updates.made:
        graph.update(state, value)


class _Updates:
    """The states of an optimizer, and the next values of these and of the parameters.

    Attributes:
        scale: by which gradients are multiplied.
        made: each state, and its next value.
        taken: whether this run takes a step, one truth; None if each run does.
    """

    def __init__(self, graph: Graph, optimizer: Optimizer) -> None:
        self.graph, self.optimizer = graph, optimizer
        self.made: list[tuple[Value, Value]] = []
        self.taken: Value | None = None
        self.scale: Value | float = 1.0
        if optimizer.loss_scale == DYNAMIC:
            self.scale = graph.state("loss_scale", sizes=[1], dtype="float32", initial=_FIRST_SCALE)
        elif optimizer.loss_scale is not None:
            self.scale = float(optimizer.loss_scale)

    def all(self, parameters: Sequence[Value], gradients: Sequence[Value]) -> None:
        gradients = [_float32(each) for each in gradients]
        if self.optimizer.loss_scale is not None:
            share = 1 / self.scale
            gradients = [each * share for each in gradients]
        if self.optimizer.accumulate > 1:
            gradients = self._accumulated(parameters, gradients)
        clip = self.optimizer.clip_norm
        if clip is not None or isinstance(self.scale, Value):
            norm = _norm(gradients)
            if isinstance(self.scale, Value):
                self._check_finite(self.scale, norm)
            if clip is not None:
                clipped = apply(ops.Min, clip / (norm + _TINY), 1)
                gradients = [each * clipped for each in gradients]
        numbers = {name: self._changing(name, "float32", change) for name, change in self.optimizer.numbers.items()}
        rate = self._rate(self.optimizer.rate)
        for parameter, change in zip(parameters, gradients, strict=True):
            with self.graph.scope(parameter.node):
                self._step(Step(rate, numbers, self.optimizer.decay(parameter.node)), parameter, change)

    def _step(self, step: Step, parameter: Value, change: Value) -> None:
        """The next value of a parameter, and of what is kept of it.

        Of one in float16, what rounding took from it is kept, so that both together are a weight in float32.  A weight
        that is set from outside needs no more than itself then.
        """
        wide, rest = parameter, None
        if parameter.dtype is DataType.FLOAT16:
            rest = self._beside(parameter, "rest")
            wide = _float32(parameter) + rest
        kept = [self._beside(parameter, name) for name in self.optimizer.kept]
        after, *others = self.optimizer.next(step, wide, change, *kept)
        if rest is not None:
            narrow = apply(ops.Cast, after, dtype="float16")
            self._next(rest, after - _float32(narrow))
            after = narrow
        for state, value in zip((parameter, *kept), (after, *others), strict=True):
            self._next(state, value)

    def _accumulated(self, parameters: Sequence[Value], gradients: Sequence[Value]) -> list[Value]:
        """The means of the gradients of this run and of those since the last step; every so many runs take one."""
        runs = self.optimizer.accumulate
        before = self.graph.state("runs", sizes=[1], dtype="uint32")
        count = before + 1
        self.taken = count == runs
        self.made.append((before, apply(ops.If, self.taken, 0, count)))
        means = []
        for parameter, found in zip(parameters, gradients, strict=True):
            with self.graph.scope(parameter.node):
                state = self._beside(parameter, "accumulated")
                total = state + found
                self.made.append((state, apply(ops.If, self.taken, 0, total)))
                means.append(total * (1 / runs))
        return means

    def _check_finite(self, scale: Value, norm: Value) -> None:
        """Takes no step where the norm is infinite or NaN, and changes the scale of the loss."""
        finite, least, most = norm <= _GREATEST, *_SCALES
        before = self.graph.state("finite_steps", sizes=[1], dtype="uint32")
        count = before + 1
        doubled = (count == _STEPS_TO_DOUBLE) & finite
        kept = apply(ops.If, finite, scale, apply(ops.Max, scale * 0.5, least))
        self._next(scale, apply(ops.If, doubled, apply(ops.Min, scale * 2, most), kept))
        self._next(before, apply(ops.If, finite & ~doubled, count, 0))
        self.taken = finite if self.taken is None else self.taken & finite

    def _beside(self, parameter: Value, name: str) -> Value:
        """A state with the sizes of a parameter as they are declared, by dims; zeros at first."""
        node = self.graph.node(parameter.node)
        assert isinstance(node, StateNode)
        return self.graph.state(name, sizes=node.declared["sizes"], dtype="float32")

    def _changing(self, name: str, dtype: DataTypeLike, change: Callable[[Value], Value]) -> Value:
        """A number of the whole optimizer, after this step."""
        state = self.graph.state(name, sizes=[1], dtype=dtype)
        after = change(state)
        self._next(state, after)
        return after

    def _next(self, state: Value, after: Value) -> None:
        """The next value of a state, which it gets only if a step is taken."""
        self.made.append((state, after if self.taken is None else apply(ops.If, self.taken, after, state)))

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


def _float32(value: Value) -> Value:
    return value if value.dtype is DataType.FLOAT32 else apply(ops.Cast, value, dtype="float32")


def _norm(gradients: Sequence[Value]) -> Value:
    """The root of the sum of all squares."""
    squares = [apply(ops.Reduce, each, function="sum_square").reshape(1) for each in gradients]
    return apply(ops.Sqrt, functools.reduce(lambda a, b: a + b, squares))


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
        if value.dtype not in _TRAINED:
            got, allowed = f"{value.reference}: {value.dtype}", listing(map(str, _TRAINED))
            raise GraphError("cannot be trained", code="dtype", field=field, got=got, allowed=allowed)
        if value.node in graph.next_values:
            raise GraphError("has a next value already", code="duplicate", node=value.node, field=field)
        if any(each is other or each.node == other.node for other in values[:index]):
            raise GraphError("is given twice", code="duplicate", node=value.node, field=field)
    names = [each.node for each in values]
    for index, pattern in enumerate(optimizer.no_decay):
        if not any(fnmatch.fnmatchcase(name, pattern) for name in names):
            raise GraphError(
                "no parameter has this name",
                code="unknown-name",
                field=f"no_decay.{index}",
                got=pattern,
                allowed=listing(names),
            )
    return values
