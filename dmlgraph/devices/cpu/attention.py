"""Attention of many heads as a native step, which takes the operator's own tensors by their ports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dmlgraph.operators.attention import SOURCES, Attention, MultiheadAttention, MultiheadAttention1
from dmlgraph.operators.declaration.operator import Operator

Payload = tuple[str, Any]

_ABSENT = -1
# The step's parameter → the field whose port it is.
_FIELDS = {
    "bias": "bias",
    "mask": "mask",
    "positions": "relative_position_bias",
    "past_key": "past_key",
    "past_value": "past_value",
    "past_lengths": "past_sequence_lengths",
}


def _attention(operator: Attention) -> Payload:
    present = {
        field: port
        for port, (field, desc) in enumerate(zip(operator.input_fields, operator.input_descs, strict=True))
        if desc is not None
    }

    def source(role: str) -> tuple[int, int]:
        """The port, and the part of its stack, from which queries, keys or values come."""
        found = ((present[field], place) for field, place in SOURCES[role].items() if field in present)
        port, place = next(found, (_ABSENT, None))
        return port, _ABSENT if place is None else place

    sizes = operator.dimensions
    parameters = {
        **{role: source(role) for role in SOURCES},
        **{name: present.get(field, _ABSENT) for name, field in _FIELDS.items()},
        "query_heads": sizes.query_heads,
        "key_heads": sizes.key_heads,
        "mask_type": operator.mask_type.value,
        "factors": (operator.scale, operator.mask_filter_value),
    }
    return "native", ("attention", parameters)


ATTENTIONS: Mapping[type[Operator], Callable[[Any], Payload | None]] = {
    MultiheadAttention: _attention,
    MultiheadAttention1: _attention,
}
