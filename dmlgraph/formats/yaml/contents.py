"""The content of a tensor as a test beside a graph gives it: a value, a sequence, numbers, a file, or random numbers.

    x: {value: 1}          x: {sequence: {start: 3, delta: 2}}          x: {data: [1, 2, 3]}
    x: {file: x.npy}       x: {random: {seed: 0, low: -1, high: 1}}

Data type and sizes are those of the input or output.  Numbers other than those of `data` may be expressions over dims.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from dmlgraph.base.errors import GraphError, Problem, listing, suggestion
from dmlgraph.base.random_arrays import SEED, random_array
from dmlgraph.base.report import Report
from dmlgraph.base.scalar import Scalar
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.formats.arrays import Array, Folder, from_numbers, from_stored, load_file
from dmlgraph.formats.text_tree.keys import known_keys
from dmlgraph.formats.text_tree.tree import Tree
from dmlgraph.graph.dims import Dims
from dmlgraph.operators.fill import FillValueSequence

EXAMPLE = "such as {value: 1}, {data: [1, 2]}, {file: x.npy} or {random: {seed: 0}}"


@dataclasses.dataclass(frozen=True, slots=True)
class Content:
    """The content of a tensor.

    Attributes:
        kind: the key of its mapping, one of `KINDS`.
        tree: the mapping.
        field: its path in the document.
        folder: of the document; None if it has none.
    """

    kind: str
    tree: Tree
    field: str
    folder: Folder

    def array(self, desc: TensorDesc, dims: Mapping[str, int], name: str = "") -> Array:
        """The array of a tensor of this description; `name` tells random inputs of a test from each other.

        Raises:
            GraphError: the content does not fit the tensor, or its file cannot be read.
        """
        with placing(self.tree, self.field):
            return _MAKERS[self.kind](self, _Tensor(desc, dims, name))

    def check(self, desc: TensorDesc, dims: Mapping[str, int]) -> None:
        """Checks whether the content fits a tensor, without making it, and without a look at files.

        Raises:
            GraphError: it does not.
        """
        if self.kind == "data":
            self.array(desc, dims)
        elif self.kind != "file":
            self.array(TensorDesc(dtype=desc.dtype, sizes=(1,)), dims)

    @property
    def file(self) -> Any:
        """The name of its file, as it is written; None if it has no file."""
        return self.tree.value["file"].plain if self.kind == "file" else None

    def stored(self) -> Array:
        """The array of its file, as it lies there.

        Raises:
            GraphError: it cannot be read.
        """
        with placing(self.tree, self.field):
            return load_file(self.file, self.folder)

    def numbers(self, dims: Mapping[str, int], defaults: Mapping[str, Any]) -> list[Any]:
        """The numbers of a mapping such as {start: 3, delta: 2}, in the order of their defaults."""
        given = self.tree.value[self.kind].plain or {}
        return [self.number(given.get(key, default), f"{self.kind}.{key}", dims) for key, default in defaults.items()]

    def number(self, given: Any, field: str, dims: Mapping[str, int]) -> Any:
        """A number, which may be given as an expression over dims."""
        with Report(GraphError) as report:
            return Dims(dims).resolve(given, field, report, whole=False)


def placing(tree: Tree, field: str) -> Report:
    """A report that places problems in a content: a tree that is at a field of the document."""

    def place(problem: Problem) -> Problem:
        return dataclasses.replace(problem.within(field), location=tree.find(problem.field).location)

    return Report(GraphError, place=place)


class _Tensor(NamedTuple):
    """What a content is made for: a tensor, the dims of the graph, and the tensor's name."""

    desc: TensorDesc
    dims: Mapping[str, int]
    name: str


def _scalar(number: Any, dtype: DataType, field: str) -> Scalar:
    with Report(field=field):
        return Scalar.of(number, dtype)


def _value(content: Content, tensor: _Tensor) -> Array:
    number = content.number(content.tree.value["value"].plain, "value", tensor.dims)
    return np.full(tensor.desc.sizes, _scalar(number, tensor.desc.dtype, "value").value, tensor.desc.dtype.numpy)


