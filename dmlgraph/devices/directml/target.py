"""The target of DirectML: what it takes, and the passes that save its dispatches."""

from __future__ import annotations

from dmlgraph.base.levels import FeatureLevel
from dmlgraph.compiler.passes.canonical import (
    attributes,
    clip,
    constants,
    convolution,
    fills,
    integer_numbers,
    joined,
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
from dmlgraph.compiler.pipeline import Pass
from dmlgraph.compiler.target import Target
from dmlgraph.devices.directml.layouts import refusal

PASSES = (
    Pass("redundant", redundant.RULES),
    Pass("sharing", sharing.RULES),
    # Before constants are folded, which makes floats of weights.
    Pass("quantized", (*quantized.RULES, *quantized.MEAN_RULES)),
    Pass("integers", quantized.LAST_RULES),
    Pass("neutral", neutral.RULES),
    Pass("fills", (*fills.RULES, *sequences.RULES, *constants.RULES)),
    Pass("attributes", attributes.RULES),
    Pass("matrix", matrix.RULES),
    Pass("joined", joined.RULES),
    Pass("convolution", convolution.RULES),
    Pass("patterns", (*patterns.RULES, *multiply_add.RULES)),
    Pass("clip", clip.RULES),
    Pass("scale_bias", (*scale_bias.RULES, *integer_numbers.RULES)),
    Pass("activations", activations.RULES),
    Pass("weights", weights.RULES),
    Pass("layout", layout.RULES),
    Pass("one_element", constants.LAST_RULES),
)


def target(level: FeatureLevel) -> Target:
    """DirectML at a feature level."""
    return Target(level, PASSES, layout_refusal=refusal)
