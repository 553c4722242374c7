"""Ways round a node that a device computes wrong: each is tried on the shrunk case, then on the whole graph.

treatment = treat(graph, "norm", inputs, Trials(device), case)
treatment.best.way.name  # the one that costs the fewest dispatches
treatment.graph()  # with the section `workarounds` for this device and driver
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dmlgraph.base.errors import GraphError
from dmlgraph.compiler.detours import DETOURS, take
from dmlgraph.devices import Choice
from dmlgraph.devices.compile import fuse_graph
from dmlgraph.devices.workarounds import Workaround
from dmlgraph.doctor.parts import has_work, split
from dmlgraph.doctor.shrink import Shrunk
from dmlgraph.doctor.trials import Outcome, Trials, near_as_a_whole
from dmlgraph.graph.graph import Graph
from dmlgraph.graph.nodes import OperatorNode

Array = np.ndarray[Any, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Way:
    """A way round.

    Attributes:
        name: in a word or a few.
        meaning: what it does, in a sentence.
        workaround: what it is in a graph's file, but for the nodes of a detour.
        detour: of the node; None: it has none.
        alone: whether it means something for a graph of one node.
        in_parts: whether it is two executions, which no workaround of a file makes.
    """

    name: str
    meaning: str
    workaround: Workaround
    detour: str | None = None
    alone: bool = True
    in_parts: bool = False

    def at(self, nodes: Sequence[str]) -> Workaround:
        """The workaround where these nodes are computed wrong."""
        return self.workaround if self.detour is None else self._with(dict.fromkeys(nodes, self.detour))

    def _with(self, nodes: Mapping[str, str]) -> Workaround:
        return dataclasses.replace(self.workaround, nodes=nodes)


@dataclasses.dataclass(frozen=True, slots=True)
class Tried:
    """A way, and what came of it.

    Attributes:
        way: that was tried.
        workaround: as it was tried last.
        case: of the shrunk case; None: it is not for one node, or there is no case.
        whole: of the whole graph; None: it did not help the case.
        impossible: why the node cannot go this way.
    """

    way: Way
    workaround: Workaround
    case: Outcome | None = None
    whole: Outcome | None = None
    impossible: str = ""

    @property
    def helps(self) -> bool:
        """Whether the whole graph is right with it."""
        return self.whole is not None and self.whole.is_right

    @property
    def result(self) -> str:
        """What came of it, in a phrase."""
        if self.impossible:
            return f"not possible: {self.impossible}"
        for what, outcome in (("the whole graph", self.whole), ("the case", self.case)):
            if outcome is not None:
                if outcome.error:
                    return f"{what} is refused"
                return f"{what} is {'still wrong' if outcome.is_wrong else 'right'}"
        return "not tried"


@dataclasses.dataclass(frozen=True, slots=True)
class Treatment:
    """All ways that were tried.

    Attributes:
        source: the graph with the node.
        before: the whole graph as it is.
        tried: in order.
        detoured: the graph with the best way for all devices; None if fusion undoes it, or it is more than nodes.
    """

    source: Graph
    before: Outcome
    tried: Sequence[Tried]
    detoured: Graph | None = None

    @property
    def best(self) -> Tried | None:
        """The workaround that costs the fewest dispatches of those that help; None if none does."""
        helpful = [each for each in self.tried if self.is_proved(each) and not each.way.in_parts]
        return min(helpful, key=lambda each: each.whole.dispatches if each.whole else 0, default=None)

    def is_proved(self, tried: Tried) -> bool:
        """Whether a way helps; where the whole graph was right before, only the case can show it."""
        return tried.helps and (self.before.is_wrong or (tried.case is not None and tried.case.is_right))

    def graph(self) -> Graph:
        """The graph with the best way as a workaround for the device and its driver.

        Raises:
            LookupError: no way helps.
        """
        if self.best is None:
            raise LookupError("no way helps")
        return _with(self.source, self.best.workaround)


def treat(
    graph: Graph, node: str, inputs: Mapping[str, Array], trials: Trials, case: Shrunk | None = None
) -> Treatment:
    """Tries every way round a node.

    Args:
        graph: with its dims resolved.
        node: the name of the operator that is computed wrong.
        inputs: with which it is.
        trials: on the device.
        case: the node alone, shrunk; None: it is right alone.
    """
    before = trials.run(graph, inputs, near_as_a_whole)
    search = _Search(graph, inputs, trials, [[node], _alike(graph, node)])
    found = Treatment(graph, before, [search.tried(each, case) for each in ways(graph, node, trials)])
    if found.best is None or found.best.way.detour in (None, "apart"):
        return found
    other, _ = take(graph, found.best.workaround.nodes, trials.device.device.level)
    is_right = trials.run(other, inputs, near_as_a_whole).is_right
    return dataclasses.replace(found, detoured=other if is_right else None)


def ways(graph: Graph, node: str, trials: Trials) -> Iterator[Way]:
    """The ways that there are for a node on a device, in order."""
    choice = trials.device
    plain = workaround_for(choice)
    if choice.metacommands:
        text = "DirectML does not use the driver's own implementations of operators."
        yield Way("without metacommands", text, dataclasses.replace(plain, metacommands=False))
    if choice.half_precision:
        text = "DirectML does not compute float32 in float16."
        yield Way("without half precision", text, dataclasses.replace(plain, half_precision=False))
    if trials.fuse:
        for rule in _rules_at(graph, node, choice):
            text = f"The fusion rule {rule} does not run."
            yield Way(f"without {rule}", text, dataclasses.replace(plain, without=(rule,)), alone=False)
        yield Way("not fused", "Nothing is fused.", dataclasses.replace(plain, fuse=False), alone=False)
    for name, detour in DETOURS.items():
        if name != "apart" or trials.fuse:
            yield Way(name, detour.meaning, plain, name, alone=name != "apart")
    text = "The graph is run in two executions, of which the second begins at the node, or behind it."
    yield Way("in two executions", text, plain, alone=False, in_parts=True)


def workaround_for(choice: Choice) -> Workaround:
    """A workaround that does nothing yet, for a device, its adapter and this version of its driver."""
    device = choice.device
    if not device.adapter_name:
        return Workaround(device.name)
    family = device.name.partition(":")[0]
    name = device.name if device.name.endswith("software") else family
    if not device.driver_version:
        return Workaround(name, adapter=device.adapter_name)
    first, _, last = device.driver_version.rpartition(".")
    below = f"{first}{'.' * bool(first)}{int(last) + 1}"
    return Workaround(name, adapter=device.adapter_name, driver_from=device.driver_version, driver_below=below)


def _rules_at(graph: Graph, node: str, choice: Choice) -> list[str]:
    """The fusion rules that changed a node for a device, or what it became."""
    fused = fuse_graph(graph, choice.device)
    became = {name for name, origins in fused.origins.items() if node in (name, *origins)} | {node}
    entries = (each for each in fused.record if each.applied and became & {each.node, *each.removed, *each.added})
    return list(dict.fromkeys(each.rule for each in entries if each.rule not in DETOURS))


def _alike(graph: Graph, node: str) -> list[str]:
    """The nodes that may have the same fault: of the same operator, and reading the same data types."""

    def kind(each: OperatorNode) -> Any:
        return type(each.operator), [desc and desc.dtype for desc in each.operator.input_descs]

    one = graph.node(node)
    assert isinstance(one, OperatorNode)
    return [each.name for each in graph.nodes if isinstance(each, OperatorNode) and kind(each) == kind(one)]


def _with(graph: Graph, workaround: Workaround) -> Graph:
    """A copy of the graph with one workaround more."""
    other = copy.copy(graph)
    other.origin.workarounds = (*other.origin.workarounds, workaround)
    return other


@dataclasses.dataclass(frozen=True, slots=True)
class _Search:
    """What ways are tried on; `sets` are the nodes that may have to go round, the fewest first."""

    graph: Graph
    inputs: Mapping[str, Array]
    trials: Trials
    sets: Sequence[Sequence[str]]

    def tried(self, way: Way, case: Shrunk | None) -> Tried:
        """Tries a way on the case, and where that helps on the whole."""
        if way.in_parts:
            return self._in_parts(way)
        of_case = None
        if way.alone and case is not None:
            node = next(each.name for each in case.graph.nodes if has_work(each))
            why = self._refusal(case.graph, way, [node])
            # What a small case has no room for, such as another layout, may be possible in the whole.
            of_case = None if why else self.trials.run(_with(case.graph, way.at([node])), case.inputs)
            if of_case is not None and not of_case.is_right:
                return Tried(way, way.at([node]), of_case)
        return self._on_whole(way, of_case)

    def _in_parts(self, way: Way) -> Tried:
        try:
            parts = split(self.graph, self.sets[0][0])
        except GraphError as error:
            return Tried(way, way.workaround, impossible=error.problems[0].message)
        whole = self.trials.run_in_parts(self.graph, parts, self.inputs, near_as_a_whole)
        return Tried(way, way.workaround, whole=whole)

    def _on_whole(self, way: Way, case: Outcome | None) -> Tried:
        tried = Tried(way, way.at(self.sets[0]), case)
        for nodes in self.sets[: 1 if way.detour is None or len(self.sets[1]) == 1 else 2]:
            workaround = way.at(nodes)
            why = self._refusal(self.graph, way, nodes)
            if why:
                return tried if tried.whole else Tried(way, workaround, case, impossible=why)
            whole = self.trials.run(_with(self.graph, workaround), self.inputs, near_as_a_whole)
            tried = Tried(way, workaround, case, whole)
            if tried.helps:
                break
        return tried

    def _refusal(self, graph: Graph, way: Way, nodes: Sequence[str]) -> str:
        """Why nodes cannot take the detour of a way; empty if they can."""
        if way.detour is None:
            return ""
        try:
            take(graph, dict.fromkeys(nodes, way.detour), self.trials.device.device.level)
        except GraphError as error:
            return error.problems[0].message.partition(": ")[2] or error.problems[0].message
        return ""
