"""Inputs for graphs whose numbers do not matter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dmlgraph.base.memory import enough_memory
from dmlgraph.base.random_arrays import SEED, random_array
from dmlgraph.graph.graph import Graph

Array = np.ndarray[Any, Any]


def complete(graph: Graph, given: Mapping[str, Array], seed: int = SEED) -> tuple[dict[str, Array], tuple[str, ...]]:
    """An array for every input of a graph, and the names of the random ones.

    An input's numbers depend on its name, its description and the seed, not on the other inputs.  Given arrays are not
    checked here: running the graph checks them.
    """
    missing = [node for node in graph.inputs if node.name not in given]
    with enough_memory("make inputs for", graph):
        made = {node.name: random_array(node.desc, node.name, seed) for node in missing}
    return dict(given) | made, tuple(made)
