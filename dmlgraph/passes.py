"""The passes, by their public names: `fuse` runs them over a graph, `RULES` lists what they do."""

from dmlgraph.compiler.passes import RULES, fuse
from dmlgraph.compiler.pipeline import Fused
from dmlgraph.compiler.record import Entry
from dmlgraph.compiler.rule import Rule

__all__ = ["RULES", "Entry", "Fused", "Rule", "fuse"]
