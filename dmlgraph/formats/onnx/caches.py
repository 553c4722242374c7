"""Caches of a model: inputs to which it appends rows, and the outputs that are both, found by what computes these.

There are three families: operators with a past and a present, such as GroupQueryAttention, whose new rows take their
place behind those that count; MultiHeadAttention and others, whose new rows are behind all of the past; and a
concatenation of past and new rows.  A merged decoder has them in a branch of an If.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import onnx_ir as ir

from dmlgraph.base.errors import ModelError, Problem, listing
from dmlgraph.formats.onnx.names import as_text
from dmlgraph.formats.onnx.state_names import NEXT
from dmlgraph.formats.onnx.table import MICROSOFT

# As the states of a model: those that `pairs` finds; also with an input that says what is padding.
AUTO, PADDED = "auto", "padded"

# Where operators hold past rows and new ones: operator → (output, input of the past, axis).  Concat has its axis.
_APPENDING = {
    ("", "Attention"): ((1, 4, 2), (2, 5, 2)),
    (MICROSOFT, "Attention"): ((1, 4, 3),),
    (MICROSOFT, "GroupQueryAttention"): ((1, 3, 2), (2, 4, 2)),
    (MICROSOFT, "MultiHeadAttention"): ((1, 6, 2), (2, 7, 2)),
    (MICROSOFT, "QAttention"): ((1, 8, 3),),
}
_PAST, _PRESENT = ("past_key_values", "past"), "present"  # what exporters call them, where nothing else tells
_HINT = 'states={"past_key_values.*": "present.*"} says which inputs and outputs belong together'


class Growth(NamedTuple):
    """What appends rows.

    Attributes:
        past: what the rows are appended to.
        axis: along which they lie.
        node: appends them.
    """

    past: ir.Value
    axis: int
    node: ir.Node

    @property
    def counts(self) -> bool:
        """Whether the new rows take their place behind those that count, in one buffer."""
        return (self.node.domain, self.node.op_type) == (MICROSOFT, "GroupQueryAttention")

    @property
    def width(self) -> int | None:
        """The numbers of a head, where GroupQueryAttention tells; None elsewhere."""
        if not self.counts:
            return None
        heads, shared = (whole_number(self.node.attributes, name) or 0 for name in ("num_heads", "kv_num_heads"))
        query, key = self.node.inputs[:2]
        source, parts = (query, heads + 2 * shared) if key is None else (key, shared)
        size = source.shape[-1] if source is not None and source.shape is not None and len(source.shape) == 3 else None
        return size // parts if isinstance(size, int) and parts > 0 and size % parts == 0 else None


def whole_number(attributes: Mapping[str, ir.Attr], name: str) -> int | None:
    """A whole number of an attribute; None where it is not given, or is something else."""
    attribute = attributes.get(name)
    is_number = attribute is not None and attribute.type is ir.AttributeType.INT and not attribute.is_ref()
    return attribute.as_int() if attribute is not None and is_number else None


def growth(present: ir.Value) -> Growth | None:
    """How an output is made of past rows and new ones; None where it is something else."""
    source = _source(present)
    node = source.producer()
    if node is None:
        return None
    if (node.domain, node.op_type) == ("", "If"):
        index = list(node.outputs).index(source)
        found = (growth(branch.outputs[index]) for branch in _branches(node) if index < len(branch.outputs))
        return next((each for each in found if each is not None), None)
    inputs = [None if each is None else _source(each) for each in node.inputs]
    if (node.domain, node.op_type) == ("", "Concat"):
        axis, past = whole_number(node.attributes, "axis"), inputs[0] if inputs else None
        if axis is None or len(inputs) < 2 or past is None:
            return None
        rank = len(past.shape) if past.shape is not None else 0
        return Growth(past, axis + rank if axis < 0 else axis, node)
    for output, place, grows in _APPENDING.get((node.domain, node.op_type), ()):
        past = inputs[place] if place < len(inputs) else None
        if output < len(node.outputs) and node.outputs[output] is source and past is not None:
            return Growth(past, grows, node)
    return None


def pairs(graph: ir.Graph) -> dict[str, str]:
    """The caches of a model: names of inputs → names of outputs.

    An output belongs to the input to which rows are appended for it.  Others belong together by their names, if they
    have one type and one number of dimensions: `past…` and `present…`, and `x` and `x.next`.

    Raises:
        ModelError: the model has no caches, or an input is a past and the model has no output with its new rows.
    """
    inputs = {each: as_text(each.name) for each in graph.inputs}
    found: dict[str, str] = {}
    for output in graph.outputs:
        made = growth(output)
        if made is not None and made.past in inputs:
            found.setdefault(inputs[made.past], as_text(output.name))
    outputs = {as_text(each.name): each for each in graph.outputs if as_text(each.name) not in found.values()}
    for value, name in inputs.items():
        same = next((each for each in _presents(name) if each in outputs), None)
        if name not in found and same is not None and _alike(value, outputs[same]):
            found[name] = same
    left = [name for value, name in inputs.items() if name not in found and _is_past(value)]
    if left:
        message, allowed = "no output of the model is this past with its new rows", listing(outputs)
        problem = Problem(message, field="states", allowed=allowed, hint=_HINT, code="states")
        raise ModelError([dataclasses.replace(problem, node=name) for name in left])
    if not found:
        message = "no output of the model is an input with new rows behind it"
        raise ModelError(message, code="states", field="states", allowed=listing(outputs), hint=_HINT)
    return found


def _presents(name: str) -> Iterator[str]:
    """The names that the output of a past may have."""
    yield name + NEXT
    yield from (name.replace(each, _PRESENT, 1) for each in _PAST if each in name)


def _alike(one: ir.Value, other: ir.Value) -> bool:
    same_rank = one.shape is None or other.shape is None or len(one.shape) == len(other.shape)
    return one.dtype is other.dtype and same_rank


def _is_past(value: ir.Value) -> bool:
    """Whether an operator reads an input as its past."""
    places = ((use.node, use.idx) for use in value.uses())
    return any(
        any(at == place for _, place, _ in _APPENDING.get((node.domain, node.op_type), ())) for node, at in places
    )


def _branches(node: ir.Node) -> Iterator[ir.Graph]:
    return (each.as_graph() for each in node.attributes.values() if each.type is ir.AttributeType.GRAPH)


def _source(value: ir.Value) -> ir.Value:
    """The value, or that of which it is an Identity."""
    node = value.producer()
    while node is not None and node.op_type == "Identity" and node.inputs and node.inputs[0] is not None:
        value = node.inputs[0]
        node = value.producer()
    return value
