"""One graph that has the example of every operator."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.layout_instances import numbers

import dmlgraph as dg
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.graph.nodes import ConstantNode, InputNode, OperatorNode
from dmlgraph.operators.catalog.examples import example
from dmlgraph.operators.catalog.registry import REGISTRY
from dmlgraph.operators.declaration.fields import Role

Array = np.ndarray[Any, Any]


def every_operator(level: FeatureLevel) -> tuple[dg.Graph, dict[str, Array]]:
    """The examples of all operators of a level, each in a scope of its name, and data for the inputs."""
    graph, feeds, rng = dg.Graph("operators", target=str(level)), {}, np.random.default_rng(3)
    for operator in REGISTRY.values():
        one = dg.loads(example(operator))
        operators = [node.operator for node in one.nodes if isinstance(node, OperatorNode)]
        if any(each.level_problems(level) for each in operators):
            continue
        with graph.scope(operator.name):
            for node in one.nodes:
                if isinstance(node, InputNode):
                    desc = node.desc
                    value = graph.input(
                        node.name, dtype=desc.dtype, sizes=desc.sizes, strides=desc.strides, owned=desc.owned
                    )
                    feeds[value.reference] = numbers(desc.dtype, desc.sizes, rng)
                elif isinstance(node, ConstantNode):
                    graph.constant(node.name, node.data, dtype=node.desc.dtype)
                elif isinstance(node, OperatorNode):
                    _add(graph, one, node)
            for name, value in one.outputs.items():
                graph.output(f"{operator.name}.{name}", graph.value(f"{operator.name}/{value.reference}"))
    return graph, feeds


def _add(graph: dg.Graph, one: dg.Graph, node: OperatorNode) -> None:
    """Adds a node of an example to the graph, in whose open scope its producers are."""
    scope = one.name  # an example is named after its operator
    bound = {
        port: graph.value(f"{scope}/{one.reference(source, out)}") for source, out, port in one.producers(node.name)
    }
    tensors = node.operator.by_field(Role.INPUT, bound)
    graph.add(type(node.operator), tensors, node.attributes, node.outputs, node.name)
