"""Resources of a model → the content of buffers before the first command."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from dmlgraph.base.errors import OperatorError, Problem, plural
from dmlgraph.base.report import MOST_PROBLEMS, Report
from dmlgraph.base.scalar import Scalar
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.files.folders import find_file
from dmlgraph.files.untrusted import read_file, reason
from dmlgraph.formats.arrays import converted, load_file
from dmlgraph.formats.dxdispatch.descs import at, number, read_tensor
from dmlgraph.formats.dxdispatch.names import DATA_TYPE, enumerator
from dmlgraph.formats.text_tree.tree import Tree

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

MAX_COUNT = 2**32 - 1  # of values
_TYPES = {dtype.name: dtype for dtype in DataType if dtype.bits >= 8}  # the runner has no 4-bit numbers
_IMAGES = (".png", ".jpg", ".jpeg")
# The keys that tell the kinds of initial values apart.
_KINDS = ("value", "valueStart", "sourcePath")
_NO_INITIALIZER = "is not an initialiser"


@dataclasses.dataclass(frozen=True, slots=True)
class Buffer:
    """A resource.

    Attributes:
        dtype: of the initial values; None where they have no common type.
        size: in bytes; None: as many as needed (a deferred buffer).
        is_blank: whether the model only reserves memory: a deferred buffer, or one filled with the constant zero.
        offset: of the initial values, in bytes.
        length: of the initial values, in bytes.
        tensor: the buffer's tensor, from a member of ours that the runner ignores: readers with zero strides do not
            show the sizes of the value.
        make: n → the first n bytes of the initial values, n ≤ length; called only on reading, because they may be many.
    """

    dtype: DataType | None
    size: int | None
    is_blank: bool
    offset: int
    length: int
    make: Callable[[int], Bytes]
    tensor: TensorDesc | None = None

    def content(self, start: int, stop: int) -> Bytes:
        """The bytes from `start` to `stop`; zero outside the initial values."""
        whole = np.zeros(stop, np.uint8)
        initial = max(0, min(self.length, stop - self.offset))
        whole[self.offset : self.offset + initial] = self.make(initial)
        return whole[start:]


def read_buffer(tree: Tree, folder: pathlib.Path | None) -> Buffer:
    """A buffer and its initial values: an array, a constant, a sequence, a file, or values of mixed types.

    Args:
        tree: the resource's object.
        folder: the only folder for files; None: no files.

    Raises:
        OperatorError: every problem; fields are paths in the object.
        GraphError: a file cannot be used.
    """
    if not isinstance(tree.value, dict):
        raise OperatorError("must be an object", code="kind", got=tree.plain, hint='such as {"initialValues": […], …}')
    initial = tree.value.get("initialValues")
    if initial is None:
        raise OperatorError("must be given", code="missing", field="initialValues")
    dtype = _data_type(tree.value.get("initialValuesDataType"), "initialValuesDataType")
    if initial.value == "deferred":
        return Buffer(dtype, None, True, 0, 0, lambda count: np.zeros(count, np.uint8))
    with at("initialValues"):
        dtype, is_zero, length, make = _initial(initial, dtype, folder)
    offset = _integer(tree, "initialValuesOffsetInBytes", 0)
    size = _integer(tree, "sizeInBytes", length + 3 & ~3)
    if offset + length > size:
        raise OperatorError(
            "is too small for the initial values",
            code="sizes",
            field="sizeInBytes" if "sizeInBytes" in tree.value else "initialValuesOffsetInBytes",
            got=size if "sizeInBytes" in tree.value else offset,
            allowed=f"{plural(length, 'byte')} of values at offset {offset} need a size of {offset + length} or more",
        )
    return Buffer(dtype, size, is_zero, offset, length, make, _tensor(tree, size))


def _tensor(tree: Tree, size: int) -> TensorDesc | None:
    if "tensor" not in tree.value:
        return None
    with at("tensor"):
        desc = read_tensor(tree.value["tensor"])
        if desc.total_bytes > size:
            raise OperatorError(
                "needs more than the buffer has", code="too-large", got=desc.total_bytes, allowed=f"{size} bytes"
            )
        return desc


_Initial = tuple[DataType | None, bool, int, Callable[[int], Bytes]]  # type, is_blank, length, make


def _initial(tree: Tree, dtype: DataType | None, folder: pathlib.Path | None) -> _Initial:
    if isinstance(tree.value, list):
        if not tree.value:
            raise OperatorError("must hold at least one value", code="range", got=[])
        return _known(dtype, _mixed(tree) if dtype is None else _array(tree, dtype))
    kinds = [kind for kind in _KINDS if isinstance(tree.value, dict) and kind in tree.value]
    if len(kinds) != 1:
        message = _NO_INITIALIZER if not kinds else "is more than one initialiser"
        allowed = 'a list, {"value", "valueCount"}, {"valueStart", "valueDelta", "valueCount"} or {"sourcePath"}'
        raise OperatorError(message, code="kind", got=tree.plain, allowed=allowed)
    if kinds == ["sourcePath"]:
        return _file(tree, dtype, folder)
    if dtype is None:
        raise OperatorError(f"needs an initialValuesDataType: one of {DATA_TYPE}", code="missing", got=tree.plain)
    count = _integer(tree, "valueCount", None, least=1)
    itemsize = dtype.bits // 8
    first = _scalar(tree, kinds[0], dtype)
    if kinds == ["value"]:
        return (
            dtype,
            first.bits == 0,
            count * itemsize,
            lambda size: _first(np.full(-(-size // itemsize), first.value), size),
        )
    delta = _scalar(tree, "valueDelta", dtype)
    return dtype, False, count * itemsize, lambda size: _first(sequence(first, delta, -(-size // itemsize)), size)


def sequence(first: Scalar, delta: Scalar, count: int) -> np.ndarray[Any, Any]:
    """`first`, then each element is the previous one plus `delta`, rounded: the runner accumulates."""
    values = np.full(count, delta.value)
    values[:1] = first.value
    with np.errstate(all="ignore"):
        return np.add.accumulate(values, dtype=first.dtype.numpy)


def _first(values: np.ndarray[Any, Any], size: int) -> Bytes:
    return values.view(np.uint8)[:size]


def _known(dtype: DataType | None, content: Bytes) -> _Initial:
    return dtype, False, len(content), lambda size: content[:size]


def _array(tree: Tree, dtype: DataType) -> Bytes:
    array = converted([number(item) for item in tree.value], dtype)
    if array is not None:
        return array.view(np.uint8)
    bits = bytearray()
    _each(tree, lambda item: bits.extend(_bits(item, dtype)))
    return np.frombuffer(bytes(bits), np.uint8)


def _mixed(tree: Tree) -> Bytes:
    """Values with a type each: `{"type": "UINT32", "value": 42}`."""
    bits = bytearray()
    _each(tree, lambda item: bits.extend(_typed(item)))
    return np.frombuffer(bytes(bits), np.uint8)


def _each(tree: Tree, read: Callable[[Tree], None]) -> None:
    """Reads each item of a list; OperatorError with the problems of all of them."""
    with Report(OperatorError) as report:
        for index, item in enumerate(tree.value):
            with report.at(field=str(index)):
                read(item)
            if len(report.problems) > MOST_PROBLEMS:
                report.stop()


def _typed(tree: Tree) -> bytes:
    """The bytes of one value with its type."""
    if not isinstance(tree.value, dict):
        hint = 'such as {"type": "FLOAT32", "value": 1}; or give initialValuesDataType'
        raise OperatorError("must be an object", code="kind", got=tree.plain, hint=hint)
    missing = [
        Problem("must be given", code="missing", field=key) for key in ("type", "value") if key not in tree.value
    ]
    if missing:
        raise OperatorError(missing)
    dtype = _data_type(tree.value["type"], "type")
    if dtype is None:
        raise OperatorError("must be known", code="missing", field="type", got=tree.value["type"].plain)
    with at("value"):
        return _bits(tree.value["value"], dtype)


def _file(tree: Tree, dtype: DataType | None, folder: pathlib.Path | None) -> _Initial:
    """The numbers of a .npy file, or the bytes of another file."""
    name = tree.value["sourcePath"].plain
    path = name.replace("\\", "/") if isinstance(name, str) else name  # models are written on Windows
    suffix = pathlib.PurePosixPath(path).suffix.lower() if isinstance(path, str) else ""
    if suffix in _IMAGES:
        raise OperatorError(
            "pictures are not read", code="unsupported", field="sourcePath", got=name, hint="save its pixels as .npy"
        )
    with Report(OperatorError, place=_of_source):
        try:
            if suffix != ".npy":
                source = find_file(path, folder)
                if dtype is None:
                    raise OperatorError("needs an initialValuesDataType", code="missing", got=name)
                content = np.frombuffer(read_file(source), np.uint8)
            else:
                array = load_file(path, folder)
                found = DataType.parse(array.dtype)
                if dtype not in (None, found):
                    raise OperatorError("the file holds another data type", code="dtype", got=name, allowed=str(dtype))
                dtype, content = found, np.frombuffer(array.tobytes(), np.uint8)
        except OSError as error:
            raise OperatorError(f"cannot be read: {reason(error)}", code="unreadable", got=name) from None
        if not len(content):
            raise OperatorError("the file is empty", code="empty-file", got=name)
    return _known(dtype, content)


def _of_source(problem: Problem) -> Problem:
    """A problem of a file, with the field that names the file."""
    return dataclasses.replace(problem, field="sourcePath")


def _data_type(tree: Tree | None, field: str) -> DataType | None:
    """A data type; None if it is not given or UNKNOWN."""
    if tree is None:
        return None
    with at(field):
        return _TYPES.get(enumerator(tree.plain, DATA_TYPE, ["UNKNOWN", *_TYPES]))


def _integer(tree: Tree, field: str, default: int | None, least: int = 0) -> int:
    value = tree.value[field].plain if field in tree.value else default
    if value is None:
        raise OperatorError("must be given", code="missing", field=field)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MAX_COUNT:
        raise OperatorError(
            "must be a whole number", code="kind", field=field, got=value, allowed=f"{least} to {MAX_COUNT}"
        )
    return value


def _scalar(tree: Tree, field: str, dtype: DataType) -> Scalar:
    if field not in tree.value:
        raise OperatorError("must be given", code="missing", field=field)
    with at(field):
        return Scalar.of(number(tree.value[field]), dtype)


def _bits(tree: Tree, dtype: DataType) -> bytes:
    return Scalar.of(number(tree), dtype).union[: dtype.bits // 8]
