"""Sequences of tensors whose count is known when the model is imported, and optional values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dmlgraph.base.errors import plural
from dmlgraph.formats.onnx.control import joined
from dmlgraph.formats.onnx.node import Node, Result, at_axis
from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.formats.onnx.shapes import concatenated, sliced
from dmlgraph.formats.onnx.table import imports
from dmlgraph.formats.onnx.tensors import Tensor, TensorList


def _items(node: Node, index: int = 0) -> list[Tensor]:
    """The tensors of a sequence."""
    given = node[index]
    if not isinstance(given, TensorList):
        raise Refusal("needs a sequence of tensors", code="kind", field=f"input {index}", got=list(given.shape))
    return list(given.items)


def _place(node: Node, index: int, count: int, default: int | None = None) -> int:
    """A known position in a sequence: the numbers below 0 count from the end."""
    place = node.scalar(index, default)
    if not -count <= place < max(count, 1):
        message = "the sequence has no such place"
        raise Refusal(message, code="range", field=f"input {index}", got=place, allowed=plural(count, "tensor"))
    return int(place % count) if count else 0


@imports("SequenceEmpty", since=11, how="none: a sequence is only known on import")
@imports("SequenceConstruct", since=11, how="none: a sequence is only known on import")
def _construct(node: Node) -> Result:
    return TensorList.of(node.given)


@imports("SequenceAt", since=11, how="none: the tensor itself")
def _at(node: Node) -> Result:
    items = _items(node)
    if not items:
        raise Refusal("the sequence has no tensors", code="range", field="input 0")
    return items[_place(node, 1, len(items))]


@imports("SequenceInsert", since=11, how="none: a sequence is only known on import")
def _insert(node: Node) -> Result:
    items = _items(node)
    place = _place(node, 2, len(items) + 1, default=len(items))
    if node.get(2) is not None and node.scalar(2) < 0:  # before the one that it counts, as in Python
        place = int(node.scalar(2)) + len(items)
        if place < 0:
            raise Refusal("the sequence has no such place", code="range", field="input 2", got=node.scalar(2))
    return TensorList.of([*items[:place], node[1], *items[place:]])


@imports("SequenceErase", since=11, how="none: a sequence is only known on import")
def _erase(node: Node) -> Result:
    items = _items(node)
    if not items:
        raise Refusal("the sequence has no tensors", code="range", field="input 0")
    del items[_place(node, 1, len(items), default=len(items) - 1)]
    return TensorList.of(items)


@imports("SequenceLength", since=11, how="known")
def _length(node: Node) -> Result:
    return np.asarray(len(_items(node)), np.int64)


@imports("SplitToSequence", since=11, how="slice1")
def _split_to_sequence(node: Node) -> Result:
    x, axis = node[0], node.axis(0)
    size = x.shape[axis]
    if node.get(1) is None:
        sizes: Sequence[int] = [1] * size
    elif node.known(1).ndim == 0:
        part = int(node.scalar(1))
        if part < 1:
            raise Refusal("must be at least 1", code="range", field="split", got=part)
        sizes = [min(part, size - begin) for begin in range(0, size, part)]
    else:
        sizes = [int(each) for each in node.known(1)]
    if sum(sizes) != size or min(sizes, default=0) < 0:
        raise Refusal("the parts do not add up to the size", code="sizes", got=list(sizes), allowed=str(size))
    parts, begin = [], 0
    for count in sizes:
        places = [slice(begin, begin + count) if each == axis else slice(None) for each in range(x.rank)]
        part_of = sliced(node.dml, x, places) if x.known is None else Tensor.of(x.known[tuple(places)])
        if node.get(1) is None and not node.attribute("keepdims", 1):
            part_of = _without(node, part_of, axis)
        parts.append(part_of)
        begin += count
    return TensorList.of(parts)


def _without(node: Node, x: Tensor, axis: int) -> Tensor:
    """Without a dimension of size 1."""
    shape = x.shape[:axis] + x.shape[axis + 1 :]
    return Tensor.of(x.known.reshape(shape)) if x.known is not None else node.tensor(x.made, shape)


@imports("ConcatFromSequence", since=11, how="join, views")
def _concat_from_sequence(node: Node) -> Result:
    items = _items(node)
    if not items:
        raise Refusal("the sequence has no tensors", code="range", field="input 0")
    is_new = bool(node.attribute("new_axis", 0))
    axis = at_axis(node.required("axis"), items[0].rank + is_new)
    return joined(node, items, axis) if is_new else concatenated(node, items, axis)


@imports("SequenceMap", since=17, how="the steps one after another")
def _map(node: Node) -> Result:
    count = len(_items(node))
    given = [each.items if isinstance(each, TensorList) else (each,) * count for each in node.given]
    if any(len(each) != count for each in given):
        message = "the sequences have different counts"
        raise Refusal(message, code="count", got=[len(each) for each in given])
    made = [node.run(node.required("body"), [each[index] for each in given]) for index in range(count)]
    return [TensorList.of([each[index] for each in made]) for index in range(len(node.outputs))]


@imports("Optional", since=15, how="none: the tensor itself")
@imports("OptionalGetElement", since=15, how="none: the tensor itself")
def _optional(node: Node) -> Result:
    if node.get(0) is None:
        raise Refusal("an optional value that is absent has no counterpart", code="unsupported")
    return node[0]


@imports("OptionalHasElement", since=15, how="known")
def _has_element(node: Node) -> Result:
    return np.asarray(node.get(0) is not None)
