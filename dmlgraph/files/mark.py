"""A mark in text files that dmlgraph writes: it overwrites them only as long as nobody has changed them.

    # Made by dmlgraph, sha256 0123456789abcdef: it overwrites this file only while the rest is as it was written.

The mark is the first line, a comment with the beginning of the digest of the rest, so copies of the file have it too.
"""

from __future__ import annotations

import hashlib
import pathlib
import re

from dmlgraph.base.errors import DmlGraphError

_LINE = "# Made by dmlgraph, sha256 {}: it overwrites this file only while the rest is as it was written.\n"
_MARK = re.compile(rb"# Made by dmlgraph, sha256 ([0-9a-f]{16}):[^\n]*\n")


def marked(text: str) -> bytes:
    """A text, which may have comments, behind its mark."""
    data = text.encode()
    return _LINE.format(_digest(data)).encode() + data


def check_ours(path: pathlib.Path) -> None:
    """Refuses to overwrite a file that somebody else has written, or changed since.

    Raises:
        DmlGraphError: it is one.
        OSError: it cannot be read.
    """
    if not path.is_file():
        return
    data = path.read_bytes()
    found = _MARK.match(data)
    if found is not None and found[1].decode() == _digest(data[found.end() :]):
        return
    if data.strip():
        what = "has been changed since dmlgraph wrote it" if found else "exists, and dmlgraph has not written it"
        hint = "give another name, or --force, in Python force=True, to overwrite it"
        raise DmlGraphError(f"'{path}' {what}", code="unwritable", hint=hint)


def _digest(data: bytes) -> str:
    """That of a text, whatever its ends of lines are."""
    return hashlib.sha256(data.replace(b"\r\n", b"\n")).hexdigest()[:16]
