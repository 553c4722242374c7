"""Passes: they make a graph smaller and faster before it is lowered, and keep its results.

A pass is a list of rules (one family per module).  The pipeline runs the passes in the order below, each to a fixed
point, and repeats all of them until nothing changes.  Every rule states its effect on the numbers.

    fused = passes.fuse(graph)
    print(fused.explain())
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.memory import enough_memory
from dmlgraph.compiler import pipeline
from dmlgraph.compiler.draft import Draft
from dmlgraph.compiler.passes.canonical import (
    attributes,
    clip,
    constants,
    convolution,
    fills,
    integer_numbers,
    layout,
    matrix,
    neutral,
    patterns,
    redundant,
    sequences,
    sharing,
)
from dmlgraph.compiler.passes.directml import activations, multiply_add, scale_bias, weights
from dmlgraph.compiler.passes.quantized import rules as quantized
from dmlgraph.compiler.pipeline import Fused, Rules
from dmlgraph.compiler.record import Entry
from dmlgraph.compiler.rule import LayoutObjection, Objection, Rule
from dmlgraph.graph.graph import Graph
from dmlgraph.operators.layouts import refusal

__all__ = ["PIPELINE", "RULES", "Entry", "Fused", "Rule", "fuse"]

PIPELINE = (
    Rules("redundant", redundant.RULES),
    Rules("sharing", sharing.RULES),
    Rules("quantized", quantized.RULES),  # before constants are folded, which makes floats of weights
    Rules("integers", quantized.LAST_RULES),
    Rules("neutral", neutral.RULES),
    Rules("fills", (*fills.RULES, *sequences.RULES, *constants.RULES)),
    Rules("attributes", attributes.RULES),
    Rules("matrix", matrix.RULES),
    Rules("convolution", convolution.RULES),
    Rules("patterns", (*patterns.RULES, *multiply_add.RULES)),
    Rules("clip", clip.RULES),
    Rules("scale_bias", (*scale_bias.RULES, *integer_numbers.RULES)),
    Rules("activations", activations.RULES),
    Rules("weights", weights.RULES),
    Rules("layout", layout.RULES),
    Rules("one_element", constants.LAST_RULES),
)
RULES: dict[str, Rule] = {rule.name: rule for each in PIPELINE for rule in each.rules}


def fuse(
    graph: Graph,
    *,
    level: FeatureLevel | None = None,
    rules: bool | Iterable[str] = True,
    objection: Objection | None = None,
    layouts: LayoutObjection = refusal,
    copy_level: FeatureLevel | None = None,
    check: Callable[[Draft], None] | None = None,
) -> Fused:
    """The graph after the pipeline; see `dmlgraph.compiler.pipeline.fuse`."""
    with enough_memory("fuse", graph):
        return pipeline.fuse(
            graph,
            PIPELINE,
            level=level,
            rules=rules,
            objection=objection,
            layouts=layouts,
            copy_level=copy_level,
            check=check,
        )
