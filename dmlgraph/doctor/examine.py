"""Examines a device: finds what is wrong, and what comes after that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlgraph.doctor.find import find

if TYPE_CHECKING:
    from dmlgraph.devices import Choice
    from dmlgraph.devices.names import DeviceName
    from dmlgraph.doctor.finding import Finding
    from dmlgraph.doctor.golden import Golden
    from dmlgraph.graph.graph import Graph

Array = np.ndarray[Any, Any]


def examine(
    graph: Graph,
    device: DeviceName | Choice,
    inputs: Mapping[str, Array],
    *,
    against: DeviceName | Choice | Golden = "reference",
    fuse: bool = True,
    time_limit: float | None = None,
) -> Finding:
    """What a device computes wrong; the arguments are those of `dmlgraph.doctor.find.find`.

    Shrinking the finding, the ways round it and the report belong here, behind `find`.
    """
    return find(graph, device, inputs, against=against, fuse=fuse, time_limit=time_limit)
