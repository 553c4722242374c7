"""Systems without a GPU that works, as WSL2 may be, and systems without DXCore, as older Windows is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the libraries that stand in are built for Linux")
HERE = Path(__file__).parent
NATIVE = HERE.parents[2] / "native"


def build(source: Path, library: Path, *options: str | Path) -> Path:
    library.parent.mkdir(parents=True, exist_ok=True)
    named = ["-std=c++20", "-Wall", "-Wextra", "-shared", "-fPIC", f"-I{NATIVE}", f"-Wl,-soname,{library.name}"]
    done = subprocess.run(["g++", *named, source, *options, "-o", library], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return library


def run(script: str, directml_path: Path, **variables: str) -> list[str]:
    """The lines that a script prints in a process of its own."""
    environment = os.environ | {"DMLGRAPH_DIRECTML": str(directml_path), "LD_LIBRARY_PATH": ""}
    environment["DMLGRAPH_SOFTWARE_STRICT"] = "validation"
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], env=environment | variables, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


class TestWithoutGpu:
    """The system's libraries are tried and unloaded, so that DirectML finds the software adapter's."""

    SCRIPT = """
import numpy as np
import dmlgraph as dg
from dmlgraph.devices import choose, list_devices
from dmlgraph.devices.directml import library
library.SYSTEM_FOLDERS = ({folder!r},)
graph = dg.Graph()
x = graph.input("x", sizes=[2], dtype="float32")
graph.output("y", dg.add(x, x))
print(choose("auto").device.name, choose("auto").reason)
print([(each.name, each.missing) for each in list_devices() if each.name.startswith("directml")])
try:
    choose("directml")
except dg.DeviceError as error:
    print(type(error).__name__, error)
try:
    print(graph.compile(device="directml:software").run({{"x": np.ones(2, np.float32)}})["y"])
except dg.DeviceError as error:
    print(type(error).__name__, error)
print([line for line in open("/proc/self/maps") if {folder!r} in line])
"""

    def libraries(self, folder: Path, *options: str) -> Path:
        for name in ("libd3d12.so", "libdxcore.so"):
            build(HERE / "broken_direct3d.cpp", folder / name, *options)
        return folder

    @pytest.mark.parametrize(
        ("option", "problem"),
        [
            ("-DNO_FACTORY", "cannot list the adapters: DXCoreCreateAdapterFactory failed with E_NOINTERFACE"),
            ("-DNO_ADAPTER", "it has no adapter that can compute"),
            ("-DNO_DEVICE", "D3D12CreateDevice on "),
        ],
    )
    def test_software_adapter_works(self, tmp_path: Path, directml_path: Path, option: str, problem: str) -> None:
        folder = self.libraries(tmp_path / "system", option)
        auto, listed, refused, result, mapped = run(self.SCRIPT.format(folder=str(folder)), directml_path)
        message = f"the system's Direct3D 12 ({folder}/libd3d12.so) cannot be used: {problem}"
        assert auto.startswith(f"cpu auto: the embedded default, since {message}")
        assert "('directml:software', None)" in listed
        assert refused.startswith(f"AdapterError {message}")
        assert refused.endswith("('directml:software' needs no GPU)")
        assert result == "[2. 2.]"
        assert mapped == "[]"

    def test_libraries_that_cannot_be_unloaded(self, tmp_path: Path, directml_path: Path) -> None:
        folder = self.libraries(tmp_path / "system", "-DNO_ADAPTER", "-Wl,-z,nodelete")
        _, _, refused, software, _ = run(self.SCRIPT.format(folder=str(folder)), directml_path)
        assert refused.endswith("('directml:software' needs no GPU, in another process)")
        assert software.startswith("LibraryError the system's Direct3D 12 ")
        assert "was tried in this process and stays loaded" in software


class TestDxgi:
    """DXGI lists the adapters where there is no DXCore, and Direct3D 12 makes devices of its adapters."""

    SCRIPT = """
from dmlgraph import _native
from dmlgraph.devices.directml import library
from dmlgraph.devices.directml.software import adapter
from dmlgraph.devices.directml.errors import LibraryError
adapter.load()
directml, direct3d = library.find_directml().path, library.find_direct3d(software=True)
try:
    _native.Library.load(directml, direct3d.d3d12, "/nowhere/dxcore.so")
except LibraryError as error:
    print(error)
loaded = _native.Library.load(directml, direct3d.d3d12, "/nowhere/dxcore.so", {dxgi!r})
print(loaded.lists_by)
for found in loaded.adapters():
    print(ascii(found.name), found.kind, found.dedicated_bytes, found.shared_bytes, found.driver_version)
    device = _native.Device(loaded, found)
    print(hex(device.d3d12_level), device.supports(1))
"""

    def test_in_place_of_dxcore(self, tmp_path: Path, directml_path: Path) -> None:
        strictness = NATIVE / "software_adapter" / "strictness.cpp"
        dxgi = build(HERE / "dxgi.cpp", tmp_path / "libdxgi.so", strictness)
        strict = "core,validation;validation"
        lines = run(self.SCRIPT.format(dxgi=str(dxgi)), directml_path, DMLGRAPH_SOFTWARE_STRICT=strict)
        assert lines[0].startswith("cannot load /nowhere/dxcore.so")
        name = ascii("a\u00e4\u20ac\U0001f600\ufffdz")
        assert lines[1:] == [
            "DXGI",
            f"{name} gpu {3 << 30} {1 << 30} 31.0.10.7",
            "0x1000 True",
            f"{name} software 0 {1 << 30} 31.0.10.7",
            "0xb000 True",
        ]

    def test_dxcore_comes_first(self, directml_path: Path) -> None:
        script = """
from dmlgraph import _native
from dmlgraph.devices.directml import library
from dmlgraph.devices.directml.software import adapter
adapter.load()
direct3d = library.find_direct3d(software=True)
paths = (library.find_directml().path, direct3d.d3d12, direct3d.dxcore, "/nowhere/dxgi.so")
loaded = _native.Library.load(*paths)
print(loaded.lists_by, [found.kind for found in loaded.adapters()])
"""
        assert run(script, directml_path) == ["DXCore ['software']"]
