"""Reading untrusted files: only plain files, and no more of them than needed.

A path may name anything: opening a named pipe waits for a writer forever, a device such as /dev/zero has no end.
dmlgraph opens here every file whose name it was given, or that others could have put in place.
"""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}
# Opening a named pipe to read waits for a writer; these flags have no effect on plain files.
_AT_ONCE = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)


class NotAFileError(OSError):
    """A path names something that is not a plain file: a folder, a named pipe, a device, a socket."""


def open_file(path: str | os.PathLike[str]) -> BufferedReader:
    """Opens a plain file to read; never waits.

    Raises:
        NotAFileError: it is not a plain file.
        OSError: it cannot be opened.  The `strerror` of both is a phrase that says what is wrong.
    """
    try:
        _check(os.stat(path), path)  # before opening it: opening a device may have an effect
        file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | _AT_ONCE))  # noqa: SIM115 - the caller's
    except ValueError:  # a zero byte
        raise OSError(errno.EINVAL, "it is not the path of a file", os.fspath(path)) from None
    try:
        _check(os.fstat(file.fileno()), path)  # it may have been replaced meanwhile
    except BaseException:
        file.close()
        raise
    return file


def read_file(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a plain file; the errors are those of `open_file`."""
    with open_file(path) as file:
        return file.read()


def reason(error: OSError) -> str:
    """Why a system call failed, as a phrase; Windows' errors in the words of other systems, not in its language."""
    if getattr(error, "winerror", None) is not None and error.errno is not None:
        return os.strerror(error.errno)
    return str(error.strerror or error)


def what_failed(error: OSError) -> str:
    """A system error for people: what failed, then the file, without the number."""
    name = error.filename2 or error.filename
    return f"{reason(error)}{f': {name}' if name else ''}"


def _check(status: os.stat_result, path: str | os.PathLike[str]) -> None:
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        number = errno.EISDIR if kind == stat.S_IFDIR else errno.EINVAL
        raise NotAFileError(number, f"it is {_KINDS.get(kind, 'something else')}, not a file", os.fspath(path))
