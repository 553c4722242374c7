"""Recurrent networks of one layer: a state for each sequence, carried from one time step to the next.

T is the number of time steps, B of sequences, D of directions (2 if bidirectional), I of input numbers per step, and H
the hidden size; tensors have 4 dimensions.  Everything is computed in float64, and rounded once, when it is stored.

Sequence lengths are 1 to T.  Others are undefined: here a length of 0 gives the initial state, and one beyond T counts
as T.  Forward, DirectML reads output_single at the step before the length, which is 0 if there is no such step; for a
length of 0, output_cell_single is that after one step (measured).

RNN and LSTM clip the arguments of f and g to ± the greatest float32, or to the threshold; NaN becomes the lower bound.
For float16 the bound is infinite (measured).  GRU keeps NaN.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

from dmlgraph import operators as ops
from dmlgraph.base.errors import Problem
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.tensor import DataType
from dmlgraph.operators.catalog.registry import REGISTRY
from dmlgraph.operators.common import unrolling
from dmlgraph.operators.common.element_wise import Unary
from dmlgraph.operators.common.numerics import convert
from dmlgraph.operators.declaration.constraints import (
    count_is,
    fusable,
    is_given,
    rank_at_least,
    require,
    rule,
    sizes_are,
)
from dmlgraph.operators.declaration.derivative import Backward, Tensor, by_composition
from dmlgraph.operators.declaration.fields import (
    Bool,
    Count,
    Float,
    Input,
    OptionalCountInput,
    OptionalInput,
    OptionalOutput,
    inferred,
)
from dmlgraph.operators.declaration.fused import Activations, FusedActivation
from dmlgraph.operators.declaration.operator import Array, Operator
from dmlgraph.operators.declaration.outputs import Given, Outcome
from dmlgraph.operators.directml_enums import RecurrentNetworkDirection

State = tuple[Array, ...]  # the state after a step, each {B, H}; the hidden state first
Function = Callable[[Array], Array]
Step = Callable[[Array, State], State]  # a step's W · x + Wb by gate, {gates, B, H}, and the state → the next state


class Recurrent(Operator):
    """Base: the sizes of all tensors, the parts of the weights, and the loop over time."""

    meanings: ClassVar = {
        "weight": "The weights of the input, for each direction, gate by gate.",
        "recurrence": "The weights of the hidden state, for each direction, gate by gate.",
        "hidden_init": "The hidden state before the first step; zeros if it is left out.",
        "output_sequence": "The hidden state after every step.",
        "output_single": "The hidden state after the last step.",
        "activation_descs": "The activations of the gates for each direction, forward first.",
        "direction": "Whether it goes forward through time, backward, or both ways.",
    }

    input: Input
    weight: Input
    recurrence: Input
    bias: OptionalInput = None
    hidden_init: OptionalInput = None
    sequence_lengths: OptionalCountInput = None
    output_sequence: OptionalOutput = inferred()
    output_single: OptionalOutput = inferred()
    activation_descs: Annotated[Activations, Count("ActivationDescCount")]
    direction: RecurrentNetworkDirection = RecurrentNetworkDirection.FORWARD

    heavy: ClassVar = True
    takes_owned: ClassVar = False
    gates: ClassVar[int]  # blocks of H rows that the weights have
    functions: ClassVar[int]  # activations that each direction has
    initial: ClassVar[tuple[str, ...]] = ("hidden_init",)  # inputs: the state before the first step
    final: ClassVar[tuple[str, ...]] = ("output_single",)  # outputs: the state after the last

    def products(self) -> int:
        """Every weight is used at each step for each sequence of the batch."""
        steps, batch = self.input.sizes[-3:-1]
        return steps * batch * (self.weight.element_count + self.recurrence.element_count)

    @property
    def backward(self) -> tuple[bool, ...]:
        """For each direction, whether it goes from the last step to the first."""
        return {
            RecurrentNetworkDirection.FORWARD: (False,),
            RecurrentNetworkDirection.BACKWARD: (True,),
            RecurrentNetworkDirection.BIDIRECTIONAL: (False, True),
        }[self.direction]

    @property
    def bound(self) -> float | None:
        """± what the arguments of f and g are clipped to; a bound that is NaN has no effect, like None."""
        return math.inf if self.input.dtype is DataType.FLOAT16 else float(np.finfo(np.float32).max)

    def infer(self, given: Given) -> Outcome:
        for field in ("input", "weight", "recurrence"):
            require(rank_at_least(field, getattr(self, field), 4, "must have 4 dimensions", "4 sizes"))
        tensor, hidden = self.input, self.recurrence.sizes[-1]
        front, (steps, batch) = tensor.sizes[:-3], tensor.sizes[-3:-1]
        single = tensor.like(sizes=(*front, len(self.backward), batch, hidden))
        sequence = tensor.like(sizes=(*front[1:], steps, len(self.backward), batch, hidden))
        outputs = dict.fromkeys(self.final, single) | {"output_sequence": sequence}
        return {field: outputs[field] if self.wants(given, field) else None for field in self.output_fields}

    def constraints(self) -> Iterator[Problem]:
        for field, sizes in self._sizes().items():
            yield from sizes_are(field, getattr(self, field), sizes)
        has_output = any(getattr(self, field) is not None for field in self.output_fields)
        message = "at least one output must be requested"
        yield from rule(has_output, self.output_fields[0], message, "missing", got=False)
        count = self.functions * len(self.backward)
        message = f"must be {self.functions} for each direction"
        yield from count_is("activation_descs", self.activation_descs, count, message)
        for index, activation in enumerate(self.activation_descs):
            names = (name for name, each in sorted(REGISTRY.items()) if _is_function(each))
            field, message = f"activation_descs.{index}", "cannot be used here"
            yield from fusable(field, activation.name, _is_function(activation.operator), names, message)

    def level_constraints(self, level: FeatureLevel) -> Iterator[Problem]:
        for index, activation in enumerate(self.activation_descs):
            since = activation.operator.support().introduced
            if since > level:
                message = f"does not exist at feature level {level}; legal from {since}"
                yield Problem(message, code="level", field=f"activation_descs.{index}", got=activation.name)

    def _sizes(self) -> dict[str, tuple[int, ...]]:
        """The required sizes of the tensors; the input's, and the last one of recurrence, are free."""
        tensor, hidden = self.input, self.recurrence.sizes[-1]
        front, directions = (1,) * (tensor.rank - 3), len(self.backward)
        batch, numbers = tensor.sizes[-2:]
        state = (*front, directions, batch, hidden)
        return {
            "input": (*front, *tensor.sizes[-3:]),
            "weight": (*front, directions, self.gates * hidden, numbers),
            "recurrence": (*front, directions, self.gates * hidden, hidden),
            "bias": (*front, 1, directions, 2 * self.gates * hidden),
            "sequence_lengths": (*front, 1, 1, batch),
            **dict.fromkeys(self.initial, state),
        }

    def evaluate(self, *inputs: Array | None) -> tuple[Array, ...]:
        given: Mapping[str, Any] = dict(zip(self.input_fields, inputs, strict=True))
        x, recurrence, lengths = given["input"], given["recurrence"], given["sequence_lengths"]
        steps, batch = x.shape[-3:-1]
        ends = np.full(batch, steps) if lengths is None else lengths.reshape(batch).astype(np.int64)
        sequences, finals = [], []
        with np.errstate(all="ignore"):
            for index, backward in enumerate(self.backward):
                state = tuple(
                    np.zeros((batch, recurrence.shape[-1])) if part is None else part[0, index].astype(np.float64)
                    for part in (given[field] for field in self.initial)
                )
                hidden, state = walk(self._inputs(given, index), self._step(given, index), state, ends, backward)
                sequences.append(hidden)
                finals.append(state)
        outputs = {"output_sequence": np.stack(sequences, 1)}
        outputs |= {
            field: np.stack(parts)[None] for field, parts in zip(self.final, zip(*finals, strict=True), strict=True)
        }
        present = [(field, getattr(self, field)) for field in self.output_fields]
        return tuple(convert(outputs[field], desc.dtype) for field, desc in present if desc is not None)

    def _inputs(self, given: Mapping[str, Any], direction: int) -> Array:
        """W · x + Wb of every step, {T, gates, B, H}."""
        x, weight = given["input"], given["weight"]
        by_gate = weight[0, direction].astype(np.float64).reshape(self.gates, -1, weight.shape[-1])
        products = x[0, :, None].astype(np.float64) @ by_gate.swapaxes(-1, -2)
        return np.asarray(products + self._biases(given, direction)[0])

    def _biases(self, given: Mapping[str, Any], direction: int) -> Array:
        """Wb and Rb by gate, {2, gates, 1, H}."""
        bias = given["bias"]
        if bias is None:
            return np.zeros((2, self.gates, 1, 1))
        return np.asarray(bias[0, 0, direction].astype(np.float64).reshape(2, self.gates, 1, -1))

    def _recurrence(self, given: Mapping[str, Any], direction: int) -> tuple[Array, Array]:
        """R by gate, transposed, {gates, H, H}, and Rb by gate, {gates, 1, H}."""
        recurrence = given["recurrence"]
        hidden = recurrence.shape[-1]
        by_gate = recurrence[0, direction].astype(np.float64).reshape(self.gates, hidden, hidden)
        # Copied, because every step multiplies by it, and a packed matrix is much faster.
        return by_gate.swapaxes(-1, -2).copy(), self._biases(given, direction)[1]

    def _functions(self, direction: int) -> list[Function]:
        """The activations f, g, h of a direction."""
        start = direction * self.functions
        dtype = self.input.dtype
        chosen = self.activation_descs[start : start + self.functions]
        return [functools.partial(each.on_result(2).apply_fused, dtype=dtype) for each in chosen]

    def _step(self, given: Mapping[str, Any], direction: int) -> Step:
        """The function of one time step of a direction."""
        raise NotImplementedError

    derivative = by_composition

    def compose(self, back: Backward) -> Sequence[Tensor | None]:
        given = dict(zip(self.input_fields, back.inputs, strict=True))
        functions = [self._composed(back, direction) for direction in range(len(self.backward))]
        hiddens, finals = unrolling.unrolled(back, given, self.initial, self.backward, functions, self.composed_step)
        outputs = {"output_sequence": hiddens, **dict(zip(self.final, finals, strict=True))}
        made = zip(self.output_fields, self.output_descs, strict=True)
        return [None if desc is None else outputs[field].reshape(desc.sizes) for field, desc in made]

    def _composed(self, back: Backward, direction: int) -> list[unrolling.Function]:
        """The activations f, g, h of a direction as nodes."""
        chosen = self.activation_descs[direction * self.functions :][: self.functions]
        return [functools.partial(self.applied, back, each, place) for place, each in enumerate(chosen)]

    def applied(self, back: Backward, activation: FusedActivation, place: int, x: Tensor) -> Tensor:
        """An activation of a gate's argument; `place`: 0 for f, 1 for g, 2 for h."""
        return back(activation.operator, x, **activation.attributes)

    def composed_step(
        self, back: Backward, direction: unrolling.Direction, inputs: Tensor, state: unrolling.States
    ) -> unrolling.States:
        """One time step as nodes."""
        raise NotImplementedError


