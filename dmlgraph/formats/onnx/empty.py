"""Tensors without elements, which DirectML lacks: nodes whose results have none need no graph."""

from __future__ import annotations

import numpy as np
import onnx

from dmlgraph.formats.onnx.definitions import schema, type_proto
from dmlgraph.formats.onnx.node import Node
from dmlgraph.formats.onnx.tensors import Array

# ONNX's inference ends the process, or never ends, for some attributes of these; their rules know the shapes.
_NOT_INFERRED = frozenset(["Einsum", "GatherND", "Split"])
_MOST_ELEMENTS = 1 << 10  # of an input whose numbers may say sizes


def empty_results(node: Node) -> list[Array | None] | None:
    """The outputs of a node if they all have no elements; None if one has some, or ONNX does not infer its shape.

    Outputs that are not asked for are None.
    """
    known = schema(node.domain, node.operator, node.opset)
    if known is None or node.operator in _NOT_INFERRED:
        return None
    proto = node.proto()
    given = {name: each for name, each in zip(proto.input, node.inputs, strict=True) if each is not None}
    types = {name: type_proto(each) for name, each in given.items()}
    data = {
        name: onnx.numpy_helper.from_array(np.ascontiguousarray(each.known), name)
        for name, each in given.items()
        if each.known is not None and each.count <= _MOST_ELEMENTS and not each.is_text
    }
    opsets = [onnx.helper.make_opsetid(node.domain, node.opset)]
    try:
        made = onnx.shape_inference.infer_node_outputs(known, proto, types, data, opset_imports=opsets)
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, RuntimeError, ValueError):
        return None  # its rule says what is wrong
    results: list[Array | None] = []
    for name in proto.output:
        if not name:
            results.append(None)
            continue
        tensor = made[name].tensor_type if name in made else onnx.TypeProto.Tensor()
        sizes = [each.dim_value if each.HasField("dim_value") else -1 for each in tensor.shape.dim]
        if 0 not in sizes or -1 in sizes:
            return None
        results.append(np.empty(sizes, onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)))
    return results
