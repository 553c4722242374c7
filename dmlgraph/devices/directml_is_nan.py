"""IS_NAN that DirectML computes right: of float16 into uint32 it finds none.

Measured on DirectML 1.13 (feature level 6.2): it reads the float16 tensor through a view of 32-bit integers there, so
that every result is 0.  Into uint8 it reads float16, which a cast then makes uint32 of.
"""

from __future__ import annotations

import dataclasses

from dmlgraph.lowering import GraphDesc, IntermediateEdge, OperatorDescNode
from dmlgraph.operators import Cast, IsNan
from dmlgraph.operators.operator import Operator
from dmlgraph.tensor import DataType, TensorDesc


def cast_answers_on_float16(graph: GraphDesc) -> GraphDesc:
    """The same graph with a cast behind each IS_NAN of float16 into uint32; itself where there are none."""
    wrong = [
        index
        for index, node in enumerate(graph.nodes)
        if isinstance(node, OperatorDescNode) and _finds_none(node.operator)
    ]
    if not wrong:
        return graph
    nodes, edges = list(graph.nodes), list(graph.intermediate_edges)
    casts = {index: len(nodes) + place for place, index in enumerate(wrong)}
    for index, cast in casts.items():
        node = graph.nodes[index]
        assert isinstance(node, OperatorDescNode)
        asked = node.operator.output_descs[0]
        assert asked is not None
        answers = TensorDesc(dtype=DataType.UINT8, sizes=asked.sizes)
        nodes[index] = OperatorDescNode(node.name, node.operator.model_copy(update={"output": answers}))
        nodes.append(OperatorDescNode(f"{node.name}.cast", Cast(input=answers, output=asked)))
        edges = [dataclasses.replace(edge, from_node=cast) if edge.from_node == index else edge for edge in edges]
        edges.append(IntermediateEdge(index, 0, cast, 0))
    return dataclasses.replace(
        graph,
        nodes=tuple(nodes),
        intermediate_edges=tuple(edges),
        output_edges=tuple(
            dataclasses.replace(edge, from_node=casts.get(edge.from_node, edge.from_node))
            for edge in graph.output_edges
        ),
    )


def _finds_none(operator: Operator) -> bool:
    return (
        isinstance(operator, IsNan)
        and operator.input.dtype is DataType.FLOAT16
        and operator.output.dtype is DataType.UINT32
    )
