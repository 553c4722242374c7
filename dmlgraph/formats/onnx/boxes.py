"""Regions of interest: the greatest elements of their cells, and the choice of boxes by their overlap."""

from __future__ import annotations

import numpy as np

from dmlgraph.formats.onnx.control import MOST_STEPS
from dmlgraph.formats.onnx.node import Maybe, Node, Result
from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.formats.onnx.table import imports
from dmlgraph.formats.onnx.tensors import Tensor
from dmlgraph.graph.value import Value

_NO_BOX = -1  # the indices of a row that no box takes


@imports(since=10, how="with a known limit argmax, gather_elements and others, in steps")
def NonMaxSuppression(
    node: Node,
    boxes: Tensor,
    scores: Tensor,
    max_output_boxes_per_class: Maybe = None,
    iou_threshold: Maybe = None,
    score_threshold: Maybe = None,
    *,
    center_point_box: int = 0,
) -> Result:
    """The rows that ONNX gives, and behind them rows of -1 up to batches × classes × the limit.

    DirectML has no tensors whose sizes depend on numbers.
    """
    if boxes.rank != 3 or scores.rank != 3 or boxes.shape != (scores.shape[0], scores.shape[2], 4):
        message = "needs boxes {batches, boxes, 4} and scores {batches, classes, boxes}"
        raise Refusal(message, code="sizes", got=[list(boxes.shape), list(scores.shape)])
    batches, classes, count = scores.shape
    steps = min(int(node.scalar(max_output_boxes_per_class, 0)), count)
    if steps < 1:
        return np.empty((0, 3), np.int64)
    if steps > MOST_STEPS:
        message = "the limit of boxes per class is too high: each box is a step"
        raise Refusal(message, code="too-large", field="max_output_boxes_per_class", got=steps, allowed=str(MOST_STEPS))
    low, high = _corners(node, boxes, by_center=bool(center_point_box))
    areas = _area(node, low, high)
    rest, lowest = node.value(scores), float(np.finfo(scores.dtype).min)
    if score_threshold is not None:
        above = node.logical_greater_than(rest, node.reshaped(score_threshold, (1, 1, 1)), dtype="uint8")
        rest = node.if_(above, rest, lowest)
    overlap = node.reshaped(iou_threshold, (1, 1, 1)) if iou_threshold is not None else 0.0
    numbers = Tensor.of(np.arange(count, dtype=np.int32).reshape(1, 1, count))
    chosen = []
    for _ in range(steps):
        best = node.argmax(rest, axes=[2], dtype="int32")
        is_there = node.logical_greater_than(node.gather_elements(rest, best, axis=2), lowest, dtype="uint8")
        chosen.append(node.if_(is_there, best, _NO_BOX))
        if len(chosen) == steps:
            break
        picked = [_picked(node, each, best) for each in (*low, *high, areas)]
        begin, end = picked[:2], picked[2:4]
        sides = [
            node.clip(node.subtract(node.min(last, end_of), node.max(first, begin_of)), min=0, max=_LARGEST)
            for first, last, begin_of, end_of in zip(low, high, begin, end, strict=True)
        ]
        shared = node.multiply(*sides)
        union = node.subtract(node.add(areas, picked[4]), shared)
        is_near = node.logical_and(
            node.logical_greater_than(shared, 0, dtype="uint8"),
            node.logical_greater_than(node.divide(shared, union), overlap, dtype="uint8"),
        )
        gone = node.logical_or(is_near, node.logical_equals(numbers, best, dtype="uint8"))
        rest = node.if_(gone, lowest, rest)
    whole = node.join(chosen, axis=2) if steps > 1 else chosen[0]
    return _rows(node, whole, (batches, classes, steps))


_LARGEST = float(np.finfo(np.float32).max)


def _corners(node: Node, boxes: Tensor, *, by_center: bool) -> tuple[list[Value], list[Value]]:
    """The least and the greatest coordinates {batches, 1, boxes} of each box, of both dimensions."""
    batches, count, _ = boxes.shape
    parts = [node.reshaped(each, (batches, 1, count)) for each in node.split(boxes, axis=2, outputs=[1] * 4)]
    if by_center:
        halves = [node.multiply(each, 0.5) for each in parts[2:]]
        low = [node.subtract(at, half) for at, half in zip(parts[:2], halves, strict=True)]
        high = [node.add(at, half) for at, half in zip(parts[:2], halves, strict=True)]
        return low, high
    return [node.min(parts[at], parts[at + 2]) for at in (0, 1)], [node.max(parts[at], parts[at + 2]) for at in (0, 1)]


def _area(node: Node, low: list[Value], high: list[Value]) -> Value:
    return node.multiply(*(node.subtract(last, first) for first, last in zip(low, high, strict=True)))


def _picked(node: Node, x: Value, best: Value) -> Value:
    """The elements of {batches, 1, boxes} at the best place of each class: {batches, classes, 1}."""
    batches, classes, _ = best.sizes
    whole = node.expanded(x, (batches, classes, x.sizes[2]))
    return node.gather_elements(whole, best, axis=2)


def _rows(node: Node, chosen: Value, shape: tuple[int, int, int]) -> Tensor:
    """(batch, class, box) of each chosen box; the rows without a box go behind the others."""
    count = int(np.prod(shape))
    places = np.indices(shape, np.int32).reshape(3, count)
    flat = node.reshaped(chosen, (count,))
    is_gone = node.logical_less_than(flat, 0, dtype="uint8")
    columns = [node.if_(is_gone, _NO_BOX, Tensor.of(each)) for each in places[:2]]
    rows = node.join([node.reshaped(each, (count, 1)) for each in (*columns, flat)], axis=1)
    if shape[0] * shape[1] > 1:
        key = node.add(
            node.multiply(node.converted(is_gone, "int32"), count), Tensor.of(np.arange(count, dtype=np.int32))
        )
        order = node.top_k1(key, axis=0, k=count, axis_direction="increasing").output_index
        rows = node.gather(rows, node.reshaped(order, (1, count)), axis=0, index_dimensions=1)
    return node.tensor(node.converted(rows, "int64"), (count, 3))
