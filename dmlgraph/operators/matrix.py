"""Matrix products."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dmlgraph.errors import OperatorError, Problem, TensorError
from dmlgraph.levels import FeatureLevel
from dmlgraph.operators.enums import MatrixTransform
from dmlgraph.operators.fields import Float, Input, OptionalInput, Output, inferred
from dmlgraph.operators.fused import OptionalActivation, activate, activation_level_problems, activation_problems
from dmlgraph.operators.numerics import convert
from dmlgraph.operators.operator import Array, Operator
from dmlgraph.operators.outputs import Given, Outcome
from dmlgraph.tensor import TensorDesc, broadcast_sizes


class Gemm(Operator, dml="GEMM"):
    """activation(alpha · A · B + beta · C), A and B transposed first where asked.

    Shapes: A {…, M, K}, B {…, K, N}, C and the output {…, M, N}, the dimensions in front being batches.  Batches
    broadcast, and C broadcasts to the output, by zero strides.
    """

    a: Input
    b: Input
    c: OptionalInput = None
    output: Output = inferred()
    trans_a: MatrixTransform = MatrixTransform.NONE
    trans_b: MatrixTransform = MatrixTransform.NONE
    alpha: Float = 1.0
    beta: Float = 1.0
    fused_activation: OptionalActivation = None

    @classmethod
    def adapt(cls, inputs: dict[str, Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
        a, b, c = inputs["a"], inputs["b"], inputs.get("c")
        if a.rank < 2 or b.rank < 2:
            raise OperatorError(
                "a matrix has at least 2 dimensions",
                field="a" if a.rank < 2 else "b",
                got=f"{min(a.rank, b.rank)}",
            )
        batch = broadcast_sizes(a.sizes[:-2], b.sizes[:-2])
        a, b = (matrix.broadcast_to(batch + matrix.sizes[-2:]) for matrix in (a, b))
        if c is not None:
            rows = a.sizes[-1 if _transposed(attributes.get("trans_a")) else -2]
            columns = b.sizes[-2 if _transposed(attributes.get("trans_b")) else -1]
            try:
                c = c.broadcast_to((*batch, rows, columns))
            except TensorError as error:
                raise OperatorError(problem.within("c") for problem in error.problems) from None
        return inputs | {"a": a, "b": b, "c": c}

    def infer(self, given: Given) -> Outcome:
        (rows, inner), (inner_b, columns) = (
            self._shape(self.a, self.trans_a),
            self._shape(self.b, self.trans_b),
        )
        if inner != inner_b:
            raise OperatorError(
                "the inner sizes of a and b differ",
                field="b.sizes",
                got=str(self.b),
                allowed=f"{inner} rows{' once transposed' if _transposed(self.trans_b) else ''}, as a has columns",
            )
        return {"output": self.a.like(sizes=(*self.a.sizes[:-2], rows, columns))}

    def constraints(self) -> Iterator[Problem]:
        if self.a.sizes[:-2] != self.b.sizes[:-2]:
            yield Problem("the batches of a and b differ", field="b.sizes", got=str(self.b), allowed=str(self.a))
        yield from activation_problems(self, self.fused_activation)

    def level_constraints(self, level: FeatureLevel) -> Iterator[Problem]:
        return activation_level_problems(self.fused_activation, level)

    def evaluate(self, *inputs: Array | None) -> tuple[Array, ...]:
        a, b, c = inputs
        assert a is not None
        assert b is not None
        left, right = (
            matrix.astype(np.float64).swapaxes(-1, -2) if _transposed(transform) else matrix.astype(np.float64)
            for matrix, transform in ((a, self.trans_a), (b, self.trans_b))
        )
        with np.errstate(all="ignore"):
            result = self.alpha * (left @ right)
            if c is not None:
                result = result + self.beta * c.astype(np.float64)
            return (convert(activate(self.fused_activation, result), self.output.dtype),)

    @staticmethod
    def _shape(matrix: TensorDesc, transform: MatrixTransform) -> tuple[int, int]:
        rows, columns = matrix.sizes[-2:]
        return (columns, rows) if _transposed(transform) else (rows, columns)


def _transposed(transform: object) -> bool:
    return str(transform) == str(MatrixTransform.TRANSPOSE)
