"""Native code on disk: one file a kernel, checked before it is used.

Files are in a folder of the user's, one per version of this package, of LLVM and of the processor.  Writers
never meet: each writes a file of its own and renames it, which readers see as a whole or not at all.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import tempfile
from pathlib import Path

from dmlgraph.devices.software import llvm
from dmlgraph.devices.user_cache import user_cache_folder

_MAGIC = b"dmlgraph kernel\n"


def folder() -> Path:
    """Where this machine's kernels are kept."""
    host = llvm.host()
    return user_cache_folder() / "kernels" / f"{compiler_version()}-{host.llvm_version}-{host.cpu}"


@functools.cache
def compiler_version() -> str:
    """A digest of this package's sources: whatever changes the code they generate changes it."""
    sources = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()[:12]


def key(container: bytes, formats: tuple[int, ...]) -> str:
    """What names the code of a shader for views of these formats on this machine."""
    host = llvm.host()
    parts = (formats, host.cpu, host.features, host.llvm_version, compiler_version())
    return hashlib.sha256(repr(parts).encode() + b"\0" + container).hexdigest()


def read(name: str) -> bytes | None:
    """The code of this key; None where there is no such file or it is damaged."""
    try:
        data = (folder() / name).read_bytes()
    except (OSError, RuntimeError):  # there may be no home folder
        return None
    code = data[len(_header(name, b"")) :]
    return code if data == _header(name, code) + code else None


def _header(name: str, code: bytes) -> bytes:
    """What a file starts with: it tells damaged code, and code of another key, from the right one."""
    return _MAGIC + hashlib.sha256(name.encode() + code).digest()


def write(name: str, code: bytes) -> None:
    """Keep code for other processes; where the folder cannot be written, nothing is kept."""
    temporary = None
    try:
        place = folder()
        place.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=place)
        with os.fdopen(handle, "wb") as file:
            file.write(_header(name, code) + code)
        os.replace(temporary, place / name)
    except (OSError, RuntimeError):
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
