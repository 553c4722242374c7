"""Device `directml`: graphs on the real DirectML, in one execution.

`directml` is the first adapter, `directml:N` the adapter with that index, `directml:software` the software adapter:
the system's on Windows, this package's on Linux.
"""

from __future__ import annotations

import contextlib
import enum
import itertools
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dmlgraph import _native
from dmlgraph.devices.device import Device
from dmlgraph.devices.directml.errors import AdapterError, CancelledError, DeviceRemovedError, DirectMLError
from dmlgraph.devices.directml.faults import make_safe
from dmlgraph.devices.directml.faults.edit import DescEdit
from dmlgraph.devices.directml.library import (
    Direct3D,
    Found,
    find_direct3d,
    find_directml,
    on_windows,
    system_has_direct3d,
)
from dmlgraph.devices.directml.refusal import explained, find
from dmlgraph.devices.executable import Array, Executable
from dmlgraph.devices.interrupts import Watch, interruptible, take_kept
from dmlgraph.errors import DmlGraphError, Problem, Within, listing
from dmlgraph.levels import FeatureLevel
from dmlgraph.lowering import ConstantDescNode, GraphDesc, GraphInput, GraphOutput
from dmlgraph.memory import not_enough_memory

Buffer = np.ndarray[Any, np.dtype[np.uint8]]

FAMILY = "directml"
SOFTWARE = "software"


class ExecutionFlag(enum.IntFlag):
    """DML_EXECUTION_FLAGS: how DirectML may compile a graph."""

    NONE = 0
    ALLOW_HALF_PRECISION_COMPUTATION = 1
    DISABLE_META_COMMANDS = 2
    DESCRIPTORS_VOLATILE = 4


@dataclass(frozen=True, slots=True)
class Runtime:
    """The libraries that this process uses, and the adapters they find."""

    directml: Found
    direct3d: Direct3D
    library: _native.Library
    adapters: tuple[_native.Adapter, ...]


def load_runtime(*, software: bool = False, library: str | os.PathLike[str] | None = None) -> Runtime:
    """Loads DirectML and the libraries it needs.  A process can use one set of libraries only.

    Args:
        software: on Linux, use this package's own adapter even if the system has Direct3D 12.
        library: the DirectML library or its folder; by default the first one that is found.

    Raises:
        LibraryError: a library is missing, damaged or too old, or another set is loaded already.
        SoftwareAdapterError: the software adapter is needed and llvmlite is missing.
    """
    directml = find_directml(library)
    direct3d = find_direct3d(software=software)
    if direct3d.software:
        from dmlgraph.devices.directml.software import adapter  # needs llvmlite: imported only if it is used

        adapter.load()
    with Within(place=_with_remedy):
        loaded = _native.Library.load(directml.path, direct3d.d3d12, direct3d.dxcore)
    return Runtime(directml, direct3d, loaded, tuple(loaded.adapters()))


def _with_remedy(problem: Problem) -> Problem:
    """What to do about a library that cannot be loaded: there is Windows without DirectML, or with an old one."""
    hint = "Windows 10 2004 and later have DirectML; 'pip install onnxruntime-directml' brings a newer one"
    return replace(problem, hint=problem.hint or hint) if on_windows() else problem


class _OpenDevices:
    """The native devices in use, so that all executables of an adapter share one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._devices: dict[tuple[int, bool, bool], _native.Device] = {}

    def open(
        self, runtime: Runtime, adapter: _native.Adapter, *, debug: bool = False, share_memory: bool = True
    ) -> _native.Device:
        """The adapter's device; a new one if none is open yet or the last one was lost."""
        key = (adapter.luid, debug, share_memory)

        def find() -> _native.Device | None:
            device = self._devices.get(key)
            return None if device is None or device.lost else device

        def make() -> _native.Device:
            with self._lock:
                device = find()
                if device is None:
                    device = _native.Device(runtime.library, adapter, debug=debug, share_memory=share_memory)
                    self._devices[key] = device
                return device

        return find() or interruptible(make)


