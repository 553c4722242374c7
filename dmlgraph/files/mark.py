"""A mark in files that dmlgraph writes: it overwrites them only as long as nobody has changed them.

    # Made by dmlgraph, sha256 0123456789abcdef: it overwrites this file only while the rest is as it was written.

The mark is a sentence that stands wherever a file's format has room for one: in a comment of YAML, a key of JSON, a
property of an ONNX model.  It has the beginning of the digest of the whole file with zeros in that place, so copies of
the file have it too.
"""

from __future__ import annotations

import hashlib
import pathlib
import re

from dmlgraph.base.errors import DmlGraphError

_DIGITS = 16
MARK = f"Made by dmlgraph, sha256 {'0' * _DIGITS}: it overwrites this file only while the rest is as it was written."
NOT_WRITTEN = "exists, and dmlgraph has not written it"
_SIGNED = re.compile(rb"Made by dmlgraph, sha256 ([0-9a-f]{%d}): it overwrites this file only while" % _DIGITS)


def signed(data: bytes) -> bytes:
    """The content of a file with the digest in its `MARK`, the first if it has several."""
    found = _SIGNED.search(data)
    assert found is not None
    return data[: found.start(1)] + _digest(data, found).encode() + data[found.end(1) :]


def check_ours(path: pathlib.Path) -> None:
    """Refuses to overwrite a file that somebody else has written, or changed since.

    Raises:
        DmlGraphError: it is one.
        OSError: it cannot be read.
    """
    if not path.is_file():
        return
    data = path.read_bytes()
    found = _SIGNED.search(data)
    if found is not None and found[1].decode() == _digest(data, found):
        return
    if data.strip():
        raise not_ours(path, "has been changed since dmlgraph wrote it" if found else NOT_WRITTEN)


def not_ours(path: pathlib.Path, what: str) -> DmlGraphError:
    """The error for a file that is not to be overwritten."""
    hint = "give another name, or --force, in Python force=True, to overwrite it"
    return DmlGraphError(f"'{path}' {what}", code="unwritable", hint=hint)


def _digest(data: bytes, mark: re.Match[bytes]) -> str:
    """That of a file with zeros in its mark, whatever its ends of lines are."""
    digest = hashlib.sha256()
    for part in (data[: mark.start(1)], b"0" * _DIGITS, data[mark.end(1) :]):
        digest.update(part.replace(b"\r\n", b"\n"))
    return digest.hexdigest()[:_DIGITS]
