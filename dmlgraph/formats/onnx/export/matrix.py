"""Matrix products."""

from __future__ import annotations

from dmlgraph.formats.onnx.export.emitter import Emitter, Symbol
from dmlgraph.formats.onnx.table import exports
from dmlgraph.operators.directml_enums import MatrixTransform


@exports("gemm", how="Gemm; more than two dimensions: MatMul, Transpose, Mul, Add")
def _gemm(node: Emitter) -> Symbol:
    a, b = (_transposed(node, field) for field in ("a", "b"))
    alpha, beta = node.field("alpha"), node.field("beta")
    has_c = node.field("c") is not None
    if node.output.rank == 2 and (has_c or any((a, b)) or alpha != 1):
        made = node.call(
            "Gemm",
            node["a"],
            node["b"],
            node.raw("c") if has_c else None,
            alpha=alpha,
            beta=beta,
            transA=int(a),
            transB=int(b),
        )
        return node.activated(made)
    left, right = (_matrix(node, field, swap) for field, swap in (("a", a), ("b", b)))
    less = abs(alpha) < 1  # before the product, so that float16 holds it
    left = node.line(left, alpha, 0) if less else left
    made = node.line(node.call("MatMul", left, right), 1 if less else alpha, 0)
    if has_c:
        made = node.call("Add", made, node.line(node.raw("c"), beta, 0))
    return node.activated(made)


def _transposed(node: Emitter, field: str) -> bool:
    return bool(node.field(f"trans_{field}") is MatrixTransform.TRANSPOSE)


def _matrix(node: Emitter, field: str, transposed: bool) -> Symbol:
    """A factor with its own batches, which ONNX broadcasts."""
    if not transposed:
        return node.raw(field)
    rank = node.desc(field).rank
    return node.transpose(node[field], [*range(rank - 2), rank - 1, rank - 2])
