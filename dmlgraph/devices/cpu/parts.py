"""Parts: an operator written as several nodes of the plan, element-wise ones and reductions.

The planner puts them together again: if a row fits into the cache, they run in one pass over the data.  Between parts
float16 values are float32, and a row's reduction may be float64, so that the operator's result is rounded once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from dmlgraph.base.tensor import DataType, TensorDesc, packed_strides
from dmlgraph.devices.cpu.element_wise import Code, Instruction, Value
from dmlgraph.operators.common.axes import reduced_sizes
from dmlgraph.operators.declaration.operator import Operator


class Part(NamedTuple):
    """A node of the plan.  Source k ≥ 0 is the operator's input port k; source ~j is the result of part j."""

    kind: str
    sources: tuple[int, ...]
    inputs: tuple[TensorDesc | None, ...]
    output: TensorDesc
    payload: Any

    def behind(self, places: int) -> Part:
        """The same part behind so many others."""
        return self._replace(sources=tuple([each if each >= 0 else each - places for each in self.sources]))


class Tensor(NamedTuple):
    """A value that parts read or write, and its description."""

    source: int
    desc: TensorDesc


def line_of(desc: TensorDesc, dtype: DataType) -> TensorDesc:
    """All elements of a tensor's buffer, one after the other, as elements of this type."""
    return TensorDesc(dtype=dtype, sizes=(desc.span,))


class Parts:
    """Collects the parts of an operator."""

    def __init__(self) -> None:
        self._made: list[Part] = []

    def reduce(
        self, function: str, x: Tensor, axes: tuple[int, ...], dtype: DataType, output: TensorDesc | None = None
    ) -> Tensor:
        """Adds a reduction of native/cpu/kernels/reduce.h; the sizes along the axes become 1."""
        desc = output or TensorDesc(dtype=dtype, sizes=reduced_sizes(x.desc.sizes, axes))
        return self._add(Part("reduce", (x.source,), (x.desc,), desc, (function, axes)))

    def compute(self, code: Code, *operands: Tensor, output: TensorDesc) -> Tensor:
        """Adds instructions whose input ports are the operands; an operand is repeated where its size is 1."""
        written = code.finish()
        if written is None:
            raise LookupError("a part needs a kernel that does not exist")
        inputs = tuple([_repeated(each.desc, output.sizes) for each in operands])
        return self._add(Part("element_wise", tuple([each.source for each in operands]), inputs, output, written))

    def sequence(self, sizes: tuple[int, ...]) -> Tensor:
        """Adds the sequence 0, 1, 2, … in uint32."""
        desc = TensorDesc(dtype=DataType.UINT32, sizes=sizes)
        count = Instruction("SEQUENCE", (), DataType.UINT32, DataType.UINT32, (0, 1))
        return self._add(Part("element_wise", (), (), desc, (count,)))

    def zero(self, dtype: DataType, rank: int = 1) -> Tensor:
        """Adds one zero of the type."""
        return self.number(0, dtype, rank)

    def number(self, number: float, dtype: DataType, rank: int = 1) -> Tensor:
        """Adds one number, rounded to the type."""
        with np.errstate(over="ignore"):
            return self.element_of(np.array(number).astype(dtype.numpy).tobytes(), dtype, rank)

    def element_of(self, data: bytes, dtype: DataType, rank: int = 1) -> Tensor:
        """Adds one element, which has these bytes."""
        return self._add(Part("fill", (), (), TensorDesc(dtype=dtype, sizes=(1,) * rank), data))

    def constant(self, numbers: np.ndarray[Any, Any], dtype: DataType) -> Tensor:
        """Adds numbers, rounded to the type."""
        with np.errstate(over="ignore"):
            data = numbers.astype(dtype.numpy).tobytes()
        desc = TensorDesc(dtype=dtype, sizes=numbers.shape)
        return self._add(Part("constant", (), (), desc, data.ljust(desc.total_bytes, bytes(1))))

    def step(
        self, name: str, parameters: Mapping[str, Any], *inputs: Tensor | int, output: TensorDesc,
        epilogue: tuple[Instruction, ...] | None = None,
    ) -> Tensor:  # fmt: skip
        """Adds a native step; of an absent input the operator's port is given."""
        sources = tuple([each if isinstance(each, int) else each.source for each in inputs])
        descs = tuple([None if isinstance(each, int) else each.desc for each in inputs])
        payload = (name, parameters) if epilogue is None else (name, parameters, epilogue)
        return self._add(Part("native", sources, descs, output, payload))

    def element(self, x: Tensor, index: tuple[int, ...], rank: int) -> Tensor:
        """Adds the element of x at an index, as a tensor of `rank` dimensions."""
        nowhere = (-1,) * rank, (0,) * rank, index  # no dimension goes along one of x
        return self._add(
            Part("view", (x.source,), (x.desc,), TensorDesc(dtype=x.desc.dtype, sizes=(1,) * rank), (nowhere,))
        )

    def copy(self, x: Tensor, output: TensorDesc) -> Tensor:
        """Adds the same elements, in an output of the node."""
        return self._add(Part("element_wise", (x.source,), (x.desc,), output, ()))

    def packed(self, x: Tensor) -> Tensor:
        """A tensor without gaps between its elements."""
        return x if x.desc.strides is None else self.copy(x, x.desc.like(strides=None))

    def single(self, x: Tensor) -> Tensor:
        """A float tensor converted to float32."""
        return x if x.desc.dtype is DataType.FLOAT32 else self.convert(x, DataType.FLOAT32)

    def convert(self, x: Tensor, dtype: DataType) -> Tensor:
        return self.convert_to(x, TensorDesc(dtype=dtype, sizes=x.desc.sizes))

    def convert_to(self, x: Tensor, output: TensorDesc) -> Tensor:
        """Adds the elements, converted to the type of an output."""
        code = Code()
        code.convert(Value(0, x.desc.dtype), output.dtype)
        return self.compute(code, x, output=output)

    def finish(self) -> tuple[str, tuple[Part, ...]]:
        """The payload of a node whose outputs are those of the last parts."""
        return "parts", tuple(self._made)

    def _add(self, part: Part) -> Tensor:
        self._made.append(part)
        return Tensor(~(len(self._made) - 1), part.output)


