"""Operators of 4-bit tensors: steps spread the elements over bytes, and put those of a result together again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.devices.cpu.parts import Part, line_of
from dmlgraph.operators.declaration.operator import Operator

Payload = tuple[str, Any]

_BYTES = {DataType.INT4: DataType.INT8, DataType.UINT4: DataType.UINT8}


def has_four_bits(operator: Operator) -> bool:
    return any(desc is not None and desc.dtype in _BYTES for desc in (*operator.input_descs, *operator.output_descs))


def over_bytes(operator: Operator, way: Callable[[Operator], Payload]) -> Payload | None:
    """The operator on bytes, each of which has one element, run in this way.

    Returns None if its results on bytes may be others.
    """
    if not operator.same_on_bytes:
        return None
    wide = operator.replace(**{name: _spread(value) for name, value in operator.tensors.items()})
    kind, payload = way(wide)
    if kind == "python":
        return None
    parts: list[Part] = []
    place: dict[int, int] = {}
    for port, desc in enumerate(operator.input_descs):
        if desc is not None and desc.dtype in _BYTES:
            place[port] = ~len(parts)
            line = line_of(desc, _BYTES[desc.dtype])
            parts.append(Part("native", (port,), (desc,), line, _step(desc, spreads=True)))
    before = len(parts)
    made = payload if kind == "parts" else [_only(wide, kind, payload)]
    for part in made:
        sources = tuple([place.get(each, each) for each in part.behind(before).sources])
        parts.append(part._replace(sources=sources))
    output = operator.first_output
    if output.dtype in _BYTES:
        line, step = line_of(output, _BYTES[output.dtype]), _step(output, spreads=False)
        parts.append(Part("native", (~(len(parts) - 1),), (line,), output, step))
    return "parts", tuple(parts)


def _only(operator: Operator, kind: str, payload: Any) -> Part:
    sources = tuple(range(len(operator.input_descs)))
    return Part(kind, sources, operator.input_descs, operator.first_output, payload)


def _spread(value: Any) -> Any:
    """The descriptions of a field with bytes in place of 4 bits."""
    if isinstance(value, tuple):
        return tuple(map(_spread, value))
    if value is None or value.dtype not in _BYTES:
        return value
    return value.like(dtype=_BYTES[value.dtype], strides=value.strides)


def _step(desc: TensorDesc, *, spreads: bool) -> tuple[str, dict[str, int]]:
    """The parameters of the struct in native/cpu/steps/four_bits.h."""
    return "four_bits", {"spreads": spreads, "is_signed": desc.dtype.is_signed, "count": desc.span}
