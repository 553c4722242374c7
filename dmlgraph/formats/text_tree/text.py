"""The text of documents, of which trees are made."""

from __future__ import annotations

import os
import pathlib

from dmlgraph.base.errors import DocumentError, Location
from dmlgraph.files.encodings import SAVE, as_latin, wide_encoding
from dmlgraph.files.kinds import kind_of_bytes, kind_of_source, other_kind
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
        DocumentError: not UTF-8, or not a document but something else, which is named.
    """
    wide = wide_encoding(data)
    if wide is not None:
        message, hint = f"not UTF-8 text, but {wide}", SAVE.format(wide)
        raise DocumentError(message, code="syntax", hint=hint, location=Location(file, 1, 1))
    kind = kind_of_bytes(data) or kind_of_source(file, data)
    if kind is not None:
        raise other_kind(kind, file, "text of YAML or JSON")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _not_utf8(data, error.start, file) from None


def _not_utf8(data: bytes, at: int, file: str) -> DocumentError:
    """The error for a byte that UTF-8 does not have; text in Windows-1252 is shown with its line."""
    message, hint, location = f"not UTF-8 text: byte {data[at]:#04x} at {at}", None, Location(file, 1, 1)
    latin = as_latin(data, at)
    if latin is not None:
        message += f", which is '{latin}' in Windows-1252 and Latin-1"
        hint = SAVE.format("WINDOWS-1252")
        before = data[:at].decode("utf-8-sig")
        line, column = before.count("\n"), len(before) - before.rfind("\n")
        rest = data[at:].partition(b"\n")[0].decode("cp1252", "replace").rstrip("\r")
        source = before[len(before) - column + 1 :] + rest
        location = Location(file, line + 1, column, column + 1, source)
    return DocumentError(message, code="syntax", hint=hint, location=location)
