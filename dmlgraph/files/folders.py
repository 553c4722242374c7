"""Files that a document or a model names, in its folder."""

from __future__ import annotations

import contextlib
import contextvars
import pathlib
from collections.abc import Iterator

from dmlgraph.base.errors import GraphError, suggestion
from dmlgraph.base.file_names import spelled_otherwise, why_unportable
from dmlgraph.files.untrusted import reason

_noted: contextvars.ContextVar[dict[pathlib.Path, None] | None] = contextvars.ContextVar("noted", default=None)


@contextlib.contextmanager
def noting_files() -> Iterator[dict[pathlib.Path, None]]:
    """Notes inside the files that documents name, in order: the paths that `find_file` returns."""
    found: dict[pathlib.Path, None] = {}
    token = _noted.set(found)
    try:
        yield found
    finally:
        _noted.reset(token)


def find_file(name: object, folder: object, suffix: str = ".npy") -> pathlib.Path:
    """The path of a file in the document's folder, a path; `suffix` is the usual one of such files, "" for any.

    Raises:
        GraphError: not a path, or not one that means the same on every system; outside the folder; or no such file.
            Its field is `file`.
    """
    if not isinstance(name, str) or not name or "\0" in name:
        raise GraphError(f"must be the path of a {f'{suffix} file'.lstrip()}", code="kind", field="file", got=name)
    if not isinstance(folder, pathlib.Path):
        raise GraphError(
            "a document that is not a file has no folder for other files", code="no-folder", field="file", got=name
        )
    rooted = pathlib.PurePosixPath(name).is_absolute() or pathlib.PureWindowsPath(name).drive
    unportable = None if rooted else why_unportable(name)
    if unportable is not None:
        raise GraphError(
            "is not a path that means the same on every system",
            code="file-name",
            field="file",
            got=name,
            hint=unportable,
        )
    path = folder / name
    try:
        inside = not rooted and path.resolve().is_relative_to(folder.resolve())
        is_file = inside and path.is_file()
    except (OSError, RuntimeError, ValueError) as error:  # a name that is too long, or circular links
        said = reason(error) if isinstance(error, OSError) else "its links form a cycle"
        raise GraphError(f"cannot be found: {said}", code="unreadable", field="file", got=name) from None
    if not inside:
        raise GraphError(
            "lies outside the document's folder",
            code="outside-folder",
            field="file",
            got=name,
            allowed="a path relative to the document, inside its folder",
        )
    if not is_file:
        near = suggestion(name, (each.name for each in sorted(folder.glob(f"*{suffix}"))))
        hint = near or f"looked in {'the folder of the graph file' if folder == pathlib.Path() else folder}"
        raise GraphError("there is no such file", code="unreadable", field="file", got=name, hint=hint)
    real = spelled_otherwise(pathlib.PurePath(name), folder)
    if real is not None:
        advice = f"its name is '{real}'" if real else None
        raise GraphError("there is no file with just this name", code="file-name", field="file", got=name, hint=advice)
    noted = _noted.get()
    if noted is not None:
        noted[path] = None
    return path