def _clipped(function: Function, bound: float | None) -> Function:
    """The function of a number clipped to ±bound; NaN becomes −bound."""
    return function if bound is None else lambda x: function(np.fmin(np.fmax(x, -bound), bound))


def _is_function(operator: type[Operator]) -> bool:
    """Whether a recurrent network accepts it: activations of one number, not those along axes (measured)."""
    return operator.dml.startswith("ACTIVATION_") and issubclass(operator, Unary)


def walk(inputs: Array, step: Step, state: State, ends: Array, backward: bool) -> tuple[Array, State]:
    """Carries a state along time; returns the hidden state of every step, {T, B, H}, and the last state.

    Each sequence of the batch has `ends` steps: beyond them its output is 0 and its state stays.
    """
    hidden = np.zeros((len(inputs), *state[0].shape))
    for time in reversed(range(len(inputs))) if backward else range(len(inputs)):
        lasts = (time < ends)[:, None]
        state = tuple(np.where(lasts, new, old) for new, old in zip(step(inputs[time], state), state, strict=True))
        hidden[time] = np.where(lasts, state[0], 0)
    return hidden, state


class Rnn(Recurrent, dml="RNN"):
    """H_t = f(W · X_t + R · H_(t−1) + Wb + Rb), along time forward, backward or both.

    Shapes: input {1, T, B, I}, weight {1, D, H, I}, recurrence {1, D, H, H}, bias {1, 1, D, 2H} (Wb, then Rb),
    hidden_init {1, D, B, H} (H_0, zeros if left out), sequence_lengths {1, 1, 1, B} (T each if left out),
    output_sequence {T, D, B, H} (every H_t), output_single {1, D, B, H} (the last).  `activation_descs` names f
    for each direction, forward first.  Beyond its length a sequence gives zeros, and output_single is its state at
    its last step; backward, it begins at its last step.
    """

    gates: ClassVar = 1
    functions: ClassVar = 1
    example: ClassVar = (
        "input: [1, 3, 2, 4], weight: [1, 1, 5, 4], recurrence: [1, 1, 5, 5], sequence_lengths: [1, 1, 1, 2], "
        "direction: forward, activation_descs: [activation_tanh]"
    )

    def _step(self, given: Mapping[str, Any], direction: int) -> Step:
        (weights,), (bias,) = self._recurrence(given, direction)
        (function,) = self._functions(direction)
        f = _clipped(function, self.bound)
        return lambda inputs, state: (f(inputs[0] + state[0] @ weights + bias),)

    def composed_step(
        self, back: Backward, direction: unrolling.Direction, inputs: Tensor, state: unrolling.States
    ) -> unrolling.States:
        (f,) = direction.functions
        return (f(inputs + direction.recurred(back, state[0])),)


