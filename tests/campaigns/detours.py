"""Random graphs in which every node that can takes a detour: they compute what they did."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from support.random_graphs import graph_of

import dmlgraph as dg
from campaigns.campaign import Campaign
from dmlgraph.base.tensor import DataType
from dmlgraph.compiler.detours import DETOURS, take
from dmlgraph.devices.workarounds import Workaround
from dmlgraph.doctor.trials import near_as_a_whole
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.measure.inputs import complete

Array = np.ndarray[Any, Any]

# These round elsewhere, and squares may overflow on the way: where numbers are extreme, or float16, small differences
# decide much.  There they only have to run; `compiler/test_detours.py` compares each of them alone.
ROUND_ELSEWHERE = ("decomposed", "float32")


def one_case(seed: int) -> str | None:
    """What is wrong with a graph on `cpu`, by a detour in turn."""
    kind = list(DETOURS)[seed % len(DETOURS)]
    sample = graph_of(seed)
    graph = sample.graph
    inputs = complete(graph, {})[0]
    expected = graph.compile("reference", fuse=False).run(inputs)
    plain = graph.compile("cpu").run(inputs)
    other = copy.copy(graph)
    other.origin.workarounds = (Workaround("cpu", nodes=possible(graph, kind)),)
    got = other.compile("cpu").run(inputs)
    if kind in ROUND_ELSEWHERE and not (sample.tame and _has_no_float16(graph)):
        return None
    wrong = [
        name
        for name, array in expected.items()
        if _is_usual(array)
        and near_as_a_whole(plain[name], array).equal
        and not near_as_a_whole(_normal(got[name]), _normal(array)).equal
    ]
    return f"{kind}: wrong {', '.join(wrong)}" if wrong else None


def _is_usual(array: Array) -> bool:
    """Whether no number is so large that it overflows where something else is added up first."""
    return array.dtype.kind != "f" or bool((np.abs(array) < np.finfo(array.dtype).max / 8).all())


def _normal(array: Array) -> Array:
    """Numbers below the least normal one become 0, as in an exponential or a product that is computed first."""
    return np.where(np.abs(array) < np.finfo(array.dtype).tiny, 0, array) if array.dtype.kind == "f" else array


def _has_no_float16(graph: dg.Graph) -> bool:
    nodes = (each for each in graph.nodes if isinstance(each, OperatorNode))
    descs = (desc for each in nodes for desc in each.operator.output_descs if desc is not None)
    return all(desc.dtype is not DataType.FLOAT16 for desc in descs)


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
