"""What ONNX knows of operators: types of outputs, definitions by other operators, shapes without elements."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from dmlgraph.formats.onnx.node import Node
from dmlgraph.formats.onnx.refusals import Refusal
from dmlgraph.formats.onnx.tensors import Array, Tensor, parse_dtype


@functools.cache
def schema(domain: str, operator: str, opset: int) -> Any:
    """The schema of an operator, an OpSchema, whose stub lacks members; None if ONNX does not know it."""
    try:
        return onnx.defs.get_schema(operator, opset, domain)
    except (onnx.defs.SchemaError, TypeError):  # TypeError: a name that is not UTF-8, an opset above 32 bits
        return None


def output_types(node: Node) -> list[np.dtype[Any] | None]:
    """The types of a node's outputs; None where the schema leaves them open."""
    dtypes = tuple([None if each is None else each.dtype for each in node.inputs])
    return [output_type(node.domain, node.operator, node.opset, dtypes, at) for at in range(len(node.outputs))]


@functools.cache
def output_type(
    domain: str, operator: str, opset: int, inputs: tuple[np.dtype[Any] | None, ...], index: int
) -> np.dtype[Any] | None:
    """The type of an output by the schema and the types of the inputs; None where the schema leaves it open."""
    known = schema(domain, operator, opset)
    if known is None:
        return None
    if not known.outputs:
        return None
    text: str = known.outputs[min(index, len(known.outputs) - 1)].type_str
    if text.startswith("tensor("):
        return parse_dtype(text.removeprefix("tensor(").removesuffix(")"))
    for place, dtype in enumerate(inputs):
        formal = known.inputs[min(place, len(known.inputs) - 1)]
        same = formal.is_homogeneous or place < len(known.inputs) - 1
        if dtype is not None and formal.type_str == text and same:
            return dtype
    allowed: Sequence[str] = next(
        (each.allowed_type_strs for each in known.type_constraints if each.type_param_str == text), ()
    )
    if len(allowed) == 1:
        return parse_dtype(allowed[0].removeprefix("tensor(").removesuffix(")"))
    return None


def default_attributes(domain: str, operator: str, opset: int) -> dict[str, ir.Attr]:
    """The attributes of an operator that have defaults."""
    known = schema(domain, operator, opset)
    if known is None:
        return {}
    given = ((name, each.default_value) for name, each in known.attributes.items())
    return {name: ir.serde.deserialize_attribute(each) for name, each in given if each.type}


_NONE = "ONNX has no definition of it for these inputs and attributes"


def definition(
    domain: str,
    operator: str,
    opset: int,
    node: onnx.NodeProto | None = None,
    inputs: Sequence[Tensor | None] = (),
) -> ir.Function | None:
    """ONNX's definition of an operator by others; None if it has no such definition.

    Some definitions depend on a node and its inputs: without them the answer is only whether there is one.
    """
    known = schema(domain, operator, opset)
    if known is None or not (known.has_function or known.has_context_dependent_function):
        return None
    versions = known.function_opset_versions or known.context_dependent_function_opset_versions
    version = max((each for each in versions if each <= opset), default=None)
    if version is None:
        return None
    if known.has_function:
        data = known.get_function_with_opset_version(version)
    elif node is None:
        return ir.Function("", "", graph=ir.Graph([], [], nodes=[]), attributes=[])
    else:
        types = [type_proto(each).SerializeToString() for each in inputs]
        try:
            data = known.get_context_dependent_function_with_opset_version(version, node.SerializeToString(), types)
        except RuntimeError:  # ONNX could not read the text that it made of an attribute
            raise Refusal(_NONE) from None
    made = onnx.FunctionProto.FromString(data)
    if not made.node:
        raise Refusal(_NONE)
    if not made.opset_import:
        made.opset_import.add(domain="", version=version)
    written = {name for each in made.node for name in each.output} | set(made.input)
    for index, name in enumerate(made.output):
        if name not in written:  # an output that is not asked for: any tensor stands for it
            made.output[index] = made.output[0]
    return ir.serde.deserialize_function(made)


def type_proto(tensor: Tensor | None) -> onnx.TypeProto:
    """The type and shape of a tensor as ONNX writes them."""
    if tensor is None:
        return onnx.TypeProto()
    dtype = np.dtype(object) if tensor.is_text else tensor.dtype
    return onnx.helper.make_tensor_type_proto(onnx.helper.np_dtype_to_tensor_dtype(dtype), tensor.shape)


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
        if 0 not in sizes or min(sizes) < 0:
            return None
        results.append(np.empty(sizes, onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)))
    return results
