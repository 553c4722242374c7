"""What is written for MSVC in the CPU executor is C++: Clang reads it with MSVC's macros and extensions.

That is all that can be tried without Windows: MSVC itself, its library and the headers of Windows are not in this.
Clang's mode for MSVC cannot read MinGW's headers, which define away what Clang's intrinsics need.
"""

from __future__ import annotations

import pathlib
import shutil
import subprocess

import pytest

NATIVE = pathlib.Path(__file__).parents[2] / "native"
# In place of MSVC's: Clang's own declares these differently where it does not compile for Windows.
INTRINSICS = """\
#pragma once
#pragma push_macro("_MSC_VER")
#undef _MSC_VER
#include <immintrin.h>
#pragma pop_macro("_MSC_VER")
#undef _xgetbv
#define _xgetbv xgetbv_of_msvc
#define __cpuid cpuid_of_msvc
void __cpuid(int out[4], int leaf);
void __cpuidex(int out[4], int leaf, int subleaf);
unsigned long long _xgetbv(unsigned which);
"""
OF_ARM = {"half_arithmetic.cpp"}  # where levels are built only with compilers like GCC
AVX512 = ("-mavx2", "-mfma", "-mf16c", "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl")


@pytest.mark.skipif(shutil.which("clang++") is None, reason="clang++ is not installed")
@pytest.mark.parametrize(
    ("folder", "options"),
    [
        ("kernels", AVX512),  # the others know of no instruction set
        *((each, ()) for each in ("kernels", "plan", "products", "region", "runtime", "steps", "tensor", "windows")),
    ],
)
def test_the_code_for_msvc_is_read(folder: str, options: tuple[str, ...], tmp_path: pathlib.Path) -> None:
    (tmp_path / "intrin.h").write_text(INTRINSICS, encoding="utf-8")
    sources = sorted(path for path in (NATIVE / "cpu" / folder).glob("*.cpp") if path.name not in OF_ARM)
    every = tmp_path / "every.cpp"  # as the build compiles several as one
    every.write_text("".join(f'#include "{path}"\n' for path in sources), encoding="utf-8")
    command = ["clang++", "-fsyntax-only", "-std=c++20", "-fms-extensions", "-fdeclspec", "-include", "intrin.h"]
    paths = [f"-I{tmp_path}", f"-I{NATIVE}"]
    macros = ["-D_MSC_VER=1938", "-D_M_X64=100", "-DDMLGRAPH_LEVEL=baseline", "-DDMLGRAPH_X86_LEVELS"]
    done = subprocess.run(
        [*command, *paths, *macros, *options, every], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
