"""Ways round a node that a device computes wrong: each is tried on the shrunk case, then on the whole graph.

treatment = treat(graph, ["norm"], inputs, Trials(device), case)
treatment.best.way.name  # the one that costs the fewest dispatches
treatment.graph()  # with the section `workarounds` for this device and driver
"""

from __future__ import annotations

import copy
import dataclasses
import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dmlgraph.base.errors import GraphError
from dmlgraph.base.free_names import FreeNames
from dmlgraph.compiler.detours import DETOURS, take
from dmlgraph.devices import Choice
from dmlgraph.devices.compile import fuse_graph
from dmlgraph.devices.workarounds import Workaround
from dmlgraph.doctor.parts import split
from dmlgraph.doctor.shrink import Shrunk
from dmlgraph.doctor.trials import Outcome, Trials, operator_of
from dmlgraph.graph.graph import Graph
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.graph.value import Value

Array = np.ndarray[Any, Any]


class How(enum.Enum):
    """How a way is gone."""

    IN_FILE = enum.auto()  # by a workaround in the graph's file
    IN_PARTS = enum.auto()  # in two executions
    WITH_OUTPUTS = enum.auto()  # with more outputs


@dataclasses.dataclass(frozen=True, slots=True)
class Way:
    """A way round.

    Attributes:
        name: in a word or a few.
        meaning: what it does, in a sentence.
        workaround: what it is in a graph's file, but for the nodes of a detour.
        detour: of the node; None: it has none.
        alone: whether it means something for a graph of one node.
        how: it is gone.
    """

    name: str
    meaning: str
    workaround: Workaround
    detour: str | None = None
    alone: bool = True
    how: How = How.IN_FILE

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
        graph: what was tried last, of a way that is another graph.
    """

    way: Way
    workaround: Workaround
    case: Outcome | None = None
    whole: Outcome | None = None
    impossible: str = ""
    graph: Graph | None = None

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
        source: the whole graph.
        before: the whole graph as it is.
        tried: in order.
        detoured: the graph with the best way for all devices: other nodes, or, where no workaround helps, outputs more;
            None if fusion undoes it, or it is more than that.
    """

    source: Graph
    before: Outcome
    tried: Sequence[Tried]
    detoured: Graph | None = None

    @property
    def best(self) -> Tried | None:
        """The workaround that costs the fewest dispatches of those that help; None if none does."""
        return self._cheapest(each for each in self.tried if each.way.how is How.IN_FILE)

    @property
    def advised(self) -> Tried | None:
        """The best workaround; if there is none, the best of the other ways that help."""
        return self.best or self._cheapest(self.tried)

    @property
    def elsewhere(self) -> Tried | None:
        """A way that makes the case right, and not the graph: another node may be wrong, too.  None if a way helps."""
        alone = (each for each in self.tried if each.case is not None and each.case.is_right)
        wrong = (each for each in alone if each.whole is not None and each.whole.is_wrong)
        return next(wrong, None) if self.advised is None else None

    def _cheapest(self, tried: Iterable[Tried]) -> Tried | None:
        helpful = filter(self.is_proved, tried)
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
    graph: Graph, nodes: Sequence[str], inputs: Mapping[str, Array], trials: Trials, case: Shrunk | None = None
) -> Treatment:
    """Tries every way round what is computed wrong.

    Args:
        graph: with its dims resolved.
        nodes: the operator that is computed wrong, or those that are together, in execution order; empty: not known.
        inputs: with which it is.
        trials: on the device.
        case: the node alone, shrunk; None: it is right alone.
    """
    before = trials.run_whole(graph, inputs)
    sets = [nodes, _alike(graph, nodes[0])] if len(nodes) == 1 else [nodes[:1], nodes]
    search = _Search(graph, inputs, trials, nodes, sets)
    found = Treatment(graph, before, [search.tried(each, case) for each in ways(graph, nodes, trials)])
    return dataclasses.replace(found, detoured=_detoured(found, inputs, trials))


def _detoured(found: Treatment, inputs: Mapping[str, Array], trials: Trials) -> Graph | None:
    """The graph with the best way for all devices, if that is right."""
    if found.best is None:
        return next((each.graph for each in found.tried if found.is_proved(each) and each.graph is not None), None)
    if found.best.way.detour in (None, "apart"):
        return None
    other, _ = take(found.source, found.best.workaround.nodes, trials.device.device.level)
    return other if trials.run_whole(other, inputs).is_right else None