def _sequence(content: Content, tensor: _Tensor) -> Array:
    """The elements as FILL_VALUE_SEQUENCE computes them; 4-bit integers wrap, too."""
    dtype = tensor.desc.dtype
    start, delta = content.numbers(tensor.dims, {"start": 0, "delta": 1})
    for field, number in (("sequence.start", start), ("sequence.delta", delta)):
        _scalar(number, dtype, field)
    wide = dtype if dtype.bits != 4 else DataType.INT8 if dtype.is_signed else DataType.UINT8
    output = TensorDesc(dtype=wide, sizes=tensor.desc.sizes)
    (array,) = FillValueSequence(output=output, value_start=start, value_delta=delta).evaluate()
    if dtype.bits == 4:
        array = ((array & 15) ^ 8) - 8 if dtype.is_signed else array & 15
    return array.astype(dtype.numpy)


def _data(content: Content, tensor: _Tensor) -> Array:
    return from_numbers(content.tree.value["data"], tensor.desc)


def _file(content: Content, tensor: _Tensor) -> Array:
    array = from_stored(load_file(content.file, content.folder), tensor.desc.dtype)
    for what, code, found, wanted in (
        ("data type", "dtype", str(array.dtype), str(tensor.desc.dtype)),
        ("shape", "sizes", list(array.shape), list(tensor.desc.sizes)),
    ):
        if found != wanted:
            message = f"the file '{content.file}' holds another {what}"
            raise GraphError(message, code=code, field="file", got=found, allowed=str(wanted))
    return array


def _random(content: Content, tensor: _Tensor) -> Array:
    seed, low, high = content.numbers(tensor.dims, {"seed": SEED, "low": None, "high": None})
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise GraphError("must be a whole number of at least 0", code="range", field="random.seed", got=seed)
    if low is None and high is None:
        return random_array(tensor.desc, tensor.name, seed)
    for field, number in (("low", low), ("high", high)):
        if number is None:
            raise GraphError(
                "must be given, too", code="missing", field=f"random.{field}", hint="without both, floats are normal"
            )
        value = _scalar(number, tensor.desc.dtype, f"random.{field}").value
        if not math.isfinite(value):
            raise GraphError("must be finite", code="range", field=f"random.{field}", got=number)
    if not low <= high:
        raise GraphError("is below 'low'", code="range", field="random.high", got=high, allowed=f"at least {low}")
    return random_array(tensor.desc, tensor.name, seed, (low, high))


# What each key of a content makes: the array of a tensor.
_MAKERS: dict[str, Callable[[Content, _Tensor], Array]] = {
    "value": _value,
    "sequence": _sequence,
    "data": _data,
    "file": _file,
    "random": _random,
}
KINDS = tuple(_MAKERS)
_KEYS = {"sequence": ("start", "delta"), "random": ("seed", "low", "high")}  # of the kinds that are mappings


def read_content(tree: Tree, field: str, kinds: tuple[str, ...], folder: Folder, report: Report) -> Content | None:
    """The content in a tree; where it has no content, adds a problem and returns None.

    Args:
        tree: a mapping with one key.
        field: its path in the document.
        kinds: the keys it may have.
        folder: the document's.
        report: gets what is wrong.
    """
    if not isinstance(tree.value, dict):
        report.problem("must be a mapping", tree, "kind", field, got=tree.plain, hint=_hint(tree))
        return None
    unknown = [key for key in tree.value if key not in kinds]
    for key in unknown:
        allowed, hint = listing(kinds), suggestion(key, kinds)
        report.problem(
            "is not known here", tree.keys[key], "unknown-field", f"{field}.{key}", allowed=allowed, hint=hint
        )
    if unknown:
        return None
    if len(tree.value) != 1:
        what = "the content is missing" if not tree.value else "a tensor has one content"
        code = "conflict" if tree.value else "missing"
        report.problem(what, tree, code, field, got=list(tree.value) or None, allowed=f"one of {listing(kinds)}")
        return None
    ((kind, item),) = tree.value.items()
    if kind in _KEYS:
        path = f"{field}.{kind}"
        if not isinstance(item.value, dict | None):
            example = f"such as {{{kind}: {{{', '.join(f'{key}: 1' for key in _KEYS[kind][:2])}}}}}"
            report.problem("must be a mapping", item, "kind", path, got=item.plain, hint=example)
            return None
        if item.value is not None:
            checked = known_keys(item, _KEYS[kind], report, within=path)
            if checked is not item:
                tree = tree.copy()
                tree.value[kind] = checked
    return Content(kind, tree, field, folder)


def _hint(tree: Tree) -> str:
    if isinstance(tree.value, (int, float)):
        return f"for this number everywhere: {{value: {tree.value}}}"
    return f"for these numbers: {{data: {tree.plain}}}" if isinstance(tree.value, list) else EXAMPLE
