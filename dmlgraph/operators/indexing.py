"""Gather and scatter: elements read from, or written to, the positions in a tensor of indices.

From feature level 3.0 on, negative indices of signed types count from the end.  Indices beyond the ends are not an
error in DirectML, and their results are undefined; here the nearest element is read, and nothing is written.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from dmlgraph import operators as ops
from dmlgraph.base.errors import Problem, plural
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.operators.common.axes import with_size
from dmlgraph.operators.common.scales import with_rank
from dmlgraph.operators.common.strided import repeats
from dmlgraph.operators.declaration.constraints import (
    at_least,
    between,
    one_number,
    require,
    rule,
    sizes_are,
    sizes_hold,
)
from dmlgraph.operators.declaration.derivative import Backward, Gradients
from dmlgraph.operators.declaration.fields import Axis, IndexInput, Input, Output, RankOf, UInt, inferred
from dmlgraph.operators.declaration.operator import Array, Operator
from dmlgraph.operators.declaration.outputs import Given, Outcome, asked_sizes

Sizes = tuple[int, ...]


def from_start(indices: Array, size: int) -> Array:
    """Indices counted from the start: negative ones count from the end of `size` elements."""
    return indices if indices.dtype.kind == "u" else np.where(indices < 0, indices.astype(np.int64) + size, indices)


def nearest(indices: Array, size: int) -> Array:
    """Indices counted from the start, and clamped to the `size` elements."""
    return from_start(indices, size).clip(0, size - 1).astype(np.intp)


def effective(sizes: Sizes, count: int, field: str, count_field: str) -> Sizes:
    """The last `count` of a tensor's sizes; the ones before must be 1.

    Raises:
        OperatorError: the count does not fit the tensor.
    """
    rank = len(sizes)
    message = "is more than the tensor's dimensions"
    require(rule(0 <= count <= rank, count_field, message, "rank", got=count, allowed=f"at most {rank}"))
    expected = (1,) * (rank - count) + sizes[rank - count :]
    message = f"the dimensions before the last {count} must be 1"
    require(sizes_are(field, sizes, expected, message))
    return sizes[rank - count :]


def right_aligned(sizes: Sizes, rank: int, field: str, droppable: int = 0) -> Sizes:
    """The sizes with leading dimensions of 1 up to the rank; if there are too many, up to `droppable` are dropped.

    Raises:
        OperatorError: more dimensions would have to be dropped, or they are not of size 1.
    """
    extra = max(len(sizes) - rank, 0)
    fits = extra <= droppable and all(size == 1 for size in sizes[:extra])
    message, allowed = "the output has more dimensions than the tensors", plural(rank, "dimension")
    hint = "give all tensors more leading dimensions of size 1"
    require(rule(fits, field, message, "rank", got=list(sizes), allowed=allowed, hint=hint))
    return (1,) * (rank - len(sizes)) + sizes[extra:]


class Gather(Operator, dml="GATHER"):
    """The slices of the input along `axis` at the indices.

    In the output the last `index_dimensions` dimensions of the indices, {K…}, replace the axis: {before…, K…, after…},
    with leading dimensions of size 1 up to the number of dimensions of all tensors.  If that is too many, dimensions of
    size 1 before the axis are dropped, but no others: if one of K had to be dropped, DirectML would corrupt its memory
    (measured).  If `index_dimensions` is left out, it is the indices' number of dimensions as they are given; they get
    leading dimensions of size 1 up to the input's number.
    """

    meanings: ClassVar = {"index_dimensions": "How many dimensions of the indices replace the axis."}
    moves: ClassVar = ("input",)
    order_preserving: ClassVar = "input"
    example: ClassVar = "input: [1, 1, 3, 4], indices: [1, 1, 1, 2], axis: 2, index_dimensions: 1"

    input: Input
    indices: IndexInput
    output: Output = inferred()
    axis: Axis
    index_dimensions: Annotated[UInt, RankOf("indices")] = inferred()

    @classmethod
    def adapt(cls, inputs: dict[str, Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
        tensor, indices = inputs.get("input"), inputs.get("indices")
        if tensor is None or indices is None:
            return inputs  # the fields' own check says which is missing
        return inputs | {"indices": with_rank(indices, tensor.rank)}

    def infer(self, given: Given) -> Outcome:
        sizes = self.input.sizes
        kept = effective(self.indices.sizes, self.index_dimensions, "indices", "index_dimensions")
        gathered = (*sizes[: self.axis], *kept, *sizes[self.axis + 1 :])
        output = right_aligned(gathered, self.input.rank, "index_dimensions", droppable=self.axis)
        return {"output": self.input.like(sizes=output)}

    def evaluate(self, x: Array, indices: Array) -> tuple[Array, ...]:
        named = nearest(indices, x.shape[self.axis]).ravel()
        return (np.take(x, named, self.axis).reshape(self.output.sizes),)

    def derivative(self, back: Backward) -> Gradients:
        x, indices = back.given
        sizes = self.input.sizes
        lines = back.g.reshape(math.prod(sizes[: self.axis]), -1, math.prod(sizes[self.axis + 1 :]))
        return [back.added_at(lines, indices.reshape(1, -1), sizes[self.axis]).reshape(x.sizes), None]


class GatherElements(Operator, dml="GATHER_ELEMENTS"):
    """output[c] = input[c, except along `axis` at indices[c]]; the output has the indices' sizes.

    The indices have the input's sizes, except along the axis.
    """

    moves: ClassVar = ("input",)
    order_preserving: ClassVar = "input"
    example: ClassVar = "input: [1, 1, 2, 3], indices: [1, 1, 2, 1], axis: 3"

    input: Input
    indices: IndexInput
    output: Output = inferred()
    axis: Axis

    def infer(self, given: Given) -> Outcome:
        return {"output": self.input.like(sizes=self.indices.sizes)}

    def constraints(self) -> Iterator[Problem]:
        return _differ_along(self.axis, self.input, self.indices)

    def evaluate(self, x: Array, indices: Array) -> tuple[Array, ...]:
        return (np.take_along_axis(x, nearest(indices, x.shape[self.axis]), self.axis),)

    def derivative(self, back: Backward) -> Gradients:
        (x, indices), axis = back.given, self.axis
        size, count = x.sizes[axis], indices.sizes[axis]
        before, after = math.prod(x.sizes[:axis]), math.prod(x.sizes[axis + 1 :])
        places = back.builder.sequence(0, 1, (1, size, 1, 1), DataType.INT32)
        at = back.from_start(indices, size).reshape(before, 1, count, after)
        hits = back(ops.LogicalEquals, at, places)
        read = back.choose(hits, back.g.reshape(before, 1, count, after), 0)
        return [back.total(read, [2]).reshape(x.sizes), None]


class TupleIndexed(Operator):
    """Base of the operators whose indices are tuples, the last dimension of the indices tensor.

    Only the last `input_dimension_count` dimensions of the input count, and the last `indices_dimension_count` of the
    indices: {batch…, K…, T}.  A tuple of T indices is the position of an element or a slice of the input, whose sizes
    are {batch…, T indexed sizes…, slice…}.  A count that is left out is the tensor's number of dimensions as given.
    """

    meanings: ClassVar = {
        "input_dimension_count": "How many of the input's dimensions count; the others come first and have size 1.",
        "indices_dimension_count": "How many of the indices' dimensions count; the others come first and have size 1.",
    }

    input: Input
    indices: IndexInput
    input_dimension_count: Annotated[UInt, RankOf("input")] = inferred()
    indices_dimension_count: Annotated[UInt, RankOf("indices")] = inferred()

    if TYPE_CHECKING:  # a field of some subclasses, a constant of the others

        @property
        def batch_dimension_count(self) -> int: ...

    @classmethod
    def adapt(cls, inputs: dict[str, Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
        """All tensors with leading dimensions of size 1, up to the greatest number of dimensions."""
        rank = max((desc.rank for desc in inputs.values() if desc is not None), default=1)
        return {field: desc and with_rank(desc, rank) for field, desc in inputs.items()}

    def shapes(self) -> tuple[Sizes, Sizes, int]:
        """The input's sizes, the indices', and how many of them are batches; OperatorError if these are wrong."""
        batches = self.batch_dimension_count
        allowed = "1 or more" if not batches else f"more than the {batches} batch dimensions"
        for tensor in ("input", "indices"):
            field = f"{tensor}_dimension_count"
            require(at_least(field, self._count(tensor), batches + 1, "is too small", code="sizes", allowed=allowed))
        source = effective(self.input.sizes, self._count("input"), "input", "input_dimension_count")
        indices = effective(self.indices.sizes, self._count("indices"), "indices", "indices_dimension_count")
        require(
            sizes_are("indices", indices[:batches], source[:batches], "the batch dimensions differ from the input's"),
        )
        message = "the last size is the number of indices in a tuple, more than the input has dimensions for"
        require(between("indices.sizes", indices[-1], 1, len(source) - batches, message, "sizes"))
        return source, indices, batches

    def _count(self, tensor: str) -> int:
        count: int = getattr(self, f"{tensor}_dimension_count")
        return count

    def _result_sizes(self) -> Sizes:
        """{batch…, K…, slice…}: the sizes of the indexed slices, with the tensors' number of dimensions."""
        source, indices, batches = self.shapes()
        named = (*indices[:-1], *source[batches + indices[-1] :])
        return right_aligned(named, self.input.rank, "indices_dimension_count")

    def _tuples(self, indices: Array) -> tuple[Sizes, list[Array]]:
        """The input's sizes as {batches, T sizes…, slice…}, and the tuples' members, each {batches, K}."""
        source, sizes, batches = self.shapes()
        flat = (int(np.prod(source[:batches])), *source[batches:])
        tuples = indices.reshape(flat[0], -1, sizes[-1])
        return flat, [tuples[..., member] for member in range(sizes[-1])]


