"""Device `directml`: graphs on the real DirectML, in one execution.

`directml` is the first adapter, `directml:N` the adapter with that index, `directml:software` the software adapter:
the system's on Windows, this package's on Linux.
"""

from __future__ import annotations

import contextlib
import copy
import enum
import functools
import operator
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from dmlgraph import _native
from dmlgraph.base.errors import DmlGraphError, listing
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.memory import enough_memory, not_enough_memory
from dmlgraph.compiler.desc import ConstantDescNode, GraphDesc
from dmlgraph.devices.device import Device, Listing
from dmlgraph.devices.directml import versions
from dmlgraph.devices.directml.buffer_bytes import buffer_bytes
from dmlgraph.devices.directml.data_types import type_problems
from dmlgraph.devices.directml.errors import (
    AdapterError,
    CancelledError,
    DebugLayerError,
    DeviceRemovedError,
    DirectMLError,
)
from dmlgraph.devices.directml.faults import make_safe
from dmlgraph.devices.directml.library import SYSTEM, system_has_direct3d
from dmlgraph.devices.directml.open_devices import OpenDevice, OpenDevices, shares_memory_by_default
from dmlgraph.devices.directml.plain import PlainArrays
from dmlgraph.devices.directml.profile import Ran, steps
from dmlgraph.devices.directml.refusal import explained, find
from dmlgraph.devices.directml.resident import NO_STATES, StatesOfRun, with_packed_states
from dmlgraph.devices.directml.runtime import FAMILY, SOFTWARE, Runtime, load_runtime
from dmlgraph.devices.directml.transfer import Collected, Kept, Result, given, given_bytes
from dmlgraph.devices.executable import Array, Executable, Step, Wanted
from dmlgraph.devices.host.interrupts import Watch, interruptible, take_kept
from dmlgraph.devices.states import Turn

if TYPE_CHECKING:
    from dmlgraph.compiler.target import Target

T = TypeVar("T")

NPU = "npu"


class ExecutionFlag(enum.IntFlag):
    """DML_EXECUTION_FLAGS: how DirectML may compile a graph."""

    NONE = 0
    ALLOW_HALF_PRECISION_COMPUTATION = 1
    DISABLE_META_COMMANDS = 2
    DESCRIPTORS_VOLATILE = 4


_open_devices = OpenDevices()


