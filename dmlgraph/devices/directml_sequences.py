"""A GraphDesc that DirectML survives: it ends the process on some uses of FILL_VALUE_SEQUENCE.

Measured on DirectML 1.13 (feature level 6.2), which computes sequences while it compiles, in CompileGraph and in
CompileOperator alike:

- a sequence that a graph output reads directly: the process ends.  With an identity between them all is well.
- a sequence of more than 1 MiB, whatever reads it: the process ends.

So a sequence gets an identity before a graph output, and a large one is evaluated here and handed to DirectML once,
to be kept in the persistent resource, which is what DirectML does with a small one.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from dmlgraph.lowering import (
    GraphDesc,
    GraphInput,
    InputEdge,
    IntermediateEdge,
    OperatorDescNode,
    OutputEdge,
    own_inputs,
)
from dmlgraph.operators import FillValueSequence, Identity
from dmlgraph.tensor import TensorDesc

LARGEST_SEQUENCE_BYTES = 1 << 20


def make_safe(graph: GraphDesc) -> GraphDesc:
    """The same graph without the uses of sequences that end the process."""
    return _evaluate_large(_keep_from_outputs(graph))


def _sequence(graph: GraphDesc, node: int) -> FillValueSequence | None:
    operator = getattr(graph.nodes[node], "operator", None)
    return operator if isinstance(operator, FillValueSequence) else None


def _keep_from_outputs(graph: GraphDesc) -> GraphDesc:
    """An identity between each sequence and each graph output that reads it."""
    nodes, outputs = list(graph.nodes), list(graph.outputs)
    intermediate, output_edges = list(graph.intermediate_edges), []
    for edge in graph.output_edges:
        sequence = _sequence(graph, edge.from_node)
        if sequence is None:
            output_edges.append(edge)
            continue
        identity = Identity(input=sequence.output)
        output_edges.append(OutputEdge(len(nodes), 0, edge.output))
        intermediate.append(IntermediateEdge(edge.from_node, 0, len(nodes), 0))
        nodes.append(
            OperatorDescNode(f"{graph.nodes[edge.from_node].name}.{graph.outputs[edge.output].name}", identity)
        )
        outputs[edge.output] = dataclasses.replace(outputs[edge.output], desc=identity.output)
    return dataclasses.replace(
        graph,
        nodes=tuple(nodes),
        outputs=tuple(outputs),
        intermediate_edges=tuple(intermediate),
        output_edges=tuple(output_edges),
    )


def _evaluate_large(graph: GraphDesc) -> GraphDesc:
    """Inputs owned by DirectML in place of the sequences that are too large for it."""
    large = [
        index
        for index in range(len(graph.nodes))
        if (sequence := _sequence(graph, index)) and sequence.output.total_bytes > LARGEST_SEQUENCE_BYTES
    ]
    if not large:
        return graph
    slots = {node: len(graph.inputs) + place for place, node in enumerate(large)}
    kept = [index for index in range(len(graph.nodes)) if index not in slots]
    renumbered = {old: new for new, old in enumerate(kept)}
    inputs, input_edges, intermediate = list(graph.inputs), [], []
    kept_back = {edge.from_node for edge in graph.intermediate_edges if not _takes_owned(graph, edge.to_node)}
    for node in large:
        sequence = _sequence(graph, node)
        assert sequence is not None
        (values,) = sequence.evaluate()
        output = sequence.output
        desc = TensorDesc(dtype=output.dtype, sizes=output.sizes, strides=output.strides, owned=node not in kept_back)
        inputs.append(GraphInput(graph.nodes[node].name, desc, np.ascontiguousarray(values)))
    owned_ports: dict[int, set[int]] = {}
    for inner in graph.intermediate_edges:
        if inner.from_node in slots:
            input_edges.append(InputEdge(slots[inner.from_node], renumbered[inner.to_node], inner.to_port))
            if inner.from_node not in kept_back:
                owned_ports.setdefault(inner.to_node, set()).add(inner.to_port)
        else:
            intermediate.append(
                IntermediateEdge(renumbered[inner.from_node], inner.from_port, renumbered[inner.to_node], inner.to_port)
            )
    nodes = []
    for index in kept:
        reader = graph.nodes[index]
        if index in owned_ports and isinstance(reader, OperatorDescNode):
            reader = OperatorDescNode(reader.name, own_inputs(reader.operator, owned_ports[index]))
        nodes.append(reader)
    return dataclasses.replace(
        graph,
        inputs=tuple(inputs),
        nodes=tuple(nodes),
        input_edges=(
            *(InputEdge(edge.input, renumbered[edge.to_node], edge.to_port) for edge in graph.input_edges),
            *input_edges,
        ),
        intermediate_edges=tuple(intermediate),
        output_edges=tuple(
            OutputEdge(renumbered[edge.from_node], edge.from_port, edge.output) for edge in graph.output_edges
        ),
    )


def _takes_owned(graph: GraphDesc, index: int) -> bool:
    reader = graph.nodes[index]
    return not isinstance(reader, OperatorDescNode) or reader.operator.takes_owned
