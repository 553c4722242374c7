"""Padding."""

from __future__ import annotations

import numpy as np

from dmlgraph.formats.onnx.export.emitter import Emitter, Symbol
from dmlgraph.formats.onnx.table import exports
from dmlgraph.operators.common.numerics import cut
from dmlgraph.operators.directml_enums import PaddingMode

# ONNX's modes, and NumPy's, which repeat where the padding is wider than the tensor.
_MODES = {PaddingMode.EDGE: "edge", PaddingMode.REFLECTION: "reflect", PaddingMode.WRAP: "wrap"}
_NUMPY = {**_MODES, PaddingMode.SYMMETRIC: "symmetric"}


@exports("padding", "padding1", how="Pad; symmetric, and wider than the tensor: Gather")
def _pad(node: Emitter) -> Symbol:
    x, mode = node["input"], node.field("padding_mode")
    starts, ends, sizes = node.field("start_padding"), node.field("end_padding"), node.desc("input").sizes
    if not any((*starts, *ends)):
        return x
    pads = node.ints([*starts, *ends])
    if mode is PaddingMode.CONSTANT:
        value = node.field("padding_value")
        number = cut(value, node.output.dtype) if isinstance(value, float) else value.value
        return node.call("Pad", x, pads, node.number(number, x.dtype), mode="constant")
    narrow = all(max(pair) < size for *pair, size in zip(starts, ends, sizes, strict=True))
    if mode is PaddingMode.EDGE or (mode is PaddingMode.REFLECTION and narrow):
        return node.call("Pad", x, pads, mode=_MODES[mode])
    for axis, (start, end, size) in enumerate(zip(starts, ends, sizes, strict=True)):
        if start or end:
            x = node.taken_along(x, axis, np.pad(np.arange(size), (start, end), _NUMPY[mode]))  # type: ignore[call-overload]
    return x
