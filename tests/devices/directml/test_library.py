"""Which libraries are used: the order of folders, the system's Direct3D 12, libraries that are damaged or too old."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import dmlgraph
from dmlgraph.devices.directml import install, library
from dmlgraph.devices.directml.errors import LibraryError

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="about Linux libraries")
HERE = Path(__file__).parent
NATIVE = HERE.parents[2] / "native"


def elf(path: Path, *, machine: int = 62, sections: int = 0, magic: bytes = b"\x7fELF") -> Path:
    """The header of an empty library."""
    path.parent.mkdir(parents=True, exist_ok=True)
    ident = magic + bytes([2, 1, 1]) + bytes(9)
    path.write_bytes(ident + struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 0, 64, 0, 64, 0, 0, 64, sections, 0))
    return path


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """A library in every folder that is searched, by the folder's name."""
    name = library.file_names().directml
    monkeypatch.setenv("DMLGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("DMLGRAPH_DIRECTML", str(tmp_path / "variable" / name))
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    monkeypatch.setattr(library, "SYSTEM_FOLDERS", (str(tmp_path / "system"),))
    monkeypatch.delitem(sys.modules, "onnxruntime", raising=False)
    monkeypatch.syspath_prepend(tmp_path / "packages")
    (tmp_path / "packages" / "onnxruntime").mkdir(parents=True)
    (tmp_path / "packages" / "onnxruntime" / "__init__.py").write_text(
        "raise ImportError('is never imported')", encoding="utf-8"
    )
    return {
        "as given": elf(tmp_path / "given" / name),
        "the environment variable DMLGRAPH_DIRECTML": elf(tmp_path / "variable" / name),
        "dmlgraph directml install": elf(install.library_path()),
        "onnxruntime-directml": elf(tmp_path / "packages" / "onnxruntime" / "capi" / name),
        "the system": elf(tmp_path / "system" / name),
    }


def pin(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the installed library the one that is expected."""
    pinned = dataclasses.replace(install.package(), library_sha256=hashlib.sha256(path.read_bytes()).hexdigest())
    monkeypatch.setattr(install, "package", lambda: pinned)


@linux_only
def test_places_in_their_order(places: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    installed = places["dmlgraph directml install"]
    pin(installed, monkeypatch)
    explicit: Path | None = places["as given"]
    for origin, path in places.items():
        assert library.find_directml(explicit) == library.Found(path, origin)
        if origin.startswith("the environment"):
            monkeypatch.delenv("DMLGRAPH_DIRECTML")
        if explicit is not None:
            explicit = None
        elif not origin.startswith("the environment"):
            path.unlink()
    with pytest.raises(LibraryError, match=r"there is no DirectML library here .*dmlgraph directml install"):
        library.find_directml()


@linux_only
def test_path_may_be_a_folder(places: dict[str, Path]) -> None:
    path = places["as given"]
    assert library.find_directml(path.parent) == library.Found(path, "as given")


@linux_only
def test_what_was_asked_for_is_never_passed_over(places: dict[str, Path]) -> None:
    places["as given"].unlink()
    with pytest.raises(LibraryError, match=r"given/libdirectml.so .as given. does not exist"):
        library.find_directml(places["as given"])
    places["the environment variable DMLGRAPH_DIRECTML"].unlink()
    with pytest.raises(LibraryError, match=r"variable/libdirectml.so .the environment variable"):
        library.find_directml()


@linux_only
class TestDamagedLibrary:
    """The damage is found before the library is loaded: half a library would end the process."""

    def test_cut_off(self, tmp_path: Path, directml_path: Path) -> None:
        data = directml_path.read_bytes()
        cut = tmp_path / "libdirectml.so"
        cut.write_bytes(data[: len(data) // 2])
        with pytest.raises(LibraryError, match=rf"is damaged: {len(data) // 2} of {len(data)} bytes are there"):
            library.find_directml(cut)

    @pytest.mark.parametrize("size", [0, 3, 10])
    def test_nearly_empty(self, tmp_path: Path, size: int) -> None:
        path = tmp_path / "libdirectml.so"
        path.write_bytes(b"\x7fELF\x02\x01\x01\0\0\0"[:size])
        with pytest.raises(LibraryError, match=r"is not a library|is damaged"):
            library.find_directml(path)

    def test_no_library(self, tmp_path: Path) -> None:
        with pytest.raises(LibraryError, match=r"is not a library .*dmlgraph directml install"):
            library.find_directml(elf(tmp_path / "libdirectml.so", magic=b"MZ\0\0"))

    def test_for_another_machine(self, tmp_path: Path) -> None:
        with pytest.raises(LibraryError, match="is not a library for x86-64 Linux"):
            library.find_directml(elf(tmp_path / "libdirectml.so", machine=183))


@linux_only
class TestInstalledLibrary:
    """The library that `directml install` fetched is checked by its digest; a library that the user names is not."""

    @pytest.fixture
    def installed(self, places: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> Path:
        path = places["dmlgraph directml install"]
        monkeypatch.delenv("DMLGRAPH_DIRECTML")
        pin(path, monkeypatch)
        return path

    def test_one_damaged_byte_is_a_message(self, installed: Path) -> None:
        assert library.find_directml().path == installed
        data = bytearray(installed.read_bytes())
        data[-1] ^= 1
        installed.write_bytes(data)
        for _ in range(2):  # and stays one
            with pytest.raises(LibraryError, match=r"is damaged: .*; got SHA-256 .*; allowed: .*directml install"):
                library.find_directml()

    def test_the_bytes_are_read_once(self, installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        library.find_directml()
        read: list[Path] = []
        digest = install._sha256

        def noted(path: Path) -> str | None:
            read.append(path)
            return digest(path)

        monkeypatch.setattr(install, "_sha256", noted)
        assert library.find_directml().path == installed
        assert read == []
        os.utime(installed, (0, 0))
        assert library.find_directml().path == installed
        assert read == [installed]

    def test_a_library_that_was_put_in_its_place_is_a_message(self, installed: Path, tmp_path: Path) -> None:
        """It has the same size and time, but another inode."""
        library.find_directml()
        status = installed.stat()
        other = tmp_path / "other"
        other.write_bytes(installed.read_bytes()[:-1] + b"x")
        os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
        other.replace(installed)
        with pytest.raises(LibraryError, match="is damaged"):
            library.find_directml()

    def test_a_library_that_the_user_names_is_taken_as_it_is(self, installed: Path) -> None:
        installed.write_bytes(installed.read_bytes() + b"mine")
        assert library.find_directml(installed).path == installed

    @pytest.mark.parametrize("make", [getattr(os, "mkfifo", None), os.mkdir], ids=["a named pipe", "a folder"])
    def test_something_else_in_its_place(self, installed: Path, make: Callable[[Path], None]) -> None:
        installed.unlink()
        make(installed)
        with pytest.raises(LibraryError, match=r"cannot use|is damaged"):
            library.find_directml()
        with pytest.raises(LibraryError, match=r"cannot read|does not exist"):
            library.find_directml(installed)

    def test_others_may_write_to_it(self, installed: Path) -> None:
        installed.chmod(0o666)
        with pytest.raises(LibraryError, match=r"others may write to the file .*directml install"):
            library.find_directml()

    def test_others_may_write_above_the_cache(self, installed: Path, tmp_path: Path) -> None:
        tmp_path.chmod(0o777)
        with pytest.raises(LibraryError, match=f"others may write to the folder {tmp_path} "):
            library.find_directml()
        tmp_path.chmod(0o1777)  # sticky: nobody can remove another user's files
        assert library.find_directml().path == installed


@linux_only
def test_a_damaged_library_does_not_end_the_process(directml_path: Path, tmp_path: Path) -> None:
    """Its header is right, so the loader would accept it."""
    path = tmp_path / "cache" / "directml" / install.LINUX.version / "libdirectml.so"
    path.parent.mkdir(parents=True)
    data = bytearray(directml_path.read_bytes())
    data[4096:2_000_000] = bytes(2_000_000 - 4096)
    path.write_bytes(data)
    printed = in_process(DMLGRAPH_CACHE_DIR=str(tmp_path / "cache"), DMLGRAPH_DIRECTML="")
    assert printed.startswith(f"LibraryError {path} is damaged")


@linux_only
class TestDirect3D:
    """The system's if it has one, as WSL2 does, else this package's."""

    @pytest.fixture
    def system(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setattr(library, "SYSTEM_FOLDERS", (str(tmp_path / "lib"),))
        monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
        return tmp_path / "lib"

    def test_plain_linux(self, system: Path) -> None:
        found = library.find_direct3d()
        assert found.software
        assert found.d3d12.exists()
        assert found.dxcore.exists()
        assert not library.system_has_direct3d()
        assert not system.exists()

    def test_system_with_direct3d(self, system: Path) -> None:
        d3d12, dxcore = elf(system / "libd3d12.so"), elf(system / "libdxcore.so")
        assert library.find_direct3d() == library.Direct3D(d3d12, dxcore, software=False)
        assert library.find_direct3d(software=True).software

    def test_search_path_of_the_loader_comes_first(self, system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        elf(system / "libd3d12.so")
        monkeypatch.setenv("LD_LIBRARY_PATH", f":{system.parent / 'mine'}:")
        d3d12, dxcore = (elf(system.parent / "mine" / name) for name in ("libd3d12.so", "libdxcore.so"))
        assert library.find_direct3d() == library.Direct3D(d3d12, dxcore, software=False)

    def test_half_of_it(self, system: Path) -> None:
        elf(system / "libd3d12.so")
        with pytest.raises(LibraryError, match=r"not libdxcore.so .*directml:software"):
            library.find_direct3d()


class TestWindows:
    """The choice of paths for Windows, which has its own loader."""

    @pytest.fixture(autouse=True)
    def windows(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(library, "on_windows", lambda: True)
        monkeypatch.setattr(install, "package", lambda: install.WINDOWS)
        monkeypatch.setenv("DMLGRAPH_CACHE_DIR", str(tmp_path / "cache"))
        monkeypatch.delenv("DMLGRAPH_DIRECTML", raising=False)

    def test_direct3d_is_the_systems(self) -> None:
        for software in (False, True):
            found = library.find_direct3d(software=software)
            assert found == library.Direct3D(Path("d3d12.dll"), Path("dxcore.dll"), False, Path("dxgi.dll"))

    def test_directml_beside_the_package(self) -> None:
        path, origin = next(library._places())
        assert (path, origin) == (Path(dmlgraph.__file__).parent / "DirectML.dll", "beside the package")

    def test_installed_directml_comes_next(self, monkeypatch: pytest.MonkeyPatch) -> None:
        path = install.library_path()
        assert path.name == "DirectML.dll"
        path.parent.mkdir(parents=True)
        path.write_bytes(b"MZ")
        with pytest.raises(LibraryError, match=r"DirectML.dll is damaged: .*of onnxruntime-directml"):
            library.find_directml()
        pin(path, monkeypatch)
        assert library.find_directml() == library.Found(path, library.INSTALLED)

    def test_directml_of_onnxruntime(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delitem(sys.modules, "onnxruntime", raising=False)
        monkeypatch.syspath_prepend(tmp_path)
        (tmp_path / "onnxruntime" / "capi").mkdir(parents=True)
        (tmp_path / "onnxruntime" / "__init__.py").touch()
        path = tmp_path / "onnxruntime" / "capi" / "DirectML.dll"
        path.touch()
        assert library.find_directml() == library.Found(path, "onnxruntime-directml")

    def test_directml_of_the_system(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
        assert library.find_directml() == library.Found(Path("DirectML.dll"), "the system")


# ---- In separate processes, because a process can load only one set of libraries

OPEN = """
from dmlgraph.devices.directml import library
from dmlgraph.devices.directml.device import DirectMLDevice
{setup}
try:
    device = DirectMLDevice({choice!r})
    {use}
except Exception as error:
    print(type(error).__name__, error)
"""


def in_process(
    use: str = "print(device.description)", *, choice: str = "software", setup: str = "", **variables: str
) -> str:
    """The output of a new process that opens a device and uses it."""
    code = OPEN.format(choice=choice, use=use, setup=setup)
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], env=os.environ | variables, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, f"exit status {done.returncode}: {done.stderr}"
    return done.stdout.strip()


@linux_only
def test_system_libraries_are_loaded(tmp_path: Path, directml_path: Path) -> None:
    """As on WSL2: libraries of the system under DirectML's own name for them, none of this package."""
    ours = library.find_direct3d(software=True)
    for path in (ours.d3d12, ours.dxcore):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    printed = in_process(
        "print(device.runtime.direct3d.software, open('/proc/self/maps').read())",
        choice="0",
        setup=f"library.SYSTEM_FOLDERS = ({str(tmp_path)!r},)",
        DMLGRAPH_DIRECTML=str(directml_path),
        LD_LIBRARY_PATH="",
    )
    assert printed.startswith("False ")
    mapped = {line.split()[-1] for line in printed.splitlines() if ".so" in line}
    assert {path for path in mapped if Path(path).name in ("libd3d12.so", "libdxcore.so")} == {
        str(tmp_path / "libd3d12.so"),
        str(tmp_path / "libdxcore.so"),
    }


@linux_only
def test_one_set_of_libraries_a_process(tmp_path: Path, directml_path: Path) -> None:
    other = tmp_path / "libdirectml.so"
    other.write_bytes(directml_path.read_bytes())
    printed = in_process(f"DirectMLDevice('software', library={str(other)!r})", DMLGRAPH_DIRECTML=str(directml_path))
    assert printed.startswith("LibraryError this process already uses")
    assert "use a separate process" in printed


@linux_only
def test_library_that_cannot_be_loaded(tmp_path: Path) -> None:
    path = elf(tmp_path / "libdirectml.so")
    assert in_process(DMLGRAPH_DIRECTML=str(path)).startswith(f"LibraryError cannot load {path}: ")


@linux_only
def test_failed_load_can_be_repeated(tmp_path: Path, directml_path: Path) -> None:
    path = elf(tmp_path / "libdirectml.so")
    printed = in_process(
        setup=(
            "from dmlgraph.devices.directml.errors import LibraryError\n"
            f"try: DirectMLDevice('software', library={str(path)!r})\n"
            "except LibraryError as error: print('first', error)"
        ),
        DMLGRAPH_DIRECTML=str(directml_path),
    )
    first, second = printed.splitlines()
    assert first.startswith("first cannot load")
    assert "feature level" in second


@pytest.fixture(scope="session")
def old_library(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Versions of DirectML that are too old, by how old they are."""
    built = {}
    for macro in ("OLDEST", "WITHOUT_GRAPHS", "WITH_GRAPHS"):
        built[macro] = tmp_path_factory.mktemp(macro) / "libdirectml.so"
        command = ["g++", "-std=c++20", "-shared", "-fPIC", f"-I{NATIVE}", f"-D{macro}"]
        subprocess.run([*command, str(HERE / "old_directml.cpp"), "-o", str(built[macro])], check=True)
    return built


@linux_only
class TestOldLibrary:
    """It is refused with advice, or used as far as it can be."""

    def test_without_feature_levels(self, old_library: dict[str, Path]) -> None:
        path = old_library["OLDEST"]
        printed = in_process(DMLGRAPH_DIRECTML=str(path))
        missing = f"LibraryError {path} does not have the function DMLCreateDevice1; "
        assert printed == missing + "it is a different library or too old"

    def test_without_graphs(self, old_library: dict[str, Path]) -> None:
        path = old_library["WITHOUT_GRAPHS"]
        assert in_process(DMLGRAPH_DIRECTML=str(path)) == (
            f"LibraryError {path} supports only feature level 2.0; "
            "graphs need DirectML 1.2 (feature level 2.1) or newer ('dmlgraph directml install' fetches a newer one)"
        )

    def test_level_is_the_librarys(self, old_library: dict[str, Path]) -> None:
        printed = in_process("print(device.level)", DMLGRAPH_DIRECTML=str(old_library["WITH_GRAPHS"]))
        assert printed == "5.0"

    def test_permissions_reach_the_compiler(self, old_library: dict[str, Path]) -> None:
        """As DML_EXECUTION_FLAGS: 1 allows half precision, 2 disables metacommands."""
        use = """
import dmlgraph as dg
graph = dg.Graph(target="5.0")
graph.output("y", dg.exp(graph.input("x", sizes=[2], dtype="float32")))
for permissions in ({}, {"metacommands": False}, {"half_precision": True, "metacommands": False}):
    try:
        graph.compile("directml:software", **permissions)
    except dg.DeviceError as error:
        print(error.call, flush=True)
"""
        printed = in_process(f"exec({use!r})", DMLGRAPH_DIRECTML=str(old_library["WITH_GRAPHS"]))
        # What is refused is compiled again, to find the nodes.
        told = list(dict.fromkeys(printed.splitlines()))
        assert told == ["flags 0", "CompileGraph", "flags 2", "flags 3"]

    def test_constant_nodes_below_their_level(self, old_library: dict[str, Path]) -> None:
        use = (
            "from dmlgraph import _native; "
            "native = _native.Device(device.runtime.library, device.adapter); "
            "graph = _native.GraphDesc('g', [], [('y', 4, 'back')], [('k', bytes(4))], [], [(0, 0, 0)], []); "
            "_native.Executable(native, graph)"
        )
        printed = in_process(use, DMLGRAPH_DIRECTML=str(old_library["WITH_GRAPHS"]))
        assert printed == "FeatureLevelError graph 'g': node 'k': constant nodes need DirectML feature level 6.2"


@linux_only
def test_missing_llvmlite(directml_path: Path) -> None:
    printed = in_process(setup="import sys; sys.modules['llvmlite'] = None", DMLGRAPH_DIRECTML=str(directml_path))
    assert "llvmlite" in printed
    assert "pip install" in printed


@pytest.mark.skipif(sys.platform != "linux", reason="Linux lists the files of a process")
def test_files_in_use_are_told(directml_path: Path) -> None:
    """What is told is what the process has loaded."""
    from dmlgraph.devices.directml.runtime import load_runtime

    told = [path for path, version in load_runtime(software=True, library=directml_path).library.files]
    assert [path.name for path in told] == ["libdirectml.so", "libd3d12.so", "libdxcore.so"]
    mapped = Path("/proc/self/maps").read_text(encoding="utf-8")
    assert all(str(path.resolve()) in mapped for path in told)


def in_a_process(code: str) -> str:
    """What a process prints that has loaded no library yet."""
    command = [sys.executable, "-P", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=True, timeout=300).stdout


def test_a_directml_that_cannot_be_loaded_on_windows_has_a_remedy(tmp_path: Path) -> None:
    """On Windows itself there is none under Wine, and the real one is not found by this name."""
    name = elf(tmp_path / "none.dll")
    told = in_a_process(
        "from dmlgraph.devices.directml import runtime\n"
        "from dmlgraph.devices.directml.errors import LibraryError\n"
        "runtime.on_windows = lambda: True\n"
        "try:\n"
        f"    runtime.load_runtime(library={str(name)!r})\n"
        "except LibraryError as error:\n"
        "    print(error)\n"
    )
    assert "none.dll" in told
    assert "'dmlgraph directml install' fetches a newer one" in told
    if sys.platform == "win32":
        assert "(Windows error " in told


@linux_only
@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
def test_adapters_that_cannot_be_listed_are_told_with_the_result(directml_path: Path, tmp_path: Path) -> None:
    source, dxcore = tmp_path / "dxcore.cpp", tmp_path / "libdxcore.so"
    source.write_text('extern "C" int DXCoreCreateAdapterFactory(...) { return 0x80070005; }\n', "utf-8")
    subprocess.run(["g++", "-shared", "-fPIC", "-w", "-o", dxcore, source], check=True, timeout=300)
    told = in_a_process(
        "from pathlib import Path\n"
        "from dmlgraph import _native\n"
        "from dmlgraph.devices.directml.library import find_direct3d\n"
        "d3d12 = find_direct3d(software=True).d3d12\n"
        "from dmlgraph.devices.directml.software import adapter\n"
        "adapter.load()\n"
        "try:\n"
        f"    _native.Library.load(Path({str(directml_path)!r}), d3d12, Path({str(dxcore)!r})).adapters()\n"
        "except Exception as error:\n"
        "    print(error)\n"
    )
    assert "cannot list the adapters: DXCoreCreateAdapterFactory failed with E_ACCESSDENIED (0x80070005)" in told
