"""Derivatives: how an operator says which gradients its inputs get, as nodes that compute them.

`Operator.derivative` is given a `Backward`: the node's values, and the gradients of its outputs.  It returns a gradient
for each input, by port, or None where the function is constant.  A gradient may have fewer elements than its input, or
more, if one broadcasts to the other: who asks repeats it, or sums it up.  Nodes that no result needs are removed, so a
rule makes all of them.

    class Multiply(Binary, dml="ELEMENT_WISE_MULTIPLY"):
        def derivative(self, back: Backward) -> Gradients:
            a, b = back.given
            return [back.g * b, back.g * a]

    class Sin(ScaledUnary, dml="ELEMENT_WISE_SIN"):
        @by_slope
        def derivative(self, back: Backward, x: Tensor) -> Tensor:
            return back(ops.Cos, x)

This module imports no graph: a graph's values are `Tensor`s by their methods.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np

    from dmlgraph.base.levels import FeatureLevel
    from dmlgraph.base.tensor import DataType
    from dmlgraph.operators.declaration.operator import Operator


class NoDerivativeError(Exception):
    """The derivative that is wanted does not exist, for this reason."""


class Tensor(Protocol):
    """A value of a graph; its operators and methods make nodes."""

    @property
    def dtype(self) -> DataType: ...
    @property
    def sizes(self) -> tuple[int, ...]: ...
    @property
    def rank(self) -> int: ...
    def __add__(self, other: Any, /) -> Tensor: ...
    def __radd__(self, other: Any, /) -> Tensor: ...
    def __sub__(self, other: Any, /) -> Tensor: ...
    def __rsub__(self, other: Any, /) -> Tensor: ...
    def __mul__(self, other: Any, /) -> Tensor: ...
    def __rmul__(self, other: Any, /) -> Tensor: ...
    def __truediv__(self, other: Any, /) -> Tensor: ...
    def __rtruediv__(self, other: Any, /) -> Tensor: ...
    def __lt__(self, other: Any, /) -> Tensor: ...
    def __le__(self, other: Any, /) -> Tensor: ...
    def __gt__(self, other: Any, /) -> Tensor: ...
    def __ge__(self, other: Any, /) -> Tensor: ...
    def __and__(self, other: Any, /) -> Tensor: ...
    def __or__(self, other: Any, /) -> Tensor: ...
    def __neg__(self) -> Tensor: ...
    def __getitem__(self, index: Any, /) -> Tensor: ...
    def reshape(self, *sizes: Any) -> Tensor: ...
    def transpose(self, *permutation: Any) -> Tensor: ...
    def broadcast_to(self, *sizes: Any) -> Tensor: ...


Gradients = Sequence[Tensor | None]


class Builder(Protocol):
    """Makes the nodes of a derivative."""

    @property
    def level(self) -> FeatureLevel: ...
    @property
    def count(self) -> int:
        """How many nodes the graph has."""

    def pull_back(
        self, count: int, outputs: Sequence[Any], gradients: Sequence[Any], inputs: Sequence[Any]
    ) -> Gradients:
        """The gradients of inputs through the nodes after the first `count`, from those of outputs."""

    def call(self, operator: type[Operator], tensors: Sequence[Any], fields: dict[str, Any]) -> Any:
        """What an operator's function returns."""

    def fill(self, value: float, sizes: Sequence[int], dtype: DataType) -> Tensor:
        """A tensor with one number everywhere."""

    def constant(self, data: np.ndarray[Any, Any]) -> Tensor:
        """A tensor with the elements of an array."""

    def sequence(self, start: float, delta: float, sizes: Sequence[int], dtype: DataType) -> Tensor:
        """Numbers at equal steps."""


