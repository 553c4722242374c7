"""The cache folder, for what dmlgraph can make or fetch again: one per user, shared by the user's processes.

Native code is loaded from it, so nobody else may write there: only the owner has access to its folders, and files
and folders that others own or may write are refused, including the folders above it.  On Windows the permissions of
the user's profile ensure this.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

VARIABLE = "DMLGRAPH_CACHE_DIR"
_POSIX = os.name == "posix"
_MOST_LINKS = 40  # in a chain, as Linux allows


class UnsafeError(OSError):
    """Others own a file or folder of the cache, or may write to it; `strerror` is a phrase that names it."""


class NoFolderError(OSError):
    """The system has no folder for the cache; `strerror` says what is missing."""


def user_cache_folder() -> Path:
    """DMLGRAPH_CACHE_DIR, or else the `dmlgraph` folder in the system's cache folder; it may not exist yet.

    Raises:
        NoFolderError: neither is set, and the user has no home folder.
    """
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or _home("LOCALAPPDATA") / "AppData" / "Local") / "dmlgraph"
    return Path(os.environ.get("XDG_CACHE_HOME") or _home("XDG_CACHE_HOME") / ".cache") / "dmlgraph"


def _home(variable: str) -> Path:
    """The user's home folder; `variable` names a folder that makes it unnecessary."""
    try:
        return Path.home()
    except RuntimeError:  # as in a container whose user has no entry in /etc/passwd
        home = "USERPROFILE" if sys.platform == "win32" else "HOME"
        message = f"the user has no home folder: neither {home} nor {variable} is set"
        raise NoFolderError(errno.ENOENT, message) from None


def make_private(folder: Path) -> None:
    """Makes a folder of the cache and its missing parents, accessible to their owner only, whatever the umask.

    Raises:
        UnsafeError: as `check_private`.
        OSError: it cannot be made, or a file is in its place.
    """
    for each in reversed([folder, *folder.absolute().parents]):
        if not each.is_dir():
            each.mkdir(mode=stat.S_IRWXU, exist_ok=True)
            if _POSIX:
                each.chmod(stat.S_IRWXU)  # the umask may have cleared some of these bits
    check_private(folder)


def check_private(path: Path) -> None:
    """Refuses a file or folder of the cache that others own, may write to or could replace.

    Folders of the cache that the user owns and others may access are closed to others first.

    Raises:
        UnsafeError: with the file or folder, and the reason.
        OSError: the file does not exist, or its status cannot be read.
    """
    if not _POSIX:
        return
    path, top = path.absolute(), user_cache_folder().absolute()
    for each in (path, *path.parents):
        if each.is_relative_to(top):
            _close(each)
    for each, status in _on_the_way(path):
        check_owner(status, each)


def check_owner(status: os.stat_result, path: Path) -> None:
    """Refuses a file, folder or link that others own or may write to, given its `stat`.

    A sticky folder such as /tmp is accepted: others may write to it, but nobody may remove the files of another user.

    Raises:
        UnsafeError: it is refused.
    """
    if not _POSIX:
        return
    mode = status.st_mode
    what = "the folder" if stat.S_ISDIR(mode) else "the file"
    # The owner of the root folder may do anything; in a container that is not always user 0.
    if status.st_uid not in (0, os.geteuid(), os.stat("/").st_uid):
        raise UnsafeError(0, f"{what} {path} belongs to another user")
    if stat.S_ISLNK(mode) or (stat.S_ISDIR(mode) and mode & stat.S_ISVTX):
        return
    if mode & stat.S_IWOTH or (mode & stat.S_IWGRP and not _is_own_group(status.st_gid)):
        raise UnsafeError(0, f"others may write to {what} {path}")


def _close(folder: Path) -> None:
    """Closes a folder that the user owns to others; leaves anything else as it is."""
    status = folder.stat()
    own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    if own and stat.S_IMODE(status.st_mode) != stat.S_IRWXU:
        folder.chmod(stat.S_IRWXU)


def _on_the_way(path: Path, links: int = 0) -> Iterator[tuple[Path, os.stat_result]]:
    """The folders and links on the way to a path, from the root, and the path's target; each with its status."""
    for each in reversed([path, *path.parents]):
        status = each.lstat()
        yield each, status
        if stat.S_ISLNK(status.st_mode):
            if links == _MOST_LINKS:
                raise UnsafeError(0, f"too many links lead to {path}")
            target = each.parent / each.readlink() / path.relative_to(each)
            yield from _on_the_way(target, links + 1)
            return


def _is_own_group(group: int) -> bool:
    """Whether the user is the only member of a group: many systems give every user such a group."""
    import grp  # POSIX only
    import pwd

    try:
        user, found = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return found.gr_gid == user.pw_gid and found.gr_name == user.pw_name and set(found.gr_mem) <= {user.pw_name}
