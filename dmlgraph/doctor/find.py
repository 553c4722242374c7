"""Finds the first node that a device computes wrong.

    finding = find(graph, "directml:software", inputs)

Values between nodes are made outputs, so that each node is judged by what it read on the device: a difference that was
in its inputs is not its fault.  Where a fault vanishes then, because the device no longer runs several nodes as one, a
bisection over the values that are outputs finds those nodes.  What is accused is run alone, twice.  Of a fault that is
gone there, too, it is said between which nodes it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlgraph.base.errors import DeviceError
from dmlgraph.base.memory import enough_memory
from dmlgraph.devices import Choice, choose
from dmlgraph.doctor.accuse import accused, vanished
from dmlgraph.doctor.alone import smallest_lost, try_alone
from dmlgraph.doctor.changing import changing
from dmlgraph.doctor.finding import Finding, Kind
from dmlgraph.doctor.golden import Golden, recorded
from dmlgraph.doctor.one_node import confirmed, first_wrong
from dmlgraph.doctor.runs import Runs, Suspect, is_same
from dmlgraph.doctor.together import Vanished, together
from dmlgraph.doctor.whole import Whole

if TYPE_CHECKING:
    from dmlgraph.devices.names import DeviceName
    from dmlgraph.graph.graph import Graph

Array = np.ndarray[Any, Any]

LOST = ("device-removed",)


def find(
    graph: Graph,
    device: DeviceName | Choice,
    inputs: Mapping[str, Array],
    *,
    against: DeviceName | Choice | Golden = "reference",
    fuse: bool = True,
    time_limit: float | None = None,
) -> Finding:
    """The first node that a device computes wrong, or what else is wrong.

    It runs something at most 2 · log2(nodes) + 5 times on the device, unless the values between the nodes need more
    memory than runs are given; and as often again where more than two nodes are wrong only together.

    Args:
        graph: with its dims resolved.
        device: to examine.
        inputs: an array for every input.
        against: what is right: a device, or values that were recorded elsewhere.
        fuse: as in `Graph.compile`.
        time_limit: seconds; the first run is then in a process of its own, which is killed after them.

    Raises:
        DmlGraphError: as when compiling and running the graph, except for a removed device and a refused graph.
    """
    choice = device if isinstance(device, Choice) else choose(device)
    if time_limit is not None:
        ended = try_alone(graph, choice, inputs, fuse=fuse, seconds=time_limit)
        if ended is not None:
            return smallest_lost(graph, choice, inputs, ended, fuse=fuse, seconds=time_limit)
    right = against if isinstance(against, Choice) else choose("reference" if isinstance(against, Golden) else against)
    runs = Runs(graph, choice, right, inputs, fuse=fuse)
    try:
        with enough_memory("examine", graph):
            finding = _found(runs)
    except DeviceError as error:
        if error.code in LOST:
            return smallest_lost(graph, choice, inputs, None, fuse=fuse, seconds=time_limit)
        if error.code != "refused":
            raise
        return _refused(runs, error)
    if isinstance(against, Golden) and finding.node is None and finding.kind in (Kind.SOUND, Kind.AMPLIFICATION):
        return recorded(finding, graph, inputs, against)
    return finding


def _found(runs: Runs) -> Finding:
    first, second = runs.whole()
    unstable = not is_same(list(first.values()), list(second.values()))
    suspect = first_wrong(runs, again=unstable)
    if suspect is not None:
        return accused(runs, confirmed(runs, suspect), unstable=unstable)
    whole = Whole(runs)
    if unstable:
        return _unstable(runs, whole, first, second)
    found = None if whole.explains(first) else together(runs, whole)
    if isinstance(found, Suspect):
        return accused(runs, found, unstable=False)
    outputs = whole.measured(first)
    is_near = whole.is_near(outputs)
    if found is not None and (not is_near or whole.stands_out(first)):
        return vanished(runs, found, Kind.VANISHING, outputs)
    if is_near:
        return Finding(Kind.SOUND, runs.device.name, executions=runs.executions, outputs=outputs)
    return Finding(
        Kind.AMPLIFICATION, runs.device.name, executions=runs.executions, outputs=outputs, why=whole.growth()
    )


def _unstable(runs: Runs, whole: Whole, first: Mapping[str, Array], second: Mapping[str, Array]) -> Finding:
    """Two runs differ, and every node computed what it should of what it read."""
    found = changing(runs, whole, first, second)
    if isinstance(found, Suspect):
        return accused(runs, found, unstable=True)
    if isinstance(found, Vanished):
        return vanished(runs, found, Kind.UNSTABLE, {})
    why = "two runs of the graph differ, but no node does when the values between the nodes are outputs"
    return Finding(Kind.UNSTABLE, runs.device.name, executions=runs.executions, why=why)


def _refused(runs: Runs, error: DeviceError) -> Finding:
    nodes = [problem.node for problem in error.problems if problem.node is not None]
    return Finding(
        Kind.REFUSED,
        runs.device.name,
        node=nodes[0] if nodes else None,
        group=tuple(nodes) if len(nodes) > 1 else (),
        executions=runs.executions,
        why=str(error),
    )
