"""Padding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dmlgraph.base.levels import FeatureLevel
from dmlgraph.formats.onnx.export.emitter import Emitter, Symbol
from dmlgraph.formats.onnx.node import Ints, Maybe, Node, at_axis
from dmlgraph.formats.onnx.refusals import Refusal, check_mode
from dmlgraph.formats.onnx.shapes import concatenated, sliced
from dmlgraph.formats.onnx.table import exports, imports
from dmlgraph.formats.onnx.tensors import Tensor
from dmlgraph.operators.common.numerics import cut

_PADDING = "padding, slice1; wrap below level 6.4: slice1, join"
_MODES = {"constant": "constant", "reflect": "reflection", "edge": "edge", "wrap": "wrap"}  # ONNX's: dmlgraph's
# NumPy's modes, which repeat where the padding is wider than the tensor, are ONNX's and one more.
_NUMPY = {ours: theirs for theirs, ours in _MODES.items()} | {"symmetric": "symmetric"}


@imports(how=_PADDING)
def Pad(
    node: Node,
    data: Tensor,
    pads: Ints,
    constant_value: Maybe = None,
    axes: Maybe = None,
    *,
    mode: str = "constant",
    value: float = 0,
) -> Tensor:
    check_mode(mode, _MODES)
    widths = node.ints("pads", pads, [])
    places = [at_axis(axis, data.rank) for axis in node.ints("axes", axes, range(data.rank))]
    return _padded(node, data, widths, places, mode, node.scalar(constant_value, value))


def _padded(node: Node, x: Tensor, pads: Sequence[int], axes: Sequence[int], mode: str, value: float) -> Tensor:
    if len(pads) != 2 * len(axes):
        raise Refusal("needs two numbers for each axis", code="count", field="pads", got=pads)
    before, after = [0] * x.rank, [0] * x.rank
    for index, axis in enumerate(axes):
        before[axis], after[axis] = pads[index], pads[index + len(axes)]
    cut = sliced(node, x, [_cut(*each) for each in zip(before, after, x.shape, strict=True)])
    if 0 in cut.shape:
        return _all_padding(cut, before, after, mode, value)
    before, after = [max(each, 0) for each in before], [max(each, 0) for each in after]
    if not any(before) and not any(after):
        return cut
    if mode == "wrap" and node.level < FeatureLevel.V6_4:
        return _wrapped(node, cut, before, after)
    return node.tensor(
        node.padding1(cut, padding_mode=_MODES[mode], padding_value=value, start_padding=before, end_padding=after)
    )


def _wrapped(node: Node, x: Tensor, before: Sequence[int], after: Sequence[int]) -> Tensor:
    """A tensor repeated in all directions, by joining parts: below level 6.4 DirectML's padding cannot."""
    for axis, (first, last) in enumerate(zip(before, after, strict=True)):
        size = x.shape[axis]
        parts, begin = [], -first
        while begin < size + last:
            end = min((begin // size + 1) * size, size + last)
            span = slice(begin % size, begin % size + end - begin)
            parts.append(sliced(node, x, [span if each == axis else slice(None) for each in range(x.rank)]))
            begin = end
        x = concatenated(node, parts, axis)
    return x


def _all_padding(cut: Tensor, before: Sequence[int], after: Sequence[int], mode: str, value: float) -> Tensor:
    """A tensor without elements, padded: nothing but the number."""
    shape = [size + max(first, 0) + max(last, 0) for size, first, last in zip(cut.shape, before, after, strict=True)]
    if mode != "constant" and 0 not in shape:
        message = "a tensor without elements has no element to repeat"
        raise Refusal(message, code="empty-tensor", field="mode", got=mode, allowed="constant")
    return Tensor.of(np.broadcast_to(np.asarray(value, cut.dtype), shape))


def _cut(before: int, after: int, size: int) -> slice:
    """What negative padding leaves of a dimension."""
    return slice(max(-before, 0), size - max(-after, 0))


@exports("padding", "padding1", how="Pad; symmetric, and wider than the tensor: Gather")
def _pad(node: Emitter) -> Symbol:
    x, mode = node["input"], _NUMPY[str(node.field("padding_mode"))]
    starts, ends, sizes = node.field("start_padding"), node.field("end_padding"), node.desc("input").sizes
    if not any((*starts, *ends)):
        return x
    pads = node.ints([*starts, *ends])
    if mode == "constant":
        value = node.field("padding_value")
        number = cut(value, node.output.dtype) if isinstance(value, float) else value.value
        return node.call("Pad", x, pads, node.number(number, x.dtype), mode="constant")
    narrow = all(max(pair) < size for *pair, size in zip(starts, ends, sizes, strict=True))
    if mode == "edge" or (mode == "reflect" and narrow):
        return node.call("Pad", x, pads, mode=mode)
    for axis, (start, end, size) in enumerate(zip(starts, ends, sizes, strict=True)):
        if start or end:
            x = node.taken_along(x, axis, np.pad(np.arange(size), (start, end), mode))  # type: ignore[call-overload]
    return x
