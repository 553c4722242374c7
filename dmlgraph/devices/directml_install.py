"""`dmlgraph directml install`: fetches Microsoft's DirectML library for Linux into the user's cache.

The library comes in the wheel of torch-directml, which is Microsoft's and under the MIT licence.  Nothing of
it is part of dmlgraph.  It is downloaded with pip, compared with a pinned SHA-256, and put into place whole
or not at all: an earlier try may have been interrupted, and others may run at the same time.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dmlgraph.devices.directml_errors import LibraryError
from dmlgraph.devices.user_cache import user_cache_folder

PROJECT, VERSION = "torch-directml", "0.2.5.dev240914"
WHEEL_SHA256 = "6afb675585d30018c813e5ba203a3437073748919af8ab3e910092a0e0ec531f"
LIBRARY_SHA256 = "fd54a8c578630f62a31d6d971d1f7e758e8497df8afccefe5efb1517d791692c"
LIBRARY_BYTES = 33_755_840

# The library is the same in the wheels for all versions of Python; this is the one that is downloaded.
WHEEL_TAGS = {
    "python-version": "3.11",
    "implementation": "cp",
    "abi": "cp311",
    "platform": "manylinux2010_x86_64",
}

LIBRARY_MEMBER = "torch_directml/libdirectml.so"
LICENSE_MEMBER = f"torch_directml-{VERSION}.dist-info/LICENSE"

_PARTIAL = "partial-"  # prefix of folders that a try works in
_ABANDONED_SECONDS = 24 * 3600
_CHUNK_BYTES = 1 << 20

Progress = Callable[[int, int], None]
"""Called with bytes done and bytes in all while the wheel is downloaded."""


@dataclass(frozen=True, slots=True)
class Installed:
    """Where the library is; `already`: it was there before."""

    path: Path
    already: bool


def folder() -> Path:
    return user_cache_folder() / "directml" / VERSION


def library_path() -> Path:
    """Where the library is once it is installed."""
    return folder() / "libdirectml.so"


def install(from_file: str | os.PathLike[str] | None = None, *, progress: Progress | None = None) -> Installed:
    """Installs the library, unless it is there and whole.

    Args:
        from_file: a wheel of torch-directml that is already here, for any version of Python; by default pip
            downloads one.
        progress: told how far the download is.

    Raises:
        LibraryError: no download, a wheel that is something else or damaged, a folder that cannot be written.
    """
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise LibraryError(
            "the library is for Linux on x86-64 only",
            hint="Windows has DirectML; pip install onnxruntime-directml brings a newer one",
        )
    path = library_path()
    if _sha256(path) == LIBRARY_SHA256:
        return Installed(path, already=True)
    try:
        folder().mkdir(parents=True, exist_ok=True)
        _remove_abandoned()
        with tempfile.TemporaryDirectory(prefix=_PARTIAL, dir=folder(), ignore_cleanup_errors=True) as work:
            wheel = Path(from_file) if from_file is not None else _download(Path(work), progress)
            _unpack(wheel, Path(work))
    except OSError as error:
        raise LibraryError(
            f"cannot install DirectML into {folder()}: {error}",
            hint="DMLGRAPH_CACHE_DIR names another folder",
        ) from error
    return Installed(path, already=False)


def is_intact(path: Path) -> bool:
    """Whether a library is the very one that `install` fetches."""
    return _sha256(path) == LIBRARY_SHA256


def _remove_abandoned() -> None:
    """Clears away what tries left behind that were killed."""
    for left in folder().glob(f"{_PARTIAL}*"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > _ABANDONED_SECONDS:
                shutil.rmtree(left, ignore_errors=True)


def _unpack(wheel: Path, work: Path) -> None:
    """Takes library and licence out of a wheel, checks the library, and moves both into place."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            for member in (LICENSE_MEMBER, LIBRARY_MEMBER):
                with archive.open(member) as source, (work / Path(member).name).open("wb") as target:
                    shutil.copyfileobj(source, target, _CHUNK_BYTES)
                    target.flush()
                    os.fsync(target.fileno())
    except FileNotFoundError:
        raise LibraryError(f"there is no file {wheel}") from None
    except KeyError:
        raise LibraryError(
            f"{wheel} is not a Linux wheel of {PROJECT} {VERSION}",
            hint="its name ends in manylinux2010_x86_64.whl",
        ) from None
    except (zipfile.BadZipFile, EOFError, zlib.error) as error:
        raise LibraryError(f"{wheel} is not a wheel, or damaged: {error}") from None
    found = _sha256(work / "libdirectml.so")
    if found != LIBRARY_SHA256:
        raise LibraryError(
            f"the libdirectml.so in {wheel} is not the one of {PROJECT} {VERSION}",
            got=f"SHA-256 {found}",
            allowed=f"SHA-256 {LIBRARY_SHA256}",
        )
    for name in ("LICENSE", "libdirectml.so"):  # the library last: with it the installation is complete
        os.replace(work / name, folder() / name)


def _download(work: Path, progress: Progress | None) -> Path:
    """Has pip download the wheel into a folder."""
    if importlib.util.find_spec("pip") is None:
        raise LibraryError(
            "pip, which downloads the wheel, is not installed in this environment",
            hint=f"install pip, or download the Linux wheel of {PROJECT} {VERSION} and pass it with --from",
        )
    requirement = work / "requirement.txt"
    requirement.write_text(f"{PROJECT}=={VERSION} --hash=sha256:{WHEEL_SHA256}\n")
    raw = _pip_tells_progress()
    command = [
        *(sys.executable, "-m", "pip", "download", "--no-deps", "--no-input", "--disable-pip-version-check"),
        *("--only-binary=:all:", "--require-hashes", f"--progress-bar={'raw' if raw else 'off'}"),
        *(f"--{option}={value}" for option, value in WHEEL_TAGS.items()),
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
            f"pip could not download {PROJECT} {VERSION}: " + " ".join(errors),
            hint="without a network, pass a wheel that is already here with --from",
        )
    return wheels[0]


def _pip_tells_progress() -> bool:
    """Whether pip has the progress bar `raw`: from 24.1."""
    major, minor = importlib.metadata.version("pip").split(".")[:2]
    return (int(major), int(minor)) >= (24, 1)


def _report(line: str, progress: Progress | None) -> bool:
    """Passes on a line of pip's such as `Progress 1024 of 25000000`; False for any other line."""
    words = line.split()
    if len(words) != 4 or words[0] != "Progress":
        return False
    if progress is not None:
        progress(int(words[1]), int(words[3]))
    return True


def _sha256(path: Path) -> str | None:
    """The digest of a file in hexadecimal; None where there is none to read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
