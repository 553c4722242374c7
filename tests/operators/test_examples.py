"""Every operator has an example: a graph file that loads, uses it, and runs."""

from __future__ import annotations

import numpy as np
import pytest

import dmlgraph as dg
from dmlgraph.compiler.desc import OperatorDescNode
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.operators import REGISTRY
from dmlgraph.operators.catalog.examples import example


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_the_example_runs(name: str):
    graph = dg.loads(example(REGISTRY[name]))
    if REGISTRY[name].is_view:  # lowering leaves no view
        used = [node.operator.name for node in graph.nodes if isinstance(node, OperatorNode)]
    else:
        used = [node.operator.name for node in graph.lower(fuse=False).nodes if isinstance(node, OperatorDescNode)]
    assert name in used
    inputs = {
        node.name: (np.arange(node.desc.element_count) % 3).reshape(node.desc.sizes).astype(node.desc.dtype.numpy)
        for node in graph.inputs
    }
    outputs = graph.compile("reference").run(inputs)
    assert outputs
    for output, value in outputs.items():
        assert value.shape == graph.outputs[output].sizes
