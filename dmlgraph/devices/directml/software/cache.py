"""Native code on disk: one file per kernel, checked before it is used.

The files are in a folder of the user, one per version of this package, of LLVM and of the processor.  Writers do
not conflict: each writes its own temporary file and renames it, so readers see a complete file or none.

LLVM ends the process on a damaged object file, and the code in a file may do anything.  So every file begins
with a signature, made with a secret of the user that is stored beside the kernels.  A kernel whose file does not have
the right signature is compiled again: the file is damaged, is of another kernel, or somebody forged it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import hmac
import os
import secrets
import tempfile
import types
from importlib.machinery import SourceFileLoader
from pathlib import Path

from dmlgraph.devices.directml.software import llvm
from dmlgraph.devices.host.cache_folder import check_owner, check_private, make_private, user_cache_folder
from dmlgraph.files.untrusted import open_file

_MAGIC = b"dmlgraph kernel\n"
_SECRET = "secret"  # name of the file
_SECRET_BYTES = 32


def folder() -> Path:
    """The folder of this machine's kernels."""
    host = llvm.host()
    return _kernels() / f"{compiler_version()}-{host.llvm_version}-{host.cpu}"


def _kernels() -> Path:
    return user_cache_folder() / "kernels"


@functools.cache
def compiler_version() -> str:
    """A digest of what this package's modules do, so that it changes whenever the generated code may change."""
    names = {f"{__package__}.{path.stem}": str(path) for path in sorted(Path(__file__).parent.glob("*.py"))}
    codes = (SourceFileLoader(name, path).get_code(name) for name, path in names.items())  # as Python keeps them
    return hashlib.sha256("".join(map(essence, filter(None, codes))).encode()).hexdigest()[:12]


def essence(code: types.CodeType) -> str:
    """What code does: its instructions, names and constants; comments and line numbers make no difference."""
    constants = [
        essence(each)
        if isinstance(each, types.CodeType)
        else repr(sorted(map(repr, each)) if isinstance(each, frozenset) else each)
        for each in code.co_consts
    ]
    return repr((code.co_code, code.co_names, code.co_varnames, constants))


def key(container: bytes, formats: tuple[int, ...]) -> str:
    """The key of a shader's code for views of these formats on this machine."""
    host = llvm.host()
    parts = (formats, host.cpu, host.features, host.llvm_version, compiler_version())
    return hashlib.sha256(repr(parts).encode() + b"\0" + container).hexdigest()


def read(name: str) -> bytes | None:
    """The code of a key; None if the file does not exist, others may write to it, or it is damaged."""
    try:
        check_private(folder())
        data = _read_own(folder() / name)
        secret = _read_own(_kernels() / _SECRET)
    except OSError:  # no folder, no permission, a file that others own
        return None
    code = data[len(_header(secret, name, b"")) :]
    fits = len(secret) == _SECRET_BYTES and hmac.compare_digest(data, _header(secret, name, code) + code)
    return code if fits else None


def write(name: str, code: bytes) -> None:
    """Stores code for other processes; does nothing if the folder cannot be written or others may write to it."""
    with contextlib.suppress(OSError):
        make_private(folder())
        _put(folder() / name, _header(_secret(), name, code) + code)


def _header(secret: bytes, name: str, code: bytes) -> bytes:
    """The start of a file: a signature of the code and its key."""
    return _MAGIC + hmac.digest(secret, name.encode() + b"\0" + code, "sha256")


def _secret() -> bytes:
    """The user's secret; makes one if it is missing or damaged."""
    path = _kernels() / _SECRET
    with contextlib.suppress(OSError):
        secret = _read_own(path)
        if len(secret) == _SECRET_BYTES:
            return secret
    _put(path, secrets.token_bytes(_SECRET_BYTES))
    return _read_own(path)  # if several processes make one, the last one counts


def _read_own(path: Path) -> bytes:
    """Reads a file that nobody else can have written."""
    with open_file(path) as file:
        check_owner(os.fstat(file.fileno()), path)
        return file.read()


def _put(path: Path, data: bytes) -> None:
    """Writes a file atomically, accessible to its owner only."""
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
