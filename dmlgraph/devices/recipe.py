"""Recipe: a graph and how it was compiled, which is what an executable is in other processes.

A process keeps the graphs and executables of the recipes that reached it last, by their content: a worker reads and
compiles a graph once, whatever the number of its tasks.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import hashlib
import os
import pathlib
import platform
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from dmlgraph.base.by_name import above
from dmlgraph.base.errors import GraphError, Problem
from dmlgraph.base.once_per_key import OncePerKey
from dmlgraph.base.report import Report

if TYPE_CHECKING:
    from dmlgraph.devices.device import DeviceName
    from dmlgraph.devices.executable import Array, Executable
    from dmlgraph.graph.graph import Graph

Content = tuple[str, "Mapping[str, Array]"]  # of a document
MOST = 32  # graphs, and executables, that a process keeps


class Source:
    """A graph that is known by its content, and made when it is needed.

    It pickles as the canonical document with the arrays of its constants; `SharedFile` pickles as a path.

    Args:
        make: makes the graph, which nobody changes afterwards.
        digest: of its content, if it is known.
    """

    def __init__(self, make: Callable[[], Graph], digest: str | None = None) -> None:
        self._make: Callable[[], Graph] | None = make
        self._content: Content | None = None  # what arrived, until the graph is made of it
        if digest is not None:
            self.digest = digest

    @classmethod
    def of(cls, graph: Graph) -> Source:
        """The source of a graph as it is now; shares its constants."""
        same = copy.copy(graph)
        # None of these says what it computes.
        same.origin.tests, same.origin.remarks, same.origin.training = {}, (), None
        return cls(lambda: same)

    @functools.cached_property
    def graph(self) -> Graph:
        assert self._make is not None
        graph = self._make()
        self._make = self._content = None  # what it was made of is not kept beside it
        return graph

    @functools.cached_property
    def parts(self) -> tuple[str, dict[str, Array]]:
        """The canonical document: text, and the arrays of the constants, which are the graph's own."""
        canonical: tuple[str, dict[str, Array]] = above("formats.yaml.portable:parts", self.graph)
        return canonical

    @functools.cached_property
    def digest(self) -> str:
        """The SHA-256 of the canonical document and its arrays."""
        return str(above("formats.yaml.portable:digest_of", *self.parts))

    @classmethod
    def arrived(cls, digest: str, content: Content) -> Source:
        """The source of what another process sent; a scheduler sends it on without looking at it."""
        source = cls(lambda: cast("Graph", above("formats.yaml.portable:restore", *content)), digest)
        source._content = content
        return source

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (self.digest, self._content or self.parts)


class SharedFile(Source):
    """A graph in a file that other machines see under the same path; it pickles as the path and the digest.

    Args:
        path: a graph file or an ONNX model.
        dims: other values for its dims.
        digest: of the graph that the file must hold.
        target: the feature level of a model.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        dims: Mapping[str, int] | None,
        digest: str | None = None,
        target: str | None = None,
    ) -> None:
        self.path, self.dims, self._expected = pathlib.Path(path).absolute(), dict(dims or {}), digest
        self.target = target
        super().__init__(self._load, digest)

    def _load(self) -> Graph:
        graph: Graph = above("formats.load_save:load", self.path, dims=self.dims, target=self.target)
        found = Source.of(graph)
        if self._expected not in (None, found.digest):
            raise GraphError(
                f"'{self.path.name}' holds another graph on {platform.node()}",
                code="other-graph",
                got=found.digest[:12],
                allowed=self.digest[:12],
                hint="all machines must see the same files",
            )
        return found.graph

    def __reduce__(self) -> tuple[Any, ...]:
        return _shared, (str(self.path), self.dims, self.digest, self.target)


_SOURCES: OncePerKey[Source] = OncePerKey(MOST)


def _arrived(digest: str, content: Content) -> Source:
    """The source with this content, which may have arrived before."""
    return _SOURCES.get(digest, lambda: Source.arrived(digest, content))


def _shared(path: str, dims: Mapping[str, int], digest: str, target: str | None) -> Source:
    return _SOURCES.get(f"{digest} {path}", lambda: SharedFile(path, dims, digest, target))


@dataclasses.dataclass(frozen=True)
class Recipe:
    """What `Graph.compile` was given.

    Attributes:
        source: the graph.
        device: the device's name as the user gave it: `auto` chooses again in each process.
        fuse, threads, debug, metacommands, half_precision: as in `Graph.compile`.
        dims: other values for the graph's dims.
    """

    source: Source
    device: str = "auto"
    fuse: bool | tuple[str, ...] = True
    threads: int | None = None
    debug: bool = False
    dims: tuple[tuple[str, int], ...] = ()
    metacommands: bool = True
    half_precision: bool = False

    @functools.cached_property
    def key(self) -> str:
        """A digest of all of it."""
        permissions = (self.metacommands, self.half_precision)
        said = (self.source.digest, self.device, self.fuse, self.threads, self.debug, sorted(self.dims), permissions)
        return hashlib.sha256(repr(said).encode()).hexdigest()

    def with_dims(self, dims: Mapping[str, int]) -> Recipe:
        """The recipe with other values for dims; those that the graph has anyway make no difference."""
        known = self.source.graph.dims
        merged = dict(self.dims) | dict(dims)
        return dataclasses.replace(self, dims=tuple((k, v) for k, v in merged.items() if known.get(k) != v))

    def compile(self) -> Executable:
        """A new executable.

        Raises:
            DmlGraphError: the device is not here, or cannot run the graph; says on which machine.
        """
        graph = self.source.graph

        def place(problem: Problem) -> Problem:
            where = f"the graph '{graph.name}' cannot be compiled for '{self.device}' on {platform.node()}"
            return dataclasses.replace(problem, message=f"{where}: {problem.message}")

        with Report(place=place):
            executable = graph.compile(
                cast("DeviceName", self.device),
                fuse=self.fuse,
                dims=dict(self.dims) or None,
                threads=self.threads,
                debug=self.debug,
                metacommands=self.metacommands,
                half_precision=self.half_precision,
            )
        executable.recipe = self
        return executable

    def shared(self) -> Executable:
        """The executable of this process, compiled when it is first asked for; raises as `compile`."""
        return _EXECUTABLES.get(self.key, self.compile)

    def unpickled(self) -> Executable:
        """The executable of a recipe from elsewhere, which all that unpickle the same share.

        One that keeps owned inputs from run to run is shared with nobody.
        """
        owns = any(node.desc.owned for node in self.source.graph.inputs)
        return self.compile() if owns else self.shared()

    def forget(self, executable: Executable) -> None:
        """Takes an executable that cannot be used any more from those that the process keeps."""
        _EXECUTABLES.drop(executable)


_EXECUTABLES: OncePerKey[Executable] = OncePerKey(MOST)


def chosen_rules(fuse: bool | Iterable[str]) -> bool | tuple[str, ...]:
    """`fuse` of `Graph.compile` as a value that can be kept, pickled and used twice; wrong ones stay as they are."""
    if isinstance(fuse, (bool, str)) or not isinstance(fuse, Iterable):
        return cast(bool, fuse)
    return tuple(fuse)
