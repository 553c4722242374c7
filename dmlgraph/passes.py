"""The passes, by their public names: `fuse` runs them over a graph, `RULES` lists what they do.

fused = passes.fuse(graph)
print(fused.explain())
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dmlgraph.base.levels import FeatureLevel
from dmlgraph.compiler import pipeline
from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.pipeline import Fused
from dmlgraph.compiler.record import Entry
from dmlgraph.compiler.rule import Rule
from dmlgraph.devices.directml.target import target
from dmlgraph.devices.rules import RULES, enabled
from dmlgraph.graph.graph import Graph

__all__ = ["RULES", "Entry", "Fused", "Rule", "fuse"]


def fuse(
    graph: Graph,
    *,
    level: FeatureLevel | None = None,
    rules: bool | Iterable[str] = True,
    check: Callable[[IrGraph], None] | None = None,
) -> Fused:
    """The graph after the passes for DirectML; an executable's `fusion` has what was done for its device.

    Args:
        graph: with its dims resolved.
        level: the level at which new operators must be legal; by default, and at most, the graph's.
        rules: True: all that are on by default; False: no rules; else exactly the rules of these names.
        check: called with the IR after each pass; raises where something is wrong.

    Raises:
        GraphError: a name is not a rule.
    """
    return pipeline.fuse(graph, target(level or graph.level), enabled(rules, graph), check)
