"""Reading files of other people: plain files alone, and no more of them than is wanted.

A path may name anything: opening a named pipe waits for a writer for ever, a device such as /dev/zero has no end.
Whatever dmlgraph reads by a name that it was given, or that others could have put in place, it opens here.
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
# A named pipe that is opened to read waits for who writes; none of these flags makes a difference to a plain file.
_AT_ONCE = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)


class NotAFileError(OSError):
    """A path names something that is not a plain file: a folder, a named pipe, a device, a socket."""


def open_file(path: str | os.PathLike[str]) -> BufferedReader:
    """A plain file, opened to read; never waits.

    Raises:
        NotAFileError: it is something else.
        OSError: it cannot be opened.  The `strerror` of both says what is wrong, as a phrase.
    """
    try:
        _check(os.stat(path), path)  # before it is opened: to open a device may have an effect
        file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | _AT_ONCE))  # noqa: SIM115 - the caller's
    except ValueError:  # a zero byte
        raise OSError(errno.EINVAL, "it is not the path of a file", os.fspath(path)) from None
    try:
        _check(os.fstat(file.fileno()), path)  # another may have taken its place
    except BaseException:
        file.close()
        raise
    return file


def read_file(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a plain file; the errors are those of `open_file`."""
    with open_file(path) as file:
        return file.read()


def what_failed(error: OSError) -> str:
    """An error of the system for people: what it was, then the file, without the number."""
    name = error.filename2 or error.filename
    return f"{error.strerror or error}{f': {name}' if name else ''}"


def _check(status: os.stat_result, path: str | os.PathLike[str]) -> None:
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        number = errno.EISDIR if kind == stat.S_IFDIR else errno.EINVAL
        raise NotAFileError(number, f"it is {_KINDS.get(kind, 'something else')}, not a file", os.fspath(path))
