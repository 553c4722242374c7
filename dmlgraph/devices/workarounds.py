"""Workarounds: what a graph's file says of devices that compute some of its nodes wrong.

    workarounds:
    - device: directml
      adapter: "Radeon*"
      driver: {from: "31.0.21001", below: "32"}
      why: the fused normalization gives NaN in float16
      nodes: {"*/norm": decomposed}

Compiling for such a device applies them.  On all others the graph stays as it is.
"""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dmlgraph.base.errors import GraphError, listing, suggestion
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.report import Report
from dmlgraph.compiler import detours
from dmlgraph.compiler.record import Entry
from dmlgraph.devices import check_name
from dmlgraph.devices.rules import RULES
from dmlgraph.graph.nodes import is_computed

if TYPE_CHECKING:
    from dmlgraph.devices.device import Device
    from dmlgraph.graph.graph import Graph


def version(text: str) -> tuple[int, ...]:
    """A driver's version as numbers: "31.0.21001" → (31, 0, 21001).

    Raises:
        GraphError: it is not numbers with dots between.
    """
    parts = text.split(".") if isinstance(text, str) else [""]
    if not all(part.isdecimal() and part.isascii() for part in parts):
        message = "is not a version"
        raise GraphError(message, code="kind", got=text, allowed='numbers with dots between, such as "31.0.15.4601"')
    numbers = [int(part) for part in parts]
    while len(numbers) > 1 and not numbers[-1]:
        numbers.pop()  # 31.0 is 31
    return tuple(numbers)


@dataclasses.dataclass(frozen=True, slots=True)
class Workaround:
    """One entry of the section `workarounds`.

    Attributes:
        device: where it applies: a family such as `directml`, or a device such as `directml:software`.
        adapter: the name of the adapter, in which `*` stands for any text; None: any.
        driver_from, driver_below: the first version of the driver, and the first that does not need it; None: any.
        why: for people.
        metacommands: False forbids them.
        half_precision: False forbids it.
        fuse: False: no rules run.
        without: fusion rules that do not run.
        nodes: the detour of each node, by name, in which `*` stands for any text.
    """

    device: str
    adapter: str | None = None
    driver_from: str | None = None
    driver_below: str | None = None
    why: str | None = None
    metacommands: bool = True
    half_precision: bool = True
    fuse: bool = True
    without: tuple[str, ...] = ()
    nodes: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def check(self, graph: Graph) -> None:
        """Checks names and versions, and whether each node has its detour.

        Raises:
            GraphError: one is wrong, with its field in the entry.
        """
        with Report(GraphError) as report:
            for field, given in (("driver.from", self.driver_from), ("driver.below", self.driver_below)):
                if given is not None:
                    with report.at(field=field):
                        version(given)
            with report.at():
                check_name(self.device)
            if self.device == "auto":
                report.problem("is another device on each machine", code="range", field="device", got="auto")
            for index, rule in enumerate(self.without):
                if rule not in RULES:
                    hint, allowed = suggestion(rule, RULES), listing(RULES, at_most=8)
                    message, field = "is not a fusion rule", f"without.{index}"
                    report.problem(message, code="unknown-rule", field=field, got=rule, allowed=allowed, hint=hint)
            names = _computed(graph) if self.nodes else []
            for pattern, kind in self.nodes.items():
                with report.at(field=f"nodes.{pattern}"):
                    detours.take(graph, dict.fromkeys(_matched(names, pattern), kind))

    def is_for(self, device: Device) -> bool:
        """Whether a device, its adapter and its driver are meant."""
        if self.device not in (device.name, device.name.partition(":")[0]):
            return False
        if self.adapter is not None and not fnmatch.fnmatchcase(device.adapter_name, self.adapter):
            return False
        if self.driver_from is None and self.driver_below is None:
            return True
        if not device.driver_version:
            return False
        found = version(device.driver_version)
        return (self.driver_from is None or version(self.driver_from) <= found) and (
            self.driver_below is None or found < version(self.driver_below)
        )

    def within(self, graph: Graph) -> Workaround | None:
        """What is left of the entry in a graph from which nodes are removed; None if nothing is."""
        names = _computed(graph) if self.nodes else []
        nodes = {pattern: kind for pattern, kind in self.nodes.items() if _meant(names, pattern)}
        does_more = self.without or not all(getattr(self, name) for name in PERMISSIONS)
        return dataclasses.replace(self, nodes=nodes) if nodes or does_more else None

    def plain(self) -> dict[str, Any]:
        """The entry as a mapping for a graph file."""
        driver = {"from": self.driver_from, "below": self.driver_below}
        known = {key: value for key, value in driver.items() if value is not None}
        fields = {
            "device": self.device,
            "adapter": self.adapter,
            "driver": known or None,
            "why": self.why,
            **{name: False for name in PERMISSIONS if not getattr(self, name)},
            "without": list(self.without) or None,
            "nodes": dict(self.nodes) or None,
        }
        return {key: value for key, value in fields.items() if value is not None}


PERMISSIONS = ("metacommands", "half_precision", "fuse")  # fields that a workaround can only set to false


@dataclasses.dataclass(frozen=True, slots=True)
class Applied:
    """All workarounds of a graph for one device."""

    workarounds: Sequence[Workaround]
    level: FeatureLevel | None = None  # of the device

    @classmethod
    def of(cls, graph: Graph, device: Device | None) -> Applied:
        given: Sequence[Workaround] = graph.origin.workarounds
        if device is None:
            return cls([])
        return cls([each for each in given if each.is_for(device)], device.level)

    def allows(self, permission: str) -> bool:
        """Whether none forbids what a field of `PERMISSIONS` names."""
        return all(getattr(each, permission) for each in self.workarounds)

    def rules(self, rules: frozenset[str]) -> frozenset[str]:
        """Those of some rules that may run."""
        if not self.allows("fuse"):
            return frozenset()
        return rules.difference(*(each.without for each in self.workarounds))

    def take(self, graph: Graph) -> tuple[Graph, frozenset[str], tuple[Entry, ...]]:
        """The graph with all detours, the nodes that passes must leave alone, and a record of it.

        Raises:
            GraphError: a node has no such detour.
        """
        kinds: dict[str, str] = {}
        names = _computed(graph) if self.workarounds else []
        for each in self.workarounds:
            for pattern, kind in each.nodes.items():
                kinds |= dict.fromkeys(_matched(names, pattern), kind)
        if not kinds:
            return graph, frozenset(), ()
        known = {node.name for node in graph.nodes}
        other, kept = detours.take(graph, kinds, self.level)
        record = []
        for name, kind in kinds.items():
            made = (each.name for each in other.nodes if each.name not in known and each.name.startswith(f"{name}/"))
            record.append(Entry(kind, name, "a workaround of the graph", (name,), (*made, name)))
        return other, kept, tuple(record)


def _computed(graph: Graph) -> list[str]:
    """The nodes that patterns mean: the operators."""
    return [node.name for node in graph.nodes if is_computed(node)]


def _meant(names: Sequence[str], pattern: str) -> list[str]:
    """Those of some names that a name or a pattern means."""
    return [name for name in names if name == pattern or fnmatch.fnmatchcase(name, pattern)]


def _matched(names: Sequence[str], pattern: str) -> list[str]:
    """Those of some names that a name or a pattern means.

    Raises:
        GraphError: it means none.
    """
    found = _meant(names, pattern)
    if not found:
        raise GraphError(
            "no operator has this name",
            code="unknown-node",
            got=pattern,
            allowed=listing(names, at_most=8),
            hint=suggestion(pattern, names),
        )
    return found
