"""A device that computes some operators wrong: the reference with a fault."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dmlgraph.compiler.desc import GraphDesc, OperatorDescNode
from dmlgraph.devices import Choice
from dmlgraph.devices.executable import Executable
from dmlgraph.devices.reference import ReferenceDevice
from dmlgraph.operators.declaration.operator import Operator

Array = np.ndarray[Any, Any]


@dataclasses.dataclass(frozen=True)
class Call:
    """An evaluation of an operator of a compiled graph: what it reads, and what it should write."""

    operator: Operator
    inputs: Sequence[Array | None]
    right: tuple[Array, ...]
    graph: GraphDesc

    @property
    def given(self) -> list[Array]:
        """The tensors that are not left out."""
        return [each for each in self.inputs if each is not None]


class FaultyDevice(ReferenceDevice):
    """Evaluates every operator as the reference does; the middle of the first output of wrong calls is off.

    Args:
        is_wrong: whether a call is.
        units: by how many units in the last place it is off; 0: by 3.
    """

    name = "directml:1"
    adapter_name, driver_version = "Faulty 3000", "31.0.15"

    def __init__(self, is_wrong: Callable[[Call], bool], units: int = 0) -> None:
        self.is_wrong, self.units = is_wrong, units
        self.executions = 0

    def compile(self, graph: GraphDesc, *, reason: str, debug: bool = False) -> Executable:
        self.executions += 1
        nodes = [
            OperatorDescNode(each.name, self._faulty(each.operator, graph))
            if isinstance(each, OperatorDescNode)
            else each
            for each in graph.nodes
        ]
        executable = super().compile(dataclasses.replace(graph, nodes=tuple(nodes)), reason=reason, debug=debug)
        executable.device = self.name
        return executable

    def _faulty(self, operator: Operator, graph: GraphDesc) -> Operator:
        evaluate = operator.evaluate

        def evaluated(*inputs: Array | None) -> tuple[Array, ...]:
            first, *rest = evaluate(*inputs)
            if self.is_wrong(Call(operator, inputs, (first, *rest), graph)):
                first = first.copy()
                middle = first.reshape(-1)[first.size // 2 :][:1]
                middle += self.units * np.spacing(middle) if self.units else np.asarray(3, first.dtype)
            return first, *rest

        return operator.replace(evaluate=evaluated)


def faulty(is_wrong: Callable[[Call], bool], units: int = 0) -> Choice:
    """The choice of a device with a fault."""
    device = FaultyDevice(is_wrong, units)
    return Choice(device.name, device, "for a test")
