"""Plan: a lowered graph as the native module reads it.

Every node becomes a tuple (kind, name, sources, input descriptions, output descriptions, payload).  A source is the
number of a value.  Values are the graph's inputs in order, then the outputs of every node in order, absent ones
counted.  The source of an absent input is −1.

| kind | payload |
|---|---|
| element_wise | instructions, see dmlgraph.devices.cpu.element_wise |
| reduce | name of the reduction, see native/cpu/kernels/reduce.h, and the axes |
| fill | the bytes of one element |
| constant | the bytes of the buffer |
| view | for each output its affine map onto the first input, see dmlgraph.devices.cpu.movement |
| move | the bytes of one element or None, and pieces, see dmlgraph.devices.cpu.movement |
| native | name of the step, its parameters by name: the structs of native/cpu/steps; for some, instructions |
| python | a function of the inputs' and the outputs' arrays (None where absent), which writes into the latter |

An operator may become several nodes: the functions of dmlgraph.devices.cpu.reduction return ("parts", parts).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from dmlgraph.base.errors import DeviceError, DmlGraphError
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.compiler.lowering import ConstantDescNode, GraphDesc, GraphOutput, OperatorDescNode
from dmlgraph.devices.cpu.attention import ATTENTIONS
from dmlgraph.devices.cpu.block_products import block_product
from dmlgraph.devices.cpu.element_wise import instructions
from dmlgraph.devices.cpu.fills import FILLS
from dmlgraph.devices.cpu.four_bits import has_four_bits, over_bytes
from dmlgraph.devices.cpu.indexing import INDEXING
from dmlgraph.devices.cpu.integer_products import INTEGER_PRODUCTS
from dmlgraph.devices.cpu.movement import MOVEMENTS
from dmlgraph.devices.cpu.products import PRODUCTS
from dmlgraph.devices.cpu.quantized import QUANTIZED
from dmlgraph.devices.cpu.recurrent import RECURRENT
from dmlgraph.devices.cpu.reduction import REDUCTIONS
from dmlgraph.devices.cpu.regions import REGIONS
from dmlgraph.devices.cpu.resampling import RESAMPLINGS
from dmlgraph.devices.cpu.training import TRAINING
from dmlgraph.devices.cpu.windows import WINDOWS
from dmlgraph.devices.executable import Array
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.element_wise import Identity

Payload = tuple[str, Any]  # kind, payload
Way = Callable[[Any], Payload | None]  # takes an operator; returns None if the operator cannot run in this way
Node = tuple[str, str, tuple[int, ...], tuple[TensorDesc | None, ...], tuple[TensorDesc | None, ...], Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """The arguments of the native module: descriptions of the packed inputs, nodes, and the outputs as values."""

    inputs: list[TensorDesc]
    nodes: list[Node]
    outputs: list[int]


# How operators that are not element-wise run.  An operator that is not here, or for which its function returns None,
# runs its `evaluate`.
WAYS: Mapping[type[Operator], Way] = {
    **FILLS,
    **TRAINING,
    **MOVEMENTS,
    **INDEXING,
    **ATTENTIONS,
    **PRODUCTS,
    **QUANTIZED,
    **INTEGER_PRODUCTS,
    **RECURRENT,
    **REDUCTIONS,
    **REGIONS,
    **RESAMPLINGS,
    **WINDOWS,
}


def with_plain_copies(graph: GraphDesc) -> GraphDesc:
    """The graph with plain identities in place of copies by words: here every data type has an identity.

    `dmlgraph.compiler.lowering` copies a tensor as 32-bit words where DirectML has no identity for it.  Here 4-bit
    tensors cannot be read as words.
    """
    nodes, outputs = list(graph.nodes), list(graph.outputs)
    for edge in graph.output_edges:
        node, slot = nodes[edge.from_node], graph.outputs[edge.output]
        identity = node.operator if isinstance(node, OperatorDescNode) else None
        if type(identity) is Identity and identity.output.dtype is not slot.desc.dtype and not identity.input.strides:
            plain = Identity(input=slot.desc)
            nodes[edge.from_node] = OperatorDescNode(node.name, plain)
            outputs[edge.output] = GraphOutput(slot.name, plain.output)
    return dataclasses.replace(graph, nodes=tuple(nodes), outputs=tuple(outputs))


def make_plan(graph: GraphDesc) -> Plan:
    """The graph for the native module."""
    inputs = [slot.desc for slot in graph.inputs]
    nodes: list[Node] = []
    values = list(range(len(inputs)))  # by input slot
    count = len(inputs)
    for slot, given in enumerate(graph.inputs):
        if given.desc.strides is not None and given.desc.dtype.bits > 4:  # 4-bit arrays are packed before the run
            inputs[slot] = given.desc.like()
            nodes.append(("element_wise", given.name, (slot,), (inputs[slot],), (given.desc,), ()))
            values[slot] = count
            count += 1
    ways: list[Payload] = [
        ("constant", node.data) if isinstance(node, ConstantDescNode) else payload_of(node.operator, node.name)
        for node in graph.nodes
    ]
    joined = _join_weights(graph, ways)
    sources: list[list[int]] = []
    first_value: list[int] = []
    for node, way in zip(graph.nodes, ways, strict=True):
        descs = _descs(node)
        if way[0] == "parts":
            count += len(way[1]) - len(descs[1])  # the outputs of the last parts are the node's
        first_value.append(count)
        sources.append([-1] * len(descs[0]))
        count += len(descs[1])
    for edge in graph.input_edges:
        sources[edge.to_node][edge.to_port] = values[edge.input]
    for inner in graph.intermediate_edges:
        sources[inner.to_node][inner.to_port] = first_value[inner.from_node] + inner.from_port
    for product, weights in joined.items():
        sources[product] += [*sources[weights], -1]
    for node, (kind, payload), read, value in zip(graph.nodes, ways, sources, first_value, strict=True):
        if kind == "parts":
            first = value - len(payload) + len(_descs(node)[1])
            for part in payload:
                found = tuple([read[source] if source >= 0 else first + ~source for source in part.sources])
                nodes.append((part.kind, node.name, found, part.inputs, (part.output,), part.payload))
        else:
            nodes.append((kind, node.name, tuple(read), *_descs(node), payload))
    outputs = [0] * len(graph.outputs)
    for last in graph.output_edges:
        value, slot_desc = first_value[last.from_node] + last.from_port, graph.outputs[last.output].desc
        written = _written(graph.nodes[last.from_node], ways[last.from_node])[last.from_port]
        if written is not None and written.dtype is slot_desc.dtype and not _alike(written, slot_desc):  # a view
            name = graph.outputs[last.output].name
            nodes.append(("element_wise", name, (value,), (slot_desc,), (slot_desc,), ()))
            value, count = count, count + 1
        outputs[last.output] = value
    return Plan(inputs, nodes, outputs)


def _join_weights(graph: GraphDesc, ways: list[Payload]) -> dict[int, int]:
    """Makes products with dequantized weights read the integers: by product, the node of its weights.

    Floats that nothing else reads are not computed.
    """
    joined: dict[int, int] = {}
    for edge in graph.intermediate_edges:
        product, weights = graph.nodes[edge.to_node], graph.nodes[edge.from_node]
        if edge.to_port == 1 and isinstance(product, OperatorDescNode) and isinstance(weights, OperatorDescNode):
            found = block_product(product.operator, weights.operator, ways[edge.to_node])
            if found is not None:
                ways[edge.to_node] = found
                joined[edge.to_node] = edge.from_node
    read = {edge.from_node for edge in graph.output_edges}
    read |= {each.from_node for each in graph.intermediate_edges if each.to_port != 1 or each.to_node not in joined}
    for node in set(joined.values()) - read:
        weights = graph.nodes[node]
        assert isinstance(weights, OperatorDescNode)
        ways[node] = ("fill", bytes(weights.operator.first_output.dtype.bits // 8))
    return joined


def _written(node: OperatorDescNode | ConstantDescNode, way: Payload) -> tuple[TensorDesc | None, ...]:
    """The node's outputs; the same elements may have other dimensions if parts write them."""
    kind, payload = way
    outputs = _descs(node)[1]
    return tuple([part.output for part in payload[-len(outputs) :]]) if kind == "parts" else outputs


