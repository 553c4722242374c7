"""Matrix products, of floats and of quantized numbers."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from dmlgraph.formats.onnx.export.emitter import Emitter, Symbol
from dmlgraph.formats.onnx.node import Maybe, Node, Result
from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.formats.onnx.shapes import sliced
from dmlgraph.formats.onnx.table import exports, imports
from dmlgraph.formats.onnx.tensors import Tensor
from dmlgraph.graph.value import Value
from dmlgraph.operators.directml_enums import MatrixTransform


@imports(how="gemm")
def Gemm(
    node: Node,
    A: Tensor,
    B: Tensor,
    C: Maybe = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    sizes = (A.shape[1 if transA else 0], B.shape[0 if transB else 1])
    c = None if C is None or not beta else node.expanded(C, sizes)
    turned = {"trans_a": "transpose" if transA else "none", "trans_b": "transpose" if transB else "none"}
    return node.tensor(node.gemm(A, B, c, alpha=alpha, beta=beta, **turned))


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
    left = (left * alpha) if less else left
    made = left @ right * (1 if less else alpha)
    if has_c:
        made = made + node.raw("c") * beta
    return node.activated(made)


def _transposed(node: Emitter, field: str) -> bool:
    return bool(node.field(f"trans_{field}") is MatrixTransform.TRANSPOSE)


def _matrix(node: Emitter, field: str, transposed: bool) -> Symbol:
    """A factor with its own batches, which ONNX broadcasts."""
    if not transposed:
        return node.raw(field)
    rank = node.desc(field).rank
    return node.transpose(node[field], [*range(rank - 2), rank - 1, rank - 2])


@imports(how="gemm, views; integers: multiply, reduce")
def MatMul(node: Node, A: Tensor, B: Tensor) -> Result:
    shape = product_shape(A.shape, B.shape)
    if not A.is_float:
        return node.tensor(_integer_product(node, A, B), shape)
    a, b = as_matrices(node, A, B)
    return node.tensor(node.gemm(a, b), shape)


def _integer_product(node: Node, a: Tensor, b: Tensor) -> Value:
    """The sum of products of rows {…, M, K, 1} and columns {…, 1, K, N}: DirectML's gemm takes floats."""
    rows = node.reshaped(a, (*a.shape, 1) if a.rank > 1 else (1, *a.shape, 1))
    columns = node.reshaped(b, (*b.shape[:-2], 1, *b.shape[-2:]) if b.rank > 1 else (1, *b.shape, 1))
    return node.reduce(node.multiply(rows, columns), function="sum", axes=[-2])


