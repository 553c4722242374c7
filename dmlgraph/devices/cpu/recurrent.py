"""Recurrent networks as native steps, which compute in float32.

Every step of time adds a rounding error, which is carried like the state itself: activations that saturate keep it to a
few units in the last place a step; others may let it grow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from dmlgraph.base.tensor import DataType
from dmlgraph.devices.cpu.element_wise import Code, Value, activate
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.recurrent import Gru, Lstm, Rnn

Payload = tuple[str, Any]

_SUM = Value(0, DataType.FLOAT32)  # what an activation reads


def _network(operator: Any) -> Payload | None:
    code = Code()
    for each in operator.activation_descs:
        activated = activate(code, each, _SUM, operator.input.dtype)
        if activated is None:
            return None
        if activated is _SUM:  # an activation is one instruction
            code.add("IDENTITY", _SUM)
    activations = code.finish()
    if activations is None:
        return None
    parameters = {
        "gates": operator.gates,
        "backward": operator.backward,
        "bound": _bound(operator),
        "couples_input_forget": getattr(operator, "couple_input_forget", False),
        "resets_after_product": getattr(operator, "linear_before_reset", False),
    }
    return "native", ("recurrent", parameters, activations)


def _bound(operator: Any) -> tuple[float, ...]:
    """± what the arguments of activations are clipped to; empty: they are not clipped."""
    bound = operator.bound
    return () if bound is None or math.isnan(bound) else (bound,)


RECURRENT: Mapping[type[Operator], Callable[[Any], Payload | None]] = dict.fromkeys((Rnn, Lstm, Gru), _network)
