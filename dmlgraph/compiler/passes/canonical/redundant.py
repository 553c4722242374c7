"""Redundant nodes: nodes whose result is their input, alone or together with the previous node."""

from __future__ import annotations

from dmlgraph.base.tensor import DataType
from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import IrNode, Operand, Source
from dmlgraph.compiler.rule import New, Outcome, Rewrite, Tensors, alone, demand, rule, through
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.element_wise import Add, Cast, Negate, Subtract


@rule(lambda kind: kind.why_copy is not Operator.why_copy, effect="bit-exact")
def remove_copy(ir: IrGraph, node: IrNode) -> Outcome:
    """identity(x), a cast to x's data type, tiles, slices and pads that change nothing → x.

    Where a copy changes the layout, its readers read through strides instead; it stays where they cannot.
    """
    why = node.computation.why_copy()
    return None if why is None else instead(ir, node, node.operands()[0], why)


def is_involution(kind: type[Operator]) -> bool:
    """Whether f(f(x)) = x, at least for some data types."""
    return bool(kind.involution)


def is_idempotent(kind: type[Operator]) -> bool:
    """Whether f(f(x)) = f(x)."""
    return kind.idempotent and len(kind.input_fields) == 1


@rule(is_involution, after=(is_involution,), effect="bit-exact")
def double_negation(ir: IrGraph, node: IrNode) -> Outcome:
    """−(−x), ~~x → x; not −(−x) of int8, whose least number becomes the greatest (measured)."""
    operand = node.needed("input")
    first = ir.made_by(operand, type(node.computation))
    if first is None:
        return None
    dtype = operand.desc.dtype
    demand(dtype in node.computation.involution, f"in {dtype} it does not restore every number")
    seen = ir.around(operand, ir.produced(operand), first.needed("input"))
    return None if seen is None else instead(ir, node, seen, f"undoes '{first.name}'")


@rule(Add, Subtract, after=(Negate,), effect="bit-exact")
def negated_operand(ir: IrGraph, node: IrNode) -> Outcome:
    """x + (−y), (−y) + x → x − y and x − (−y) → x + y; not of int8, as `double_negation`."""
    a, b = node.needed("a"), node.needed("b")
    for operand, other in ((b, a), (a, b)) if node.computation.commutative else ((b, a),):
        negation = ir.made_by(operand, Negate)
        if negation is not None:
            demand(operand.desc.dtype in Negate.involution, f"in {operand.desc.dtype} not every number has a negative")
            alone(ir, operand)
            operator = Subtract if node.computation.commutative else Add
            tensors: Tensors = {"a": other, "b": through(ir, operand, negation.needed("input"))}
            return Rewrite.of(New(operator, tensors), f"takes '{negation.name}' with it")
    return None


@rule(is_idempotent, after=(is_idempotent,), effect="bit-exact")
def remove_again(ir: IrGraph, node: IrNode) -> Outcome:
    """|(|x|)| → |x|, and the same for relu, ceil and floor."""
    first = _same_before(ir, node)
    operand = node.operand("input")
    if first is None or operand is None:
        return None
    return instead(ir, node, operand, f"'{first.name}' did it already")


@rule(Cast, after=(Cast,), effect="bit-exact")
def join_casts(ir: IrGraph, node: IrNode) -> Outcome:
    """cast(cast(x)) → one cast, or x, where the first loses nothing and the second widens again or undoes it."""
    operand = node.operand("input")
    first = ir.made_by(operand, Cast)
    if first is None or operand is None or operand.desc != ir.produced(operand):
        return None
    source = first.needed("input")
    origin, middle, end = source.desc.dtype, operand.desc.dtype, node.output_desc().dtype
    demand(middle in _HOLDS.get(origin, ()), f"{middle} does not hold every {origin}")
    if end is origin:
        return instead(ir, node, source, f"{middle} holds every {origin}, and this restores it")
    if end not in _HOLDS.get(middle, ()):
        return None
    return Rewrite.of(New(Cast, {"input": source}, outputs={"output": {"dtype": end}}), "widens in one step")


def instead(ir: IrGraph, node: IrNode, operand: Operand, why: str) -> Outcome:
    """The rewrite of a node to an existing value with the same elements.

    Its readers then read that value's buffer.  Raises Declined where a graph output would be an input or a constant.
    """
    is_legal = not ir.is_output(Source(node.name, 0)) or isinstance(ir.producer(operand).content, OperatorNode)
    demand(is_legal, "an output of the graph cannot be an input or a constant")
    return Rewrite.of(operand, why)


def _same_before(ir: IrGraph, node: IrNode) -> IrNode | None:
    """The producer of the input if it is the same function and neither has a scale and bias; else None."""
    operand = node.operand("input")
    first = ir.made_by(operand, type(node.operator)) if node.operator is not None else None
    if first is None or operand is None or operand.desc != ir.produced(operand):
        return None
    plain = all(getattr(each.operator, "scale_bias", None) is None for each in (first, node))
    return first if plain else None


def _wider(names: str) -> list[DataType]:
    return [DataType[name.upper()] for name in names.split()]


# data type → the types that hold all of its numbers, so that CAST does not change them.
_HOLDS: dict[DataType, list[DataType]] = {
    DataType.FLOAT16: _wider("float32 float64"),
    DataType.FLOAT32: _wider("float64"),
    DataType.UINT16: _wider("uint32 uint64 int32 int64 float32 float64"),
    DataType.UINT32: _wider("uint64 int64 float64"),
    DataType.INT16: _wider("int32 int64 float32 float64"),
    DataType.INT32: _wider("int64 float64"),
    DataType.UINT8: _wider("uint16 uint32 uint64 int16 int32 int64 float16 float32 float64"),
    DataType.INT8: _wider("int16 int32 int64 float16 float32 float64"),
}

RULES = (remove_copy, double_negation, negated_operand, remove_again, join_casts)
