"""`dmlgraph directml install`: fetches Microsoft's DirectML library into the user's cache.

The library comes from a wheel that Microsoft publishes under the MIT licence: torch-directml for Linux,
onnxruntime-directml for Windows.  dmlgraph contains no part of it.  pip downloads the wheel, its SHA-256 is compared
with a pinned one, and the library is put into place completely or not at all: an earlier attempt may have been
interrupted, and others may run at the same time.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dmlgraph.base.errors import plural
from dmlgraph.devices.directml.errors import LibraryError
from dmlgraph.devices.host.cache_folder import check_private, make_private, user_cache_folder
from dmlgraph.files.untrusted import NotAFileError, open_file, reason, what_failed


@dataclass(frozen=True, slots=True)
class Package:
    """A wheel with a DirectML library.  The library is the same in the wheels for all versions of Python.

    Attributes:
        project, version: its name and version in the package index.
        wheel_sha256: the digest of the wheel that pip downloads: that of `tags`.
        tags: pip's options that select the wheel.
        library: the path of the library in the wheel.
        library_sha256, library_bytes: its digest and size.
        licence: the path of its licence in the wheel.
    """

    project: str
    version: str
    wheel_sha256: str
    tags: Mapping[str, str]
    library: str
    library_sha256: str
    library_bytes: int
    licence: str

    @property
    def library_name(self) -> str:
        return self.library.rpartition("/")[2]

    @property
    def wheel_end(self) -> str:
        """What the names of its wheels end with."""
        return f"{self.tags['platform']}.whl"


LINUX = Package(  # DirectML 1.13
    project="torch-directml",
    version="0.2.5.dev240914",
    wheel_sha256="6afb675585d30018c813e5ba203a3437073748919af8ab3e910092a0e0ec531f",
    tags={"python-version": "3.11", "implementation": "cp", "abi": "cp311", "platform": "manylinux2010_x86_64"},
    library="torch_directml/libdirectml.so",
    library_sha256="fd54a8c578630f62a31d6d971d1f7e758e8497df8afccefe5efb1517d791692c",
    library_bytes=33_755_840,
    licence="torch_directml-0.2.5.dev240914.dist-info/LICENSE",
)
WINDOWS = Package(  # DirectML 1.15.4
    project="onnxruntime-directml",
    version="1.24.4",
    wheel_sha256="f2ecb68b7b7b259d2ef3112ae760149f9b5a1e7c0fbb73d539da6250a648a614",
    tags={"python-version": "3.12", "implementation": "cp", "abi": "cp312", "platform": "win_amd64"},
    library="onnxruntime/capi/DirectML.dll",
    library_sha256="b73972115320e906a49602f2027a3266622881b0d325ba685e0f165a9482a8d7",
    library_bytes=18_527_776,
    licence="onnxruntime/LICENSE",
)
_PACKAGES = {("linux", "x86_64"): LINUX, ("win32", "amd64"): WINDOWS}


def package() -> Package:
    """The package for this system.

    Raises:
        LibraryError: this system has no library to install.
    """
    return package_for(sys.platform, platform.machine())


def package_for(system: str, machine: str) -> Package:
    """The package for a `sys.platform` and a `platform.machine()`; raises LibraryError as `package`."""
    found = _PACKAGES.get((system, machine.lower()))
    if found is None:
        raise LibraryError(
            "there is a library to install for Linux and Windows on x86-64 only",
            code="install",
            got=f"{system} on {machine}",
            hint="DMLGRAPH_DIRECTML names a library that is elsewhere" if system == "win32" else "graphs run on 'cpu'",
        )
    return found


# The end of a zip file: signature, four counts, size and offset of the directory, length of the comment.
_END_SIGNATURE = b"PK\5\6"
_END = struct.Struct("<4s4H2LH")

_LICENCE = "LICENSE"  # the name of its file
_PARTIAL = "partial-"  # prefix of the folders that installations work in
_ABANDONED_SECONDS = 24 * 3600
_CHUNK_BYTES = 1 << 20
_LICENCE_BYTES = 1 << 20  # at most
_DIRECTORY_BYTES = 1 << 20  # at most, of a wheel's file list; those of these packages have some kilobytes

Progress = Callable[[int, int], None]
"""Called with the bytes downloaded so far and the total bytes while the wheel is downloaded."""


@dataclass(frozen=True, slots=True)
class Installed:
    """Where the library and its licence are; `already`: they were there before this call."""

    path: Path
    already: bool

    @property
    def licence(self) -> Path:
        return self.path.with_name(_LICENCE)


_ELSEWHERE = "DMLGRAPH_CACHE_DIR names another folder"


def folder() -> Path:
    """Where the library is installed.

    Raises:
        LibraryError: there is no library for this system, or no folder for it.
    """
    try:
        return user_cache_folder() / "directml" / package().version
    except OSError as error:
        message = f"there is no folder to install DirectML into: {reason(error)}"
        raise LibraryError(message, code="install", hint=_ELSEWHERE) from None


def library_path() -> Path:
    """The library's path once it is installed; raises as `folder`."""
    return folder() / package().library_name


