"""Runs of a graph and of its parts on a device that is examined; each is counted."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlgraph.compiler.ir_node import IrNode, Source
from dmlgraph.devices import Choice
from dmlgraph.devices.compile import compile_graph, compile_ir, fuse_graph
from dmlgraph.doctor.judge import Judge
from dmlgraph.doctor.values import Values, arguments, at_first, evaluate, first_step, operators, part, written
from dmlgraph.graph.graph import Graph
from dmlgraph.graph.value import Value
from dmlgraph.measure.exposing import exposing
from dmlgraph.operators.element_wise import Max
from dmlgraph.operators.reduction import Reduce

if TYPE_CHECKING:
    from dmlgraph.compiler.ir import IrGraph
    from dmlgraph.devices.executable import Executable

Array = np.ndarray[Any, Any]

# What memory is overwritten with: 48.6 as float32, 3.13 as float16, of a size for which results are judged.
OTHER = np.full(4, 0x42, np.uint8).view(np.float32)


def most_executions(nodes: int) -> int:
    """How often a search may run something on the device."""
    return math.floor(2 * math.log2(max(nodes, 1))) + 5


@dataclasses.dataclass(frozen=True, slots=True)
class Suspect:
    """A node, or several that run as one, with results that are not those of what it read.

    Attributes:
        names: of the nodes in the fused graph; the last one's results are wrong.
        blamed: the one that is named.
        got: the results on the device.
        expected: those of the reference.
        is_stable: whether runs of it alone agree.
        why: what is known beside that.
    """

    names: tuple[str, ...]
    blamed: str
    got: tuple[Array, ...]
    expected: tuple[Array, ...]
    is_stable: bool = True
    why: str = ""


class Runs:
    """What a device is asked to run.

    Args:
        graph: with its dims resolved.
        device: to examine.
        right: a device that is right.
        inputs: an array for every input.
        fuse: as in `Graph.compile`.

    Attributes:
        executions: how often the device ran something.
        values: of the nodes on the device, as far as they are known.
        again: the same of a second run, where one was asked for.
    """

    def __init__(self, graph: Graph, device: Choice, right: Choice, inputs: Mapping[str, Array], *, fuse: bool) -> None:
        self.graph, self.device, self.right, self.fuse = graph, device, right, fuse
        self.inputs = inputs
        self.judge = Judge(device.name)
        self.executions = 0
        self.fused = fuse_graph(graph, device.device, fuse=fuse)
        self.ir: IrGraph = self.fused.graph
        self.given = {**at_first(self.ir), **inputs}
        self.values: Values = {}
        self.again: Values = {}

    def may(self, more: int) -> bool:
        """Whether so many executions more are not too many."""
        return self.executions + more <= most_executions(len(self.ir))

    # On the device.

    def whole(self) -> tuple[dict[str, Array], dict[str, Array]]:
        """The outputs, and the next values of states, of two runs of the graph as it is."""
        self.executions += 2
        with compile_graph(self.graph, self.device, fuse=self.fuse) as executable:
            self._overwrite(executable)
            return first_step(executable, self.inputs), first_step(executable, self.inputs)

    def exposing(self, batch: Sequence[Source], runs: int = 1) -> list[Values]:
        """These values on the device, by run."""
        self.executions += runs
        results = []
        with compile_ir(exposing(self.ir, batch), self.device) as executable:
            self._overwrite(executable)
            for _ in range(runs):
                found = executable.run(self.given)
                results.append({source: np.array(found[self.ir.reference(*source)]) for source in batch})
        return results

    def part(
        self, names: Sequence[str], device: Choice | None = None, runs: int = 1, copied: Sequence[str] = ()
    ) -> list[tuple[Array, ...]]:
        """The outputs of the last of some nodes, which run on their own, by run.

        Args:
            names: of the nodes.
            device: where; by default the one that is examined.
            runs: how many.
            copied: as in `values.part`.
        """
        self.executions += runs if device is None else 0
        ir, inputs = part(self.ir, names, self.values, copied)
        with compile_ir(ir, device or self.device) as executable:
            self._overwrite(executable)
            results = [executable.run(inputs) for _ in range(runs)]
        order = [self.ir.reference(*source) for source in written(self.ir[names[-1]])]
        return [tuple(np.array(found[name]) for name in order) for found in results]

    def after_others(
        self, names: Sequence[str], *, copied: Sequence[str] = (), before: int = 0
    ) -> list[tuple[Array, ...]]:
        """The outputs of the last of some nodes after a run on other inputs, whose results may still be in memory.

        Args:
            names: of the nodes.
            copied: as in `values.part`.
            before: how many more runs there are before that; their outputs come first.
        """
        ir, inputs = part(self.ir, names, self.values, copied)
        others = {
            name: np.ascontiguousarray(value.ravel()[::-1].reshape(value.shape)) for name, value in inputs.items()
        }
        order = [self.ir.reference(*source) for source in written(self.ir[names[-1]])]
        self.executions += before + 2
        results = []
        with compile_ir(ir, self.device) as executable:
            for arrays in (*[inputs] * before, others, inputs):
                found = executable.run(arrays)
                results.append(tuple(np.array(found[name]) for name in order))
        return [*results[:before], results[-1]]

    def _overwrite(self, executable: Executable) -> None:
        """Puts other numbers into the memory of outputs and between the nodes, which executables use in turns.

        What is read there before it is written would else be what the same graph left there, and right.
        """
        between = executable.stats.get("temporary_bytes", 0)
        if between and executable.device == self.device.name:
            outputs = sum(slot.desc.total_bytes for slot in executable.graph.outputs)
            with compile_graph(_filling(between, outputs), self.device, fuse=False) as other:
                other.run({"x": OTHER})

    # What is known of a node.

    def outputs(self, node: IrNode, values: Values | None = None) -> tuple[Array, ...]:
        """Its outputs among the values on the device, or others."""
        known = self.values if values is None else values
        return tuple(known[source] for source in written(node))

    def read(self, node: IrNode) -> list[Array | None]:
        """What it read on the device, by port."""
        return arguments(self.ir, node, self.values)

    def expected(self, node: IrNode) -> tuple[Array, ...]:
        """Its outputs for what it read on the device."""
        if self.right.name == "reference":
            return tuple(evaluate(node, self.read(node)))
        return self.part([node.name], self.right)[0]

    def wrong(self, node: IrNode, got: Sequence[Array], expected: Sequence[Array]) -> bool:
        """Whether outputs are not those of what it read on the device."""
        return self.judge.wrong(node.computation, self.read(node), got, expected)

    def producers(self, node: IrNode) -> list[IrNode]:
        """The nodes that compute what a node reads, in execution order."""
        names = {source.node for source in node.sources if source is not None}
        return [each for each in operators(self.ir) if each.name in names and each.computation.input_fields]

    def readers(self, node: IrNode) -> list[IrNode]:
        """The nodes that read what a node computes, in execution order."""
        return [
            each
            for each in operators(self.ir)
            if any(source is not None and source.node == node.name for source in each.sources)
        ]


def _filling(between: int, outputs: int) -> Graph:
    """A graph that fills so many bytes between its nodes, and so many of an output."""
    graph = Graph("filling")
    x = graph.input("x", sizes=[1], dtype="float32")

    def filled(size: int, name: str) -> Value:
        wide = x.broadcast_to([1, 1, 1, -(-size // 4)])
        return _made(graph.add(Max, {"a": wide, "b": wide}, {}, {}, name))  # devices compute it, unlike an identity

    inner = filled(between, "inner")
    greatest = graph.add(Reduce, {"input": inner}, {"function": "max", "axes": [3]}, {}, "greatest")
    graph.output("greatest", _made(greatest))
    graph.output("outer", filled(outputs, "outer"))
    return graph


def _made(values: Sequence[Value | None]) -> Value:
    """The first output of a node."""
    assert values[0] is not None
    return values[0]


def is_same(one: Sequence[Array], other: Sequence[Array]) -> bool:
    """Whether arrays have the same bits."""
    return all(a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True))
