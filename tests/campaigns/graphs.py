"""Random graphs of every family on `cpu`: fused or not, with one thread or two, they agree with the reference."""

from __future__ import annotations

import numpy as np
from support.passes.perturbed import approximated, is_finite
from support.random_graphs import FOCUSES, LEVELS, graph_of
from support.sketches import Sample

from campaigns.campaign import Campaign
from campaigns.windows import assert_close
from dmlgraph.base.tensor import DataType

# The error that the functions of `cpu`, and rules that are not exact, may add at every node.
ULP = {DataType.FLOAT16: 8, DataType.FLOAT32: 64, DataType.FLOAT64: 64}


def one_case(seed: int) -> None:
    focuses = sorted(FOCUSES)
    agrees(graph_of(seed, focuses[seed % len(focuses)], LEVELS[seed // len(focuses) % len(LEVELS)]))


def agrees(sample: Sample) -> None:
    """Compares a graph's results, fused and not, of one thread and of two, with the reference if all are finite."""
    graph = sample.graph
    finite = is_finite(graph, sample.inputs)
    runs = approximated(graph, sample.inputs, ULP) if finite else []
    for fuse in (False, True):
        one, two = (graph.compile("cpu", fuse=fuse, threads=threads).run(sample.inputs) for threads in (1, 2))
        for name, array in one.items():
            np.testing.assert_array_equal(array, two[name], f"{name}: one thread, two threads, fuse={fuse}")
        if finite:
            assert_close(one, runs, sample, "fused" if fuse else "not fused")


CAMPAIGN = Campaign("graphs", "random graphs on cpu: fused or not, they agree with the reference", one_case)
