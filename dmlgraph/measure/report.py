"""Differences of arrays as lines of text: how large they are, and which node they come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from dmlgraph.base.tables import lines
from dmlgraph.measure.ulp import Comparison, compare, show_number

if TYPE_CHECKING:
    from dmlgraph.base.tensor import TensorDesc
    from dmlgraph.graph.graph import Graph
    from dmlgraph.measure.diff import Difference, Finding

INDENT = "  "


def summary(comparison: Comparison) -> tuple[str, str, str]:
    """How many elements differ, and the largest differences: in ULP, and absolute."""
    differs = "equal" if comparison.equal else f"{comparison.differing} of {comparison.elements}"
    return differs, "NaN" if comparison.ulp is None else str(comparison.ulp), f"{comparison.absolute:.3g}"


def of_outputs(descs: Mapping[str, TensorDesc], compared: Mapping[str, Comparison]) -> Iterator[str]:
    """A table of outputs, with how much each differs."""
    rows = [["output", "data type", "sizes", "differs", "ULP", "absolute"]]
    for name, comparison in compared.items():
        rows.append([name, str(descs[name].dtype), str(list(descs[name].sizes)), *summary(comparison)])
    yield from lines(rows, "<<<<>>")


def greatest(comparison: Comparison) -> str:
    """How many elements differ, and by how much the one does that differs most."""
    differs, ulp, absolute = summary(comparison)
    distance = "a NaN against a number" if comparison.ulp is None else f"{ulp} ULP, {absolute}"
    return f"{differs} elements differ, most of all this one: {distance}"


def neighbours(name: str, comparison: Comparison, sides: tuple[str, str]) -> Iterator[str]:
    """The element that differs most, marked, and the elements around it, each as both sides have it."""
    rows = [["", "element", *sides, "ULP", "absolute"]]
    for index, a, b in comparison.around:
        both = compare(np.array([a]), np.array([b]))
        _, ulp, absolute = summary(both)
        mark = ">" if index == comparison.index else ""
        rows.append([mark, f"{name}{list(index)}", show_number(a), show_number(b), ulp, absolute])
    yield from lines(rows, "<<<<>>")


def cause(graph: Graph, found: Difference) -> Iterator[str]:
    """Where a difference comes from: the first node that differs, if there is one."""
    if found.first is not None:
        yield from _finding(graph, found.first)
    elif found.changed:
        changed = " and ".join(f"'{side}'" for side in found.changed)
        yield f"no single node differs: the outputs of {changed} change when every intermediate value is kept,"
        yield "so the difference comes from running several nodes as one"
    else:
        yield "no single node differs when every intermediate value is kept"


def _finding(graph: Graph, finding: Finding) -> Iterator[str]:
    place = graph.origin.location(finding.node)
    operators = " and ".join(dict.fromkeys(finding.operators))
    yield f"{f'{place}: ' if place else ''}the first node that differs is '{finding.node}', {operators}"
    for line in neighbours(finding.value, finding.comparison, (str(finding.sides[0]), str(finding.sides[1]))):
        yield INDENT + line
    yield INDENT + greatest(finding.comparison)
    if finding.rules:
        yield f"{INDENT}fused from {', '.join(finding.origins)} by {', '.join(finding.rules)}"
    if all(side.fuse for side in finding.sides):
        yield f"{INDENT}without fusion, no node differs"
