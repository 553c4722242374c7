"""Draft: a graph of one operator as plain data, from which smaller ones are made."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from dmlgraph.base.errors import DmlGraphError
from dmlgraph.base.free_names import FreeNames
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.devices import choose
from dmlgraph.devices.compile import compile_graph
from dmlgraph.graph.graph import Graph
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.graph.value import Value
from dmlgraph.operators.declaration.fields import Kind, Role
from dmlgraph.operators.declaration.operator import Operator

Array = np.ndarray[Any, Any]


@dataclasses.dataclass(frozen=True)
class Draft:
    """An operator, what it is given, and the arrays that it reads.

    Attributes:
        operator: its class.
        arrays: by path, `a` or `inputs.0`; tensors that are left out are not here.
        attributes: as given.
        outputs: requests.
        target: the feature level of the graph.
    """

    operator: type[Operator]
    arrays: Mapping[str, Array]
    attributes: Mapping[str, Any]
    outputs: Mapping[str, Any]
    target: FeatureLevel | None = None

    @classmethod
    def of(cls, graph: Graph, inputs: Mapping[str, Array]) -> Draft:
        """The draft of a graph in which one operator reads inputs, constants, fills and views of these.

        Raises:
            ValueError: it has another number of operators.
        """
        nodes = [each for each in graph.nodes if isinstance(each, OperatorNode) and each.operator.input_fields]
        nodes = [each for each in nodes if not each.operator.is_view]
        if len(nodes) != 1:
            raise ValueError(f"the graph has {len(nodes)} operators")
        (node,) = nodes
        read = _values(graph, node, inputs)
        fields = node.operator.by_field(Role.INPUT, dict(enumerate(read)))
        arrays: dict[str, Array] = {}
        for field, found in fields.items():
            if isinstance(found, (list, tuple)):
                arrays |= {f"{field}.{index}": each for index, each in enumerate(found)}
            elif found is not None:
                arrays[field] = found
        attributes = {name: _plain(value) for name, value in node.operator.attributes.items() if value is not None}
        given = {name: value for name, value in attributes.items() if name in node.attributes or _decides(node, name)}
        return cls(type(node.operator), arrays, given, dict(node.outputs), graph.target)

    def graph(self) -> Graph:
        """The graph; its inputs have the names of the fields.

        Raises:
            DmlGraphError: it is not legal.
        """
        graph = Graph("case", target=self.target)
        tensors: dict[str, Any] = {}
        for path, array in self.arrays.items():
            field, _, index = path.partition(".")
            value = graph.input(path.replace(".", "_"), dtype=array.dtype, sizes=array.shape)
            if index:
                tensors.setdefault(field, []).append(value)
            else:
                tensors[field] = value
        made = graph.add(self.operator, tensors, self.attributes, self.outputs, FreeNames(tensors).take("y"))
        for output in made:
            if output is not None:
                graph.output(output.reference, output)
        return graph

    @property
    def inputs(self) -> dict[str, Array]:
        return {path.replace(".", "_"): array for path, array in self.arrays.items()}

    def made(self) -> Graph | None:
        """The graph; None if it is not legal."""
        try:
            return self.graph()
        except DmlGraphError:
            return None

    def with_array(self, path: str, array: Array) -> Draft:
        return dataclasses.replace(self, arrays={**self.arrays, path: array})

    @property
    def elements(self) -> int:
        return sum(array.size for array in self.arrays.values())


def _decides(node: OperatorNode, name: str) -> bool:
    """Whether a field that is not given was inferred from sizes, such as axes, and must stay as it is."""
    member = node.operator.fields[name]
    return member.required and member.kind is not Kind.DATA_TYPE


def _plain(value: Any) -> Any:
    """An attribute as it may be given."""
    return value.plain if hasattr(value, "plain") else value


def _values(graph: Graph, node: OperatorNode, inputs: Mapping[str, Array]) -> list[Array | None]:
    """What the node reads, by port, as the reference makes it."""
    other = copy.copy(graph)
    for name in list(other.outputs):
        other.remove_output(name)
    sources = graph.sources(node.name)
    for port, source in enumerate(sources):
        if source is not None:
            other.output(str(port), Value(other, *source))
    with compile_graph(other, choose("reference"), fuse=False) as executable:
        found = executable.run(inputs)
    return [found.get(str(port)) for port in range(len(sources))]
