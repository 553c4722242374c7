"""Devices: where graphs run, and how one is chosen by name."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from dmlgraph.devices.cpu import CpuDevice
from dmlgraph.devices.device import Device
from dmlgraph.devices.reference import ReferenceDevice
from dmlgraph.errors import DeviceError, OperatorError, listing, suggestion
from dmlgraph.lowering import OperatorDescNode, lower

if TYPE_CHECKING:
    from dmlgraph.devices.executable import Executable
    from dmlgraph.graph import Graph

_DEVICES: dict[str, type[Device]] = {"cpu": CpuDevice, "reference": ReferenceDevice}


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """A device and why it is the one."""

    device: Device
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class Listing:
    """A device for `dmlgraph devices`; `missing` says why it cannot be used here, None if it can."""

    name: str
    description: str
    missing: str | None = None


def choose(name: str) -> Choice:
    """The device of a name.

    Raises:
        DeviceError: there is none of this name.
    """
    if name == "auto":
        return Choice(CpuDevice(), "auto: no hardware DirectML adapter can be used, so the embedded default")
    if name in _DEVICES:
        return Choice(_DEVICES[name](), f"asked for as '{name}'")
    names = ["auto", *_DEVICES]
    raise DeviceError("is not a device", field="device", got=name, allowed=listing(names), hint=suggestion(name, names))


def list_devices() -> list[Listing]:
    """Every device that there is or could be."""
    return [Listing(name, device.description) for name, device in _DEVICES.items()]


def compile_graph(graph: Graph, device: str, *, debug: bool = False) -> Executable:
    """Lowers a graph for a device and compiles it there.

    Raises:
        DeviceError: no such device.
        OperatorError: a node needs a higher feature level than the device has.
    """
    choice = choose(device)
    desc = lower(graph, choice.device.level)
    problems = [
        problem.at(node=node.name)
        for node in desc.nodes
        if isinstance(node, OperatorDescNode) and choice.device.level < graph.level
        for problem in node.operator.level_problems(choice.device.level)
    ]
    if problems:
        raise OperatorError(problems)
    return choice.device.compile(desc, reason=choice.reason, debug=debug)
