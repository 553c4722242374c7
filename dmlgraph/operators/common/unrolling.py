"""Recurrent networks as products and activations, step by step: what their derivatives go through.

Every tensor here is of one direction; a state is {B, H}.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from dmlgraph import operators as ops
from dmlgraph.operators.declaration.derivative import Backward, Tensor, present

States = tuple[Tensor, ...]  # the state after a step; the hidden state first
Function = Callable[[Tensor], Tensor]


class Direction(NamedTuple):
    """What one direction of a network computes with.

    Attributes:
        inputs: W · x + Wb of every step, {T, B, gates · H}.
        recurrence: {gates · H, H}.
        bias: Rb, {1, gates · H}; None if it is left out.
        peepholes: three, {1, H}; empty if they are left out.
        functions: f, g, h.
    """

    inputs: Tensor
    recurrence: Tensor
    bias: Tensor | None
    peepholes: Sequence[Tensor]
    functions: Sequence[Function]

    def gates(self, back: Backward, tensor: Tensor) -> list[Tensor]:
        """The parts of {B, gates · H}, by gate."""
        count = self.recurrence.sizes[0] // self.recurrence.sizes[1]
        return [tensor] if count == 1 else list(back.several(ops.Split, tensor, axis=1, outputs=count))

    def recurred(self, back: Backward, hidden: Tensor) -> Tensor:
        """R · H + Rb, {B, gates · H}."""
        product = back(ops.Gemm, hidden, self.recurrence, trans_b="transpose")
        return product if self.bias is None else product + self.bias


Step = Callable[[Backward, Direction, Tensor, States], States]  # of W · x + Wb and the state before


def unrolled(
    back: Backward,
    given: Mapping[str, Tensor | None],
    initial: Sequence[str],
    backward: Sequence[bool],
    functions: Sequence[Sequence[Function]],
    step: Step,
) -> tuple[Tensor, list[Tensor]]:
    """The hidden states {T, D, B, H} of all steps, and the last state {D, B, H}, each part of it.

    Args:
        back: makes the nodes.
        given: the inputs by field.
        initial: the fields of the state before the first step.
        backward: by direction, whether it goes from the last step to the first.
        functions: by direction.
        step: of the network.
    """
    sequences, lasts = [], []
    for index, (reverse, each) in enumerate(zip(backward, functions, strict=True)):
        direction = _direction(back, given, index, len(backward), each)
        batch, hidden = direction.inputs.sizes[1], direction.recurrence.sizes[1]
        states = []
        for field in initial:
            part = given[field]
            zeros = back.builder.fill(0, (batch, hidden), direction.inputs.dtype)
            states.append(zeros if part is None else part.reshape(-1, batch, hidden)[index])
        hiddens, state = _walked(back, direction, tuple(states), given["sequence_lengths"], reverse, step)
        sequences.append(back(ops.Join, [each.reshape(1, 1, batch, hidden) for each in hiddens], axis=0))
        lasts.append([part.reshape(1, batch, hidden) for part in state])
    finals = [back(ops.Join, list(parts), axis=0) for parts in zip(*lasts, strict=True)]
    return back(ops.Join, sequences, axis=1), finals


def _walked(
    back: Backward, direction: Direction, state: States, lengths: Tensor | None, reverse: bool, step: Step
) -> tuple[list[Tensor], States]:
    """The hidden state of every step, and the last state; beyond its length a sequence gives 0 and keeps its state."""
    steps, batch, rows = direction.inputs.sizes
    # Split at once: the gradients of the steps are joined then; those of slices would be summed up one by one.
    lines = direction.inputs.reshape(steps * batch, rows)
    inputs = [lines] if steps == 1 else list(back.several(ops.Split, lines, axis=0, outputs=steps))
    hiddens: list[Tensor] = []
    for time in reversed(range(steps)) if reverse else range(steps):
        new = step(back, direction, inputs[time], state)
        if lengths is None:
            state, hidden = new, new[0]
        else:
            counts = lengths.reshape(batch, 1) > time
            state = tuple(back.choose(counts, after, before) for after, before in zip(new, state, strict=True))
            hidden = back.choose(counts, state[0], 0)
        hiddens.append(hidden)
    return hiddens[::-1] if reverse else hiddens, state


def _direction(
    back: Backward, given: Mapping[str, Tensor | None], index: int, count: int, functions: Sequence[Function]
) -> Direction:
    x, weight, recurrence = (present(given[field]) for field in ("input", "weight", "recurrence"))
    (steps, batch, numbers), hidden = x.sizes[-3:], recurrence.sizes[-1]
    rows = weight.sizes[-2]
    of_input, of_hidden = weight.reshape(count, rows, numbers)[index], recurrence.reshape(count, rows, hidden)[index]
    inputs = back(ops.Gemm, x.reshape(steps * batch, numbers), of_input, trans_b="transpose")
    bias, peepholes = given["bias"], given.get("peephole")
    recurrent = None
    if bias is not None:
        both = bias.reshape(count, 2, 1, rows)[index]
        inputs, recurrent = inputs + both[0], both[1]
    parts = [] if peepholes is None else [peepholes.reshape(count, 3, 1, hidden)[index][part] for part in range(3)]
    return Direction(inputs.reshape(steps, batch, rows), of_hidden, recurrent, parts, functions)
