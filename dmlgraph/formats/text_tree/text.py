"""The text of documents, of which trees are made."""

from __future__ import annotations

import os
import pathlib

from dmlgraph.base.errors import DocumentError, Location
from dmlgraph.files.kinds import kind_of_bytes, other_kind
from dmlgraph.files.untrusted import read_file, reason


def read_text(path: pathlib.Path) -> str:
    """The text of a file.

    Raises:
        DocumentError: it cannot be read, or is not UTF-8.
    """
    try:
        data = read_file(path)
    except OSError as error:
        start = Location(os.fspath(path), 1, 1)
        raise DocumentError(f"cannot read the file: {reason(error)}", code="unreadable", location=start) from None
    return decode(data, os.fspath(path))


def decode(data: bytes, file: str) -> str:
    """The text of a document's bytes; `file` names it in the error.

    Raises:
        DocumentError: not UTF-8, or no document but something else, which is named.
    """
    kind = kind_of_bytes(data)
    if kind is not None:
        raise other_kind(kind, file, "text of YAML or JSON")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DocumentError(
            f"not UTF-8 text: byte {error.object[error.start]:#04x} at {error.start}",
            code="syntax",
            location=Location(file, 1, 1),
        ) from None
