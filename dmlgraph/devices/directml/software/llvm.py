"""The one place that imports llvmlite, which has no type stubs and is an optional dependency."""

from __future__ import annotations

import dataclasses
import functools
import re
from typing import Any

from dmlgraph.devices.directml.software.errors import SoftwareAdapterError

# LLVM's text changes between releases: its flags, annotations and coroutine intrinsics.  `text.py` and its tests
# support these releases; pyproject.toml requires the same ones.
LLVMLITE = (0, 44), (0, 51)  # the first supported release, and the first newer one that is not supported


@dataclasses.dataclass(frozen=True)
class Dialect:
    """What a release of LLVM writes in its own way.

    Attributes:
        coroutine_end: where a coroutine with the handle %sw.handle ends.
        lacking: functions of the C library that are no intrinsics yet.
        typed_pointers: whether pointers have types unless a context says otherwise.
    """

    coroutine_end: str
    lacking: frozenset[str] = frozenset()
    typed_pointers: bool = False


# By LLVM's release: that of llvmlite 0.44, that of 0.45 to 0.47, and that of 0.48 to 0.50.
DIALECTS = {
    15: Dialect(
        "%sw.ended = call i1 @llvm.coro.end(ptr %sw.handle, i1 false)",
        lacking=frozenset(("tan", "acos", "asin", "atan", "cosh", "sinh", "tanh")),
        typed_pointers=True,
    ),
    20: Dialect("%sw.ended = call i1 @llvm.coro.end(ptr %sw.handle, i1 false, token none)"),
    22: Dialect("call void @llvm.coro.end(ptr %sw.handle, i1 false, token none)"),
}


def lacking() -> SoftwareAdapterError | None:
    """The error to raise if llvmlite is missing or its release is not supported; None if it is usable."""
    try:
        import llvmlite
    except ImportError:
        return SoftwareAdapterError(
            "the software adapter compiles shaders with llvmlite, which is not installed",
            hint="pip install llvmlite",
        )
    release = tuple(map(int, re.findall(r"\d+", llvmlite.__version__)[:2]))
    if not LLVMLITE[0] <= release < LLVMLITE[1]:
        return SoftwareAdapterError(
            f"the software adapter does not support llvmlite {llvmlite.__version__}",
            allowed=f"{_dotted(LLVMLITE[0])} or newer, older than {_dotted(LLVMLITE[1])}",
            hint=f"pip install '{requirement()}'",
        )
    return None


def requirement() -> str:
    """The requirement to pass to pip."""
    oldest, unknown = map(_dotted, LLVMLITE)
    return f"llvmlite>={oldest},<{unknown}"


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


@functools.cache
def binding() -> Any:
    """`llvmlite.binding`, ready to generate code for this machine.

    Raises SoftwareAdapterError if llvmlite is missing or not supported, or the processor does not have F16C.
    """
    unfit = lacking()
    if unfit is not None:
        raise unfit
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    if not llvm.get_host_cpu_features().get("f16c", True):
        raise SoftwareAdapterError(
            "the software adapter needs a processor that converts half-precision numbers (F16C); this one does not",
            hint="use device='cpu'",
        )
    # Generated code calls the C math library, which may not be loaded yet.
    llvm.load_library_permanently("libm.so.6")
    return llvm


def dialect() -> Dialect:
    """What the LLVM of this process writes in its own way."""
    return DIALECTS[binding().llvm_version_info[0]]


def context() -> Any:
    """A new context of modules, in which pointers have no types."""
    if not dialect().typed_pointers:
        return binding().create_context()
    # create_context() asks a variable of the environment, which decides for all users of llvmlite, such as numba.
    from llvmlite.binding import ffi
    from llvmlite.binding.context import ContextRef

    return ContextRef(ffi.lib.LLVMPY_ContextCreate(True))


@dataclasses.dataclass(frozen=True)
class Host:
    """The processor that code is generated for, in LLVM's terms."""

    cpu: str
    features: str
    llvm_version: str


@functools.cache
def host() -> Host:
    """This machine's processor."""
    llvm = binding()
    return Host(
        llvm.get_host_cpu_name(),
        llvm.get_host_cpu_features().flatten(),
        ".".join(map(str, llvm.llvm_version_info)),
    )


def target_machine(codegen_level: int) -> Any:
    """A new target machine of this host: an execution engine takes ownership of the one it is given."""
    target = binding().Target.from_default_triple()
    machine = host()
    return target.create_target_machine(cpu=machine.cpu, features=machine.features, opt=codegen_level, jit=True)


@functools.cache
def data_layout() -> Any:
    """The sizes and alignments of types on this host."""
    return binding().create_target_data(str(target_machine(0).target_data))
