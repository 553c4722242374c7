"""`dmlgraph directml install`: it installs everything or nothing."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import stat
import struct
import sys
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dmlgraph.devices.directml import install as installer
from dmlgraph.devices.directml.errors import LibraryError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Windows has DirectML")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for one test."""
    monkeypatch.setenv("DMLGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def wheel(directml_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An offline wheel with the real library."""
    return make_wheel(tmp_path_factory.mktemp("wheel") / "torch_directml.whl", installed_library(directml_path))


def installed_library(path: Path) -> bytes:
    data = path.read_bytes()
    assert len(data) == installer.LINUX.library_bytes
    return data


def make_wheel(path: Path, library: bytes, compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr(installer.LINUX.licence, "the licence")
        archive.writestr(installer.LINUX.library, library)
    return path


def entries(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_installs_from_a_wheel(cache: Path, wheel: Path) -> None:
    done = installer.install(wheel)
    assert done == installer.Installed(installer.library_path(), already=False)
    assert done.path == cache / "directml" / installer.LINUX.version / "libdirectml.so"
    assert installer.is_intact(done.path)
    assert entries(done.path.parent) == ["LICENSE", "libdirectml.so"]
    assert (done.path.parent / "LICENSE").read_text(encoding="utf-8") == "the licence"


@pytest.mark.usefixtures("cache")
def test_second_time_nothing_is_done(wheel: Path) -> None:
    path = installer.install(wheel).path
    stamp = path.stat().st_mtime_ns
    assert installer.install("/nowhere.whl") == installer.Installed(path, already=True)
    assert path.stat().st_mtime_ns == stamp


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_all_of_the_cache_is_the_owners_alone(cache: Path, wheel: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        installer.install(wheel)
    finally:
        os.umask(before)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in [cache, *cache.rglob("*")]}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}


@pytest.mark.usefixtures("cache")
def test_a_library_that_others_may_write_to_is_replaced(wheel: Path) -> None:
    path = installer.install(wheel).path
    path.chmod(0o666)
    assert not installer.install(wheel).already
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.usefixtures("cache")
def test_a_named_pipe_in_the_place_of_the_library_is_replaced(wheel: Path) -> None:
    installer.folder().mkdir(parents=True)
    os.mkfifo(installer.library_path())
    assert not installer.install(wheel).already


@pytest.mark.usefixtures("cache")
def test_damaged_library_is_replaced(wheel: Path) -> None:
    path = installer.install(wheel).path
    with path.open("r+b") as file:
        file.seek(1_000_000)
        file.write(b"damage")
    assert not installer.is_intact(path)
    assert not installer.install(wheel).already
    assert installer.is_intact(path)


def test_interrupted_install_leaves_nothing_and_can_be_repeated(
    cache: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupt)
        with pytest.raises(KeyboardInterrupt):
            installer.install(wheel)
    assert entries(installer.folder()) == []
    assert not installer.install(wheel).already
    assert cache.exists()


@pytest.mark.usefixtures("cache")
def test_what_killed_tries_left_is_cleared_once_it_is_old(wheel: Path) -> None:
    abandoned, recent = (installer.folder() / f"partial-{name}" for name in ("old", "new"))
    for folder in (abandoned, recent):
        folder.mkdir(parents=True)
        (folder / "libdirectml.so").write_bytes(b"half")
    two_days_ago = time.time() - 2 * 24 * 3600
    os.utime(abandoned, (two_days_ago, two_days_ago))
    installer.install(wheel)
    assert entries(installer.folder()) == ["LICENSE", "libdirectml.so", "partial-new"]


@pytest.mark.usefixtures("cache")
def test_at_the_same_time(wheel: Path) -> None:
    results: list[Any] = []

    def work() -> None:
        try:
            results.append(installer.install(wheel).path)
        except Exception as error:
            results.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [installer.library_path()] * 4
    assert installer.is_intact(installer.library_path())
    assert entries(installer.folder()) == ["LICENSE", "libdirectml.so"]


@pytest.mark.usefixtures("cache")
class TestRefused:
    """Nothing is installed, and the error says why."""

    def refuse(self, wheel: Path, message: str) -> None:
        with pytest.raises(LibraryError, match=message):
            installer.install(wheel)
        assert not installer.library_path().exists()
        assert entries(installer.folder()) == []

    def test_other_library(self, tmp_path: Path) -> None:
        self.refuse(make_wheel(tmp_path / "w.whl", b"\x7fELF another"), "is not that of torch-directml")

    def test_other_wheel(self, tmp_path: Path) -> None:
        with zipfile.ZipFile(tmp_path / "w.whl", "w") as archive:
            archive.writestr("torch_directml/directml.dll", b"")
        self.refuse(tmp_path / "w.whl", "is not a wheel of torch-directml")

    def test_no_wheel(self, tmp_path: Path) -> None:
        (tmp_path / "w.whl").write_text("not a zip file", encoding="utf-8")
        self.refuse(tmp_path / "w.whl", "is not a wheel, or damaged")

    def test_cut_off_wheel(self, tmp_path: Path, wheel: Path) -> None:
        (tmp_path / "w.whl").write_bytes(wheel.read_bytes()[:1_000_000])
        self.refuse(tmp_path / "w.whl", "is not a wheel, or damaged")

    def test_damaged_wheel(self, tmp_path: Path, wheel: Path) -> None:
        data = bytearray(wheel.read_bytes())
        data[2_000_000] ^= 1
        (tmp_path / "w.whl").write_bytes(data)
        self.refuse(tmp_path / "w.whl", "damaged")

    def test_zip_bomb(self, tmp_path: Path) -> None:
        """4 GiB of zeros instead of the library: refused by the size that the wheel states, before it is unpacked."""
        wheel = make_wheel(tmp_path / "w.whl", b"\0" * 1000, zipfile.ZIP_DEFLATED)
        data = bytearray(wheel.read_bytes())
        entry = data.rindex(b"PK\1\2")
        data[entry + 24 : entry + 28] = (2**32 - 2).to_bytes(4, "little")
        wheel.write_bytes(data)
        self.refuse(wheel, "libdirectml.so in .*; got 4294967294 bytes; allowed: 33755840 bytes")

    def test_wheel_that_lies_of_its_size(self, tmp_path: Path) -> None:
        """The stream is longer than the wheel states: no more than the stated size is unpacked."""
        wheel = make_wheel(tmp_path / "w.whl", bytes(4 * installer.LINUX.library_bytes), zipfile.ZIP_DEFLATED)
        data = bytearray(wheel.read_bytes())
        entry = data.rindex(b"PK\1\2")
        data[entry + 24 : entry + 28] = installer.LINUX.library_bytes.to_bytes(4, "little")
        wheel.write_bytes(data)
        self.refuse(wheel, "is not a wheel, or damaged|is not the one")

    def test_directory_without_end(self, tmp_path: Path) -> None:
        """A wheel's list of files is read at once, so it must not be long."""
        end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 65535, 65535, 2**32 - 2, 0, 0)
        with (tmp_path / "w.whl").open("wb") as file:
            file.truncate(2**32)  # takes no space on the disk
            file.seek(0, os.SEEK_END)
            file.write(end)
        self.refuse(tmp_path / "w.whl", "is not a wheel of")

    @pytest.mark.parametrize("make", [getattr(os, "mkfifo", None), os.mkdir], ids=["a named pipe", "a folder"])
    def test_no_file(self, tmp_path: Path, make: Callable[[Path], None]) -> None:
        make(tmp_path / "w.whl")
        self.refuse(tmp_path / "w.whl", "cannot read .*w.whl: it is a (named pipe|folder), not a file")

    def test_missing_wheel(self, tmp_path: Path) -> None:
        self.refuse(tmp_path / "nowhere.whl", "does not exist")


def test_folder_that_cannot_be_made(tmp_path: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    monkeypatch.setenv("DMLGRAPH_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(LibraryError, match=r"cannot install DirectML into .*DMLGRAPH_CACHE_DIR"):
        installer.install(wheel)


@pytest.mark.usefixtures("cache")
def test_failed_download_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    with pytest.raises(LibraryError, match=r"pip could not download torch-directml .*--from"):
        installer.install()
    assert entries(installer.folder()) == []


@pytest.mark.parametrize(
    ("system", "machine", "expected"),
    [("linux", "x86_64", installer.LINUX), ("win32", "AMD64", installer.WINDOWS)],
)
def test_each_system_has_its_package(system: str, machine: str, expected: installer.Package) -> None:
    assert installer.package_for(system, machine) is expected
    assert expected.wheel_end in ("manylinux2010_x86_64.whl", "win_amd64.whl")


@pytest.mark.parametrize(
    ("system", "machine", "hint"),
    [
        ("linux", "aarch64", "graphs run on 'cpu'"),
        ("win32", "ARM64", "DMLGRAPH_DIRECTML"),
        ("darwin", "arm64", "'cpu'"),
    ],
)
def test_other_systems(system: str, machine: str, hint: str) -> None:
    with pytest.raises(LibraryError, match="for Linux and Windows on x86-64 only") as caught:
        installer.package_for(system, machine)
    assert caught.value.got == f"{system} on {machine}"
    assert hint in str(caught.value)


def test_windows_library_is_installed_from_its_wheel(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wheel of the form of onnxruntime-directml, with other bytes in it."""
    library = b"MZ" + bytes(1000)
    pinned = dataclasses.replace(
        installer.WINDOWS, library_bytes=len(library), library_sha256=hashlib.sha256(library).hexdigest()
    )
    monkeypatch.setattr(installer, "package", lambda: pinned)
    wheel = tmp_path / "onnxruntime_directml.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("onnxruntime/LICENSE", "MIT License")
        archive.writestr("onnxruntime/capi/DirectML.dll", library)
    done = installer.install(wheel)
    assert done.path == cache / "directml" / installer.WINDOWS.version / "DirectML.dll"
    assert done.path.read_bytes() == library
    assert done.licence.read_text("utf-8") == "MIT License"
    linux = make_wheel(tmp_path / "torch_directml.whl", library)
    done.path.unlink()
    with pytest.raises(LibraryError, match=r"is not a wheel of onnxruntime-directml .*ends in win_amd64.whl"):
        installer.install(linux)


def test_progress_lines_are_passed_on() -> None:
    told: list[tuple[int, int]] = []
    lines = ["Collecting torch-directml", "Progress 0 of 100", "Progress 100 of 100", "Saved ./a.whl"]
    kept = [line for line in lines if not installer._report(line, lambda done, total: told.append((done, total)))]
    assert told == [(0, 100), (100, 100)]
    assert kept == [lines[0], lines[3]]
