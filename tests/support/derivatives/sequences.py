"""Recurrent networks and attention."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from support.derivatives.case import Array, Case

import dmlgraph as dg

T, B, X, H = 3, 2, 2, 2  # steps, batch, numbers of an input and of a state


def network(
    function: Callable[..., Any], names: Sequence[str], *given: dg.Value, **fields: Any
) -> tuple[dg.Value, ...]:
    """All outputs of a network."""
    asked = {"output_sequence": True, "output_single": True}
    if function is dg.lstm:
        asked["output_cell_single"] = True
    return tuple(function(**dict(zip(names, given, strict=True)), **asked, **fields))


def recurrent(name: str, gates: int, directions: int, *, more: Sequence[str] = (), **fields: Any) -> Case:
    """A network with a bias and an initial state, and the inputs `more`."""
    sizes: dict[str, Array | Sequence[int]] = {
        "input": [1, T, B, X],
        "weight": [1, directions, gates * H, X],
        "recurrence": [1, directions, gates * H, H],
        "bias": [1, 1, directions, 2 * gates * H],
        "hidden_init": [1, directions, B, H],
        "cell_mem_init": [1, directions, B, H],
        "peephole": [1, 1, directions, 3 * H],
        "sequence_lengths": np.array([[[[3, 2]]]], np.uint32),
    }
    names = ["input", "weight", "recurrence", *more]
    build = functools.partial(network, getattr(dg, name), names, **fields)
    title = f"{name} {fields['direction']} {' '.join(more)}"
    return Case(title, build, [sizes[each] for each in names], -1, 1)


RNN, LSTM, GRU = (
    ["activation_tanh"],
    ["activation_sigmoid", "activation_tanh", "activation_tanh"],
    ["activation_sigmoid", "activation_tanh"],
)
RECURRENT = [
    recurrent("rnn", 1, 1, direction="forward", activation_descs=RNN),
    recurrent("rnn", 1, 2, more=["bias", "hidden_init"], direction="bidirectional", activation_descs=RNN * 2),
    recurrent("rnn", 1, 1, more=["sequence_lengths"], direction="backward", activation_descs=RNN),
    recurrent("lstm", 4, 1, direction="forward", activation_descs=LSTM),
    recurrent(
        "lstm",
        4,
        1,
        more=["bias", "hidden_init", "cell_mem_init", "sequence_lengths", "peephole"],
        direction="backward",
        activation_descs=LSTM,
        clip_threshold=0.8,
    ),
    recurrent("lstm", 4, 1, direction="forward", activation_descs=LSTM, more=["bias"], couple_input_forget=True),
    *(
        recurrent(
            "gru",
            3,
            1,
            more=["bias", "hidden_init"] if linear else ["bias", "sequence_lengths"],
            direction="forward",
            activation_descs=GRU,
            linear_before_reset=linear,
        )
        for linear in (False, True)
    ),
]


def attention(
    function: Callable[..., Any], names: Sequence[str], *given: dg.Value, present: bool = False, **fields: Any
) -> Any:
    asked = {"output_present_key": True, "output_present_value": True} if present else {}
    made = function(**dict(zip(names, given, strict=True)), scale=0.7, **asked, **fields)
    return tuple(made) if present else made


def heads(name: str, more: dict[str, Any], *, one: bool = False, **fields: Any) -> Case:
    """Attention of inputs by field."""
    function = dg.multihead_attention1 if one else dg.multihead_attention
    build = functools.partial(attention, function, list(more), **fields)
    return Case(f"attention {name}", build, list(more.values()), -1, 1)


QKV: dict[str, Any] = {"query": [2, 2, 4], "key": [2, 3, 4], "value": [2, 3, 6]}
ATTENTION = [
    heads("plain", QKV, head_count=2),
    heads("biased", {**QKV, "bias": [14], "relative_position_bias": [1, 2, 2, 3]}, head_count=2),
    heads("stacked", {"stacked_query_key_value": [1, 2, 2, 3, 2]}, head_count=2),
    heads("stacked in pairs", {"query": [1, 2, 4], "stacked_key_value": [1, 2, 2, 2, 2]}, head_count=2),
    heads(
        "of the past",
        {**QKV, "past_key": [2, 2, 1, 2], "past_value": [2, 2, 1, 3]},
        head_count=2,
        present=True,
    ),
    *(
        heads(
            f"masked {kind}",
            {**QKV, "mask": np.array(mask, np.int32)},
            head_count=2,
            mask_type=kind,
            mask_filter_value=-3,
        )
        for kind, mask in (
            ("boolean", [[[[1, 0, 1], [1, 1, 0]]]]),
            ("key_sequence_length", [[2, 3]]),
            ("key_sequence_end_start", [[2, 3], [0, 1]]),
        )
    ),
    heads(
        "of shared heads",
        {"query": [1, 2, 8], "key": [1, 3, 4], "value": [1, 3, 4]},
        one=True,
        query_head_count=4,
        key_value_head_count=2,
        mask_filter_value=0,
    ),
    heads(
        "of lengths",
        {
            "query": [2, 2, 4],
            "key": [2, 2, 4],
            "value": [2, 2, 4],
            "past_key": [2, 2, 2, 2],
            "past_value": [2, 2, 2, 2],
            "past_sequence_lengths": np.array([1, 2], np.int32),
        },
        one=True,
        query_head_count=2,
        key_value_head_count=2,
        mask_filter_value=0,
    ),
]


def shared(x: dg.Value) -> Any:
    """Attention of a tensor to itself."""
    return dg.multihead_attention(x, x, x, scale=0.7, head_count=2)


CASES = [*RECURRENT, *ATTENTION, Case("attention to itself", shared, [[1, 3, 4]])]
