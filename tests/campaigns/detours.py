"""Random graphs in which every node that can takes a detour: they compute what they did."""

from __future__ import annotations

import copy

import numpy as np
from support.random_graphs import graph_of

import dmlgraph as dg
from campaigns.campaign import Campaign
from dmlgraph.compiler.detours import DETOURS, take
from dmlgraph.devices.workarounds import Workaround
from dmlgraph.doctor.trials import near_as_a_whole
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.measure.inputs import complete

OVERFLOWING = ("decomposed",)  # squares may be infinite on the way


def one_case(seed: int) -> str | None:
    """What is wrong with a graph on `cpu`, by a detour in turn."""
    kind = list(DETOURS)[seed % len(DETOURS)]
    graph = graph_of(seed).graph
    inputs = complete(graph, {})[0]
    expected = graph.compile("reference", fuse=False).run(inputs)
    plain = graph.compile("cpu").run(inputs)
    other = copy.copy(graph)
    other.origin.workarounds = (Workaround("cpu", nodes=possible(graph, kind)),)
    got = other.compile("cpu").run(inputs)
    wrong = [
        name
        for name, array in expected.items()
        if near_as_a_whole(plain[name], array).equal
        and not near_as_a_whole(got[name], array).equal
        and not (kind in OVERFLOWING and got[name].dtype.kind == "f" and not np.isfinite(got[name]).all())
    ]
    return f"{kind}: wrong {', '.join(wrong)}" if wrong else None


def possible(graph: dg.Graph, kind: str) -> dict[str, str]:
    """The nodes that can take a detour."""
    found = {}
    for node in graph.nodes:
        if isinstance(node, OperatorNode):
            try:
                take(graph, {node.name: kind})
            except dg.GraphError:
                continue
            found[node.name] = kind
    return found


CAMPAIGN = Campaign("detours", "nodes of random graphs that are computed in another way: as before", one_case)
