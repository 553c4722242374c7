"""Graph → a folder of C++."""

from __future__ import annotations

import importlib.resources
import os
import pathlib
import re
import shlex
import string
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, ClassVar

from dmlgraph.base.errors import plural
from dmlgraph.base.file_names import FileNames
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.memory import enough_memory
from dmlgraph.files.mark import MARK, check_ours, signed
from dmlgraph.files.whole import NewFiles
from dmlgraph.formats.cpp.descs import Nodes, data_type
from dmlgraph.formats.cpp.layout import Contents, Scratch, Weights
from dmlgraph.formats.cpp.lowered import MOST_BYTES, Lowered, alike, lowered
from dmlgraph.formats.cpp.self_check import Expected, tables
from dmlgraph.formats.cpp.tables import Tables, enumerators, rows
from dmlgraph.formats.cpp.text import Identifiers, comment, identifier, quoted
from dmlgraph.graph.graph import Graph

WEIGHTS = "weights.bin"
EXPECTED = "expected.bin"
SELF_CHECK = "self_check.cpp"
SOURCES = (
    *("graph.h", "types.h", "graph.cpp", "description.h", "compiling.cpp", "recording.cpp", "barriers.h", "ids.h"),
    *("main.cpp", "runner.h", "device.h", "tensors.h", "CMakeLists.txt", "README.md"),
)


def save(
    graph: Graph | Mapping[str, Graph],
    folder: str | os.PathLike[str],
    *,
    fuse: bool = True,
    level: FeatureLevel | None = None,
    most_bytes: int = MOST_BYTES,
    self_check: bool = False,
    inputs: Mapping[str, Any] | None = None,
    force: bool = False,
) -> None:
    """Writes a graph as C++ for Direct3D 12: a class, its weights, a program, and how to build them.

    Several graphs, such as those of several sizes, have a folder each, and share their weights: runs read them where
    they lie, and DirectML makes no copies of them in a layout of its own.

    Args:
        graph: with its dims resolved, and at least one output; or several, by the name of their class's namespace.
        folder: where the files go; it is made if it is missing.
        fuse: whether the passes of DirectML run before.
        level: the highest feature level of the machines that will run it; by default the graph's.
        most_bytes: of weights that lie in one buffer.
        self_check: make every node an output, and add a program that prints the first one that is not as expected.
        inputs: for the self-check, by name; random ones by default.
        force: overwrite texts that somebody has changed, or that dmlgraph has not written: see `dmlgraph.files.mark`.

    Raises:
        DmlGraphError: a text is there, and is not as dmlgraph wrote it.
        GraphError: the graph has no outputs.
        OperatorError: a node needs a higher level, or has a number that C++ cannot express.
        BindingError: a tensor does not fit a buffer of Direct3D 12, or an array its input.
        OSError: a file cannot be written.
    """
    folder = pathlib.Path(folder)
    graphs = {graph.name: graph} if isinstance(graph, Graph) else graph
    shared = graphs is graph
    with enough_memory("write", next(iter(graphs.values()))):
        found = [lowered(each, fuse=fuse, level=level, expose=self_check, shared=shared) for each in graphs.values()]
        if shared:
            found = alike(found, Identifiers().take_all(graphs))
        weights = Weights([each.desc for each in found], most_bytes)
        expected = [Expected.of(each.plain, inputs or {}) if self_check else None for each in found]
        parts = [_files(*each, weights, shared) for each in zip(found, weights.contents, expected, strict=True)]
        files = _around(found, parts) if shared else parts[0]
    if not force:
        for name in files:
            if pathlib.PurePath(name).name != EXPECTED:
                check_ours(folder / name)
    with NewFiles() as new:
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            with new.open(folder / name) as stream:
                stream.write(content)
        with new.open(folder / WEIGHTS) as stream:
            _write_weights(weights, stream)


def _around(found: Sequence[Lowered], parts: Sequence[dict[str, bytes]]) -> dict[str, bytes]:
    """The files of several graphs, each in a folder, and what is around them."""
    names = [each.desc.name for each in found]
    values = {
        "folders": "\n".join(f"add_subdirectory({name})" for name in names),
        "graphs": "\n".join(f"| [`{name}`]({name}/README.md) | `{_namespace(name)}` |" for name in names),
        "project": _namespace(names[0]),
    }
    return {
        "CMakeLists.txt": _filled("several.cmake", values),
        "README.md": _filled("several.md", values),
    } | {f"{name}/{file}": content for name, part in zip(names, parts, strict=True) for file, content in part.items()}


def _files(
    found: Lowered, contents: Contents, expected: Expected | None, weights: Weights, shared: bool
) -> dict[str, bytes]:
    """The files of a graph without the weights, by name."""
    values = _values(found, contents) | {
        "file_bytes": str(weights.bytes),
        "run": _command(found, shared),
        "weights_file": f"../{WEIGHTS}" if shared else WEIGHTS,
        "shared": ", which the graphs beside this one share" if shared else "",
    }
    if expected is None:
        return {name: _filled(name, values) for name in SOURCES}
    values |= tables(expected, found.desc, found.exposed) | {
        "programs": "main self_check",
        "self_check": _ABOUT_SELF_CHECK.format(namespace=values["namespace"]),
    }
    return {name: _filled(name, values) for name in [*SOURCES, SELF_CHECK]} | {EXPECTED: expected.data}


