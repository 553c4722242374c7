"""Helpers of the tests of the passes: fusing with some rules, and comparing the results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import dmlgraph as dg
from dmlgraph.base.levels import NEWEST
from dmlgraph.compiler.pipeline import Pass
from dmlgraph.compiler.target import Target
from dmlgraph.compiler.verify import verify
from dmlgraph.devices.names import DeviceName
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.passes import Fused, fuse

Array = np.ndarray[Any, Any]


def fused(graph: dg.Graph, *rules: str) -> Fused:
    """The graph after these rules (by default all that are on), verified after each pass."""
    return fuse(graph, rules=rules or True, check=verify)


def target_of(*passes: Pass) -> Target:
    """A target with these passes alone, which takes everything."""
    return Target(NEWEST, passes)


def operators(result: Fused) -> list[str]:
    """The names of the remaining operators, in execution order."""
    return [node.operator.name for node in result.graph.nodes if isinstance(node, OperatorNode)]


def operator(result: Fused) -> Any:
    """The only remaining operator."""
    (found,) = (node.operator for node in result.graph.nodes if isinstance(node, OperatorNode))
    return found


def applied(result: Fused) -> list[str]:
    """The rules that applied, in order."""
    return [entry.rule for entry in result.record if entry.applied]


def refusal(result: Fused, rule: str) -> str:
    """Why a rule declined; it must have matched its pattern once and declined it."""
    assert rule not in applied(result)
    (entry,) = (entry for entry in result.record if entry.rule == rule)
    return entry.why


def results(
    graph: dg.Graph, inputs: Mapping[str, Array], *rules: str, device: DeviceName = "reference"
) -> list[tuple[Array, Array]]:
    """(fused, unfused) values of every output; by default with all rules that are on."""
    after = graph.compile(device, fuse=rules or True).run(inputs)
    before = graph.compile(device, fuse=False).run(inputs)
    return [(after[name], before[name]) for name in graph.outputs]


def assert_same_bits(
    graph: dg.Graph, inputs: Mapping[str, Array], *rules: str, device: DeviceName = "reference"
) -> None:
    """Fused and unfused agree bit for bit; all NaNs count as equal."""
    for got, expected in results(graph, inputs, *rules, device=device):
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)
        np.testing.assert_array_equal(np.signbit(got) & ~np.isnan(got), np.signbit(expected) & ~np.isnan(expected))


def dispatches(graph: dg.Graph, inputs: Mapping[str, Array], *, fuse: bool | list[str] = True) -> int:
    """Dispatches of a run on the real DirectML."""
    executable = graph.compile("directml:software", fuse=fuse)
    executable.run(inputs)
    return int(executable.stats["dispatches"])


def of_one(build: Callable[[dg.Graph, dg.Value], dg.Value], x: Array, target: str | None = None) -> dg.Graph:
    """A graph with the output `y`, built from one input `x`."""
    graph = dg.Graph("test", target=target)
    graph.output("y", build(graph, graph.input("x", sizes=x.shape, dtype=x.dtype)))
    return graph


def samples(dtype: str, scale: float = 3.0) -> Array:
    """Special numbers first, then 200 normal ones: {1, 1, 1, N}."""
    edges = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1, -1, 0.5, -0.5, 6, 7], dtype)
    numbers = scale * np.random.default_rng(3).standard_normal(200)
    return np.concatenate([edges, numbers]).astype(dtype)[None, None, None]
