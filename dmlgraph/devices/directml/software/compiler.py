"""Compiles DXIL compute shaders, once per process and set of view formats."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import hashlib
import threading
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from dmlgraph.base.errors import plural
from dmlgraph.devices.directml.software import cache, codegen
from dmlgraph.devices.directml.software.container import read_module
from dmlgraph.devices.directml.software.errors import ShaderError
from dmlgraph.devices.directml.software.metadata import Description, describe
from dmlgraph.devices.directml.software.translate import Translation


@dataclasses.dataclass(frozen=True)
class Shader:
    """What is known of a shader before it is compiled to native code."""

    container: bytes
    description: Description
    shared_bytes: int
    accesses: tuple[int, ...]  # what it does with each range of the description: READS, WRITES


@dataclasses.dataclass(frozen=True)
class Kernel:
    """Native code of a shader for views of certain formats.

    `address` is a `void (SwView** views, const uint32_t grid[3], uint64_t first, uint64_t last, void* shared)`
    that runs the groups first <= i < last; `shared` points to `shared_bytes` bytes, 64-byte aligned, that belong to
    the calling thread.  It may be called from several threads at once, as long as this object lives.
    """

    shader: Shader
    address: int
    code: codegen.LoadedCode

    @property
    def shared_bytes(self) -> int:
        return self.shader.shared_bytes


class Statistics:
    """Counts what a compiler has done since it was made or reset; any thread may add to it."""

    NAMES = ("shaders_described", "kernels_compiled", "kernels_loaded", "compile_microseconds")  # loaded: from disk

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(self.NAMES, 0)

    def add(self, name: str, amount: int = 1) -> None:
        with self._lock:
            self._counts[name] += amount

    def reset(self) -> None:
        with self._lock:
            self._counts = dict.fromkeys(self.NAMES, 0)

    def snapshot(self) -> dict[str, int]:
        """The counts by name."""
        with self._lock:
            return dict(self._counts)


class Compiler:
    """Describes and compiles shaders, from any thread.

    Results and errors are kept for ever: a pipeline holds raw addresses, so its kernels must stay in memory.
    """

    def __init__(self) -> None:
        self.statistics = Statistics()
        self._shaders: _Once[bytes, Shader] = _Once()
        self._kernels: _Once[tuple[bytes, tuple[int, ...]], Kernel] = _Once()

    def describe(self, container: bytes) -> Shader:
        """What a shader declares.  Raises ShaderError, with the reason, if it cannot be compiled."""
        return self._shaders.get(hashlib.sha256(container).digest(), lambda: self._describe(container))

    def compile(self, container: bytes, formats: tuple[int, ...]) -> Kernel:
        """The kernel for views of these DXGI formats, one for each of the shader's ranges (0: not typed)."""
        shader = self.describe(container)
        ranges = shader.description.ranges
        if len(formats) != len(ranges):
            raise ShaderError(f"the shader has {plural(len(ranges), 'range')}, not {len(formats)}")
        # The formats of untyped ranges do not matter.
        wanted = tuple(number if each.typed else 0 for number, each in zip(formats, ranges, strict=True))
        digest = hashlib.sha256(container).digest()
        return self._kernels.get((digest, wanted), lambda: self._compile(shader, wanted))

    def _describe(self, container: bytes) -> Shader:
        module = read_module(container)
        description = describe(module.text)
        translation = Translation(module, description, [0] * len(description.ranges))
        translation.run()  # for its errors
        self.statistics.add("shaders_described")
        return Shader(container, description, translation.shared_bytes, tuple(translation.accesses))

    def _compile(self, shader: Shader, formats: tuple[int, ...]) -> Kernel:
        name = cache.key(shader.container, formats)
        kept = cache.read(name)
        if kept is not None:
            codegen.reserve(0)
            code = codegen.load(kept)
            self.statistics.add("kernels_loaded")
            return Kernel(shader, code.address, code)
        start = time.perf_counter_ns()
        translation = Translation(read_module(shader.container), shader.description, formats)
        text = translation.run()
        codegen.reserve(translation.instructions)
        native = codegen.object_code(text, codegen.effort_for(translation.instructions))
        code = codegen.load(native)
        self.statistics.add("kernels_compiled")
        self.statistics.add("compile_microseconds", (time.perf_counter_ns() - start) // 1000)
        cache.write(name, native)
        return Kernel(shader, code.address, code)


Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class _Once(Generic[Key, Value]):
    """Computes each value once, however many threads ask for it at the same time; the others wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._futures: dict[Key, concurrent.futures.Future[Value]] = {}

    def get(self, key: Key, make: Callable[[], Value]) -> Value:
        """Returns the value of a key, or raises the exception that computing it raised."""
        with self._lock:
            future = self._futures.get(key)
            first = future is None
            if future is None:
                future = self._futures[key] = concurrent.futures.Future()
        if first:
            try:
                future.set_result(make())
            except BaseException as error:
                if not isinstance(error, ShaderError):  # such as too little memory: may succeed next time
                    with self._lock:
                        del self._futures[key]
                future.set_exception(error)
        return future.result()
