"""The encoding of text that is not UTF-8: which one it has, and how to save it as UTF-8."""

from __future__ import annotations

import codecs
import re

SAVE = "save it as UTF-8, as editors, 'Set-Content -Encoding utf8' of PowerShell, or 'iconv -f {} -t UTF-8' can"

# Marks at the beginning, and the names of the encodings; UTF-32 comes first, because UTF-16 begins in the same way.
_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
# ASCII in these encodings has zero bytes in fixed places; that tells them without a mark.
_WITHOUT_MARK = (
    (re.compile(rb"(?:[\t-~]\0\0\0){2}"), "UTF-32LE"),
    (re.compile(rb"(?:\0\0\0[\t-~]){2}"), "UTF-32BE"),
    (re.compile(rb"(?:[\t-~]\0){4}"), "UTF-16LE"),
    (re.compile(rb"(?:\0[\t-~]){4}"), "UTF-16BE"),
)
_CONTROL = re.compile(rb"[\0-\x08\x0e-\x1f]")  # what text does not have


def wide_encoding(data: bytes) -> str | None:
    """The name of the encoding of text in units of two or four bytes; None for any other."""
    marked = next((name for mark, name in _MARKS if data.startswith(mark)), None)
    return marked or next((name for form, name in _WITHOUT_MARK if form.match(data)), None)


def as_latin(data: bytes, at: int) -> str | None:
    """The character that a byte is in Windows-1252, which contains Latin-1; None if the bytes are not such text."""
    if _CONTROL.search(data):
        return None
    try:
        return data[at : at + 1].decode("cp1252")
    except UnicodeDecodeError:
        return None
