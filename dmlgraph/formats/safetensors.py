"""Safetensors files: many named arrays in one file, of which each can be read alone.

A file is the length of its header as 8 bytes, little-endian; the header, a JSON object from names to data type, shape
and the place of the bytes; then the bytes of all arrays.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO

import numpy as np

from dmlgraph.base.errors import GraphError, listing, shorten, suggestion
from dmlgraph.base.memory import enough_memory
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.files.untrusted import open_file, reason
from dmlgraph.files.whole import NewFiles

Array = np.ndarray[Any, Any]
SUFFIX = ".safetensors"
LONGEST_HEADER = 100_000_000  # bytes; the format's own limit
_DIGITS = 20  # of the largest number of 64 bits
_TYPES = {
    **{f"F{bits}": f"<f{bits // 8}" for bits in (16, 32, 64)},
    **{f"I{bits}": f"<i{bits // 8}" for bits in (8, 16, 32, 64)},
    **{f"U{bits}": f"<u{bits // 8}" for bits in (8, 16, 32, 64)},
    "BOOL": "|u1",  # as DirectML stores them
}
_NAMES = {np.dtype(form): name for name, form in _TYPES.items() if name != "BOOL"}


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """Where an array is: its form, its first byte in the file, and the byte behind its last."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int
    end: int


class Archive:
    """A safetensors file whose header is read.

    Args:
        path: the file.
        name: how the document names it.

    Raises:
        GraphError: it is not such a file; its field is `file`.
    """

    def __init__(self, path: pathlib.Path, name: str) -> None:
        self.path, self.name = path, name
        try:
            with open_file(path) as stream:
                self.entries = _read_header(stream)
        except OSError as error:
            raise GraphError(f"cannot be read: {reason(error)}", code="unreadable", field="file", got=name) from None
        except (ValueError, RecursionError) as error:
            what = "its header is nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise GraphError(
                f"is a broken safetensors file: {what}", code="array-file", field="file", got=name
            ) from None

    def read(self, tensor: object) -> Array:
        """The array of a name.

        Raises:
            GraphError: the file has no such tensor; the field is `tensor`.
            TensorError: no tensor has these sizes.
        """
        if not isinstance(tensor, str):
            raise GraphError("must be the name of a tensor in the file", code="kind", field="tensor", got=tensor)
        entry = self.entries.get(tensor)
        if entry is None:
            raise GraphError(
                f"'{self.name}' has no tensor of this name",
                code="unknown-array",
                field="tensor",
                got=tensor,
                allowed=listing(self.entries, at_most=8) or "nothing: the file is empty",
                hint=suggestion(tensor, self.entries),
            )
        TensorDesc(dtype=entry.dtype, sizes=entry.shape)  # refuses what no tensor can be
        with enough_memory(f"read '{self.name}'"):
            array = np.empty(entry.shape, entry.dtype)
            try:
                with open_file(self.path) as stream:
                    stream.seek(entry.begin)
                    stream.readinto(array.reshape(-1).view(np.uint8).data)
            except OSError as error:
                raise GraphError(
                    f"cannot be read: {reason(error)}", code="unreadable", field="file", got=self.name
                ) from None
            return array.astype(array.dtype.newbyteorder("="), copy=False)


def write(stream: BinaryIO, arrays: Mapping[str, Array]) -> None:
    """Writes arrays of data types that NumPy has."""
    header: dict[str, Any] = {}
    end = 0
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        dtype = _NAMES[array.dtype.newbyteorder("<")]
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the arrays are aligned
    stream.write(len(text).to_bytes(8, "little") + text)
    for array in arrays.values():
        stream.write(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(-1).view(np.uint8).data)


def save(path: str | os.PathLike[str], arrays: Mapping[str, Array]) -> None:
    """Writes a file of arrays: the old file stays until the new one is whole.

    Raises:
        OSError: it cannot be written.
    """
    with NewFiles(durable=True) as new, new.open(path) as stream:
        write(stream, arrays)


def load(path: str | os.PathLike[str], names: Iterable[str]) -> dict[str, Array]:
    """The arrays of these names in a file.

    Raises:
        GraphError: it is not such a file, or lacks one of them.
    """
    archive = Archive(pathlib.Path(path), os.fspath(path))
    return {name: archive.read(name) for name in names}


def _read_header(stream: BinaryIO) -> dict[str, Entry]:
    """The arrays of a file by name.

    Raises:
        ValueError: the file is wrong; says how, as a phrase.
    """
    size = os.fstat(stream.fileno()).st_size
    start = stream.read(8)
    length = int.from_bytes(start, "little")
    if len(start) < 8 or length > min(size - 8, LONGEST_HEADER):
        raise ValueError("it is shorter than its header says")
    try:
        header = json.loads(stream.read(length).decode(), object_pairs_hook=_unique, parse_int=_whole)
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise ValueError("its header is not JSON") from None
    if not isinstance(header, dict):
        raise ValueError("its header is not an object")
    header.pop("__metadata__", None)
    entries = {name: _entry(name, fields, 8 + length) for name, fields in header.items()}
    _check_cover(entries, 8 + length, size)
    return entries


def _whole(text: str) -> int:
    """A whole number of a header; Python itself refuses thousands of digits, in its own words."""
    if len(text) > _DIGITS:
        raise ValueError(f"a number in its header is too large, {shorten(text)}")
    return int(text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, whose keys must be different text."""
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made:
            raise ValueError(f"its header has '{shorten(key)}' twice")
        if not key.isascii() and any("\ud800" <= letter <= "\udfff" for letter in key):
            raise ValueError(f"a name in its header is not Unicode text: {shorten(key)!a}")
        made[key] = value
    return made


def _check_cover(entries: Mapping[str, Entry], start: int, size: int) -> None:
    """The arrays must lie one behind another, and together be all bytes behind the header."""
    before = None
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)):
        if entry.begin < start:
            raise ValueError(f"the bytes of '{shorten(before or name)}' and '{shorten(name)}' overlap")
        if entry.begin > start:
            raise ValueError(f"the bytes before '{shorten(name)}' belong to no tensor")
        before, start = name, entry.end
    if start != size:
        found = "it is shorter than its header says" if start > size else "its last bytes belong to no tensor"
        raise ValueError(found)


def _entry(name: str, fields: object, start: int) -> Entry:
    shown = shorten(name)
    if not isinstance(fields, dict):
        raise ValueError(f"'{shown}' has no description")
    dtype: Any = fields.get("dtype")
    shape: Any = fields.get("shape")
    offsets: Any = fields.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in _TYPES:
        known = listing(_TYPES)
        raise ValueError(f"'{shown}' has a data type that is not read, {shorten(dtype)}; those that are: {known}")
    if not _are_counts(shape) or not _are_counts(offsets) or len(offsets) != 2:
        raise ValueError(f"the shape or the place of '{shown}' is wrong")
    form = np.dtype(_TYPES[dtype])
    begin, end = offsets
    if end - begin != math.prod(shape) * form.itemsize:
        raise ValueError(f"the bytes of '{shown}' do not fit its shape")
    return Entry(form, tuple(shape), start + begin, start + end)


def _are_counts(value: Any) -> bool:
    return isinstance(value, list) and all(type(each) is int and 0 <= each < 2**63 for each in value)
