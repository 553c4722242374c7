"""A device that is the reference with a fault."""

from __future__ import annotations

import dataclasses
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

from dmlgraph import devices
from dmlgraph.compiler.desc import GraphDesc, OperatorDescNode
from dmlgraph.devices.device import Family
from dmlgraph.devices.executable import Array, Executable
from dmlgraph.devices.reference import ReferenceDevice
from dmlgraph.operators import Operator

Fault = Callable[[GraphDesc, Operator, tuple[Array, ...]], tuple[Array, ...]]


class _Wrong:
    """An operator whose results a fault changes; everything else is the operator's."""

    def __init__(self, graph: GraphDesc, operator: Operator, fault: Fault) -> None:
        self._graph, self._operator, self._fault = graph, operator, fault

    def __getattr__(self, name: str) -> Any:
        return getattr(self._operator, name)

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        return self._fault(self._graph, self._operator, tuple(self._operator.evaluate(*inputs)))


def make_broken(monkeypatch: pytest.MonkeyPatch, fault: Fault) -> str:
    """Makes a device `broken`, the reference with a fault; returns its name."""

    class Broken(ReferenceDevice):
        name = "broken"

        def compile(self, graph: GraphDesc, *, reason: str, debug: bool = False) -> Executable:
            nodes = tuple(
                OperatorDescNode(node.name, _Wrong(graph, node.operator, fault))  # type: ignore[arg-type]
                if isinstance(node, OperatorDescNode)
                else node
                for node in graph.nodes
            )
            return super().compile(dataclasses.replace(graph, nodes=nodes), reason=reason, debug=debug)

    module = types.ModuleType("dmlgraph.devices.broken")
    module.FAMILY = Family.of(Broken)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(devices, "_FAMILIES", (*devices._FAMILIES, "broken"))
    return Broken.name
