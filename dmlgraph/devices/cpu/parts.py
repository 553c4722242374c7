"""Parts: an operator written as several nodes of the plan, by expressions of tensors.

    x = parts.input("input").single()
    centred = parts.store(x - x.mean(axes).convert(DataType.FLOAT32))

The planner puts the parts together again: if a row fits into the cache, they run in one pass over the data.  Between
parts float16 values are float32, and a row's reduction may be float64, so that the operator's result is rounded once.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dmlgraph._native import cpu_steps
from dmlgraph.base.tensor import DataType, TensorDesc, broadcast_sizes, packed_strides
from dmlgraph.devices.cpu.expressions import Expression, instructions, leaves, sequence
from dmlgraph.devices.cpu.nodes import (
    COPY,
    Action,
    AffineMap,
    Constant,
    ElementWise,
    Fill,
    Instruction,
    Lowered,
    Native,
    Part,
    Reduce,
    View,
)
from dmlgraph.operators.common.axes import reduced_sizes
from dmlgraph.operators.declaration.operator import Operator


class Tensor(Expression):
    """A value that parts read or write, and its description."""

    def __init__(self, parts: Parts, source: int, desc: TensorDesc) -> None:
        super().__init__(desc.dtype)
        self.parts = parts
        self.source = source
        self.desc = desc

    def reduce(self, function: str, axes: tuple[int, ...], dtype: DataType, output: TensorDesc | None = None) -> Tensor:
        """Adds a reduction of native/cpu/kernels/reduce.h; the sizes along the axes become 1."""
        desc = output or TensorDesc(dtype=dtype, sizes=reduced_sizes(self.desc.sizes, axes))
        return self.parts.add(Reduce(function, axes), [self], desc)

    def sum(self, axes: tuple[int, ...], dtype: DataType = DataType.FLOAT64) -> Tensor:
        return self.reduce("SUM", axes, dtype)

    def mean(self, axes: tuple[int, ...], dtype: DataType = DataType.FLOAT64) -> Tensor:
        return self.reduce("AVERAGE", axes, dtype)

    def max(self, axes: tuple[int, ...]) -> Tensor:
        return self.reduce("MAX", axes, self.dtype)

    def min(self, axes: tuple[int, ...]) -> Tensor:
        return self.reduce("MIN", axes, self.dtype)

    def element(self, index: tuple[int, ...], rank: int) -> Tensor:
        """Adds the element at an index, as a tensor of `rank` dimensions."""
        nowhere = AffineMap((-1,) * rank, (0,) * rank, index)  # no dimension goes along one of this tensor
        return self.parts.add(View((nowhere,)), [self], TensorDesc(dtype=self.dtype, sizes=(1,) * rank))

    def copy(self, output: TensorDesc) -> Tensor:
        """Adds the same elements, in an output of the node."""
        return self.parts.add(COPY, [self], output)

    def packed(self) -> Tensor:
        """The tensor without gaps between its elements."""
        return self if self.desc.strides is None else self.copy(self.desc.like())

    def single(self) -> Tensor:
        """The tensor converted to float32."""
        return self if self.dtype is DataType.FLOAT32 else self.parts.store(self.convert(DataType.FLOAT32))

    def as_desc(self, desc: TensorDesc) -> Tensor:
        """The same value read through another description."""
        return Tensor(self.parts, self.source, desc)

    def finish(self, output: TensorDesc | None = None) -> tuple[Part, ...]:
        """All parts, of which the last is the output; it is copied for other strides or another type."""
        if output is not None and self.dtype is not output.dtype:
            self.parts.store(self, output)
        elif output is not None and self.desc.strides != output.strides:
            self.copy(output)
        return self.parts.finish()


class Parts:
    """Collects the parts of an operator."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._made: list[Part] = []

    # The operator's inputs.

    def optional(self, field: str) -> Tensor | None:
        """The input of an operator without arrays of inputs."""
        port = self.port(field)
        desc = self._operator.input_descs[port]
        return None if desc is None else Tensor(self, port, desc)

    def input(self, field: str) -> Tensor:
        """The input, which must be present."""
        found = self.optional(field)
        if found is None:
            raise LookupError(f"{self._operator.name} has no {field}")
        return found

    def inputs(self) -> list[Tensor]:
        """The inputs that are present."""
        descs = enumerate(self._operator.input_descs)
        return [Tensor(self, port, desc) for port, desc in descs if desc is not None]

    def port(self, field: str) -> int:
        return self._operator.input_fields.index(field)

    # Parts.

    def store(self, value: Expression, output: TensorDesc | None = None) -> Tensor:
        """Adds the expression of tensors, converted to the type of the output; where a size is 1, they are repeated.

        By default the output is packed and as large as the tensors.
        """
        read = [each for each in leaves(value) if isinstance(each, Tensor)]
        if output is None:
            sizes = functools.reduce(broadcast_sizes, (each.desc.sizes for each in read))
            output = TensorDesc(dtype=value.dtype, sizes=sizes)
        ports = {id(each): port for port, each in enumerate(read)}
        code = instructions(value.convert(output.dtype), port=lambda each: ports[id(each)])
        if code is None:
            raise LookupError("a part needs a kernel that does not exist")
        repeated = [each.as_desc(_repeated(each.desc, output.sizes)) for each in read]
        return self.add(ElementWise(code), repeated, output)

    def sequence(self, sizes: tuple[int, ...]) -> Tensor:
        """Adds the sequence 0, 1, 2, … in uint32."""
        return self.store(sequence(DataType.UINT32, 0, 1), TensorDesc(dtype=DataType.UINT32, sizes=sizes))

    def number(self, number: float, dtype: DataType, rank: int = 1) -> Tensor:
        """Adds one number, rounded to the type."""
        with np.errstate(over="ignore"):
            return self.fill(np.array(number).astype(dtype.numpy).tobytes(), dtype, rank)

    def fill(self, element: bytes, dtype: DataType, rank: int = 1) -> Tensor:
        """Adds one element, which has these bytes."""
        return self.add(Fill(element), [], TensorDesc(dtype=dtype, sizes=(1,) * rank))

    def constant(self, numbers: np.ndarray[Any, Any], dtype: DataType) -> Tensor:
        """Adds numbers, rounded to the type."""
        with np.errstate(over="ignore"):
            data = numbers.astype(dtype.numpy).tobytes()
        desc = TensorDesc(dtype=dtype, sizes=numbers.shape)
        return self.add(Constant(data.ljust(desc.total_bytes, bytes(1))), [], desc)

    def step(
        self,
        step: cpu_steps.Step,
        *inputs: Tensor | int,
        output: TensorDesc,
        followers: tuple[Instruction, ...] | None = (),
    ) -> Tensor:
        """Adds a native step; of an absent input the operator's port is given."""
        if followers is None:
            raise LookupError("a step needs a kernel that does not exist")
        return self.add(Native(step, followers), inputs, output)

    def add(self, action: Action, inputs: Sequence[Tensor | int], output: TensorDesc) -> Tensor:
        sources = tuple([each if isinstance(each, int) else each.source for each in inputs])
        descs = tuple([None if isinstance(each, int) else each.desc for each in inputs])
        self._made.append(Part(action, sources, descs, output))
        return Tensor(self, ~(len(self._made) - 1), output)

    def extend(self, parts: Sequence[Part], inputs: Mapping[int, Tensor] | None = None) -> Tensor:
        """Adds parts whose sources are each other and the operator's inputs, some of them replaced; the last output."""
        before, replaced = len(self._made), inputs or {}
        for part in parts:
            sources = [
                each - before if each < 0 else replaced[each].source if each in replaced else each
                for each in part.sources
            ]
            self._made.append(dataclasses.replace(part, sources=tuple(sources)))
        return Tensor(self, ~(len(self._made) - 1), self._made[-1].output)

    def result(self, value: Expression | None, output: TensorDesc) -> tuple[Part, ...] | None:
        """All parts, and last the node's output; None without a value."""
        return None if value is None else self.store(value, output).finish()

    def finish(self) -> tuple[Part, ...]:
        """The parts of a node whose outputs are those of the last parts."""
        return tuple(self._made)


