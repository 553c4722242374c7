"""Where the results of chunks lie: files that are complete or not there.

out/manifest.json                 of what these are the results
out/results/y/00000/NAME.npy      an output of a chunk; or out/results.zarr with all of them
out/done/00000.json               the chunks of a folder, once all are done
out/failed/00000/NAME.json        why a chunk has no result
out/log/HOST-PID.jsonl            what each process computed, and how long it took
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import platform
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from dmlgraph.base.errors import DmlGraphError, GraphError, shorten
from dmlgraph.base.file_names import FileNames
from dmlgraph.base.tensor import DataType
from dmlgraph.devices.executable import Array
from dmlgraph.distributed.extra import need
from dmlgraph.distributed.inputs import Place
from dmlgraph.files.whole import NewFiles
from dmlgraph.formats.arrays import to_stored

ABANDONED = 3600  # seconds after which nobody writes a temporary file any more


class Chunk(NamedTuple):
    """A part of the inputs: its results are the files `name` in folders `folder`."""

    folder: str
    name: str
    place: Place


class Results:
    """The results of a job as .npy files, one for each output of a chunk.

    Args:
        out: the folder for all of it.
        outputs: the data types of the outputs by name.
    """

    def __init__(self, out: pathlib.Path, outputs: Mapping[str, DataType]) -> None:
        self.out, self.outputs = out, dict(outputs)
        names = FileNames()
        self._folders = {name: f"results/{names.take(name)}" for name in outputs}

    def start(self) -> None:
        """Makes what the results are written into."""
        self.out.mkdir(parents=True, exist_ok=True)

    def has(self, chunk: Chunk) -> bool:
        """Whether all results of a chunk are there."""
        return all(self._file(name, chunk).exists() for name in self.outputs)

    def there(self, folder: str) -> set[str]:
        """The names of the chunks in a folder that have all results; removes files that nobody writes any more."""
        found = [_names(self.out / each / folder, ".npy") for each in self._folders.values()]
        return set.intersection(*found)

    def write(self, chunk: Chunk, arrays: Mapping[str, Array]) -> None:
        """Writes the results of a chunk; each file is complete when it appears, and stays after a power cut."""
        with NewFiles(durable=True) as files:
            for name, array in arrays.items():
                path = self._file(name, chunk)
                path.parent.mkdir(parents=True, exist_ok=True)
                with files.open(path) as stream:
                    np.save(stream, to_stored(array, self.outputs[name]))

    def _file(self, output: str, chunk: Chunk) -> pathlib.Path:
        return self.out / self._folders[output] / chunk.folder / f"{chunk.name}.npy"

    # What is beside the results.

    def complete(self, folder: str) -> set[str]:
        """The names of the chunks of a folder that is finished; none if it is not."""
        try:
            text = (self.out / "done" / f"{folder}.json").read_text(encoding="utf-8")
        except OSError:
            return set()
        return set(json.loads(text))

    def finish(self, folder: str, names: Iterable[str]) -> None:
        """Notes that all chunks of a folder are done."""
        _write(self.out / "done" / f"{folder}.json", sorted(names))

    def fail(self, chunk: Chunk, error: BaseException | str) -> None:
        """Notes why a chunk has no result."""
        said: dict[str, Any] = {"chunk": chunk.name, "place": chunk.place, "error": type(error).__name__}
        if isinstance(error, DmlGraphError):
            said["code"] = error.code
        said |= {
            "message": str(error),
            "host": platform.node(),
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        _write(self._failure(chunk), said)

    def first_failure(self) -> str | None:
        """Why the first of the chunks that have no result has none; None if all of them have one."""
        for path in sorted((self.out / "failed").rglob("*.json")):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # another process may just remove it
                said = json.loads(path.read_text(encoding="utf-8"))
                return f"{said['chunk']}: {said['error']}: {said['message']}"
        return None

    def forgive(self, chunk: Chunk) -> None:
        """Removes the note of an earlier failure."""
        self._failure(chunk).unlink(missing_ok=True)

    def _failure(self, chunk: Chunk) -> pathlib.Path:
        return self.out / "failed" / chunk.folder / f"{chunk.name}.json"

    def log(self, chunk: Chunk, **numbers: float) -> None:
        """Notes that this process has computed a chunk."""
        path = self.out / "log" / f"{platform.node()}-{os.getpid()}.jsonl"
        path.parent.mkdir(exist_ok=True)
        line = {"chunk": chunk.name} | {key: round(each, 6) for key, each in numbers.items()}
        with path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")

    def claim(self, manifest: Mapping[str, Any]) -> None:
        """Writes what these are the results of, or compares it with what the folder holds already.

        Raises:
            GraphError: the folder holds the results of something else, which is named.
        """
        path = self.out / "manifest.json"
        told = json.loads(json.dumps(manifest))  # tuples become lists
        try:
            known = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            if self.out.exists() and any(self.out.iterdir()):
                raise GraphError(
                    f"'{self.out}' has other files and no manifest", code="other-results", hint="give an empty folder"
                ) from None
            self.start()
            _write(path, told)
            return
        except (OSError, ValueError) as error:
            raise GraphError(f"'{path}' cannot be read: {error}", code="unreadable") from None
        before, now = _flat(known), _flat(told)
        for key in sorted({*before, *now} - {"dmlgraph"}):
            if before.get(key) != now.get(key):
                raise GraphError(
                    f"'{self.out}' holds the results of something else",
                    code="other-results",
                    field=key,
                    got=shorten(now.get(key)),
                    allowed=shorten(before.get(key)),
                    hint="give another folder, or what the folder was begun with",
                )
        self.start()


class ZarrResults(Results):
    """The results of a job as one Zarr array for each output; a small file for each chunk says that it is written.

    Args:
        out, outputs: as in `Results`.
        axes: the axes of each output by its name.
    """

    def __init__(
        self,
        out: pathlib.Path,
        outputs: Mapping[str, DataType],
        axes: Mapping[str, tuple[Axis, ...]],
    ) -> None:
        super().__init__(out, outputs)
        self.axes = dict(axes)
        self._arrays: dict[str, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_arrays": {}}  # each process opens its own

    def start(self) -> None:
        need("zarr")
        import zarr

        super().start()
        group = zarr.open_group(self.out / "results.zarr", mode="a")
        for name, axes in self.axes.items():
            if name not in group:
                dtype = to_stored(np.empty(0, self.outputs[name].numpy), self.outputs[name]).dtype
                group.create_array(
                    name, shape=[axis.size for axis in axes], chunks=[axis.block for axis in axes], dtype=dtype
                )

    def has(self, chunk: Chunk) -> bool:
        return self._mark(chunk).exists()

    def there(self, folder: str) -> set[str]:
        return _names(self.out / "done" / folder, ".done")

    def write(self, chunk: Chunk, arrays: Mapping[str, Array]) -> None:
        for name, array in arrays.items():
            index = tuple(axis.part(chunk.place) for axis in self.axes[name])
            self._array(name)[index] = to_stored(array, self.outputs[name])
        mark = self._mark(chunk)
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()

    def finish(self, folder: str, names: Iterable[str]) -> None:
        super().finish(folder, names)
        for name in names:
            (self.out / "done" / folder / f"{name}.done").unlink(missing_ok=True)

    def _mark(self, chunk: Chunk) -> pathlib.Path:
        return self.out / "done" / chunk.folder / f"{chunk.name}.done"

    def _array(self, name: str) -> Any:
        if name not in self._arrays:
            import zarr

            self._arrays[name] = zarr.open_group(self.out / "results.zarr", mode="r+")[name]
        return self._arrays[name]


class Axis(NamedTuple):
    """An axis of an output: its size, that of its first block, and, if it follows a dim, where blocks begin and end.

    `parts` is by the begin of the block along the dim.
    """

    size: int
    block: int
    dim: str | None = None
    parts: Mapping[int, tuple[int, int]] | None = None

    def part(self, place: Place) -> slice:
        if self.dim is None or self.parts is None or isinstance(place, str):
            return slice(None)
        return slice(*self.parts[place[self.dim][0]])


def _flat(manifest: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """The values of nested mappings by dotted path."""
    flat: dict[str, Any] = {}
    for key, value in manifest.items():
        flat |= _flat(value, f"{above}{key}.") if isinstance(value, dict) else {f"{above}{key}": value}
    return flat


def _names(folder: pathlib.Path, suffix: str) -> set[str]:
    """The names of the files in a folder without this suffix; removes temporary files that are an hour old."""
    names = set()
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(suffix):
                    names.add(entry.name.removesuffix(suffix))
                elif entry.name.startswith(".dmlgraph-") and entry.stat().st_mtime < time.time() - ABANDONED:
                    pathlib.Path(entry.path).unlink(missing_ok=True)
    except FileNotFoundError:
        pass
    return names


def _write(path: pathlib.Path, data: object) -> None:
    """Writes a JSON file, which is complete when it appears."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with NewFiles(durable=True) as files, files.open(path) as stream:
        stream.write((json.dumps(data, indent=1, ensure_ascii=False) + "\n").encode())
