"""Regions of interest: the greatest elements of their cells, and the choice of boxes by their overlap."""

from __future__ import annotations

import numpy as np

from dmlgraph.formats.onnx.control import MOST_STEPS
from dmlgraph.formats.onnx.node import Maybe, Node, Result, counted
from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.formats.onnx.table import imports
from dmlgraph.formats.onnx.tensors import Calls, Tensor
from dmlgraph.graph.value import Value


@imports(how="roi_pooling; rounding: multiply, sign, add, round")
def MaxRoiPool(node: Node, X: Tensor, rois: Tensor, *, pooled_shape: list[int], spatial_scale: float = 1.0) -> Result:
    height, width = counted("pooled_shape", pooled_shape, [2])
    # Halves are rounded away from zero here: DirectML rounds them to even places.
    scaled = node.dml.multiply(rois, Tensor.of(np.array([[1.0, *[spatial_scale] * 4]], rois.dtype)))
    further = node.dml.add(scaled, node.dml.multiply(node.dml.sign(scaled), 0.5))
    rounded = node.dml.round(further, rounding_mode="toward_zero")
    boxes = node.dml.reshaped(rounded, (1, 1, *rois.shape))
    return node.tensor(node.dml.roi_pooling(X, boxes, spatial_scale=1.0, pooled_size=[width, height]))


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
    dml = node.dml
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
    low, high = _corners(node.dml, boxes, by_center=bool(center_point_box))
    areas = _area(dml, low, high)
    rest, lowest = dml.value(scores), float(np.finfo(scores.dtype).min)
    if score_threshold is not None:
        above = dml.logical_greater_than(rest, dml.reshaped(score_threshold, (1, 1, 1)), dtype="uint8")
        rest = dml.if_(above, rest, lowest)
    overlap = dml.reshaped(iou_threshold, (1, 1, 1)) if iou_threshold is not None else 0.0
    numbers = Tensor.of(np.arange(count, dtype=np.int32).reshape(1, 1, count))
    chosen = []
    for _ in range(steps):
        best = dml.argmax(rest, axes=[2], dtype="int32")
        is_there = dml.logical_greater_than(dml.gather_elements(rest, best, axis=2), lowest, dtype="uint8")
        chosen.append(dml.if_(is_there, best, _NO_BOX))
        if len(chosen) == steps:
            break
        picked = [_picked(dml, each, best) for each in (*low, *high, areas)]
        begin, end = picked[:2], picked[2:4]
        sides = [
            dml.clip(dml.subtract(dml.min(last, end_of), dml.max(first, begin_of)), min=0, max=_LARGEST)
            for first, last, begin_of, end_of in zip(low, high, begin, end, strict=True)
        ]
        shared = dml.multiply(*sides)
        union = dml.subtract(dml.add(areas, picked[4]), shared)
        is_near = dml.logical_and(
            dml.logical_greater_than(shared, 0, dtype="uint8"),
            dml.logical_greater_than(dml.divide(shared, union), overlap, dtype="uint8"),
        )
        gone = dml.logical_or(is_near, dml.logical_equals(numbers, best, dtype="uint8"))
        rest = dml.if_(gone, lowest, rest)
    whole = dml.join(chosen, axis=2) if steps > 1 else chosen[0]
    return _rows(node, whole, (batches, classes, steps))


_LARGEST = float(np.finfo(np.float32).max)


def _corners(dml: Calls, boxes: Tensor, *, by_center: bool) -> tuple[list[Value], list[Value]]:
    """The least and the greatest coordinates {batches, 1, boxes} of each box, of both dimensions."""
    batches, count, _ = boxes.shape
    parts = [dml.reshaped(each, (batches, 1, count)) for each in dml.split(boxes, axis=2, outputs=[1] * 4)]
    if by_center:
        halves = [dml.multiply(each, 0.5) for each in parts[2:]]
        low = [dml.subtract(at, half) for at, half in zip(parts[:2], halves, strict=True)]
        high = [dml.add(at, half) for at, half in zip(parts[:2], halves, strict=True)]
        return low, high
    return [dml.min(parts[at], parts[at + 2]) for at in (0, 1)], [dml.max(parts[at], parts[at + 2]) for at in (0, 1)]


def _area(dml: Calls, low: list[Value], high: list[Value]) -> Value:
    made: Value = dml.multiply(*(dml.subtract(last, first) for first, last in zip(low, high, strict=True)))
    return made


def _picked(dml: Calls, x: Value, best: Value) -> Value:
    """The elements of {batches, 1, boxes} at the best place of each class: {batches, classes, 1}."""
    batches, classes, _ = best.sizes
    whole = dml.expanded(x, (batches, classes, x.sizes[2]))
    made: Value = dml.gather_elements(whole, best, axis=2)
    return made


def _rows(node: Node, chosen: Value, shape: tuple[int, int, int]) -> Tensor:
    """(batch, class, box) of each chosen box; the rows without a box go behind the others."""
    dml, count = node.dml, int(np.prod(shape))
    places = np.indices(shape, np.int32).reshape(3, count)
    flat = dml.reshaped(chosen, (count,))
    is_gone = dml.logical_less_than(flat, 0, dtype="uint8")
    columns = [dml.if_(is_gone, _NO_BOX, Tensor.of(each)) for each in places[:2]]
    rows = dml.join([dml.reshaped(each, (count, 1)) for each in (*columns, flat)], axis=1)
    if shape[0] * shape[1] > 1:
        key = dml.add(dml.multiply(dml.converted(is_gone, "int32"), count), Tensor.of(np.arange(count, dtype=np.int32)))
        order = dml.top_k1(key, axis=0, k=count, axis_direction="increasing").output_index
        rows = dml.gather(rows, dml.reshaped(order, (1, count)), axis=0, index_dimensions=1)
    return node.tensor(dml.converted(rows, "int64"), (count, 3))
