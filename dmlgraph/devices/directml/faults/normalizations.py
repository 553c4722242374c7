"""Normalizations that DirectML computes correctly: over axes of size 1 only, it uses the elements as the variance.

Measured on DirectML 1.13 (feature level 6.2): MEAN_VARIANCE_NORMALIZATION and MEAN_VARIANCE_NORMALIZATION1 give
0 / √(x + epsilon) if every axis they reduce has size 1, and so NaN for x below −epsilon.  The numerator is 0 and the
variance of one element is 0, so the result is 0: without `normalize_variance` it is correct.
"""

from __future__ import annotations

from dmlgraph.compiler.ir import IrGraph
from dmlgraph.devices.directml.faults.edits import put
from dmlgraph.operators import MeanVarianceNormalization, MeanVarianceNormalization1
from dmlgraph.operators.declaration.operator import Operator


def normalize_single_elements(ir: IrGraph) -> int:
    """Removes divisions by the standard deviation of single elements; adds no dispatch."""
    for node in ir:
        operator = node.operator
        if operator is not None and _divides_single_elements(operator):
            put(ir, node.name, operator.replace(normalize_variance=False))
    return 0


def _divides_single_elements(operator: Operator) -> bool:
    """Whether the result is 0 / √epsilon, which is 0; with an epsilon of 0 it is NaN, and nothing is removed."""
    return (
        isinstance(operator, MeanVarianceNormalization | MeanVarianceNormalization1)
        and operator.normalize_variance
        and operator.epsilon > 0
        and all(operator.input.sizes[axis] == 1 for axis in operator.reduced)
    )
