"""What a failed test says: which outputs differ, by how much, and the first node that does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from dmlgraph.measure.diff import labels_of_states
from dmlgraph.measure.report import INDENT, cause, greatest, neighbours

if TYPE_CHECKING:
    from dmlgraph.graph.graph import Graph
    from dmlgraph.measure.diff import Difference
    from dmlgraph.measure.ulp import Comparison


def outputs(graph: Graph, comparisons: Mapping[str, Comparison], sides: tuple[str, str]) -> Iterator[str]:
    """The outputs and states that differ, with the values around the element that differs most."""
    states = {label: state.name for label, state in labels_of_states(graph).items()}
    for label, comparison in comparisons.items():
        if not comparison.equal:
            what, name = ("state", states[label]) if label in states else ("output", label)
            yield f"{what} '{name}': {greatest(comparison)}"
            yield from (INDENT + line for line in neighbours(name, comparison, sides))


def difference(graph: Graph, found: Difference) -> Iterator[str]:
    """A difference of two sides: the outputs, and where it comes from."""
    a, b = map(str, found.sides)
    yield f"'{a}' and '{b}' differ" + (f" in step {found.step}" if found.step else "")
    yield from outputs(graph, found.outputs, (a, b))
    yield from cause(graph, found)
