"""The folder in which dmlgraph keeps what it can make or fetch again: per user, shared by the user's processes.

Native code is loaded from it, so nobody else may write there: its folders are made for their owner alone, and
what others own or may write is refused, the folders above it included.  On Windows the user's profile sees to that.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

VARIABLE = "DMLGRAPH_CACHE_DIR"
_POSIX = os.name == "posix"
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_MOST_LINKS = 40  # that lead from one to the next, as Linux allows


class UnsafeError(OSError):
    """Others own a file or a folder of the cache, or may write to it; `strerror` says which, as a phrase."""


def user_cache_folder() -> Path:
    """DMLGRAPH_CACHE_DIR, or the `dmlgraph` folder where the system keeps caches; it may not exist yet."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "dmlgraph"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dmlgraph"


def make_private(folder: Path) -> None:
    """Makes a folder of the cache and what is missing above it for their owner alone, whatever the umask.

    Raises:
        UnsafeError: as `check_private`.
        OSError: it cannot be made.
    """
    for each in reversed([folder, *folder.absolute().parents]):
        if not each.is_dir():
            each.mkdir(mode=stat.S_IRWXU, exist_ok=True)
            if _POSIX:
                each.chmod(stat.S_IRWXU)  # the umask may have taken some of it
    check_private(folder)


def check_private(path: Path) -> None:
    """Refuses a file or folder of the cache that others own or may write, or could put another in place of.

    The user's own folders of the cache are closed to others first, where they are not.

    Raises:
        UnsafeError: which it is, and why.
        OSError: there is no such file, or it cannot be looked at.
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
    """Refuses a file, a folder or a link that others own or may write, from what `stat` says of it.

    A folder that others may write but where nobody may remove what is another's (sticky, as /tmp is) is no danger
    to what lies in it.

    Raises:
        UnsafeError: as said.
    """
    if not _POSIX:
        return
    mode = status.st_mode
    what = "the folder" if stat.S_ISDIR(mode) else "the file"
    # Who owns the root folder may do anything; in a container that is not always the user 0.
    if status.st_uid not in (0, os.geteuid(), os.stat("/").st_uid):
        raise UnsafeError(0, f"{what} {path} belongs to another user")
    if stat.S_ISLNK(mode) or (stat.S_ISDIR(mode) and mode & stat.S_ISVTX):
        return
    if mode & stat.S_IWOTH or (mode & stat.S_IWGRP and not _is_own_group(status.st_gid)):
        raise UnsafeError(0, f"others may write to {what} {path}")


def _close(folder: Path) -> None:
    """Closes a folder of the user's to others; anything else stays as it is."""
    status = folder.stat()
    own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    if own and stat.S_IMODE(status.st_mode) != stat.S_IRWXU:
        folder.chmod(stat.S_IRWXU)


def _on_the_way(path: Path, links: int = 0) -> Iterator[tuple[Path, os.stat_result]]:
    """Every folder and link that leads to a path, from the root, and what it leads to; each with its status."""
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
    """Whether nobody but the user is in a group: many systems give every user one."""
    import grp  # on POSIX alone
    import pwd

    try:
        user, found = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return found.gr_gid == user.pw_gid and found.gr_name == user.pw_name and set(found.gr_mem) <= {user.pw_name}
