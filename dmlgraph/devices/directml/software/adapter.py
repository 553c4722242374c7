"""Loads the software Direct3D 12 adapter and gives it the shader compiler.

The libraries `libd3d12.so` and `libdxcore.so` are in this package.  DirectML finds them by name among the
libraries of the process, so `load` must be called before DirectML's own library is loaded.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from dmlgraph import _native
from dmlgraph.devices.directml import software
from dmlgraph.devices.directml.software import llvm
from dmlgraph.devices.directml.software.compiler import Compiler, Shader
from dmlgraph.devices.directml.software.errors import SoftwareAdapterError
from dmlgraph.devices.host.interrupts import keep

# An editable installation has more than one: the sources, and the built files.
FOLDERS = tuple(map(Path, software.__path__))
LIBRARIES = ("libd3d12.so", "libdxcore.so")

# The adapter's counters; those of the compiler are in compiler.Statistics.
ADAPTER_COUNTERS = ("dispatches", "bytes_copied", "pipelines_compiled", "fallible_calls", "live_objects")


# ---- The interface of the adapter, as in its shader_abi.h ----


class SwResourceRange(ctypes.Structure):
    """Registers that a shader declares."""

    _fields_ = [
        (name, ctypes.c_uint32) for name in ("resource_class", "access", "space", "lower", "count", "shape", "stride")
    ]


class SwShaderInfo(ctypes.Structure):
    """What `describe` reports about a shader."""

    _fields_ = [
        ("threads", ctypes.c_uint32 * 3),
        ("range_count", ctypes.c_uint32),
        ("ranges", ctypes.POINTER(SwResourceRange)),
    ]


class SwKernel(ctypes.Structure):
    """What `compile` returns: a function, and the bytes of group-shared memory that it needs."""

    _fields_ = [("function", ctypes.c_void_p), ("shared_bytes", ctypes.c_uint64)]


SwDescribe = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_uint64,
    ctypes.POINTER(SwShaderInfo),
    ctypes.c_void_p,
    ctypes.c_uint64,
)
SwCompile = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_uint64,
    ctypes.POINTER(ctypes.c_uint32),
    ctypes.POINTER(SwKernel),
    ctypes.c_void_p,
    ctypes.c_uint64,
)


# Their results.
DONE, FAILED, INTERRUPTED = 1, 0, -1


class Callbacks:
    """The two functions of a compiler that the adapter calls.

    They keep everything they return: the adapter uses the ranges and the kernels as long as the process lives.
    An exception that the shader did not cause (Ctrl-C, out of memory) is kept for the caller of the adapter.
    """

    def __init__(self, compiler: Compiler) -> None:
        self.compiler = compiler
        self._ranges: dict[Shader, ctypes.Array[SwResourceRange]] = {}
        self.describe = SwDescribe(self._describe)
        self.compile = SwCompile(self._compile)

    def _describe(self, dxbc: int, size: int, info: Any, error: int, error_size: int) -> int:
        def work() -> None:
            shader = self.compiler.describe(ctypes.string_at(dxbc, size))
            ranges = self._ranges.setdefault(shader, _native_ranges(shader))
            info[0] = SwShaderInfo(shader.description.threads, len(ranges), ranges)

        return max(FAILED, self._guarded(work, error, error_size))

    def _compile(self, dxbc: int, size: int, formats: Any, kernel: Any, error: int, error_size: int) -> int:
        def work() -> None:
            container = ctypes.string_at(dxbc, size)
            count = len(self.compiler.describe(container).description.ranges)
            compiled = self.compiler.compile(container, tuple(formats[place] for place in range(count)))
            kernel[0] = SwKernel(compiled.address, compiled.shared_bytes)

        return self._guarded(work, error, error_size)

    def _guarded(self, work: Callable[[], None], error: int, error_size: int) -> int:
        """Returns DONE; or FAILED or INTERRUPTED, and writes the exception of `work` to `error` as text.

        No exception may leave a callback: ctypes would print it and not tell the adapter.
        """
        try:
            work()
        except BaseException as reason:
            text = str(reason) or type(reason).__name__
            if error and error_size:
                data = text.encode()[: error_size - 1]
                ctypes.memmove(error, data + b"\0", len(data) + 1)
            if isinstance(reason, Exception) and not isinstance(reason, MemoryError):
                return FAILED
            keep(reason)
            return INTERRUPTED
        return DONE


def _native_ranges(shader: Shader) -> ctypes.Array[SwResourceRange]:
    ranges = shader.description.ranges
    return (SwResourceRange * len(ranges))(
        *(
            SwResourceRange(
                *(each.resource_class, access, each.space, each.lower),
                *(each.count, each.shape, each.stride),
            )
            for each, access in zip(ranges, shader.accesses, strict=True)
        )
    )


# ---- Python's side ----


class Adapter:
    """The adapter of this process."""

    def __init__(self, library: ctypes.CDLL, callbacks: Callbacks) -> None:
        self._library = library
        self._callbacks = callbacks
        # Daemon threads may call them while Python exits and frees its objects.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(callbacks))
        library.sw_strictness_error.argtypes = []
        library.sw_strictness_error.restype = ctypes.c_char_p
        for function in (library.sw_fault_error, library.sw_plant_fault):
            function.restype = ctypes.c_char_p
        library.sw_fault_error.argtypes = []
        library.sw_plant_fault.argtypes = [ctypes.c_char_p]
        library.sw_dispatched.argtypes = [ctypes.c_char_p, ctypes.c_uint64]
        library.sw_dispatched.restype = ctypes.c_uint64
        library.sw_set_compiler.argtypes = [SwDescribe, SwCompile]
        library.sw_set_compiler.restype = None
        library.sw_counter.argtypes = [ctypes.c_char_p]
        library.sw_counter.restype = ctypes.c_uint64
        library.sw_reset_counters.argtypes = []
        library.sw_reset_counters.restype = None
        library.sw_set_threads.argtypes = [ctypes.c_uint32]
        library.sw_set_threads.restype = None
        library.sw_suppress_dispatches.argtypes = [ctypes.c_int]
        library.sw_suppress_dispatches.restype = None
        library.sw_live_objects.argtypes = [ctypes.c_char_p, ctypes.c_uint64]
        library.sw_live_objects.restype = ctypes.c_uint64
        library.sw_use_helpers.argtypes = [ctypes.c_void_p]
        library.sw_use_helpers.restype = None
        library.sw_use_helpers(_native.cpu_helpers())
        library.sw_fail_call.argtypes = [ctypes.c_uint64, ctypes.c_int]
        library.sw_fail_call.restype = None
        library.sw_set_compiler(callbacks.describe, callbacks.compile)

    @property
    def environment_error(self) -> str | None:
        """What is wrong with DMLGRAPH_SOFTWARE_STRICT or DMLGRAPH_SOFTWARE_FAULT; None if nothing is."""
        text: bytes | None = self._library.sw_strictness_error() or self._library.sw_fault_error()
        return None if text is None else text.decode()

    @property
    def compiler(self) -> Compiler:
        """The adapter's shader compiler."""
        return self._callbacks.compiler

    def counters(self) -> dict[str, int]:
        """The counters of adapter and compiler, by name."""
        counted = {name: self._library.sw_counter(name.encode()) for name in ADAPTER_COUNTERS}
        return counted | self.compiler.statistics.snapshot()

    def reset_counters(self) -> None:
        """Resets the counters to 0, except `live_objects`."""
        self._library.sw_reset_counters()
        self.compiler.statistics.reset()

    def fail_call(self, number: int, *, removes_device: bool = False) -> None:
        """Makes one of the next calls that may fail do so, or lose its device: the first if `number` is 1; 0: none."""
        self._library.sw_fail_call(number, removes_device)

    def plant_fault(self, fault: str) -> None:
        """Makes dispatches compute wrongly, as DMLGRAPH_SOFTWARE_FAULT does; an empty text ends that.

        Raises:
            SoftwareAdapterError: the text does not say a fault.
        """
        text: bytes | None = self._library.sw_plant_fault(fault.encode())
        if text is not None:
            raise SoftwareAdapterError(text.decode())

    def dispatched(self, what: Literal["kernel", "shader"] = "kernel") -> list[str]:
        """The kernel or the shader of each dispatch of the last work that had any while a fault was planted, or logged.

        They are the numbers that `kernel=HEX` and `shader=HEX` take in a fault.
        """
        lines = self._text(self._library.sw_dispatched).splitlines()
        return [dict(word.split("=") for word in line.split())[what] for line in lines]

    def live_objects(self) -> list[tuple[str, str]]:
        """The type and the name of each existing object of Direct3D; a name is empty if there is none."""
        lines = self._text(self._library.sw_live_objects).splitlines()
        return [(kind, name) for kind, _, name in (line.partition("\t") for line in lines)]

    def _text(self, write: Callable[[ctypes.Array[ctypes.c_char] | None, int], int]) -> str:
        """What a function of the adapter writes."""
        text = ctypes.create_string_buffer(write(None, 0) + 4096)  # other threads may add to it in between
        write(text, len(text))
        return text.value.decode()

    def set_threads(self, count: int) -> None:
        """Sets how many threads run thread groups; 0 means one for each processor core."""
        if count < 0:
            raise ValueError(f"the number of threads must not be negative; got {count}")
        self._library.sw_set_threads(count)

    def suppress_dispatches(self, suppress: bool) -> None:
        """Makes dispatches do nothing, or work again: for tests that must fail without them."""
        self._library.sw_suppress_dispatches(suppress)


