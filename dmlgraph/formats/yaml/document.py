"""A document that is read: the names that it declares, references to them, and problems at their places."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

from dmlgraph.base.errors import DocumentError, GraphError, Problem, listing, shorten
from dmlgraph.base.report import DocumentReport, Part, Report
from dmlgraph.formats.arrays import Folder
from dmlgraph.formats.safetensors import Archive
from dmlgraph.formats.text_tree.keys import known_keys
from dmlgraph.formats.text_tree.tree import Tree
from dmlgraph.formats.yaml.declarations import dim_hint, operator_of
from dmlgraph.formats.yaml.expansion import Expansion
from dmlgraph.graph.graph import Graph
from dmlgraph.graph.nodes import may_have_output, readings, reference_hint
from dmlgraph.operators.declaration.operator import Operator

DECLARED = ("inputs", "states", "constants", "nodes")


class Document:
    """What is known of a document while its graph is built, so that each problem is reported once.

    `broken` holds the names whose declaration is wrong: nodes that depend on them are skipped silently.  `lost` holds
    the nodes with a reference to an unknown name.  A graph that is not whole may lack outputs.
    """

    def __init__(self, tree: Tree, folder: Folder, report: DocumentReport, is_whole: bool) -> None:
        self.is_whole = is_whole
        self.tree, self.folder, self.report = tree, folder, report
        self.broken: set[str] = set()
        self.lost: set[str] = set()
        self.declared: dict[str, type[Operator] | None] = {}  # every name; a node's operator, if it exists
        self.named_at: dict[str, Tree] = {}  # where each of these names is
        self.growing: set[str] = set()  # states that have a length
        self.uses: Expansion | None = None  # of templates, if there are any
        self._meant: dict[str, str | None] = {}  # see `_source`
        self.archives: dict[tuple[Folder, str], Archive] = {}  # safetensors files by folder and name
        self.file_dims: dict[str, int] = {}  # before others replace them
        self.graph = Graph()

    # References.

    def _source(self, reference: str) -> str | None:
        """The node, input or constant that a reference reads; None for unknown names.

        Where names contain dots, the part after the name must be an output of the node, if such a node is declared.
        """
        if reference not in self._meant:
            actual = self._actual(reference)
            found = [(name, path) for name, path in readings(actual) if name in self.declared]
            fitting = (name for name, path in found if self._may_have(name, path))
            self._meant[reference] = next(fitting, found[0][0] if found else None)
        return self._meant[reference]

    def _actual(self, reference: str) -> str:
        """A reference with the node in place of a use that contains it."""
        return reference if self.uses is None else self.uses.meaning(reference)

    def _may_have(self, name: str, path: str) -> bool:
        operator = self.declared[name]
        if operator is None:
            return not path or (path == ".length" and name in self.growing)
        return may_have_output(operator, path)

    def _sources(self, name: str, tree: Tree) -> Iterator[str]:
        """The nodes that a node reads; a reference to an unknown name is a problem."""
        for field, each in self._references(name, tree):
            source = self._reference(each, field, name)
            if source is None:
                self.lost.add(name)
            else:
                yield source

    def _references(self, name: str, tree: Tree) -> Iterator[tuple[str, Tree]]:
        """Every input tensor of a node: its field, and the tree that should name it."""
        operator = self.declared[name]
        for field in operator.input_fields if operator else ():
            item = tree.value.get(field)
            if item is not None and item.value is not None:
                for each in item.value if isinstance(item.value, list) else (item,):
                    yield field, each

    def _reference(self, tree: Tree, field: str, node: str | None = None) -> str | None:
        """What the reference in a tree reads (`_source`); None, and a problem, where that is not declared."""
        if not isinstance(tree.value, str):
            self.report.problem(
                "must be the name of an input, constant or node",
                tree,
                "kind",
                field,
                node=node,
                got=tree.plain,
                hint="use a fill_value_constant to make a tensor of a number"
                if isinstance(tree.value, (int, float))
                else None,
            )
            return None
        source = self._source(tree.value)
        if source is None and not self._unreadable(*DECLARED):  # else it may be in the section that could not be read
            wrong = None if self.uses is None else self.uses.problem(tree.value, tree)
            if wrong is not None:
                self.report.add(dataclasses.replace(wrong, node=node, field=field))
                return None
            near = reference_hint(tree.value, self.declared)
            self.report.problem(
                f"there is no input, constant or node called '{shorten(tree.value)}'",
                tree,
                "unknown-node",
                field,
                node=node,
                allowed=None if near or not self.declared else self._names_declared,
                hint=near,
            )
        return source

    @functools.cached_property
    def _names_declared(self) -> str:
        return listing(sorted(self.declared), at_most=8)

    def _value(self, tree: Tree, field: str, report: Report) -> Any:
        """What a field of tensors refers to; None for nothing, and where the report has noted a problem."""
        if isinstance(tree.value, list):
            return [self._value(item, f"{field}.{index}", report) for index, item in enumerate(tree.value)]
        try:
            return None if tree.value is None else self.graph.value(self._actual(tree.value))
        except GraphError as error:
            report.add(*(dataclasses.replace(problem, node=None, field=field) for problem in error.problems))
            return None

    # Problems and their places.

    def _attempt(self, name: str, tree: Tree, build: Any, known: tuple[str, ...] | None = None) -> None:
        """Builds one declaration; adds places to its problems, and marks its name as broken if it has any."""
        if name in self.broken:
            return
        if not isinstance(tree.value, dict):
            self.report.problem(
                "must be a mapping", tree, "kind", node=name, got=tree.plain, hint="such as {key: value, …}"
            )
            self.broken.add(name)
            return
        if known is not None:
            tree = self._known_keys(tree, known, name)
        with self._noting(tree, name) as part:
            build(name, tree)
            if name not in self.broken:
                self.graph.origin.places[name] = self.named_at[name], tree.value
        if part.failed:
            self.broken.add(name)

    def _reads_broken(self, name: str, tree: Tree) -> bool:
        """Whether a node reads a broken or unknown name."""
        if name in self.lost or not self.broken:
            return name in self.lost
        return any(self._source(each.value) in self.broken for _, each in self._references(name, tree))

    def _noting(self, tree: Tree, name: str | None = None) -> Part:
        """Notes the problems of an error raised inside, with their places, and continues."""
        return self.report.at(place=functools.partial(self._placed, tree, name))

    def _placed(self, tree: Tree, name: str | None, problem: Problem) -> Problem | None:
        """A problem with its place: the field's, else the name's."""
        if problem.code == "unknown-dim" and self._unreadable("dims"):
            return None
        if problem.code == "unknown-dim" and self.uses is not None:
            problem = self.uses.with_dims(problem, name)
        hint, operator = dim_hint(problem, self.file_dims), operator_of(tree)
        if operator and problem.code == "missing" and hint is None and problem.field in operator.fields:
            hint = f"'dmlgraph operators {operator.name}' lists its fields"
        place = tree.find(problem.field, key=problem.code == "unknown-field")
        if name is not None and place is tree:
            place = self.named_at[name]
        return dataclasses.replace(problem, hint=hint).at(node=name, location=place.location)

    def _names(self, section: str) -> dict[str, Tree]:
        """The places of a section's names."""
        return self.tree.value[section].keys if section in self.tree.value else {}

    def _unreadable(self, *sections: str) -> bool:
        """Whether one of the sections is given and is not a mapping."""
        trees = [self.tree.value[section] for section in sections if section in self.tree.value]
        return any(not isinstance(tree.value, dict | None) for tree in trees)

    def _section(self, section: str, *, quiet: bool = False) -> Iterator[tuple[str, Tree]]:
        tree = self.tree.value.get(section)
        if tree is None or tree.value is None:
            return
        if isinstance(tree.value, dict):
            yield from tree.value.items()
        elif not quiet:
            self.report.problem(
                "must be a mapping from names",
                tree,
                "kind",
                section,
                got="a list" if isinstance(tree.value, list) else tree.plain,
                hint="write 'name: …', without '- ' before it" if isinstance(tree.value, list) else "such as {name: …}",
            )

    def _known_keys(self, tree: Tree, known: tuple[str, ...], node: str | None = None) -> Tree:
        """Reports unknown keys, and returns the tree without them."""
        return known_keys(tree, known, self.report, node=node)

    def _need(self, tree: Tree, needed: tuple[str, ...]) -> None:
        """Raises the problems of keys that are missing."""
        with Report(DocumentError) as report:
            for key in needed:
                if key not in tree.value:
                    report.problem("must be given", code="missing", field=key)

    def _missing(self, message: str, section: str, hint: str) -> None:
        """Notes that a section is missing: a problem of the whole file, so that no line is shown."""
        place = dataclasses.replace(self.tree.location, end_column=None, source=None)
        self.report.add(Problem(message, code="missing", field=section, hint=hint, location=place))
