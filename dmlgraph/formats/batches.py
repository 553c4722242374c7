"""Batches: rows of .npy files, or of folders of them, as what a graph is given at each step of a training."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dmlgraph.base.errors import BindingError, DmlGraphError, check_known, listing, shorten
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.files.untrusted import reason
from dmlgraph.graph.graph import Graph

Array = np.ndarray[Any, Any]
_OPEN = 64  # how many files of a folder stay mapped


class Batches:
    """What a graph is given at each step.

    A file has an array whose first dimension counts rows, of which each step takes as many as the input has; a folder
    has several, in the order of their names, or one row in each.  An array with the sizes of its input is the same at
    each step, unless the input has as many rows as those of which there are more.

    Args:
        graph: whose inputs they are.
        paths: files or folders, by input.
        seed: of the order of the rows, which is another one in each epoch; None: that of the files.

    Attributes:
        rows: how many rows there are.
        size: how many each step takes.
        each: the number of steps in an epoch; rows that do not fill a batch are left out of it.

    Raises:
        BindingError: an input is missing or unknown, or an array does not fit it or the others.
        DmlGraphError: a file cannot be read.
    """

    def __init__(self, graph: Graph, paths: Mapping[str, pathlib.Path], seed: int | None = None) -> None:
        descs = {node.name: node.desc for node in graph.inputs}
        check_known(paths, descs, "input")
        missing = [name for name in descs if name not in paths]
        if missing:
            hint = " ".join(f"--input {name}=FILE.npy" for name in missing)
            raise BindingError(f"inputs are missing: {listing(missing)}", code="missing-input", hint=hint)
        self._seed = seed
        all_rows = {name: _Rows(name, path, descs[name]) for name, path in paths.items()}
        first = next((name for name, each in all_rows.items() if each.count > descs[name].sizes[0]), None)
        self.rows = 1 if first is None else all_rows[first].count
        self.size = 1 if first is None else descs[first].sizes[0]
        whole = {
            name: each
            for name, each in all_rows.items()
            if each.count == descs[name].sizes[0] and (first is None or each.count != self.size)
        }
        self._whole = {name: each.take(range(each.count)) for name, each in whole.items()}
        self._rows = {name: each for name, each in all_rows.items() if name not in whole}
        for name, each in self._rows.items():
            found, wanted = (each.count, descs[name].sizes[0]), (self.rows, self.size)
            if found != wanted:
                got, allowed = (f"{count} rows in batches of {size}" for count, size in (found, wanted))
                message = f"the data has other rows than that of '{first}'"
                raise BindingError(message, code="sizes", field=name, got=got, allowed=allowed)
        self.each = self.rows // self.size
        self._order: tuple[int, Array] | None = None  # of an epoch

    def at(self, step: int) -> dict[str, Array]:
        """What the graph is given at a step, counted from 0: it depends on the seed and the step alone."""
        epoch, place = divmod(step, self.each)
        if self._order is None or self._order[0] != epoch:
            rows = np.arange(self.rows)
            self._order = (
                epoch,
                rows if self._seed is None else np.random.default_rng([self._seed, epoch]).permutation(rows),
            )
        chosen = self._order[1][place * self.size : (place + 1) * self.size]
        return self._whole | {name: each.take(chosen) for name, each in self._rows.items()}

    def epoch(self) -> Iterator[dict[str, Array]]:
        """The batches of the first epoch."""
        return map(self.at, range(self.each))


class _Rows:
    """The rows of one input's file or folder.

    Attributes:
        count: how many there are.
    """

    def __init__(self, name: str, path: pathlib.Path, desc: TensorDesc) -> None:
        self._name, self._desc = name, desc
        self._mapped = functools.lru_cache(_OPEN)(self._open)
        paths = sorted(path.glob("*.npy")) if path.is_dir() else [path]
        if not paths:
            raise BindingError(f"there is no .npy file in '{path}'", code="missing-input", field=name)
        self._paths: Sequence[pathlib.Path] = paths
        ends = np.cumsum([len(self._mapped(each)) for each in paths])
        self._starts, self.count = np.concatenate([[0], ends[:-1]]), int(ends[-1])
        if self.count < desc.sizes[0]:
            got, allowed = f"{self.count} in '{path}'", f"at least {desc.sizes[0]}, one batch"
            raise BindingError("the data has too few rows", code="sizes", field=name, got=got, allowed=allowed)

    def take(self, rows: Sequence[int] | Array) -> Array:
        """Some rows, as one array."""
        found = np.empty((len(rows), *self._desc.sizes[1:]), self._desc.dtype.numpy)
        files = np.searchsorted(self._starts, rows, side="right") - 1
        for place, (row, file) in enumerate(zip(rows, files, strict=True)):
            found[place] = self._mapped(self._paths[file])[row - self._starts[file]]
        return found

    def _open(self, path: pathlib.Path) -> Array:
        """The rows of a file, which stay in it until they are read."""
        try:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        except OSError as error:
            raise DmlGraphError(f"cannot read '{path}': {reason(error)}", code="unreadable") from None
        except (ValueError, EOFError) as error:
            raise DmlGraphError(f"'{path}' is not a .npy file: {shorten(str(error))}", code="array-file") from None
        if not isinstance(array, np.ndarray):
            raise DmlGraphError(f"'{path}' is an .npz archive; a .npy file holds one array", code="array-file")
        dtype, sizes = self._desc.dtype, self._desc.sizes
        if array.dtype.newbyteorder("=") != dtype.numpy:
            hint = f"convert it with array.astype('{dtype}') before saving"
            got = f"{array.dtype} in '{path}'"
            raise BindingError.another("data type", self._name, got, dtype, hint=hint)
        if array.shape == sizes[1:]:
            return array[None]
        if array.shape[1:] != sizes[1:] or array.ndim != len(sizes):
            wanted = f"[rows{''.join(f', {size}' for size in sizes[1:])}]"
            raise BindingError.another("shape", self._name, f"{list(array.shape)} in '{path}'", wanted)
        return array
