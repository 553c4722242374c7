"""Sequences of tensors whose count is known when the model is imported, and optional values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from dmlgraph.base.errors import plural
from dmlgraph.formats.onnx.control import joined
from dmlgraph.formats.onnx.node import Maybe, Node, Result, at_axis
from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.formats.onnx.shapes import concatenated, sliced
from dmlgraph.formats.onnx.table import imports
from dmlgraph.formats.onnx.tensors import Array, Tensor, TensorList


def _items(given: Tensor) -> list[Tensor]:
    """The tensors of a sequence."""
    if not isinstance(given, TensorList):
        raise Refusal("needs a sequence of tensors", code="kind", field="input 0", got=list(given.shape))
    return list(given.items)


def _place(node: Node, position: Maybe, index: int, count: int, default: int | None = None) -> int:
    """A known position in a sequence, input `index`: the numbers below 0 count from the end."""
    place = node.scalar(position, default)
    if not -count <= place < max(count, 1):
        message = "the sequence has no such place"
        raise Refusal(message, code="range", field=f"input {index}", got=place, allowed=plural(count, "tensor"))
    return int(place % count) if count else 0


@imports("SequenceEmpty", "SequenceConstruct", since=11, how="none: a sequence is only known on import")
def SequenceConstruct(node: Node, *inputs: Tensor) -> TensorList:
    return TensorList.of(inputs)


@imports(since=11, how="none: the tensor itself")
def SequenceAt(node: Node, input_sequence: Tensor, position: Tensor) -> Tensor:
    items = _items(input_sequence)
    if not items:
        raise Refusal("the sequence has no tensors", code="range", field="input 0")
    return items[_place(node, position, 1, len(items))]


@imports(since=11, how="none: a sequence is only known on import")
def SequenceInsert(node: Node, input_sequence: Tensor, tensor: Tensor, position: Maybe = None) -> TensorList:
    items = _items(input_sequence)
    place = _place(node, position, 2, len(items) + 1, default=len(items))
    if position is not None and node.scalar(position) < 0:  # before the one that it counts, as in Python
        place = int(node.scalar(position)) + len(items)
        if place < 0:
            raise Refusal("the sequence has no such place", code="range", field="input 2", got=node.scalar(position))
    return TensorList.of([*items[:place], tensor, *items[place:]])


@imports(since=11, how="none: a sequence is only known on import")
def SequenceErase(node: Node, input_sequence: Tensor, position: Maybe = None) -> TensorList:
    items = _items(input_sequence)
    if not items:
        raise Refusal("the sequence has no tensors", code="range", field="input 0")
    del items[_place(node, position, 1, len(items), default=len(items) - 1)]
    return TensorList.of(items)


@imports(since=11, how="known")
def SequenceLength(node: Node, input_sequence: Tensor) -> Array:
    return np.asarray(len(_items(input_sequence)), np.int64)


@imports(since=11, how="slice1")
def SplitToSequence(node: Node, input: Tensor, split: Maybe = None, *, axis: int = 0, keepdims: int = 1) -> TensorList:
    axis = at_axis(axis, input.rank)
    size = input.shape[axis]
    if split is None:
        sizes: Sequence[int] = [1] * size
    elif node.known(split).ndim == 0:
        part = int(node.scalar(split))
        if part < 1:
            raise Refusal("must be at least 1", code="range", field="split", got=part)
        sizes = [min(part, size - begin) for begin in range(0, size, part)]
    else:
        sizes = [int(each) for each in node.known(split)]
    if sum(sizes) != size or min(sizes, default=0) < 0:
        raise Refusal("the parts do not add up to the size", code="sizes", got=list(sizes), allowed=str(size))
    parts, begin = [], 0
    for count in sizes:
        places = [slice(begin, begin + count) if each == axis else slice(None) for each in range(input.rank)]
        part_of = sliced(node, input, places) if input.known is None else Tensor.of(input.known[tuple(places)])
        if split is None and not keepdims:
            part_of = _without(node, part_of, axis)
        parts.append(part_of)
        begin += count
    return TensorList.of(parts)


def _without(node: Node, x: Tensor, axis: int) -> Tensor:
    """Without a dimension of size 1."""
    shape = x.shape[:axis] + x.shape[axis + 1 :]
    return Tensor.of(x.known.reshape(shape)) if x.known is not None else node.tensor(x.made, shape)


@imports(since=11, how="join, views")
def ConcatFromSequence(node: Node, input_sequence: Tensor, *, axis: int, new_axis: int = 0) -> Tensor:
    items = _items(input_sequence)
    if not items:
        raise Refusal("the sequence has no tensors", code="range", field="input 0")
    is_new = bool(new_axis)
    axis = at_axis(axis, items[0].rank + is_new)
    return joined(node, items, axis) if is_new else concatenated(node, items, axis)


@imports(since=17, how="the steps one after another")
def SequenceMap(node: Node, input_sequence: Tensor, *inputs: Tensor, body: ir.Graph) -> Result:
    count = len(_items(input_sequence))
    given = [each.items if isinstance(each, TensorList) else (each,) * count for each in (input_sequence, *inputs)]
    if any(len(each) != count for each in given):
        message = "the sequences have different counts"
        raise Refusal(message, code="count", got=[len(each) for each in given])
    made = [node.run(body, [each[index] for each in given]) for index in range(count)]
    return [TensorList.of([each[index] for each in made]) for index in range(len(node.outputs))]


@imports("Optional", "OptionalGetElement", since=15, how="none: the tensor itself")
def Optional(node: Node, input: Maybe = None) -> Result:
    if input is None:
        raise Refusal("an optional value that is absent has no counterpart", code="unsupported")
    return input


@imports(since=15, how="known")
def OptionalHasElement(node: Node, input: Maybe = None) -> Result:
    return np.asarray(input is not None)
