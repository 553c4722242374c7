"""Device `reference`: the executable specification.

It runs node by node and calls each operator's `evaluate`.  The values between nodes are the same buffers that DirectML
would use, bytes laid out by the tensor descs, so that strides, broadcasting and packing are checked too.
"""

from __future__ import annotations

import collections
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlgraph.base.levels import NEWEST
from dmlgraph.compiler.desc import ConstantDescNode, GraphDesc
from dmlgraph.devices.device import Device, Family
from dmlgraph.devices.executable import Array, Executable, Step, tensor_bytes
from dmlgraph.devices.host.interrupts import Watch, end_python

if TYPE_CHECKING:
    from dmlgraph.compiler.target import Target

Buffer = np.ndarray[Any, np.dtype[np.uint8]]


class ReferenceDevice(Device):
    """Runs every operator of every level in NumPy: clear rather than fast."""

    name = "reference"
    description = "evaluates every operator in NumPy, node by node"
    level = NEWEST

    @property
    def target(self) -> Target:
        """DirectML's passes, for a device that copies any tensor, and takes any strides."""
        from dmlgraph.compiler.target import Target
        from dmlgraph.devices.directml.target import PASSES

        return Target(self.level, PASSES, copy_level=self.level)

    def compile(self, graph: GraphDesc, *, reason: str, debug: bool = False) -> Executable:
        return ReferenceExecutable(graph, self.name, reason)


FAMILY = Family.of(ReferenceDevice)


class ReferenceExecutable(Executable):
    """Runs the nodes in order; a buffer is dropped once its last reader has run."""

    def __init__(self, graph: GraphDesc, device: str, reason: str) -> None:
        super().__init__(graph, device, reason)
        self._watch = Watch()
        # The input bindings of every node, by port; a source is ("input", slot) or (node, port).
        self._sources: list[dict[int, tuple[Any, int]]] = [{} for _ in graph.nodes]
        self._last_reader: dict[tuple[Any, int], int] = {}
        for edge in graph.input_edges:
            self._connect(("input", edge.input), edge.to_node, edge.to_port)
        for inner in graph.intermediate_edges:
            self._connect((inner.from_node, inner.from_port), inner.to_node, inner.to_port)
        kept = {(edge.from_node, edge.from_port) for edge in graph.output_edges}
        self._dropped_after: dict[int, list[tuple[Any, int]]] = collections.defaultdict(list)
        for source, reader in self._last_reader.items():
            if source not in kept:
                self._dropped_after[reader].append(source)
        self._stats = {"nodes": len(graph.nodes), "run_seconds": 0.0}

    def _connect(self, source: tuple[Any, int], node: int, port: int) -> None:
        self._sources[node][port] = source
        self._last_reader[source] = max(node, self._last_reader.get(source, 0))

    def _execute(self, inputs: Sequence[Array]) -> Sequence[Array]:
        return self._evaluate(inputs)

    def _profile(self, inputs: Sequence[Array]) -> list[Step]:
        steps: list[Step] = []
        self._evaluate(inputs, steps)
        return steps

    def _evaluate(self, inputs: Sequence[Array], steps: list[Step] | None = None) -> Sequence[Array]:
        return self._watch.call(lambda: self._walk(inputs, steps), end_python)

    def _walk(self, inputs: Sequence[Array], steps: list[Step] | None) -> Sequence[Array]:
        start = time.perf_counter()
        buffers: dict[tuple[Any, int], Buffer] = {
            ("input", slot): given.desc.pack(array)
            for slot, (given, array) in enumerate(zip(self.graph.inputs, inputs, strict=True))
        }
        for index, node in enumerate(self.graph.nodes):
            if isinstance(node, ConstantDescNode):
                buffers[index, 0] = np.frombuffer(node.data, np.uint8)
                continue
            operator, sources = node.operator, self._sources[index]
            begin = time.perf_counter()
            arguments = [
                desc.unpack(buffers[sources[port]]) if desc is not None and port in sources else None
                for port, desc in enumerate(operator.input_descs)
            ]
            results = iter(operator.evaluate(*arguments))
            for port, desc in enumerate(operator.output_descs):
                if desc is not None:
                    buffers[index, port] = desc.pack(next(results))
            if steps is not None:
                seconds = time.perf_counter() - begin
                steps.append(Step((node.name,), "evaluate", begin - start, seconds, tensor_bytes(operator)))
            for source in self._dropped_after[index]:
                del buffers[source]
        edges = sorted(self.graph.output_edges, key=lambda edge: edge.output)
        outputs = [
            slot.desc.unpack(buffers[edge.from_node, edge.from_port])
            for slot, edge in zip(self.graph.outputs, edges, strict=True)
        ]
        self._stats["run_seconds"] = time.perf_counter() - start
        return outputs
