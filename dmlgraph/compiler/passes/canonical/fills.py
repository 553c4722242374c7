"""Fills: a value computed from constant fills is a constant fill again, and takes no memory.

A value is uniform where every element is the same number: a fill, or a constant of few elements that are all equal.
Then the way it is read does not matter, so strides and broadcasting never prevent a fold.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from dmlgraph.base.scalar import Scalar
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import IrNode, Source
from dmlgraph.compiler.rule import NUMBERS, Constant, New, Outcome, Rewrite, Tensor, demand, rule
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.element_wise import Identity, If
from dmlgraph.operators.fill import FillValueConstant

REDUCED_ELEMENTS = 1 << 16  # the most elements that are reduced here


def is_element_wise(operator: type[Operator]) -> bool:
    """Whether each element of the output comes from one of each input."""
    return operator.inner_dimensions == 0


@rule(is_element_wise, after=NUMBERS, effect="the bits that `evaluate` gives for one element")
def fold_fills(ir: IrGraph, node: IrNode) -> Outcome:
    """f(fill, fill, …) → fill, for every element-wise f, casts and (de)quantization.

    The number is the result of `evaluate` for one element.  It has the device's bits where the device is exact, and is
    closer where the device approximates (exp, log, erf, tanh, asin, … and the sign of their zeros; max and min of two
    zeros may return either).  Activations of non-finite numbers are not folded: there devices differ.
    """
    operator = node.computation
    numbers = [ir.number(node.operand_at(port)) for port in range(len(node.sources))]
    if any(number is None and source is not None for number, source in zip(numbers, node.sources, strict=True)):
        return None
    ones = (1,) * node.output_desc().rank
    inputs = [None if number is None else np.full(ones, number.value) for number in numbers]
    demand(not differs_by_device(operator, inputs), "the activation of NaN and infinities differs by device")
    (result,) = operator.evaluate(*inputs)
    return Rewrite.of(fill(ir, node, 0, scalar_of(result)), "all its inputs are uniform")


@rule(lambda kind: bool(kind.moves), after=NUMBERS, effect="bit-exact")
def move_fills(ir: IrGraph, node: IrNode) -> Outcome:
    """slice, tile, join, split, gather, scatter, pad, block moves, nearest resampling and if of one number → fill.

    Every output element is an input element.  Padding must add the same number.
    """
    operator = node.computation
    operands = [operand for field in operator.moves for operand in node.operands(field)]
    numbers = [number for number in map(ir.number, operands) if number is not None]
    if len(numbers) < len(operands) or not operator.only_moves:
        return None
    padded_with = operator.padded_with()
    if padded_with is not None:
        numbers.append(scalar_of(padded_with))
    demand(len(set(numbers)) == 1, "the numbers of its inputs are not the same")
    (number, *_) = numbers
    used = [port for port in range(node.output_count) if ir.use_count(Source(node.name, port))]
    return Rewrite({port: fill(ir, node, port, number) for port in used}, "it only moves equal numbers")


@rule(
    lambda kind: kind.reduces,
    after=NUMBERS,
    effect="the bits that `evaluate` gives for one row; sums are rounded once",
)
def reduce_fills(ir: IrGraph, node: IrNode) -> Outcome:
    """reduce(fill), argmin(fill), argmax(fill) → fill.

    The number is the result of `evaluate` for one row of as many equal numbers: its sums are rounded once, while a
    device rounds every partial sum.  Rows longer than REDUCED_ELEMENTS are not folded, except where the length does not
    matter (max, min and their indices).
    """
    operator: Any = node.operator
    number = ir.number(node.operand("input"))
    if number is None:
        return None
    axes = range(operator.input.rank) if operator.axes is None else operator.axes
    length = math.prod(operator.input.sizes[axis] for axis in axes) if operator.counts else 1
    demand(length <= REDUCED_ELEMENTS, f"{length} numbers are too many to be reduced in advance")
    row = {
        "input": TensorDesc(dtype=operator.input.dtype, sizes=(length,)),
        "output": TensorDesc(dtype=operator.output.dtype, sizes=(1,)),
        "axes": (0,),
    }
    (result,) = type(operator)(**operator.attributes | row).evaluate(np.full(length, number.value))
    return Rewrite.of(fill(ir, node, 0, scalar_of(result)), f"every row is {number}")


@rule(If, after=NUMBERS, effect="bit-exact")
def choose_branch(ir: IrGraph, node: IrNode) -> Outcome:
    """if(fill, a, b) → a or b; the nodes that only led to the other are removed."""
    condition = ir.number(node.operand("condition"))
    if condition is None:
        return None
    operand = node.needed("a" if condition.bits else "b")
    why = f"the condition is {condition} everywhere"
    is_whole = operand.desc == ir.produced(operand) and isinstance(ir.producer(operand).content, OperatorNode)
    if ir.is_output(Source(node.name, 0)) and not is_whole:
        return Rewrite.of(New(Identity, {"input": operand}), why)  # an output of the graph must be written
    return Rewrite.of(operand, why)


def fill(ir: IrGraph, node: IrNode, port: int, number: Scalar) -> Tensor:
    """One number in place of an output of a node: a fill, or one element where the level has no such fill."""
    output = node.output_desc(port)
    row = FillValueConstant.support().rows("OutputTensor", ir.level)
    if row is not None and row.takes(output.dtype) and row.least_rank <= output.rank <= row.greatest_rank:
        return New(FillValueConstant, {}, {"value": number}, {"output": {"dtype": output.dtype, "sizes": output.sizes}})
    element = Constant(np.full(1, number.value, output.dtype.numpy), output.sizes)
    return New(Identity, {"input": element}) if ir.is_output(Source(node.name, port)) else element


def differs_by_device(operator: Operator, inputs: Iterable[np.ndarray[Any, Any] | None]) -> bool:
    """Whether devices give different results from the reference, not only less exact ones: see `Traits.finite_only`."""
    if not operator.finite_only and operator.__dict__.get("fused_activation") is None:
        return False
    return any(each is not None and each.dtype.kind == "f" and not np.isfinite(each).all() for each in inputs)


def scalar_of(value: Any) -> Scalar:
    """The number, to the bit, in an array of one element or a NumPy scalar."""
    element = np.asarray(value).reshape(-1)[0]
    return Scalar.of(element, DataType.parse(element.dtype))


RULES = (fold_fills, move_fills, reduce_fills, choose_branch)
