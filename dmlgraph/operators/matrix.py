"""Matrix products."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from dmlgraph import operators as ops
from dmlgraph.base.errors import OperatorError, Problem, plural
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.report import Report
from dmlgraph.base.tensor import TensorDesc, broadcast_sizes
from dmlgraph.operators.common.numerics import convert
from dmlgraph.operators.declaration.constraints import require, rule
from dmlgraph.operators.declaration.derivative import Backward, Gradients, Tensor
from dmlgraph.operators.declaration.fields import Float, Input, OptionalInput, Output, inferred
from dmlgraph.operators.declaration.fused import (
    OptionalActivation,
    activate,
    activation_fits,
    activation_fits_level,
)
from dmlgraph.operators.declaration.operator import Array, Operator
from dmlgraph.operators.declaration.outputs import Given, Outcome
from dmlgraph.operators.directml_enums import MatrixTransform


class Gemm(Operator, dml="GEMM"):
    """activation(alpha · A · B + beta · C); A and B are first transposed if requested.

    Shapes: A {…, M, K}, B {…, K, N}, C and the output {…, M, N}; the leading dimensions are batches.  Batches
    broadcast, and C broadcasts to the output, by zero strides.
    """

    meanings: ClassVar = {
        "c": "A tensor that is added to the product, times `beta`.",
        "alpha": "The factor of the product.",
        "beta": "The factor of `c`.",
        "trans_a": "Whether the last two dimensions of `a` are swapped first.",
        "trans_b": "Whether the last two dimensions of `b` are swapped first.",
    }
    heavy: ClassVar = True
    inner_dimensions: ClassVar = 2
    repeatable: ClassVar = ("c",)
    example: ClassVar = "a: [1, 1, 2, 3], b: [1, 1, 3, 4], alpha: 0.5, fused_activation: activation_relu"

    a: Input
    b: Input
    c: OptionalInput = None
    output: Output = inferred()
    trans_a: MatrixTransform = MatrixTransform.NONE
    trans_b: MatrixTransform = MatrixTransform.NONE
    alpha: Float = 1.0
    beta: Float = 1.0
    fused_activation: OptionalActivation = None

    def products(self) -> int:
        return self.output.element_count * self.a.sizes[-1 if self.trans_a is MatrixTransform.NONE else -2]

    @classmethod
    def adapt(cls, inputs: dict[str, Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
        a, b, c = inputs.get("a"), inputs.get("b"), inputs.get("c")
        if a is None or b is None:
            return inputs  # the fields' own check says which is missing
        a, b = broadcast_batches(a, b)
        if c is not None:
            rows = a.sizes[-1 if _transposed(attributes.get("trans_a")) else -2]
            columns = b.sizes[-2 if _transposed(attributes.get("trans_b")) else -1]
            c = broadcast_field("c", c, (*a.sizes[:-2], rows, columns))
        return inputs | {"a": a, "b": b, "c": c}

    def infer(self, given: Given) -> Outcome:
        check_matrices(self.a, self.b)
        (rows, inner), (inner_b, columns) = (
            self._shape(self.a, self.trans_a),
            self._shape(self.b, self.trans_b),
        )
        check_inner_sizes(inner, inner_b, self.b, transposed=_transposed(self.trans_b))
        return {"output": self.a.like(sizes=(*self.a.sizes[:-2], rows, columns))}

    def constraints(self) -> Iterator[Problem]:
        yield from same_batches(self.a, self.b)
        yield from activation_fits(self, self.fused_activation)

    def level_constraints(self, level: FeatureLevel) -> Iterator[Problem]:
        return activation_fits_level(self.fused_activation, level)

    def evaluate(self, a: Array, b: Array, c: Array | None) -> tuple[Array, ...]:
        left, right = (
            matrix.astype(np.float64).swapaxes(-1, -2) if _transposed(transform) else matrix.astype(np.float64)
            for matrix, transform in ((a, self.trans_a), (b, self.trans_b))
        )
        with np.errstate(all="ignore"):
            result = self.alpha * (left @ right)
            if c is not None:
                result = result + self.beta * c.astype(np.float64)
            dtype = self.output.dtype
            return (convert(activate(self.fused_activation, result, dtype), dtype),)

    @staticmethod
    def _shape(matrix: TensorDesc, transform: MatrixTransform) -> tuple[int, int]:
        rows, columns = matrix.sizes[-2:]
        return (columns, rows) if _transposed(transform) else (rows, columns)

    def derivative(self, back: Backward) -> Gradients:
        (a, b), g = back.given[:2], back.g
        turn_a, turn_b = (_transposed(each) for each in (self.trans_a, self.trans_b))
        left = (b, g, turn_b, True) if turn_a else (g, b, False, not turn_b)
        rows, changes = a, g
        if b.sizes[:-2].count(1) == b.rank - 2 and a.rank > 2 and not turn_a:
            # One product over all batches, in place of the sum of one for each.
            rows, changes = (each.reshape(-1, each.sizes[-1]) for each in (a, g))
        right = (changes, rows, True, turn_a) if turn_b else (rows, changes, not turn_a, False)
        of_c = g if self.beta == 1 else g * self.beta
        return [_product(back, *left, self.alpha), _product(back, *right, self.alpha), of_c]


def _product(back: Backward, a: Tensor, b: Tensor, trans_a: bool, trans_b: bool, alpha: float) -> Tensor:
    transforms = {name: "transpose" for name, wanted in (("trans_a", trans_a), ("trans_b", trans_b)) if wanted}
    return back(ops.Gemm, a, b, alpha=alpha, **transforms)


def _transposed(transform: object) -> bool:
    return str(transform) == str(MatrixTransform.TRANSPOSE)


def check_matrices(a: TensorDesc, b: TensorDesc) -> None:
    """Raises an OperatorError if a or b has fewer than 2 dimensions."""
    for field, matrix in (("a", a), ("b", b)):
        require(rule(matrix.rank >= 2, field, "a matrix has at least 2 dimensions", "rank", got=f"{matrix.rank}"))


def broadcast_batches(a: TensorDesc, b: TensorDesc) -> tuple[TensorDesc, TensorDesc]:
    """Two matrices with their leading dimensions broadcast together, by zero strides.

    Raises:
        OperatorError: one has fewer than 2 dimensions.
        TensorError: the batches cannot be broadcast.
    """
    check_matrices(a, b)
    batch = broadcast_sizes(a.sizes[:-2], b.sizes[:-2])
    return a.broadcast_to(batch + a.sizes[-2:]), b.broadcast_to(batch + b.sizes[-2:])


def broadcast_field(field: str, desc: TensorDesc, sizes: tuple[int, ...]) -> TensorDesc:
    """A field's description broadcast to `sizes`, by zero strides; OperatorError if that is impossible."""
    with Report(OperatorError, field=field):
        return desc.broadcast_to(sizes)


def check_inner_sizes(columns: int, rows: int, b: TensorDesc, *, transposed: bool = False) -> None:
    """Raises an OperatorError if a does not have as many columns as b has rows."""
    if columns != rows:
        allowed = f"{plural(columns, 'row')}{' once transposed' if transposed else ''}, as a has columns"
        message = "the inner sizes of a and b differ"
        raise OperatorError(message, code="sizes", field="b.sizes", got=str(b), allowed=allowed)


def same_batches(a: TensorDesc, b: TensorDesc) -> Iterator[Problem]:
    """The matrices have the same leading sizes."""
    if a.sizes[:-2] != b.sizes[:-2]:
        yield Problem("the batches of a and b differ", code="sizes", field="b.sizes", got=str(b), allowed=str(a))
