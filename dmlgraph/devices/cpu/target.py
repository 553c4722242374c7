"""The target of `cpu`: what it absorbs, and its passes."""

from __future__ import annotations

from dmlgraph.base.levels import FeatureLevel
from dmlgraph.compiler.passes.directml import multiply_add
from dmlgraph.compiler.passes.quantized import rules as quantized
from dmlgraph.compiler.pipeline import Pass
from dmlgraph.compiler.target import Target
from dmlgraph.devices.device import native_needed
from dmlgraph.devices.directml import target as directml
from dmlgraph.operators.declaration.operator import Operator

# They make operators that are not faster here: a region multiplies and adds tensors in one pass, and the means of
# quantized tensors, and products of them that are not quantized again, are as fast or faster with floats
# (`benchmarks/quantized.py`).
_UNWANTED = (*multiply_add.RULES, *quantized.MEAN_RULES, *quantized.LAST_RULES)
# Those of DirectML, in their order; a pass of which nothing is left is not one.
PASSES = tuple(
    Pass(each.name, rules)
    for each in directml.PASSES
    if (rules := tuple(rule for rule in each.rules if rule not in _UNWANTED))
)


def target(level: FeatureLevel) -> Target:
    """`cpu` at a feature level: it copies any tensor, and takes any strides."""
    return Target(
        level,
        PASSES,
        copy_level=level,
        leaves_rows_out=True,
        copies_all=True,
        absorption_refusal=absorption_refusal,
    )


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
