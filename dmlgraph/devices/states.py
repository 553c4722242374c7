"""States: what graphs hold on a device from run to run.

    states = exe.new_states()
    exe.run(inputs, states=states)
    states["keys"], states.lengths, states.rewind(2), states.save("states.safetensors")

A set belongs to a device, not to an executable: every executable of the device may use it that declares states of the
same names, data types and sizes.  Those that an executable does not declare stay as they are.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dmlgraph.base.by_name import above
from dmlgraph.base.errors import BindingError, listing, suggestion
from dmlgraph.base.scalar import Scalar
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.compiler.desc import GraphDesc
from dmlgraph.graph.constant_data import ConstantData
from dmlgraph.graph.nodes import LENGTH
from dmlgraph.graph.states import fits, fitting

Array = np.ndarray[Any, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Held:
    """One state of a set, at one time.

    Attributes:
        desc: of all of it.
        grows: the axis of its rows; None if it is updated whole.
        initial: what it holds at first.
        array: its elements; of a growing state, those of its capacity.  Only rows that do not count are written.
        length: how many rows it has; 0 if it does not grow.
        spare: an array for the next value of a state that is updated whole; None until there is one.
    """

    desc: TensorDesc
    grows: int | None
    initial: ConstantData | Scalar | None
    array: Array
    length: int = 0
    spare: Array | None = None

    @classmethod
    def first(cls, desc: TensorDesc, grows: int | None, initial: ConstantData | Scalar | None) -> Held:
        """A state before the first run that changes it."""
        return cls(desc, grows, initial, first_value(desc, initial))

    @property
    def value(self) -> Array:
        """The elements that count."""
        return self.array if self.grows is None else self.rows(0, self.length)

    def rows(self, begin: int, end: int) -> Array:
        assert self.grows is not None
        return self.array[(slice(None),) * self.grows + (slice(begin, end),)]

    def copy(self) -> Held:
        return dataclasses.replace(self, array=self.array.copy(), spare=None)

    def __str__(self) -> str:
        grows = "" if self.grows is None else f", grows along {self.grows}"
        return f"{self.desc.dtype} {list(self.desc.sizes)}{grows}"


class States:
    """A set of states on a device.  Runs that use it at the same time take turns.

    Args:
        device: the name of the device.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self._held: dict[str, Held] = {}  # replaced as a whole, so that changes take effect together
        self._turn = threading.RLock()

    # Reading and writing.

    def __getitem__(self, name: str) -> Array:
        """A copy of what a state holds; of a growing state, of the rows that it has."""
        with self._turn:
            return self._find(name).value.copy()

    def __setitem__(self, name: str, value: Any) -> None:
        """Replaces what a state holds; a growing state then has the rows of the array."""
        with self._turn:
            held = self._find(name)
            array = _checked(name, held, np.asarray(value))
            if held.grows is None:
                self._held = self._held | {name: dataclasses.replace(held, array=array.copy())}
            else:
                other = dataclasses.replace(held, array=np.zeros_like(held.array), length=array.shape[held.grows])
                other.value[...] = array
                self._held = self._held | {name: other}

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, name: object) -> bool:
        return name in self._held

    def keys(self) -> tuple[str, ...]:
        """The names of the states."""
        return tuple(self._held)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}: {held}" for name, held in self._held.items())
        return f"<States on {self.device}: {shown or 'empty'}>"

    @property
    def lengths(self) -> dict[str, int]:
        """How many rows each growing state has."""
        return {name: held.length for name, held in self._held.items() if held.grows is not None}

    @property
    def bytes(self) -> int:
        """The memory of the set."""
        arrays = [array for held in self._held.values() for array in (held.array, held.spare) if array is not None]
        return sum(array.nbytes for array in arrays)

    def rewind(self, rows: int) -> None:
        """Takes the last rows off every growing state.

        Raises:
            BindingError: a state has fewer.
        """
        with self._turn:
            grown = {name: held for name, held in self._held.items() if held.grows is not None}
            least = min((held.length for held in grown.values()), default=0)
            if isinstance(rows, bool) or not isinstance(rows, (int, np.integer)) or not 0 <= rows <= least:
                raise BindingError(
                    "cannot rewind so many rows", code="range", field="rows", got=rows, allowed=f"0 to {least}"
                )
            shorter = {name: dataclasses.replace(held, length=held.length - int(rows)) for name, held in grown.items()}
            self._held = self._held | shorter

    def reset(self) -> None:
        """Makes every state what it was at first."""
        with self._turn:
            self._held = {name: Held.first(held.desc, held.grows, held.initial) for name, held in self._held.items()}

    def copy(self) -> States:
        """Another set that holds the same."""
        other = States(self.device)
        with self._turn:
            other._held = {name: held.copy() for name, held in self._held.items()}
        return other

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> States:
        memo[id(self)] = other = self.copy()
        return other

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes what the states hold to a safetensors file: the old file stays until the new one is whole."""
        above("formats.safetensors:save", path, {name: self[name] for name in self})

    def load(self, path: str | os.PathLike[str]) -> None:
        """Takes what the states hold from a safetensors file; other entries of the file are not read.

        Raises:
            GraphError: it is not such a file, or lacks a state.
            BindingError: an entry has another data type or other sizes.
        """
        with self._turn:
            arrays = above("formats.safetensors:load", path, list(self))
            before = self._held
            try:
                for name, array in arrays.items():
                    self[name] = array
            except BaseException:
                self._held = before
                raise

    # Running.

    def declare(self, graph: GraphDesc, device: str) -> None:
        """Adds the states of a graph that the set does not have yet.

        Raises:
            BindingError: the set is on another device, or has a state of another data type, other sizes or axis.
        """
        if device != self.device:
            raise BindingError("are on another device", code="states", field="states", got=self.device, allowed=device)
        with self._turn:
            inputs, new = {slot.name: slot.desc for slot in graph.inputs}, {}
            for state in graph.states:
                desc, held = inputs[state.input], self._held.get(state.name)
                if held is None:
                    new[state.name] = Held.first(desc, state.grows, state.initial)
                elif (held.desc.dtype, held.desc.sizes, held.grows) != (desc.dtype, desc.sizes, state.grows):
                    raise BindingError(
                        "the set has another state of this name",
                        code="states",
                        field=state.name,
                        got=str(held),
                        allowed=f"{desc.dtype} {list(desc.sizes)}",
                    )
            self._held = self._held | new

    @contextlib.contextmanager
    def turn(self, graph: GraphDesc, steps: int) -> Iterator[Turn]:
        """The set for some runs of a graph; others wait.

        Raises:
            BindingError: the rows of these runs do not fit a state.
        """
        with self._turn:
            outputs = {slot.name: slot.desc for slot in graph.outputs}
            for state in graph.states:
                held = self._held[state.name]
                if state.grows is None or state.output is None:
                    continue
                rows, capacity = (desc.sizes[state.grows] for desc in (outputs[state.output], held.desc))
                if held.length + steps * rows > capacity:
                    raise BindingError(
                        "the rows do not fit the state",
                        code="capacity",
                        field=state.name,
                        got=f"{held.length} rows and {steps * rows} more",
                        allowed=f"a capacity of {capacity}",
                        hint="rewind, reset, or use a graph with a larger capacity",
                    )
            yield Turn(self, graph)

    def _find(self, name: str) -> Held:
        try:
            return self._held[name]
        except KeyError:
            raise BindingError(
                "there is no state of this name",
                code="unknown-state",
                field=name if isinstance(name, str) else None,
                got=name,
                allowed=listing(self._held) or "nothing: no run has used the set",
                hint=suggestion(name, self._held) if isinstance(name, str) else None,
            ) from None


class Turn:
    """A set of states while a graph runs."""

    def __init__(self, states: States, graph: GraphDesc) -> None:
        self._states, self._graph = states, graph

    def inputs(self) -> dict[str, Array]:
        """What the states hold, and their lengths, by input."""
        arrays = {}
        for state in self._graph.states:
            held = self._states._held[state.name]
            arrays[state.input] = held.array
            if state.length is not None:
                arrays[state.length] = np.array([held.length], LENGTH.dtype.numpy)
        return arrays

    def targets(self) -> dict[str, Array]:
        """Arrays for the next values of states that are updated whole, by output."""
        targets = {}
        for state in self._graph.states:
            if state.output is not None and state.grows is None:
                held = self._states._held[state.name]
                spare = np.empty_like(held.array) if held.spare is None else held.spare
                targets[state.output] = spare
        return targets

    def take(self, results: Mapping[str, Array]) -> int:
        """Makes the results of a run what the states hold, all together; returns the bytes written."""
        new, size = {}, 0
        for state in self._graph.states:
            if state.output is None:
                continue
            held, result = self._states._held[state.name], results[state.output]
            if state.grows is None:
                new[state.name] = dataclasses.replace(held, array=result, spare=held.array)
            else:
                end = held.length + result.shape[state.grows]
                held.rows(held.length, end)[...] = result
                new[state.name] = dataclasses.replace(held, length=end)
            size += result.nbytes
        self._states._held = self._states._held | new
        return size


def first_value(desc: TensorDesc, initial: ConstantData | Scalar | None) -> Array:
    """What a state holds at first."""
    if isinstance(initial, ConstantData):
        return initial.array.copy()
    return np.full(desc.sizes, 0 if initial is None else initial.value, desc.dtype.numpy)


def _checked(name: str, held: Held, array: Array) -> Array:
    """An array that a state may hold."""
    desc = held.desc
    if array.dtype != desc.dtype.numpy or not fits(array.shape, desc.sizes, held.grows):
        raise BindingError(
            "the array has another data type or other sizes than the state",
            code="sizes" if array.dtype == desc.dtype.numpy else "dtype",
            field=name,
            got=f"{array.dtype} {list(array.shape)}",
            allowed=f"{desc.dtype} {fitting(desc.sizes, held.grows, least=0)}",
        )
    return array
