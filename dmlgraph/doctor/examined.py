"""An examination in words, for those who try many graphs on many devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlgraph.doctor.find import find
from dmlgraph.doctor.finding import Kind
from dmlgraph.doctor.words import described

if TYPE_CHECKING:
    from dmlgraph.devices import Choice
    from dmlgraph.graph.graph import Graph


def examined(graph: Graph, device: Choice, inputs: Mapping[str, np.ndarray[Any, Any]]) -> str:
    """What a device computes wrong, in lines; empty if nothing is wrong.

    Raises:
        DmlGraphError: as `find`.
    """
    finding = find(graph, device, inputs)
    return "" if finding.kind is Kind.SOUND else "\n".join(described(graph, finding))