def _alike(one: TensorDesc, other: TensorDesc) -> bool:
    return (one.sizes, one.effective_strides) == (other.sizes, other.effective_strides)


def _descs(
    node: OperatorDescNode | ConstantDescNode,
) -> tuple[tuple[TensorDesc | None, ...], tuple[TensorDesc | None, ...]]:
    if isinstance(node, ConstantDescNode):
        return (), (node.desc,)
    return node.operator.input_descs, node.operator.output_descs


def payload_of(operator: Operator, name: str = "") -> Payload:
    """How an operator runs; errors of its run name the node `name`."""
    if has_four_bits(operator):
        over = over_bytes(operator, payload_of)
        return over or ("python", _evaluation(operator, name))
    way = WAYS.get(type(operator))
    if way is not None:
        found = way(operator)
        if found is not None:
            return found
    else:
        code = instructions(operator)
        if code is not None:
            return "element_wise", code
    return "python", _evaluation(operator, name)


def _evaluation(operator: Operator, name: str) -> Callable[[list[Array | None], list[Array | None]], None]:
    """Runs the operator's `evaluate` on arrays; 4-bit tensors are bytes of their buffers."""
    unpacked = [(port, desc) for port, desc in enumerate(operator.input_descs) if desc and desc.dtype.bits == 4]
    results = [(port, desc) for port, desc in enumerate(operator.output_descs) if desc is not None]

    def run(inputs: list[Array | None], outputs: list[Array | None]) -> None:
        for port, desc in unpacked:
            buffer = inputs[port]
            if buffer is not None:
                inputs[port] = desc.unpack(buffer)
        try:
            values = operator.evaluate(*inputs)
        except DmlGraphError as error:
            raise error.at(name) from None
        except MemoryError:
            raise
        except Exception as error:
            raise DeviceError(f"the evaluation failed: {error}", code="evaluation", node=name) from error
        for (port, desc), value in zip(results, values, strict=False):
            target = outputs[port]
            if target is not None:
                target[...] = desc.pack(value) if desc.dtype.bits == 4 else value

    return run
