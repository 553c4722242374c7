"""Products with joined tensors: each part is multiplied where it is, so that a large one is not copied into the join.

Decoders join past keys and values and those of new tokens at every step.  The past is large and the other factor is
thin: multiplying takes as long as reading, and the join reads and writes all of it once more.
`benchmarks/joined_products.py` measures from where on it pays.  Where products read only those rows of a growing state
that have been written, a past that is one is never joined: the join would have as many rows as the state can hold.
"""

from __future__ import annotations

import dataclasses

from dmlgraph.base.tensor import TensorDesc
from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import IrNode, Operand
from dmlgraph.compiler.rule import Differs, New, Outcome, Rewrite, Tensors, alone, demand, rule
from dmlgraph.operators.directml_enums import MatrixTransform
from dmlgraph.operators.element_wise import Add
from dmlgraph.operators.matrix import Gemm
from dmlgraph.operators.shape import Join
from dmlgraph.operators.slicing import Slice1

LEAST = 1 << 15  # elements: a smaller join costs less than the second product
THIN = 16  # rows: with more, DirectML has a dispatch for each matrix of a batch


@dataclasses.dataclass(frozen=True, slots=True)
class Factor:
    """A factor of a product that is a join of two parts.

    Attributes:
        field: of the product: "a" or "b".
        parts: what is joined, as the product reads it.
        sizes: of the parts along the axis of the join.
        other: the other factor.
        rows: how many rows the other factor has, or columns on the right.
        leaves_rows_out: whether the product with the first part reads only some of its rows.
    """

    field: str
    parts: tuple[Operand, Operand]
    sizes: tuple[int, int]
    other: Operand
    rows: int
    leaves_rows_out: bool

    @property
    def other_field(self) -> str:
        return "b" if self.field == "a" else "a"


@rule(
    Gemm,
    after=(Join,),
    effect="the same sums, maybe in another order: at most 1/2 ULP more of a product with a C, which is added behind",
    differs=Differs.ROUNDED,
)
def join_of_products(ir: IrGraph, node: IrNode) -> Outcome:
    """x · join(a, b) → join(x · a, x · b), where a and b are side by side; the same for a join on the left."""
    factor = _joined(ir, node, is_summed=False)
    if factor is None:
        return None
    gemm = node.computing(Gemm)
    terms = factor.other.desc.sizes[_summed_axis(gemm, factor.other_field)]
    if not factor.leaves_rows_out:
        demand(2 * factor.rows <= terms, f"{factor.rows} rows of {terms}: the products are as large as the join")
    axis = gemm.output.rank - (2 if factor.field == "a" else 1)
    parts = [New.like(node, {factor.field: part, "c": None}, {"beta": 1.0}) for part in factor.parts]
    made = New(Join, {"inputs": [*parts]}, {"axis": axis})
    c = node.operand("c")
    if c is None:
        return Rewrite.of(made, "no part is copied into a join")
    demand(gemm.beta == 1.0, f"it adds a C times {gemm.beta:g}")
    return Rewrite.of(New(Add, {"a": made, "b": c}), "no part is copied into a join")


@rule(
    Gemm,
    after=(Join,),
    effect="rounds the product with the first part, at most 1/2 ULP of that, which the second one may cancel",
    differs=Differs.ROUNDED | Differs.CANCELS,
)
def sum_of_products(ir: IrGraph, node: IrNode) -> Outcome:
    """x · join(a, b) → x₁ · a + x₂ · b, where a is above b and x₁ beside x₂; the same for a join on the left."""
    factor = _joined(ir, node, is_summed=True)
    if factor is None:
        return None
    first, second = _parts(factor.other, _summed_axis(node.computing(Gemm), factor.other_field), factor.sizes)
    made = New.like(node, {factor.field: factor.parts[0], factor.other_field: first}, {})
    tensors: Tensors = {factor.field: factor.parts[1], factor.other_field: second, "c": made}
    return Rewrite.of(New.like(node, tensors, {"beta": 1.0}), "no part is copied into a join")


def _joined(ir: IrGraph, node: IrNode, *, is_summed: bool) -> Factor | None:
    """The factor of a product that is a join of two parts, along what the product sums or along the other axis.

    Raises:
        Declined: there is one, but multiplying the parts does not pay.
    """
    gemm = node.computing(Gemm)
    for field, other_field in (("b", "a"), ("a", "b")):
        operand, other = node.needed(field), node.needed(other_field)
        join = ir.made_by(operand, Join)
        if join is None or len(join.operands("inputs")) != 2:
            continue
        written, desc = ir.produced(operand), operand.desc
        lead = desc.rank - written.rank
        if desc.sizes != (1,) * lead + written.sizes or (desc.strides, written.strides) != (None, None):
            continue
        axis = join.computing(Join).axis + lead
        if axis < desc.rank - 2 or (axis == _summed_axis(gemm, field)) is not is_summed:
            continue
        alone(ir, operand, "so that the join stays")
        demand(gemm.fused_activation is None, "it has an activation")
        demand(desc.element_count >= LEAST, f"a join of {desc.element_count} elements costs less than a product")
        rows = gemm.output.sizes[-2 if other_field == "a" else -1]
        first, second = (Operand(each.source, _with_leading(each.desc, lead)) for each in join.operands("inputs"))
        leaves_rows_out = ir.target.leaves_rows_out and any(
            state.input == first.source.node for state in ir.states if state.grows is not None
        )
        if not leaves_rows_out:
            demand(rows <= THIN, f"the other factor has {rows} rows: multiplying takes far longer than joining")
        sizes = first.desc.sizes[axis], second.desc.sizes[axis]
        return Factor(field, (first, second), sizes, other, rows, leaves_rows_out)
    return None


def _with_leading(desc: TensorDesc, lead: int) -> TensorDesc:
    """With dimensions of size 1 in front."""
    strides = None if desc.strides is None else (0,) * lead + desc.strides
    return TensorDesc(dtype=desc.dtype, sizes=(1,) * lead + desc.sizes, strides=strides, owned=desc.owned)


def _summed_axis(gemm: Gemm, field: str) -> int:
    """The axis along which a product sums a factor."""
    is_transposed = getattr(gemm, f"trans_{field}") is MatrixTransform.TRANSPOSE
    return gemm.output.rank - (1 if (field == "a") is not is_transposed else 2)


def _parts(operand: Operand, axis: int, sizes: tuple[int, int]) -> tuple[New, New]:
    """The two parts of an operand along an axis."""
    whole = operand.desc.sizes

    def part(start: int, count: int) -> New:
        fields = {
            "input_window_offsets": tuple(start if at == axis else 0 for at in range(len(whole))),
            "input_window_sizes": tuple(count if at == axis else size for at, size in enumerate(whole)),
            "input_window_strides": (1,) * len(whole),
        }
        return New(Slice1, {"input": operand}, fields)

    return part(0, sizes[0]), part(*sizes)


RULES = (join_of_products, sum_of_products)
