"""Packs wheels: the files that every wheel has, and those of one platform and release of CPython."""

from __future__ import annotations

import base64
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterable

from release.build import ROOT

_FIRST_TIME = 315532800  # 1980-01-01, the first that zip files know


def set_time() -> None:
    """Sets SOURCE_DATE_EPOCH, the time of all files in wheels, to that of the last commit, unless it is set."""
    if "SOURCE_DATE_EPOCH" not in os.environ:
        log = ["git", "log", "-1", "--format=%ct"]
        found = subprocess.run(log, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
        os.environ["SOURCE_DATE_EPOCH"] = found or str(_FIRST_TIME)


def without_binaries(folder: pathlib.Path) -> pathlib.Path:
    """Makes the wheel of all that is not compiled, by the project's own build."""
    code = "import sys; from scikit_build_core.build import build_wheel; "
    code += "print(build_wheel(sys.argv[1], {'wheel.cmake': 'false'}))"
    command = [sys.executable, "-c", code, str(folder)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return folder / done.stdout.split()[-1]


def pack(plain: pathlib.Path, tag: str, binaries: Iterable[tuple[str, pathlib.Path]], to: pathlib.Path) -> pathlib.Path:
    """Writes a wheel: the same bytes for the same files.

    Args:
        plain: the wheel of all that is not compiled.
        tag: as in cp311-cp311-win_amd64.
        binaries: the rest: a file's name in the wheel, and where it is.
        to: the folder of the wheel.
    """
    with zipfile.ZipFile(plain) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    (record,) = (name for name in files if name.endswith(".dist-info/RECORD"))
    about = record.removesuffix("RECORD")
    files |= {name: path.read_bytes() for name, path in binaries}
    files[about + "WHEEL"] = f"Wheel-Version: 1.0\nGenerator: dmlgraph\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    del files[record]
    files = dict(sorted(files.items(), key=lambda file: (file[0].startswith(about), file[0])))
    lines = [f"{name},sha256={_digest(data)},{len(data)}\n" for name, data in files.items()]
    files[record] = "".join([*lines, f"{record},,\n"]).encode()
    to.mkdir(parents=True, exist_ok=True)
    path = to / f"{'-'.join(plain.name.split('-')[:2])}-{tag}.whl"
    moment = time.gmtime(max(int(os.environ["SOURCE_DATE_EPOCH"]), _FIRST_TIME))[:6]
    with tempfile.TemporaryDirectory(dir=to) as work:
        with zipfile.ZipFile(pathlib.Path(work) / path.name, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for name, data in files.items():
                entry = zipfile.ZipInfo(name, moment)
                entry.external_attr, entry.compress_type, entry.create_system = 0o100644 << 16, zipfile.ZIP_DEFLATED, 3
                archive.writestr(entry, data)
        os.replace(pathlib.Path(work) / path.name, path)
    return path


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