class DirectMLDevice(Device):
    """An adapter that DirectML runs on.

    Attributes:
        adapter: what DXCore reports about it.
        runtime: the libraries it is accessed through.
        flags: how DirectML may compile graphs.
    """

    flags = ExecutionFlag.NONE

    def __init__(
        self,
        choice: str = "",
        *,
        library: str | os.PathLike[str] | None = None,
        share_memory: bool | None = None,
        debug: bool = False,
    ) -> None:
        """Opens an adapter.

        Args:
            choice: what follows `directml:`; an index, `software`, or empty for the first adapter.
            library: as in `load_runtime`.
            share_memory: copy nothing between processor and adapter if they share memory and a trial of that works. A
                system that refuses it may remove the device. None: as DMLGRAPH_SHARE_MEMORY says, else False.
            debug: require the debug layers, as in `compile`.

        Raises:
            AdapterError: the adapter does not exist.
            DebugLayerError: as `compile`.
            LibraryError, SoftwareAdapterError: as `load_runtime`.
        """
        self.name = f"{FAMILY}:{choice}" if choice else FAMILY
        self.runtime = load_runtime(software=choice == SOFTWARE, library=library)
        self._choice = choice
        self._share_memory = shares_memory_by_default() if share_memory is None else share_memory
        self._losses = _open_devices.losses
        self.adapter = _choose(self.runtime.adapters, choice)
        self.level = _level(self._open(debug=debug).native)
        self.description = _describe(self.adapter, self.level, self.runtime)
        self.adapter_name, self.driver_version = self.adapter.name, self.adapter.driver_version
        if not choice and self.adapter.kind == SOFTWARE:
            self.remark = f"'{FAMILY}' is the software adapter here, which computes on the processor: there is no other"
        from_system = self.runtime.directml.origin == SYSTEM
        self.newer = versions.how_to_get_newer(self.level, versions.windows_build(), from_system=from_system)

    @property
    def target(self) -> Target:
        from dmlgraph.devices.directml.target import target

        return target(self.level)

    def with_permissions(self, *, metacommands: bool, half_precision: bool) -> Device:
        same = copy.copy(self)
        same.flags = (ExecutionFlag.NONE if metacommands else ExecutionFlag.DISABLE_META_COMMANDS) | (
            ExecutionFlag.ALLOW_HALF_PRECISION_COMPUTATION if half_precision else ExecutionFlag.NONE
        )
        return same

    def _open(self, *, debug: bool = False) -> OpenDevice:
        _open_devices.drop_lost()
        if self._losses != _open_devices.losses:
            self._list_anew()
        return _open_devices.open(self.runtime.library, self.adapter, debug=debug, share_memory=self._share_memory)

    def _open_to_run(self, *, debug: bool = False) -> OpenDevice:
        """The same, once it is known what memory it takes: a system may remove a device that tries shared memory.

        Work that was interrupted before may also remove it, until it has ended.
        """
        opened = self._open(debug=debug)
        with contextlib.suppress(DeviceRemovedError):
            interruptible(lambda: opened.native.shares_memory)
        return self._open(debug=debug) if opened.native.lost else opened

    def _list_anew(self) -> None:
        """After a loss: the adapter may be gone, or have another identity."""
        self._losses = _open_devices.losses
        self.runtime = replace(self.runtime, adapters=tuple(self.runtime.library.adapters()))
        same = (each for each in self.runtime.adapters if each.luid == self.adapter.luid)
        self.adapter = next(same, None) or _choose(self.runtime.adapters, self._choice)

    def compile(self, graph: GraphDesc, *, reason: str, debug: bool = False) -> DirectMLExecutable:
        """Compiles a lowered graph.

        Args:
            graph: lowered for this device's level.
            reason: why this device was chosen.
            debug: require the debug layers of Direct3D 12 and DirectML; errors then carry their messages.

        Raises:
            DebugLayerError: a debug layer is missing, or the process already uses Direct3D 12 without it.
            DirectMLError: the device lacks a data type, DirectML refuses the graph, a buffer is too large, or the
                device is lost.  If the graph is refused, the error names the nodes of the smallest part that is
                refused.
        """
        opened = self._open_to_run(debug=debug)
        problems = list(type_problems(graph, opened.types))
        if problems:
            raise DirectMLError(problems, graph=graph.name)
        packed, copies = with_packed_states(graph)
        safe, added = make_safe(packed)
        try:
            executable = DirectMLExecutable(safe, self.name, reason, opened, self.flags)
        except DeviceRemovedError:
            _open_devices.drop_lost()
            raise
        except DirectMLError as error:
            if error.call != "CompileGraph":
                raise
            raise self._explained(error, safe) from None
        executable.stats["added_copies"] = copies + added
        return executable

    def _explained(self, error: DirectMLError, graph: GraphDesc) -> DirectMLError:
        """The error of CompileGraph with the nodes that are refused.

        The search uses a separate device of DirectML: if a part removes it, other executables lose nothing.
        """
        try:
            own = _native.Device(self.runtime.library, self.adapter, share_memory=self._share_memory)
        except DirectMLError:  # only the refusal is known
            return error
        try:

            def refuses(part: GraphDesc) -> bool:
                try:
                    own.try_compile(_native_graph(make_safe(part)[0]), int(self.flags))
                except DirectMLError as refused:
                    if isinstance(refused, DeviceRemovedError):
                        raise
                    return (refused.call, refused.hresult) == (error.call, error.hresult)
                return False

            return explained(error, find(graph, refuses))
        except DirectMLError:  # the device was removed: only the refusal is known
            return error
        finally:
            own.drop()


class _CarryingInterruptions:
    """Raises the exception that interrupted the software adapter's compiler instead of DirectML's error."""

    def __enter__(self) -> None:
        take_kept()

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        interruption = take_kept() if isinstance(error, DirectMLError) else None
        if isinstance(interruption, MemoryError):
            raise not_enough_memory("compile a shader", interruption) from None
        if interruption is not None:
            raise interruption from None


_carrying_interruptions = _CarryingInterruptions()


