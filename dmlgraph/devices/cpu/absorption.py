"""What `cpu` does not absorb: where passes would make an operator that runs slower than what it stands for."""

from __future__ import annotations

from dmlgraph.devices.cpu.library import FAST
from dmlgraph.devices.cpu.plan import payload_of
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.element_wise import Add
from dmlgraph.operators.normalization import BatchNormalization


def objection(made: Operator, instead_of: Operator | None) -> str | None:
    """Why a pass should not make an operator in the place of another; None where it may.

    An operator that would run by its definition, or have its fused activation run so, is not made of one that does
    not: GEMM does not absorb softmax, nor BATCH_NORMALIZATION_TRAINING any activation.
    """
    if isinstance(made, BatchNormalization) and isinstance(instead_of, Add):
        return "on 'cpu' a region multiplies and adds in one pass, without batch_normalization"
    if instead_of is None or not runs_by_definition(made) or runs_by_definition(instead_of):
        return None
    activation = made.__dict__.get("fused_activation")
    if activation is None:
        return f"on 'cpu' {made.name} runs by its definition in NumPy, {instead_of.name} natively"
    return f"on 'cpu' {made.name} does not absorb {activation.name}, which alone runs natively"


def runs_by_definition(operator: Operator) -> bool:
    """Whether `evaluate` runs for some of the operator, as on `reference`."""
    kind, _ = payload_of(operator)
    # With a fused activation that runs apart the kind is "parts": what is left there is FAST's own.
    return kind == "python" and (type(operator) not in FAST or operator.__dict__.get("fused_activation") is not None)
