"""Loads DirectML and the Direct3D 12 that it runs on, and lists the adapters."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from dmlgraph import _native
from dmlgraph.base.errors import Problem
from dmlgraph.base.report import Report
from dmlgraph.devices.directml.errors import AdapterError, LibraryError
from dmlgraph.devices.directml.library import Direct3D, Found, find_direct3d, find_directml, on_windows
from dmlgraph.devices.directml.versions import NEWER

FAMILY = "directml"  # names of devices: directml, directml:1, directml:software
SOFTWARE = "software"


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
        AdapterError: no adapter of the system works; nothing stays loaded then.
        SoftwareAdapterError: the software adapter is needed and llvmlite is missing.
    """
    directml = find_directml(library)
    direct3d = find_direct3d(software=software)
    if not on_windows():
        _check_system(direct3d)
    if direct3d.software:
        from dmlgraph.devices.directml.software import adapter  # needs llvmlite: imported only if it is used

        adapter.load()
    with Report(place=_with_remedy):
        loaded = _native.Library.load(directml.path, direct3d.d3d12, direct3d.dxcore, direct3d.dxgi)
    return Runtime(directml, direct3d, loaded, tuple(loaded.adapters()))


def _with_remedy(problem: Problem) -> Problem:
    """What to do about a library that cannot be loaded: there is Windows without DirectML, or with an old one."""
    hint = f"Windows 10 2004 and later have DirectML; {NEWER}"
    return replace(problem, hint=problem.hint or hint) if on_windows() else problem


# The system's Direct3D 12, once it has been tried: it works, or it does not work but cannot be unloaded.
_working: list[Direct3D] = []
_lingering: list[Direct3D] = []


def _check_system(direct3d: Direct3D) -> None:
    """Refuses the Direct3D 12 of a Linux system without an adapter that works, before DirectML is loaded."""
    if direct3d in _working:
        return
    if not direct3d.software:
        problem, stays = _native.Library.probe(direct3d.d3d12, direct3d.dxcore)
        if not problem:
            _working.append(direct3d)
            return
        if stays:
            _lingering.append(direct3d)
        raise AdapterError(
            f"the system's Direct3D 12 ({direct3d.d3d12}) cannot be used: {problem}",
            hint=f"'{FAMILY}:{SOFTWARE}' needs no GPU" + (", in another process" if stays else ""),
        )
    if _lingering:
        raise LibraryError(
            f"the system's Direct3D 12 ({_lingering[0].d3d12}) was tried in this process and stays loaded",
            hint=f"use '{FAMILY}:{SOFTWARE}' in a process that tries no other adapter",
        )
