"""What `cpu` does not absorb: passes do not make an operator that would run slower than the nodes it replaces."""

from __future__ import annotations

from dmlgraph.devices.cpu.library import FAST
from dmlgraph.devices.cpu.plan import payload_of
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.element_wise import Add
from dmlgraph.operators.normalization import BatchNormalization

# Two to seven times as slow as the float operators between dequantization and quantization, which run natively:
# `benchmarks/quantized.py`.
_SLOWER_THAN_FLOATS = frozenset(
    [
        "quantized_linear_convolution",
        "quantized_linear_matrix_multiply",
        "quantized_linear_average_pooling",
        "matrix_multiply_integer_to_float",
    ]
)


def objection(made: Operator, instead_of: Operator | None) -> str | None:
    """Why a pass should not replace `instead_of` with `made`; None if it may.

    A pass does not replace an operator that runs natively with one that runs by its definition, or whose fused
    activation does: GEMM does not absorb softmax, and BATCH_NORMALIZATION_TRAINING absorbs no activation.  Products
    and means of quantized tensors stay floats, which are faster.
    """
    if isinstance(made, BatchNormalization) and isinstance(instead_of, Add):
        return "on 'cpu' a region multiplies and adds in one pass, without batch_normalization"
    if made.name in _SLOWER_THAN_FLOATS and instead_of is not None and instead_of.name in ("quantize_linear", "gemm"):
        return f"on 'cpu' {made.name} runs in NumPy, and is slower than the same of floats"
    if instead_of is None or not runs_by_definition(made) or runs_by_definition(instead_of):
        return None
    activation = made.__dict__.get("fused_activation")
    if activation is None:
        return f"on 'cpu' {made.name} runs by its definition in NumPy, {instead_of.name} natively"
    return f"on 'cpu' {made.name} does not absorb {activation.name}, which alone runs natively"


def runs_by_definition(operator: Operator) -> bool:
    """Whether `evaluate` computes part of the operator, as on `reference`."""
    kind, _ = payload_of(operator)
    # If the fused activation runs apart, the kind is "parts".  If it is "python", FAST evaluates the activation too.
    return kind == "python" and (type(operator) not in FAST or operator.__dict__.get("fused_activation") is not None)