class DirectMLExecutable(Executable):
    """A compiled graph on a DirectML device.  Safe to use from several threads: only dispatches take turns.

    Runs lease the buffers of inputs and outputs and the temporary buffer from the device, and give them back.

    `stats` holds added_copies (one dispatch each, to work around DirectML's faults), descriptor_count,
    temporary_bytes, persistent_bytes, memory_budget_bytes and memory_used_bytes (of the adapter, when the graph was
    compiled), compile_seconds, initialize_seconds, runs, of the last run upload_seconds, run_seconds, readback_seconds,
    submissions, waits, uploaded_bytes and read_bytes, and, on a software adapter, dispatches (of the last run) and
    initialize_dispatches.
    """

    AT_ONCE = 3  # one is uploaded, one executed, one read back

    def __init__(self, graph: GraphDesc, device: str, reason: str, opened: OpenDevice, flags: ExecutionFlag) -> None:
        super().__init__(graph, device, reason)
        self._device, self._flags, self._memory = opened.native, flags, opened.memory
        self._initializing = threading.Lock()
        self._watch = Watch()
        self._plain = PlainArrays(graph)
        constants = [slot for slot in graph.inputs if slot.desc.owned and slot.elements is not None]
        self._constants = [self._kept[self._inputs[slot.name]] for slot in constants]
        # The owned inputs that are on the device, and the number of the initialisation that brought them there.
        self._initialized: tuple[list[Array], int] | None = None
        opened.add(self)
        cancellation = _native.Cancellation()
        try:
            interruptible(lambda: self._prepare(flags, cancellation), lambda _: cancellation.cancel())
        except DeviceRemovedError:
            self.lose()
            raise

    def _native_stats(self) -> dict[str, Any]:
        return self._native.stats

    def _prepare(self, flags: ExecutionFlag, cancellation: _native.Cancellation) -> None:
        with _carrying_interruptions:
            self._native = _native.Executable(self._device, _native_graph(self.graph), int(flags))
        if all(slot.elements is not None for slot in self.graph.inputs if slot.desc.owned):
            self._initialize(self._constants, cancellation)

    def _run_quickly(self, inputs: Mapping[str, Any] | None, out: Mapping[str, Any] | None) -> dict[str, Array] | None:
        given = self._plain.taken(inputs) if self._plain.possible and not out else None
        if given is None:
            return None
        with enough_memory("run", self.graph):
            results = self._plain.results()
            written = list(results.values())
            self._watched(lambda cancellation: self._run_native(self._constants, given, written, cancellation))
        return results

    def _run(self, arrays: Sequence[Array], targets: Mapping[str, Array]) -> dict[str, Array]:
        return self._watched(lambda cancellation: self._run_wanted(arrays, Wanted(targets), cancellation))

    def _run_turn(self, arrays: Sequence[Array], wanted: Wanted, turn: Turn) -> dict[str, Any]:
        def run(cancellation: _native.Cancellation) -> dict[str, Any]:
            with turn.busy:
                return self._run_wanted(arrays, wanted, cancellation, StatesOfRun.of(self.graph, turn, wanted.steps))

        return self._watched(run)

    def _watched(self, run: Callable[[_native.Cancellation], T]) -> T:
        """Does a run that Ctrl-C interrupts."""
        self._check_open()
        cancellation = _native.Cancellation()
        try:
            return self._watch.call(lambda: run(cancellation), lambda _: cancellation.cancel())
        except DeviceRemovedError:
            _open_devices.drop_lost()
            raise

    def _run_wanted(
        self,
        arrays: Sequence[Array],
        wanted: Wanted,
        cancellation: _native.Cancellation,
        states: StatesOfRun = NO_STATES,
    ) -> dict[str, Any]:
        slots = self.graph.inputs
        owned = [array for array, slot in zip(arrays, slots, strict=True) if slot.desc.owned]
        read = [
            states.inputs[slot.name]
            if slot.name in states.inputs
            else None
            if slot.desc.owned
            else given(array, slot.desc)
            for array, slot in zip(arrays, slots, strict=True)
        ]
        results = self._results(wanted)
        written = [results[slot.name].bytes if slot.name in results else None for slot in self.graph.outputs]
        self._run_native(owned, read, written, cancellation, states, wanted.steps)
        return {name: result.array() for name, result in results.items()}

    def _run_native(
        self,
        owned: Sequence[Array],
        read: Sequence[Any],
        written: Sequence[Any],
        cancellation: _native.Cancellation,
        states: StatesOfRun = NO_STATES,
        steps: int = 1,
    ) -> None:
        def run(number: int) -> bool:
            with _carrying_interruptions:
                return self._native.run(
                    number, read, written, cancellation, chains=states.chains, appends=states.appends, steps=steps
                )

        if not self._run_initialized(owned, run, cancellation):
            with self._initializing:  # runs with other owned inputs take turns
                while not self._run_initialized(owned, run, cancellation):
                    self._initialize(owned, cancellation)
        self._check_wanted(cancellation)

    def _run_initialized(
        self, owned: Sequence[Array], run: Callable[[int], bool], cancellation: _native.Cancellation
    ) -> bool:
        """Whether the device has these owned inputs; then it runs, with the number of their initialisation."""
        self._check_wanted(cancellation)
        initialized = self._initialized
        if initialized is None or not all(map(operator.is_, owned, initialized[0])):
            return False
        return run(initialized[1])

    def _results(self, wanted: Wanted) -> dict[str, Result | Collected | Kept]:
        """Where the outputs go that a run returns."""
        results: dict[str, Result | Collected | Kept] = {}
        for index, slot in enumerate(self.graph.outputs):
            if slot.name in wanted.keep:
                results[slot.name] = Kept(slot.desc, self._native.keep(index), self.device, self._memory)
            elif slot.name in wanted.collect:
                results[slot.name] = Collected(slot.desc, wanted.steps)
            elif slot.name in self._slots:
                results[slot.name] = Result(slot.desc, wanted.targets.get(slot.name))
        return results

    def _execute(self, inputs: Sequence[Array]) -> Sequence[Array]:
        return list(self._run(inputs, {}).values())

    def _profile(self, inputs: Sequence[Array]) -> list[Step]:
        cancellation = _native.Cancellation()

        def run(part: GraphDesc, arrays: Sequence[Array]) -> Ran:
            safe, _ = make_safe(part)
            data = [given_bytes(array, slot.desc) for array, slot in zip(arrays, safe.inputs, strict=True)]
            results = [Result(slot.desc, None) for slot in safe.outputs]
            written = [result.bytes for result in results]
            owned = [slot.desc.owned for slot in safe.inputs]
            with _carrying_interruptions:
                single = _native.Executable(self._device, _native_graph(safe), int(self._flags), timed=True)
                try:
                    kept = [each if own else None for each, own in zip(data, owned, strict=True)]
                    number = single.initialize(kept, cancellation)
                    read = [None if own else each for each, own in zip(data, owned, strict=True)]
                    single.run(number, read, written, cancellation)  # compiles the shaders
                    single.run(number, read, written, cancellation)
                    stats = single.stats
                finally:
                    single.close()  # a traceback may still refer to it
            return Ran([result.array() for result in results], stats["device_seconds"], stats.get("dispatches"))

        try:
            return interruptible(lambda: list(steps(self.graph, inputs, run)), lambda _: cancellation.cancel())
        except DeviceRemovedError:
            _open_devices.drop_lost()
            raise

    def _initialize(self, owned: Sequence[Array], cancellation: _native.Cancellation) -> None:
        """Gives the owned inputs to DirectML, which keeps them in its persistent resource."""
        remaining = iter(owned)
        data = [given_bytes(next(remaining), slot.desc) if slot.desc.owned else None for slot in self.graph.inputs]
        self._initialized = None
        with _carrying_interruptions:
            number = self._native.initialize(data, cancellation)
        self._initialized = list(owned), number

    def _check_wanted(self, cancellation: _native.Cancellation) -> None:
        if cancellation.cancelled:
            raise CancelledError("the run is cancelled", graph=self.graph.name)

    def close(self) -> None:
        super().close()
        self._release()

    def lose(self) -> None:
        """Frees what is on the device, which is lost, after the runs in flight; later ones raise DeviceRemovedError."""
        self._leave()
        self._release()

    def _release(self) -> None:
        if hasattr(self, "_native"):  # else it was not compiled
            self._native.close()