def _write_weights(weights: Weights, stream: BinaryIO) -> None:
    written = 0
    for offset, part in weights.parts():
        stream.write(bytes(offset - written))
        stream.write(part.data)
        written = offset + part.nbytes
    stream.write(bytes(weights.bytes - written))


_ABOUT_SELF_CHECK = """## The self-check

Every node is an output here, and `expected.bin` has random inputs, or those that were given, and what the first run
should make of them. `build/{namespace}_self_check` prints the first node that differs, with the element, what it got
and what was expected. Floats may differ by a thousandth of the tensor's largest magnitude, which `--relative` changes.

"""


class _Template(string.Template):
    """A text with `@{name}` where something is filled in."""

    delimiter: ClassVar[str] = "@"
    idpattern: ClassVar[str] = r"(?!)"  # only with braces
    braceidpattern: ClassVar[str] = "[a-z_]+"


_COMMENTS = {".cpp": "// {}", ".h": "// {}", ".txt": "# {}", ".cmake": "# {}", ".md": "<!-- {} -->"}  # by suffix


def _filled(name: str, values: dict[str, str]) -> bytes:
    """A template with what is filled in, and the mark in a comment at its end."""
    text = importlib.resources.files("dmlgraph.formats.cpp").joinpath("templates", name).read_text(encoding="utf-8")
    filled = re.sub("[ ]+\n", "\n", _Template(text).substitute(values))
    mark = _COMMENTS[pathlib.PurePath(name).suffix].format(MARK)
    return signed(f"{filled}\n{mark}\n".encode())


def _values(found: Lowered, weights: Contents) -> dict[str, str]:
    """What is filled into the templates, by name."""
    graph, scratch = found.desc, Scratch(found.desc)
    tables = Tables(weights, scratch)
    counts = {
        "input": len(graph.given),
        "output": len(graph.results),
        "state": len(graph.states),
        "weight": len(weights.blocks),
    }
    return {
        "title": comment(graph.name),
        "name": quoted(graph.name),
        "namespace": _namespace(graph.name),
        "level": f"{found.level}".replace(".", "_"),
        "level_text": str(found.level),
        "target_version": f"0x{max(found.level, FeatureLevel.V6_2).value:x}",
        **{f"{name}_count": str(count) for name, count in counts.items()},
        **{f"{name}_places": str(max(count, 1)) for name, count in counts.items()},
        "input_names": enumerators(slot.name for slot in graph.given),
        "output_names": enumerators(slot.name for slot in graph.results),
        "state_names": enumerators(state.name for state in graph.states),
        "inputs": tables.tensors(graph.given),
        "outputs": tables.tensors(graph.results),
        "states": tables.states(),
        "weights": tables.blocks(),
        "scratch_bytes": str(scratch.bytes),
        "staging_bytes": str(scratch.staging_bytes),
        "output_files": _output_files(found),
        "programs": "main",
        "self_check": "",
        **_description(found, tables),
    }


def _namespace(name: str) -> str:
    """The namespace of a graph, and the name of its library: nothing that C, Windows or others declare."""
    return f"dml_{identifier(name)}"


def _description(found: Lowered, tables: Tables) -> dict[str, str]:
    """What is filled into graph.cpp."""
    graph = found.desc
    nodes = Nodes(graph, found.origins)
    edges = graph.input_edges, graph.output_edges, graph.intermediate_edges
    counted = graph.nodes, graph.inputs, graph.outputs, *edges, found.types, graph.states
    return {
        "facts": f"{plural(len(graph.nodes), 'node')}, feature level {found.level}.",
        "tensors": str(nodes.tensors),
        "nodes": "\n".join(nodes.texts),
        "node_table": rows(nodes.table),
        **tables.edges(),
        "input_slots": tables.input_slots(),
        "output_slots": tables.output_slots(),
        "growth": tables.growth(),
        "types": rows(f"    {{{data_type(dtype)}, {quoted(node)}}}," for dtype, node in found.types.items()),
        "counts": ", ".join(str(len(each)) for each in counted),
        "level_node": "nullptr" if found.level_node is None else quoted(found.level_node),
    }


def _command(found: Lowered, shared: bool) -> str:
    """The command that runs the program, in the folder of the graph."""
    words = [f"build/{_namespace(found.desc.name)}_main", "-o", "FOLDER"]
    words += ["--weights", f"../{WEIGHTS}"] if shared else []
    return shlex.join([*words, *(f"{slot.name}=FILE.npy" for slot in found.desc.given)])


def _output_files(found: Lowered) -> str:
    names = FileNames()
    return ", ".join(quoted(f"{names.take(slot.name)}.npy") for slot in found.desc.results)