def install(from_file: str | os.PathLike[str] | None = None, *, progress: Progress | None = None) -> Installed:
    """Installs the library, unless it is already there and intact.

    Args:
        from_file: a wheel of `package()` on this machine, for any version of Python; by default pip downloads one.
        progress: called with the progress of the download.

    Raises:
        LibraryError: there is no library for this system, the download failed, the wheel is a different one or
            damaged, or the folder cannot be written.
    """
    path = library_path()
    with contextlib.suppress(OSError):
        check_private(path)
        if is_intact(path):
            if from_file is not None:
                _check_wheel(Path(from_file))
            return Installed(path, already=True)
    try:
        make_private(folder())
        _remove_abandoned()
        with tempfile.TemporaryDirectory(prefix=_PARTIAL, dir=folder(), ignore_cleanup_errors=True) as work:
            wheel = Path(from_file) if from_file is not None else _download(Path(work), progress)
            _unpack(wheel, Path(work))
            _remember(path)
    except OSError as error:
        raise LibraryError(
            f"cannot install DirectML into {folder()}: {what_failed(error)}",
            code="install",
            hint=_ELSEWHERE,
        ) from error
    return Installed(path, already=False)


def is_intact(path: Path) -> bool:
    """Whether a library is exactly the one that `install` fetches."""
    return _sha256(path) == package().library_sha256


def check_installed() -> None:
    """Refuses the library in the cache if it is not exactly the one that `install` puts there.

    Its bytes are read only if its size, time or inode have changed since the last check.

    Raises:
        LibraryError: it is damaged or a different one, or others may write to it or to its folders.
    """
    path = library_path()
    hint = "'dmlgraph directml install' fetches it again"
    try:
        check_private(path)
        if _remembered(path):
            return
        found = _sha256(path)
    except OSError as error:
        raise LibraryError(f"cannot use {path}: {reason(error)}", code="install", hint=hint) from None
    source = package()
    if found != source.library_sha256:
        raise LibraryError(
            f"{path} is damaged: it is not the library of {source.project} {source.version}",
            code="install",
            got=f"SHA-256 {found}" if found else None,
            allowed=f"SHA-256 {source.library_sha256}",
            hint=hint,
        )
    with contextlib.suppress(OSError):  # if the cache cannot be written, the bytes are read again next time
        _remember(path)


def _remembered(path: Path) -> bool:
    """Whether the library is unchanged since its bytes were last checked."""
    with contextlib.suppress(OSError), open_file(_checked_path()) as file:
        check_private(_checked_path())
        return file.read(_CHUNK_BYTES) == _identity(path)
    return False


def _remember(path: Path) -> None:
    """Records the identity of the library whose bytes were checked."""
    with tempfile.NamedTemporaryFile(dir=_checked_path().parent, delete=False) as file:
        file.write(_identity(path))
    os.replace(file.name, _checked_path())


def _checked_path() -> Path:
    return folder().with_name(f"{package().version}.checked")


def _identity(path: Path) -> bytes:
    """The expected digest, and the file's status fields that change when the file changes."""
    status = path.stat()
    return f"{package().library_sha256} {status.st_size} {status.st_mtime_ns} {status.st_ino}\n".encode()


