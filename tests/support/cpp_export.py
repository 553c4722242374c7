"""Compiles what is exported as C++, and runs it in this process, where the software adapter has its shader compiler.

The program of a folder is made a library, whose `main` is called: by their names it finds Direct3D 12 and DirectML
among the libraries of the process.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import dmlgraph as dg
from dmlgraph.base.file_names import FileNames
from dmlgraph.devices.directml.runtime import load_runtime
from dmlgraph.formats.arrays import from_stored, to_stored

Array = np.ndarray[Any, Any]

INCLUDE = pathlib.Path(os.environ.get("DMLGRAPH_DIRECTX_INCLUDE", "/usr/include"))
SOURCES = ("graph.cpp", "compiling.cpp", "recording.cpp")
HEADERS = ("directx/DirectML.h", "directx/d3d12.h", "wsl/winadapter.h")
MINGW = "x86_64-w64-mingw32-g++-posix"
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Werror")
FOLDERS = tuple(f"-isystem{INCLUDE / name}" for name in (".", "directx", "wsl/stubs"))


def missing() -> str | None:
    """Why exported C++ cannot be compiled and run here; None if it can."""
    if sys.platform != "linux":
        return "the programs run on the software adapter, which is for Linux"
    if shutil.which("g++") is None:
        return "g++ is not installed"
    absent = [name for name in HEADERS if not (INCLUDE / name).exists()]
    if absent:
        return f"{INCLUDE} has no {', '.join(absent)}: install directx-headers-dev 1.614 or newer"
    return None


def require() -> None:
    """Skips a test that cannot compile and run exported C++."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)


def compiled(command: Sequence[str], cwd: pathlib.Path) -> None:
    """Runs a compiler, which must have nothing to say."""
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=cwd)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), done.stdout + done.stderr


class Program:
    """The program of an exported folder, made a library."""

    def __init__(
        self,
        folder: pathlib.Path,
        name: str = "main",
        *,
        options: Sequence[str] = WARNINGS,
        graphs: Sequence[str] = (".",),
    ) -> None:
        self.folder = folder
        library = folder / f"lib{name}.so"
        sources = [*(f"{graph}/{source}" for graph in graphs for source in SOURCES), f"{name}.cpp"]
        # Libraries of two graphs with one name must not share tables.
        options = ("-std=c++17", "-fPIC", "-shared", "-fno-gnu-unique", *options)
        compiled(["g++", *options, *FOLDERS, *sources, "-o", library.name, "-ldl"], folder)
        load_runtime(software=True)
        self.library = ctypes.CDLL(str(library))

    def __call__(self, *arguments: object) -> tuple[int, str]:
        """The exit status of the program, and what it prints."""
        words = [b"program", *(str(each).encode() for each in arguments)]
        values = (ctypes.c_char_p * (len(words) + 1))(*words, None)
        with tempfile.TemporaryFile() as printed:
            with _redirected(printed.fileno()):
                status = int(self.library.main(len(words), values))
            printed.seek(0)
            return status, printed.read().decode()

    def run(self, graph: dg.Graph, inputs: Mapping[str, Array], *, steps: int = 1) -> dict[str, Array]:
        """The outputs of a graph; several steps have a new first axis, as `collect` of `Executable.run`."""
        given, results = self.folder / "in", self.folder / "out"
        words = []
        for folder in (given, results):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        for index, node in enumerate(graph.inputs):
            file = given / f"{index}.npy"
            np.save(file, to_stored(np.asarray(inputs[node.name], order="C"), node.desc.dtype))
            words.append(f"{node.name}={file}")
        weights = self.folder / "weights.bin"
        status, text = self("--weights", weights, "--steps", steps, "-o", results, *words)
        assert status == 0, text
        names = FileNames()
        return {
            name: from_stored(np.load(results / f"{names.take(name)}.npy"), value.desc.dtype)
            for name, value in graph.outputs.items()
        }


@contextlib.contextmanager
def _redirected(target: int) -> Iterator[None]:
    """Sends what the process prints to a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(number) for number in (1, 2)]
    try:
        for number in (1, 2):
            os.dup2(target, number)
        yield
    finally:
        for number, before in zip((1, 2), kept, strict=True):
            os.dup2(before, number)
            os.close(before)


def assert_same_bits(got: Mapping[str, Array], expected: Mapping[str, Array]) -> None:
    """Asserts that outputs have the same elements, bit for bit."""
    assert list(got) == list(expected)
    for name, array in expected.items():
        assert (got[name].dtype, got[name].shape) == (array.dtype, array.shape), name
        assert got[name].tobytes() == np.ascontiguousarray(array).tobytes(), name