_open_devices = _OpenDevices()


class DirectMLDevice(Device):
    """An adapter that DirectML runs on.

    Attributes:
        adapter: what DXCore reports about it.
        runtime: the libraries it is accessed through.
    """

    def __init__(
        self,
        choice: str = "",
        *,
        library: str | os.PathLike[str] | None = None,
        share_memory: bool = True,
    ) -> None:
        """Opens an adapter.

        Args:
            choice: what follows `directml:`; an index, `software`, or empty for the first adapter.
            library: as in `load_runtime`.
            share_memory: copy nothing between processor and adapter if they share memory.

        Raises:
            AdapterError: the adapter does not exist.
            LibraryError, SoftwareAdapterError: as `load_runtime`.
        """
        self.name = f"{FAMILY}:{choice}" if choice else FAMILY
        self.runtime = load_runtime(software=choice == SOFTWARE, library=library)
        self.adapter = _choose(self.runtime.adapters, choice)
        self._share_memory = share_memory
        native = self._open()
        self.level = _level(native)
        self.description = _describe(self.adapter, self.level)

    def _open(self, *, debug: bool = False) -> _native.Device:
        return _open_devices.open(self.runtime, self.adapter, debug=debug, share_memory=self._share_memory)

    def compile(
        self,
        graph: GraphDesc,
        *,
        reason: str,
        debug: bool = False,
        flags: ExecutionFlag = ExecutionFlag.NONE,
    ) -> DirectMLExecutable:
        """Compiles a lowered graph.

        Args:
            graph: lowered for this device's level.
            reason: why this device was chosen.
            debug: switch on the debug layers of Direct3D 12 and DirectML; errors then carry their messages.
            flags: how DirectML may compile it.

        Raises:
            DirectMLError: DirectML refuses the graph, a buffer is too large, or the device is lost.  If the graph is
                refused, the error names the nodes of the smallest part that is refused.
        """
        native = self._open(debug=debug)
        safe, added = make_safe(graph)
        try:
            executable = DirectMLExecutable(safe, self.name, reason, native, flags)
        except DirectMLError as error:
            if error.call != "CompileGraph" or isinstance(error, DeviceRemovedError):
                raise
            raise self._explained(error, safe, flags) from None
        executable.stats["added_copies"] = added
        return executable

    def _explained(self, error: DirectMLError, graph: GraphDesc, flags: ExecutionFlag) -> DirectMLError:
        """The error of CompileGraph with the nodes that are refused.

        The search uses a separate device: if a part removes it, other executables lose nothing.
        """
        try:
            own = _native.Device(self.runtime.library, self.adapter, share_memory=self._share_memory)

            def refuses(part: GraphDesc) -> bool:
                try:
                    own.try_compile(_native_graph(make_safe(part)[0]), int(flags))
                except DirectMLError as refused:
                    if isinstance(refused, DeviceRemovedError):
                        raise
                    return (refused.call, refused.hresult) == (error.call, error.hresult)
                return False

            return explained(error, find(graph, refuses))
        except DirectMLError:  # the device was removed, or a new one cannot be opened: only the refusal is known
            return error


@contextlib.contextmanager
def _carrying_interruptions() -> Iterator[None]:
    """Raises the exception that interrupted the software adapter's compiler instead of DirectML's error."""
    take_kept()
    try:
        yield
    except DirectMLError:
        interruption = take_kept()
        if interruption is None:
            raise
        if isinstance(interruption, MemoryError):
            raise not_enough_memory("compile a shader", interruption) from None
        raise interruption from None


