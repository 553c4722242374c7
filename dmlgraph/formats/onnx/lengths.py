"""Numbers that a model counts from the size of its past.

The model sees as many past rows as the states can have, C, and the new rows behind them.  As a size, C is right.  As a
number, such as the position of a new row, it stands for the length of the states.  So each number that is counted from
a size keeps how it moves with the length, and is computed in the graph where an operator reads it as a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from dmlgraph.formats.onnx import folding
from dmlgraph.formats.onnx.caches import whole_number
from dmlgraph.formats.onnx.node import Node
from dmlgraph.formats.onnx.refusals import DATA, PAST, PLACES, Refusal
from dmlgraph.formats.onnx.table import MICROSOFT
from dmlgraph.formats.onnx.tensors import Array, Counted, Tensor
from dmlgraph.graph.value import Value

# Operators whose result moves as the inputs do: all of them, or the first, where the others say how it is formed.
_SUMS = frozenset(["Add", "Concat", "Mul", "Sub"])
_FORMS = frozenset(
    ["Cast", "Expand", "Flatten", "Gather", "Identity", "Neg", "Reshape", "Slice", "Split", "Squeeze", "Tile"]
) | {"Transpose", "Unsqueeze"}
_COMPARISONS = frozenset(["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"])
_WHOLE = (5, 6, 7)  # ONNX's numbers of int16, int32 and int64
# Those that read their input 1 as places, rather than as numbers.
_PLACED = frozenset(["Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND"])
_INDICES = {("", "Gather"): 1, (MICROSOFT, "GroupQueryAttention"): 9, (MICROSOFT, "RotaryEmbedding"): 1}


class Lengths:
    """Follows what is counted from the size of the past, node by node."""

    def __init__(self) -> None:
        self._capacities: set[int] = set()
        self._length: Value | None = None
        self._is_padded = False

    def add(self, past: Tensor, axis: int, length: Value) -> None:
        """Notes a growing state.

        Args:
            past: what the model reads of it.
            axis: of its rows.
            length: how many rows it has, uint32 {1}.
        """
        self._capacities.add(past.shape[axis])
        self._length = length if self._length is None else self._length
        past.rows = axis

    def begin(self, tokens: Tensor | None, inputs: Iterable[Tensor], *, is_padded: bool) -> None:
        """Notes which inputs, such as masks, lie along the past rows and the new ones.

        Args:
            tokens: {B, S, …}; without them it is not known how many rows are new, and no number follows the length.
            inputs: those that are no states.
            is_padded: whether sequences begin at different rows: then places are no positions.
        """
        self._is_padded = is_padded
        if tokens is None or tokens.rank < 2 or len(self._capacities) != 1:
            self._length = None
            return
        rows = min(self._capacities) + tokens.shape[1]
        for each in inputs:
            if rows in each.shape and each.known is None:
                each.rows = each.shape.index(rows)

    def prepare(self, node: Node) -> None:
        """Gives a node that reads places of rows as numbers those that follow the length.

        Raises:
            Refusal: how they follow is not known.
        """
        if not self._capacities or _carries(node):
            return
        for at, each in enumerate(node.inputs):
            if each is None or each.known is None or PAST not in each.depends:
                continue
            is_index = _INDICES.get((node.domain, node.operator)) == at
            if PLACES not in each.depends and not (is_index and each.counted is not None):
                self._check_size(node, each, is_index=is_index)
            elif at == 1 and node.operator in _PLACED and _lies_along_rows(node.inputs[0]):
                node.inputs[at] = Tensor.of(each.known, name=each.name)
            elif each.counted is None or (self._is_padded and node.operator not in _COMPARISONS):
                raise self._refusal(node, each)
            else:
                made = node.value(each)
                moving = Tensor(each.dtype, each.shape, made=made, depends=frozenset([DATA]), name=each.name)
                moving.rows, node.inputs[at] = each.rows, moving

    def _check_size(self, node: Node, tensor: Tensor, *, is_index: bool) -> None:
        """Refuses a node that reads a size, or a few numbers, as numbers that are not known to follow the length."""
        is_read = tensor.made is not None or is_index
        if is_read and tensor.counted is None and max(tensor.shape, default=0) < min(self._capacities):
            raise self._refusal(node, tensor)

    @staticmethod
    def _refusal(node: Node, tensor: Tensor) -> Refusal:
        return Refusal(
            f"{node.place(tensor)} is counted from the size of the past, which is the capacity of a state and not its "
            "length",
            code="states",
            got=tensor.name or None,
            hint="export the model with its positions as an input",
        )

    def follow(self, node: Node, results: Sequence[Tensor | None]) -> None:
        """Notes which of a node's results lie along rows, and which of their numbers are counted."""
        if not self._capacities:
            return
        moves = self._moves(node, results)
        for at, each in enumerate(results):
            if each is None:
                continue
            if each.known is None:
                each.depends -= {PAST, PLACES}
                each.rows = _rows(node, each)
            elif moves is not None and moves[at].shape == each.shape and moves[at].any():
                each.depends |= {PAST}
                each.counted = self._counted(moves[at])
            elif moves is not None:
                each.depends -= {PAST, PLACES}
            if each.known is not None and PAST in each.depends:
                each.rows = _rows_of_known(node, each)
            if node.operator == "Range" and PAST in each.depends and self._length is not None:
                each.depends |= {PLACES}

    def _counted(self, moves: Array) -> Counted | None:
        return None if self._length is None else Counted(moves, self._length, min(self._capacities))

    def _moves(self, node: Node, results: Sequence[Tensor | None]) -> Sequence[Array] | None:
        """How the known results move with the length; None where that is not known."""
        if node.domain:
            return None
        first = node.inputs[0] if node.inputs else None
        if node.operator == "Shape" and first is not None:
            if first.rows is None and PAST in first.depends and max(first.shape, default=0) >= min(self._capacities):
                return None
            marks = np.zeros(first.rank, np.int64)
            if first.rows is not None:
                marks[first.rows] = 1
            start, end = (whole_number(node.attributes, name) for name in ("start", "end"))
            return [marks[start:end]]
        if not any(each.counted is not None for each in node.given):
            return None
        if node.operator == "Range":
            return self._moves_of_range(node, results[0])
        if not _carries(node):
            return None
        moved = [_moved(each) if at == 0 or node.operator in _SUMS else each for at, each in enumerate(node.inputs)]
        arrays = [None if each is None else each.known for each in moved]
        found = folding.evaluate(node.proto(), node.opset, arrays)
        return [
            np.zeros(()) if each is None or each.known is None else other.astype(np.int64) - each.known.astype(np.int64)
            for other, each in zip(found, results, strict=False)
        ]

    def _moves_of_range(self, node: Node, result: Tensor | None) -> Sequence[Array] | None:
        """From a place on: all numbers move as the first one does.  To a place: those behind the past do."""
        start, _, step = node.inputs
        if result is None or result.known is None or start is None or step is None or step.counted is not None:
            return None
        if start.counted is not None:
            return [np.broadcast_to(start.counted.moves.reshape(()), result.shape)]
        return [(result.known >= min(self._capacities)).astype(np.int64)]


