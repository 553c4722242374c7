"""RoiAlign with mode max: the greatest weighted term of the samples, where ROI_ALIGN1 takes the greatest sample."""

from __future__ import annotations

import itertools

import numpy as np

from dmlgraph.formats.onnx.indexing import Gather
from dmlgraph.formats.onnx.node import Node
from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.formats.onnx.tensors import Tensor
from dmlgraph.graph.value import Value

Tap = tuple[Value, Value]  # places and weights of elements beside samples


def greatest_terms(
    node: Node,
    x: Tensor,
    rois: Tensor,
    batches: Tensor,
    shape: tuple[int, int],
    samples: int,
    scale: float,
    *,
    half_pixel: bool,
) -> Tensor:
    """{R, C, H, W}: a sample has four terms, elements times their weights in linear interpolation.

    The inputs are those of RoiAlign, the shape is H and W, and the samples are for one element, along an axis.

    Raises:
        Refusal: the number of samples depends on the regions.
    """
    _, channels, height, width = x.shape
    if samples < 1:
        message = "the greatest of samples whose number depends on the regions has no counterpart"
        raise Refusal(message, field="sampling_ratio", got=samples, allowed="1 and more")
    count, (rows, columns) = rois.shape[0], shape
    image = node.transposed(node.converted(x, "float32"), [0, 2, 3, 1])
    flat = node.tensor(node.reshaped(image, (x.count // channels, channels)))
    regions = node.multiply(node.converted(rois, "float32"), scale)
    if half_pixel:
        regions = node.subtract(regions, 0.5)
    left, top, right, bottom = node.split(regions, axis=1, outputs=[1] * 4)
    down = _taps(node, top, bottom, height, rows, samples, widen=not half_pixel)
    across = _taps(node, left, right, width, columns, samples, widen=not half_pixel)
    lines, pillars = (count, rows * samples, 1), (count, 1, columns * samples)
    first = node.multiply(node.reshaped(node.converted(batches, "int32"), (count, 1, 1)), _whole(height * width))
    best: Value | None = None
    for (row, upright), (column, level) in itertools.product(down, across):
        begins = node.add(first, node.multiply(node.reshaped(row, lines), _whole(width)))
        places = node.add(begins, node.reshaped(column, pillars))
        weights = node.multiply(node.reshaped(upright, lines), node.reshaped(level, pillars))
        taken = Gather(node, flat, node.tensor(places), axis=0)
        terms = node.multiply(taken, node.reshaped(weights, (*places.sizes, 1)))
        terms = node.reshaped(terms, (count, rows, samples, columns, samples, channels))
        terms = node.reduce(terms, function="max", axes=[2, 4])
        best = terms if best is None else node.max(best, terms)
    assert best is not None
    made = node.transposed(node.reshaped(best, (count, rows, columns, channels)), [0, 3, 1, 2])
    return node.tensor(node.converted(made, node.value(x).dtype))


def _whole(number: int) -> Tensor:
    return Tensor.of(np.full((1, 1, 1), number, np.int32))


def _taps(node: Node, start: Value, end: Value, size: int, parts: int, samples: int, *, widen: bool) -> list[Tap]:
    """The elements before and behind each sample along an axis, {R, parts · samples}; the bounds are {R, 1}."""
    length = node.subtract(end, start)
    if widen:
        length = node.threshold(length, min=1)
    part = node.divide(length, parts)
    which, within = np.divmod(np.arange(parts * samples, dtype=np.float32), np.float32(samples))
    # In ONNX Runtime's order: a sample at an edge counts or not.
    begin = node.add(start, node.multiply(part, Tensor.of(which[None])))
    place = node.add(begin, node.divide(node.multiply(part, Tensor.of(within[None] + np.float32(0.5))), samples))
    inside = node.logical_equals(place, node.clip(place, min=-1, max=size), dtype="uint8")
    place = node.clip(place, min=0, max=size - 1)
    low = node.floor(place)
    behind = node.subtract(place, low)
    before = node.add(node.multiply(behind, -1), 1)
    high = node.clip(node.add(low, 1), min=0, max=size - 1)
    nothing = Tensor.of(np.zeros((1, 1), np.float32))
    return [
        (node.converted(each, "int32"), node.if_(inside, weight, nothing))
        for each, weight in ((low, before), (high, behind))
    ]
