"""Integer numbers: consecutive sums, or products, of integers with numbers become one."""

from __future__ import annotations

import dataclasses

import numpy as np

from dmlgraph.base.scalar import Scalar
from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import IrNode, Operand
from dmlgraph.compiler.rule import NUMBERS, Constant, New, Outcome, Rewrite, Tensor, alone, rule, through, wanted
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.element_wise import Add, Multiply, Subtract
from dmlgraph.operators.fill import FillValueConstant


@dataclasses.dataclass(frozen=True, slots=True)
class Modular:
    """A node as an integer affine map, x · factor + term modulo 2^N, and the tensor of its number."""

    operand: Operand
    factor: int
    term: int
    number: Operand


def modular(ir: IrGraph, node: IrNode) -> Modular | None:
    """ADD, SUBTRACT or MULTIPLY of an integer tensor and a number; None for anything else."""
    found = ir.beside_a_number(node)
    if found is None or found.number.dtype.is_float:
        return None
    operand, number, scalar = found
    value = int(scalar.value)
    if isinstance(node.operator, Multiply):
        return Modular(operand, value, 0, number)
    if isinstance(node.operator, Add):
        return Modular(operand, 1, value, number)
    is_left = operand == node.operand("a")
    return Modular(operand, 1, -value, number) if is_left else Modular(operand, -1, value, number)


@rule(Add, Subtract, Multiply, after=NUMBERS, effect="bit-exact: modulo 2^N")
def fold_integer_numbers(ir: IrGraph, node: IrNode) -> Outcome:
    """(x + a) + b → x + (a + b), (x · a) · b → x · (ab), c − (x + a) → (c − a) − x of integers.

    Integers wrap modulo 2^N in ADD, SUBTRACT and MULTIPLY, where sums and products are associative.  Mixtures of both
    are not folded: DirectML has no integer operator for x · a + b.
    """
    outer = modular(ir, node)
    if outer is None:
        return None
    producer = ir.producer(outer.operand)
    inner = modular(ir, producer) if isinstance(producer.operator, (Add, Subtract, Multiply)) else None
    if inner is None:
        return None
    modulus = 1 << outer.operand.desc.dtype.bits
    factor = inner.factor * outer.factor % modulus
    term = (inner.term * outer.factor + outer.term) % modulus
    form = wanted(_integer_form(factor, term, modulus), "no operator multiplies and adds integers")
    alone(ir, outer.operand)
    operand = through(ir, outer.operand, inner.operand)
    operator, field, number_field, number = form
    tensor = _number_like(ir, outer.number, number, operand.desc.rank)
    return Rewrite.of(
        New(operator, {field: operand, number_field: tensor}), f"the number of '{producer.name}' joins its own"
    )


def _integer_form(factor: int, term: int, modulus: int) -> tuple[type[Operator], str, str, int] | None:
    """An operator for x · factor + term, the fields of x and of the number, and the number."""
    if factor == 1:
        return Add, "a", "b", term
    if factor == modulus - 1:
        return Subtract, "b", "a", term
    if term == 0:
        return Multiply, "a", "b", factor
    return None


def _number_like(ir: IrGraph, operand: Operand, bits: int, rank: int) -> Tensor:
    """One element in the form that the graph has its number: a fill or a constant."""
    scalar = Scalar(operand.desc.dtype, bits)
    sizes = (1,) * rank
    if isinstance(ir.producer(operand).operator, FillValueConstant):
        output = {"dtype": scalar.dtype, "sizes": sizes}
        return New(FillValueConstant, {}, {"value": scalar}, {"output": output})
    return Constant(np.full(sizes, scalar.value))


RULES = (fold_integer_numbers,)
