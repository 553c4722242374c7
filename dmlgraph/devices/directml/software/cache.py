"""Native code on disk: one file a kernel, checked before it is used.

Files are in a folder of the user's, one per version of this package, of LLVM and of the processor.  Writers
never meet: each writes a file of its own and renames it, which readers see as a whole or not at all.

LLVM ends the process on an object file that is damaged, and the code in it may do anything.  So every file begins
with a signature, made with a secret of the user's that lies beside the kernels, and whatever does not have the
right one is compiled anew: a file that is damaged, that is of another kernel, or that somebody made up.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import hmac
import os
import secrets
import tempfile
from pathlib import Path

from dmlgraph.devices.directml.software import llvm
from dmlgraph.devices.user_cache import check_owner, check_private, make_private, user_cache_folder
from dmlgraph.plain_files import open_file

_MAGIC = b"dmlgraph kernel\n"
_SECRET = "secret"  # the name of its file
_SECRET_BYTES = 32

# What stands in the way of reading or writing: no home folder, no right to, a file that others own.
_Failed = (OSError, RuntimeError)


def folder() -> Path:
    """Where this machine's kernels are kept."""
    host = llvm.host()
    return _kernels() / f"{compiler_version()}-{host.llvm_version}-{host.cpu}"


def _kernels() -> Path:
    return user_cache_folder() / "kernels"


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
    """The code of this key; None where there is no such file, where others may write it, or it is damaged."""
    try:
        check_private(folder())
        data = _read_own(folder() / name)
        secret = _read_own(_kernels() / _SECRET)
    except _Failed:
        return None
    code = data[len(_header(secret, name, b"")) :]
    fits = len(secret) == _SECRET_BYTES and hmac.compare_digest(data, _header(secret, name, code) + code)
    return code if fits else None


def write(name: str, code: bytes) -> None:
    """Keep code for other processes; where the folder cannot be written, or others may write it, nothing is kept."""
    with contextlib.suppress(*_Failed):
        make_private(folder())
        _put(folder() / name, _header(_secret(), name, code) + code)


def _header(secret: bytes, name: str, code: bytes) -> bytes:
    """What a file starts with: a signature of the code and of what it is the code of."""
    return _MAGIC + hmac.digest(secret, name.encode() + b"\0" + code, "sha256")


def _secret() -> bytes:
    """The user's secret; made where there is none, or a damaged one."""
    path = _kernels() / _SECRET
    with contextlib.suppress(OSError):
        secret = _read_own(path)
        if len(secret) == _SECRET_BYTES:
            return secret
    _put(path, secrets.token_bytes(_SECRET_BYTES))
    return _read_own(path)  # of several processes that make one, the last one's


def _read_own(path: Path) -> bytes:
    """A file that nobody else can have written."""
    with open_file(path) as file:
        check_owner(os.fstat(file.fileno()), path)
        return file.read()


def _put(path: Path, data: bytes) -> None:
    """Puts a file into place as a whole, for its owner alone."""
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
