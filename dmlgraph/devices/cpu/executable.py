"""CpuExecutable: a graph planned natively, and the fast path from arguments to a run."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dmlgraph import _native
from dmlgraph.base.errors import DeviceError, DmlGraphError
from dmlgraph.base.memory import described, enough_memory, not_enough_memory
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.compiler.desc import GraphDesc
from dmlgraph.devices.cpu.nodes import Native
from dmlgraph.devices.cpu.plan import make_plan
from dmlgraph.devices.executable import Array, Executable, Roof, Step, by_name
from dmlgraph.devices.states import Turn, Use
from dmlgraph.graph.constant_data import ConstantData
from dmlgraph.graph.nodes import LENGTH


class CpuExecutable(Executable):
    """Runs a native plan.

    Plain arguments are checked natively; if something does not fit, the checks of Executable say what.  Several threads
    may run it at the same time: every run has its own memory, which is kept for the next run.

    `stats` says by name how the nodes run (`regions`: lists of nodes that run as one pass; `native` and `python`: steps
    of one node).  It also has the bytes of the arena and of the threads' scratch memory for one run at a time,
    `threads`, `run_seconds` of the last run, and `all_run_seconds` of all of them.
    """

    _CONSTANT = np.empty(0)  # the native module has the constants

    def __init__(self, graph: GraphDesc, device: str, reason: str, *, threads: int | None = None) -> None:
        super().__init__(graph, device, reason)
        threads = threads or _native.cpu_default_threads()
        constants = [None if slot.elements is None else _ready(slot.elements.array, slot.desc) for slot in graph.inputs]
        with _planning(graph):
            plan = make_plan(graph)
            self._native = _native.CpuExecutable(
                described(graph),
                plan.graph(),
                plan.outputs,
                [slot.name for slot in graph.inputs],
                [slot.name for slot in graph.outputs],
                constants,
                [slot.desc.owned and slot.elements is None and slot.desc.dtype.bits > 4 for slot in graph.inputs],
                [self._growing_state(use) for use in self._uses if use.capacity],
                self._let_go,
                threads,
            )
        self._kernels = {node.name: node.action.step.name for node in plan.nodes if isinstance(node.action, Native)}
        self._stats["nodes"] = len(graph.nodes)
        given = [slot.desc for slot in self._given.values()]
        self._whole_bytes = all(desc.dtype.bits > 4 for desc in (*given, *(slot.desc for slot in graph.outputs)))
        self._quick = self._whole_bytes and not any(desc.owned for desc in given)
        self._checked = [(at, slot.desc) for at, slot in enumerate(graph.inputs) if slot.name in self._given]
        self._targets = {slot.name: (at, slot.desc) for at, slot in enumerate(graph.outputs)}
        for use in self._uses:
            if use.length:
                self._kept[self._inputs[use.length]] = np.zeros(1, LENGTH.dtype.numpy)  # the native module has another
        self._packed = [slot for slot in graph.outputs if slot.desc.dtype.bits == 4]

    def _constant(self, elements: ConstantData) -> Array:
        return self._CONSTANT

    def _let_go(self, slot: int, restore: Callable[[], Array]) -> None:
        """Of an input that runs do not read, since steps keep its elements packed, with all their bits."""
        given = self.graph.inputs[slot]
        assert given.elements is not None
        desc = given.desc
        given.elements.let_go((lambda: desc.unpack(restore())) if desc.dtype.bits == 4 else restore)

    def plan(self) -> str:
        """The steps as text, a line each: how it runs, the nodes that it computes, and what it reads and writes.

        That is inputs, outputs, constants, and #1, #2, …: buffers in the arena.
        """
        lines = [f"arena: {self._native.stats['arena_bytes']} bytes"]
        for how, nodes, read, written in self._native.steps:
            kind = self._kernels[nodes[0]] if how == "native" else how
            lines.append(f"{kind} [{', '.join(nodes)}]: {', '.join(read)} -> {', '.join(written)}")
        return "\n".join(lines) + "\n"

    def _native_stats(self) -> dict[str, Any]:
        return self._native.stats

    def _run_quickly(self, inputs: Mapping[str, Any] | None, out: Mapping[str, Any] | None) -> dict[str, Array] | None:
        try:
            return self._native.run(inputs, out) if self._quick else None
        except MemoryError as error:
            raise not_enough_memory("run", error, self.graph) from None

    def bind(
        self, inputs: Mapping[str, Any] | None = None, out: Mapping[str, Any] | None = None
    ) -> Callable[[], dict[str, Array]]:
        if self.graph.states:
            return super().bind(inputs, out)
        with enough_memory("run", self.graph):
            arrays = self._check_inputs(by_name(inputs, "inputs"))
            targets = self._check_outputs(by_name(out, "out"))
        wanted = [targets.get(slot.name) for slot in self.graph.outputs]
        fits = all(
            slot.elements is not None or _is_plain(array, slot.desc)
            for slot, array in zip(self.graph.inputs, arrays, strict=True)
        ) and all(
            array is None or _is_plain(array, slot.desc) for slot, array in zip(self.graph.outputs, wanted, strict=True)
        )
        if fits and self._whole_bytes:
            with enough_memory("run", self.graph):
                return self._native.bind(arrays, wanted)
        return enough_memory("run", self.graph)(lambda: self._run(arrays, targets))

    def close(self) -> None:
        super().close()
        self._native.close()

    def _growing_state(self, use: Use) -> tuple[int, int, int, int, bool]:
        """A growing state for the native module: the members of GrowingState in native/bind/growing_states.h."""
        axis, length = use.state.grows, self._inputs[use.length] if use.length else -1
        assert axis is not None
        outputs = [slot.name for slot in self.graph.outputs]
        rows = outputs.index(use.output) if use.output else -1
        return use.place, axis, length, rows, use.output in self._slots

    def _run_step(self, step: int, arrays: list[Array], targets: Mapping[str, Array], turn: Turn) -> dict[str, Array]:
        lengths, written = turn.counts(step)
        return self._run(arrays, targets, written, lengths)

    def _run(
        self,
        arrays: Sequence[Array],
        targets: Mapping[str, Array],
        written: Sequence[int] = (),
        lengths: Sequence[int] = (),
    ) -> dict[str, Array]:
        self._check_open()
        direct: list[Array | None] = [None] * len(self._targets)
        for name, target in targets.items():
            at, desc = self._targets[name]
            direct[at] = target if _is_plain(target, desc) else None
        results = self._native.execute(self._ready(arrays), direct, written, lengths)
        for slot in self._packed:
            results[slot.name] = np.ascontiguousarray(slot.desc.unpack(results[slot.name]))
        for name, target in targets.items():
            if direct[self._targets[name][0]] is None:
                np.copyto(target, results[name])
                results[name] = target
        return results

    def _ready(self, arrays: Sequence[Array]) -> list[Array]:
        """The arrays as the native module wants them; those of states are so already."""
        ready = list(arrays)
        for at, desc in self._checked:
            ready[at] = _ready(arrays[at], desc)
        return ready

    def _profile_turn(self, arrays: Sequence[Array], turn: Turn) -> list[Step]:
        return self._profile(self._placed(arrays, turn.arrays()), turn.written)

    def _profile(self, inputs: Sequence[Array], written: Sequence[int] = ()) -> list[Step]:
        measured = self._native.profile(self._ready(inputs), [None] * len(self.graph.outputs), written)
        starts = itertools.accumulate((seconds for _, _, seconds, _ in measured), initial=0.0)
        return [
            Step(nodes, how, start, seconds, size, self._kernels.get(nodes[0], "") if how == "native" else "")
            for (nodes, how, seconds, size), start in zip(measured, starts, strict=False)
        ]

    def roof(self) -> Roof:
        return Roof(*_native.cpu_roof(self._native.stats["threads"]))

    def _execute(self, inputs: Sequence[Array]) -> Sequence[Array]:
        return list(self._run(inputs, {}).values())


@contextlib.contextmanager
def _planning(graph: GraphDesc) -> Iterator[None]:
    """Turns what a mistake in the plan raises into a DeviceError.  The graph is legal, and its data is read before."""
    try:
        yield
    except (DmlGraphError, MemoryError):
        raise
    except Exception as error:
        raise DeviceError(
            f"the graph '{graph.name}' cannot be planned: {error}",
            code="plan",
            hint="this is a mistake in dmlgraph, please report it; the device 'reference' makes no plan",
        ) from error


def _is_plain(array: Array, desc: TensorDesc) -> bool:
    """Whether the native module can work on the array's memory itself."""
    return (
        type(array) is np.ndarray
        and array.flags.aligned
        and desc.dtype.bits > 4
        and array.dtype.num == desc.dtype.numpy.num
    )


def _ready(array: Array, desc: TensorDesc) -> Array:
    """The array, or a copy that the native module can work on; for a 4-bit tensor the bytes of its buffer."""
    if desc.dtype.bits == 4:
        return desc.pack(array)
    return array if _is_plain(array, desc) else np.array(array, desc.dtype.numpy, order="C", subok=False)
