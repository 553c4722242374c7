"""Layout: data movement that readers and producers do themselves, through the strides they read and write with."""

from __future__ import annotations

from dmlgraph.base.tensor import TensorDesc
from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import IrNode, Operand, Source
from dmlgraph.compiler.rule import New, Outcome, Rewrite, demand, rule, wanted
from dmlgraph.operators.common.strided import reordered
from dmlgraph.operators.element_wise import Identity
from dmlgraph.operators.shape import Tile
from dmlgraph.operators.slicing import Slice, Slice1


@rule(Tile, effect="bit-exact")
def tile_to_strides(ir: IrGraph, node: IrNode) -> Outcome:
    """tile(x) along dimensions of size 1 → readers that repeat x through strides of zero."""
    operand, operator = node.needed("input"), node.computing(Tile)
    can = all(1 in pair for pair in zip(operator.repeats, operand.desc.sizes, strict=True))
    demand(can, "only dimensions of size 1 can be repeated through strides")
    _outputs_stay(ir, node)
    repeated = Operand(operand.source, operand.desc.broadcast_to(node.output_desc().sizes))
    return Rewrite.of(repeated, "its readers repeat through strides of zero")


@rule(Slice, Slice1, effect="bit-exact")
def slice_to_strides(ir: IrGraph, node: IrNode) -> Outcome:
    """slice(x) from the first element on → readers that skip the rest of x through strides.

    A slice that begins elsewhere stays a copy: a tensor description has no offset.
    """
    operand, operator = node.needed("input"), node.operator
    if isinstance(operator, Slice):
        offsets, steps = operator.offsets, operator.strides
    else:
        window = node.computing(Slice1)
        offsets, steps = window.input_window_offsets, window.input_window_strides
    demand(not any(offsets) and min(steps) >= 0, "it does not begin at the first element")
    for user, _ in ir.users(Source(node.name, 0)):
        is_copy = isinstance(user.operator, Identity) and user.operator.scale_bias is None
        demand(not is_copy, f"'{user.name}' copies it: one copy is needed")
    desc = operand.desc
    strides = tuple(stride * step for stride, step in zip(desc.effective_strides, steps, strict=True))
    view = TensorDesc(dtype=desc.dtype, sizes=node.output_desc().sizes, strides=strides, owned=desc.owned)
    _outputs_stay(ir, node)
    return Rewrite.of(Operand(operand.source, view), "its readers skip the rest through strides")


def _outputs_stay(ir: IrGraph, node: IrNode) -> None:
    """An output of the graph needs a buffer of its own."""
    demand(not ir.is_output(Source(node.name, 0)), "it is an output of the graph")


@rule(Identity, effect="bit-exact")
def write_in_order(ir: IrGraph, node: IrNode) -> Outcome:
    """A copy that only reorders a value → its producer writes in that order, and its other readers read in theirs."""
    if node.computing(Identity).scale_bias is not None:
        return None
    operand = node.needed("input")
    producer = ir.producer(operand)
    operator = producer.operator
    if operator is None or operand.desc.strides is None:
        return None
    written = ir.produced(operand)
    is_free = written.strides is None and producer.output_count == 1
    demand(is_free, f"'{producer.name}' has other outputs, or writes with strides already")
    why = f"no strides with which '{producer.name}' could write make a copy of it unnecessary"
    strides = wanted(reordered(operand.desc.sizes, operand.desc.effective_strides, written.sizes), why)
    refusal = ir.write_refusal(producer, written.like(strides=strides))
    demand(refusal is None, f"'{producer.name}': {refusal}")
    asked = {"dtype": written.dtype, "sizes": written.sizes, "strides": strides}
    again = New.like(producer, {}, {}, {operator.output_fields[0]: asked})
    return Rewrite({0: again}, f"'{producer.name}' writes in the order of the copy '{node.name}'", producer.name)


RULES = (tile_to_strides, slice_to_strides, write_in_order)
