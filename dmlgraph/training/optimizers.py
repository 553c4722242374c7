"""Optimizers: what becomes of parameters once their gradients are known.

    g.minimize(loss, [w, b], optimizer=dg.Adam(1e-3))

An optimizer makes nodes: of a parameter, its gradient and what is kept of earlier steps, the next parameter and what is
kept then.  What it keeps are states of the graph, beside the parameters.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

from dmlgraph import operators as ops
from dmlgraph.base.errors import GraphError
from dmlgraph.graph.calls import apply
from dmlgraph.graph.value import Value

Rate = float | str | Value
DYNAMIC: Literal["dynamic"] = "dynamic"


@dataclasses.dataclass(frozen=True)
class Step:
    """One step of training of one parameter, as an optimizer sees it.

    Attributes:
        rate: how far it goes, one number.
        numbers: the numbers of the whole optimizer after this step, by name.
        decay: the weight decay of the parameter.
    """

    rate: Value | float
    numbers: Mapping[str, Value]
    decay: float


@dataclasses.dataclass(frozen=True)
class Optimizer:
    """Base: what all optimizers take.

    Attributes:
        rate: a number, a value of the graph with one element, or an expression of `step`, which is 1 at the first step:
            "1e-3 * min(1, step / 100)".
        clip_norm: gradients are scaled so that the root of the sum of all their squares is at most this.
        accumulate: how many runs make one step, by the mean of their gradients.
        loss_scale: gradients are computed of the loss times this, and divided by it in float32, so that small ones do
            not become 0 in float16.  "dynamic" halves it when a gradient is infinite or NaN, and does not take that
            step; it doubles it after 2000 steps without such.
        weight_decay: times the parameter, it is added to the gradient.
        no_decay: the names of parameters without decay; `*` stands for any text: "*.bias".
    """

    kept: ClassVar[tuple[str, ...]] = ()  # what is kept for each parameter, zeros at first

    rate: Rate
    clip_norm: float | None = dataclasses.field(default=None, kw_only=True)
    accumulate: int = dataclasses.field(default=1, kw_only=True)
    loss_scale: float | Literal["dynamic"] | None = dataclasses.field(default=None, kw_only=True)
    weight_decay: float = dataclasses.field(default=0.0, kw_only=True)
    no_decay: Sequence[str] = dataclasses.field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.rate, (str, Value)):
            _check_number("rate", self.rate)
        if self.clip_norm is not None:
            _check_number("clip_norm", self.clip_norm, above=0)
        if isinstance(self.accumulate, bool) or not isinstance(self.accumulate, int) or self.accumulate < 1:
            raise GraphError(
                _IMPOSSIBLE, code="range", field="accumulate", got=self.accumulate, allowed="a whole number, 1 or more"
            )
        if self.loss_scale not in (None, DYNAMIC):
            _check_number("loss_scale", self.loss_scale, above=0, or_else=f'or "{DYNAMIC}"')
        _check_number("weight_decay", self.weight_decay)
        if isinstance(self.no_decay, str) or not all(isinstance(each, str) for each in self.no_decay):
            raise GraphError("takes a list of names", code="kind", field="no_decay", got=self.no_decay)

    @property
    def numbers(self) -> Mapping[str, Callable[[Value], Value]]:
        """How the numbers of the whole optimizer, 0 at first, change at each step."""
        return {}

    def decay(self, name: str) -> float:
        """The weight decay of the parameter of this name."""
        return 0.0 if any(fnmatch.fnmatchcase(name, each) for each in self.no_decay) else self.weight_decay

    def next(self, step: Step, parameter: Value, gradient: Value, *kept: Value) -> tuple[Value, ...]:
        """The parameter after the step, and what is kept of it, in the order of `kept`."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class SGD(Optimizer):
    """Gradient descent: p − rate · v, with v = momentum · v + gradient, as in PyTorch.

    Attributes:
        momentum: how much of the last direction stays.
        nesterov: whether the gradient is added to momentum · v once more.
    """

    momentum: float = dataclasses.field(default=0.0, kw_only=True)
    nesterov: bool = dataclasses.field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_number("momentum", self.momentum, below=1)
        if self.nesterov and not self.momentum:
            raise GraphError("needs a momentum", code="conflict", field="nesterov", got=True)

    @property
    def kept(self) -> tuple[str, ...]:  # type: ignore[override]  # without momentum nothing is kept
        return ("direction",) if self.momentum else ()

    def next(self, step: Step, parameter: Value, gradient: Value, *kept: Value) -> tuple[Value, ...]:
        gradient = _with_decay(gradient, parameter, step)
        if not kept:
            return (parameter - gradient * step.rate,)
        direction = kept[0] * self.momentum + gradient
        taken = direction * self.momentum + gradient if self.nesterov else direction
        return parameter - taken * step.rate, direction