class DirectMLExecutable(Executable):
    """A compiled graph on a DirectML device.  Safe to use from several threads, which take turns.

    `stats` holds added_copies (one dispatch each, to work around DirectML's faults), descriptor_count,
    temporary_bytes, persistent_bytes, compile_seconds, initialize_seconds, run_seconds (of the last run), runs, and,
    on a software adapter, dispatches (of the last run) and initialize_dispatches.
    """

    def __init__(
        self, graph: GraphDesc, device: str, reason: str, native: _native.Device, flags: ExecutionFlag
    ) -> None:
        super().__init__(graph, device, reason)
        self._lock = threading.Lock()
        self._watch = Watch()
        self._cancellation = _native.Cancellation()  # of the run that has the lock
        self._initialized_with: list[Array] | None = None
        interruptible(lambda: self._prepare(native, flags), lambda _: self._cancellation.cancel())
        self.stats = dict(self._native.stats)

    def _prepare(self, native: _native.Device, flags: ExecutionFlag) -> None:
        with _carrying_interruptions():
            self._native = _native.Executable(native, _native_graph(self.graph), int(flags))
        self._inputs = [
            None if slot.desc.owned else _HostTensor(slot, self._native.input(index))
            for index, slot in enumerate(self.graph.inputs)
        ]
        self._outputs = [_HostTensor(slot, self._native.output(index)) for index, slot in enumerate(self.graph.outputs)]
        owned = [slot for slot in self.graph.inputs if slot.desc.owned]
        if all(slot.data is not None for slot in owned):
            self._initialize([slot.data for slot in owned if slot.data is not None])

    def _run(self, arrays: Sequence[Array], targets: Mapping[str, Array]) -> dict[str, Array]:
        cancellation = _native.Cancellation()
        return self._watch.call(lambda: self._take_turn(arrays, targets, cancellation), lambda _: cancellation.cancel())

    def _take_turn(
        self, arrays: Sequence[Array], targets: Mapping[str, Array], cancellation: _native.Cancellation
    ) -> dict[str, Array]:
        try:
            with self._lock:  # held from writing the inputs until the outputs are copied
                self._cancellation = cancellation
                return super()._run(arrays, targets)
        finally:
            self._give_back()

    def _execute(self, inputs: Sequence[Array]) -> Sequence[Array]:
        self._check_wanted()
        owned = [array for array, host in zip(inputs, self._inputs, strict=True) if host is None]
        if self._initialized_with is None or any(
            new is not old for new, old in zip(owned, self._initialized_with, strict=True)
        ):
            self._initialize(owned)
        for array, host in zip(inputs, self._inputs, strict=True):
            if host is not None:
                host.write(array)
        with _carrying_interruptions():
            self._native.execute(self._cancellation)
        self._check_wanted()
        self.stats.update(self._native.stats)
        return [host.read() for host in self._outputs]

    def _initialize(self, owned: Sequence[Array]) -> None:
        """Gives the owned inputs to DirectML, which keeps them in its persistent resource."""
        remaining = iter(owned)
        data = [slot.desc.pack(next(remaining)) if slot.desc.owned else None for slot in self.graph.inputs]
        self._initialized_with = None
        with _carrying_interruptions():
            self._native.initialize(data, self._cancellation)
        self._initialized_with = list(owned)

    def _check_wanted(self) -> None:
        if self._cancellation.cancelled:
            raise CancelledError("the run is cancelled", graph=self.graph.name)

    def close(self) -> None:
        super().close()
        self._give_back()

    def _give_back(self) -> None:
        """Frees what a closed executable holds: now, or after the current run."""
        if self._closed and self._lock.acquire(blocking=False):
            try:
                self._native.close()
                self._inputs, self._outputs = [], []  # they keep the memory alive
            finally:
                self._lock.release()


class _HostTensor:
    """A tensor in memory through which the processor and the device exchange it."""

    def __init__(self, slot: GraphInput | GraphOutput, memory: _native.HostTensor) -> None:
        self._desc = slot.desc
        self._bytes: Buffer = np.frombuffer(memoryview(memory), np.uint8)
        # A view of the elements; 4-bit types, two to a byte, must be packed and unpacked instead.
        self._elements = None if slot.desc.dtype.bits == 4 else slot.desc.unpack(self._bytes)

    def write(self, array: Array) -> None:
        if self._elements is None:
            self._bytes[...] = self._desc.pack(array)
        else:
            np.copyto(self._elements, array)

    def read(self) -> Array:
        """The elements, valid until the next run."""
        return self._desc.unpack(self._bytes) if self._elements is None else self._elements