def _native_graph(graph: GraphDesc) -> _native.GraphDesc:
    buffers = buffer_bytes(graph)
    held = {state.input for state in graph.states}
    target = {state.output: "resident" if state.grows is None else "rows" for state in graph.states}
    return _native.GraphDesc(
        graph.name,
        [(slot.name, slot.desc.total_bytes, slot.desc.owned, slot.name in held) for slot in graph.inputs],
        [(slot.name, slot.desc.total_bytes, target.get(slot.name, "back")) for slot in graph.outputs],
        [
            (node.name, node.data if isinstance(node, ConstantDescNode) else node.operator.native(buffers[index]))
            for index, node in enumerate(graph.nodes)
        ],
        [(edge.input, edge.to_node, edge.to_port) for edge in graph.input_edges],
        [(edge.from_node, edge.from_port, edge.output) for edge in graph.output_edges],
        [(edge.from_node, edge.from_port, edge.to_node, edge.to_port) for edge in graph.intermediate_edges],
    )


def _choose(adapters: Sequence[_native.Adapter], choice: str) -> _native.Adapter:
    names = [*(str(index) for index in range(len(adapters))), SOFTWARE]
    if choice == SOFTWARE:
        found = [adapter for adapter in adapters if adapter.kind == SOFTWARE]
    elif not choice:
        found = list(adapters)
    else:
        found = [adapter for name, adapter in zip(names, adapters, strict=False) if name == choice]
    if not found:
        raise AdapterError(
            "the adapter does not exist" if adapters else "there is no adapter that can run DirectML",
            field="device",
            got=f"{FAMILY}:{choice}" if choice else FAMILY,
            allowed=listing(f"{FAMILY}:{name}" for name in names) if adapters else None,
            hint="'dmlgraph devices' lists them",
        )
    return found[0]