@dataclasses.dataclass(frozen=True)
class Adam(Optimizer):
    """Adam (Kingma and Ba, 2014): p − rate · m̂ / (√v̂ + epsilon), as in PyTorch.

    m and v are running averages of the gradient and of its square; m̂ and v̂ are divided by 1 − beta^step.  This
    divisor is a state of its own, d = beta · d + 1 − beta, because in float32 digits of 1 − beta^step cancel at the
    first steps.  DirectML's ADAM_OPTIMIZER is not used: it takes no rate that changes, and adds epsilon to √v instead
    of √v̂, which at the first step is 30 times as much.

    Attributes:
        beta1: how much of m stays at each step.
        beta2: how much of v stays at each step.
        epsilon: what keeps the divisor from zero.
    """

    kept: ClassVar = ("first_moment", "second_moment")

    rate: Rate = 1e-3
    beta1: float = dataclasses.field(default=0.9, kw_only=True)
    beta2: float = dataclasses.field(default=0.999, kw_only=True)
    epsilon: float = dataclasses.field(default=1e-8, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_number("beta1", self.beta1, below=1)
        _check_number("beta2", self.beta2, below=1)
        _check_number("epsilon", self.epsilon, above=0)

    @property
    def numbers(self) -> Mapping[str, Callable[[Value], Value]]:
        return {
            "first_divisor": lambda divisor: divisor * self.beta1 + (1 - self.beta1),
            "second_divisor": lambda divisor: divisor * self.beta2 + (1 - self.beta2),
        }

    def next(self, step: Step, parameter: Value, gradient: Value, *kept: Value) -> tuple[Value, ...]:
        first, second = kept
        gradient = _with_decay(gradient, parameter, step)
        first = first * self.beta1 + gradient * (1 - self.beta1)
        second = second * self.beta2 + gradient * gradient * (1 - self.beta2)
        root = apply(ops.Sqrt, second / step.numbers["second_divisor"])
        change = first / (root + self.epsilon) * (step.rate / step.numbers["first_divisor"])
        return parameter - change, first, second


@dataclasses.dataclass(frozen=True)
class AdamW(Adam):
    """Adam, with a decay of the parameters that does not go through the moments: p · (1 − rate · weight_decay).

    Attributes:
        weight_decay: how fast parameters shrink.
    """

    weight_decay: float = dataclasses.field(default=0.01, kw_only=True)

    def next(self, step: Step, parameter: Value, gradient: Value, *kept: Value) -> tuple[Value, ...]:
        if step.decay:
            parameter = parameter * (1 - step.rate * step.decay)
        return super().next(dataclasses.replace(step, decay=0.0), parameter, gradient, *kept)


_IMPOSSIBLE = "is not possible here"


def _with_decay(gradient: Value, parameter: Value, step: Step) -> Value:
    return gradient + parameter * step.decay if step.decay else gradient


def _check_number(
    field: str, number: Any, *, above: float | None = None, below: float = math.inf, or_else: str = ""
) -> None:
    """Refuses everything except numbers of at least 0, or above `above`, and below `below`."""
    is_number = isinstance(number, (int, float)) and not isinstance(number, bool)
    if not is_number or not 0 <= number < below or (above is not None and number <= above):
        low = "0 or more" if above is None else f"above {above}"
        allowed = f"a number {low}" + ("" if below == math.inf else f", below {below}") + (or_else and f", {or_else}")
        raise GraphError(_IMPOSSIBLE, code="range", field=field, got=number, allowed=allowed)
