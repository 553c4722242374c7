"""Views: the same elements with other sizes.  They are no operators of DirectML.

Before a graph is lowered, `dmlgraph.compiler.views` gives the readers of a view a description with the view's sizes and
strides over the buffer of what is viewed.  Where that cannot be, it inserts a copy.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import PlainValidator

from dmlgraph import operators as ops
from dmlgraph.base.errors import OperatorError, Problem, plural
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.tensor import MAX_RANK, DataType, TensorDesc, refusal
from dmlgraph.operators.common.strided import is_packed, reshaped
from dmlgraph.operators.common.subscripts import ALLOWED, Entry, Mark, Range, Taken, as_text, entries, literal, take
from dmlgraph.operators.declaration.constraints import at_least, between, require, rule
from dmlgraph.operators.declaration.derivative import Backward, Gradients
from dmlgraph.operators.declaration.fields import (
    Axes,
    AxesDefault,
    Axis,
    AxisList,
    AxisPlaces,
    Count,
    Input,
    Ints,
    Kind,
    Output,
    UInts,
    inferred,
)
from dmlgraph.operators.declaration.operator import Array, Operator
from dmlgraph.operators.declaration.outputs import Given, Outcome
from dmlgraph.operators.declaration.support import OperatorSupport, TensorSupport


class View(Operator):
    """Base of the views: an input, an output with its elements, and no work."""

    is_view: ClassVar[bool] = True
    keeps_order: ClassVar[bool] = False  # the elements stay in row-major order, each once

    @property
    def sizes_after(self) -> tuple[int, ...]:
        """The sizes of the output."""
        raise NotImplementedError

    def strides_after(self, strides: tuple[int, ...]) -> tuple[int, ...] | None:
        """The output's strides over the buffer that the input reads with `strides`; None if there are none."""
        raise NotImplementedError

    def over(self, desc: TensorDesc) -> TensorDesc | None:
        """The output's description over the input's buffer, whose description is `desc`; None if no strides do."""
        strides = self.strides_after(desc.effective_strides)
        if strides is None:
            return None
        packed = TensorDesc(dtype=desc.dtype, sizes=self.output.sizes, owned=desc.owned)
        return with_strides(packed, strides)

    input: Input
    output: Output = inferred()

    def infer(self, given: Given) -> Outcome:
        return {"output": self.input.like(sizes=self.sizes_after)}

    def constraints(self) -> Iterator[Problem]:
        strides = self.output.strides
        if strides is not None:
            yield Problem("a view has no buffer of its own", code="strides", field="output.strides", got=list(strides))

    def level_problems(self, level: FeatureLevel) -> list[Problem]:
        return []

    @classmethod
    def support(cls) -> OperatorSupport:
        return _support()


def with_strides(packed: TensorDesc, strides: tuple[int, ...]) -> TensorDesc:
    """A packed description with strides instead, if they are not the same; those of dimensions of size 1 do nothing."""
    strided = packed.model_copy(update={"strides": strides})
    return packed if is_packed(strided) else strided


@functools.cache
def _support() -> OperatorSupport:
    """Every tensor at every level."""
    rows = tuple(TensorSupport(name, 1, MAX_RANK, _EVERY_TYPE, _NO_NAMES) for name in ("InputTensor", "OutputTensor"))
    same = ((("InputTensor", "OutputTensor"), ("DataType",)),)
    return OperatorSupport(-1, min(FeatureLevel), {min(FeatureLevel): rows}, same, _NO_NAMES, None)


_NO_NAMES: frozenset[str] = frozenset()
_EVERY_TYPE = frozenset(DataType)


def _same_elements(_: View, back: Backward) -> Gradients:
    return [back.g.reshape(back.x.sizes)]


