"""Constants of a document: numbers in the document, or a .npy file in its folder."""

from __future__ import annotations

import dataclasses
import math
import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import numpy as np

from dmlgraph.base.errors import (
    DmlGraphError,
    GraphError,
    plural,
    shorten,
)
from dmlgraph.base.memory import enough_memory
from dmlgraph.base.report import MOST_PROBLEMS, Report
from dmlgraph.base.scalar import Scalar
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.files.folders import find_file
from dmlgraph.files.untrusted import open_file, reason
from dmlgraph.formats.text_tree.tree import Tree

Array = np.ndarray[Any, Any]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class InMemory:
    """The .npy files of a document that has no folder, as arrays by name."""

    arrays: Mapping[str, Array]


INLINE_ELEMENTS = 64  # constants with more elements go into .npy files
Folder = pathlib.Path | InMemory | None  # what holds a document's files

# By version; the third differs from the second only for arrays that do not hold numbers.
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def read_array(path: str | pathlib.Path) -> Array:
    """The array in a .npy file, in this machine's byte order.  Never unpickles anything.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is wrong; says how, as a phrase.
        NotEnoughMemoryError: the array does not fit in memory.
    """
    with open_file(path) as stream, enough_memory(f"read '{path}'"):
        return array_in(stream)


def array_in(stream: BinaryIO) -> Array:
    """The array in a .npy file that is open, or in memory; the errors are those of `read_array`."""
    magic = stream.read(len(np.lib.format.MAGIC_PREFIX))
    if not magic:
        raise ValueError("is empty; a .npy file holds an array")
    if magic.startswith(b"PK"):
        raise ValueError("is an .npz archive; a .npy file holds one array")
    if magic != np.lib.format.MAGIC_PREFIX:
        raise ValueError("is not a .npy file")
    stream.seek(0)
    try:
        _check_length(stream)
        array = np.asarray(np.lib.format.read_array(stream, allow_pickle=False))
    except MemoryError:
        raise
    except Exception as error:  # NumPy raises many kinds of errors for a broken header
        if "Object arrays" in str(error):
            raise ValueError("holds Python objects, which are never loaded") from None
        raise ValueError(f"is a broken .npy file: {shorten(str(error))}") from None
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _check_length(stream: BinaryIO) -> None:
    """Refuses a file that is shorter than its header says, before memory is allocated for it."""
    header = _HEADERS.get(np.lib.format.read_magic(stream))
    if header is not None:
        try:
            shape, _, dtype = header(stream)
        except (MemoryError, RecursionError):  # of Python's parser
            raise ValueError("its header is nested too deeply") from None
        if any(size < 0 for size in shape):  # some versions of NumPy read it as an empty array
            raise ValueError(f"its shape {shape} has a negative size")
        whole = stream.tell() + math.prod(shape) * dtype.itemsize
        there = stream.seek(0, os.SEEK_END)
        if there < whole and not dtype.hasobject:
            raise ValueError(f"it has {there} bytes, but its header says {whole}")
    stream.seek(0)


def load_file(name: object, folder: Folder) -> Array:
    """The array in a .npy file.  Never unpickles anything.

    Args:
        name: the path in the document.
        folder: the document's folder; files outside it are refused.  None: the document has no folder.

    Raises:
        GraphError: the file cannot be used; its field is `file`, and its hint says what to do.
    """
    if isinstance(folder, InMemory) and name in folder.arrays:
        return folder.arrays[str(name)]
    path = find_file(name, folder)
    with Report(field="file"):
        try:
            array = read_array(path)
        except OSError as error:
            raise GraphError(f"cannot be read: {reason(error)}", code="unreadable", got=name) from None
        except ValueError as error:
            hint = "save an array of numbers with numpy.save"
            raise GraphError(str(error), code="array-file", got=name, hint=hint) from None
    return np.ascontiguousarray(array) if array.ndim else array


def to_stored(array: Array, dtype: DataType) -> Array:
    """The array for a .npy file, which has no 4-bit types: they are stored in the 8-bit type of the same signedness."""
    return array.astype(np.int8 if dtype.is_signed else np.uint8) if dtype.bits == 4 else array


def from_stored(array: Array, dtype: DataType) -> Array:
    """The inverse of `to_stored`; returns arrays of other types unchanged.

    Raises:
        GraphError: the array has numbers that a 4-bit type cannot hold.
    """
    if dtype.bits != 4 or array.dtype != (np.int8 if dtype.is_signed else np.uint8):
        return array
    low, high = dtype.range
    if array.size and not low <= int(array.min()) <= int(array.max()) <= high:
        raise GraphError(f"holds numbers beyond {dtype}", code="does-not-fit", field="file", allowed=f"{low} to {high}")
    return array.astype(dtype.numpy)