def ways(graph: Graph, nodes: Sequence[str], trials: Trials) -> Iterator[Way]:
    """The ways that there are on a device, in order; `nodes` as in `treat`."""
    choice = trials.device
    plain = workaround_for(choice)
    if choice.metacommands:
        text = "DirectML does not use the driver's own implementations of operators."
        yield Way("without metacommands", text, dataclasses.replace(plain, metacommands=False))
    if choice.half_precision:
        text = "DirectML does not compute float32 in float16."
        yield Way("without half precision", text, dataclasses.replace(plain, half_precision=False))
    if trials.fuse:
        for rule in _rules_at(graph, nodes, choice):
            text = f"The fusion rule {rule} does not run."
            yield Way(f"without {rule}", text, dataclasses.replace(plain, without=(rule,)), alone=False)
        yield Way("not fused", "Nothing is fused.", dataclasses.replace(plain, fuse=False), alone=False)
    if not nodes:
        return
    for name, detour in DETOURS.items():
        if name != "apart" or trials.fuse:
            yield Way(name, detour.meaning, plain, name, alone=name != "apart")
    if len(nodes) > 1:
        text = "A value between the nodes is an output of the graph, too."
        yield Way("with an output more", text, plain, alone=False, how=How.WITH_OUTPUTS)
    text = "The graph is run in two executions, of which the second begins at the node, or behind it."
    yield Way("in two executions", text, plain, alone=False, how=How.IN_PARTS)


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


def _rules_at(graph: Graph, nodes: Sequence[str], choice: Choice) -> list[str]:
    """The fusion rules that changed some nodes for a device, or what they became; of no nodes, all that changed any."""
    fused, meant = fuse_graph(graph, choice.device), set(nodes)
    became = meant | {name for name, origins in fused.origins.items() if meant & {name, *origins}}
    entries = (
        each
        for each in fused.record
        if each.applied and (not nodes or became & {each.node, *each.removed, *each.added})
    )
    return list(dict.fromkeys(each.rule for each in entries if each.rule not in DETOURS))


def _alike(graph: Graph, node: str) -> list[str]:
    """The nodes that may have the same fault: of the same operator, and reading the same data types."""

    def kind(each: OperatorNode) -> Any:
        return type(each.operator), [desc and desc.dtype for desc in each.operator.input_descs]

    one = graph.node(node)
    assert isinstance(one, OperatorNode)
    return [each.name for each in graph.nodes if isinstance(each, OperatorNode) and kind(each) == kind(one)]


def _with_output(graph: Graph, node: str) -> Graph:
    """A copy of the graph in which what a node computes is an output."""
    other = copy.copy(graph)
    names = FreeNames(other.outputs)
    operator = graph.node(node)
    assert isinstance(operator, OperatorNode)
    for port, desc in enumerate(operator.operator.output_descs):
        if desc is not None:
            other.output(names.take(graph.reference(node, port)), Value(other, node, port))
    return other


def _with(graph: Graph, workaround: Workaround) -> Graph:
    """A copy of the graph with one workaround more."""
    other = copy.copy(graph)
    other.origin.workarounds = (*other.origin.workarounds, workaround)
    return other


@dataclasses.dataclass(frozen=True, slots=True)
class _Search:
    """What ways are tried on.

    Attributes:
        nodes: as in `treat`.
        sets: nodes that may have to go round, the fewest first.
    """

    graph: Graph
    inputs: Mapping[str, Array]
    trials: Trials
    nodes: Sequence[str]
    sets: Sequence[Sequence[str]]

    def tried(self, way: Way, case: Shrunk | None) -> Tried:
        """Tries a way on the case, and where that helps on the whole."""
        if way.how is not How.IN_FILE:
            return (self._in_parts if way.how is How.IN_PARTS else self._with_outputs)(way)
        of_case = None
        if way.alone and case is not None:
            node = operator_of(case.graph).name
            why = self._refusal(case.graph, way, [node])
            # What a small case has no room for, such as another layout, may be possible in the whole.
            of_case = None if why else self.trials.run(_with(case.graph, way.at([node])), case.inputs)
            if of_case is not None and not of_case.is_right:
                return Tried(way, way.at([node]), of_case)
        return self._on_whole(way, of_case)

    def _in_parts(self, way: Way) -> Tried:
        """In two executions: of several nodes the second begins at each but the first, until that is right."""
        tried = Tried(way, way.workaround)
        for node in self.nodes[1:] or self.nodes:
            try:
                parts = split(self.graph, node)
            except GraphError as error:
                return Tried(way, way.workaround, impossible=error.problems[0].message)
            whole = self.trials.run_in_parts(self.graph, parts, self.inputs)
            tried = Tried(way, way.workaround, whole=whole)
            if tried.helps:
                break
        return tried

    def _with_outputs(self, way: Way) -> Tried:
        """With what a node computes as outputs: of each but the last in turn, until that is right."""
        tried = Tried(way, way.workaround)
        for node in self.nodes[:-1]:
            other = _with_output(self.graph, node)
            whole = self.trials.run_whole(other, self.inputs)
            tried = Tried(way, way.workaround, whole=whole, graph=other)
            if tried.helps:
                break
        return tried

    def _on_whole(self, way: Way, case: Outcome | None) -> Tried:
        tried = Tried(way, way.at(self.sets[0]), case)
        for nodes in self.sets[: 1 if way.detour is None or len(self.sets[1]) == 1 else 2]:
            workaround = way.at(nodes)
            why = self._refusal(self.graph, way, nodes)
            if why:
                return tried if tried.whole else Tried(way, workaround, case, impossible=why)
            whole = self.trials.run_whole(_with(self.graph, workaround), self.inputs)
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
