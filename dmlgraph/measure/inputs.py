"""Inputs for graphs whose numbers do not matter."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from dmlgraph.graph import Graph
from dmlgraph.memory import enough_memory
from dmlgraph.tensor import TensorDesc

Array = np.ndarray[Any, Any]

SEED = 0
WHOLE_NUMBERS = 8  # random integers are below this: every data type holds them, and most are legal as indices


def complete(graph: Graph, given: Mapping[str, Array], seed: int = SEED) -> tuple[dict[str, Array], tuple[str, ...]]:
    """An array for every input of a graph, and the names of the random ones.

    An input's numbers depend on its name, its description and the seed, not on the other inputs.  Given arrays are not
    checked here: running the graph checks them.
    """
    missing = [node for node in graph.inputs if node.name not in given]
    with enough_memory("make inputs for", graph):
        made = {node.name: random_array(node.desc, node.name, seed) for node in missing}
    return dict(given) | made, tuple(made)


def random_array(desc: TensorDesc, name: str = "", seed: int = SEED) -> Array:
    """Normally distributed floats, or integers from 0 to 7; the same for the same arguments."""
    generator = np.random.default_rng([seed, zlib.crc32(name.encode())])
    numbers = (
        generator.standard_normal(desc.sizes)
        if desc.dtype.is_float
        else generator.integers(WHOLE_NUMBERS, size=desc.sizes)
    )
    return numbers.astype(desc.dtype.numpy)