@dataclasses.dataclass(frozen=True)
class Backward:
    """A node as its derivative sees it.

    Attributes:
        builder: makes the nodes.
        operator: the node's.
        inputs: by port; None for optional ones that are left out.
        outputs: by port.
        gradients: the gradients of the outputs; None for those on which the loss does not depend.
        wanted: by port of the inputs: whether its gradient is wanted.
    """

    builder: Builder
    operator: Operator
    inputs: Sequence[Tensor | None]
    outputs: Sequence[Tensor | None]
    gradients: Sequence[Tensor | None]
    wanted: Sequence[bool]

    def __call__(self, operator: type[Operator], *tensors: Any, **fields: Any) -> Tensor:
        """The output of a node that it makes."""
        output: Tensor = self.builder.call(operator, tensors, fields)
        return output

    def several(self, operator: type[Operator], *tensors: Any, **fields: Any) -> Any:
        """The outputs of a node that it makes, as the operator's function returns them."""
        return self.builder.call(operator, tensors, fields)

    @property
    def given(self) -> list[Tensor]:
        """The inputs that are present."""
        return [each for each in self.inputs if each is not None]

    @property
    def x(self) -> Tensor:
        """The first input."""
        return self.given[0]

    @property
    def y(self) -> Tensor:
        """The first output."""
        return present(self.outputs[0])

    @property
    def g(self) -> Tensor:
        """The gradient of the first output; zeros if the loss does not depend on it."""
        return self.gradient(0)

    def gradient(self, port: int) -> Tensor:
        """The gradient of an output; zeros if the loss does not depend on it."""
        found, output = self.gradients[port], present(self.outputs[port])
        return self.builder.fill(0, output.sizes, output.dtype) if found is None else found

    def like(self, tensor: Tensor, value: float) -> Tensor:
        """A number everywhere in a tensor's sizes and type."""
        return self.builder.fill(value, tensor.sizes, tensor.dtype)

    def total(self, x: Tensor, axes: Sequence[int] = ()) -> Tensor:
        """The sum along axes, whose sizes become 1; by default along all."""
        from dmlgraph import operators as ops

        return self(ops.Reduce, x, function="sum", **({"axes": axes} if axes else {}))

    def choose(self, condition: Tensor, a: Any, b: Any) -> Tensor:
        """a where the condition holds, else b; one of them may be a number."""
        from dmlgraph import operators as ops

        return self(ops.If, condition, a, b)

    def parameter(self, gradient: Tensor, port: int) -> Tensor:
        """The gradient of a parameter, which has size 1 along some axes, or is a list of one number a channel."""
        value, rank = present(self.inputs[port]), gradient.rank
        sizes = (1, *value.sizes, *(1,) * (rank - 2)) if value.rank == 1 < rank else value.sizes
        axes = [axis for axis, size in enumerate(gradient.sizes) if sizes[axis] != size]
        return (self.total(gradient, axes) if axes else gradient).reshape(value.sizes)

    def channels(self, tensor: Tensor) -> Tensor:
        """A parameter as it is read beside the first input: a list of one number a channel as {1, C, 1, …}."""
        rank = self.x.rank
        return tensor.reshape(1, -1, *(1,) * (rank - 2)) if tensor.rank == 1 < rank else tensor

    def along(self, gradient: Tensor, axis: int, weights: np.ndarray[Any, Any]) -> Tensor:
        """The gradient times a matrix along an axis, whose size becomes the number of the matrix's rows."""
        from dmlgraph import operators as ops

        rows, columns = weights.shape
        before, after = gradient.sizes[:axis], gradient.sizes[axis + 1 :]
        matrix = self.builder.constant(weights.astype(gradient.dtype.numpy))
        lines = gradient.reshape(math.prod(before), columns, math.prod(after))
        return self(ops.Gemm, matrix.reshape(1, rows, columns), lines).reshape(*before, rows, *after)

    def added_at(self, gradient: Tensor, indices: Tensor, size: int) -> Tensor:
        """[batch, size, elements]: rows [batch, N, elements] added up at indices [batch, N], also where they repeat.

        DirectML's scatter keeps one of several rows, so it is a product with ones and zeros.
        """
        from dmlgraph import operators as ops
        from dmlgraph.base.tensor import DataType

        batch, count = indices.sizes
        places = self.builder.sequence(0, 1, (1, size, 1), DataType.INT32)
        at = self.from_start(indices, size).reshape(batch, 1, count)
        hits = self(ops.Cast, self(ops.LogicalEquals, at, places), dtype=gradient.dtype)
        return self(ops.Gemm, hits, gradient)

    def from_start(self, indices: Tensor, size: int) -> Tensor:
        """Indices as int32; negative ones count from the end."""
        from dmlgraph import operators as ops
        from dmlgraph.base.tensor import DataType

        signed = indices.dtype.is_signed
        whole = indices if indices.dtype is DataType.INT32 else self(ops.Cast, indices, dtype=DataType.INT32)
        return self.choose(whole < 0, whole + size, whole) if signed else whole

    def constant_input(self, port: int, why: str) -> None:
        """Refuses the gradient of an input that has none.

        Raises:
            NoDerivativeError: it is wanted.
        """
        if self.wanted[port]:
            raise NoDerivativeError(why)

    def legal(self, operator: type[Operator]) -> bool:
        """Whether the operator exists at the graph's level."""
        return operator.support().introduced <= self.builder.level


def present(tensor: Tensor | None) -> Tensor:
    """A tensor that is not left out.

    Raises:
        LookupError: it is.
    """
    if tensor is None:
        raise LookupError("the tensor is left out")
    return tensor


Rule = Callable[[Any, Backward], Gradients]


def by_slope(slope: Callable[[Any, Backward, Tensor], Tensor | float]) -> Rule:
    """The derivative of f(x · scale + bias), element by element, from f' at the argument."""

    def derivative(self: Any, back: Backward) -> Gradients:
        argument, scale = self.argument(back)
        found = slope(self, back, argument)
        if isinstance(found, (int, float)):
            return [_times(back.g, found * scale)]
        return [_times(back.g * found, scale)]

    return derivative


def _times(gradient: Tensor, number: float) -> Tensor | None:
    if number == 0:
        return None
    return gradient if number == 1 else gradient * number


def passing(inside: Callable[[Any, Backward, Tensor], Tensor]) -> Rule:
    """The derivative of what is x · scale + bias where a condition on it holds, and constant elsewhere."""

    def derivative(self: Any, back: Backward) -> Gradients:
        argument, scale = self.argument(back)
        return [_times(back.choose(inside(self, back, argument), back.g, 0), scale)]

    return derivative


def by_composition(operator: Any, back: Backward) -> Gradients:
    """The derivative of what other operators compute too, those of the operator's method `compose`."""
    count = back.builder.count
    outputs = operator.compose(back)
    inputs = [each if wanted else None for each, wanted in zip(back.inputs, back.wanted, strict=True)]
    return back.builder.pull_back(count, outputs, back.gradients, inputs)


def flat(_: Any, back: Backward) -> Gradients:
    """The derivative of what is constant nearly everywhere, such as a rounded number."""
    return [None for _ in back.inputs]
