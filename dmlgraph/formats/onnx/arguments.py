"""What the inputs of a model become: inputs of the graph with the sizes given for dims, or given values."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import onnx_ir as ir

from dmlgraph.base.errors import ModelError, Problem, listing, suggestion
from dmlgraph.formats.onnx.names import as_text
from dmlgraph.formats.onnx.refusals import DATA, Refusal
from dmlgraph.formats.onnx.tensors import Array, Tensor, parse_dtype, type_name

MOST = 2**32 - 1  # the size of a dim
MOST_GIVEN = 4096  # elements of an input that a hint names to be given as a value
STAND_IN = 1  # the size of a dim that is not given, while what else is missing is looked for


class OpenDim(NamedTuple):
    """A dim whose size the model leaves open.

    Attributes:
        place: `x[0]`: the first dim of `x`.  `dims` may give its size; it comes before the name.
        name: in the model, which may give it to several dims; the place where it has none.
    """

    place: str
    name: str

    def __str__(self) -> str:
        return self.name


class Arguments:
    """The sizes and values given for the inputs of a model.

    Args:
        graph: the model's.
        dims, values: as in `dmlgraph.formats.onnx.load`.
        converted: the type in place of a type.
        states: inputs that are states; initializers of theirs are what these hold at first.

    Raises:
        ModelError: the dims are not sizes by name.
    """

    def __init__(
        self,
        graph: ir.Graph,
        dims: Mapping[str, int],
        values: Mapping[str, Any],
        converted: Callable[[np.dtype[Any]], np.dtype[Any]],
        states: Collection[ir.Value] = (),
    ) -> None:
        _check_dims(dims)
        self.graph, self.dims, self.values, self.converted = graph, dict(dims), dict(values), converted
        self.inputs = [each for each in graph.inputs if each in states or each.name not in graph.initializers]

    def unknown(self) -> Iterator[Problem]:
        """Problems: values for no input, and sizes for no dim."""
        names = {as_text(each.name): each for each in self.graph.inputs}
        for name in self.values.keys() - names.keys():
            yield Problem(
                "is not an input of the model",
                field=f"values.{name}",
                allowed=listing(names),
                hint=suggestion(name, names),
                code="unknown-array",
            )
        opened = [dim for each in self.inputs for dim in dims_of(each) if isinstance(dim, OpenDim)]
        known = {dim.name for dim in opened}
        for dim in self.dims.keys() - known - {dim.place for dim in opened}:
            yield Problem(
                "no input of the model has this dim",
                field=f"dims.{dim}",
                allowed=listing(sorted(known)) or "nothing: all sizes are numbers",
                code="unknown-dim",
            )

    def tensor(self, value: ir.Value) -> tuple[Tensor, list[str]]:
        """An input as a tensor, and its dims whose sizes are not given: they have the size STAND_IN.

        The tensor has the given value, if one is given or if it has no elements; otherwise it is not yet in the graph.

        Raises:
            Refusal: it cannot be an input, or the given value does not fit.
        """
        name = as_text(value.name)
        if not isinstance(value.type, ir.TensorType) or value.dtype is None:
            kind = "no type" if value.type is None else type(value.type).__name__.removesuffix("Type").lower()
            raise Refusal("only tensors can be inputs", got=kind)
        dtype = self.converted(parse_dtype(value.dtype.name.lower()))
        if name in self.values:
            return Tensor.of(self._given(value, _as_type(self.values[name], dtype)), name=name), []
        if value.shape is None:
            raise Refusal("the model does not say how many dimensions the input has", code="undetermined")
        sizes = self._sizes(value)
        shape = tuple(STAND_IN if size is None else size for size in sizes)
        if 0 in shape:  # nothing of it is left to be given: an empty past, for example
            if math.prod(size for size in shape if size) > MOST:
                raise Refusal("more than 2^32-1 elements", code="too-large", got=[*shape])
            return Tensor.of(np.empty(shape, dtype), name=name), []
        pairs = zip(dims_of(value), sizes, strict=True)
        missing = list(dict.fromkeys(dim.name for dim, size in pairs if isinstance(dim, OpenDim) and size is None))
        tensor = Tensor(dtype, shape, name=name)
        tensor.depends = frozenset([DATA if _is_data(tensor) else name])
        return tensor, missing

    def _sizes(self, value: ir.Value) -> list[int | None]:
        """The sizes of an input; None where the model leaves one open and none is given."""
        return [
            self.dims.get(dim.place, self.dims.get(dim.name)) if isinstance(dim, OpenDim) else dim
            for dim in dims_of(value)
        ]

    def _given(self, value: ir.Value, array: Array) -> Array:
        """The given value of an input, in its shape; one number stands for a shape of one element.

        Raises:
            Refusal: it has another shape.
        """
        if value.shape is None:
            return array
        sizes = self._sizes(value)
        if array.ndim == 0 and all(size in (1, None) for size in sizes):
            array = array.reshape([1] * len(sizes))
        if len(sizes) != array.ndim or any(
            size not in (None, real) for size, real in zip(sizes, array.shape, strict=True)
        ):
            allowed = f"[{', '.join(map(str, dims_of(value)))}]"
            raise Refusal("the given value has another shape", code="sizes", got=list(array.shape), allowed=allowed)
        return array


def _check_dims(dims: object) -> None:
    """Refuses what is not a mapping from names to sizes; 0 is a size, of an input that is then empty."""
    if not isinstance(dims, Mapping):
        hint = 'such as {"batch": 8}'
        raise ModelError("must be a mapping from names to sizes", code="kind", field="dims", got=dims, hint=hint)
    problems = [
        Problem("must be a whole number", code="range", field=f"dims.{dim}", got=size, allowed=f"0 to {MOST}")
        for dim, size in dims.items()
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or not 0 <= size <= MOST
    ]
    if problems:
        raise ModelError(problems)


def _is_data(tensor: Tensor) -> bool:
    """Whether an input is rather an image or the like than a shape, a condition or a few numbers."""
    return tensor.count > MOST_GIVEN or (tensor.is_float and tensor.rank > 2)


def dims_of(value: ir.Value) -> list[int | OpenDim]:
    """The sizes of an input; open are those with a name, without a number, or below 0."""
    found: list[int | OpenDim] = []
    for axis, size in enumerate(value.shape or ()):
        if isinstance(size, int) and size >= 0:
            found.append(size)
            continue
        place, name = f"{as_text(value.name)}[{axis}]", None if isinstance(size, int) else size.value
        found.append(OpenDim(place, place if name in (None, "", "?") else str(name)))
    return found


def not_given(dims: Sequence[str]) -> Refusal:
    """The refusal of an input some of whose dims have no sizes."""
    options = " ".join(f"--dim {shlex.quote(dim)}=1" for dim in dims)
    hint = f"dims={{{', '.join(f'{dim!r}: 1' for dim in dims)}}}, {options}"
    return Refusal("the sizes of dims are not given", code="undetermined", got=listing(dims), hint=hint)


def _as_type(value: Any, dtype: np.dtype[Any]) -> Array:
    """A given value as an array of the input's type.

    Raises:
        Refusal: the type cannot hold it.
    """
    array = np.asarray(value)
    if array.dtype == dtype:
        return array
    if array.dtype == ml_dtypes.bfloat16:
        array = array.astype(np.float32)
    if array.dtype.kind in "biuf":
        with np.errstate(all="ignore"):
            same = array.astype(dtype)
        if np.array_equal(same, array, equal_nan=array.dtype.kind == "f") or same.dtype.kind == "f":
            return same
    raise Refusal("the type of the input cannot hold the values", code="does-not-fit", got=type_name(dtype))