def operands(*tensors: Tensor) -> list[Value]:
    """The tensors as input ports of instructions."""
    return [Value(port, each.desc.dtype) for port, each in enumerate(tensors)]


def _repeated(desc: TensorDesc, sizes: tuple[int, ...]) -> TensorDesc:
    """The description broadcast to other sizes: the stride is 0 where its size is 1."""
    if desc.sizes == sizes:
        return desc
    strides = desc.strides or packed_strides(desc.sizes)
    steps = tuple([0 if size == 1 else stride for size, stride in zip(desc.sizes, strides, strict=True)])
    return TensorDesc(dtype=desc.dtype, sizes=sizes, strides=steps)


def packed_step(step: str, operator: Operator, parameters: Mapping[str, Any]) -> tuple[str, Any] | None:
    """A native step that takes packed tensors; others are copied, if it has one output.

    Returns None where a tensor is absent, or its elements are parts of bytes.
    """
    descs = (*operator.input_descs, *operator.output_descs)
    if any(desc is None or desc.dtype.bits <= 4 for desc in descs):
        return None
    payload = (step, parameters)
    if all(desc is None or desc.strides is None for desc in descs):
        return "native", payload
    if len(operator.output_descs) > 1:
        return None
    parts: list[Part] = []
    sources, inputs, output = [], [], operator.first_output
    for port, desc in enumerate(operator.input_descs):
        if desc is None or desc.strides is None:
            sources.append(port)
        else:
            sources.append(~len(parts))
            parts.append(Part("element_wise", (port,), (desc,), desc.like(), ()))
        inputs.append(desc and desc.like())
    parts.append(Part("native", tuple(sources), tuple(inputs), output.like(), payload))
    if output.strides is not None:
        parts.append(Part("element_wise", (~(len(parts) - 1),), (output.like(),), output, ()))
    return "parts", tuple(parts)
