"""Plan: a lowered graph as the native module runs it, node by node."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from dmlgraph._native import CpuGraph
from dmlgraph.base.errors import DeviceError, DmlGraphError
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.compiler.desc import ConstantDescNode, GraphDesc, OperatorDescNode
from dmlgraph.devices.cpu.attention import ATTENTIONS
from dmlgraph.devices.cpu.block_products import block_product, product_of_halves
from dmlgraph.devices.cpu.element_wise import ELEMENT_WISE
from dmlgraph.devices.cpu.fills import FILLS
from dmlgraph.devices.cpu.four_bits import has_four_bits, over_bytes
from dmlgraph.devices.cpu.indexing import INDEXING
from dmlgraph.devices.cpu.integer_products import INTEGER_PRODUCTS
from dmlgraph.devices.cpu.lowering import Lowerings
from dmlgraph.devices.cpu.movement import MOVEMENTS
from dmlgraph.devices.cpu.nodes import COPY, Constant, Descs, Evaluate, Evaluation, Fill, Lowered, Node
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


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """Descriptions of the packed inputs, nodes in executable order, and the outputs as values.

    Values are the inputs in order, then the outputs of every node in order, absent ones counted.
    """

    inputs: Sequence[TensorDesc]
    nodes: Sequence[Node]
    outputs: Sequence[int]

    def graph(self) -> CpuGraph:
        """The nodes as the native module takes them."""
        graph = CpuGraph(self.inputs)
        for node in self.nodes:
            node.add_to(graph)
        return graph


# How operators run.  One that is not here, or for which its function returns None, runs its `evaluate`.
LOWERINGS: Lowerings = {
    **ELEMENT_WISE,
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


def make_plan(graph: GraphDesc) -> Plan:
    """The graph for the native module."""
    inputs = [slot.desc for slot in graph.inputs]
    nodes: list[Node] = []
    values = list(range(len(inputs)))  # by input slot
    count = len(inputs)
    for slot, given in enumerate(graph.inputs):
        if given.desc.strides is not None and given.desc.dtype.bits > 4:  # 4-bit arrays are packed before the run
            inputs[slot] = given.desc.like()
            nodes.append(Node(given.name, (slot,), (inputs[slot],), (given.desc,), COPY))
            values[slot] = count
            count += 1
    lowerings: list[Lowered] = [
        Constant(node.data) if isinstance(node, ConstantDescNode) else lowered(node.operator, node.name)
        for node in graph.nodes
    ]
    joined = _join_weights(graph, lowerings)
    sources: list[list[int]] = []
    first_value: list[int] = []
    for node, way in zip(graph.nodes, lowerings, strict=True):
        written = len(node.output_descs)
        if isinstance(way, tuple):
            count += len(way) - written  # the outputs of the last parts are the node's
        first_value.append(count)
        sources.append([-1] * len(node.input_descs))
        count += written
    for edge in graph.input_edges:
        sources[edge.to_node][edge.to_port] = values[edge.input]
    for inner in graph.intermediate_edges:
        sources[inner.to_node][inner.to_port] = first_value[inner.from_node] + inner.from_port
    for product, operands in joined.items():
        for operand in operands:
            sources[product] += [*sources[operand], -1]
    for node, way, ports, value in zip(graph.nodes, lowerings, sources, first_value, strict=True):
        if isinstance(way, tuple):
            first = value - len(way) + len(node.output_descs)
            for part in way:
                found = tuple([ports[source] if source >= 0 else first + ~source for source in part.sources])
                nodes.append(Node(node.name, found, part.inputs, (part.output,), part.action))
        else:
            nodes.append(Node(node.name, tuple(ports), node.input_descs, node.output_descs, way))
    outputs = [0] * len(graph.outputs)
    for last in graph.output_edges:
        value, slot_desc = first_value[last.from_node] + last.from_port, graph.outputs[last.output].desc
        made = _written(graph.nodes[last.from_node], lowerings[last.from_node])[last.from_port]
        if made is not None and made.dtype is slot_desc.dtype and not _alike(made, slot_desc):  # a view
            nodes.append(Node(graph.outputs[last.output].name, (value,), (slot_desc,), (slot_desc,), COPY))
            value, count = count, count + 1
        outputs[last.output] = value
    return Plan(inputs, nodes, outputs)


def _join_weights(graph: GraphDesc, lowerings: list[Lowered]) -> dict[int, list[int]]:
    """Makes products with dequantized or cast weights read what these were: by product, the nodes of weights and rows.

    The latter only if the product reads their integers, too.  Floats that nothing else reads are not computed.
    """
    makers = {
        (edge.to_node, edge.to_port): (edge.from_node, node.operator)
        for edge in graph.intermediate_edges
        if isinstance(node := graph.nodes[edge.from_node], OperatorDescNode)
    }
    joined: dict[int, list[int]] = {}
    for (product, port), (maker, weights) in makers.items():
        reader = graph.nodes[product]
        if port == 1 and isinstance(reader, OperatorDescNode):
            rows, made = makers.get((product, 0), (-1, None))
            found = block_product(reader.operator, weights, made, lowerings[product]) or product_of_halves(
                reader.operator, weights, lowerings[product]
            )
            if found is not None:
                lowerings[product] = found.parts
                joined[product] = [maker, rows] if found.has_integers else [maker]
    read = {edge.from_node for edge in graph.output_edges}
    taken = {(product, 1 - port) for product, operands in joined.items() for port in range(len(operands))}
    read |= {each.from_node for each in graph.intermediate_edges if (each.to_node, each.to_port) not in taken}
    for floats in {node for operands in joined.values() for node in operands} - read:
        node = graph.nodes[floats]
        assert isinstance(node, OperatorDescNode)
        lowerings[floats] = Fill(bytes(node.operator.first_output.dtype.bits // 8))
    return joined


def _written(node: OperatorDescNode | ConstantDescNode, way: Lowered) -> Descs:
    """The node's outputs; the same elements may have other dimensions if parts write them."""
    outputs = node.output_descs
    return tuple([part.output for part in way[-len(outputs) :]]) if isinstance(way, tuple) else outputs


def _alike(one: TensorDesc, other: TensorDesc) -> bool:
    return (one.sizes, one.effective_strides) == (other.sizes, other.effective_strides)


def lowered(operator: Operator, name: str = "") -> Lowered:
    """How an operator runs; errors of its run name the node `name`."""
    if has_four_bits(operator):
        return over_bytes(operator, lowered) or Evaluate(_evaluation(operator, name))
    lower = LOWERINGS.get(type(operator))
    found = None if lower is None else lower(operator)
    return Evaluate(_evaluation(operator, name)) if found is None else found


def _evaluation(operator: Operator, name: str) -> Evaluation:
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
