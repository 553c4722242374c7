"""A case with which a device is lost or does not end, as small as it still does; each try is in its own process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlgraph.doctor.alone import try_alone
from dmlgraph.doctor.cut import cut, cut_node
from dmlgraph.doctor.diagnosis import Diagnosis, read_by
from dmlgraph.doctor.finding import Finding, Kind
from dmlgraph.doctor.shrink import Shrunk, shrink
from dmlgraph.doctor.values import in_source

if TYPE_CHECKING:
    from dmlgraph.devices import Choice
    from dmlgraph.graph.graph import Graph

Array = np.ndarray[Any, Any]

MOST = {Kind.LOST: 30, Kind.HANG: 4}  # tries; each of a device that does not end takes the whole time limit
SAID = {Kind.LOST: "the device is lost, or its process ends", Kind.HANG: "there is no end within the time limit"}


def diagnose_ended(
    graph: Graph, finding: Finding, inputs: Mapping[str, Array], device: Choice, *, fuse: bool, seconds: float
) -> Diagnosis:
    """The smallest case that was found; no ways round it are tried.

    Args:
        graph: with its dims resolved.
        finding: of it: `Kind.LOST` or `Kind.HANG`, with its nodes.
        inputs: with which it is.
        device: which.
        fuse: as in `Graph.compile`.
        seconds: after which a process is killed.
    """
    nodes = finding.nodes

    def ends(part: Graph, given: Mapping[str, Array]) -> bool:
        return try_alone(part, device, given, fuse=fuse, seconds=seconds) is not None

    if len(nodes) == 1:
        part, given = cut_node(graph, nodes[0], read_by(graph, nodes[0], inputs))
        case = shrink(part, given, ends, most=MOST[finding.kind])
    else:
        part = cut(graph, nodes)
        values = {node.name: graph.value(node.name) for node in part.inputs}
        sources = {name: (value.node, value.port) for name, value in values.items()}
        known = in_source(graph, list(sources.values()), {(name, 0): each for name, each in inputs.items()})
        given = {name: known[source] for name, source in sources.items()}
        case = Shrunk(part, given, executions=0, is_smallest=True, is_anonymous=False)
    executions = finding.executions + case.executions
    return Diagnosis(graph, nodes, device, case, None, None, executions, SAID[finding.kind], finding.kind)
