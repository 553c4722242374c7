"""Redundant nodes: nodes whose result is their input, alone or together with the previous node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dmlgraph.base.tensor import DataType
from dmlgraph.compiler.draft import Draft
from dmlgraph.compiler.draft_node import DraftNode
from dmlgraph.compiler.rule import Declined, New, Operand, Outcome, Rewrite, Source, rule
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.operators.activation import ActivationIdentity, ActivationRelu
from dmlgraph.operators.bitwise import BitNot
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.element_wise import Abs, Cast, Ceil, Floor, Identity, Negate
from dmlgraph.operators.image import DepthToSpace, DepthToSpace1, SpaceToDepth, SpaceToDepth1
from dmlgraph.operators.padding import Padding, Padding1
from dmlgraph.operators.shape import Join, Split, Tile
from dmlgraph.operators.slicing import Slice, Slice1


def _takes_all(fields: dict[str, Any]) -> bool:
    """Whether a slice takes every element, in order."""
    steps = fields.get("input_window_strides") or fields["strides"]
    same = fields["input"].sizes == fields["output"].sizes
    return same and all(step == 1 or size == 1 for step, size in zip(steps, fields["input"].sizes, strict=True))


# Why an operator returns its input, as a phrase, and the test on its fields.
_COPIES: dict[type[Operator], tuple[str, Callable[[dict[str, Any]], bool]]] = {
    Identity: ("a copy of its input", lambda fields: fields["scale_bias"] is None),
    ActivationIdentity: ("a copy of its input", lambda fields: True),
    Cast: ("casts to the type its input has", lambda fields: fields["input"].dtype is fields["output"].dtype),
    Tile: ("repeats once", lambda fields: set(fields["repeats"]) == {1}),
    Slice: ("takes the whole tensor", _takes_all),
    Slice1: ("takes the whole tensor", _takes_all),
    Join: ("joins one tensor", lambda fields: len(fields["inputs"]) == 1),
    Split: ("has one part", lambda fields: len(fields["outputs"]) == 1),
    **dict.fromkeys(
        (Padding, Padding1),
        ("pads by nothing", lambda fields: not any(fields["start_padding"]) and not any(fields["end_padding"])),
    ),
    **dict.fromkeys(
        (DepthToSpace, DepthToSpace1, SpaceToDepth, SpaceToDepth1),
        ("moves blocks of one pixel", lambda fields: fields["block_size"] == 1),
    ),
}

# f(f(x)) = x.  In int8 the negative of −128 is stored as 127, whose negative is −127.
_INVOLUTIONS: dict[type[Operator], Callable[[DataType], bool]] = {
    Negate: lambda dtype: dtype is not DataType.INT8,
    BitNot: lambda dtype: True,
}
_IDEMPOTENT = (Abs, ActivationRelu, Ceil, Floor)  # f(f(x)) = f(x)


@rule(*_COPIES, effect="bit-exact")
def remove_copy(draft: Draft, node: DraftNode) -> Outcome:
    """identity(x), a cast to x's data type, tiles, slices and pads that change nothing → x.

    Where a copy changes the layout, its readers read through strides instead; it stays where they cannot.
    """
    operator = node.computation
    why, is_copy = _COPIES[type(operator)]
    if not is_copy(operator.__dict__):
        return None
    return instead(draft, node, node.operands()[0], why)


@rule(*_INVOLUTIONS, after=_INVOLUTIONS, effect="bit-exact")
def double_negation(draft: Draft, node: DraftNode) -> Outcome:
    """−(−x), ~~x → x; not −(−x) of int8, whose least number becomes the greatest (measured)."""
    operand = node.needed("input")
    first = draft.made_by(operand, type(node.computation))
    if first is None:
        return None
    if not _INVOLUTIONS[type(node.computation)](operand.desc.dtype):
        return Declined(f"in {operand.desc.dtype} it does not restore every number")
    seen = draft.around(operand, draft.produced(operand), first.needed("input"))
    return None if seen is None else instead(draft, node, seen, f"undoes '{first.name}'")


@rule(*_IDEMPOTENT, after=_IDEMPOTENT, effect="bit-exact")
def remove_again(draft: Draft, node: DraftNode) -> Outcome:
    """|(|x|)| → |x|, and the same for relu, ceil and floor."""
    first = _same_before(draft, node)
    operand = node.operand("input")
    if first is None or operand is None:
        return None
    return instead(draft, node, operand, f"'{first.name}' did it already")


@rule(Cast, after=(Cast,), effect="bit-exact")
def join_casts(draft: Draft, node: DraftNode) -> Outcome:
    """cast(cast(x)) → one cast, or x, where the first loses nothing and the second widens again or undoes it."""
    operand = node.operand("input")
    first = draft.made_by(operand, Cast)
    if first is None or operand is None or operand.desc != draft.produced(operand):
        return None
    source = first.needed("input")
    origin, middle, end = source.desc.dtype, operand.desc.dtype, node.output_desc().dtype
    if middle not in _HOLDS.get(origin, ()):
        return Declined(f"{middle} does not hold every {origin}")
    if end is origin:
        return instead(draft, node, source, f"{middle} holds every {origin}, and this restores it")
    if end not in _HOLDS.get(middle, ()):
        return None
    return Rewrite.of(New(Cast, {"input": source}, outputs={"output": {"dtype": end}}), "widens in one step")


def instead(draft: Draft, node: DraftNode, operand: Operand, why: str) -> Outcome:
    """The rewrite of a node to an existing value with the same elements.

    Its readers then read that value's buffer.  Declined where a graph output would be an input or a constant.
    """
    if draft.is_output(Source(node.name, 0)) and not isinstance(draft.producer(operand).content, OperatorNode):
        return Declined("an output of the graph cannot be an input or a constant")
    return Rewrite.of(operand, why)


def _same_before(draft: Draft, node: DraftNode) -> DraftNode | None:
    """The producer of the input if it is the same function and neither has a scale and bias; else None."""
    operand = node.operand("input")
    first = draft.made_by(operand, type(node.operator)) if node.operator is not None else None
    if first is None or operand is None or operand.desc != draft.produced(operand):
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

RULES = (remove_copy, double_negation, remove_again, join_casts)
