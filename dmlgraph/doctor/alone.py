"""Tries in processes of their own, for devices that are lost or do not end; the smallest graph with which they are."""

from __future__ import annotations

import os
import pathlib
import pickle
import tempfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlgraph.doctor.cut import cut
from dmlgraph.doctor.finding import Finding, Kind
from dmlgraph.doctor.values import in_source
from dmlgraph.graph.nodes import OperatorNode, is_view
from dmlgraph.testing.records import Outcome
from dmlgraph.testing.subprocess_runner import SECONDS, EndedError, ask

if TYPE_CHECKING:
    from dmlgraph.devices import Choice
    from dmlgraph.graph.graph import Graph

Array = np.ndarray[Any, Any]
Ended = tuple[Kind, str]

HELPS = {
    Kind.LOST: "another driver, --no-metacommands or smaller sizes may help: Windows resets a GPU that takes more than"
    " 2 seconds for a dispatch",
    Kind.HANG: "another driver, --no-metacommands or smaller sizes may help; so may a longer --time-limit",
}


def try_alone(
    graph: Graph, device: Choice, inputs: Mapping[str, Array], *, fuse: bool, seconds: float
) -> Ended | None:
    """Runs a graph in a process of its own: how it took the device or the process with it; None if it did not."""
    with tempfile.TemporaryDirectory(prefix="dmlgraph-", ignore_cleanup_errors=True) as folder:
        case = pathlib.Path(folder, "case.pickle")
        permissions = {"metacommands": device.metacommands, "half_precision": device.half_precision}
        case.write_bytes(pickle.dumps((graph, device.name, dict(inputs), {"fuse": fuse, **permissions})))
        try:
            answer = ask({"task": "run", "case": os.fspath(case)}, seconds=seconds, shown=[graph.name, device.name])
        except EndedError as error:
            kind = Kind.HANG if error.result.outcome is Outcome.TIMED_OUT else Kind.LOST
            return kind, error.result.report
    return (Kind.LOST, f"the device was removed: {answer['reason']}") if answer["code"] == "device-removed" else None


def smallest_lost(
    graph: Graph,
    device: Choice,
    inputs: Mapping[str, Array],
    ended: Ended | None,
    *,
    fuse: bool,
    seconds: float | None = None,
) -> Finding:
    """The fewest neighbouring nodes that take the device with them, by two bisections.

    Args:
        graph: that does.
        device: which.
        inputs: an array for every input.
        ended: how it ended in a process of its own; None if it has not been tried.
        fuse: as in `Graph.compile`.
        seconds: after which a process is killed.
    """
    limit = SECONDS if seconds is None else seconds
    known: dict[tuple[str, int], Array] = {(name, 0): np.asarray(value) for name, value in inputs.items()}
    live = graph.live_nodes()
    nodes = [node.name for node in graph.nodes if isinstance(node, OperatorNode) and node.name in live]
    executions = 1

    def tried(names: Sequence[str]) -> Ended | None:
        nonlocal executions
        executions += 1
        asked = [name for name in names if not is_view(graph.node(name))]
        if not asked:
            return None
        piece = cut(graph, asked)
        values = [graph.value(node.name) for node in piece.inputs]
        wanted = in_source(graph, [(value.node, value.port) for value in values], known)
        given = {node.name: array for node, array in zip(piece.inputs, wanted.values(), strict=True)}
        return try_alone(piece, device, given, fuse=fuse, seconds=limit)

    last, low = len(nodes), 0
    while last - low > 1:  # nodes[:last] takes the device with it, nodes[:low] does not
        middle = (last + low) // 2
        found = tried(nodes[:middle])
        ended, low, last = (found, low, middle) if found else (ended, middle, last)
    first, high = 0, last
    while high - first > 1:  # nodes[first:last] does, nodes[high:last] does not
        middle = (first + high) // 2
        found = tried(nodes[middle:last])
        ended, first, high = (found, middle, high) if found else (ended, first, middle)
    kind, why = ended or (Kind.LOST, "the device is lost in this process, and not in one of its own")
    group = tuple(nodes[first:last])
    return Finding(
        kind,
        device.name,
        node=nodes[last - 1],
        group=group if len(group) > 1 else (),
        executions=executions,
        why=f"{why.splitlines()[0]}\n{HELPS[kind]}" if ended else why,
    )