def _level(device: _native.Device) -> FeatureLevel:
    """The highest level that dmlgraph knows and the device supports."""
    return max(level for level in FeatureLevel if level.value <= device.feature_level)


def _describe(adapter: _native.Adapter, level: FeatureLevel, runtime: Runtime) -> str:
    facts = [adapter.kind, f"{(adapter.dedicated_bytes or adapter.shared_bytes) / 2**30:.1f} GiB"]
    if adapter.driver_version:  # reports of tests tell drivers apart by it
        facts.append(f"driver {adapter.driver_version}")
    (_, version), *_ = runtime.library.files
    library = versions.used(version, runtime.directml.origin)
    return f"{adapter.name} ({', '.join(facts)}), feature level {level}{library}"


# ---- The adapters of this machine


def list_adapters() -> list[Listing]:
    """All adapters of this machine, the software adapter last."""
    listings = []
    try:
        runtime = load_runtime()
    except AdapterError as error:  # the software adapter may still work
        listings.append(Listing(FAMILY, "DirectML", str(error)))
    except DmlGraphError as error:
        return [Listing(FAMILY, "DirectML", str(error))]
    else:
        listings += [_list(runtime, index, adapter) for index, adapter in enumerate(runtime.adapters)]
    name = f"{FAMILY}:{SOFTWARE}"
    if not any(listing.name == name for listing in listings):
        description = "Direct3D 12 on the processor; only in a process that does not use another adapter"
        listings.append(Listing(name, description))
    return listings


def _list(runtime: Runtime, index: int, adapter: _native.Adapter) -> Listing:
    name = f"{FAMILY}:{SOFTWARE}" if adapter.kind == SOFTWARE else f"{FAMILY}:{index}"
    try:
        level = _level(_open_devices.open(runtime.library, adapter).native)
    except DmlGraphError as error:
        return Listing(name, adapter.name, str(error))
    return Listing(name, _describe(adapter, level, runtime))


def find_hardware(*, debug: bool = False) -> list[Callable[[], DirectMLDevice | str] | str]:
    """The hardware adapters for `auto`, fastest first: functions that open one, or say why it cannot be used.

    If there are none, the list has one text that says why.  NPUs run few operators, so `auto` does not use them.
    """
    if not system_has_direct3d():
        return ["the system does not have Direct3D 12"]
    try:
        runtime = load_runtime()
    except DmlGraphError as error:
        return [str(error)]
    found: list[Callable[[], DirectMLDevice | str] | str] = []
    for index, adapter in enumerate(runtime.adapters):
        name = f"{FAMILY}:{index}"
        if adapter.kind == NPU:
            found.append(f"'{name}' is an NPU, which is used only if it is asked for")
        elif adapter.kind != SOFTWARE:
            found.append(functools.partial(_open_hardware, name, str(index), debug))
    return found or ["no hardware adapter was found"]


def _open_hardware(name: str, choice: str, debug: bool) -> DirectMLDevice | str:
    try:
        return DirectMLDevice(choice, debug=debug)
    except DebugLayerError:
        raise
    except DmlGraphError as error:
        return f"'{name}' cannot be used: {error}"
