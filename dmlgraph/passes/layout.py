"""Layout: data movement that readers can do themselves through the strides they read with."""

from __future__ import annotations

from dmlgraph.operators.element_wise import Identity
from dmlgraph.operators.shape import Tile
from dmlgraph.operators.slicing import Slice, Slice1
from dmlgraph.passes.draft import Draft, DraftNode
from dmlgraph.passes.rule import Declined, Operand, Outcome, Rewrite, Source, rule
from dmlgraph.tensor import TensorDesc


@rule(Tile, effect="bit-exact")
def tile_to_strides(draft: Draft, node: DraftNode) -> Outcome:
    """tile(x) along dimensions of size 1 → readers that repeat x through strides of zero."""
    operand, operator = node.needed("input"), node.computing(Tile)
    if any(repeats != 1 and size != 1 for repeats, size in zip(operator.repeats, operand.desc.sizes, strict=True)):
        return Declined("only dimensions of size 1 can be repeated through strides")
    return _readers_only(draft, node) or Rewrite.of(
        Operand(operand.source, operand.desc.broadcast_to(node.output_desc().sizes)),
        "its readers repeat through strides of zero",
    )


@rule(Slice, Slice1, effect="bit-exact")
def slice_to_strides(draft: Draft, node: DraftNode) -> Outcome:
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
    for user, _ in draft.users(Source(node.name, 0)):
        if isinstance(user.operator, Identity) and user.operator.scale_bias is None:
            return Declined(f"'{user.name}' copies it: one copy is needed")
    desc = operand.desc
    strides = tuple(stride * step for stride, step in zip(desc.effective_strides, steps, strict=True))
    view = TensorDesc(dtype=desc.dtype, sizes=node.output_desc().sizes, strides=strides, owned=desc.owned)
    return _readers_only(draft, node) or Rewrite.of(
        Operand(operand.source, view), "its readers skip the rest through strides"
    )


def _readers_only(draft: Draft, node: DraftNode) -> Declined | None:
    """Only operators that accept such strides can read a value that has no buffer; else why not."""
    source = Source(node.name, 0)
    if draft.is_output(source):
        return Declined("it is an output of the graph")
    for user, _ in draft.users(source):
        if user.operator is not None and not user.operator.broadcasts:
            return Declined(f"'{user.name}' may not accept strides that leave gaps or repeat")
    return None


RULES = (tile_to_strides, slice_to_strides)
