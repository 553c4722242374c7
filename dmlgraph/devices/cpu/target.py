"""The target of `cpu`: what it absorbs, and its passes."""

from __future__ import annotations

from dmlgraph.base.levels import FeatureLevel
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
from dmlgraph.compiler.passes.directml import activations, scale_bias, weights
from dmlgraph.compiler.passes.quantized import rules as quantized
from dmlgraph.compiler.pipeline import Pass
from dmlgraph.compiler.target import Target
from dmlgraph.devices.device import native_needed
from dmlgraph.operators.declaration.operator import Operator

# Those of DirectML, except what makes one of its operators that is no faster here: a region multiplies and adds tensors
# in one pass, and the means of quantized tensors, and products of them that are not quantized again, are as fast or
# faster with floats (`benchmarks/quantized.py`).
PASSES = (
    Pass("redundant", redundant.RULES),
    Pass("sharing", sharing.RULES),
    Pass("quantized", quantized.RULES),  # before constants are folded, which makes floats of weights
    Pass("neutral", neutral.RULES),
    Pass("fills", (*fills.RULES, *sequences.RULES, *constants.RULES)),
    Pass("attributes", attributes.RULES),
    Pass("matrix", matrix.RULES),
    Pass("convolution", convolution.RULES),
    Pass("patterns", patterns.RULES),
    Pass("clip", clip.RULES),
    Pass("scale_bias", (*scale_bias.RULES, *integer_numbers.RULES)),
    Pass("activations", activations.RULES),
    Pass("weights", weights.RULES),
    Pass("layout", layout.RULES),
    Pass("one_element", constants.LAST_RULES),
)


def target(level: FeatureLevel) -> Target:
    """`cpu` at a feature level: it copies any tensor, and takes any strides."""
    return Target(level, PASSES, copy_level=level, absorption_refusal=absorption_refusal)


def absorption_refusal(made: Operator, instead_of: Operator | None) -> str | None:
    """An operator that runs by its definition, in NumPy, does not replace one that runs natively."""
    if instead_of is None or not runs_by_definition(made) or runs_by_definition(instead_of):
        return None
    return f"on 'cpu' {made.name} runs by its definition in NumPy, {instead_of.name} natively"


def runs_by_definition(operator: Operator) -> bool:
    """Whether `evaluate` computes the operator, as on `reference`."""
    with native_needed():
        from dmlgraph.devices.cpu.nodes import Evaluate
        from dmlgraph.devices.cpu.plan import lowered
    return isinstance(lowered(operator), Evaluate)
