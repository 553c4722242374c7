"""Plans of `cpu` as text, as `dmlgraph lower --device cpu` prints them, beside what is expected."""

from __future__ import annotations

import textwrap

import dmlgraph as dg
from dmlgraph.devices.cpu import CpuDevice


def plan(graph: dg.Graph) -> str:
    """The plan of a graph whose nodes are not fused before."""
    return CpuDevice(1).plan(graph.lower(fuse=False))


def steps(graph: dg.Graph) -> list[str]:
    """The lines of its steps."""
    return plan(graph).splitlines()[1:]


def check_plan(graph: dg.Graph, expected: str) -> None:
    """Compares the plan with the text, from which the indentation of the test is taken."""
    assert plan(graph) == textwrap.dedent(expected).lstrip()


def check_steps(graph: dg.Graph, expected: str) -> None:
    """Compares the lines of the steps alone: their memory is not what the test is about."""
    assert "\n".join(steps(graph)) == textwrap.dedent(expected).strip()
