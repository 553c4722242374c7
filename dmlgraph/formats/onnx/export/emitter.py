"""A node of the graph while it becomes nodes of the model."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import onnx

from dmlgraph.base.errors import listing
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.formats.onnx.definitions import output_type, schema
from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.operators import Operator
from dmlgraph.operators.declaration.fields import Role, ScaleBias
from dmlgraph.operators.declaration.fused import FusedActivation

if TYPE_CHECKING:
    from dmlgraph.formats.onnx.export.writer import Writer

Array = np.ndarray[Any, Any]
DType = np.dtype[Any]
Sizes = Sequence[int]

OPSET = 21
BOOL, INT64, INT32, FLOAT32 = (np.dtype(name) for name in ("bool", "int64", "int32", "float32"))
UINT32, UINT64 = np.dtype("uint32"), np.dtype("uint64")


@dataclasses.dataclass(frozen=True, slots=True)
class Symbol:
    """A value of the model: its name and the type of its elements.

    Python's operators add nodes for the node of the graph that is written; a number that changes nothing adds none.
    """

    name: str
    dtype: DType
    writer: Writer = dataclasses.field(repr=False, compare=False)

    @property
    def is_float(self) -> bool:
        return self.dtype.kind == "f"

    @property
    def bits(self) -> int:
        return 4 if self.dtype in (ml_dtypes.int4, ml_dtypes.uint4) else self.dtype.itemsize * 8

    def _call(self, operator: str, other: Symbol | float, neutral: float | None = None) -> Symbol:
        if isinstance(other, Symbol):
            return self.writer.node.call(operator, self, other)
        if other == neutral:
            return self
        return self.writer.node.call(operator, self, self.writer.node.number(other, self.dtype))

    def __add__(self, other: Symbol | float) -> Symbol:
        return self._call("Add", other, 0)

    def __sub__(self, other: Symbol | float) -> Symbol:
        return self._call("Sub", other, 0)

    def __mul__(self, other: Symbol | float) -> Symbol:
        return self._call("Mul", other, 1)

    def __truediv__(self, other: Symbol | float) -> Symbol:
        return self._call("Div", other, 1)

    def __matmul__(self, other: Symbol) -> Symbol:
        return self._call("MatMul", other)

    def __and__(self, other: Symbol) -> Symbol:
        return self._call("And", other)

    def __or__(self, other: Symbol) -> Symbol:
        return self._call("Or", other)

    def __lt__(self, other: Symbol | float) -> Symbol:
        return self._call("Less", other)

    def __gt__(self, other: Symbol | float) -> Symbol:
        return self._call("Greater", other)

    def __le__(self, other: Symbol | float) -> Symbol:
        return self._call("LessOrEqual", other)

    def __ge__(self, other: Symbol | float) -> Symbol:
        return self._call("GreaterOrEqual", other)


Result = Symbol | Sequence[Symbol]


@dataclasses.dataclass(frozen=True, slots=True)
class Given:
    """What a node of the graph reads.

    Attributes:
        tensor: the value.
        sizes: its own; the operator may read it with others.
        known: its numbers, for constants and fills.
    """

    tensor: Symbol
    sizes: tuple[int, ...]
    known: Array | None


class Emitter:
    """What the rules work with: the operator, its tensors, and calls that add nodes to the model.

    `node["input"]` is a tensor with the sizes that the operator reads; `node.call("Add", a, b)` adds a node.
    """

    def __init__(self, writer: Writer, label: str, operator: Operator, given: Mapping[int, Given]) -> None:
        self.label, self.operator = label, operator
        self._writer = writer
        writer.node = self
        self._given: dict[str, list[Given | None]] = {}
        for binding in operator.bindings(Role.INPUT):
            self._given.setdefault(binding.field, []).append(given.get(binding.port) if binding.desc else None)

    # The operator.

    @property
    def output(self) -> TensorDesc:
        """The description of the first output that is present."""
        return next(desc for desc in self.operator.output_descs if desc is not None)

    @property
    def dtype(self) -> DType:
        """The data type of the first output."""
        return self.output.dtype.numpy

    def desc(self, field: str) -> TensorDesc:
        """The description of an input or output that is present."""
        desc: TensorDesc = getattr(self.operator, field)
        return desc

    def field(self, name: str) -> Any:
        """An attribute's value."""
        return getattr(self.operator, name)

    # What it reads.

    def __getitem__(self, field: str) -> Symbol:
        """An input, with the sizes that the operator reads."""
        tensor = self.get(field)
        assert tensor is not None
        return tensor

    def get(self, field: str) -> Symbol | None:
        """An input, with the sizes that the operator reads; None if it is left out."""
        (given,) = self._given[field]
        return None if given is None else self.fitted(given, self.desc(field).sizes)

    def raw(self, field: str) -> Symbol:
        """An input with its own sizes, where ONNX broadcasts as the operator does."""
        (given,) = self._given[field]
        assert given is not None
        return given.tensor

    def all(self, field: str) -> list[Symbol]:
        """The members of an array of inputs, with the sizes that the operator reads."""
        pairs = zip(self._given.get(field, ()), getattr(self.operator, field), strict=True)
        return [self.fitted(given, desc.sizes) for given, desc in pairs if given is not None]

    def known(self, field: str) -> Array | None:
        """The numbers of an input, if they are a constant or a fill."""
        (given,) = self._given[field]
        return None if given is None else given.known

    def flat(self, field: str, *sizes: int) -> Symbol:
        """An input with other sizes, of as many elements as the operator reads."""
        return self.reshape(self[field], sizes, self.desc(field).sizes)

    def wide(self, field: str) -> Symbol:
        """An input, float16 as float32, as DirectML computes what has several steps."""
        x = self[field]
        return self.cast(x, FLOAT32) if x.bits == 16 and x.is_float else x

    def fitted(self, given: Given, sizes: Sizes) -> Symbol:
        """A value with the sizes with which the operator reads it: other dimensions of size 1, or broadcast."""
        if np.prod(given.sizes) == np.prod(sizes):
            return self.reshape(given.tensor, sizes, given.sizes)
        return self.expand(given.tensor, sizes)

    def scaled(self, field: str = "input") -> Symbol:
        """An input after the operator's scale and bias; float16 and integers are scaled in float32."""
        x = self.raw(field)
        scale_bias: ScaleBias | None = getattr(self.operator, "scale_bias", None)
        if scale_bias is None or scale_bias.changes_nothing:
            return x
        wide = self.cast(x, FLOAT32) if x.bits == 16 or not x.is_float else x
        wide = wide * scale_bias.scale + scale_bias.bias
        return wide if x.is_float else self.converted(wide, UINT32 if x.dtype.kind == "u" else INT32)

    # Adding nodes.

    def call(self, operator: str, *inputs: Symbol | None, dtype: DType | None = None, **attributes: Any) -> Symbol:
        """Adds a node with one output, of the type that ONNX's schema says where it is not given.

        Raises:
            Refusal: ONNX's operator does not take the types.
        """
        dtypes = tuple([None if each is None else each.dtype for each in inputs])
        given = dtype or output_type("", operator, OPSET, dtypes, 0)
        assert given is not None, operator
        (made,) = self.calls(operator, *inputs, dtypes=[given], **attributes)
        return made

    def calls(
        self, operator: str, *inputs: Symbol | None, dtypes: Sequence[DType | None], **attributes: Any
    ) -> list[Symbol]:
        """Adds a node with outputs of these types; None leaves one out."""
        for place, tensor in enumerate(inputs):
            if tensor is not None and tensor.dtype not in taken(operator, place):
                allowed = listing(sorted(map(str, taken(operator, place))))
                raise Refusal(f"ONNX's {operator} takes no {tensor.dtype}", code="dtype", allowed=allowed)
        return self._writer.add(self.label, operator, inputs, dtypes, attributes)

    def widely(self, operator: str, *inputs: Symbol, **attributes: Any) -> Symbol:
        """`call`, in a wider type that holds all numbers of the inputs' where ONNX's operator does not take it.

        The result is converted back: it must be a number of the narrower type, or one modulo 2^N.
        """
        dtype = inputs[0].dtype
        wide = self.wide_for(operator, dtype)
        made = self.call(operator, *(self.cast(each, wide) for each in inputs), **attributes)
        return self.cast(made, dtype)

    @staticmethod
    def wide_for(operator: str, dtype: DType) -> DType:
        """The narrowest type that holds all numbers of a type and that ONNX's operator takes; else the type."""
        fitting = (each for each in (dtype, *_WIDER.get(str(dtype), ())) if each in taken(operator, 0))
        return next(fitting, dtype)

    def constant(self, array: Any, dtype: Any = None) -> Symbol:
        """Numbers; equal ones are one tensor of the model."""
        return self._writer.constant(np.asarray(array, dtype), f"{self.label}/constant")

    def ints(self, numbers: Sizes) -> Symbol:
        """A vector of int64, as ONNX takes shapes and axes."""
        return self.constant(list(numbers), INT64)

    def number(self, value: Any, dtype: Any) -> Symbol:
        """One number, which broadcasts to any sizes; floats are rounded to the type."""
        with np.errstate(all="ignore"):
            return self.constant(np.asarray(value).astype(dtype))

    def cast(self, x: Symbol, dtype: DType) -> Symbol:
        """With another type; integers keep their low bits."""
        if x.dtype == dtype:
            return x
        return self.call("Cast", x, dtype=dtype, to=onnx.helper.np_dtype_to_tensor_dtype(dtype))

    def converted(self, x: Symbol, dtype: DType) -> Symbol:
        """With another type, as DirectML converts: out of range 8 bits saturate, and so do floats to 16 bits.

        Floats to more bits saturate at zero; beyond the other bounds, which not all floats have, ONNX leaves it open.
        """
        if x.dtype == dtype or BOOL in (x.dtype, dtype):
            return self.cast(x, dtype)
        target = DataType.parse(dtype)
        low, high = target.range if dtype.kind in "iu" else (0, 0)
        if x.is_float and dtype.kind in "iu" and target.bits in (8, 16):
            x = self.cast(x, FLOAT32) if x.bits == 16 else x  # float16 has not all bounds
            x = self.call("Clip", x, self.number(low, x.dtype), self.number(high, x.dtype))
        elif x.is_float and dtype.kind == "u":
            x = self.call("Max", x, self.number(0, x.dtype))
        elif dtype.kind in "iu" and x.dtype.kind in "iu" and (target.bits == 8 or (target.bits, x.bits) == (16, 8)):
            wide = INT32 if dtype.kind == "i" else UINT32
            fits = np.can_cast(x.dtype, dtype)
            x = x if fits else self.call("Clip", self.cast(x, wide), self.number(low, wide), self.number(high, wide))
        return self.cast(x, dtype)

    def truth(self, x: Symbol) -> Symbol:
        """Whether each element is not zero, as bool; of a comparison its own bools."""
        return self._writer.truths.get(x.name) or self.cast(x, BOOL)

    def flags(self, x: Symbol, dtype: DType | None = None) -> Symbol:
        """Bools as 1 and 0, by default in the type of the output."""
        made = self.cast(x, self.dtype if dtype is None else dtype)
        self._writer.truths[made.name] = x
        return made

    # Changes of sizes, only where something changes.

    def reshape(self, x: Symbol, sizes: Sizes, before: Sizes | None = None) -> Symbol:
        """The elements in row-major order with other sizes; nothing if `before` are the same.

        Of a small constant it is another constant, and of a reshaped tensor one reshape.
        """
        if before is not None and tuple(before) == tuple(sizes):
            return x
        known = self._writer.small(x)
        if known is not None:
            return self._writer.constant(known.reshape(sizes), x.name)
        source = self._writer.reshaped.get(x.name, x)
        made = self.call("Reshape", source, self.ints(sizes))
        self._writer.reshaped[made.name] = source
        return made

    def transpose(self, x: Symbol, permutation: Sizes) -> Symbol:
        if list(permutation) == list(range(len(permutation))):
            return x
        return self.call("Transpose", x, perm=list(permutation))

    def expand(self, x: Symbol, sizes: Sizes, before: Sizes | None = None) -> Symbol:
        """Broadcast; nothing if `before` are the same."""
        if before is not None and tuple(before) == tuple(sizes):
            return x
        wide = np.dtype("int8" if x.dtype == ml_dtypes.int4 else "uint8") if x.bits == 4 else x.dtype
        return self.cast(self.call("Expand", self.cast(x, wide), self.ints(sizes)), x.dtype)

    def taken_along(self, x: Symbol, axis: int, places: Any) -> Symbol:
        """The slices at known places along an axis; nothing if they are all, in order, of `places` elements."""
        return self.call("Gather", x, self.ints(places), axis=axis)

    def activated(self, x: Symbol) -> Symbol:
        """The operator's fused activation of its result."""
        from dmlgraph.formats.onnx.table import written

        fused: FusedActivation | None = self.field("fused_activation")
        if fused is None:
            return x
        row = written().get(fused.name)
        if row is None or row.function is None:
            raise Refusal("the fused activation has no equivalent", field="fused_activation", got=fused.name)
        return row.function(self, fused.on(self.output.like()), x)


Function = Callable[[Emitter, Operator, Symbol], Symbol]

_WIDER = {
    name: tuple(np.dtype(each) for each in wider.split())
    for name, wider in {
        "int8": "int16 int32 int64 float32",
        "uint8": "uint16 uint32 int32 int64 float32",
        "int16": "int32 int64 float32",
        "uint16": "uint32 int32 int64 float32",
        "int32": "int64 float64",
        "uint32": "uint64 int64 float64",
        "float16": "float32 float64",
        "float32": "float64",
    }.items()
}


@functools.cache
def taken(operator: str, place: int) -> frozenset[DType]:
    """The types that ONNX's operator takes at an input."""
    known = schema("", operator, OPSET)
    parameter = known.inputs[min(place, len(known.inputs) - 1)]
    return frozenset(_DTYPES[each] for each in parameter.types if each in _DTYPES)


_DTYPES = {
    **{f"tensor({each})": np.dtype(each) for each in ("bool", "float16")},
    **{f"tensor({sign}int{bits})": np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{f"tensor({each})": np.dtype(getattr(ml_dtypes, each)) for each in ("int4", "uint4")},
    "tensor(float)": np.dtype("float32"),
    "tensor(double)": np.dtype("float64"),
}
