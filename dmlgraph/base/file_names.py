"""File names that mean the same on every system.

Windows takes some names for devices, whatever their ending, cuts spaces and dots at the end of a name, and like macOS
does not tell `W.npy` from `w.npy`.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import re
import unicodedata

LONGEST_FILE_NAME = 180  # bytes of a name as part of a file name, which may have 255 bytes
_FORBIDDEN = r'[\x00-\x1f\\:*?"<>|]'
_DEVICE = re.compile(r"(?:CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|(?:COM|LPT)[0-9¹²³]) *(?:\..*)?", re.IGNORECASE | re.DOTALL)


def names_a_device(name: str) -> bool:
    """Whether Windows takes a file name for a device, as it does `nul` and `CON.yaml`."""
    return _DEVICE.fullmatch(name) is not None


def why_unportable(path: str) -> str | None:
    """Why a path with `/` between names does not mean the same on every system, as a phrase; None if it does."""
    for name in path.split("/"):
        forbidden = re.search(_FORBIDDEN, name)
        if forbidden is not None:
            shown = forbidden[0] if forbidden[0].isprintable() else repr(forbidden[0])
            return f"'{name}' holds {shown}, which cannot be part of a file name on every system"
        if names_a_device(name):
            return f"'{name}' is the name of a device on Windows"
        if name.endswith((".", " ")) and name not in (".", ".."):
            return f"'{name}' ends in a {'dot' if name.endswith('.') else 'space'}, which Windows leaves out"
    return None


def spelled_otherwise(path: pathlib.PurePath, folder: pathlib.Path) -> str | None:
    """The real name of a part of an existing path, where the file system finds it under another spelling.

    Args:
        path: relative to the folder.

    Returns:
        None where every part is spelled as in its folder.  "" where a part has no such name in its folder, as the short
        names of Windows.
    """
    for part in path.parts:
        try:
            # Where letters matter, this is almost always a file that does not exist.
            if part not in ("..", part.swapcase()) and os.path.samefile(folder / part, folder / part.swapcase()):
                there = os.listdir(folder)
                if part not in there:
                    return next((name for name in there if _folded(name) == _folded(part)), "")
        except OSError:
            pass
        folder /= part
    return None


class FileNames:
    """Makes file names of names: different ones, even where letter case does not matter."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def take(self, name: str) -> str:
        """A name as part of a file name, each once.

        Characters that a file system may refuse are escaped as in a URL: `encoder/w` becomes `encoder%2Fw`.  A digest
        replaces the end of a name that is too long, and is added to a name that differs only in case from one before.
        """
        written = re.sub(f"{_FORBIDDEN}|[%/]", _escape, name)
        if names_a_device(written):
            written = f"{_escape(written[0])}{written[1:]}"
        digest = hashlib.sha256(name.encode()).hexdigest()[:16]
        if len(written.encode()) > LONGEST_FILE_NAME or _folded(written) in self._taken:
            written = f"{written.encode()[: LONGEST_FILE_NAME - 17].decode(errors='ignore')}~{digest}"
        self._taken.add(_folded(written))
        return written


def _escape(found: re.Match[str] | str) -> str:
    return f"%{ord(found[0]):02X}"


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
