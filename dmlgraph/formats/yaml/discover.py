"""The graph files among the files and folders that a command is given."""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Iterable, Iterator

from dmlgraph.files.encodings import wide_encoding
from dmlgraph.files.untrusted import open_file

SUFFIXES = (".yaml", ".yml")
STDIN = pathlib.Path("-")
# The key `dmlgraph` at the top level: at the beginning of a line, or of a flow mapping.
_KEY = re.compile(rb"""^(?:\xef\xbb\xbf)?(?:\{\s*)?["']?dmlgraph["']?\s*:""", re.MULTILINE)
# Other keys there, all of which only a graph file has: one that lacks or misspells the first key.
_NODES = re.compile(rb"""^(?:\{\s*)?["']?nodes["']?\s*:""", re.MULTILINE)
_OUTPUTS = re.compile(rb"""^["']?outputs["']?\s*:""", re.MULTILINE)
_OPERATOR = re.compile(rb"""\bop["']?\s*:""")


def graph_files(
    given: Iterable[pathlib.Path], *, skip_others: bool = False
) -> tuple[list[pathlib.Path], list[pathlib.Path]]:
    """The graph files, and the files that were skipped because they are not graph files.

    A graph file has the key `dmlgraph`, or the keys `nodes`, `outputs` and `op`, and lacks that by mistake.  In a
    folder, and in the folders below it, all .yaml and .yml files are looked at; folders whose names begin with a dot
    are not.

    Args:
        given: files and folders; a file is taken to be a graph file, whatever it holds.
        skip_others: skip given files, too, if they are not graph files.
    """
    found: dict[pathlib.Path, bool] = {}
    for path in given:
        if path.is_dir():
            found |= {each: is_graph_file(each) for each in _below(path)}
        else:
            found[path] = not skip_others or path == STDIN or is_graph_file(path)
    return [path for path, wanted in found.items() if wanted], [path for path, wanted in found.items() if not wanted]


def is_graph_file(path: pathlib.Path) -> bool:
    """Whether a file is meant as a graph file, or cannot be read: whoever reads it then reports what is wrong."""
    try:
        with open_file(path) as stream:
            data = stream.read()
    except OSError:
        return True
    wide = wide_encoding(data)
    if wide is not None:
        data = data.decode(wide, "replace").encode()
    return _KEY.search(data) is not None or all(key.search(data) for key in (_NODES, _OUTPUTS, _OPERATOR))


def _below(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (pathlib.Path(parent, name) for name in sorted(files) if name.lower().endswith(SUFFIXES))
