"""Operators of 4-bit tensors: steps spread the elements over bytes, and put those of a result together again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dmlgraph._native import cpu_steps
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.devices.cpu.nodes import Evaluate, Lowered, Part
from dmlgraph.devices.cpu.parts import Parts, line_of
from dmlgraph.operators.declaration.operator import Operator

_BYTES = {DataType.INT4: DataType.INT8, DataType.UINT4: DataType.UINT8}


def has_four_bits(operator: Operator) -> bool:
    return any(desc is not None and desc.dtype in _BYTES for desc in (*operator.input_descs, *operator.output_descs))


def over_bytes(operator: Operator, lower: Callable[[Operator], Lowered]) -> Lowered | None:
    """The operator on bytes, each of which has one element, run in this way.

    Returns None if its results on bytes may be others.
    """
    if not operator.same_on_bytes:
        return None
    wide = operator.replace(**{name: _spread(value) for name, value in operator.tensors.items()})
    lowered = lower(wide)
    if isinstance(lowered, Evaluate):
        return None
    if not isinstance(lowered, tuple):
        ports = tuple(range(len(wide.input_descs)))
        lowered = (Part(lowered, ports, wide.input_descs, wide.first_output),)
    parts = Parts(operator)
    spread = {
        x.source: parts.step(_step(x.desc, spreads=True), x, output=line_of(x.desc, _BYTES[x.dtype]))
        for x in parts.inputs()
        if x.dtype in _BYTES
    }
    result, output = parts.extend(lowered, spread), operator.first_output
    if output.dtype in _BYTES:
        line = line_of(output, _BYTES[output.dtype])
        parts.step(_step(output, spreads=False), result.as_desc(line), output=output)
    return parts.finish()


def _spread(value: Any) -> Any:
    """The descriptions of a field with bytes in place of 4 bits."""
    if isinstance(value, tuple):
        return tuple(map(_spread, value))
    if value is None or value.dtype not in _BYTES:
        return value
    return value.like(dtype=_BYTES[value.dtype], strides=value.strides)


def _step(desc: TensorDesc, *, spreads: bool) -> cpu_steps.FourBits:
    return cpu_steps.FourBits(spreads=spreads, is_signed=desc.dtype.is_signed, count=desc.span)
