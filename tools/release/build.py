"""Compiles the native code for a platform: the kernels once, and a module for each release of CPython."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Iterable, Mapping

from release import headers
from release.platforms import WINDOWS, Platform

ROOT = pathlib.Path(__file__).parents[2]

# Links in checks would need libraries of C++ for each platform before anything is compiled.
_TOOLCHAIN = """\
set(CMAKE_SYSTEM_NAME {cmake})
set(CMAKE_SYSTEM_PROCESSOR {arch})
set(CMAKE_CXX_COMPILER {zig})
set(CMAKE_CXX_COMPILER_ARG1 c++)
set(CMAKE_CXX_COMPILER_TARGET {target})
set(CMAKE_CXX_ARCHIVE_CREATE "{zig} ar qc <TARGET> <LINK_FLAGS> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_FINISH "{zig} ranlib <TARGET>")
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_CXX_SCAN_FOR_MODULES OFF)
"""

# zig adds frames, and debug information, which takes time and is stripped, and gives Clang -O2 for every -O3.
_FLAGS = "-g0 -ffile-prefix-map={root}=. -ffile-prefix-map={folder}=build"
_KERNELS = "SHELL:-Xclang -O3;-momit-leaf-frame-pointer"


def compiled(platform: Platform, pythons: Mapping[str, pathlib.Path], folder: pathlib.Path, jobs: int) -> None:
    """Compiles all binaries of a platform's wheels.

    Args:
        pythons: the headers of each release of CPython.
        folder: where they are made; what is there and up to date is kept.
    """
    import pybind11
    import ziglang

    folder.mkdir(parents=True, exist_ok=True)
    zig = pathlib.Path(ziglang.__file__).parent / "zig"
    names = {
        "cmake": platform.system.cmake, "arch": platform.arch, "zig": zig, "target": platform.zig,
    }  # fmt: skip
    (folder / "toolchain.cmake").write_text(_TOOLCHAIN.format(**names), encoding="utf-8")
    defined = {
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_TOOLCHAIN_FILE": folder / "toolchain.cmake",
        "CMAKE_CXX_FLAGS": _FLAGS.format(root=ROOT, folder=folder),
        "CMAKE_SHARED_LINKER_FLAGS": f"-s {platform.system.flags}",  # no symbols
        "CMAKE_MODULE_LINKER_FLAGS": f"-s {platform.system.flags}",
        "DMLGRAPH_KERNEL_OPTIONS": _KERNELS,
        "DMLGRAPH_MODULE_OPTIONS": platform.system.module,
        "pybind11_DIR": pybind11.get_cmake_dir(),
        "DMLGRAPH_PYTHONS": ";".join(pythons),
    }
    for python, include in pythons.items():
        defined[f"DMLGRAPH_PYTHON_{python}_HEADERS"] = include
        if platform.system is WINDOWS:
            defined[f"DMLGRAPH_PYTHON_{python}_LIBRARY"] = headers.import_library(python, platform.arch, include)
    # The compiler's own cache: it compiles the C++ library for each platform once.
    cache = str(folder.parent / "zig")
    environment = os.environ | {"ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache}
    options = [f"-D{name}={value}" for name, value in defined.items()]
    configure = ["cmake", "-S", str(ROOT / "native"), "-B", str(folder), "-G", "Ninja", *options]
    for command in (configure, ["ninja", "-C", str(folder), f"-j{jobs}"]):
        subprocess.run(command, check=True, env=environment, stdout=sys.stderr)


def binaries(platform: Platform, python: str, folder: pathlib.Path) -> Iterable[tuple[str, pathlib.Path]]:
    """The compiled files of a wheel, and where they are in it."""
    (module,) = (folder / f"python{python}").glob("_native.*")
    yield f"dmlgraph/_native{platform.text(platform.system.suffix, python)}", module
    if platform.has_adapter:
        for name in ("libd3d12.so", "libdxcore.so"):
            yield f"dmlgraph/devices/directml/software/{name}", folder / "software_adapter" / name
