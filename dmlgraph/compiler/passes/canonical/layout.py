"""Layout: data movement that readers and producers do themselves, through the strides they read and write with."""

from __future__ import annotations

from dmlgraph.base.tensor import TensorDesc
from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import IrNode, Operand, Source
from dmlgraph.compiler.rule import Declined, New, Outcome, Rewrite, Tensor, rule
from dmlgraph.operators.common.strided import reordered
from dmlgraph.operators.element_wise import Identity
from dmlgraph.operators.shape import Tile
from dmlgraph.operators.slicing import Slice, Slice1


@rule(Tile, effect="bit-exact")
def tile_to_strides(ir: IrGraph, node: IrNode) -> Outcome:
    """tile(x) along dimensions of size 1 → readers that repeat x through strides of zero."""
    operand, operator = node.needed("input"), node.computing(Tile)
    if any(repeats != 1 and size != 1 for repeats, size in zip(operator.repeats, operand.desc.sizes, strict=True)):
        return Declined("only dimensions of size 1 can be repeated through strides")
    return _outputs_stay(ir, node) or Rewrite.of(
        Operand(operand.source, operand.desc.broadcast_to(node.output_desc().sizes)),
        "its readers repeat through strides of zero",
    )


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
    if any(offsets) or any(step < 0 for step in steps):
        return Declined("it does not begin at the first element")
    for user, _ in ir.users(Source(node.name, 0)):
        if isinstance(user.operator, Identity) and user.operator.scale_bias is None:
            return Declined(f"'{user.name}' copies it: one copy is needed")
    desc = operand.desc
    strides = tuple(stride * step for stride, step in zip(desc.effective_strides, steps, strict=True))
    view = TensorDesc(dtype=desc.dtype, sizes=node.output_desc().sizes, strides=strides, owned=desc.owned)
    return _outputs_stay(ir, node) or Rewrite.of(
        Operand(operand.source, view), "its readers skip the rest through strides"
    )


def _outputs_stay(ir: IrGraph, node: IrNode) -> Declined | None:
    """An output of the graph needs a buffer of its own."""
    return Declined("it is an output of the graph") if ir.is_output(Source(node.name, 0)) else None


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
    if written.strides is not None or producer.output_count > 1:
        return Declined(f"'{producer.name}' has other outputs, or writes with strides already")
    strides = reordered(operand.desc.sizes, operand.desc.effective_strides, written.sizes)
    if strides is None:
        return Declined(f"no strides with which '{producer.name}' could write make a copy of it unnecessary")
    why = ir.write_refusal(producer, written.like(strides=strides))
    if why is not None:
        return Declined(f"'{producer.name}': {why}")
    tensors: dict[str, Tensor | list[Tensor] | None] = {
        field: list(producer.operands(field)) if is_array else producer.operand(field)
        for field, is_array in operator.input_arrays.items()
    }
    again = New(
        type(operator),
        tensors,
        operator.attributes,
        {operator.output_fields[0]: {"dtype": written.dtype, "sizes": written.sizes, "strides": strides}},
    )
    return Rewrite({0: again}, f"'{producer.name}' writes in the order of the copy '{node.name}'", producer.name)


RULES = (tile_to_strides, slice_to_strides, write_in_order)