class Lstm(Recurrent, dml="LSTM"):
    """Long short-term memory: hidden state H and cells C, along time forward, backward or both.

    · is a product of matrices and ∘ one of elements:
    i = f(Wi · X_t + Ri · H_(t−1) + Pi ∘ C_(t−1) + Wbi + Rbi)
    F = f(Wf · X_t + Rf · H_(t−1) + Pf ∘ C_(t−1) + Wbf + Rbf), or 1 − i with `couple_input_forget`
    c = g(Wc · X_t + Rc · H_(t−1) + Wbc + Rbc)
    C_t = F ∘ C_(t−1) + i ∘ c
    o = f(Wo · X_t + Ro · H_(t−1) + Po ∘ C_t + Wbo + Rbo)
    H_t = o ∘ h(C_t)
    With `use_clip_threshold` (by default true if `clip_threshold` is given) the arguments of f and g are clipped to
    ±`clip_threshold`, that of h is not (measured).  NaN becomes the lower bound.  The documentation has Po ∘ C_(t−1),
    but DirectML computes Po ∘ C_t (measured).

    Shapes: input {1, T, B, I}, weight {1, D, 4H, I} and recurrence {1, D, 4H, H} (gates i, o, F, c), bias
    {1, 1, D, 8H} (Wb, then Rb), hidden_init and cell_mem_init {1, D, B, H} (zeros if left out), sequence_lengths
    {1, 1, 1, B} (T each if left out), peephole {1, 1, D, 3H} (Pi, Po, Pf; zeros if left out), output_sequence
    {T, D, B, H} (every H_t), output_single and output_cell_single {1, D, B, H} (the last H and C).
    `activation_descs` names f, g and h for each direction, forward first.  Beyond its length a sequence gives
    zeros, and the single outputs are its state at its last step; backward, it begins at its last step.
    """

    meanings: ClassVar = {
        "peephole": "The weights with which the gates see the cell state.",
        "cell_mem_init": "The cell state before the first step; zeros if it is left out.",
        "output_cell_single": "The cell state after the last step.",
        "clip_threshold": "The bound to which the gates' arguments are clamped.",
        "use_clip_threshold": "Whether the gates' arguments are clamped.",
        "couple_input_forget": "Whether the forget gate is 1 minus the input gate.",
    }
    gates: ClassVar = 4
    functions: ClassVar = 3
    initial: ClassVar = ("hidden_init", "cell_mem_init")
    final: ClassVar = ("output_single", "output_cell_single")
    example: ClassVar = (
        "input: [1, 3, 2, 4], weight: [1, 1, 20, 4], recurrence: [1, 1, 20, 5], sequence_lengths: [1, 1, 1, 2], "
        "direction: forward, activation_descs: [activation_sigmoid, activation_tanh, activation_tanh], "
        "clip_threshold: 5"
    )

    cell_mem_init: OptionalInput = None
    sequence_lengths: OptionalCountInput = None
    peephole: OptionalInput = None
    output_cell_single: OptionalOutput = inferred()
    clip_threshold: Float = inferred()
    use_clip_threshold: Bool = inferred()
    couple_input_forget: Bool = False

    def fill_in(self, given: Given) -> Mapping[str, Any]:
        bound, clips = given.get("clip_threshold"), given.get("use_clip_threshold")
        if clips:
            require(is_given("clip_threshold", bound, "must be given if use_clip_threshold is true"))
        return {
            "clip_threshold": 0.0 if bound is None else bound,
            "use_clip_threshold": bound is not None if clips is None else clips,
        }

    def _sizes(self) -> dict[str, tuple[int, ...]]:
        directions, front = len(self.backward), (1,) * (self.input.rank - 3)
        return super()._sizes() | {"peephole": (*front, 1, directions, 3 * self.recurrence.sizes[-1])}

    @property
    def bound(self) -> float | None:
        return self.clip_threshold if self.use_clip_threshold else super().bound

    def _functions(self, direction: int) -> list[Function]:
        f, g, h = super()._functions(direction)
        return [_clipped(f, self.bound), _clipped(g, self.bound), h]

    def _step(self, given: Mapping[str, Any], direction: int) -> Step:
        weights, biases = self._recurrence(given, direction)
        f, g, h = self._functions(direction)
        peephole = given["peephole"]
        peepholes = [None] * 3 if peephole is None else peephole[0, 0, direction].astype(np.float64).reshape(3, -1)
        to_input, to_output, to_forget = peepholes

        def gate(sums: Array, weight: Array | None, cell: Array) -> Array:
            return f(sums if weight is None else sums + weight * cell)

        def step(inputs: Array, state: State) -> State:
            hidden, cell = state
            for_input, for_output, for_forget, for_cell = inputs + hidden @ weights + biases
            taken = gate(for_input, to_input, cell)
            kept = 1 - taken if self.couple_input_forget else gate(for_forget, to_forget, cell)
            new = kept * cell + taken * g(for_cell)
            return gate(for_output, to_output, new) * h(new), new

        return step

    def applied(self, back: Backward, activation: FusedActivation, place: int, x: Tensor) -> Tensor:
        if self.use_clip_threshold and place < 2:
            x = back(ops.Clip, x, min=-self.clip_threshold, max=self.clip_threshold)
        return super().applied(back, activation, place, x)

    def composed_step(
        self, back: Backward, direction: unrolling.Direction, inputs: Tensor, state: unrolling.States
    ) -> unrolling.States:
        (hidden, cell), (f, g, h) = state, direction.functions
        for_input, for_output, for_forget, for_cell = direction.gates(back, inputs + direction.recurred(back, hidden))
        if direction.peepholes:
            to_input, to_output, to_forget = direction.peepholes
            for_input, for_forget = for_input + cell * to_input, for_forget + cell * to_forget
        taken = f(for_input)
        kept = 1 - taken if self.couple_input_forget else f(for_forget)
        new = kept * cell + taken * g(for_cell)
        if direction.peepholes:
            for_output = for_output + new * to_output
        return f(for_output) * h(new), new