class GatherTuples(TupleIndexed):
    """Base of gather_nd and gather_nd1."""

    moves: ClassVar = ("input",)
    order_preserving: ClassVar = "input"

    output: Output = inferred()

    def infer(self, given: Given) -> Outcome:
        return {"output": self.input.like(sizes=self._result_sizes())}

    def evaluate(self, x: Array, indices: Array) -> tuple[Array, ...]:
        flat, members = self._tuples(indices)
        batch = np.arange(flat[0])[:, None]
        places = [nearest(member, size) for member, size in zip(members, flat[1:], strict=False)]
        return (x.reshape(flat)[batch, *places].reshape(self.output.sizes),)

    def derivative(self, back: Backward) -> Gradients:
        x, indices = back.given
        source, tuples, batches = self.shapes()
        batch, length = math.prod(source[:batches]), tuples[-1]
        indexed = source[batches : batches + length]
        members = indices.reshape(batch, -1, length)
        place: Any = 0
        for member, size in enumerate(indexed):
            place = place * size + back.from_start(members[:, :, member], size)
        lines = back.g.reshape(batch, math.prod(tuples[:-1]) // batch, -1)
        return [back.added_at(lines, place, math.prod(indexed)).reshape(x.sizes), None]


class GatherNd(GatherTuples, dml="GATHER_ND"):
    """output[k…, slice…] = input[indices[k…, 0], indices[k…, 1], …, slice…].

    The last dimension of the indices is the tuple.  Only the last `input_dimension_count` and
    `indices_dimension_count` dimensions count; by default all dimensions of the tensor as given.  The output, and a
    tensor of fewer dimensions than the others, have leading dimensions of size 1 up to the same number.
    """

    example: ClassVar = (
        "input: [1, 1, 3, 4], indices: [1, 1, 5, 2], input_dimension_count: 2, indices_dimension_count: 2"
    )
    batch_dimension_count: ClassVar = 0


class GatherNd1(GatherTuples, dml="GATHER_ND1"):
    """gather_nd for each batch: output[b…, k…, slice…] = input[b…, indices[b…, k…, 0], …, slice…].

    The first `batch_dimension_count` of the dimensions that count are the batches, of equal sizes in the input, the
    indices and the output.
    """

    meanings: ClassVar = {"batch_dimension_count": "How many leading dimensions are batches."}
    example: ClassVar = (
        "input: [2, 3, 4], indices: [2, 5, 1], input_dimension_count: 3, indices_dimension_count: 3, "
        "batch_dimension_count: 1"
    )

    batch_dimension_count: UInt = 0


class ScatterElements(Operator, dml="SCATTER_ELEMENTS"):
    """The input, except output[c, along `axis` at indices[c]] = updates[c].

    The indices have at most the input's size along the axis, and exactly the input's sizes elsewhere (measured); the
    updates have the indices' sizes.  Which of several updates of one element wins is not defined; here it is the last.
    """

    moves: ClassVar = ("input", "updates")
    aliases: ClassVar = ("scatter",)
    example: ClassVar = "input: [1, 1, 2, 3], indices: [1, 1, 2, 1], updates: [1, 1, 2, 1], axis: 3"

    input: Input
    indices: IndexInput
    updates: Input
    output: Output = inferred()
    axis: Axis

    def constraints(self) -> Iterator[Problem]:
        indices, source, axis = self.indices, self.input, self.axis
        yield from _are_updates(self.updates, indices.sizes, "the indices'")
        yield from _differ_along(axis, source, indices)
        if indices.rank == source.rank:
            size, most = indices.sizes[axis], source.sizes[axis]
            yield from between(f"indices.sizes.{axis}", size, 1, most, "is more than the input's")

    def evaluate(self, x: Array, indices: Array, updates: Array) -> tuple[Array, ...]:
        place = from_start(indices, x.shape[self.axis])
        inside = (place >= 0) & (place < x.shape[self.axis])
        places = list(np.nonzero(inside))
        places[self.axis] = place[inside].astype(np.intp)
        result = x.copy()
        result[tuple(places)] = updates[inside]
        return (result,)

    def derivative(self, back: Backward) -> Gradients:
        _, indices, updates = back.given
        kept = back(ops.ScatterElements, back.g, indices, back.like(updates, 0), axis=self.axis)
        return [kept, None, back(ops.GatherElements, back.g, indices, axis=self.axis)]


class ScatterNd(TupleIndexed, dml="SCATTER_ND"):
    """The input, except output[indices[k…, 0], indices[k…, 1], …, slice…] = updates[k…, slice…].

    The last dimension of the indices is the tuple; their strides cannot be zero (measured).  Only the last
    `input_dimension_count` and `indices_dimension_count` dimensions count.  Which of several updates of one element
    wins is not defined; here it is the last.
    """

    moves: ClassVar = ("input", "updates")
    example: ClassVar = (
        "input: [1, 1, 3, 4], indices: [1, 1, 2, 2], updates: [1, 1, 1, 2], input_dimension_count: 2, "
        "indices_dimension_count: 2"
    )
    batch_dimension_count: ClassVar = 0

    updates: Input
    output: Output = inferred()

    def constraints(self) -> Iterator[Problem]:
        yield from _are_updates(self.updates, self._result_sizes(), "those of the indexed slices")
        if repeats(self.indices):
            message, strides = "must not be zero: DirectML refuses it here", list(self.indices.effective_strides)
            yield Problem(message, code="range", field="indices.strides", got=strides)

    def evaluate(self, x: Array, indices: Array, updates: Array) -> tuple[Array, ...]:
        (_, *sizes), members = self._tuples(indices)
        places = [from_start(member[0], size) for member, size in zip(members, sizes, strict=False)]
        inside = np.all([(place >= 0) & (place < size) for place, size in zip(places, sizes, strict=False)], axis=0)
        result = x.reshape(sizes).copy()
        slices = updates.reshape(len(inside), *sizes[len(members) :])
        result[tuple(place[inside].astype(np.intp) for place in places)] = slices[inside]
        return (result.reshape(self.output.sizes),)

    def derivative(self, back: Backward) -> Gradients:
        x, indices, updates = back.given
        kept = back(ops.ScatterNd, back.g, indices, back.like(updates, 0), **self.attributes)
        read = back(ops.GatherNd, back.g, indices, **self.attributes)
        return [kept.reshape(x.sizes), None, read.reshape(updates.sizes)]


class OneHot(Operator, dml="ONE_HOT"):
    """output[c] = on if c's position along `axis` is the index at c, else off.

    The indices have size 1 along the axis; the output's size there must be given: `output: {sizes: …}`.  In the values
    tensor off is the first element along the last dimension, and on the second (measured: DirectML does not find them
    in another dimension, although its documentation says so).  Indices beyond the axis give off everywhere.
    """

    meanings: ClassVar = {"values": "The values off and on, in this order, along the last dimension."}
    output_keywords: ClassVar = ("sizes",)
    example: ClassVar = "indices: [1, 1, 4, 1], values: [1, 1, 1, 2], output: {sizes: [1, 1, 4, 3]}, axis: 3"

    indices: IndexInput
    values: Input
    output: Output = inferred()
    axis: Axis

    def infer(self, given: Given) -> Outcome:
        return {"output": self.values.like(sizes=asked_sizes(given, "output"))}

    def constraints(self) -> Iterator[Problem]:
        axis, values = self.axis, self.values
        if self.output.rank == self.indices.rank:
            message = f"must be those of the output, with 1 along axis {axis}"
            yield from sizes_are("indices", self.indices, with_size(self.output.sizes, axis, 1), message)
        message = "must have at least 2 elements, off and on, in the last dimension"
        yield from sizes_hold(values.sizes[-1] >= 2, "values", values, message, code="range")

    def evaluate(self, indices: Array, values: Array) -> tuple[Array, ...]:
        off, on = values.ravel()[:2]
        depth = self.output.sizes[self.axis]
        place = np.arange(depth).reshape([depth if axis == self.axis else 1 for axis in range(indices.ndim)])
        return (np.where(from_start(indices, depth) == place, on, off),)

    def derivative(self, back: Backward) -> Gradients:
        indices, values = back.given
        units = back.builder.constant(np.array([0, 1], values.dtype.numpy).reshape(*(1,) * (values.rank - 1), 2))
        hot = back(ops.OneHot, indices, units, sizes=back.g.sizes, axis=self.axis)
        on = back.total(back.g * hot).reshape(1)
        parts = [back.total(back.g).reshape(1) - on, on]
        if (rest := math.prod(values.sizes) - 2) > 0:
            parts.append(back.builder.fill(0, [rest], values.dtype))
        return [None, back(ops.Join, parts, axis=0).reshape(values.sizes)]


class NonzeroCoordinates(Operator, dml="NONZERO_COORDINATES"):
    """How many elements are not zero, and the coordinates of each, one per row in row-major order.

    The count has sizes {1, …}, the coordinates {1, …, M, N}, where M is the number of elements of the input; rows from
    the count on are undefined, here zero.  N is the input's number of dimensions unless fewer are requested, which may
    leave out leading dimensions of size 1.  By default both outputs have as many dimensions as the input.
    """

    meanings: ClassVar = {
        "output_count": "How many elements are not zero.",
        "output_coordinates": "The coordinates of the elements that are not zero, one per row.",
    }
    example: ClassVar = "input: [1, 1, 2, 3]"

    input: Input
    output_count: Output = inferred()
    output_coordinates: Output = inferred()

    def infer(self, given: Given) -> Outcome:
        rank = self.input.rank
        coordinates = right_aligned((self.input.element_count, rank), max(rank, 2), "output_coordinates")
        return {
            "output_count": TensorDesc(dtype="uint32", sizes=given["output_count"].sizes or (1,) * rank),
            "output_coordinates": TensorDesc(dtype="uint32", sizes=given["output_coordinates"].sizes or coordinates),
        }

    def constraints(self) -> Iterator[Problem]:
        yield from one_number("output_count", self.output_count)
        sizes, elements, rank = self.output_coordinates.sizes, self.input.element_count, self.input.rank
        fewest = next((rank - axis for axis, size in enumerate(self.input.sizes) if size > 1), 1)
        holds = sizes[-2:-1] == (elements,) and fewest <= sizes[-1] <= rank and set(sizes[:-2]) <= {1}
        message = "must be {1, …, elements of the input, dimensions}"
        allowed = f"[…, {elements}, {fewest} to {rank}]"
        yield from sizes_hold(holds, "output_coordinates", sizes, message, allowed)

    def evaluate(self, x: Array) -> tuple[Array, ...]:
        found = np.argwhere(x != 0)
        rows = np.zeros(self.output_coordinates.sizes[-2:], np.uint32)
        rows[: len(found)] = found[:, x.ndim - rows.shape[1] :]
        count = np.full(self.output_count.sizes, len(found), np.uint32)
        return count, rows.reshape(self.output_coordinates.sizes)


def _differ_along(axis: int, source: TensorDesc, indices: TensorDesc) -> Iterator[Problem]:
    """Indices along an axis have the sizes of the indexed tensor, except along the axis."""
    if indices.rank == source.rank:
        expected = with_size(source.sizes, axis, indices.sizes[axis])
        yield from sizes_are("indices", indices, expected, f"may differ from the input's only along axis {axis}")


def _are_updates(updates: TensorDesc, expected: Sizes, whose: str) -> Iterator[Problem]:
    return sizes_are("updates", updates, expected, f"must be {whose}") if updates.rank == len(expected) else iter(())
