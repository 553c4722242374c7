"""A graph file with the files that it names, to be sent to a machine that cannot read them.

Only bytes travel.  Whoever unpacks them writes plain files into an empty folder and nothing outside it, and a graph
file in that folder cannot name a file outside it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import tempfile
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from dmlgraph.base.errors import DmlGraphError
from dmlgraph.base.file_names import why_unportable
from dmlgraph.base.tables import show_bytes
from dmlgraph.files.folders import find_file, noting_files
from dmlgraph.files.untrusted import open_file, what_failed
from dmlgraph.formats.text_tree.text import decode
from dmlgraph.formats.yaml import loads, save

if TYPE_CHECKING:
    from dmlgraph.graph.graph import Graph

MOST_BYTES = 1 << 30  # of a graph file and the files it names
MOST_FILES = 10_000


@dataclasses.dataclass(frozen=True, slots=True)
class Bundle:
    """A graph file with the files that it names.

    Attributes:
        file: how messages name the graph file.
        text: of the graph file.
        files: the other files by their paths as seen from its folder, with `/` between names.
    """

    file: str
    text: str
    files: Mapping[str, bytes]

    def __sizeof__(self) -> int:  # by which Dask counts a worker's memory
        return object.__sizeof__(self) + len(self.text) + sum(map(len, self.files.values()))

    @contextlib.contextmanager
    def unpacked(self) -> Iterator[pathlib.Path]:
        """A folder with the files, which is removed at the end.

        Raises:
            DmlGraphError: a path leads out of the folder, or means another file on another system.
            OSError: a file cannot be written.
        """
        with tempfile.TemporaryDirectory(prefix="dmlgraph-", ignore_cleanup_errors=True) as made:
            folder = pathlib.Path(made)
            for path, data in self.files.items():
                _check(path)
                target = folder / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)
            yield folder

    def graph(self, folder: pathlib.Path, dims: Mapping[str, int]) -> Graph:
        """The graph, from a folder in which it is unpacked; the errors are those of `dmlgraph.formats.yaml.loads`."""
        return loads(self.text, folder=folder, dims=dims, file=self.file)


def pack(
    data: bytes, file: str, folder: pathlib.Path, dims: Mapping[str, int], most_bytes: int = MOST_BYTES
) -> tuple[Bundle, Graph]:
    """A graph file's bytes with the files that it and its tests name, and its graph.

    Args:
        data: of the graph file.
        file: how messages name it.
        folder: where it is.
        dims: values that replace those of its dims.
        most_bytes: of all files together.

    Raises:
        DocumentError: every problem of the graph file.
        DmlGraphError: the files are too many or too large, or one cannot be read.
    """
    text = decode(data, file)
    with noting_files() as found:
        graph = loads(text, folder=folder, dims=dims, file=file)
        for test in graph.origin.tests.values():
            for _, _, content in test.contents:
                if content.file is not None:
                    with contextlib.suppress(DmlGraphError):  # the test will say it
                        find_file(content.file, content.folder)
    return _read(file, text, folder, list(found), most_bytes), graph


def pack_graph(graph: Graph, file: str, most_bytes: int = MOST_BYTES) -> Bundle:
    """A graph as a graph file, with its large constants.

    Raises:
        GraphError: the graph is fused.
        DmlGraphError: the files are too large.
    """
    with tempfile.TemporaryDirectory(prefix="dmlgraph-") as made:
        path = pathlib.Path(made, "graph.yaml")
        save(graph, path)
        others = [each for each in sorted(path.parent.rglob("*")) if each.is_file() and each != path]
        return _read(file, path.read_text("utf-8"), path.parent, others, most_bytes)


def _read(file: str, text: str, folder: pathlib.Path, paths: list[pathlib.Path], most_bytes: int) -> Bundle:
    if len(paths) > MOST_FILES:
        raise _too_large(file, f"{len(paths)} files", f"{MOST_FILES} files")
    files: dict[str, bytes] = {}
    left = most_bytes - len(text.encode())
    for path in paths:
        try:
            with open_file(path) as stream:
                size = os.fstat(stream.fileno()).st_size
                if size > left:
                    raise _too_large(file, f"more, with '{path}' of {show_bytes(size)}", show_bytes(most_bytes))
                files[path.relative_to(folder).as_posix()] = content = stream.read(left + 1)
        except OSError as error:
            raise DmlGraphError(f"cannot read what '{file}' names: {what_failed(error)}", code="unreadable") from None
        left -= len(content)
    if left < 0:
        raise _too_large(file, show_bytes(most_bytes - left), show_bytes(most_bytes))
    return Bundle(file, text, files)


def _too_large(file: str, got: str, allowed: str) -> DmlGraphError:
    return DmlGraphError(
        f"the files of '{file}' are too much to send to other machines", code="bundle", got=got, allowed=allowed
    )


def _check(path: str) -> None:
    """Refuses a path that leads out of a folder without links, or that is not the same on every system."""
    parts = path.split("/")
    depth = 0
    for part in parts:
        depth += -1 if part == ".." else part != "."
        if depth < 0 or not part:
            break
    else:
        if why_unportable(path) is None and parts[-1] not in (".", ".."):
            return
    raise DmlGraphError(
        "is not the path of a file in the folder of its graph file", code="outside-folder", field="file", got=path
    )
