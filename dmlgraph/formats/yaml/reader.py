"""A graph file → Graph; reports all errors at once, each with its line and column."""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from dmlgraph.base.errors import (
    GraphError,
    Location,
    Problem,
    listing,
    shorten,
    suggestion,
)
from dmlgraph.base.memory import collector_paused, enough_memory
from dmlgraph.base.report import DocumentReport, Report
from dmlgraph.base.scalar import Scalar
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.files.folders import find_file
from dmlgraph.formats.arrays import Array, Folder, InMemory, check_file, from_numbers, load_file
from dmlgraph.formats.safetensors import SUFFIX, Archive
from dmlgraph.formats.text_tree.text import read_text
from dmlgraph.formats.text_tree.tree import Tree, parse
from dmlgraph.formats.yaml.contents import read_content
from dmlgraph.formats.yaml.copies import Declared
from dmlgraph.formats.yaml.declarations import (
    CHANGES,
    FORMAT_VERSION,
    STATE_KEYS,
    check_version,
    node_keys,
    operator_of,
    report_operator,
)
from dmlgraph.formats.yaml.document import DECLARED, Document
from dmlgraph.formats.yaml.expansion import Expansion
from dmlgraph.formats.yaml.order import in_order
from dmlgraph.formats.yaml.template import Names
from dmlgraph.formats.yaml.templates import Templates
from dmlgraph.graph.dims import check_name
from dmlgraph.graph.graph import Graph
from dmlgraph.graph.origin import Origin

SECTIONS = (
    "dmlgraph",
    "name",
    "target",
    "fused",
    "allow",
    "dims",
    "fixed",
    "templates",
    "inputs",
    "states",
    "constants",
    "nodes",
    "outputs",
    "training",
    "workarounds",
    "tests",
)
INPUT_KEYS = ("dtype", "sizes", "strides", "owned")
MOST_SHOWN = 20  # nodes of a cycle
INITIAL = ("value", "data", "file")  # contents of a state
CONSTANT_KEYS = ("file", "tensor", "dtype", "sizes", "data")


def load(path: str | os.PathLike[str], *, dims: Mapping[str, int] | None = None) -> Graph:
    """The graph in a YAML file.

    Args:
        path: the file; the files it names are in its folder.
        dims: values that replace those of the file's dims.

    Raises:
        DocumentError: every problem found, each with its line and column.
    """
    path = pathlib.Path(path)
    with enough_memory(f"read '{path}'"):
        return _read(read_text(path), os.fspath(path), path.parent, dims)


def loads(
    text: str,
    *,
    folder: str | os.PathLike[str] | None = None,
    dims: Mapping[str, int] | None = None,
    file: str = "<text>",
) -> Graph:
    """The graph in YAML text.

    Args:
        text: of the document.
        folder: holds the files that it names; without it, the text cannot name files.
        dims: values that replace those of the document's dims.
        file: its name in messages.

    Raises:
        DocumentError: every problem found, each with its line and column.
    """
    with enough_memory("read the graph"):
        return _read(text, file, None if folder is None else pathlib.Path(folder), dims)


def restored(text: str, files: InMemory) -> Graph:
    """The graph of a canonical document, which may still be without outputs.

    Raises:
        DocumentError: every problem found.
    """
    with enough_memory("read the graph"):
        return _read(text, "<a pickled graph>", files, None, is_whole=False)


def _read(text: str, file: str, folder: Folder, dims: Mapping[str, int] | None, *, is_whole: bool = True) -> Graph:
    graph = Graph()
    with DocumentReport() as report, collector_paused():
        tree = parse(text, file, report)
        if tree is not None:
            graph = _Reader(tree, folder, report, is_whole).read({} if dims is None else dims)
        elif not report.problems:
            hint = "'dmlgraph new' writes a file to start from"
            report.add(Problem("the file is empty", code="empty-file", location=Location(file, 1, 1), hint=hint))
    return graph


