"""Inputs and constants that are declared once and have copies: `layer.{index}.w: {repeat: 12, …}`.

The copies are `layer.0.w`, `layer.1.w`, …; `{index}` in the texts of the declaration is the number of the copy.  What
is expanded is an ordinary section: the reader reads it like one that is written out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from dmlgraph.base.errors import GraphError, Location
from dmlgraph.base.expressions import names_in
from dmlgraph.base.report import Report
from dmlgraph.formats.text_tree.tree import Tree
from dmlgraph.formats.yaml.template import INDEX
from dmlgraph.graph.graph import Graph

MOST_COPIES = 1_000_000  # in a file


def number_of_copies(repeat: Tree, text: Any, graph: Graph) -> int:
    """The number that a `repeat` gives.

    Args:
        repeat: as it is written.
        text: its value: a number, or an expression over dims of the graph.

    Raises:
        GraphError: it is not a whole number of at least 1.
    """
    with Report(GraphError, place=lambda problem: problem.at(location=repeat.location)) as report:
        count = graph.checker.whole(text, "repeat") if isinstance(text, str) else text
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            message, hint = "must be a whole number of at least 1", "the number of copies, or an expression over dims"
            got = repeat.plain if count == repeat.plain else f"{repeat.plain} = {count}"
            report.problem(message, code="copies", field="repeat", got=got, hint=hint)
    return count


class CopyKey:
    """The place of the name of what is repeated, together with the copy."""

    __slots__ = ("copy", "key")

    def __init__(self, key: Tree, copy: int) -> None:
        self.key, self.copy = key, copy

    def __str__(self) -> str:
        return f"copy {self.copy} of '{self.key.value}'"

    @property
    def location(self) -> Location:
        return dataclasses.replace(self.key.location, used_by=str(self))


class Declared:
    """A section of inputs or constants with copies in place of what is repeated; notes what is wrong.

    Attributes:
        tree: the section.
        copies: by name, where each copy is.
        fixed: by dim, what cannot follow it: the number of copies.
        is_whole: whether all copies are known.
    """

    def __init__(self, section: Tree, graph: Graph, report: Report) -> None:
        self.copies: dict[str, CopyKey] = {}
        self.fixed: dict[str, str] = {}
        self.is_whole = True
        self._graph, self._report = graph, report
        values: dict[Any, Tree] = {}
        keys: dict[Any, Any] = {}
        for name, item in section.value.items():
            key = section.keys[name]
            for made, tree in self._copies(name, key, item):
                if made in values:
                    hint = f"first in line {keys[made].location.line}"
                    self._problem("the name is taken", key, "duplicate", made, hint)
                else:
                    values[made], keys[made] = tree, self.copies.get(made, key)
        self.tree = section.with_value(values, keys)

    def _copies(self, name: str, key: Tree, item: Tree) -> Iterator[tuple[str, Tree]]:
        repeat = item.value.get("repeat") if isinstance(item.value, dict) else None
        if repeat is None or repeat.value is None:
            yield name, item
            return
        if INDEX not in name:
            hint = f"such as '{name}.{INDEX}'"
            self._problem(f"must contain {INDEX}, the number of the copy", key, "copies", name, hint)
            return
        with self._report.at(node=name) as part:
            count = number_of_copies(repeat, repeat.plain, self._graph)
            if count > MOST_COPIES:
                message, allowed = "makes too many copies", f"at most {MOST_COPIES:,}"
                part.problem(message, repeat, "copies", "repeat", got=count, allowed=allowed)
        if part.failed:
            self.is_whole = False
            return
        if isinstance(repeat.value, str):
            why = f"the number of copies of '{name}'"
            self.fixed |= {dim: why for dim in names_in(repeat.value) if dim in self._graph.dims}
        rest = {field: each for field, each in item.value.items() if field != "repeat"}
        declaration = item.with_value(rest, {field: item.keys[field] for field in rest})
        for copy in range(count):
            made = name.replace(INDEX, str(copy))
            self.copies.setdefault(made, CopyKey(key, copy))
            yield made, _numbered(declaration, str(copy))

    def _problem(self, message: str, key: Tree, code: str, name: str, hint: str) -> None:
        self.is_whole = False
        self._report.problem(message, key, code, node=name, hint=hint)


def _numbered(tree: Tree, copy: str) -> Tree:
    """The tree with the number of a copy in its texts."""
    value = tree.value
    if isinstance(value, str):
        return tree.with_value(value.replace(INDEX, copy)) if INDEX in value else tree
    if isinstance(value, list):
        return tree.with_value([_numbered(each, copy) for each in value])
    if isinstance(value, dict):
        return tree.with_value({key: _numbered(each, copy) for key, each in value.items()}, tree.keys)
    return tree
