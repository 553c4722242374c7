"""Files that appear completely or not at all, even if the process is killed."""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import secrets
import stat
from collections.abc import Iterator
from typing import BinaryIO, Self

from dmlgraph.base.file_names import names_a_device

_HAS_DEVICES_BY_NAME = os.name == "nt"


class NewFiles:
    """Files that are written under temporary names and renamed together at the end.

        with NewFiles() as files:
            with files.open(folder / "y.npy") as stream:
                ...

    An exception in the block changes nothing.  Paths that are not plain files, such as /dev/stdout or a FIFO, and files
    in a folder that is not writable, are written directly.

    Args:
        durable: a file is on the disk before it gets its name, so that a power cut leaves no half of it.
    """

    def __init__(self, *, durable: bool = False) -> None:
        self._durable = durable
        self._written: list[tuple[pathlib.Path, pathlib.Path]] = []  # temporary name, final name

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            while kind is None and self._written:
                temporary, target = self._written[0]
                os.replace(temporary, target)
                del self._written[0]
        finally:
            for temporary, _target in self._written:
                temporary.unlink(missing_ok=True)

    @contextlib.contextmanager
    def open(self, path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
        """A stream for the bytes of a file.

        Raises:
            OSError: the file cannot be written; it has the file's final name.
        """
        check_name(path)
        target = pathlib.Path(os.path.realpath(path))  # a link stays a link
        try:
            mode: int | None = target.stat().st_mode
        except OSError:
            mode = None
        replaceable = os.access(target, os.W_OK) and os.access(target.parent, os.W_OK)
        if mode is not None and not (stat.S_ISREG(mode) and replaceable):
            with pathlib.Path(path).open("wb") as stream:
                yield stream
            return
        temporary = target.with_name(f".dmlgraph-{secrets.token_hex(8)}")
        try:
            with temporary.open("xb") as stream:
                self._written.append((temporary, target))
                yield stream
                if mode is not None and hasattr(os, "fchmod"):
                    os.fchmod(stream.fileno(), stat.S_IMODE(mode))
                if self._durable:
                    stream.flush()
                    os.fsync(stream.fileno())
        except OSError as error:
            if error.filename == str(temporary):
                error.filename = os.fspath(path)
            raise


def check_name(path: str | os.PathLike[str]) -> None:
    """Refuses to write into a device of Windows because of a name such as `nul` or `CON.yaml`.

    Raises:
        OSError: the name is one, and this is Windows.
    """
    if _HAS_DEVICES_BY_NAME and names_a_device(pathlib.PurePath(path).name):
        raise OSError(errno.EINVAL, "it is the name of a device", os.fspath(path))


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes a file of UTF-8 text.

    Raises:
        OSError: the file cannot be written.
    """
    with NewFiles() as files, files.open(path) as stream:
        stream.write(text.encode())