_lock = threading.Lock()


def load() -> Adapter:
    """The adapter; the first call loads it.

    Raises SoftwareAdapterError if llvmlite or one of the libraries is missing; a later call tries again.
    """
    with _lock:
        return _load()


@functools.cache  # must never be cleared: DirectML's pipelines hold addresses of kernels that the compiler keeps
def _load() -> Adapter:
    llvm.binding()
    libraries = [_open(find_library(name)) for name in LIBRARIES]
    adapter = Adapter(libraries[0], Callbacks(Compiler()))
    if adapter.environment_error is not None:
        raise SoftwareAdapterError(adapter.environment_error)
    return adapter


def find_library(name: str) -> Path:
    """The path of one of the adapter's libraries, even if it does not exist."""
    return next((folder / name for folder in FOLDERS if (folder / name).exists()), FOLDERS[0] / name)


def _open(path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise SoftwareAdapterError(
            f"the software adapter's library {path.name} cannot be loaded: {error}",
            hint="the wheels for Linux on x86-64 contain it; other systems do not have a software adapter",
        ) from error


def counters() -> dict[str, int]:
    """The counters of the adapter and its compiler, by name."""
    return load().counters()


def reset_counters() -> None:
    """Resets the counters to 0, except `live_objects`."""
    load().reset_counters()


def set_threads(count: int) -> None:
    """Sets how many threads run thread groups; 0 means one for each processor core."""
    load().set_threads(count)


def suppress_dispatches(suppress: bool) -> None:
    """Makes dispatches do nothing, or work again: for tests that must fail without them."""
    load().suppress_dispatches(suppress)
