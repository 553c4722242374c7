"""Operators with indices: gather, one-hot, the greatest elements."""

from __future__ import annotations

import numpy as np

from dmlgraph.formats.onnx.node import Node, Result, at_axis
from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.formats.onnx.shapes import sliced
from dmlgraph.formats.onnx.table import imports
from dmlgraph.formats.onnx.tensors import Tensor


@imports("Gather", how="gather")
def _gather(node: Node) -> Result:
    x, indices, axis = node[0], node[1], node.axis(0)
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    rank = max(x.rank, len(shape), indices.rank, 1)
    data = node.dml.reshaped(x, (1,) * (rank - x.rank) + x.shape)
    places = node.dml.reshaped(node.dml.index(indices), (1,) * (rank - indices.rank) + indices.shape)
    made = node.dml.gather(data, places, axis=axis + rank - x.rank, index_dimensions=max(indices.rank, 1))
    return node.tensor(made, shape)


@imports("GatherElements", since=11, how="gather_elements")
def _gather_elements(node: Node) -> Result:
    x, indices, axis = node[0], node[1], node.axis(0)
    if indices.rank != x.rank:
        got = list(indices.shape)
        raise Refusal("the input has another rank", code="rank", field="indices", got=got, allowed=f"rank {x.rank}")
    within = tuple(size if each == axis else indices.shape[each] for each, size in enumerate(x.shape))
    if within != x.shape:  # the indices read the beginning of the other dimensions
        x = sliced(node.dml, x, [slice(size) for size in within])
    return node.tensor(node.dml.gather_elements(x, node.dml.index(indices), axis=axis))


@imports("GatherND", since=11, how="gather_nd1")
def _gather_nd(node: Node) -> Result:
    x, indices, batches = node[0], node[1], node.attribute("batch_dims", 0)
    taken = indices.shape[-1]
    shape = (*indices.shape[:-1], *x.shape[batches + taken :])
    if 0 in shape:
        return np.empty(shape, x.dtype)
    rank = max(x.rank, indices.rank, len(shape))
    made = node.dml.gather_nd1(
        node.dml.reshaped(x, (1,) * (rank - x.rank) + x.shape),
        node.dml.reshaped(node.dml.index(indices), (1,) * (rank - indices.rank) + indices.shape),
        input_dimension_count=x.rank,
        indices_dimension_count=indices.rank,
        batch_dimension_count=batches,
    )
    return node.tensor(made, shape)


@imports("OneHot", since=9, how="one_hot")
def _one_hot(node: Node) -> Result:
    indices, depth = node[0], int(node.scalar(1))
    axis = at_axis(node.attribute("axis", -1), indices.rank + 1)
    if depth < 1:
        raise Refusal("must be at least 1", code="range", field="depth", got=depth)
    within = (*indices.shape[:axis], 1, *indices.shape[axis:])
    shape = (*indices.shape[:axis], depth, *indices.shape[axis:])
    places = node.dml.reshaped(_whole(node, indices), within)
    values = node.dml.reshaped(node[2], (1,) * (len(shape) - 1) + (2,))
    return node.tensor(node.dml.one_hot(places, values, sizes=shape, axis=axis))


def _whole(node: Node, indices: Tensor) -> Tensor:
    """Indices as a type that DirectML takes as such."""
    if indices.known is not None:
        narrow = Tensor.of(indices.known.astype(np.int64))
        return Tensor(narrow.dtype, narrow.shape, made=node.dml.index(narrow))
    fine = indices.dtype.kind in "iu" and indices.dtype.itemsize >= 4
    return indices if fine else node.tensor(node.dml.converted(indices, "int32"), indices.shape)


@imports("TopK", how="top_k1")
def _top_k(node: Node) -> Result:
    x, axis = node[0], node.axis(-1)
    k = node.required("k") if node.opset < 10 else int(node.scalar(1))
    if not 0 <= k <= x.shape[axis]:
        raise Refusal("there are not so many elements", code="range", field="K", got=k, allowed=f"0 to {x.shape[axis]}")
    if k == 0:
        none = [0 if each == axis else size for each, size in enumerate(x.shape)]
        return [np.empty(none, x.dtype), np.empty(none, np.int64)]
    direction = "decreasing" if node.attribute("largest", 1) else "increasing"
    made = node.dml.top_k1(x, axis=axis, k=k, axis_direction=direction, output_index={"dtype": "uint64"})
    return [made.output_value, made.output_index]


@imports("ReverseSequence", since=10, how="reverse_subsequences")
def _reverse_sequence(node: Node) -> Result:
    x, batch, time = node[0], node.attribute("batch_axis", 1), node.attribute("time_axis", 0)
    sizes = [size if axis == batch else 1 for axis, size in enumerate(x.shape)]
    lengths = node.dml.reshaped(_counts(node, node[1]), sizes)
    whole = [1 if axis == time else size for axis, size in enumerate(x.shape)]
    return node.tensor(node.dml.reverse_subsequences(x, node.dml.expanded(lengths, whole), axis=time))


def _counts(node: Node, tensor: Tensor) -> Tensor:
    """Lengths as uint32."""
    return node.tensor(node.dml.converted(node.dml.index(tensor), "uint32"), tensor.shape)


@imports("NonZero", since=9, how="known inputs only")
@imports("Compress", since=9, how="known conditions only: gather")
def _unknown_count(node: Node) -> Result:
    if node.operator == "NonZero":
        node.known(0)
        raise Refusal("the tensor is too large", code="too-large")
    chosen = np.flatnonzero(node.known(1).ravel())
    x = node[0]
    if node.attribute("axis") is None:
        x = node.tensor(node.dml.reshaped(x, (x.count,)))
    places = Tensor.of(chosen.astype(np.int64))
    axis = at_axis(node.attribute("axis", 0), x.rank)
    if not len(chosen):
        return np.empty([0 if each == axis else size for each, size in enumerate(x.shape)], x.dtype)
    rank = x.rank
    indices = node.dml.reshaped(node.dml.index(places), (1,) * (rank - 1) + (len(chosen),))
    return node.tensor(node.dml.gather(x, indices, axis=axis, index_dimensions=1))
