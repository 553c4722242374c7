"""Operators that write elements at indices.

DirectML's scatter replaces elements, each at most once.  A reduction reads the elements first, computes with them and
writes them back.  Where an element is updated more than once this takes a round for each time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dmlgraph.formats.onnx.node import Maybe, Node, at_axis
from dmlgraph.formats.onnx.refusals import Refusal, give_values, unsupported
from dmlgraph.formats.onnx.shapes import sliced
from dmlgraph.formats.onnx.table import imports
from dmlgraph.formats.onnx.tensors import Array, Tensor
from dmlgraph.graph.value import Value

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
    if mode not in ("linear", "circular"):
        raise unsupported("mode", "linear, circular", mode)
    if axis == 0 or (*update.shape[:axis], shape[axis], *update.shape[axis + 1 :]) != shape:
        message = "the update must have the shape of the cache, but for the axis, which is not the first"
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
