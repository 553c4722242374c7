"""Equal nodes of a model become one.

onnx-ir's own pass takes attributes for equal that Python does: 0.0 and -0.0, 1 and 1.0.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from dmlgraph.formats.onnx.numbers import elements

MOST_ELEMENTS = 10  # of tensors that are compared; weights are rarely equal
_RANDOM = frozenset(
    ["Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"]
)
_KIND = ir.AttributeType
_FLOATS, _OTHERS = (_KIND.FLOAT, _KIND.FLOATS), (_KIND.INT, _KIND.INTS, _KIND.STRING, _KIND.STRINGS)


class EqualNodesPass(ir.passes.InPlacePass):
    """Removes nodes that compute what one before them does, those of the main graph that are no outputs of it."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        graph, first, modified = model.graph, dict[Any, ir.Node](), False
        for node in graph:
            form = _form(node)
            if form is None:
                continue
            same = first.setdefault(form, node)
            if same is not node and not any(each.is_graph_output() for each in node.outputs):
                ir.convenience.replace_all_uses_with(node.outputs, same.outputs)
                graph.remove(node, safe=True)
                modified = True
        return ir.passes.PassResult(model, modified)


def _form(node: ir.Node) -> tuple[object, ...] | None:
    """What equal nodes have in common; None for one that equals no other."""
    if node.op_type in _RANDOM:
        return None
    attributes = []
    for name, attribute in sorted(node.attributes.items()):
        value = _exact(attribute)
        if value is None:
            return None
        attributes.append((name, attribute.type, value))
    outputs = tuple(bool(each.name) for each in node.outputs)
    return node.op_identifier(), tuple(map(id, node.inputs)), outputs, tuple(attributes)


def _exact(attribute: ir.Attr) -> object:
    """An attribute's value, so that equal ones have equal bits; None where it is not compared."""
    value = attribute.value
    if attribute.type in _FLOATS:
        floats: Sequence[float] = [value] if attribute.type is _KIND.FLOAT else value
        return struct.pack(f"{len(floats)}d", *floats)
    if attribute.type in _OTHERS:
        return tuple(value) if isinstance(value, Sequence) else value
    if attribute.type is _KIND.TENSOR and value.size <= MOST_ELEMENTS:
        array = elements(value)
        return array.shape, str(array.dtype), array.tobytes()
    return None
