"""Gather and scatter, one-hot, the coordinates of elements other than zero."""

from __future__ import annotations

import numpy as np

from dmlgraph.formats.onnx.export.emitter import BOOL, INT32, INT64, Emitter, Sizes, Symbol
from dmlgraph.formats.onnx.table import exports


def _indices(node: Emitter, *sizes: int) -> Symbol:
    """The indices with these sizes, in a type that ONNX takes."""
    x = node.flat("indices", *sizes)
    return x if x.dtype in (INT32, INT64) else node.cast(x, INT64)


@exports("gather", how="Gather")
def _gather(node: Emitter) -> Symbol:
    sizes, axis = node.desc("input").sizes, node.field("axis")
    kept = _last(node.desc("indices").sizes, node.field("index_dimensions"))
    made = node.call("Gather", node["input"], _indices(node, *kept), axis=axis)
    return node.reshape(made, node.output.sizes, (*sizes[:axis], *kept, *sizes[axis + 1 :]))


def _last(sizes: Sizes, count: int) -> tuple[int, ...]:
    return tuple(sizes[len(sizes) - count :])


@exports("gather_elements", how="GatherElements")
def _gather_elements(node: Emitter) -> Symbol:
    indices = _indices(node, *node.desc("indices").sizes)
    return node.call("GatherElements", node["input"], indices, axis=node.field("axis"))


@exports("scatter_elements", how="ScatterElements")
def _scatter_elements(node: Emitter) -> Symbol:
    indices = _indices(node, *node.desc("indices").sizes)
    return node.call("ScatterElements", node["input"], indices, node["updates"], axis=node.field("axis"))


def _tuples(node: Emitter) -> tuple[Symbol, Symbol, tuple[int, ...], tuple[int, ...]]:
    """The input and the indices without the leading dimensions that do not count, and their sizes."""
    source = _last(node.desc("input").sizes, node.field("input_dimension_count"))
    sizes = _last(node.desc("indices").sizes, node.field("indices_dimension_count"))
    return node.flat("input", *source), node.cast(_indices(node, *sizes), INT64), source, sizes


@exports("gather_nd", "gather_nd1", how="GatherND")
def _gather_nd(node: Emitter) -> Symbol:
    x, indices, source, sizes = _tuples(node)
    batches = node.field("batch_dimension_count")
    made = node.call("GatherND", x, indices, batch_dims=batches)
    return node.reshape(made, node.output.sizes, (*sizes[:-1], *source[batches + sizes[-1] :]))


@exports("scatter_nd", how="ScatterND")
def _scatter_nd(node: Emitter) -> Symbol:
    x, indices, source, sizes = _tuples(node)
    updates = node.flat("updates", *sizes[:-1], *source[sizes[-1] :])
    return node.reshape(node.call("ScatterND", x, indices, updates), node.output.sizes, source)


@exports("one_hot", how="OneHot")
def _one_hot(node: Emitter) -> Symbol:
    """Indices beyond the axis, and negative ones, are counted as ONNX does: from the end."""
    sizes, axis = node.desc("indices").sizes, node.field("axis")
    values = node.reshape(node["values"], (-1,))
    if node.desc("values").element_count > 2:
        values = node.call("Slice", values, node.ints([0]), node.ints([2]))
    depth = node.number(node.output.sizes[axis], INT64)
    if len(sizes) == 1:  # ONNX takes no scalar
        made = node.call("OneHot", node.cast(node["indices"], INT64), depth, values, dtype=node.dtype, axis=1)
        return node.reshape(made, node.output.sizes)
    indices = node.cast(node.flat("indices", *sizes[:axis], *sizes[axis + 1 :]), INT64)
    return node.call("OneHot", indices, depth, values, dtype=node.dtype, axis=axis)


@exports("nonzero_coordinates", how="TopK, Div, Mod, Where")
def _nonzero(node: Emitter) -> list[Symbol]:
    """The places of elements other than zero come first, because equal elements keep their order."""
    sizes = node.desc("input").sizes
    count, total = int(np.prod(sizes)), node.ints([0])
    flags = node.cast(node.reshape(node.truth(node["input"]), (count,)), INT64)
    found = node.call("ReduceSum", flags, total, keepdims=1)
    _, order = node.calls("TopK", flags, node.ints([count]), dtypes=[INT64, INT64], axis=0, largest=1, sorted=1)
    rows, columns = node.desc("output_coordinates").sizes[-2:]
    steps = [int(np.prod(sizes[axis + 1 :])) for axis in range(len(sizes))][len(sizes) - columns :]
    kept = node.call("Slice", order, node.ints([0]), node.ints([rows]))
    whole = node.call("Div", node.reshape(kept, (rows, 1)), node.ints(steps))
    places = node.call("Mod", whole, node.ints(sizes[len(sizes) - columns :]))
    inside = node.call("Less", node.constant(np.arange(rows)[:, None], INT64), found, dtype=BOOL)
    places = node.call("Where", inside, places, node.number(0, INT64), dtype=INT64)
    coordinates, number = node.desc("output_coordinates"), node.desc("output_count")
    return [
        node.cast(node.reshape(found, number.sizes, (1,)), number.dtype.numpy),
        node.cast(node.reshape(places, coordinates.sizes, (rows, columns)), coordinates.dtype.numpy),
    ]
