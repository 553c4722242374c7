"""Tensors of a model while it is imported: values of the graph, or numbers known on the host; and what adds nodes."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, overload

import ml_dtypes
import numpy as np

import dmlgraph as dg
from dmlgraph.base.errors import GraphError
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.tensor import MAX_RANK, DataType
from dmlgraph.formats.onnx.names import Names
from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.graph.scopes import SEPARATOR
from dmlgraph.graph.value import Value
from dmlgraph.operators import find

T = TypeVar("T")
Array = np.ndarray[Any, Any]
BOOL = np.dtype(bool)
INT64 = np.dtype(np.int64)
_TEXT = "OUS"  # NumPy's kinds of strings
_HELPERS = frozenset(["reshape", "transpose", "broadcast_to", "cast"])
_NAMES = {"double": "float64", "float": "float32", "half": "float16"}  # ONNX's names of NumPy's types


@dataclasses.dataclass(slots=True, eq=False)
class Tensor:
    """A tensor of the model.

    Attributes:
        dtype: its ONNX type as a NumPy type; a bool is a uint8 of 0 or 1 in the graph.
        shape: its ONNX shape; a scalar, (), has sizes [1] in the graph.
        known: its numbers, where the model, shapes or given values decide them.
        made: its value in the graph; None as long as no node reads a known tensor.
        make: adds a source with the known numbers, where that is better than a constant.
        depends: the model's inputs from which it is computed; DATA for those that are never given as values.
        name: the label of the input, the weight or the node that it comes from; "" if there is none.
        appended: what it is made of, if it is past rows and new ones.
        rows: the axis along which the rows of a growing state lie, and new ones behind them.
        counted: how its known numbers move with the length of growing states; None if they do not.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    known: Array | None = None
    made: Value | None = None
    make: Callable[[Calls], Value] | None = None
    depends: frozenset[str] = frozenset()
    name: str = ""
    appended: Appended | None = None
    rows: int | None = None
    counted: Counted | None = None

    @classmethod
    def of(cls, array: Any, **fields: Any) -> Tensor:
        """A known tensor."""
        array = np.asarray(array)
        return cls(array.dtype, array.shape, array, **fields)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def count(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Its sizes in the graph: DirectML has no scalars."""
        return self.shape or (1,)

    @property
    def is_float(self) -> bool:
        return self.dtype.kind == "f" or self.dtype == ml_dtypes.bfloat16

    @property
    def is_text(self) -> bool:
        return self.dtype.kind in _TEXT


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Appended:
    """Past rows and new ones: a cache of keys, for example, to which a state may grow.

    Attributes:
        past: the past rows, tensor or value.
        rows: gives the new rows.
        axis: along which the rows lie.
        counts: whether the new rows take their place behind those that count, whose number the operator reads; else
            they are behind all of the past, and what reads them needs to know which rows of the past count.
    """

    past: Any
    rows: Callable[[Calls], Value]
    axis: int
    counts: bool = False


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """How whole numbers, known for growing states of the length of their capacity, move with the length.

    Attributes:
        moves: what is added for each row more, in the shape of the numbers.
        length: of the states, uint32 {1}.
        capacity: theirs.
    """

    moves: Array
    length: Value
    capacity: int

    def value(self, calls: Calls, known: Array) -> Value:
        """The numbers at the length, in the sizes of the known ones."""
        sizes = known.shape or (1,)
        moves = self.moves.reshape(sizes).astype(known.dtype)
        length = calls.reshaped(calls.converted(self.length, stored(known.dtype)), (1,) * len(sizes))
        rows = length if (moves == 1).all() else calls.multiply(length, Tensor.of(moves))
        return calls.add(rows, Tensor.of(known.reshape(sizes) - moves * self.capacity))


@dataclasses.dataclass(slots=True, eq=False)
class TensorList(Tensor):
    """A sequence of tensors: nodes read it where they read tensors, but no value of the graph stands for it."""

    items: tuple[Tensor, ...] = ()

    @classmethod
    def of(cls, array: Any, **fields: Any) -> TensorList:
        """The sequence of some tensors."""
        items = tuple(array)
        depends = frozenset[str]().union(*(each.depends for each in items))
        return cls(np.dtype(object), (), depends=depends, items=items, **fields)


def repeated(array: Array, shape: Sequence[int]) -> Array:
    """An array broadcast to a shape, without a copy.

    Raises:
        Refusal: NumPy counts no such number of elements.
    """
    if math.prod(shape) > np.iinfo(np.intp).max:
        raise Refusal("the tensor has too many elements", code="too-large", got=[*shape])
    return np.broadcast_to(array, tuple(shape))


def parse_dtype(name: str) -> np.dtype[Any]:
    """The NumPy type of an ONNX type's name, such as "double" or "bfloat16".

    Raises:
        Refusal: strings, and other types that are not numbers.
    """
    name = _NAMES.get(name, name)
    try:
        return np.dtype(getattr(ml_dtypes, name, None) or name)
    except TypeError:
        raise Refusal(f"tensors of {name} have no counterpart", code="unsupported") from None


def stored(dtype: np.dtype[Any]) -> DataType:
    """The data type that holds an ONNX type in the graph.

    Raises:
        Refusal: DirectML has no such type.
    """
    if dtype == BOOL:
        return DataType.UINT8
    try:
        return DataType.parse(dtype)
    except dg.TensorError:
        hint = "convert={'bfloat16': 'float32'} converts it" if dtype == ml_dtypes.bfloat16 else None
        raise Refusal("DirectML has no such data type", code="unknown-dtype", got=type_name(dtype), hint=hint) from None


def type_name(dtype: np.dtype[Any]) -> str:
    """The ONNX name of a type."""
    return "double" if dtype == np.float64 else "string" if dtype.kind in _TEXT else str(dtype)


class Calls:
    """The functions of `dmlgraph` for the nodes that one node of the model becomes; they get its label as names.

    A label `encoder/MatMul` is a name in the scope `encoder`, in which the fills of numbers are, too.

    Args:
        graph: gets the nodes.
        names: allocates their names.
        label: of the node of the model.
        how: the functions that the node becomes, as in the table.  Views and casts that are not among them get other
            names than the label.

    Tensors of the model may be given for values, and missing optional ones are left out.
    """

    def __init__(self, graph: dg.Graph, names: Names, label: str, how: str = "") -> None:
        self._graph, self._names, self.label = graph, names, label
        self._helpers = _HELPERS.difference(re.findall(r"\w+", how.lower()))

    # Functions with several results; all others have one.
    batch_normalization_training: Callable[..., Any]
    dynamic_quantize_linear: Callable[..., Any]
    max_pooling2: Callable[..., Any]
    split: Callable[..., tuple[Value, ...]]
    top_k1: Callable[..., Any]

    def __getattr__(self, function: str) -> Callable[..., Value]:
        sources = ("fill_value_constant", "fill_value_sequence", "diagonal_matrix")
        target: Any = self._graph if function.startswith(sources) else dg

        def call(*tensors: Any, **fields: Any) -> Any:
            tensors = tuple(map(self.value, tensors))
            fields = {field: self.value(each) if isinstance(each, Tensor) else each for field, each in fields.items()}
            newest, fields = at_level(self.level, function, next(iter(tensors), None), fields)
            called = getattr(target, newest)

            def add(whole: str) -> Any:
                scope, _, name = whole.rpartition(SEPARATOR)
                with self._graph.scope(scope) if scope else contextlib.nullcontext():
                    return called(*tensors, name=name, **fields)

            take = self._names.take_other if function in self._helpers else self._names.take
            return self.named(take, self.label, add)

        return call

    def apply(self, function: str, *tensors: Any, **fields: Any) -> Value:
        """The result of a function of this name."""
        called: Callable[..., Value] = getattr(self, function)
        return called(*tensors, **fields)

    def has(self, function: str) -> bool:
        """Whether the graph's level has the operator of a function."""
        return has(self.level, function)

    @staticmethod
    def named(take: Callable[[str], str], base: str, make: Callable[[str], T]) -> T:
        """What a function makes of a free name.

        A name may still be taken: by the fill of a number, or because `a.values` also means an output of the node `a`.
        """
        while True:
            try:
                return make(take(base))
            except GraphError as error:
                if error.code != "duplicate" or error.field is not None:
                    raise

    @overload
    def value(self, tensor: list[Any] | tuple[Any, ...]) -> list[Value]: ...

    @overload
    def value(self, tensor: Any) -> Value: ...

    def value(self, tensor: Any) -> Any:
        """The value of a tensor of the model, which becomes a constant or a fill if it is known; others unchanged."""
        if isinstance(tensor, (list, tuple)):
            return [self.value(each) for each in tensor]
        if not isinstance(tensor, Tensor):
            return tensor
        if tensor.made is None:
            tensor.made = self._source(tensor)
        return tensor.made

    def _source(self, tensor: Tensor) -> Value:
        if isinstance(tensor, TensorList):
            raise Refusal("a sequence of tensors is given", code="kind", allowed="a tensor")
        if 0 in tensor.shape:
            raise Refusal("a tensor without elements has no counterpart", code="empty-tensor", got=list(tensor.shape))
        dtype = stored(tensor.dtype)
        if tensor.counted is not None and tensor.known is not None:
            return tensor.counted.value(self, tensor.known)
        if tensor.make is not None:
            label = tensor.name or self.label
            self._names.keep(label)
            return tensor.make(Calls(self._graph, self._names, label))
        assert tensor.known is not None
        known = tensor.known
        is_fill = tensor.count > 1 and not any(known.strides)

        def make(name: str) -> Value:
            if is_fill:
                first = known.flat[0]  # ravel would copy all of it
                number = first.item() if known.dtype.kind in "iuf" else float(first)
                return self._graph.fill_value_constant(sizes=tensor.sizes, dtype=dtype, value=number, name=name)
            array = known.astype(np.uint8) if tensor.dtype == BOOL else known
            return self._graph.constant(name, array.reshape(tensor.sizes), dtype=dtype)

        return self.named(self._names.take_weight, tensor.name or f"{self.label}_constant", make)

    def index(self, tensor: Tensor) -> Value:
        """The value of indices, with 32 bits where they are known to fit."""
        is_fixed = tensor.known is not None and tensor.counted is None
        if is_fixed and tensor.known is not None and tensor.dtype == INT64 and 0 not in tensor.shape:
            wide = tensor.known if any(tensor.known.strides) else tensor.known.flat[:1]  # a fill is looked at once
            narrow = wide.astype(np.int32)
            if (narrow == wide).all():
                narrow = narrow if wide is tensor.known else np.broadcast_to(narrow.reshape(()), tensor.shape)
                tensor = Tensor.of(narrow, name=tensor.name)
        return self.value(tensor)

    @property
    def level(self) -> FeatureLevel:
        """The feature level at which the nodes must be legal."""
        return self._graph.level

    @property
    def fingerprint(self) -> int:
        """A number of 32 bits that tells the node from others: from its label and its place in the graph."""
        return zlib.crc32(f"{self.label} {len(self._graph.nodes)}".encode())

    # Views: only where something changes.

    def reshaped(self, x: Tensor | Value, sizes: Sequence[int]) -> Value:
        """The elements in row-major order with other sizes."""
        value = self.value(x)
        if len(sizes) > MAX_RANK:
            raise Refusal("a tensor has at most 8 dimensions", code="rank", got=list(sizes))
        if value.sizes == tuple(sizes):
            return value
        return self.reshape(value, sizes=list(sizes))

    def transposed(self, x: Tensor | Value, permutation: Sequence[int]) -> Value:
        """The dimensions in another order."""
        value = self.value(x)
        if list(permutation) == list(range(len(permutation))):
            return value
        return self.transpose(value, permutation=list(permutation))

    def expanded(self, x: Tensor | Value, sizes: Sequence[int]) -> Value:
        """Broadcast to sizes of at least as many dimensions."""
        value = self.value(x)
        if value.sizes == tuple(sizes):
            return value
        return self.broadcast_to(value, sizes=list(sizes))

    def converted(self, x: Tensor | Value, dtype: DataType | str) -> Value:
        """With another data type."""
        value = self.value(x)
        wanted = DataType.parse(dtype)
        if value.dtype is wanted:
            return value
        return self.cast(value, dtype=wanted)


def resolve_conversions(convert: Mapping[str, str] | None) -> dict[np.dtype[Any], np.dtype[Any]]:
    """The types to convert, by type; see `dmlgraph.formats.onnx.load`."""
    return {parse_dtype(given): parse_dtype(wanted) for given, wanted in (convert or {}).items()}


Fields = dict[str, Any]


def _same_for_floats(x: Value, fields: Fields) -> Fields | None:
    """The newer version has a bound or a value of the tensor's type, the earlier one a float32."""
    return fields if x.dtype.is_float else None


def _without_gaps(_: Value, fields: Fields) -> Fields | None:
    rest = {name: each for name, each in fields.items() if name != "dilations"}
    return rest if all(each == 1 for each in fields.get("dilations", ())) else None


def _to_the_nearest(x: Value, fields: Fields) -> Fields | None:
    """RESAMPLE1 takes the nearest element, at halves the latter: half an element further on, that is rounding down."""
    rest = {name: each for name, each in fields.items() if name != "rounding_direction"}
    if fields["interpolation_mode"] == "linear":
        return rest
    if fields["rounding_direction"] != "decreasing" or not x.dtype.is_float:
        return None
    return rest | {"input_pixel_offsets": [each + 0.5 for each in fields["input_pixel_offsets"]]}


# The newer function → the earlier one, and a function that makes its fields of a tensor and the newer one's fields, or
# returns None where it would compute something else.
_EARLIER: dict[str, tuple[str, Callable[[Value, Fields], Fields | None]]] = {
    "average_pooling1": ("average_pooling", _without_gaps),
    "clip1": ("clip", _same_for_floats),
    "lp_pooling1": ("lp_pooling", _without_gaps),
    "padding1": ("padding", _same_for_floats),
    "resample2": ("resample1", _to_the_nearest),
}


def has(level: FeatureLevel, function: str) -> bool:
    """Whether a level has the operator of a function."""
    operator = find(function)
    return operator is None or operator.support().introduced <= level


def at_level(level: FeatureLevel, function: str, x: Any, fields: Fields) -> tuple[str, Fields]:
    """The function and fields for a tensor at a level; unchanged where the level has it, or no earlier one serves."""
    if function not in _EARLIER or has(level, function) or not isinstance(x, Value):
        return function, fields
    earlier, adapt = _EARLIER[function]
    found = adapt(x, fields)
    return (function, fields) if found is None else (earlier, found)
