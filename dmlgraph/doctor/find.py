"""Finds the first node that a device computes wrong.

    finding = find(graph, "directml:software", inputs)

Values between nodes are made outputs, so that each node is judged by what it read on the device: a difference that was
in its inputs is not its fault.  Where a fault vanishes then, because the device no longer runs several nodes as one, a
bisection over the values that are outputs finds those nodes.  What is accused is run alone, twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlgraph.base.errors import DeviceError
from dmlgraph.base.memory import enough_memory
from dmlgraph.devices import Choice, choose
from dmlgraph.doctor.alone import smallest_lost, try_alone
from dmlgraph.doctor.finding import Finding, Kind
from dmlgraph.doctor.golden import Golden, recorded
from dmlgraph.doctor.search import Search

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
    memory than runs are given.

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
    search = Search(graph, choice, right, inputs, fuse=fuse)
    try:
        with enough_memory("examine", graph):
            finding = _found(search)
    except DeviceError as error:
        if error.code in LOST:
            return smallest_lost(graph, choice, inputs, None, fuse=fuse, seconds=time_limit)
        if error.code != "refused":
            raise
        return _refused(search, error)
    if isinstance(against, Golden) and finding.node is None and finding.kind in (Kind.SOUND, Kind.AMPLIFICATION):
        return recorded(finding, graph, inputs, against)
    return finding


def _found(search: Search) -> Finding:
    first, second = search.whole()
    unstable = any(not _same(value, second[name]) for name, value in first.items())
    suspect = search.first_wrong(again=unstable)
    if suspect is not None:
        return search.accused(search.confirmed(suspect), unstable=unstable)
    if unstable:
        return search.unstable(first, second)
    if search.explains(first):
        return _without_a_node(search, first)
    suspect = search.merged()
    return _without_a_node(search, first) if suspect is None else search.accused(suspect, unstable=False)


def _without_a_node(search: Search, results: Mapping[str, Array]) -> Finding:
    """The outputs are those that the nodes make of the inputs: are they also near what the reference makes of them?"""
    outputs = search.measured(results)
    kind = Kind.SOUND if search.is_near(results) else Kind.AMPLIFICATION
    why = "" if kind is Kind.SOUND else search.growth()
    return Finding(kind, search.device.name, executions=search.executions, outputs=outputs, why=why)


def _refused(search: Search, error: DeviceError) -> Finding:
    nodes = [problem.node for problem in error.problems if problem.node is not None]
    return Finding(
        Kind.REFUSED,
        search.device.name,
        node=nodes[0] if nodes else None,
        group=tuple(nodes) if len(nodes) > 1 else (),
        executions=search.executions,
        why=str(error),
    )


def _same(a: Array, b: Array) -> bool:
    return a.tobytes() == b.tobytes()
