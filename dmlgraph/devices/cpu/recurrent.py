"""Recurrent networks as native steps, which compute in float32.

Every step of time adds a rounding error, which is carried like the state itself: activations that saturate keep it to a
few units in the last place a step; others may let it grow.
"""

from __future__ import annotations

import math

from dmlgraph._native import cpu_steps
from dmlgraph.base.tensor import DataType
from dmlgraph.devices.cpu.element_wise import activate
from dmlgraph.devices.cpu.expressions import Expression, Operand, instructions
from dmlgraph.devices.cpu.lowering import Lowerings, lowers
from dmlgraph.devices.cpu.nodes import Lowered, Native
from dmlgraph.operators.recurrent import Gru, Lstm, Recurrent, Rnn

_SUM = Operand(0, DataType.FLOAT32)  # what an activation reads


def _network(operator: Recurrent) -> Lowered | None:
    activations: list[Expression] = []
    for each in operator.activation_descs:
        activated = activate(each, _SUM, operator.input.dtype)
        if activated is None:
            return None
        activations.append(_SUM.apply("IDENTITY") if activated is _SUM else activated)  # each is one instruction
    code = instructions(*activations)
    if code is None:
        return None
    step = cpu_steps.Recurrent(
        gates=operator.gates,
        backward=operator.backward,
        bound=_bound(operator),
        couples_input_forget=isinstance(operator, Lstm) and operator.couple_input_forget,
        resets_after_product=isinstance(operator, Gru) and operator.linear_before_reset,
    )
    return Native(step, code)


def _bound(operator: Recurrent) -> tuple[float, ...]:
    """± what the arguments of activations are clipped to; empty: they are not clipped."""
    bound = operator.bound
    return () if bound is None or math.isnan(bound) else (bound,)


RECURRENT: Lowerings = lowers(_network, Rnn, Lstm, Gru)
