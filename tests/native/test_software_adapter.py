"""The software adapter without DirectML: the checks in software_adapter/, run one by one.

The libraries under test are those installed beside `dmlgraph.devices.directml.software`, or else ones built here.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dmlgraph.devices.directml.software

ROOT = Path(__file__).parents[2]
ADAPTER = ROOT / "native" / "software_adapter"
CHECKS = Path(__file__).parent / "software_adapter"
INSTALLED = [Path(folder) for folder in dmlgraph.devices.directml.software.__path__]  # of an editable one: two folders
LIBRARIES = ("libd3d12.so", "libdxcore.so")
FLAGS = ["-std=c++20", "-O1", "-Wall", "-Wextra", f"-I{ROOT / 'native'}", "-pthread"]

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.uname().machine != "x86_64", reason="the adapter is for Linux on x86-64"
)

CHECK_NAMES = [
    name
    for source in sorted(CHECKS.glob("*.cpp"))
    for name in re.findall(r"^(?:ADAPTER|STRICT)_CHECK\((\w+)", source.read_text(encoding="utf-8"), re.M)
]


def compile_with_gxx(*arguments: str | Path) -> None:
    command = ["g++", *FLAGS, *map(str, arguments)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def build_libraries(folder: Path) -> None:
    """Builds the two libraries as CMakeLists.txt does."""
    shared = ["-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-z,nodelete", "-DDMLGRAPH_SOFTWARE_ADAPTER"]
    sources = [source for source in sorted(ADAPTER.glob("*.cpp")) if source.name != "dxcore.cpp"]
    runtime = ADAPTER.parent / "cpu" / "runtime"
    sources += [runtime / name for name in ("processors.cpp", "quota.cpp", "thread_pool.cpp")]
    dxcore = [ADAPTER / name for name in ("dxcore.cpp", "log.cpp", "strictness.cpp")]
    symbols = f"-Wl,--version-script={ADAPTER / 'd3d12.map'}"
    compile_with_gxx(*shared, "-Wl,-soname,libd3d12.so", symbols, *sources, "-o", folder / "libd3d12.so")
    compile_with_gxx(*shared, "-Wl,-soname,libdxcore.so", *dxcore, "-o", folder / "libdxcore.so")


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with libd3d12.so, libdxcore.so, libchecks.so and the program `checks`.

    It is made once for all workers of a run, which share the parent of their temporary folders.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "software_adapter"
    folder.mkdir(exist_ok=True)
    done = folder / "done"
    with open(folder / "lock", "w", encoding="utf-8") as lock:
        import fcntl  # POSIX only

        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            libraries = [each / name for each in INSTALLED for name in LIBRARIES if (each / name).exists()]
            if len(libraries) == len(LIBRARIES):
                for library in libraries:
                    shutil.copy(library, folder)
            else:
                build_libraries(folder)
            link = [f"-L{folder}", "-ld3d12", "-ldxcore", "-Wl,-rpath,$ORIGIN"]
            sources = sorted(CHECKS.glob("*.cpp"))
            compile_with_gxx(*sources, "-o", folder / "checks", *link)
            compile_with_gxx("-fPIC", "-shared", CHECKS / "harness.cpp", "-o", folder / "libchecks.so", *link)
            done.touch()
    return folder


def run_check(built: Path, name: str) -> str:
    """Runs a check and returns what it wrote on stderr."""
    done = subprocess.run([built / "checks", name], check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.parametrize("name", CHECK_NAMES)
def test_check(built: Path, name: str) -> None:
    run_check(built, name)


def test_every_check_is_known(built: Path) -> None:
    listed = subprocess.run([built / "checks"], capture_output=True, text=True, check=True).stdout.split()
    assert sorted(listed) == sorted(CHECK_NAMES)
    assert len(listed) > 40
    assert subprocess.run([built / "checks", "no such check"], check=False).returncode == 2


def test_a_missing_method_is_named_once(built: Path) -> None:
    lines = run_check(built, "not_implemented").splitlines()
    assert sorted(lines) == [
        "dmlgraph software adapter: not implemented: ID3D12Device::CreateGraphicsPipelineState",
        "dmlgraph software adapter: not implemented: ID3D12Device::CreateSampler",
        "dmlgraph software adapter: not implemented: ID3D12GraphicsCommandList::DrawInstanced",
    ]


def test_a_refused_shader_is_explained(built: Path) -> None:
    log = run_check(built, "refused_pipelines")
    assert "creating a pipeline: unknown intrinsic dx.op.waveMystery" in log
    assert "creating a pipeline: the root signature has no t0, space0" in log
    assert "creating a pipeline: no compiler is registered" in log


def test_a_lost_device_says_why(built: Path) -> None:
    log = run_check(built, "kernel_that_cannot_be_compiled")
    assert "device removed (0x887a0020): compiling a kernel: this shader is too hard" in log
    log = run_check(built, "impossible_views")
    assert "elements 0 to 257 of 4 bytes are not all in a buffer of 1024 bytes" in log


def test_exported_symbols(built: Path) -> None:
    """No internal C++ symbol is exported, and DirectML finds its functions in version VER_1."""
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", built / "libd3d12.so"], capture_output=True, text=True, check=True
    ).stdout
    symbols = {line.split()[-1] for line in listing.splitlines()}
    assert {"D3D12CreateDevice@@VER_1", "D3D12SerializeVersionedRootSignature@@VER_1"} <= symbols
    assert all(symbol.startswith(("D3D12", "sw_", "VER_1")) for symbol in symbols)
    for library in ("libd3d12.so", "libdxcore.so"):
        header = subprocess.run(["readelf", "-d", built / library], capture_output=True, text=True, check=True).stdout
        assert re.search(rf"SONAME.*\[{re.escape(library)}\]", header)


def test_layout_of_the_shader_interface(tmp_path: Path) -> None:
    """The structs that Python mirrors have the sizes and offsets of the header."""
    source = tmp_path / "layout.cpp"
    source.write_text(
        """
        #include <cstddef>
        #include "software_adapter/shader_abi.h"
        static_assert(sizeof(SwResourceRange) == 28);
        static_assert(sizeof(SwView) == 32 && offsetof(SwView, size) == 8 && offsetof(SwView, stride) == 16 &&
                      offsetof(SwView, format) == 20 && offsetof(SwView, resource) == 24);
        static_assert(sizeof(SwShaderInfo) == 24 && offsetof(SwShaderInfo, ranges) == 16);
        static_assert(sizeof(SwKernel) == 16 && offsetof(SwKernel, shared_bytes) == 8);
        """,
        encoding="utf-8",
    )
    compile_with_gxx("-c", source, "-o", tmp_path / "layout.o")


PYTHON_COMPILER = """
import ctypes, sys, threading
folder = sys.argv[1]
d3d12 = ctypes.CDLL(folder + "/libd3d12.so", mode=ctypes.RTLD_GLOBAL)
checks = ctypes.CDLL(folder + "/libchecks.so")
checks.native_kernel.restype = ctypes.c_void_p
d3d12.sw_counter.restype = ctypes.c_uint64