def _native_graph(graph: GraphDesc) -> _native.GraphDesc:
    buffers = _buffer_bytes(graph)
    return _native.GraphDesc(
        graph.name,
        [(slot.name, slot.desc.total_bytes, slot.desc.owned) for slot in graph.inputs],
        [(slot.name, slot.desc.total_bytes) for slot in graph.outputs],
        [
            (node.name, node.data if isinstance(node, ConstantDescNode) else node.operator.native(buffers[index]))
            for index, node in enumerate(graph.nodes)
        ],
        [(edge.input, edge.to_node, edge.to_port) for edge in graph.input_edges],
        [(edge.from_node, edge.from_port, edge.output) for edge in graph.output_edges],
        [(edge.from_node, edge.from_port, edge.to_node, edge.to_port) for edge in graph.intermediate_edges],
    )


def _buffer_bytes(graph: GraphDesc) -> list[dict[int, int]]:
    """For each node the sizes in bytes of the buffers it reads, by port, if it reads only a part of them.

    DirectML gives a tensor's buffer the size that its first reader states, so all readers state the same size.
    """
    edit = DescEdit(graph)
    found: list[dict[int, int]] = [{} for _ in graph.nodes]
    if not edit.is_whole():
        return found
    for reader, value in edit.sources.items():
        desc, whole = edit.read_desc(reader), edit.desc(value).total_bytes
        if desc is not None and desc.total_bytes < whole:
            found[reader.node][reader.port] = whole
    return found


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


def _describe(adapter: _native.Adapter, level: FeatureLevel) -> str:
    memory = adapter.dedicated_bytes or adapter.shared_bytes
    return f"{adapter.name} ({adapter.kind}, {memory / 2**30:.1f} GiB), feature level {level}"


# ---- The adapters of this machine


@dataclass(frozen=True, slots=True)
class AdapterListing:
    """An adapter for `dmlgraph devices`: `missing` says why it cannot be used, and is None if it can."""

    name: str
    description: str
    missing: str | None = None


def list_adapters() -> list[AdapterListing]:
    """All adapters of this machine, the software adapter last."""
    try:
        runtime = load_runtime()
    except DmlGraphError as error:
        return [AdapterListing(FAMILY, "DirectML", str(error))]
    listings = []
    for index, adapter in enumerate(runtime.adapters):
        name = f"{FAMILY}:{SOFTWARE}" if adapter.kind == SOFTWARE else f"{FAMILY}:{index}"
        try:
            level = _level(_open_devices.open(runtime, adapter))
        except DmlGraphError as error:
            listings.append(AdapterListing(name, adapter.name, str(error)))
        else:
            listings.append(AdapterListing(name, _describe(adapter, level)))
    if not any(adapter.kind == SOFTWARE for adapter in runtime.adapters):
        description = "Direct3D 12 on the processor; only in a process that does not use another adapter"
        listings.append(AdapterListing(f"{FAMILY}:{SOFTWARE}", description))
    return listings


def find_hardware() -> tuple[DirectMLDevice | None, str]:
    """The first hardware adapter for DirectML and why it was chosen; or None and why none was found."""
    if not system_has_direct3d():
        return None, "the system does not have Direct3D 12"
    try:
        runtime = load_runtime()
        hardware = (index for index, adapter in zip(itertools.count(), runtime.adapters) if adapter.kind != SOFTWARE)
        index = next(hardware, None)
        if index is None:
            return None, "no hardware adapter was found"
        device = DirectMLDevice(str(index))
    except DmlGraphError as error:
        return None, str(error)
    return device, f"a hardware adapter: {device.description}"
