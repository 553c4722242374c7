"""Job: a graph, the chunks that it is run over, and where their results go."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import math
import os
import pathlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import dmlgraph
from dmlgraph.base.errors import BindingError, DeviceError, GraphError, check_known, listing, suggestion
from dmlgraph.devices.executable import by_name
from dmlgraph.distributed.blocks import Cut, forms
from dmlgraph.distributed.inputs import Folder, Input, opened
from dmlgraph.distributed.results import Axis, Chunk, Results, ZarrResults
from dmlgraph.distributed.runner import Runner, fitting_dims, named_axes

if TYPE_CHECKING:
    from dmlgraph.graph.graph import Graph

CHUNK_BYTES = 8 << 20  # of a chunk whose size nobody gives
IN_FOLDER = 1000  # chunks of an array in a folder of results
# A device that is not there fails every chunk: the job stops.
_MISSING_DEVICE = frozenset({"adapter", "install", "library", "native-module", "software-adapter", "unknown-device"})


@dataclasses.dataclass(frozen=True)
class Job:
    """A graph, what it is run over, and where the results go; it travels once to each worker.

    Attributes:
        inputs: those that differ from chunk to chunk.
        cut: the sizes of the chunks along each dim; None: folders of files.
    """

    runner: Runner
    inputs: tuple[Input | Folder, ...]
    cut: Mapping[str, tuple[int, ...]] | None
    results: Results

    def count(self) -> int:
        """The number of chunks."""
        if self.cut is None:
            return sum(len(names) for _, names in self._folders[0].listed())
        return math.prod(map(len, self.cut.values()))

    def groups(self) -> Iterator[tuple[str, list[Chunk]]]:
        """The chunks, folder by folder."""
        if self.cut is None:
            first = self._folders[0]
            for folder, names in first.listed():
                places = [name if folder == "." else f"{folder}/{name}" for name in names]
                yield folder, [self._file_chunk(folder, place) for place in places]
            return
        bounds = [list(itertools.pairwise(itertools.accumulate(sizes, initial=0))) for sizes in self.cut.values()]
        digits = [len(str(each[-1][1])) for each in bounds]
        every = itertools.product(*bounds)
        for number in itertools.count():
            group = list(itertools.islice(every, IN_FOLDER))
            if not group:
                return
            folder = f"{number:05}"
            yield folder, [self._array_chunk(folder, place, digits) for place in group]

    @property
    def _folders(self) -> list[Folder]:
        return [each for each in self.inputs if isinstance(each, Folder)]

    def _file_chunk(self, folder: str, place: str) -> Chunk:
        tags = [f"{each.name} {each.tag(place)}" for each in self._folders]
        return Chunk(folder, f"{place.rpartition('/')[2]}-{_short(place, *tags)}", place)

    def _array_chunk(self, folder: str, bounds: tuple[tuple[int, int], ...], digits: Sequence[int]) -> Chunk:
        assert self.cut is not None
        place = dict(zip(self.cut, bounds, strict=True))
        begins = "-".join(f"{begin:0{width}}" for (begin, _), width in zip(bounds, digits, strict=True))
        return Chunk(folder, f"{begins or 'all'}-{_short(self.runner.recipe.key, repr(place))}", place)

    def compute(self, chunk: Chunk) -> BaseException | None:
        """Computes a chunk if its results are missing; returns what went wrong.

        Raises:
            DmlGraphError: what fails every chunk: the device is not on this machine, or the graph's file is not the
                same here.
            OSError: the graph's file is not here.
        """
        if self.results.has(chunk):
            return None
        self.runner.graph  # noqa: B018 - loads it
        begin = time.perf_counter()
        try:
            arrays = {each.name: each.read(chunk.place) for each in self.inputs}
            read = time.perf_counter()
            outputs = self.runner.run(arrays)
            self.results.log(chunk, read=read - begin, run=time.perf_counter() - read)
            self.results.write(chunk, outputs)
            self.results.forgive(chunk)
        except Exception as error:
            if isinstance(error, DeviceError) and error.code in _MISSING_DEVICE:
                raise
            self.results.fail(chunk, error)
            return error
        return None


def _short(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def job_of(
    runner: Runner,
    inputs: Mapping[str, Any],
    out: str | os.PathLike[str],
    chunks: Mapping[str, int] | None,
    zarr: bool,
) -> Job:
    """The job of what the user gives; it is noted in `out`.

    Raises:
        DmlGraphError: something of it is wrong, or `out` belongs to another job.
    """
    graph = runner.graph
    names = [node.name for node in graph.inputs]
    given = by_name(inputs, "inputs")
    check_known(given, names, "input")
    missing = [name for name in names if name not in given]
    if missing:
        raise BindingError(f"inputs are missing: {listing(missing)}", code="missing-input")
    found = {name: opened(name, given[name], named_axes(graph, name), graph.desc(name, 0)) for name in names}
    folders = [each for each in found.values() if isinstance(each, Folder)]
    arrays = [each for each in found.values() if isinstance(each, Input)]
    if folders:
        _check_folders(folders, chunks, zarr)
        cut: dict[str, tuple[int, ...]] | None = None
    else:
        cut = _cut(graph, arrays, chunks)
    varying = [each for each in found.values() if isinstance(each, Folder) or set(each.axes) & set(cut or ())]
    whole = [each for each in arrays if each not in varying]
    identities = {each.name: each.identity() for each in found.values()}
    runner.inputs = {each.name: np.array(each.read({})) for each in whole}  # they travel with the graph
    types = {name: desc.dtype for name, desc in graph.output_descs.items()}
    folder = pathlib.Path(out).absolute()
    results = Results(folder, types)
    if cut is not None:
        axes = _check_sizes(graph, arrays, cut, zarr)
        if zarr:
            results = ZarrResults(folder, types, axes)
    results.claim(
        {
            **_named(runner),
            "inputs": identities,
            "chunks": None if cut is None else {dim: sizes[0] for dim, sizes in cut.items()},
            "results": "zarr" if zarr else "npy",
        }
    )
    return Job(runner, tuple(varying), cut, results)


def _named(runner: Runner) -> dict[str, Any]:
    """What computes the results, for the manifest."""
    recipe = runner.recipe
    return {
        "dmlgraph": dmlgraph.__version__,
        "graph": {"name": runner.graph.name, "sha256": recipe.source.digest},
        "device": recipe.device,
        "fuse": recipe.fuse,
    }


def _check_folders(folders: Sequence[Folder], chunks: Mapping[str, int] | None, zarr: bool) -> None:
    if chunks:
        raise GraphError("a file of a folder is a chunk", code="conflict", field="chunks", got=dict(chunks))
    if zarr:
        raise GraphError(
            "only the chunks of arrays have a place in a Zarr array", code="conflict", field="zarr", got="a folder"
        )
    for each in folders:
        if next(each.listed(), None) is None:
            raise BindingError("the folder has no .npy files", code="unreadable", field=each.name, got=str(each.path))


def _cut(graph: Graph, arrays: Sequence[Input], chunks: Mapping[str, int] | None) -> dict[str, tuple[int, ...]]:
    """The sizes of the chunks along each dim that is cut."""
    lengths = fitting_dims(graph, {each.name: each.shape for each in arrays})
    if chunks is None:
        chunks = {}
        for each in arrays:
            dim = each.axes[0] if each.axes and isinstance(each, Input) else None
            if dim is not None and dim not in chunks:
                widest = max(other.row_bytes for other in arrays if other.axes and other.axes[0] == dim)
                chunks = {**chunks, dim: max(1, CHUNK_BYTES // max(widest, 1))}
    for dim, size in chunks.items():
        if dim not in lengths:
            raise GraphError(
                "is not a dim that an axis of an input is as large as",
                code="unknown-dim",
                field=f"chunks.{dim}",
                got=size,
                allowed=listing(lengths) or None,
                hint=suggestion(dim, lengths),
            )
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise GraphError("must be a whole number of at least 1", code="range", field=f"chunks.{dim}", got=size)
    cut = {}
    for dim, size in chunks.items():
        full, rest = divmod(lengths[dim], size)
        cut[dim] = (size,) * full + ((rest,) if rest else ())
    return cut


def _check_sizes(
    graph: Graph, arrays: Sequence[Input], cut: Mapping[str, tuple[int, ...]], zarr: bool
) -> dict[str, tuple[Axis, ...]]:
    """The axes of the outputs in a Zarr store, if that is wanted.

    Raises:
        DmlGraphError: the graph cannot have the sizes of the chunks, an array does not fit it, or an output has no
            place in an array.
    """
    lengths = fitting_dims(graph, {each.name: each.shape for each in arrays})
    plan = Cut({}, {}, dict(cut), {dim: size for dim, size in lengths.items() if dim not in cut})
    sized = graph.with_dims(plan.first)
    for each in arrays:
        desc = sized.desc(each.name, 0)
        shape = [
            size if dim is None or dim not in cut else cut[dim][0]
            for dim, size in zip(each.axes, each.shape, strict=True)
        ]
        if shape != list(desc.sizes):
            wanted = list(graph.with_dims(lengths).desc(each.name, 0).sizes)
            raise BindingError.another("shape", each.name, list(each.shape), wanted)
        if not _holds(each, str(desc.dtype)):
            raise BindingError.another("data type", each.name, each.dtype, desc.dtype)
    for dim, sizes in cut.items():
        if sizes[-1] != sizes[0]:
            graph.with_dims(plan.first | {dim: sizes[-1]})
    return _zarr_axes(graph, plan) if zarr else {}


def _zarr_axes(graph: Graph, cut: Cut) -> dict[str, tuple[Axis, ...]]:
    """The axes of each output in a Zarr store."""
    axes = {}
    for name, form in forms(graph, cut, list(graph.outputs)).items():
        found = []
        for label, size in zip(form.labels, form.desc.sizes, strict=True):
            if label in form.chunks:
                written = list(itertools.pairwise(itertools.accumulate(form.chunks[label], initial=0)))
                begins = itertools.accumulate(cut.chunks[label], initial=0)
                found.append(Axis(sum(form.chunks[label]), size, label, dict(zip(begins, written, strict=False))))
            else:
                found.append(Axis(size, size))
        axes[name] = tuple(found)
    return axes


def _holds(each: Input, dtype: str) -> bool:
    """Whether an array holds numbers of a type; those of 4 bits are stored in 8."""
    stored = {"int4": "int8", "uint4": "uint8"}.get(dtype, dtype)
    return np.dtype(each.dtype).newbyteorder("=").name in (dtype, stored)
