"""Devices: where graphs run, and how one is chosen by name."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import time
from collections.abc import Iterable
from types import ModuleType
from typing import TYPE_CHECKING

from dmlgraph.devices.cpu import CpuDevice
from dmlgraph.devices.device import Device
from dmlgraph.devices.endings import finishing
from dmlgraph.devices.reference import ReferenceDevice
from dmlgraph.elsewhere import DEVICES
from dmlgraph.errors import DeviceError, DmlGraphError, OperatorError, Problem, listing, suggestion
from dmlgraph.lowering import OperatorDescNode, lower
from dmlgraph.memory import enough_memory
from dmlgraph.passes import Fused
from dmlgraph.passes import fuse as run_passes

if TYPE_CHECKING:
    from dmlgraph.devices.executable import Executable
    from dmlgraph.graph import Graph

_EMBEDDED: dict[str, type[Device]] = {"cpu": CpuDevice, "reference": ReferenceDevice}
_DIRECTML = "directml"
_NAMES = ("auto", *_EMBEDDED, _DIRECTML, "directml:software")


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
    """The device of a name: `auto`, `cpu`, `reference`, `directml`, `directml:1`, `directml:software`.

    Raises:
        DeviceError: there is no device of this name, or it cannot be used here; the message says why.
    """
    if not isinstance(name, str):
        raise DeviceError("must be the name of a device", field="device", got=name, allowed=listing(_NAMES))
    if name == "auto":
        return _automatic()
    if name in _EMBEDDED:
        return Choice(_EMBEDDED[name](), f"asked for as '{name}'")
    family, _, adapter = name.partition(":")
    if family == _DIRECTML and (adapter in ("", "software") or adapter.isdecimal()):
        return Choice(_directml().DirectMLDevice(adapter), f"asked for as '{name}'")
    raise DeviceError(
        "is not a device",
        field="device",
        got=name,
        allowed=f"{listing(_NAMES)}, directml:N for an adapter's index",
        hint=suggestion(family.lower(), _NAMES, DEVICES) or "'dmlgraph devices' lists what is here",
    )


def _automatic() -> Choice:
    """A hardware DirectML adapter where there is one, else the embedded default."""
    try:
        hardware, reason = _directml().find_hardware()
    except DeviceError as error:
        hardware, reason = None, str(error)
    if hardware is not None:
        return Choice(hardware, f"auto: {reason}")
    return Choice(CpuDevice(), f"auto: the embedded default, since {reason}")


def list_devices() -> list[Listing]:
    """Every device that there is or could be."""
    embedded = [Listing(name, device.description) for name, device in _EMBEDDED.items()]
    try:
        adapters = _directml().list_adapters()
    except DeviceError as error:
        return [*embedded, Listing(_DIRECTML, "DirectML", str(error))]
    return embedded + [Listing(each.name, each.description, each.missing) for each in adapters]


def _directml() -> ModuleType:
    """The module of the DirectML devices, loaded where it is used: it needs the native module."""
    try:
        return importlib.import_module("dmlgraph.devices.directml")
    except ImportError as error:
        raise DeviceError(
            f"the native module of dmlgraph cannot be loaded: {error}",
            hint="if these are the sources, leave their folder, so that the installed package is taken",
        ) from None


def fuse_for(device: Device, graph: Graph, *, rules: bool | Iterable[str] = True) -> Fused:
    """The graph after the passes, as a device wants it: at its level, without what it objects to."""
    return run_passes(graph, level=device.level, rules=rules, objection=device.objection)


def _in_source(problem: Problem, graph: Graph, fused: Fused) -> Problem:
    """A problem of a node of the fused graph with the nodes it was made of, and with its place in the graph's file."""
    origins = fused.origins.get(problem.node or "", ())
    if not origins:
        return graph.located(problem)
    if origins != (problem.node,):
        problem = dataclasses.replace(problem, message=f"{problem.message}, made of {listing(origins)}")
    place = problem.node if problem.node in origins else origins[0]
    return problem.at(location=graph.located(dataclasses.replace(problem, node=place)).location)


@finishing
def compile_graph(
    graph: Graph,
    device: str,
    *,
    fuse: bool | Iterable[str] = True,
    threads: int | None = None,
    debug: bool = False,
) -> Executable:
    """Fuses and lowers a graph for a device and compiles it there; `fuse` and `threads` are those of `Graph.compile`.

    The executable's `stats` say how long each of the three took: fuse_seconds, lower_seconds, compile_seconds.

    Raises:
        DeviceError: no such device, or one that takes no number of threads.
        OperatorError: a node needs a higher feature level than the device has.
        NotEnoughMemoryError: there is not enough memory to compile it.
    """
    with enough_memory("compile", graph):
        return _compile(graph, device, fuse=fuse, threads=threads, debug=debug)


def _compile(graph: Graph, device: str, *, fuse: bool | Iterable[str], threads: int | None, debug: bool) -> Executable:
    choice = choose(device)
    if threads is not None:
        if not isinstance(choice.device, CpuDevice):
            raise DeviceError(f"'{choice.device.name}' takes no number of threads", field="threads", got=threads)
        choice = Choice(CpuDevice(threads), choice.reason)
    times = [time.perf_counter()]
    fused = fuse_for(choice.device, graph, rules=fuse)
    times.append(time.perf_counter())
    desc = lower(fused.graph, choice.device.level)
    times.append(time.perf_counter())
    problems = [
        problem.at(node=node.name)
        for node in desc.nodes
        if isinstance(node, OperatorDescNode) and choice.device.level < graph.level
        for problem in node.operator.level_problems(choice.device.level)
    ]
    if problems:
        raise OperatorError(problems)
    try:
        executable = choice.device.compile(desc, reason=choice.reason, debug=debug)
    except DmlGraphError as error:
        raise error.with_problems(_in_source(problem, graph, fused) for problem in error.problems) from None
    times.append(time.perf_counter())
    executable.fusion = fused.record
    for stage, (begin, end) in zip(("fuse", "lower", "compile"), itertools.pairwise(times), strict=True):
        executable.stats.setdefault(f"{stage}_seconds", end - begin)
    return executable