def _remove_abandoned() -> None:
    """Removes the folders that killed installations left behind."""
    for left in folder().glob(f"{_PARTIAL}*"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > _ABANDONED_SECONDS:
                shutil.rmtree(left, ignore_errors=True)


def _check_wheel(wheel: Path) -> None:
    """Refuses a file that is not a wheel, also where no wheel is needed.

    Raises:
        LibraryError: it is another kind of file.
    """
    with contextlib.suppress(OSError), open_file(wheel) as file:
        if not zipfile.is_zipfile(file):
            source = package()
            allowed = f"the wheel of {source.project} {source.version}, whose name ends in {source.wheel_end}"
            raise LibraryError(f"{wheel} is not a wheel, or damaged", code="install", allowed=allowed)


def _unpack(wheel: Path, work: Path) -> None:
    """Extracts library and licence from a wheel, checks the library, and moves both into place.

    The sizes that the wheel states are checked before anything is unpacked, and no more than that is unpacked.
    """
    source = package()
    version = f"{source.project} {source.version}"
    not_this = LibraryError(
        f"{wheel} is not a wheel of {version} for this system",
        code="install",
        hint=f"its name ends in {source.wheel_end}",
    )
    try:
        with open_file(wheel) as file:
            if _directory_bytes(file) > _DIRECTORY_BYTES:
                raise not_this
            with zipfile.ZipFile(file) as archive:
                members = {
                    archive.getinfo(source.licence): range(1, _LICENCE_BYTES + 1),
                    archive.getinfo(source.library): range(source.library_bytes, source.library_bytes + 1),
                }
                for member, sizes in members.items():
                    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                        raise not_this
                    if member.file_size not in sizes:
                        raise LibraryError(
                            f"{member.filename} in {wheel} is not that of {version}",
                            code="install",
                            got=plural(member.file_size, "byte"),
                            allowed=f"{sizes[-1]} bytes" if len(sizes) == 1 else f"up to {sizes[-1]} bytes",
                        )
                for member in members:
                    _extract(archive, member, work / Path(member.filename).name)
    except FileNotFoundError:
        raise LibraryError(f"the file {wheel} does not exist", code="install") from None
    except NotAFileError as error:
        raise LibraryError(f"cannot read {wheel}: {reason(error)}", code="install") from None
    except KeyError:
        raise not_this from None
    except (zipfile.BadZipFile, EOFError, zlib.error, NotImplementedError, RuntimeError, ValueError) as error:
        raise LibraryError(f"{wheel} is not a wheel, or damaged: {error}", code="install") from None
    _move_into_place(wheel, work)


def _move_into_place(wheel: Path, work: Path) -> None:
    """Moves licence and library from a wheel into place, if the library is the one that is pinned."""
    source = package()
    name = source.library_name
    found = _sha256(work / name)
    if found != source.library_sha256:
        raise LibraryError(
            f"the {name} in {wheel} is not that of {source.project} {source.version}",
            code="install",
            got=f"SHA-256 {found}",
            allowed=f"SHA-256 {source.library_sha256}",
        )
    for each in (_LICENCE, name):  # the library last: it completes the installation
        os.replace(work / each, folder() / each)


def _extract(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> None:
    """Extracts one file of a wheel, no more bytes than it states, and flushes it to disk."""
    with archive.open(member) as source, path.open("wb") as target:
        path.chmod(0o600)  # whatever the umask
        while chunk := source.read(_CHUNK_BYTES):
            target.write(chunk)
        target.flush()
        os.fsync(target.fileno())


def _directory_bytes(file: BinaryIO) -> int:
    """The size that the directory at the end of a zip file states: opening the file reads all of the directory."""
    at_most = _END.size + 0xFFFF  # a comment may follow it
    length = file.seek(0, os.SEEK_END)
    file.seek(max(0, length - at_most))
    end = file.read(at_most)
    start = end.rfind(_END_SIGNATURE)
    file.seek(0)
    if start < 0 or len(end) - start < _END.size:
        return 0  # not a zip file; opening it reports that
    size: int = _END.unpack_from(end, start)[5]
    return size


def _download(work: Path, progress: Progress | None) -> Path:
    """Downloads the wheel into a folder with pip."""
    source = package()
    if importlib.util.find_spec("pip") is None:
        raise LibraryError(
            "pip, which downloads the wheel, is not installed in this environment",
            code="install",
            hint=f"install pip, or download the wheel of {source.project} {source.version} "
            f"that ends in {source.wheel_end} and pass it with --from",
        )
    requirement = work / "requirement.txt"
    pin = f"{source.project}=={source.version} --hash=sha256:{source.wheel_sha256}\n"
    requirement.write_text(pin, encoding="utf-8")
    raw = _pip_tells_progress()
    command = [
        *(sys.executable, "-m", "pip", "download", "--no-deps", "--no-input", "--disable-pip-version-check"),
        *("--only-binary=:all:", "--require-hashes", f"--progress-bar={'raw' if raw else 'off'}"),
        *(f"--{option}={value}" for option, value in source.tags.items()),
        *("--dest", str(work), "--requirement", str(requirement)),
    ]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment) as pip:
        assert pip.stdout is not None
        said = [line.rstrip() for line in pip.stdout if not _report(line, progress)]
    wheels = list(work.glob("*.whl"))
    if pip.returncode != 0 or len(wheels) != 1:
        errors = [line for line in said if "ERROR" in line] or said[-3:]
        raise LibraryError(
            f"pip could not download {source.project} {source.version}: " + " ".join(errors),
            code="install",
            hint="without a network, pass a wheel that is already here with --from",
        )
    return wheels[0]


def _pip_tells_progress() -> bool:
    """Whether pip has the progress bar `raw`: since 24.1."""
    major, minor = importlib.metadata.version("pip").split(".")[:2]
    return (int(major), int(minor)) >= (24, 1)


def _report(line: str, progress: Progress | None) -> bool:
    """Reports a line of pip such as `Progress 1024 of 25000000`; returns False for any other line."""
    words = line.split()
    if len(words) != 4 or words[0] != "Progress":
        return False
    if progress is not None:
        progress(int(words[1]), int(words[3]))
    return True


def _sha256(path: Path) -> str | None:
    """The digest of a file in hexadecimal; None if the file cannot be read."""
    try:
        with open_file(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