def line_of(desc: TensorDesc, dtype: DataType) -> TensorDesc:
    """All elements of a tensor's buffer, one after the other, as elements of this type."""
    return TensorDesc(dtype=dtype, sizes=(desc.span,))


def _repeated(desc: TensorDesc, sizes: tuple[int, ...]) -> TensorDesc:
    """The description broadcast to other sizes: the stride is 0 where its size is 1."""
    if desc.sizes == sizes:
        return desc
    strides = desc.strides or packed_strides(desc.sizes)
    steps = tuple([0 if size == 1 else stride for size, stride in zip(desc.sizes, strides, strict=True)])
    return TensorDesc(dtype=desc.dtype, sizes=sizes, strides=steps)


def packed_step(operator: Operator, step: cpu_steps.Step) -> Lowered | None:
    """A native step that takes packed tensors; others are copied, if it has one output.

    Returns None where a tensor is absent, or its elements are parts of bytes.
    """
    descs = (*operator.input_descs, *operator.output_descs)
    if any(desc is None or desc.dtype.bits <= 4 for desc in descs):
        return None
    if all(desc is None or desc.strides is None for desc in descs):
        return Native(step)
    if len(operator.output_descs) > 1:
        return None
    parts, output = Parts(operator), operator.first_output
    return parts.step(step, *[each.packed() for each in parts.inputs()], output=output.like()).finish(output)