class Gru(Recurrent, dml="GRU"):
    """Gated recurrent unit: hidden state H, along time forward, backward or both.

    · is a product of matrices and ∘ one of elements:
    z = f(Wz · X_t + Rz · H_(t−1) + Wbz + Rbz)
    r = f(Wr · X_t + Rr · H_(t−1) + Wbr + Rbr)
    h = g(Wh · X_t + Rh · (r ∘ H_(t−1)) + Wbh + Rbh), or with `linear_before_reset`
    h = g(Wh · X_t + r ∘ (Rh · H_(t−1) + Rbh) + Wbh)
    H_t = (1 − z) ∘ h + z ∘ H_(t−1)

    Shapes: input {1, T, B, I}, weight {1, D, 3H, I} and recurrence {1, D, 3H, H} (gates z, r, h), bias
    {1, 1, D, 6H} (Wb, then Rb), hidden_init {1, D, B, H} (H_0, zeros if left out), sequence_lengths {1, 1, 1, B}
    (T each if left out), output_sequence {T, D, B, H} (every H_t), output_single {1, D, B, H} (the last).
    `activation_descs` names f and g for each direction, forward first.  Beyond its length a sequence gives zeros,
    and output_single is its state at its last step; backward, it begins at its last step.
    """

    meanings: ClassVar = {
        "linear_before_reset": "Whether the reset gate is applied after the product with the recurrence.",
    }
    gates: ClassVar = 3
    functions: ClassVar = 2
    example: ClassVar = (
        "input: [1, 3, 2, 4], weight: [1, 1, 15, 4], recurrence: [1, 1, 15, 5], sequence_lengths: [1, 1, 1, 2], "
        "direction: forward, activation_descs: [activation_sigmoid, activation_tanh], linear_before_reset: true"
    )

    linear_before_reset: Bool = False

    @property
    def bound(self) -> None:
        return None

    def _step(self, given: Mapping[str, Any], direction: int) -> Step:
        (update_weights, reset_weights, new_weights), (update_bias, reset_bias, new_bias) = self._recurrence(
            given, direction
        )
        f, g = self._functions(direction)

        def step(inputs: Array, state: State) -> State:
            (hidden,) = state
            for_update, for_reset, for_new = inputs
            update = f(for_update + hidden @ update_weights + update_bias)
            reset = f(for_reset + hidden @ reset_weights + reset_bias)
            if self.linear_before_reset:
                new = g(for_new + reset * (hidden @ new_weights + new_bias))
            else:
                new = g(for_new + (reset * hidden) @ new_weights + new_bias)
            return ((1 - update) * new + update * hidden,)

        return step

    def composed_step(
        self, back: Backward, direction: unrolling.Direction, inputs: Tensor, state: unrolling.States
    ) -> unrolling.States:
        (hidden,), (f, g) = state, direction.functions
        for_update, for_reset, for_new = direction.gates(back, inputs)
        of_update, of_reset, of_new = direction.gates(back, direction.recurred(back, hidden))
        update, reset = f(for_update + of_update), f(for_reset + of_reset)
        if self.linear_before_reset:
            new = g(for_new + reset * of_new)
        else:
            size = hidden.sizes[1]
            weights = direction.recurrence[2 * size :]
            new = for_new + back(ops.Gemm, reset * hidden, weights, trans_b="transpose")
            new = g(new if direction.bias is None else new + direction.bias[:, 2 * size :])
        return ((1 - update) * new + update * hidden,)
