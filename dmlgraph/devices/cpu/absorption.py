"""What `cpu` does not absorb: passes do not make an operator that would run slower than the nodes it replaces."""

from __future__ import annotations

from dmlgraph.devices.cpu.plan import payload_of
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.element_wise import Add
from dmlgraph.operators.normalization import BatchNormalization

# Not faster than the float operators that they replace: `benchmarks/quantized.py`.
_NOT_FASTER = frozenset(["quantized_linear_average_pooling", "matrix_multiply_integer_to_float"])


def objection(made: Operator, instead_of: Operator | None) -> str | None:
    """Why a pass should not replace `instead_of` with `made`; None if it may.

    A pass does not replace an operator that runs natively with one that runs by its definition.  Means of quantized
    tensors, and products of them that are not quantized, stay floats, which are as fast or faster.
    """
    if isinstance(made, BatchNormalization) and isinstance(instead_of, Add):
        return "on 'cpu' a region multiplies and adds in one pass, without batch_normalization"
    if made.name in _NOT_FASTER and instead_of is not None and instead_of.name in ("quantize_linear", "gemm"):
        return f"on 'cpu' {made.name} is not faster than the same of floats"
    if instead_of is None or not runs_by_definition(made) or runs_by_definition(instead_of):
        return None
    return f"on 'cpu' {made.name} runs by its definition in NumPy, {instead_of.name} natively"


def runs_by_definition(operator: Operator) -> bool:
    """Whether `evaluate` computes part of the operator, as on `reference`."""
    kind, _ = payload_of(operator)
    return kind == "python"