_SIZES = {"ConstantOfShape": 0, "Expand": 1, "Range": 1}  # the input that says how large a result is


def _rows_of_known(node: Node, result: Tensor) -> int | None:
    """As `_rows`, of numbers that are known: a size that is counted says along which axis they lie."""
    at = _SIZES.get(node.operator)
    sizes = None if at is None else node.inputs[at]
    counted = None if sizes is None else sizes.counted
    start = node.inputs[0] if node.operator == "Range" else None
    if start is not None and (counted is None or start.counted is not None):
        return None  # its length is the same, whatever that of the past is
    if counted is None:
        return _rows(node, result)
    axes = np.flatnonzero(counted.moves.reshape(-1)) + result.rank - counted.moves.size
    return int(axes[0]) if axes.size == 1 else None


def _carries(node: Node) -> bool:
    """Whether a node of known inputs only forms or adds whole numbers, which then move as the inputs do."""
    if node.domain or any(each.known is None or each.dtype.kind != "i" for each in node.given):
        return False
    if node.operator == "Cast":
        return whole_number(node.attributes, "to") in _WHOLE
    places = [at for at, each in enumerate(node.inputs) if each is not None and PLACES in each.depends]
    if node.operator == "Gather" and any(each is not None and each.counted is not None for each in node.inputs[1:]):
        return False
    return node.operator in _SUMS or (node.operator in _FORMS and places in ([], [0]))


def _lies_along_rows(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.rows is not None


def _moved(tensor: Tensor | None) -> Tensor | None:
    """The numbers for one row more."""
    if tensor is None or tensor.counted is None or tensor.known is None:
        return tensor
    return Tensor.of((tensor.known + tensor.counted.moves).astype(tensor.dtype))


def _rows(node: Node, result: Tensor) -> int | None:
    """The axis along which the past rows and the new ones lie in a result."""
    made = result.appended
    if made is not None:
        return made.axis if isinstance(made.past, Tensor) and made.past.rows is not None else None
    for each in node.given:
        if each.rows is not None and result.shape.count(each.shape[each.rows]) == 1:
            return result.shape.index(each.shape[each.rows])
    return None
