"""Operators that write elements at indices.

DirectML's scatter replaces elements, each at most once.  A reduction reads the elements first, computes with them and
writes them back.  Where an element is updated more than once this takes a round for each time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dmlgraph.formats.onnx.node import Node, Result, at_axis
from dmlgraph.formats.onnx.refusals import Refusal, give_values
from dmlgraph.formats.onnx.shapes import sliced
from dmlgraph.formats.onnx.table import imports
from dmlgraph.formats.onnx.tensors import Array, Tensor
from dmlgraph.graph.value import Value

REDUCTIONS = {"add": "add", "mul": "multiply", "max": "max", "min": "min"}
MOST_ROUNDS = 64  # updates of one element


def _reduction(node: Node) -> str | None:
    """The function that computes an element from itself and an update; None: the update replaces it."""
    name = str(node.attribute("reduction", "none"))
    if name != "none" and name not in REDUCTIONS:
        raise node.refuse("reduction", f"none, {', '.join(REDUCTIONS)}")
    return REDUCTIONS.get(name)


@imports(
    "Scatter",
    "ScatterElements",
    since=9,
    how="scatter_elements; reductions: gather, an operator and scatter, in rounds",
)
def _scatter_elements(node: Node) -> Result:
    x, indices, updates, axis = node[0], node[1], node[2], node.axis(0)
    reduction = _reduction(node)
    if indices.rank != x.rank or indices.shape != updates.shape:
        message = "the indices and the updates must have the same shape, and as many dimensions as the data"
        raise Refusal(message, code="sizes", got=[list(indices.shape), list(updates.shape)])
    if 0 in indices.shape:
        return x
    within = tuple(size if each == axis else indices.shape[each] for each, size in enumerate(x.shape))
    if indices.known is not None and (reduction or within != x.shape):
        places = list(np.indices(indices.shape))
        places[axis] = _counted(indices.known, x.shape[axis])
        return _scatter_rows(node, _rows(places, x.shape), 1, updates, reduction)
    if within != x.shape:
        message = "the indices must cover all of the other dimensions, or be known when the model is imported"
        hint = give_values(indices.depends)
        raise Refusal(
            message, code="sizes", field="indices", got=list(indices.shape), allowed=str(list(within)), hint=hint
        )
    if reduction is None:
        return node.tensor(node.dml.scatter_elements(x, node.dml.index(indices), updates, axis=axis), x.shape)
    made = node.dml.value(x)
    for place in range(_bounded(indices.shape[axis], indices)):  # the indices of a round differ in another dimension
        cut = [slice(place, place + 1) if each == axis else slice(None) for each in range(x.rank)]
        at, part = sliced(node.dml, indices, cut), sliced(node.dml, updates, cut)
        part = getattr(node.dml, reduction)(node.dml.gather_elements(made, at, axis=axis), part)
        made = node.dml.scatter_elements(made, at, part, axis=axis)
    return node.tensor(made, x.shape)


@imports("ScatterND", since=11, how="scatter_nd; reductions: gather_nd1, an operator and scatter_nd, in rounds")
def _scatter_nd(node: Node) -> Result:
    x, indices, updates = node[0], node[1], node[2]
    reduction = _reduction(node)
    taken = indices.shape[-1] if indices.rank else 0
    if not 1 <= taken <= x.rank or updates.shape != (*indices.shape[:-1], *x.shape[taken:]):
        message = "the updates must have the shape that the data and the indices give"
        raise Refusal(message, code="sizes", field="updates", got=list(updates.shape))
    if 0 in updates.shape:
        return x
    if reduction is None:
        return node.tensor(_replaced(node, node.dml.value(x), x, indices, updates), x.shape)
    if indices.known is not None:
        tuples = indices.known.reshape(-1, taken)
        places = [_counted(tuples[:, each], x.shape[each]) for each in range(taken)]
        return _scatter_rows(node, _rows(places, x.shape[:taken]), math.prod(x.shape[taken:]), updates, reduction)
    count = math.prod(indices.shape[:-1])
    tuples_made = node.tensor(node.dml.reshaped(indices, (count, taken)))
    updates_made = node.tensor(node.dml.reshaped(updates, (count, *(x.shape[taken:] or (1,)))))
    made = node.dml.value(x)
    for place in range(_bounded(count, indices)):
        at = sliced(node.dml, tuples_made, [slice(place, place + 1), slice(None)])
        part = sliced(node.dml, updates_made, [slice(place, place + 1), *[slice(None)] * (updates_made.rank - 1)])
        part = Tensor(part.dtype, (1, *x.shape[taken:]), made=node.dml.reshaped(part, (1, *x.shape[taken:])))
        made = _replaced(node, made, x, at, _combined(node, reduction, made, x, at, part))
    return node.tensor(made, x.shape)


def _combined(node: Node, reduction: str, made: Value, x: Tensor, at: Tensor, part: Tensor) -> Tensor:
    """The elements at one tuple of indices together with their updates."""
    rank = max(x.rank, 2, part.rank)
    found = node.dml.gather_nd1(
        node.dml.reshaped(made, (1,) * (rank - x.rank) + x.shape),
        node.dml.reshaped(at, (1,) * (rank - 2) + at.shape),
        input_dimension_count=x.rank,
        indices_dimension_count=2,
        batch_dimension_count=0,
    )
    result = getattr(node.dml, reduction)(node.dml.reshaped(found, part.sizes), part)
    return Tensor(part.dtype, part.shape, made=result)


def _replaced(node: Node, made: Value, x: Tensor, indices: Tensor, updates: Tensor) -> Value:
    """ScatterND without a reduction on a value with the shape of `x`."""
    rank = max(x.rank, indices.rank, updates.rank)
    result: Value = node.dml.scatter_nd(
        node.dml.reshaped(made, (1,) * (rank - x.rank) + x.shape),
        node.dml.reshaped(node.dml.index(indices), (1,) * (rank - indices.rank) + indices.shape),
        node.dml.reshaped(updates, (1,) * (rank - updates.rank) + updates.shape),
        input_dimension_count=x.rank,
        indices_dimension_count=indices.rank,
    )
    return node.dml.reshaped(result, x.sizes)


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


def _scatter_rows(node: Node, rows: Array, width: int, updates: Tensor, reduction: str | None) -> Tensor:
    """Updates {N, width} of the known rows of the data as {…, width}, those of a row one after another."""
    x = node[0]
    if not len(rows):
        return x
    made = node.dml.reshaped(x, (x.count // width, width))
    parts = node.dml.reshaped(updates, (len(rows), width))
    if reduction is None:  # the last update of each row
        chosen = [np.flatnonzero(_turns(rows[::-1])[::-1] == 0)]
    else:
        turns = _turns(rows)
        chosen = [np.flatnonzero(turns == turn) for turn in range(_bounded(int(turns.max()) + 1, node[1]))]
    for numbers in chosen:
        part = parts if len(numbers) == len(rows) else _taken(node, parts, numbers)
        if reduction is not None:
            part = getattr(node.dml, reduction)(_taken(node, made, rows[numbers]), part)
        at = Tensor.of(rows[numbers].astype(np.int32)[:, None])
        made = node.dml.scatter_nd(made, at, part, input_dimension_count=2, indices_dimension_count=2)
    return node.tensor(made, x.shape)


def _taken(node: Node, matrix: Value, rows: Array) -> Value:
    """Some rows of a matrix."""
    made: Value = node.dml.gather(matrix, Tensor.of(rows.astype(np.int32)[None]), axis=0, index_dimensions=1)
    return made


def _turns(rows: Array) -> Array:
    """How many equal numbers are before each one."""
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    first = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    begins = np.maximum.accumulate(np.where(first, np.arange(len(rows)), 0))
    turns = np.empty(len(rows), np.int64)
    turns[order] = np.arange(len(rows)) - begins
    return turns


@imports("TensorScatter", since=24, how="scatter_elements")
def _tensor_scatter(node: Node) -> Result:
    x, updates, starts = node[0], node[1], node.get(2)
    axis = at_axis(node.attribute("axis", -2), x.rank)
    mode = str(node.attribute("mode", "linear"))
    if mode not in ("linear", "circular"):
        raise node.refuse("mode", "linear, circular")
    if axis == 0 or (*updates.shape[:axis], x.shape[axis], *updates.shape[axis + 1 :]) != x.shape:
        message = "the update must have the shape of the cache, but for the axis, which is not the first"
        raise Refusal(message, code="sizes", field="update", got=list(updates.shape))
    offsets = np.arange(updates.shape[axis], dtype=np.int32).reshape(
        [-1 if each == axis else 1 for each in range(x.rank)]
    )
    places = node.dml.value(Tensor.of(offsets))
    if starts is not None:
        first = node.dml.converted(node.dml.index(starts), "int32")
        batches = node.dml.reshaped(first, (x.shape[0], *(1,) * (x.rank - 1)))
        places = node.dml.add(batches, places)
    if mode == "circular":
        places = node.dml.modulus_truncate(places, Tensor.of(np.full((1,) * x.rank, x.shape[axis], np.int32)))
    return node.tensor(node.dml.scatter_elements(x, node.dml.expanded(places, updates.shape), updates, axis=axis))