class Reshape(View, dml="RESHAPE"):
    """The elements in row-major order with other sizes; one size may be −1: what remains.

    A reshape of a packed tensor costs nothing.
    """

    meanings: ClassVar = {"sizes": "The sizes of the result, of which one may be -1: what remains."}
    keeps_order: ClassVar = True
    example: ClassVar = "sizes: [6, -1]"

    sizes: Annotated[Ints, Count("DimensionCount")]

    @property
    def sizes_after(self) -> tuple[int, ...]:
        sizes, count = self.sizes, self.input.element_count
        unknown = sizes.count(-1)
        known = math.prod(size for size in sizes if size != -1)
        for axis, size in enumerate(sizes):
            is_size, allowed = size >= 1 or size == -1, "1 or more, or one -1"
            require(rule(is_size, f"sizes.{axis}", "is not a size", "range", got=size, allowed=allowed))
        require(rule(unknown <= 1, "sizes", "may be −1 once", "duplicate", got=list(sizes)))
        if count % known or (not unknown and known != count):
            raise OperatorError(
                f"must have as many elements as the input, which has {count}",
                code="sizes",
                field="sizes",
                got=f"{list(sizes)}, {'a multiple of ' if unknown else ''}{plural(known, 'element')}",
                allowed=f"{count} = {' · '.join(map(str, self.input.sizes))} elements",
                hint=None if unknown else "-1 in place of one size takes what remains",
            )
        return tuple(count // known if size == -1 else size for size in sizes)

    def strides_after(self, strides: tuple[int, ...]) -> tuple[int, ...] | None:
        return reshaped(self.input.sizes, strides, self.output.sizes)

    def evaluate(self, x: Array) -> tuple[Array, ...]:
        return (x.reshape(self.output.sizes),)

    derivative = _same_elements


class Flatten(View, dml="FLATTEN"):
    """The dimensions from `axis` on as one: [N, C, H, W] → [N, C · H · W].  As in PyTorch's `nn.Flatten`."""

    meanings: ClassVar = {"axis": "The first of the dimensions that become one."}
    keeps_order: ClassVar = True

    axis: Axis = 1

    @property
    def sizes_after(self) -> tuple[int, ...]:
        return (*self.input.sizes[: self.axis], math.prod(self.input.sizes[self.axis :]))

    def strides_after(self, strides: tuple[int, ...]) -> tuple[int, ...] | None:
        return reshaped(self.input.sizes, strides, self.output.sizes)

    def evaluate(self, x: Array) -> tuple[Array, ...]:
        return (x.reshape(self.output.sizes),)

    derivative = _same_elements


class Transpose(View, dml="TRANSPOSE"):
    """The dimensions in another order: dimension i of the output is `permutation[i]` of the input; reversed by default.

    It costs nothing where the readers take strides; in front of gemm it becomes `trans_a` or `trans_b`.
    """

    meanings: ClassVar = {
        "permutation": "For each dimension of the result, that of the input; all reversed by default.",
    }
    example: ClassVar = "permutation: [0, 2, 3, 1]"

    permutation: Annotated[AxisList, Axes(AxesDefault.REVERSED)] = inferred()

    @property
    def sizes_after(self) -> tuple[int, ...]:
        rank, given = self.input.rank, list(self.permutation)
        message, allowed = "must name every dimension once", f"the numbers 0 to {rank - 1} in any order"
        hint = f"in Python value.swapaxes({given[0]}, {given[1]}) swaps two" if len(given) == 2 else None
        require(rule(len(given) == rank, "permutation", message, "count", got=given, allowed=allowed, hint=hint))
        return self._permuted(self.input.sizes)

    def _permuted(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(numbers[axis] for axis in self.permutation)

    def strides_after(self, strides: tuple[int, ...]) -> tuple[int, ...] | None:
        return self._permuted(strides)

    def evaluate(self, x: Array) -> tuple[Array, ...]:
        return (x.transpose(self.permutation),)

    def derivative(self, back: Backward) -> Gradients:
        return [back.g.transpose([self.permutation.index(axis) for axis in range(self.input.rank)])]


class Squeeze(View, dml="SQUEEZE"):
    """Without these dimensions, whose size is 1; by default without all of size 1, except one that must remain."""

    meanings: ClassVar = {"axes": "The dimensions of size 1 that go; by default all."}
    keeps_order: ClassVar = True
    example: ClassVar = "axes: [0]"

    axes: Annotated[AxisList, Axes()] = inferred()

    def fill_in(self, given: Given) -> Mapping[str, Any]:
        if "axes" in given:
            return {}
        ones = tuple(axis for axis, size in enumerate(self.input.sizes) if size == 1)
        return {"axes": ones[: self.input.rank - 1]}

    @property
    def sizes_after(self) -> tuple[int, ...]:
        sizes = self.input.sizes
        for place, axis in enumerate(self.axes):
            message = f"has the size {sizes[axis]}: only dimensions of size 1 can go"
            allowed = str([axis for axis, size in enumerate(sizes) if size == 1])
            require(rule(sizes[axis] == 1, f"axes.{place}", message, "sizes", got=axis, allowed=allowed))
        require(rule(len(self.axes) < len(sizes), "axes", "must leave one dimension", "rank", got=list(self.axes)))
        return self._kept(sizes)

    def _kept(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(number for axis, number in enumerate(numbers) if axis not in self.axes)

    def strides_after(self, strides: tuple[int, ...]) -> tuple[int, ...] | None:
        return self._kept(strides)

    def evaluate(self, x: Array) -> tuple[Array, ...]:
        return (x.reshape(self.output.sizes),)

    derivative = _same_elements


class ExpandDims(View, dml="EXPAND_DIMS"):
    """With new dimensions of size 1 at these places of the output; negative ones count from its end."""

    meanings: ClassVar = {"axes": "The places of the new dimensions in the result."}
    keeps_order: ClassVar = True
    example: ClassVar = "axes: [0, -1]"

    axes: AxisPlaces

    def fill_in(self, given: Given) -> Mapping[str, Any]:
        rank = self.input.rank + len(self.axes)
        axes = tuple(axis + rank if -rank <= axis < 0 else axis for axis in self.axes)
        for place, (said, axis) in enumerate(zip(given["axes"], axes, strict=True)):
            field = f"axes.{place}"
            require(between(field, said, -rank, rank - 1, "is not a place in the output"))
            require(rule(axis not in axes[:place], field, "names an axis twice", "duplicate", got=said))
        message, got = f"a tensor has 1 to {MAX_RANK} dimensions", plural(rank, "dimension")
        require(rule(rank <= MAX_RANK, "axes", message, "rank", got=got))
        return {"axes": axes}

    @property
    def sizes_after(self) -> tuple[int, ...]:
        return self._with_new(self.input.sizes, 1)

    def _with_new(self, numbers: tuple[int, ...], new: int) -> tuple[int, ...]:
        rest = iter(numbers)
        rank = self.input.rank + len(self.axes)
        return tuple(new if axis in self.axes else next(rest) for axis in range(rank))

    def strides_after(self, strides: tuple[int, ...]) -> tuple[int, ...] | None:
        return self._with_new(strides, 0)

    def evaluate(self, x: Array) -> tuple[Array, ...]:
        return (x.reshape(self.output.sizes),)

    derivative = _same_elements


class BroadcastTo(View, dml="BROADCAST_TO"):
    """Repeated to these sizes by NumPy's rules: along new dimensions and those of size 1.

    Element-wise operators broadcast by themselves.
    """

    meanings: ClassVar = {"sizes": "The sizes of the result."}
    example: ClassVar = "sizes: [2, 1, 3, 2, 3]"

    sizes: Annotated[UInts, Count("DimensionCount")]

    @property
    def sizes_after(self) -> tuple[int, ...]:
        require(at_least("sizes", self.sizes))
        message = f"{list(self.input.sizes)} cannot be broadcast to these sizes"
        allowed = "equal sizes from the right, or more where the input has 1"
        require(rule(self._fits(), "sizes", message, "sizes", got=list(self.sizes), allowed=allowed))
        return self.sizes

    def _fits(self) -> bool:
        given, missing = self.input.sizes, len(self.sizes) - self.input.rank
        return missing >= 0 and all(old in (1, new) for old, new in zip(given, self.sizes[missing:], strict=True))

    def strides_after(self, strides: tuple[int, ...]) -> tuple[int, ...] | None:
        missing = len(self.sizes) - self.input.rank
        kept = (
            0 if old == 1 != new else stride
            for old, new, stride in zip(self.input.sizes, self.sizes[missing:], strides, strict=True)
        )
        return (*itertools.repeat(0, missing), *kept)

    def evaluate(self, x: Array) -> tuple[Array, ...]:
        return (np.broadcast_to(x, self.output.sizes),)

    def derivative(self, back: Backward) -> Gradients:
        return [back.g]


def _index(given: object) -> tuple[Entry, ...]:
    if isinstance(given, tuple) and all(isinstance(each, (int, Range, Mark)) for each in given):
        return given
    if not isinstance(given, (str, int)) or isinstance(given, bool):
        raise refusal(Problem("is not an index", code="kind", got=given, allowed=ALLOWED))
    try:
        return entries(as_text(given), literal)
    except OperatorError as error:
        raise refusal(*(dataclasses.replace(each, field=None) for each in error.problems)) from None


class Subscript(View, dml="SUBSCRIPT"):
    """NumPy's basic indexing: `index: "1:, 0, ::2, None, ..."`, as in `x[1:, 0, ::2, None, ...]`.

    It is a view if it begins at the first element of every dimension and goes forward; else DirectML's SLICE1.
    """

    meanings: ClassVar = {
        "index": "What stands between NumPy's brackets: integers, ranges, None and ..., with expressions over dims.",
    }
    example: ClassVar = 'index: "..., 1:, ::-1"'

    index: Annotated[tuple[Any, ...], PlainValidator(_index), Kind.INDEX]

    @property
    def taken(self) -> Taken:
        """What the index takes."""
        return take(self.index, self.input.sizes)

    @property
    def sizes_after(self) -> tuple[int, ...]:
        return self.taken.sizes

    def strides_after(self, strides: tuple[int, ...]) -> tuple[int, ...] | None:
        taken = self.taken
        if any(taken.starts) or any(step < 0 for step in taken.steps):
            return None
        steps = [step * stride for step, stride in zip(taken.steps, strides, strict=True)]
        return tuple(0 if axis < 0 else steps[axis] for axis in taken.axes)

    def evaluate(self, x: Array) -> tuple[Array, ...]:
        taken = self.taken
        places = zip(taken.starts, taken.steps, taken.counts, strict=True)
        return (x[np.ix_(*(start + step * np.arange(count) for start, step, count in places))].reshape(taken.sizes),)

    def derivative(self, back: Backward) -> Gradients:
        taken = self.taken
        steps = list(zip(taken.starts, taken.steps, taken.counts, strict=True))
        window = {
            "input_window_offsets": [min(start, start + step * (count - 1)) for start, step, count in steps],
            "input_window_sizes": [abs(step) * (count - 1) + 1 for _, step, count in steps],
            "input_window_strides": taken.steps,
        }
        return [back(ops.SliceGrad, back.g.reshape(taken.counts), sizes=back.x.sizes, **window)]


class StopGradient(View, dml="STOP_GRADIENT"):
    """The input, which counts as constant for gradients: no gradient goes further back."""

    ends_gradients: ClassVar = True
    keeps_order: ClassVar = True
    no_derivative: ClassVar = "it ends the way of gradients"

    @property
    def sizes_after(self) -> tuple[int, ...]:
        return self.input.sizes

    def strides_after(self, strides: tuple[int, ...]) -> tuple[int, ...] | None:
        return strides

    def evaluate(self, x: Array) -> tuple[Array, ...]:
        return (x,)
