"""Constants of a document: numbers written in it, or a .npy file in its folder."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from dmlgraph.document.tree import Tree
from dmlgraph.errors import DmlGraphError, GraphError, ScalarError
from dmlgraph.scalar import Scalar
from dmlgraph.tensor import DataType, TensorDesc

Array = np.ndarray[Any, Any]


def load_file(name: object, folder: pathlib.Path | None) -> Array:
    """The array in a .npy file; nothing in it is ever unpickled.

    Args:
        name: the path as the document has it.
        folder: the document's; files outside it are refused.  None: the document has no folder.

    Raises:
        GraphError: with the field `file`, saying what to do.
    """
    if not isinstance(name, str) or not name:
        raise GraphError("must be the path of a .npy file", field="file", got=name)
    if folder is None:
        raise GraphError("a document that is not a file has no folder to find files in", field="file", got=name)
    path = folder / name
    home = folder.resolve()
    if pathlib.PurePath(name).is_absolute() or not path.resolve().is_relative_to(home):
        raise GraphError(
            "lies outside the document's folder",
            field="file",
            got=name,
            allowed="a path relative to the document, inside its folder",
        )
    try:
        array = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise GraphError("there is no such file", field="file", got=name, hint=f"looked in {folder or '.'}") from None
    except OSError as error:
        raise GraphError(f"cannot be read: {error.strerror or error}", field="file", got=name) from None
    except (ValueError, EOFError) as error:
        if "allow_pickle" in str(error) or "Object arrays" in str(error):
            raise GraphError(
                "holds Python objects, which are never loaded",
                field="file",
                got=name,
                hint="save an array of numbers with numpy.save",
            ) from None
        raise GraphError(f"is not a .npy file: {error}", field="file", got=name) from None
    if not isinstance(array, np.ndarray):
        raise GraphError("is an .npz archive; a .npy file holds one array", field="file", got=name)
    return np.ascontiguousarray(array, array.dtype.newbyteorder("=")) if array.ndim else array


def check_file(array: Array, dtype: DataType | None, sizes: tuple[int, ...] | None) -> Array:
    """The array of a file, if it is what the document says it is.

    A 4-bit type may lie in a file of its 8-bit kind, since .npy has no 4-bit types.

    Raises:
        GraphError: another data type or shape, or numbers a 4-bit type cannot hold.
    """
    if dtype is not None and dtype.bits == 4 and array.dtype == (np.int8 if dtype.is_signed else np.uint8):
        low, high = dtype.range
        if array.size and not low <= int(array.min()) <= int(array.max()) <= high:
            raise GraphError(f"holds numbers beyond {dtype}", field="file", allowed=f"{low} to {high}")
        array = array.astype(dtype.numpy)
    try:
        found = DataType.parse(array.dtype)
    except DmlGraphError as error:
        raise GraphError(
            "holds a data type DirectML does not have",
            field="file",
            got=str(array.dtype),
            allowed=error.allowed,
        ) from None
    if dtype is not None and found is not dtype:
        raise GraphError(
            "the file holds another data type",
            field="dtype",
            got=str(dtype),
            allowed=f"{found}, as in the file",
        )
    if sizes is not None and array.shape != sizes:
        raise GraphError(
            "the file holds another shape",
            field="sizes",
            got=list(sizes),
            allowed=f"{list(array.shape)}, as in the file",
        )
    return array


def from_numbers(data: Tree, desc: TensorDesc) -> Array:
    """The array written as a flat list of numbers, row-major, or as lists in lists.

    Raises:
        GraphError: with the field of the offending number, or for a wrong count.
    """
    if not isinstance(data.value, list):
        raise GraphError("must be a list of numbers", field="data", got=data.plain)
    bits = []
    for path, number in _numbers(data, "data"):
        try:
            bits.append(Scalar.of(number, desc.dtype).bits)
        except ScalarError as error:
            raise GraphError(problem.within(path) for problem in error.problems) from None
    if len(bits) != desc.element_count:
        raise GraphError(
            "the data does not fill the sizes",
            field="data",
            got=f"{len(bits)} numbers",
            allowed=f"{desc.element_count}, for {list(desc.sizes)}",
        )
    nested = any(isinstance(item.value, list) for item in data.value)
    if nested and _shape(data) != desc.sizes:
        raise GraphError(
            "the nested lists have another shape",
            field="data",
            got=list(_shape(data) or ()),
            allowed=str(list(desc.sizes)),
        )
    if desc.dtype.bits == 4:
        values = [Scalar(desc.dtype, each).value for each in bits]
        return np.array(values, desc.dtype.numpy).reshape(desc.sizes)
    unsigned = np.array(bits, f"u{desc.dtype.bits // 8}")
    return unsigned.view(desc.dtype.numpy).reshape(desc.sizes)


def _numbers(tree: Tree, path: str) -> Iterator[tuple[str, Any]]:
    for index, item in enumerate(tree.value):
        if isinstance(item.value, list):
            yield from _numbers(item, f"{path}.{index}")
        else:
            yield f"{path}.{index}", item.plain


def _shape(tree: Tree) -> tuple[int, ...] | None:
    """The shape of lists in lists; None where they are not of one length."""
    if not isinstance(tree.value, list):
        return ()
    shapes = {_shape(item) for item in tree.value}
    inner = shapes.pop() if len(shapes) == 1 else None
    return None if inner is None else (len(tree.value), *inner)
