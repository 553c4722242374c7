"""Attention of many heads as a native step, which takes the operator's own tensors by their ports."""

from __future__ import annotations

from dmlgraph._native import cpu_steps
from dmlgraph.devices.cpu.lowering import Lowerings, lowers
from dmlgraph.devices.cpu.nodes import Lowered, Native
from dmlgraph.operators.attention import SOURCES, Attention, MultiheadAttention, MultiheadAttention1

_ABSENT = -1


def _attention(operator: Attention) -> Lowered:
    present = {
        field: port
        for port, (field, desc) in enumerate(zip(operator.input_fields, operator.input_descs, strict=True))
        if desc is not None
    }

    def port(field: str) -> int:
        return present.get(field, _ABSENT)

    def source(role: str) -> tuple[int, int]:
        """The port, and the part of its stack, from which queries, keys or values come."""
        found = ((present[field], place) for field, place in SOURCES[role].items() if field in present)
        port, place = next(found, (_ABSENT, None))
        return port, _ABSENT if place is None else place

    sizes = operator.dimensions
    step = cpu_steps.Attention(
        query=source("query"),
        key=source("key"),
        value=source("value"),
        bias=port("bias"),
        mask=port("mask"),
        positions=port("relative_position_bias"),
        past_key=port("past_key"),
        past_value=port("past_value"),
        past_lengths=port("past_sequence_lengths"),
        query_heads=sizes.query_heads,
        key_heads=sizes.key_heads,
        mask_type=operator.mask_type.value,
        factors=(operator.scale, operator.mask_filter_value or 0.0),
    )
    return Native(step)


ATTENTIONS: Lowerings = lowers(_attention, MultiheadAttention, MultiheadAttention1)
