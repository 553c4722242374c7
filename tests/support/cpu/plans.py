"""Plans of `cpu` as text, as `dmlgraph lower --device cpu` prints them, beside what is expected."""

from __future__ import annotations

import textwrap

import dmlgraph as dg
from dmlgraph.devices.cpu import CpuDevice
from dmlgraph.devices.cpu.executable import CpuExecutable
from dmlgraph.devices.executable import Executable


def plan(graph: dg.Graph) -> str:
    """The plan of a graph whose nodes are not fused before."""
    return CpuDevice(1).plan(graph.lower(fuse=False))


def steps(graph: dg.Graph) -> list[str]:
    """The lines of its steps."""
    return plan(graph).splitlines()[1:]


def kinds(executable: Executable) -> list[str]:
    """How each step of a compiled graph runs: the name of a kernel, `region`, or `python`, which evaluates a node."""
    assert isinstance(executable, CpuExecutable)
    return [line.partition(" ")[0] for line in executable.plan().splitlines()[1:]]


def check_plan(graph: dg.Graph, expected: str) -> None:
    """Compares the plan with the text, from which the indentation of the test is taken."""
    assert plan(graph) == textwrap.dedent(expected).lstrip()


def check_steps(graph: dg.Graph, expected: str) -> None:
    """Compares the lines of the steps alone: their memory is not what the test is about."""
    assert "\n".join(steps(graph)) == textwrap.dedent(expected).strip()
