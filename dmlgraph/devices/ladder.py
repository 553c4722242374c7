"""Ladder: one graph compiled for several sizes, each when it is first needed.

    ladder = dg.Ladder(graph, device="cpu", dims={"tokens": [1, 16, 128]})
    ladder.at({"tokens": 12})           # the executable for 16 tokens
    ladder.prepare({"tokens": 128})     # compiles in the background
    ladder.run({"x": image})            # sizes as those of the arrays, one set of states for all executables
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlgraph.base.errors import BindingError, GraphError, listing, suggestion
from dmlgraph.base.expressions import NOT_A_DIM
from dmlgraph.base.once_per_key import OncePerKey
from dmlgraph.devices.in_flight import RunsInFlight
from dmlgraph.devices.names import DeviceName
from dmlgraph.devices.recipe import chosen_rules
from dmlgraph.devices.states import States
from dmlgraph.graph.dims import check_size
from dmlgraph.graph.graph import Graph

if TYPE_CHECKING:
    from concurrent.futures import Future

    from dmlgraph.devices.executable import Executable


@dataclasses.dataclass(frozen=True, slots=True)
class Compilation:
    """One that a ladder has done.

    Attributes:
        dims: the sizes.
        at: when it began, in seconds since the epoch.
        seconds: how long it took.
        in_background: whether `prepare` asked for it.
    """

    dims: Mapping[str, int]
    at: float
    seconds: float
    in_background: bool


class Ladder:
    """One graph compiled for several sizes: it keeps the executables that were used last.

    Its executables share the constants of the graph, and one set of states.

    Args:
        graph: the graph; or what makes it of sizes by name, such as `lambda dims: dg.load("model.onnx", dims=dims)`,
            where another size of a dim makes other nodes.
        device, fuse, threads, debug, metacommands, half_precision: as in `Graph.compile`.
        dims: by dim: the sizes to compile for, its rungs.  A dim that is not named may have any size.
        most: how many executables are kept.

    Attributes:
        defaults: sizes of dims that are not said: those of the graph; for a function, the least rungs.
        rungs: the sizes of `dims`, in ascending order.

    Raises:
        GraphError: a dim is unknown, or its rungs are not sizes.
        BindingError: `most` is not a positive number.
    """

    def __init__(
        self,
        graph: Graph | Callable[[Mapping[str, int]], Graph],
        *,
        device: DeviceName = "auto",
        dims: Mapping[str, Sequence[int]] | None = None,
        most: int = 8,
        fuse: bool | Iterable[str] = True,
        threads: int | None = None,
        debug: bool = False,
        metacommands: bool = True,
        half_precision: bool = False,
    ) -> None:
        if isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise BindingError(
                "is not a number of executables", code="range", field="most", got=most, allowed="at least 1"
            )
        self._graph = graph if isinstance(graph, Graph) else None
        self._make = graph.with_dims if isinstance(graph, Graph) else graph
        self.defaults = graph.dims if isinstance(graph, Graph) else dict.fromkeys(dims or {}, 1)
        self.rungs = {dim: self._checked_rungs(dim, sizes) for dim, sizes in (dims or {}).items()}
        self._how = {
            "device": device,
            "fuse": chosen_rules(fuse),
            "threads": threads,
            "debug": debug,
            "metacommands": metacommands,
            "half_precision": half_precision,
        }
        self._executables: OncePerKey[Executable] = OncePerKey(most)
        self._compiled: list[Compilation] = []
        self._background = RunsInFlight(1)
        self._states: States | None = None
        self._making_states = threading.Lock()

    def _checked_rungs(self, dim: str, sizes: Sequence[int]) -> tuple[int, ...]:
        self._check_known(dim)
        if isinstance(sizes, str) or not isinstance(sizes, Iterable) or not (rungs := sorted(set(sizes))):
            raise GraphError("must be a list of sizes", code="kind", field=f"dims.{dim}", got=sizes)
        for each in rungs:
            check_size(dim, each)
        return tuple(int(each) for each in rungs)

    def _check_known(self, *dims: str) -> None:
        for dim in dims:
            if self._graph is not None and dim not in self.defaults:
                raise GraphError(
                    NOT_A_DIM,
                    code="unknown-dim",
                    field=f"dims.{dim}",
                    allowed=listing(self.defaults) or "nothing: the graph has no dims",
                    hint=suggestion(dim, self.defaults),
                )

    # Executables.

    def at(self, dims: Mapping[str, int] | None = None) -> Executable:
        """The executable for some sizes, compiled if it is not there; a dim with rungs has the least that is enough.

        Threads that ask for the same one wait until it is compiled.

        Raises:
            GraphError: a dim is unknown, or has no rung of at least this size.
            DmlGraphError: the graph is not legal with these sizes, or the device cannot run it.
        """
        return self._at(self.sizes(dims), in_background=False)

    def prepare(self, dims: Mapping[str, int] | None = None) -> Future[Executable]:
        """The same, compiled by a thread of the library; raises what is wrong with the sizes, the future the rest."""
        sizes = self.sizes(dims)
        return self._background.submit(lambda: self._at(sizes, in_background=True))

    def sizes(self, dims: Mapping[str, int] | None = None) -> dict[str, int]:
        """The sizes of the executable that `at` gives for some sizes; of dims that are not named, those of the graph.

        Raises:
            GraphError: as `at`.
        """
        wanted = self.defaults | dict(dims or {})
        self._check_known(*wanted)
        return {dim: self._rung(dim, size) for dim, size in wanted.items()}

    def _rung(self, dim: str, size: int) -> int:
        check_size(dim, size)
        if dim not in self.rungs:
            return int(size)
        for rung in self.rungs[dim]:
            if size <= rung:
                return rung
        raise GraphError(
            "the ladder has no size that is enough",
            code="range",
            field=f"dims.{dim}",
            got=size,
            allowed=f"at most {self.rungs[dim][-1]}",
        )

    def _at(self, sizes: dict[str, int], *, in_background: bool) -> Executable:
        return self._executables.get(str(sorted(sizes.items())), lambda: self._compile(sizes, in_background))

    def _compile(self, sizes: dict[str, int], in_background: bool) -> Executable:
        at, start = time.time(), time.perf_counter()
        graph = self._make(sizes)
        executable = graph.compile(**self._how)  # type: ignore[arg-type]
        self._compiled.append(Compilation(sizes, at, time.perf_counter() - start, in_background))
        return executable

    @property
    def stats(self) -> dict[str, Any]:
        """`compiled`: a Compilation for each, in the order of their ends; `kept`: how many executables are there."""
        return {"compiled": list(self._compiled), "kept": len(self._executables)}

    def close(self) -> None:
        """Waits for what is compiled in the background, and forgets the executables; `prepare` cannot be used after."""
        self._background.close()
        self._executables.clear()

    # Runs.

    @property
    def states(self) -> States:
        """The set of states that runs use by default."""
        with self._making_states:
            if self._states is None:
                self._states = self.at().new_states()
            return self._states

    def run(
        self,
        inputs: Mapping[str, Any] | None = None,
        out: Mapping[str, Any] | None = None,
        *,
        dims: Mapping[str, int] | None = None,
        states: States | None = None,
        **wanted: Any,
    ) -> dict[str, Any]:
        """Runs the executable for the sizes of the arrays.

        Args:
            inputs, out: as in `Executable.run`.
            dims: sizes that no array says; where a function makes the graph, all.
            states: the set to use, in place of `Ladder.states`.  It gets the executable's capacities; do not use it in
                other threads meanwhile.
            wanted: `steps`, `collect` and `keep`, as in `Executable.run`.

        Raises:
            GraphError: as `at`, or a dim has no rung of an array's size.
            BindingError, NotEnoughMemoryError: as `Executable.run`.
        """
        said = {} if self._graph is None else dims_of(self._graph, inputs or {})
        for dim, size in said.items():
            if size not in self.rungs.get(dim, (size,)):
                allowed = listing(map(str, self.rungs[dim]))
                raise GraphError(
                    "the ladder does not have the size of the array",
                    code="range",
                    field=f"dims.{dim}",
                    got=size,
                    allowed=allowed,
                )
        executable = self.at(said | dict(dims or {}))
        if executable.graph.states and states is None:
            states = self.states
        if isinstance(states, States):
            states.fit(executable.graph)
        return executable.run(inputs, out, states=states, **wanted)


def dims_of(graph: Graph, inputs: Mapping[str, Any]) -> dict[str, int]:
    """The dims that arrays say: of inputs that are declared with them, as far as the arrays have as many axes."""
    declared = {node.name: node.declared["sizes"] for node in graph.inputs}
    found: dict[str, int] = {}
    for name, given in inputs.items():
        shape = getattr(given, "sizes", None) or np.shape(given)
        sizes = declared.get(name, ())
        if len(sizes) == len(shape):
            pairs = zip(map(str, sizes), shape, strict=True)
            found |= {dim: size for dim, size in pairs if dim in graph.dims and size}
    return found