def check_file(array: Array, dtype: DataType | None, sizes: tuple[int, ...] | None, name: object) -> Array:
    """The array of the file of this name, if it is as the document says.

    Raises:
        GraphError: it has another data type or shape, or numbers that a 4-bit type cannot hold.
    """
    if dtype is not None:
        array = from_stored(array, dtype)
    try:
        found = DataType.parse(array.dtype)
    except DmlGraphError as error:
        raise GraphError(
            "holds a data type that DirectML does not have",
            code="unknown-dtype",
            field="file",
            got=str(array.dtype),
            allowed=error.allowed,
        ) from None
    if dtype is not None and found is not dtype:
        raise GraphError(
            f"the file '{name}' holds another data type",
            code="dtype",
            field="dtype",
            got=str(dtype),
            allowed=f"{found}, as in the file",
        )
    if sizes is not None and array.shape != sizes:
        raise GraphError(
            f"the file '{name}' holds another shape",
            code="sizes",
            field="sizes",
            got=list(sizes),
            allowed=f"{list(array.shape)}, as in the file",
        )
    return array


def from_numbers(data: Tree, desc: TensorDesc) -> Array:
    """The array of a flat list of numbers in row-major order, or of nested lists.

    Raises:
        GraphError: a number does not fit, with its field, or the count is wrong.
    """
    if not isinstance(data.value, list):
        raise GraphError("must be a list of numbers", code="kind", field="data", got=data.plain)
    numbers = list(_numbers(data))
    array = converted(numbers, desc.dtype)
    if array is None:
        array = _one_by_one(data, desc.dtype)
    if len(numbers) != desc.element_count:
        raise GraphError(
            "the data does not fill the sizes",
            code="sizes",
            field="data",
            got=plural(len(numbers), "number"),
            allowed=f"{desc.element_count}, for {list(desc.sizes)}",
        )
    nested = any(isinstance(item.value, list) for item in data.value)
    if nested and _shape(data) != desc.sizes:
        raise GraphError(
            "the nested lists have another shape",
            code="sizes",
            field="data",
            got=list(shape) if (shape := _shape(data)) else "lists of different lengths",
            allowed=str(list(desc.sizes)),
        )
    return array.reshape(desc.sizes)


def _numbers(tree: Tree) -> Iterator[Any]:
    for item in tree.value:
        if type(item.value) is list:
            yield from _numbers(item)
        else:
            yield item.plain if type(item.value) is dict else item.value


def converted(numbers: list[Any], dtype: DataType) -> Array | None:
    """All numbers at once, as `Scalar.of` converts them one by one; None where the results could differ.

    They cannot differ for integers that an integer type can hold, nor for floats that a double holds exactly, if none
    becomes infinite.
    """
    kinds = set(map(type, numbers))
    if not kinds or not kinds <= {int, float} or dtype.bits == 4:
        return None
    if not dtype.is_float:
        if float in kinds and not all(each.is_integer() for each in numbers if type(each) is float):
            return None
        mask = (1 << dtype.bits) - 1
        if not -(mask + 1) // 2 <= min(numbers) <= max(numbers) <= dtype.range[1]:
            return None
        return np.array([int(each) & mask for each in numbers], f"u{dtype.bits // 8}").view(dtype.numpy)
    if any(type(each) is int and abs(each) > 2**53 for each in numbers):
        return None
    doubles = np.array(numbers, np.float64)
    with np.errstate(all="ignore"):
        rounded = doubles.astype(dtype.numpy)
    return rounded if (np.isinf(rounded) == np.isinf(doubles)).all() else None


def _one_by_one(data: Tree, dtype: DataType) -> Array:
    """The numbers as an array of one dimension.

    Raises:
        GraphError: one problem for each number that the type cannot hold.
    """
    bits: list[int] = []
    with Report(GraphError) as report:
        for path, number in _named_numbers(data, "data"):
            with report.at(field=path):
                bits.append(Scalar.of(number, dtype).bits)
            if len(report.problems) > MOST_PROBLEMS:
                report.stop()
    if dtype.bits == 4:
        return np.array([Scalar(dtype, each).value for each in bits], dtype.numpy)
    return np.array(bits, f"u{dtype.bits // 8}").view(dtype.numpy)


def _named_numbers(tree: Tree, path: str) -> Iterator[tuple[str, Any]]:
    for index, item in enumerate(tree.value):
        if isinstance(item.value, list):
            yield from _named_numbers(item, f"{path}.{index}")
        else:
            yield f"{path}.{index}", item.plain


def _shape(tree: Tree) -> tuple[int, ...] | None:
    """The shape of nested lists; None where their lengths differ."""
    if not isinstance(tree.value, list):
        return ()
    shapes = {_shape(item) for item in tree.value}
    inner = shapes.pop() if len(shapes) == 1 else None
    return None if inner is None else (len(tree.value), *inner)
