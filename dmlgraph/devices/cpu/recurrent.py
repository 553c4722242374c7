"""Recurrent networks in float32: the inputs of all steps in one product, the gates of a step in another.

An error is carried from step to step like the state itself: activations that saturate keep it to a few units in the
last place a step; others may let it grow.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from dmlgraph.operators.common.numerics import convert
from dmlgraph.operators.declaration.operator import Array, Operator
from dmlgraph.operators.recurrent import Gru, Lstm, Rnn

from .blas import multiply
from .single import activated, finite, product, single

State = tuple[Array, ...]  # the hidden state first, each {B, H}
Step = Callable[[Array, State], State]  # a step's W · x + biases {B, gates · H}, which is overwritten


class Given(NamedTuple):
    """The arrays of an operator: what every one has, and the others by field, absent ones as None."""

    x: Array
    weight: Array
    recurrence: Array
    others: Mapping[str, Array | None]


def recurrent(operator: Any, x: Array, weight: Array, recurrence: Array, *others: Array | None) -> tuple[Array, ...]:
    given = Given(x, weight, recurrence, dict(zip(operator.input_fields[3:], others, strict=True)))
    lengths = given.others["sequence_lengths"]
    steps, batch = x.shape[-3:-1]
    ends = None if lengths is None else lengths.reshape(batch, 1).astype(np.int64)
    directions, hidden = recurrence.shape[1], recurrence.shape[-1]
    outputs = {"output_sequence": np.empty((steps, directions, batch, hidden), np.float32)}
    outputs |= {field: np.empty((1, directions, batch, hidden), np.float32) for field in operator.final}
    make_step = _STEPS[type(operator)]
    for index, backward in enumerate(operator.backward):
        state = tuple(
            np.zeros((batch, hidden), np.float32) if part is None else single(part[0, index])
            for part in (given.others[field] for field in operator.initial)
        )
        step = make_step(operator, given, index)
        projected = _projected(operator, given, index)
        sequence = outputs["output_sequence"][:, index]
        for time in reversed(range(steps)) if backward else range(steps):
            new = step(projected[time], state)
            if ends is None:
                sequence[time], state = new[0], new
            else:
                lasts = time < ends
                state = tuple(np.where(lasts, after, before) for after, before in zip(new, state, strict=True))
                sequence[time] = np.where(lasts, state[0], 0)
        for field, part in zip(operator.final, state, strict=True):
            outputs[field][0, index] = finite(part)
    present = [(outputs[field], getattr(operator, field)) for field in operator.output_fields]
    return tuple(convert(array, desc.dtype) for array, desc in present if desc is not None)


def _projected(operator: Any, given: Given, direction: int) -> Array:
    """W · x of every step, plus the biases that are added to it, {T, B, gates · H}."""
    result = product(given.x[0], given.weight[0, direction].T)
    bias = _bias(given, direction)
    if bias is not None:
        result += bias[0]
        # The recurrence's bias is added here too, except for the new gate of a GRU that resets it with its bias.
        gates = operator.gates - 1 if _resets_bias(operator) else operator.gates
        end = gates * (bias.shape[1] // operator.gates)
        result[..., :end] += bias[1, :end]
    return result


def _bias(given: Given, direction: int) -> Array | None:
    """Wb and Rb, {2, gates · H}."""
    bias = given.others["bias"]
    return None if bias is None else single(bias[0, 0, direction]).reshape(2, -1)


def _resets_bias(operator: Any) -> bool:
    return bool(getattr(operator, "linear_before_reset", False))


def _recurrence(given: Given, direction: int) -> Array:
    """R transposed, {H, gates · H}: packed, because every step multiplies by it."""
    return np.ascontiguousarray(single(given.recurrence[0, direction]).T)


def _functions(operator: Any, direction: int) -> list[Callable[[Array], Array]]:
    """The activations of a direction; they may overwrite their argument."""
    start = direction * operator.functions
    chosen: list[Operator] = list(operator.activation_descs[start : start + operator.functions])
    return [functools.partial(activated, each, dtype=operator.input.dtype) for each in chosen]


def _rnn(operator: Any, given: Given, direction: int) -> Step:
    weights = _recurrence(given, direction)
    (f,) = _functions(operator, direction)

    def step(gates: Array, state: State) -> State:
        gates += multiply(state[0], weights)
        return (f(finite(gates)),)

    return step


def _lstm(operator: Any, given: Given, direction: int) -> Step:
    weights = _recurrence(given, direction)
    f, g, h = _functions(operator, direction)
    peephole = given.others["peephole"]
    peepholes = [None] * 3 if peephole is None else single(peephole[0, 0, direction]).reshape(3, -1)
    to_input, to_output, to_forget = peepholes
    bound = np.float32(operator.clip_threshold) if operator.use_clip_threshold else None

    def gate(function: Callable[[Array], Array], x: Array, weight: Array | None, cell: Array) -> Array:
        if weight is not None:
            x += weight * cell
            finite(x)
        if bound is not None:
            x = np.fmin(np.fmax(x, -bound, out=x), bound, out=x)
        return function(x)

    def step(gates: Array, state: State) -> State:
        hidden, cell = state
        gates += multiply(hidden, weights)
        for_input, for_output, for_forget, for_cell = np.split(finite(gates), 4, axis=1)
        taken = gate(f, for_input, to_input, cell)
        kept = 1 - taken if operator.couple_input_forget else gate(f, for_forget, to_forget, cell)
        new = kept * cell
        new += taken * gate(g, for_cell, None, cell)
        finite(new)
        return gate(f, for_output, to_output, new) * h(new.copy()), new

    return step


def _gru(operator: Any, given: Given, direction: int) -> Step:
    weights, bias = _recurrence(given, direction), _bias(given, direction)
    size = weights.shape[0]
    f, g = _functions(operator, direction)
    for_both, for_new = np.ascontiguousarray(weights[:, : 2 * size]), np.ascontiguousarray(weights[:, 2 * size :])
    linear = _resets_bias(operator)
    new_bias = np.float32(0) if bias is None else bias[1, 2 * size :]

    def step(gates: Array, state: State) -> State:
        (hidden,) = state
        both, new = gates[:, : 2 * size], gates[:, 2 * size :]
        both += multiply(hidden, for_both)
        update, reset = np.split(f(finite(both)), 2, axis=1)
        if linear:
            new += reset * (multiply(hidden, for_new) + new_bias)
        else:
            new += multiply(reset * hidden, for_new)
        new = g(finite(new))
        return (finite(new + update * (hidden - new)),)

    return step


_STEPS: dict[type[Operator], Callable[[Any, Given, int], Step]] = {Rnn: _rnn, Lstm: _lstm, Gru: _gru}