class Range(ctypes.Structure):
    names = ["resource_class", "access", "space", "lower", "count", "shape", "stride"]
    _fields_ = [(name, ctypes.c_uint32) for name in names]
class Info(ctypes.Structure):
    _fields_ = [("threads", ctypes.c_uint32 * 3), ("range_count", ctypes.c_uint32),
                ("ranges", ctypes.POINTER(Range))]
class Kernel(ctypes.Structure):
    _fields_ = [("function", ctypes.c_void_p), ("shared_bytes", ctypes.c_uint64)]
ranges = (Range * 1)(Range(1, 3, 0, 0, 1, 11, 0))
threads = []

@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(Info),
                  ctypes.c_void_p, ctypes.c_uint64)
def describe(data, size, info, error, error_size):
    assert ctypes.string_at(data, size) == b"count_groups"
    info[0] = Info((1, 1, 1), 1, ranges)
    return 1

@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(ctypes.c_uint32),
                  ctypes.POINTER(Kernel), ctypes.c_void_p, ctypes.c_uint64)
def compile_kernel(data, size, formats, kernel, error, error_size):
    threads.append(threading.current_thread())
    assert formats[0] == 0
    kernel[0] = Kernel(checks.native_kernel(), 16)
    return 1

d3d12.sw_set_compiler(describe, compile_kernel)
# Four threads, each with a device. While they run, ctypes gives up the interpreter's lock; the callbacks take it.
workers = [threading.Thread(target=checks.count_with_registered_compiler) for _ in range(4)]
for worker in workers: worker.start()
for worker in workers: worker.join()
print(d3d12.sw_counter(b"kernels_compiled"), threading.main_thread() in threads, d3d12.sw_counter(b"live_objects"))
"""


def test_compiler_in_python(built: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", PYTHON_COMPILER, built],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stderr == ""
    assert done.stdout.split() == ["4", "False", "0"]
