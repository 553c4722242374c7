"""What is tested on many devices: graphs with the tests beside them, as they are sent to other processes."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from dmlgraph.base.errors import DmlGraphError, DocumentError, Location
from dmlgraph.files.untrusted import read_file, reason
from dmlgraph.formats.load_save import holds_model, load
from dmlgraph.formats.yaml.discover import graph_files
from dmlgraph.graph.dims import combinations
from dmlgraph.testing.bundle import MOST_BYTES, Bundle, pack, pack_graph
from dmlgraph.testing.records import Outcome, Record, Result

if TYPE_CHECKING:
    from dmlgraph.graph.graph import Graph

TRIAL = "run"  # the name of the only test of a graph without tests: it runs with random inputs
EXAMINATION = "doctor"  # the name of the only test of a graph whose nodes are examined


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """A graph with its dims.

    Attributes:
        bundle: its file, with the files that this names.
        dims: values that replace those of its dims.
        sizes: the dims for people, `N=8`; "" if there is one choice of them.
        tests: the devices that each test names by the test's name; None for a test that runs on all.
        has_tests: whether these are tests; else it is `TRIAL`.
    """

    bundle: Bundle
    dims: Mapping[str, int]
    sizes: str
    tests: Mapping[str, tuple[str, ...] | None]
    has_tests: bool

    @classmethod
    def of(cls, bundle: Bundle, graph: Graph, dims: Mapping[str, int], sizes: str) -> Subject:
        tests = {test.name: test.devices for test in graph.origin.tests.values()}
        return cls(bundle, dims, sizes, tests or {TRIAL: None}, bool(tests))

    def examined(self) -> Subject:
        """The same graph with the doctor's examination in place of its tests, on all devices."""
        return dataclasses.replace(self, tests={EXAMINATION: None}, has_tests=False)


def from_file(
    data: bytes, file: str, folder: pathlib.Path, dims: Mapping[str, Sequence[int]], most_bytes: int = MOST_BYTES
) -> Iterator[Subject]:
    """The graph of a graph file's bytes, with every combination of the dims; see `pack` for the rest and the errors."""
    bundle = None
    for chosen, sizes in combinations(dims):
        packed, graph = pack(data, file, folder, chosen, most_bytes)
        bundle = bundle or packed  # one for all
        yield Subject.of(bundle, graph, chosen, sizes)


def from_graph(graph: Graph, file: str, sizes: str = "", most_bytes: int = MOST_BYTES) -> Subject:
    """A graph; the errors are those of `pack_graph`."""
    return Subject.of(pack_graph(graph, file, most_bytes), graph, {}, sizes)


def subjects(
    graphs: Iterable[Graph | str | os.PathLike[str]], dims: Mapping[str, Sequence[int]], most_bytes: int = MOST_BYTES
) -> Iterator[Subject | Record]:
    """Graphs with every combination of dims, and a record for each file that is wrong.

    Args:
        graphs: graphs, graph files, ONNX models, and folders, which stand for the graph files in them.
        dims: values by name.
        most_bytes: of a graph file and the files it names.
    """
    for given in graphs:
        if not isinstance(given, (str, os.PathLike)):
            for chosen, sizes in combinations(dims):
                sized = given.with_dims(chosen) if chosen else given
                yield from_graph(sized, given.name or "graph", sizes, most_bytes)
            continue
        for path in graph_files([pathlib.Path(given)])[0]:
            try:
                yield from from_path(path, dims, most_bytes)
            except DmlGraphError as error:
                yield broken(os.fspath(path), error)


def broken(file: str, error: DmlGraphError) -> Record:
    """The record of a file that is wrong, so that none of its tests ran."""
    return Record(file, "", None, Result(Outcome.BROKEN, str(error)))


def from_path(
    path: pathlib.Path,
    dims: Mapping[str, Sequence[int]],
    most_bytes: int = MOST_BYTES,
    load_model: Callable[[pathlib.Path, Mapping[str, int]], Graph] = lambda path, dims: load(path, dims=dims),
) -> Iterator[Subject]:
    """The graph of a graph file or an ONNX model; the errors are those of `from_file` and `from_graph`."""
    if holds_model(path):
        for chosen, sizes in combinations(dims):
            yield from_graph(load_model(path, chosen), os.fspath(path), sizes, most_bytes)
        return
    try:
        data = read_file(path)
    except OSError as error:
        place = Location(os.fspath(path), 1, 1)
        raise DocumentError(f"cannot read the file: {reason(error)}", code="unreadable", location=place) from None
    yield from from_file(data, os.fspath(path), path.parent, dims, most_bytes)
