"""Operators with indices: gather, one-hot, the greatest elements, and those that write at indices.

DirectML's scatter replaces elements, each at most once.  A reduction reads the elements first, computes with them and
writes them back.  Where an element is updated more than once this takes a round for each time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from dmlgraph.formats.onnx.export.emitter import INT32, INT64, Emitter, Sizes, Symbol
from dmlgraph.formats.onnx.node import Maybe, Node, Result, at_axis
from dmlgraph.formats.onnx.refusals import Refusal, give_values, one_of, unsupported
from dmlgraph.formats.onnx.shapes import sliced
from dmlgraph.formats.onnx.table import exports, imports
from dmlgraph.formats.onnx.tensors import Array, Tensor
from dmlgraph.graph.value import Value
from dmlgraph.operators.directml_enums import AxisDirection


def _indices(node: Emitter, *sizes: int) -> Symbol:
    """The indices with these sizes, in a type that ONNX takes."""
    x = node.flat("indices", *sizes)
    return x if x.dtype in (INT32, INT64) else node.cast(x, INT64)


@imports(how="gather")
def Gather(node: Node, data: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    axis = at_axis(axis, data.rank)
    shape = (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :])
    rank = max(data.rank, len(shape), indices.rank, 1)
    rows = node.reshaped(data, (1,) * (rank - data.rank) + data.shape)
    places = node.reshaped(node.index(indices), (1,) * (rank - indices.rank) + indices.shape)
    made = node.gather(rows, places, axis=axis + rank - data.rank, index_dimensions=max(indices.rank, 1))
    return node.tensor(made, shape)


@exports("gather", how="Gather")
def _gather(node: Emitter) -> Symbol:
    sizes, axis = node.desc("input").sizes, node.field("axis")
    kept = _last(node.desc("indices").sizes, node.field("index_dimensions"))
    made = node.call("Gather", node["input"], _indices(node, *kept), axis=axis)
    return node.reshape(made, node.output.sizes, (*sizes[:axis], *kept, *sizes[axis + 1 :]))


def _last(sizes: Sizes, count: int) -> tuple[int, ...]:
    return tuple(sizes[len(sizes) - count :])


@imports(since=11, how="gather_elements")
def GatherElements(node: Node, data: Tensor, indices: Tensor, *, axis: int = 0) -> Result:
    x, axis = data, at_axis(axis, data.rank)
    if indices.rank != x.rank:
        got = list(indices.shape)
        raise Refusal("the input has another rank", code="rank", field="indices", got=got, allowed=f"rank {x.rank}")
    within = tuple(size if each == axis else indices.shape[each] for each, size in enumerate(x.shape))
    if within != x.shape:  # the indices read the beginning of the other dimensions
        x = sliced(node, x, [slice(size) for size in within])
    return node.tensor(node.gather_elements(x, node.index(indices), axis=axis))


@exports("gather_elements", how="GatherElements")
def _gather_elements(node: Emitter) -> Symbol:
    indices = _indices(node, *node.desc("indices").sizes)
    return node.call("GatherElements", node["input"], indices, axis=node.field("axis"))


@imports(since=11, how="gather_nd1")
def GatherND(node: Node, data: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Result:
    taken = indices.shape[-1]
    shape = (*indices.shape[:-1], *data.shape[batch_dims + taken :])
    if 0 in shape:
        return np.empty(shape, data.dtype)
    rank = max(data.rank, indices.rank, len(shape))
    made = node.gather_nd1(
        node.reshaped(data, (1,) * (rank - data.rank) + data.shape),
        node.reshaped(node.index(indices), (1,) * (rank - indices.rank) + indices.shape),
        input_dimension_count=data.rank,
        indices_dimension_count=indices.rank,
        batch_dimension_count=batch_dims,
    )
    return node.tensor(made, shape)


@exports("gather_nd", "gather_nd1", how="GatherND")
def _gather_nd(node: Emitter) -> Symbol:
    x, indices, source, sizes = _tuples(node)
    batches = node.field("batch_dimension_count")
    made = node.call("GatherND", x, indices, batch_dims=batches)
    return node.reshape(made, node.output.sizes, (*sizes[:-1], *source[batches + sizes[-1] :]))


@imports(since=9, how="one_hot")
def OneHot(node: Node, indices: Tensor, depth: Tensor, values: Tensor, *, axis: int = -1) -> Tensor:
    count, axis = int(node.scalar(depth)), at_axis(axis, indices.rank + 1)
    if count < 1:
        raise Refusal("must be at least 1", code="range", field="depth", got=count)
    within = (*indices.shape[:axis], 1, *indices.shape[axis:])
    shape = (*indices.shape[:axis], count, *indices.shape[axis:])
    places = node.reshaped(_whole(node, indices), within)
    pair = node.reshaped(values, (1,) * (len(shape) - 1) + (2,))
    return node.tensor(node.one_hot(places, pair, sizes=shape, axis=axis))


def _whole(node: Node, indices: Tensor) -> Tensor:
    """Indices as a type that DirectML takes as such."""
    if indices.known is not None:
        narrow = Tensor.of(indices.known.astype(np.int64))
        return Tensor(narrow.dtype, narrow.shape, made=node.index(narrow))
    fine = indices.dtype.kind in "iu" and indices.dtype.itemsize >= 4
    return indices if fine else node.tensor(node.converted(indices, "int32"), indices.shape)


@exports("one_hot", how="OneHot")
def _one_hot(node: Emitter) -> Symbol:
    """Indices beyond the axis, and negative ones, are counted as ONNX does: from the end."""
    sizes, axis = node.desc("indices").sizes, node.field("axis")
    values = node.reshape(node["values"], (-1,))
    if node.desc("values").element_count > 2:
        values = node.call("Slice", values, node.ints([0]), node.ints([2]))
    depth = node.number(node.output.sizes[axis], INT64)
    if len(sizes) == 1:  # ONNX takes no scalar
        made = node.call("OneHot", node.cast(node["indices"], INT64), depth, values, axis=1)
        return node.reshape(made, node.output.sizes)
    indices = node.cast(node.flat("indices", *sizes[:axis], *sizes[axis + 1 :]), INT64)
    return node.call("OneHot", indices, depth, values, axis=axis)


@imports(how="top_k1")
def TopK(node: Node, X: Tensor, K: Maybe = None, *, axis: int = -1, largest: int = 1, k: int | None = None) -> Result:
    """The number of elements is an attribute before opset 10."""
    x, axis, k = X, at_axis(axis, X.rank), int(node.scalar(node.there(1, K))) if k is None else k
    if not 0 <= k <= x.shape[axis]:
        raise Refusal("there are not so many elements", code="range", field="K", got=k, allowed=f"0 to {x.shape[axis]}")
    if k == 0:
        none = [0 if each == axis else size for each, size in enumerate(x.shape)]
        return [np.empty(none, x.dtype), np.empty(none, np.int64)]
    direction = "decreasing" if largest else "increasing"
    made = node.top_k1(x, axis=axis, k=k, axis_direction=direction, output_index={"dtype": "uint64"})
    return [made.output_value, made.output_index]


@exports("top_k", "top_k1", how="TopK, Cast")
def _top(node: Emitter) -> list[Symbol]:
    largest = node.field("axis_direction") is AxisDirection.DECREASING
    values, indices = node.calls(
        "TopK",
        node["input"],
        node.ints([node.field("k")]),
        dtypes=[node.dtype, INT64],
        axis=node.field("axis"),
        largest=int(largest),
        sorted=1,
    )
    return [values, node.cast(indices, node.desc("output_index").dtype.numpy)]


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
    whole = node.reshape(kept, (rows, 1)) / node.ints(steps)
    places = node.call("Mod", whole, node.ints(sizes[len(sizes) - columns :]))
    inside = node.constant(np.arange(rows)[:, None], INT64) < found
    places = node.call("Where", inside, places, node.number(0, INT64))
    coordinates, number = node.desc("output_coordinates"), node.desc("output_count")
    return [
        node.cast(node.reshape(found, number.sizes, (1,)), number.dtype.numpy),
        node.cast(node.reshape(places, coordinates.sizes, (rows, columns)), coordinates.dtype.numpy),
    ]


@imports(since=10, how="reverse_subsequences")
def ReverseSequence(
    node: Node, input: Tensor, sequence_lens: Tensor, *, batch_axis: int = 1, time_axis: int = 0
) -> Tensor:
    sizes = [size if axis == batch_axis else 1 for axis, size in enumerate(input.shape)]
    lengths = node.reshaped(_counts(node, sequence_lens), sizes)
    whole = [1 if axis == time_axis else size for axis, size in enumerate(input.shape)]
    return node.tensor(node.reverse_subsequences(input, node.expanded(lengths, whole), axis=time_axis))


@exports("reverse_subsequences", how="Range, Sub, Where, GatherElements")
def _reverse(node: Emitter) -> Symbol:
    sizes, axis = node.output.sizes, node.field("axis")
    size = sizes[axis]
    shape = [size if each == axis else 1 for each in range(len(sizes))]
    place = node.constant(np.arange(size).reshape(shape), INT64)
    lengths = node.cast(node["sequence_lengths"], INT64)
    one, last = node.number(1, INT64), node.number(size - 1, INT64)
    mirrored = node.call("Min", lengths - one - place, last)
    inside = place < lengths
    source = node.expand(node.call("Where", inside, mirrored, place), sizes)
    return node.call("GatherElements", node["input"], source, axis=axis)


def _counts(node: Node, tensor: Tensor) -> Tensor:
    """Lengths as uint32."""
    return node.tensor(node.converted(node.index(tensor), "uint32"), tensor.shape)


@imports(since=9, how="known inputs only")
def NonZero(node: Node, X: Tensor) -> NoReturn:
    node.known(X)
    raise Refusal("the tensor is too large", code="too-large")


@imports(since=9, how="known conditions only: gather")
def Compress(node: Node, input: Tensor, condition: Tensor, *, axis: int | None = None) -> Result:
    chosen = np.flatnonzero(node.known(condition).ravel())
    x = node.tensor(node.reshaped(input, (input.count,))) if axis is None else input
    along = at_axis(axis or 0, x.rank)
    if not len(chosen):
        return np.empty([0 if each == along else size for each, size in enumerate(x.shape)], x.dtype)
    places = node.index(Tensor.of(chosen.astype(np.int64)))
    indices = node.reshaped(places, (1,) * (x.rank - 1) + (len(chosen),))
    return node.tensor(node.gather(x, indices, axis=along, index_dimensions=1))


@exports("scatter_elements", how="ScatterElements")
def _scatter_elements(node: Emitter) -> Symbol:
    indices = _indices(node, *node.desc("indices").sizes)
    return node.call("ScatterElements", node["input"], indices, node["updates"], axis=node.field("axis"))


def _tuples(node: Emitter) -> tuple[Symbol, Symbol, tuple[int, ...], tuple[int, ...]]:
    """The input and the indices without the leading dimensions that do not count, and their sizes."""
    source = _last(node.desc("input").sizes, node.field("input_dimension_count"))
    sizes = _last(node.desc("indices").sizes, node.field("indices_dimension_count"))
    return node.flat("input", *source), node.cast(_indices(node, *sizes), INT64), source, sizes


@exports("scatter_nd", how="ScatterND")
def _scatter_nd(node: Emitter) -> Symbol:
    x, indices, source, sizes = _tuples(node)
    updates = node.flat("updates", *sizes[:-1], *source[sizes[-1] :])
    return node.reshape(node.call("ScatterND", x, indices, updates), node.output.sizes, source)


REDUCTIONS = {"add": "add", "mul": "multiply", "max": "max", "min": "min"}
MOST_ROUNDS = 64  # updates of one element


def _function(reduction: str) -> str | None:
    """What computes an element from itself and an update; None: the update replaces it."""
    if reduction != "none" and reduction not in REDUCTIONS:
        raise unsupported("reduction", f"none, {', '.join(REDUCTIONS)}", reduction)
    return REDUCTIONS.get(reduction)


@imports(
    "Scatter",
    "ScatterElements",
    since=9,
    how="scatter_elements; reductions: gather, an operator and scatter, in rounds",
)
def ScatterElements(
    node: Node, data: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none"
) -> Tensor:
    axis, function = at_axis(axis, data.rank), _function(reduction)
    if indices.rank != data.rank or indices.shape != updates.shape:
        message = "the indices and the updates must have the same shape, and as many dimensions as the data"
        raise Refusal(message, code="sizes", got=[list(indices.shape), list(updates.shape)])
    if 0 in indices.shape:
        return data
    within = tuple(size if each == axis else indices.shape[each] for each, size in enumerate(data.shape))
    if indices.known is not None and (function or within != data.shape):
        places = list(np.indices(indices.shape))
        places[axis] = _counted(indices.known, data.shape[axis])
        return _scatter_rows(node, data, indices, _rows(places, data.shape), 1, updates, function)
    if within != data.shape:
        message = "the indices must cover all of the other dimensions, or be known when the model is imported"
        hint = give_values(indices.depends)
        raise Refusal(
            message, code="sizes", field="indices", got=list(indices.shape), allowed=str(list(within)), hint=hint
        )
    if function is None:
        return node.tensor(node.scatter_elements(data, node.index(indices), updates, axis=axis), data.shape)
    made = node.value(data)
    for place in range(_bounded(indices.shape[axis], indices)):  # the indices of a round differ in another dimension
        cut = [slice(place, place + 1) if each == axis else slice(None) for each in range(data.rank)]
        at, part = sliced(node, indices, cut), sliced(node, updates, cut)
        added = node.apply(function, node.gather_elements(made, at, axis=axis), part)
        made = node.scatter_elements(made, at, added, axis=axis)
    return node.tensor(made, data.shape)


@imports(since=11, how="scatter_nd; reductions: gather_nd1, an operator and scatter_nd, in rounds")
def ScatterND(node: Node, data: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    function = _function(reduction)
    taken = indices.shape[-1] if indices.rank else 0
    if not 1 <= taken <= data.rank or updates.shape != (*indices.shape[:-1], *data.shape[taken:]):
        message = "the updates must have the shape that the data and the indices give"
        raise Refusal(message, code="sizes", field="updates", got=list(updates.shape))
    if 0 in updates.shape:
        return data
    if function is None:
        return node.tensor(_replaced(node, node.value(data), data, indices, updates), data.shape)
    if indices.known is not None:
        tuples = indices.known.reshape(-1, taken)
        places = [_counted(tuples[:, each], data.shape[each]) for each in range(taken)]
        rows, width = _rows(places, data.shape[:taken]), math.prod(data.shape[taken:])
        return _scatter_rows(node, data, indices, rows, width, updates, function)
    count = math.prod(indices.shape[:-1])
    tuples_made = node.tensor(node.reshaped(indices, (count, taken)))
    updates_made = node.tensor(node.reshaped(updates, (count, *(data.shape[taken:] or (1,)))))
    made = node.value(data)
    for place in range(_bounded(count, indices)):
        at = sliced(node, tuples_made, [slice(place, place + 1), slice(None)])
        part = sliced(node, updates_made, [slice(place, place + 1), *[slice(None)] * (updates_made.rank - 1)])
        part = Tensor(part.dtype, (1, *data.shape[taken:]), made=node.reshaped(part, (1, *data.shape[taken:])))
        made = _replaced(node, made, data, at, _combined(node, function, made, data, at, part))
    return node.tensor(made, data.shape)


def _combined(node: Node, function: str, made: Value, x: Tensor, at: Tensor, part: Tensor) -> Tensor:
    """The elements at one tuple of indices together with their updates."""
    rank = max(x.rank, 2, part.rank)
    found = node.gather_nd1(
        node.reshaped(made, (1,) * (rank - x.rank) + x.shape),
        node.reshaped(at, (1,) * (rank - 2) + at.shape),
        input_dimension_count=x.rank,
        indices_dimension_count=2,
        batch_dimension_count=0,
    )
    result = node.apply(function, node.reshaped(found, part.sizes), part)
    return Tensor(part.dtype, part.shape, made=result)


def _replaced(node: Node, made: Value, x: Tensor, indices: Tensor, updates: Tensor) -> Value:
    """ScatterND without a reduction on a value with the shape of `x`."""
    rank = max(x.rank, indices.rank, updates.rank)
    result = node.scatter_nd(
        node.reshaped(made, (1,) * (rank - x.rank) + x.shape),
        node.reshaped(node.index(indices), (1,) * (rank - indices.rank) + indices.shape),
        node.reshaped(updates, (1,) * (rank - updates.rank) + updates.shape),
        input_dimension_count=x.rank,
        indices_dimension_count=indices.rank,
    )
    return node.reshaped(result, x.sizes)


def _counted(indices: Array, size: int) -> Array:
    """Known indices, counted from the first."""
    if indices.size and not (indices.min() >= -size and indices.max() < size):
        got = [int(indices.min()), int(indices.max())]
        raise Refusal("an index is outside", code="range", field="indices", got=got, allowed=f"{-size} to {size - 1}")
    return np.where(indices < 0, indices + size, indices)


def _rows(places: Sequence[Array], shape: Sequence[int]) -> Array:
    """The row-major number of each tuple of indices, {N}."""
    return np.asarray(np.ravel_multi_index(tuple(map(np.ravel, places)), tuple(shape)), np.int64)


def _bounded(rounds: int, indices: Tensor) -> int:
    if rounds > MOST_ROUNDS:
        message = "an element may be updated too often: DirectML's scatter only replaces"
        allowed = f"at most {MOST_ROUNDS} times"
        hint = None if indices.known is not None else give_values(indices.depends)
        raise Refusal(message, code="too-large", field="reduction", got=rounds, allowed=allowed, hint=hint)
    return rounds


def _scatter_rows(
    node: Node, x: Tensor, indices: Tensor, rows: Array, width: int, updates: Tensor, function: str | None
) -> Tensor:
    """Updates {N, width} of the known rows of the data as {…, width}, those of a row one after another."""
    if not len(rows):
        return x
    made = node.reshaped(x, (x.count // width, width))
    parts = node.reshaped(updates, (len(rows), width))
    if function is None:  # the last update of each row
        chosen = [np.flatnonzero(_turns(rows[::-1])[::-1] == 0)]
    else:
        turns = _turns(rows)
        chosen = [np.flatnonzero(turns == turn) for turn in range(_bounded(int(turns.max()) + 1, indices))]
    for numbers in chosen:
        part = parts if len(numbers) == len(rows) else _taken(node, parts, numbers)
        if function is not None:
            part = node.apply(function, _taken(node, made, rows[numbers]), part)
        at = Tensor.of(rows[numbers].astype(np.int32)[:, None])
        made = node.scatter_nd(made, at, part, input_dimension_count=2, indices_dimension_count=2)
    return node.tensor(made, x.shape)


def _taken(node: Node, matrix: Value, rows: Array) -> Value:
    """Some rows of a matrix."""
    return node.gather(matrix, Tensor.of(rows.astype(np.int32)[None]), axis=0, index_dimensions=1)


def _turns(rows: Array) -> Array:
    """How many equal numbers are before each one."""
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    first = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    begins = np.maximum.accumulate(np.where(first, np.arange(len(rows)), 0))
    turns = np.empty(len(rows), np.int64)
    turns[order] = np.arange(len(rows)) - begins
    return turns


@imports(since=24, how="scatter_elements")
def TensorScatter(
    node: Node, past_cache: Tensor, update: Tensor, write_indices: Maybe = None, *, axis: int = -2, mode: str = "linear"
) -> Tensor:
    shape, rank = past_cache.shape, past_cache.rank
    axis = at_axis(axis, rank)
    one_of("mode", mode, ("linear", "circular"))
    if axis == 0 or (*update.shape[:axis], shape[axis], *update.shape[axis + 1 :]) != shape:
        message = "the update must have the shape of the cache, except along the axis, which is not the first"
        raise Refusal(message, code="sizes", field="update", got=list(update.shape))
    offsets = np.arange(update.shape[axis], dtype=np.int32)
    places = node.value(Tensor.of(offsets.reshape([-1 if each == axis else 1 for each in range(rank)])))
    if write_indices is not None:
        first = node.converted(node.index(write_indices), "int32")
        batches = node.reshaped(first, (shape[0], *(1,) * (rank - 1)))
        places = node.add(batches, places)
    if mode == "circular":
        places = node.modulus_truncate(places, Tensor.of(np.full((1,) * rank, shape[axis], np.int32)))
    places = node.expanded(places, update.shape)
    return node.tensor(node.scatter_elements(past_cache, places, update, axis=axis))
