"""Site: a node as its detour sees it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

from dmlgraph.base.levels import FeatureLevel
from dmlgraph.graph.graph import Graph
from dmlgraph.graph.nodes import ConstantNode, OperatorNode
from dmlgraph.graph.value import Value
from dmlgraph.operators.declaration.derivative import Backward
from dmlgraph.operators.declaration.fields import Role
from dmlgraph.operators.declaration.operator import Operator
from dmlgraph.operators.fill import FillValueConstant
from dmlgraph.training.gradient import GraphBuilder

Made = Value | Sequence[Value | None]  # what stands in the place of a node's first output, or of all of them by port


class NoDetourError(Exception):
    """The node has no such detour, for this reason."""


@dataclasses.dataclass(frozen=True)
class Site:
    """A node in the graph that gets its detour.

    Attributes:
        level: the highest feature level that its operators may need.
    """

    graph: Graph
    node: OperatorNode
    level: FeatureLevel

    @property
    def operator(self) -> Operator:
        return self.node.operator

    @functools.cached_property
    def inputs(self) -> list[Value | None]:
        """What the node reads, by port; None for optional tensors that are left out."""
        return [source and Value(self.graph, *source) for source in self.graph.sources(self.node.name)]

    @functools.cached_property
    def given(self) -> dict[str, Any]:
        """What the node reads, by field."""
        return self.operator.by_field(Role.INPUT, dict(enumerate(self.inputs)))

    @functools.cached_property
    def back(self) -> Backward:
        """Makes nodes as derivatives do."""
        outputs = [None if desc is None else Value(self.graph, self.node.name, port) for port, desc in self._outputs]
        return Backward(GraphBuilder(self.graph), self.operator, self.inputs, outputs, [], [])

    @property
    def _outputs(self) -> list[tuple[int, Any]]:
        return list(enumerate(self.operator.output_descs))

    @property
    def has_one_output(self) -> bool:
        """Whether the node has its first output alone."""
        return [port for port, desc in self._outputs if desc is not None] == [0]

    def need_one_output(self) -> None:
        """Raises NoDetourError for a node of several outputs."""
        if not self.has_one_output:
            raise NoDetourError("it has several outputs")

    def is_number(self, value: Value | None) -> bool:
        """Whether a value is left out, or one number everywhere: devices take these apart from other tensors."""
        if value is None:
            return True
        node = self.graph.node(value.node)
        if isinstance(node, ConstantNode):
            return node.desc.element_count == 1
        return isinstance(node, OperatorNode) and isinstance(node.operator, FillValueConstant)

    def again(
        self,
        inputs: Sequence[Value | None] | None = None,
        *,
        outputs: Mapping[str, Any] | None = None,
        **attributes: Any,
    ) -> Value:
        """The node once more with other inputs, by port, or other attributes; returns its first output."""
        return _present(self.outputs_again(inputs, outputs=outputs, **attributes))

    def outputs_again(
        self,
        inputs: Sequence[Value | None] | None = None,
        *,
        outputs: Mapping[str, Any] | None = None,
        **attributes: Any,
    ) -> Sequence[Value | None]:
        """The same, with all its outputs by port."""
        fields = self.operator.by_field(Role.INPUT, dict(enumerate(self.inputs if inputs is None else inputs)))
        asked = self.node.outputs if outputs is None else outputs
        return self.graph.add(type(self.operator), fields, {**self.node.attributes, **attributes}, asked)

    def instead(self, operator: type[Operator], attributes: Mapping[str, Any]) -> Value:
        """Another operator with the tensors of the node; returns its first output."""
        given = {field: value for field, value in self.given.items() if value is not None}
        return _present(self.graph.add(operator, given, attributes, self.node.outputs))


def _present(made: Sequence[Value | None]) -> Value:
    if made[0] is None:
        raise NoDetourError("its first output is left out")
    return made[0]
