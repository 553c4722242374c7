"""Finds DirectML's library and the Direct3D 12 that it runs on.

Search order: a path given in the program, the environment variable DMLGRAPH_DIRECTML, the library that `dmlgraph
directml install` fetched, an installed onnxruntime-directml, the system.  A path that the user gave is used or
refused, never skipped silently.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dmlgraph.base.errors import plural
from dmlgraph.devices.directml import install
from dmlgraph.devices.directml.errors import LibraryError
from dmlgraph.files.untrusted import open_file, reason

VARIABLE = "DMLGRAPH_DIRECTML"
SYSTEM = "the system"  # origins of a library
INSTALLED = "dmlgraph directml install"

# Where Linux systems keep the libraries of Direct3D 12: WSL2 first, then the usual folders.
SYSTEM_FOLDERS = ("/usr/lib/wsl/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib")


@dataclass(frozen=True, slots=True)
class FileNames:
    """The names of the libraries on a system."""

    directml: str
    d3d12: str
    dxcore: str
    dxgi: str | None = None


WINDOWS_NAMES = FileNames("DirectML.dll", "d3d12.dll", "dxcore.dll", "dxgi.dll")
LINUX_NAMES = FileNames("libdirectml.so", "libd3d12.so", "libdxcore.so")


def on_windows() -> bool:
    return sys.platform == "win32"


def file_names() -> FileNames:
    return WINDOWS_NAMES if on_windows() else LINUX_NAMES


@dataclass(frozen=True, slots=True)
class Found:
    """A library and where it comes from, as a phrase for the user."""

    path: Path
    origin: str


@dataclass(frozen=True, slots=True)
class Direct3D:
    """The Direct3D 12 libraries that DirectML runs on; `software`: they are this package's adapter.

    `dxgi` lists the adapters if there is no DXCore, as on Windows before version 2004.
    """

    d3d12: Path
    dxcore: Path
    software: bool
    dxgi: Path | None = None


def find_directml(explicit: str | os.PathLike[str] | None = None) -> Found:
    """The DirectML library to use.

    Args:
        explicit: a library, or a folder that contains one.

    Raises:
        LibraryError: no library was found, or the requested one is missing or damaged.
    """
    asked = [(explicit, "as given"), (os.environ.get(VARIABLE), f"the environment variable {VARIABLE}")]
    for path, origin in asked:
        if path:
            return _required(Path(path), origin)
    for path, origin in _places():
        if _exists(path):
            if origin == INSTALLED:
                install.check_installed()
            check_library(path)
            return Found(path, origin)
    if on_windows():
        return Found(Path(WINDOWS_NAMES.directml), SYSTEM)  # the system finds it by name
    raise LibraryError(
        "there is no DirectML library here",
        hint=f"'dmlgraph directml install' fetches it; {VARIABLE} names one that is elsewhere",
    )


def find_direct3d(*, software: bool = False) -> Direct3D:
    """The Direct3D 12 that DirectML runs on: the system's if it has one, else this package's adapter.

    Args:
        software: use the software adapter even if the system has Direct3D 12.  On Windows it is one of the
            system's adapters.

    Raises:
        LibraryError: the system has only one of the two libraries.
    """
    names = file_names()
    if on_windows():
        return Direct3D(Path(names.d3d12), Path(names.dxcore), software=False, dxgi=Path(str(names.dxgi)))
    if software or not system_has_direct3d():
        from dmlgraph.devices.directml.software.adapter import find_library  # on Linux only

        return Direct3D(find_library(names.d3d12), find_library(names.dxcore), software=True)
    d3d12, dxcore = _in_system(names.d3d12), _in_system(names.dxcore)
    if d3d12 is None or dxcore is None:
        raise LibraryError(
            f"the system has {d3d12}, but not {names.dxcore}",
            hint="install it, or run on 'directml:software', which needs neither",
        )
    return Direct3D(d3d12, dxcore, software=False)


def system_has_direct3d() -> bool:
    """Whether the system has Direct3D 12: Windows, WSL2."""
    return on_windows() or _in_system(LINUX_NAMES.d3d12) is not None


def _required(path: Path, origin: str) -> Found:
    if path.is_dir():
        path = path / file_names().directml
    if not _exists(path):
        raise LibraryError(f"the DirectML library {path} ({origin}) does not exist")
    check_library(path)
    return Found(path.resolve(), origin)


def _exists(path: Path) -> bool:
    """Whether a file of this name exists, or may exist because its status cannot be read."""
    try:
        return path.exists()
    except OSError:
        return True


def _places() -> Iterator[tuple[Path, str]]:
    """Candidate files, best first."""
    name = file_names().directml
    if on_windows():
        yield Path(__file__).parents[2] / name, "beside the package"
    with contextlib.suppress(LibraryError):  # there is none for this system
        yield install.library_path(), INSTALLED
    onnxruntime = importlib.util.find_spec("onnxruntime")  # looks for the package without importing it
    for folder in (onnxruntime and onnxruntime.submodule_search_locations) or ():
        yield Path(folder) / "capi" / name, "onnxruntime-directml"
    system = None if on_windows() else _in_system(name)
    if system is not None:
        yield system, SYSTEM


def _in_system(name: str) -> Path | None:
    """A library of a Linux system, from the folders of the dynamic loader and WSL2's folder of Direct3D 12."""
    folders = [*os.environ.get("LD_LIBRARY_PATH", "").split(":"), *SYSTEM_FOLDERS]
    candidates = (Path(folder) / name for folder in folders if folder)
    return next((path for path in candidates if path.exists()), None)


# ---- Is a file a complete library? Loading a truncated one can end the process with a bus error.

_ELF_HEADER = struct.Struct("<4sBBBBB7xHHIQQQIHHHHHH")
_ELF_64_BIT, _ELF_LITTLE_ENDIAN = 2, 1
_ELF_SHARED_OBJECT, _ELF_X86_64 = 3, 62


def check_library(path: Path) -> None:
    """Refuses a file that is not a library for this machine, or is truncated.

    Raises:
        LibraryError: with what is wrong with it.
    """
    if on_windows():
        return  # the loader of Windows checks this itself
    hint = "'dmlgraph directml install' fetches it again"
    try:
        with open_file(path) as file:
            size = os.fstat(file.fileno()).st_size
            start = file.read(_ELF_HEADER.size)
    except OSError as error:
        raise LibraryError(f"cannot read {path}: {reason(error)}") from None
    if not start.startswith(b"\x7fELF"):
        raise LibraryError(f"{path} is not a library", hint=hint)
    if len(start) < _ELF_HEADER.size:
        raise LibraryError(f"{path} is damaged: it ends after {plural(size, 'byte')}", hint=hint)
    header = _ELF_HEADER.unpack(start)
    bits, order, kind, machine = header[1], header[2], header[6], header[7]
    sections, section_size, section_count = header[11], header[16], header[17]
    if (bits, order, kind, machine) != (_ELF_64_BIT, _ELF_LITTLE_ENDIAN, _ELF_SHARED_OBJECT, _ELF_X86_64):
        raise LibraryError(f"{path} is not a library for x86-64 Linux")
    whole = sections + section_size * section_count  # the table of sections is the last thing in the file
    if size < whole:
        raise LibraryError(f"{path} is damaged: {size} of {whole} bytes are there", hint=hint)