def product_shape(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    """The shape of NumPy's matmul.

    Raises:
        Refusal: the shapes do not fit.
    """
    first, second = tuple(a) if len(a) > 1 else (1, *a), tuple(b) if len(b) > 1 else (*b, 1)
    try:
        if not a or not b or first[-1] != second[-2]:
            raise ValueError
        batch = np.broadcast_shapes(first[:-2], second[:-2])
    except ValueError:
        raise Refusal("the shapes do not fit a matrix product", code="sizes", got=[list(a), list(b)]) from None
    return (*batch, *((first[-2],) if len(a) > 1 else ()), *((second[-1],) if len(b) > 1 else ()))


def as_matrices(node: Node, a: Tensor, b: Tensor) -> tuple[Value, Value]:
    """Two tensors with the sizes {batches…, rows, columns} that gemm takes, of at most four dimensions.

    Raises:
        Refusal: the shapes do not fit.
    """
    product_shape(a.shape, b.shape)
    first, second = a.shape if a.rank > 1 else (1, *a.shape), b.shape if b.rank > 1 else (*b.shape, 1)
    batch = tuple(np.broadcast_shapes(first[:-2], second[:-2]))
    if len(batch) <= 2:  # zero strides broadcast
        rank = len(batch) + 2
        return (
            node.reshaped(a, (1,) * (rank - len(first)) + first),
            node.reshaped(b, (1,) * (rank - len(second)) + second),
        )
    return _flattened(node, a, first, batch), _flattened(node, b, second, batch)


def _flattened(node: Node, x: Tensor, shape: tuple[int, ...], batch: tuple[int, ...]) -> Value:
    """Broadcast to all batches, which become one dimension."""
    if math.prod(shape[:-2]) == 1:
        return node.reshaped(x, (1, *shape[-2:]))
    whole = node.expanded(node.reshaped(x, shape), (*batch, *shape[-2:]))
    return node.reshaped(whole, (math.prod(batch), *shape[-2:]))


LARGEST_DETERMINANT = 3  # rows; the number of products grows with the factorial


@imports(since=11, how="up to 3 rows: multiply, subtract, add")
def Det(node: Node, X: Tensor) -> Result:
    rows = X.shape[-1] if X.rank > 1 else 0
    if X.rank < 2 or X.shape[-2] != rows:
        raise Refusal("needs square matrices", code="sizes", got=list(X.shape))
    if rows > LARGEST_DETERMINANT:
        raise Refusal(
            "has no counterpart in DirectML", field="input 0", got=list(X.shape), allowed=f"{LARGEST_DETERMINANT} rows"
        )
    whole = [slice(None)] * (X.rank - 2)

    def element(row: int, column: int) -> Tensor:
        return sliced(node, X, [*whole, slice(row, row + 1), slice(column, column + 1)])

    def determinant(row: int, columns: Sequence[int]) -> Value:
        """Of the rows from this one on, by the first of them."""
        if len(columns) == 1:
            return node.value(element(row, columns[0]))
        total: Value | None = None
        for index, column in enumerate(columns):
            rest = determinant(row + 1, [each for each in columns if each != column])
            term = node.multiply(element(row, column), rest)
            total = term if total is None else (node.subtract if index % 2 else node.add)(total, term)
        assert total is not None
        return total

    return node.tensor(determinant(0, range(rows)), X.shape[:-2])


@imports(since=12, how="gemm, multiply, reduce, views")
def Einsum(node: Node, *inputs: Tensor, equation: str) -> Tensor:
    terms, output = _labels(equation.replace(" ", ""), [each.rank for each in inputs])
    made, labels = _diagonals(node, inputs[0], terms[0])
    for place, (tensor, term) in enumerate(zip(inputs[1:], terms[1:], strict=True), 2):
        needed = {*output, *itertools.chain(*terms[place:])}
        made, labels = _contracted(node, (made, labels), _diagonals(node, tensor, term), needed)
    made, labels = _summed(node, made, labels, set(output))
    if set(labels) != set(output):
        raise Refusal("the equation gives no output dimension a size", code="sizes", field="equation")
    sizes = tuple(made.sizes[labels.index(label)] for label in output)
    return node.tensor(node.transposed(made, [labels.index(each) for each in output]) if output else made, sizes)


_TERM = re.compile(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*")


def _labels(equation: str, ranks: Sequence[int]) -> tuple[list[list[str]], list[str]]:
    """The labels of the terms' dimensions and of the output's; those of an ellipsis are numbers, "0" the last."""
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if not all(map(_TERM.fullmatch, [*terms, right])):
        message = "a term has letters and at most one ellipsis"
        raise Refusal(message, code="range", field="equation", got=equation)
    if len(terms) != len(ranks):
        raise Refusal("the equation has another number of terms", code="count", field="equation", got=equation)

    def spread(term: str, count: int) -> list[str]:
        before, dots, after = term.partition("...")
        return [*before, *(str(each) for each in reversed(range(count if dots else 0))), *after]

    counts = [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True)]
    if any(count < 0 or (count and "..." not in term) for term, count in zip(terms, counts, strict=True)):
        raise Refusal("the equation does not fit the inputs' dimensions", code="rank", field="equation", got=equation)
    spread_terms = [spread(term, count) for term, count in zip(terms, counts, strict=True)]
    most = max(counts)
    if arrow:
        return spread_terms, spread(right, most)
    flat = [label for term in spread_terms for label in term]
    once = sorted(label for label in set(flat) if flat.count(label) == 1 and label.isalpha())
    return spread_terms, [*(str(each) for each in reversed(range(most))), *once]


def _diagonals(node: Node, tensor: Tensor, labels: list[str]) -> tuple[Value, list[str]]:
    """A term in which each label is once: of a label that is there twice, the diagonal."""
    x = node.value(tensor)
    labels = list(labels)
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            rest = [axis for axis in range(len(labels)) if axis not in (first, second)]
            size = x.sizes[first]
            if x.sizes[second] != size:
                got = [size, x.sizes[second]]
                raise Refusal(f"the dimensions {label} have two sizes", code="sizes", field="equation", got=got)
            sizes = [x.sizes[axis] for axis in rest]
            x = node.reshaped(node.transposed(x, [*rest, first, second]), [*sizes, size * size])
            x = node.slice1(
                x,
                input_window_offsets=[0] * (len(rest) + 1),
                input_window_sizes=[*sizes, size * size],
                input_window_strides=[1] * len(rest) + [size + 1],
            )
            labels = [labels[axis] for axis in rest] + [label]
    return x, labels


def _summed(node: Node, x: Value, labels: list[str], kept: set[str]) -> tuple[Value, list[str]]:
    """The sum over the labels that are not kept."""
    axes = [axis for axis, label in enumerate(labels) if label not in kept]
    if not axes:
        return x, labels
    sizes = [size for axis, size in enumerate(x.sizes) if axis not in axes]
    total = node.reduce(x, function="sum", axes=axes)
    return node.reshaped(total, sizes or (1,)), [label for label in labels if label in kept]


Term = tuple[Value, list[str]]


def _contracted(node: Node, first: Term, second: Term, needed: set[str]) -> Term:
    """The product of two terms, summed over the labels that are not needed: by the output or a later term."""
    a, b = _summed(node, *first, {*needed, *second[1]}), _summed(node, *second, {*needed, *first[1]})
    both = [label for label in a[1] if label in b[1]]
    inner = [label for label in both if label not in needed]
    batch = [label for label in both if label in needed]
    rows, columns = [each for each in a[1] if each not in both], [each for each in b[1] if each not in both]
    sizes = {label: size for x, labels in (a, b) for label, size in zip(labels, x.sizes, strict=False)}
    sizes |= {label: max(a[0].sizes[a[1].index(label)], b[0].sizes[b[1].index(label)]) for label in both}

    def shaped(term: Term, *groups: list[str]) -> Value:
        x, labels = term
        order = [label for group in groups for label in group]
        whole = [sizes[label] for label in order]
        x = node.transposed(x, [labels.index(label) for label in order]) if order else x
        flat = [math.prod(sizes[label] for label in group) for group in groups]
        return node.reshaped(node.expanded(x, whole or (1,)), flat)

    made = node.gemm(shaped(a, batch, rows, inner), shaped(b, batch, inner, columns))
    labels = [*batch, *rows, *columns]
    return node.reshaped(made, [sizes[label] for label in labels] or (1,)), labels


@dataclasses.dataclass(frozen=True, slots=True)
class Factor:
    """A quantized matrix {…, rows, columns}; its scale and zero point are one number, or one for each row or column.

    Those of the left factor are for rows, those of the right one for columns.
    """

    steps: Tensor
    scale: Tensor
    zero: Tensor | None = None


def dequantized_product(node: Node, left: Factor, right: Factor, alpha: float = 1.0, c: Any = None) -> Value:
    """alpha · (left · right + c), with the sizes that gemm gives; c are steps of the product, int32."""
    a, b = as_matrices(node, left.steps, right.steps)
    rank = len(a.sizes)
    zeros = (_along(node, left.zero, left.steps, rank, -2), _along(node, right.zero, right.steps, rank, -1))
    made = node.matrix_multiply_integer(a, zeros[0], b, zeros[1])
    if c is not None:
        made = node.add(made, node.expanded(c, made.sizes))
    scales = (_along(node, left.scale, left.steps, rank, -2), _along(node, right.scale, right.steps, rank, -1))
    scale = node.multiply(*scales)
    scale = scale if alpha == 1 else node.multiply(scale, alpha)
    return node.multiply(node.converted(made, "float32"), scale)


def _along(node: Node, tensor: Tensor | None, steps: Tensor, rank: int, axis: int) -> Value:
    """A scale or zero point that broadcasts along the rows (−2) or columns (−1) of a matrix; a missing one is 0."""
    if tensor is None:
        tensor = Tensor.of(np.zeros(1, steps.dtype))
    sizes = [1] * rank
    if tensor.count != 1:
        if tensor.count != steps.shape[axis]:
            allowed = f"one number, or {steps.shape[axis]}"
            raise Refusal("does not fit the matrix", code="sizes", got=list(tensor.shape), allowed=allowed)
        sizes[axis] = tensor.count
    return node.reshaped(tensor, sizes)