class _Reader(Document):
    """Builds the graph section by section, and notes what it cannot build."""

    def read(self, dims: Mapping[str, int]) -> Graph:
        if not isinstance(self.tree.value, dict):
            self.report.problem(
                "a graph file is a mapping", self.tree, "syntax", got=self.tree.plain, allowed=listing(SECTIONS)
            )
            return self.graph
        self.tree = self._known_keys(self.tree, SECTIONS)
        self._version()
        self._header(dims)
        if not self._copy():
            return self.graph  # nodes read copies that are unknown
        self._expand()
        self._declare()
        for name, tree in self._section("inputs"):
            self._attempt(name, tree, self._input, INPUT_KEYS)
        for name, tree in self._section("states"):
            self._attempt(name, tree, self._state, STATE_KEYS)
        for name, tree in self._section("constants"):
            self._attempt(name, tree, self._constant, CONSTANT_KEYS)
        self._nodes()
        self._next_values()
        self._outputs()
        self._training()
        self._workarounds()
        self._tests()
        return self.graph

    # Sections.

    def _version(self) -> None:
        version = self.tree.value.get("dmlgraph")
        if version is None:
            hint = f"begin the file with 'dmlgraph: {FORMAT_VERSION}'"
            self._missing("the format version is missing", "dmlgraph", hint)
        else:
            check_version(version, self.report)

    def _header(self, overrides: Mapping[str, int]) -> None:
        """Name, target, allow and dims: the graph is made of the valid ones, so that the rest can be checked."""
        fields: dict[str, Any] = {}
        name = self.tree.value.get("name")
        if name is not None:
            with self._noting(self.tree):
                fields["name"] = Graph(name.plain).name
        for key in ("target", "allow"):
            item = self.tree.value.get(key)
            if item is not None and item.value is not None:
                with self._noting(self.tree):
                    fields[key] = getattr(Graph(**{key: item.plain}), key)
        dims: dict[str, int] = {}
        for dim, size in self._section("dims"):
            with self._noting(self.tree):
                check_name(dim, self._names("dims"))
                dims[dim] = 1  # used where the size is wrong
                dims |= Graph(dims={dim: size.plain}).dims
        self.file_dims, fixed = dims, self._fixed(dims)
        with self._noting(self.tree):
            if isinstance(overrides, Mapping):  # else `with_dims` refuses it
                overrides = {k: v for k, v in overrides.items() if k in dims or not self.report.problems}
                Origin(fixed=fixed).check_changed(overrides, dims)
            dims = Graph(dims=dims).with_dims(overrides).dims
        self.graph = Graph(**fields, dims=dims)
        self.graph.origin.fixed |= fixed
        self.graph.origin.fused = self._is_fused()
        self.graph.origin.places[None] = None, {f"dims.{dim}": place for dim, place in self._names("dims").items()}

    def _is_fused(self) -> bool:
        """Whether the file was saved after fusion."""
        tree = self.tree.value.get("fused")
        if tree is not None and not isinstance(tree.value, bool):
            self.report.problem("must be true or false", tree, "kind", "fused", got=tree.plain)
        return tree is not None and tree.value is True

    def _fixed(self, dims: Mapping[str, int]) -> dict[str, str]:
        """The dims that cannot have another value, and what keeps them."""
        fixed: dict[str, str] = {}
        for dim, why in self._section("fixed"):
            key = self._names("fixed")[dim]
            if dim not in dims:
                allowed, hint = listing(dims) or "nothing", suggestion(dim, dims)
                self.report.problem(
                    "is not a dim", key, "unknown-dim", f"fixed.{dim}", got=dim, allowed=allowed, hint=hint
                )
            elif not isinstance(why.value, str):
                self.report.problem("must be text: why", why, "kind", f"fixed.{dim}", got=why.plain)
            else:
                fixed[dim] = why.value
        return fixed

    def _copy(self) -> bool:
        """Replaces inputs and constants that are repeated by their copies; returns whether all of them are known."""
        made = {}
        for section in ("inputs", "constants"):
            items = self._section(section, quiet=True)
            if any(isinstance(tree.value, dict) and "repeat" in tree.value for _, tree in items):
                made[section] = Declared(self.tree.value[section], self.graph, self.report)
                self.graph.origin.fixed |= made[section].fixed
                self.report.uses = {**self.report.uses, **made[section].copies}
        if made:
            self.tree = self.tree.copy()
            self.tree.value.update((section, declared.tree) for section, declared in made.items())
        return all(declared.is_whole for declared in made.values())

    def _expand(self) -> None:
        """Replaces the uses of templates among the nodes by the nodes and states of the templates."""
        nodes = dict(self._section("nodes", quiet=True))
        in_use = {name: tree for name, tree in nodes.items() if isinstance(tree.value, dict) and "use" in tree.value}
        given = self.tree.value.get("templates")
        if not in_use and given is None:
            return
        templates = Templates(given, self.folder, self.report)
        sections = (section for section in DECLARED if section != "nodes")
        others = [name for section in sections for name, _ in self._section(section, quiet=True)]
        operators = dict.fromkeys(others) | {
            name: operator_of(tree) for name, tree in nodes.items() if name not in in_use
        }
        keys = self._names("nodes")
        uses = {name: templates.use(name, keys[name], tree) for name, tree in in_use.items()}
        section = self.tree.with_value(nodes, keys if nodes else {})
        states = self.tree.with_value(dict(self._section("states", quiet=True)), self._names("states"))
        names = Names((), (), operators, uses)
        self.uses = Expansion(section, states, names, templates, self.graph, self.report)
        self.report.uses = {**self.report.uses, **self.uses.used}
        self.graph.origin.remarks = tuple(self.uses.warnings())
        self.graph.origin.fixed |= self.uses.fixed
        for name in self.uses.broken:
            self.declared[name], self.named_at[name] = None, keys[name]
        self.broken |= self.uses.broken
        if in_use:
            self.tree = self.tree.copy()
            self.tree.value["nodes"] = self.uses.nodes
            if self.uses.states.value and not self._unreadable("states"):
                self.tree.value["states"] = self.uses.states

    def _declare(self) -> None:
        """Registers the names of inputs, constants and nodes; a name used twice is a problem."""
        for section in DECLARED:
            for name, tree in self._section(section, quiet=True):
                key = self.tree.value[section].keys[name]
                if name in self.declared:
                    self.broken.add(name)
                    hint = f"first in line {self.named_at[name].location.line}"
                    self.report.problem("the name is taken", key, "duplicate", node=name, hint=hint)
                else:
                    self.declared[name] = operator_of(tree) if section == "nodes" else None
                    if section == "states" and isinstance(tree.value, dict) and "grows" in tree.value:
                        self.growing.add(name)
                    self.named_at[name] = key

    def _input(self, name: str, tree: Tree) -> None:
        self._need(tree, ("dtype", "sizes"))
        self.graph.input(name, **tree.plain)

    def _state(self, name: str, tree: Tree) -> None:
        self._need(tree, ("dtype", "sizes"))
        fields = {key: item.plain for key, item in tree.value.items() if key in ("dtype", "sizes", "grows")}
        given = tree.value.get("initial")
        if given is not None and given.value is not None:
            desc = self.graph.checker.describe(dtype=fields["dtype"], sizes=fields["sizes"])
            fields["initial"] = self._initial(given, desc, self._folder_of(name))
        self.graph.state(name, **fields)

    def _folder_of(self, name: str) -> Folder:
        """Where the files are that a declaration names: beside its own file, which may be one of templates."""
        used = None if self.uses is None else self.uses.used.get(name)
        return self.folder if used is None else used.template.folder

    def _initial(self, tree: Tree, desc: TensorDesc, folder: Folder) -> Array | Scalar | None:
        """What a state holds at first; `folder` has the files."""
        if isinstance(tree.value, dict) and tree.value.keys() == {"file", "tensor"}:
            with Report(field="initial"):
                return check_file(self._array(tree.plain, folder), desc.dtype, desc.sizes, tree.value["file"].plain)
        with Report(GraphError) as report:
            content = read_content(tree, "initial", INITIAL, folder, report)
        if content is None or content.kind != "value":
            return None if content is None else content.array(desc, self.graph.dims)
        with Report(field="initial.value"):
            return Scalar.of(content.number(tree.value["value"].plain, "value", self.graph.dims), desc.dtype)

    def _next_values(self) -> None:
        """What changes the states after a run."""
        for name, tree in self._section("states", quiet=True):
            if name in self.broken or not isinstance(tree.value, dict):
                continue
            for key, change in zip(CHANGES, (self.graph.update, self.graph.append), strict=True):
                item = tree.value.get(key)
                source = None if item is None or item.value is None else self._reference(item, key, name)
                if item is not None and source is not None and source not in self.broken:
                    with self._noting(tree, name):
                        with Report(field=key):
                            value = self.graph.value(self._actual(item.value))
                        change(self.graph.value(name), value)

    def _constant(self, name: str, tree: Tree) -> None:
        plain = {key: item.plain for key, item in tree.value.items() if key != "data"}
        if "file" in tree.value:
            if "data" in tree.value:
                raise GraphError(
                    "cannot be given together with 'file'",
                    code="conflict",
                    field="data",
                    hint="give the numbers in one of them",
                )
            with Report(GraphError) as report:
                with report.at():
                    array = self._array(plain, self.folder)
                # The tensor description checks the given dtype and sizes; placeholders replace missing ones.
                stated = self.graph.checker.describe(dtype=plain.get("dtype", "uint8"), sizes=plain.get("sizes", [1]))
            array = check_file(
                array,
                stated.dtype if "dtype" in plain else None,
                stated.sizes if "sizes" in plain else None,
                plain["file"],
            )
            self.graph.constant(name, array)
        else:
            self._need(tree, ("dtype", "sizes", "data"))
            desc = self.graph.checker.describe(dtype=plain["dtype"], sizes=plain["sizes"])
            self.graph.constant(name, from_numbers(tree.value["data"], desc))

    def _array(self, plain: Mapping[str, Any], folder: Folder) -> Array:
        """The array of a file in a folder: of a .npy file, or of one tensor in a safetensors file."""
        name = plain["file"]
        if not isinstance(name, str) or not name.lower().endswith(SUFFIX):
            if "tensor" in plain:
                raise GraphError(
                    "only safetensors files have several tensors", code="conflict", field="tensor", got=plain["tensor"]
                )
            return load_file(name, folder)
        if "tensor" not in plain:
            raise GraphError(
                "must be given: the file has several tensors", code="missing", field="tensor", hint="tensor: NAME"
            )
        archive = self.archives.get((folder, name))
        if archive is None:
            archive = self.archives[folder, name] = Archive(find_file(name, folder, SUFFIX), name)
        return archive.read(plain["tensor"])

    def _nodes(self) -> None:
        trees = {name: tree for name, tree in self._section("nodes") if name not in self.broken}
        sources: dict[str, list[str]] = {}
        for name, operator in ((name, self.declared[name]) for name in trees):
            if operator is not None:
                trees[name] = self._known_keys(trees[name], node_keys(operator), name)
            sources[name] = [source for source in self._sources(name, trees[name]) if source in trees]
        order, cycles = in_order(sources)
        for cycle in cycles:
            self.broken |= cycle.names
            first, few = cycle.path[0], cycle.path[:MOST_SHOWN]
            shown = few if few == cycle.path else [*few, "…", first]
            way = " -> ".join(map(shorten, shown))
            place = self.tree.value["nodes"].keys[first]
            self.report.problem("the nodes form a cycle", place, "cycle", node=first, got=way)
        for name in order:
            self._attempt(name, trees[name], self._operator)

    def _operator(self, name: str, tree: Tree) -> None:
        operator = self.declared[name]
        if operator is None:
            report_operator(name, tree, self.report)
            self.broken.add(name)
            return
        inputs: dict[str, Tree] = {}
        outputs: dict[str, Any] = {}
        attributes: dict[str, Any] = {}
        for key, item in tree.value.items():
            if key in operator.input_arrays:
                if item.value is not None:
                    inputs[key] = item
            elif key in operator.output_arrays:
                outputs[key] = item.plain
            elif key != "op":
                attributes[key] = item.plain
        if self._reads_broken(name, tree):
            self.broken.add(name)
            self.graph.checker.check_fields(operator, inputs, attributes, outputs)
            return
        with Report(GraphError) as report:
            tensors = {key: self._value(item, key, report) for key, item in inputs.items()}
            if report.problems:
                self.graph.checker.check_fields(operator, inputs, attributes, outputs)
        self.graph.add(operator, tensors, attributes, outputs, name)

    def _outputs(self) -> None:
        tree = self.tree.value.get("outputs")
        if tree is None:
            self._missing("the outputs are missing", "outputs", "such as 'outputs: [y]'")
            return
        if isinstance(tree.value, list):
            named = ((item.value, item, item) for item in tree.value)
        elif isinstance(tree.value, dict):
            named = ((name, item, tree.keys[name]) for name, item in tree.value.items())
        else:
            self.report.problem(
                "must be a list of names, or a mapping from names to values",
                tree,
                "kind",
                "outputs",
                got=tree.plain,
                hint=f"such as [{tree.value}]" if isinstance(tree.value, str) else None,
            )
            return
        if not tree.value and self.is_whole:
            self.report.problem("must name at least one output", tree, "no-outputs", "outputs", got=tree.plain)
        for name, item, place in named:
            source = self._reference(item, "outputs")
            if source is not None and source not in self.broken:
                placed = functools.partial(dataclasses.replace, node=None, field="outputs", location=place.location)
                with self.report.at(place=placed):
                    self.graph.output(name, self.graph.value(self._actual(item.value)))

    def _training(self) -> None:
        """How the graph is trained; kept for those who train or save it."""
        tree = self.tree.value.get("training")
        if tree is not None and tree.value is not None:
            from dmlgraph.formats.yaml.training import read_training  # few files have it

            section = read_training(tree, self._actual, self.report)
            if section is not None and not self.report.problems:  # else names may be missing
                with self.report.at():
                    section.put_on(self.graph)

    def _workarounds(self) -> None:
        """What the file says of devices that compute nodes wrong; kept for those who compile or save the graph."""
        tree = self.tree.value.get("workarounds")
        if tree is not None and tree.value is not None:
            from dmlgraph.formats.yaml.workarounds import read_workarounds  # few files have it

            self.graph.origin.workarounds = read_workarounds(tree, self.graph, self.report)

    def _tests(self) -> None:
        """The tests beside the graph; they are checked, and kept for those who run or save them."""
        if any(self._section("tests")):
            from dmlgraph.formats.yaml.reading_tests import Facts, read_tests  # few files have tests

            outputs = self.tree.value.get("outputs")
            named = outputs.value if outputs is not None and isinstance(outputs.value, (list, dict)) else ()
            names = tuple(each if isinstance(each, str) else str(each.value) for each in named)
            inputs, states = (tuple(self._names(section)) for section in ("inputs", "states"))
            facts = Facts(self.graph, self.file_dims, inputs, states, names, self.folder)
            self.graph.origin.tests = read_tests(self.tree.value["tests"], facts, self.report)
