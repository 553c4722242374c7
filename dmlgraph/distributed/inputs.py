"""What a graph is run over: a folder of .npy files, or an array in a .npy file, in a Zarr store or in memory.

All machines see files and stores under the same path.  Nothing is ever unpickled.
"""

from __future__ import annotations

import functools
import hashlib
import math
import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dmlgraph.base.errors import BindingError
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.devices.executable import Array
from dmlgraph.distributed.extra import need
from dmlgraph.files.untrusted import reason
from dmlgraph.formats.arrays import from_stored, read_array

Place = Mapping[str, tuple[int, int]] | str  # of a chunk: first and behind the last along dims, or a file in a folder
SUFFIX = ".npy"


Tensor = Any  # an array that can be read in parts: of NumPy, in a file, or of Zarr


class Input:
    """An array for an input of the graph.

    Args:
        name: of the input.
        axes: the dim that each axis is as large as, if any.
        desc: the input's description, of which the data type counts.
    """

    def __init__(self, name: str, axes: tuple[str | None, ...], desc: TensorDesc) -> None:
        self.name, self.axes, self.desc = name, axes, desc

    def opened(self) -> Tensor:
        """The array.

        Raises:
            BindingError: it cannot be read.
        """
        raise NotImplementedError

    def identity(self) -> dict[str, Any]:
        """What tells it from another array: data for a manifest."""
        raise NotImplementedError

    @functools.cached_property
    def _tensor(self) -> Tensor:
        return self.opened()

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._tensor.shape)

    @property
    def dtype(self) -> str:
        return str(self._tensor.dtype)

    @property
    def row_bytes(self) -> int:
        """The bytes of one step along the first axis."""
        return math.prod(self.shape[1:]) * int(self._tensor.dtype.itemsize)

    def read(self, place: Place) -> Array:
        """The part at a place, in the input's data type."""
        assert not isinstance(place, str)
        index = tuple(slice(None) if dim is None or dim not in place else slice(*place[dim]) for dim in self.axes)
        array = np.asarray(self._tensor[index])
        return from_stored(array.astype(array.dtype.newbyteorder("="), copy=False), self.desc.dtype)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "_tensor"}  # each process opens its own


class InMemory(Input):
    """An array in memory, which travels once to each worker."""

    def __init__(self, name: str, axes: tuple[str | None, ...], desc: TensorDesc, array: Any) -> None:
        super().__init__(name, axes, desc)
        self.array = np.asarray(array)

    def opened(self) -> Tensor:
        return self.array

    def identity(self) -> dict[str, Any]:
        return {"shape": list(self.shape), "dtype": self.dtype, "sha256": content(self.array)}


class NpyFile(Input):
    """An array in a .npy file, of which a worker reads what it needs."""

    def __init__(self, name: str, axes: tuple[str | None, ...], desc: TensorDesc, path: pathlib.Path) -> None:
        super().__init__(name, axes, desc)
        self.path = path.absolute()

    def opened(self) -> Tensor:
        try:
            array: Array = np.load(self.path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            said = reason(error) if isinstance(error, OSError) else str(error)
            raise _unreadable(self.name, self.path, said) from None
        return array

    def identity(self) -> dict[str, Any]:
        status = self.path.stat()
        return {
            "shape": list(self.shape),
            "dtype": self.dtype,
            "bytes": status.st_size,
            "modified_ns": status.st_mtime_ns,
        }


class ZarrArray(Input):
    """An array in a Zarr store, of which a worker reads what it needs."""

    def __init__(self, name: str, axes: tuple[str | None, ...], desc: TensorDesc, path: pathlib.Path) -> None:
        super().__init__(name, axes, desc)
        self.path = path.absolute()

    def opened(self) -> Tensor:
        need("zarr")
        import zarr

        try:
            array: Tensor = zarr.open_array(self.path, mode="r")
        except Exception as error:  # zarr raises exceptions of many types if the path is not a store
            raise _unreadable(self.name, self.path, f"it is no Zarr array: {error}") from None
        return array

    def identity(self) -> dict[str, Any]:
        return {"shape": list(self.shape), "dtype": self.dtype, "zarr": str(self.path)}


class Folder:
    """A folder of .npy files, also in folders below it, each of which is a chunk.

    Args:
        name: of the input.
        desc: the input's description, of which the data type counts.
        path: the folder.
    """

    def __init__(self, name: str, desc: TensorDesc, path: pathlib.Path) -> None:
        self.name, self.desc, self.path = name, desc, path.absolute()

    def identity(self) -> dict[str, Any]:
        return {"folder": str(self.path)}

    def listed(self) -> Iterator[tuple[str, list[str]]]:
        """Each folder from here on, relative and with `/`, and the names of its files without suffix, in order."""
        for folder, below, files in os.walk(self.path):
            below.sort()
            names = sorted(name.removesuffix(SUFFIX) for name in files if name.endswith(SUFFIX))
            if names:
                yield pathlib.Path(folder).relative_to(self.path).as_posix(), names

    def file(self, place: str) -> pathlib.Path:
        return self.path / f"{place}{SUFFIX}"

    def tag(self, place: str) -> str:
        """What tells a file from another version of it: its size and when it was written; "" if it does not exist."""
        try:
            status = self.file(place).stat()
        except FileNotFoundError:
            return ""
        return f"{status.st_size} {status.st_mtime_ns}"

    def read(self, place: Place) -> Array:
        """The array of a file, in the input's data type."""
        assert isinstance(place, str)
        try:
            return from_stored(read_array(self.file(place)), self.desc.dtype)
        except OSError as error:
            raise _unreadable(self.name, self.file(place), reason(error)) from None
        except ValueError as error:
            raise _unreadable(self.name, self.file(place), str(error)) from None


def _unreadable(name: str, path: pathlib.Path, said: str) -> BindingError:
    return BindingError(f"'{path}' cannot be read: {said}", code="unreadable", field=name)


def content(array: Array) -> str:
    """The SHA-256 of an array's bits, in hexadecimal."""
    return hashlib.sha256(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data).hexdigest()


def opened(name: str, given: Any, axes: tuple[str | None, ...], desc: TensorDesc) -> Input | Folder:
    """The input that a user names by a path, or gives as an array.

    Raises:
        BindingError: the path does not exist, or is not a folder, .npy file or store.
    """
    if not isinstance(given, (str, os.PathLike)):
        return InMemory(name, axes, desc, given)
    path = pathlib.Path(given)
    if path.suffix == ".zarr" or (path / "zarr.json").exists() or (path / ".zarray").exists():
        return ZarrArray(name, axes, desc, path)
    if path.is_dir():
        return Folder(name, desc, path)
    if path.suffix == SUFFIX:
        return NpyFile(name, axes, desc, path)
    raise BindingError(
        "is not a folder of .npy files, a .npy file or a .zarr store", code="unreadable", field=name, got=str(given)
    )
