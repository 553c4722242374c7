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
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dmlgraph.base.by_name import above
from dmlgraph.base.errors import BindingError, listing, suggestion
from dmlgraph.base.scalar import Scalar
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.compiler.desc import GraphDesc, GraphState
from dmlgraph.devices.host.turns import Place, Turns
from dmlgraph.devices.memory import Array, Memory, Part
from dmlgraph.graph.constant_data import ConstantData
from dmlgraph.graph.nodes import LENGTH
from dmlgraph.graph.state_rules import fits, fitting


@dataclasses.dataclass(slots=True)
class Written:
    """How many rows of a tensor may have been written; the others are zero.  Also those of runs that failed count."""

    rows: int = 0


@dataclasses.dataclass(slots=True)
class Held:
    """One state of a set, at one time; nothing changes it.  Not frozen: every run makes one for each state.

    Attributes:
        desc: of all of it.
        grows: the axis of its rows; None if it is updated whole.
        initial: what it holds at first.
        tensor: its elements in the memory of the set; of a growing state, those of its capacity.  Runs write only rows
            of it that do not count.
        length: how many rows it has; 0 if it does not grow.
        spares: tensors for the next values of a state that is updated whole.
        written: what of the tensor may have been; one object for all that have the tensor.
    """

    desc: TensorDesc
    grows: int | None
    initial: ConstantData | Scalar | None
    tensor: Any
    length: int = 0
    spares: tuple[Any, ...] = ()
    written: Written = dataclasses.field(default_factory=Written)

    @classmethod
    def first(cls, memory: Memory, desc: TensorDesc, grows: int | None, initial: ConstantData | Scalar | None) -> Held:
        """A state before the first run that changes it."""
        if initial is None:
            return cls(desc, grows, initial, memory.zeros(desc))
        written = Written(0 if grows is None else desc.sizes[grows])
        return cls(desc, grows, initial, memory.hold(first_value(desc, initial), desc), written=written)

    def anew(self, memory: Memory) -> Held:
        """The state as it was at first."""
        return self.first(memory, self.desc, self.grows, self.initial)

    def holding(self, memory: Memory, array: Array) -> Held:
        """The state with the elements, or, if it grows, the rows of an array that fits."""
        length = 0
        if self.grows is not None:
            length, rest = array.shape[self.grows], np.zeros(self.desc.sizes, array.dtype)
            rest[rows(self.grows, 0, length)] = array
            array = rest
        return dataclasses.replace(self, tensor=memory.hold(array, self.desc), length=length, written=Written(length))

    def fitted(self, memory: Memory, desc: TensorDesc) -> Held:
        """The state with another capacity, which is enough for the rows that it has."""
        tensor = memory.zeros(desc)
        memory.move(self.tensor, self.desc, self.part, tensor, desc, self.part)
        return dataclasses.replace(self, desc=desc, tensor=tensor, written=Written(self.length))

    def has_other_capacity(self, desc: TensorDesc, grows: int | None) -> bool:
        """Whether a description is that of the same growing state with another capacity."""
        if grows is None or (grows, desc.rank, desc.dtype) != (self.grows, self.desc.rank, self.desc.dtype):
            return False
        pairs = zip(desc.sizes, self.desc.sizes, strict=True)
        return [axis for axis, (one, other) in enumerate(pairs) if one != other] == [grows]

    @property
    def part(self) -> Part:
        """The elements that count."""
        return () if self.grows is None else rows(self.grows, 0, self.length)

    @property
    def bytes(self) -> int:
        return self.desc.total_bytes * (1 + len(self.spares))

    def __str__(self) -> str:
        grows = "" if self.grows is None else f", grows along {self.grows}"
        return f"{self.desc.dtype} {list(self.desc.sizes)}{grows}"


class States:
    """A set of states on a device.  Runs that use it at the same time take turns.

    Args:
        device: the name of the device.
        memory: where the device has what they hold.

    Attributes:
        layout: another object after each change of capacities: who knows it need not `declare` again.
    """

    def __init__(self, device: str, memory: Memory) -> None:
        self.device, self._memory, self.layout = device, memory, object()
        self._held: dict[str, Held] = {}  # replaced as a whole, so that changes take effect together
        self._fits: GraphDesc | None = None  # whose capacities growing states have
        self._turns = Turns()

    # Reading and writing.

    def __getitem__(self, name: str) -> Array:
        """A copy of what a state holds; of a growing state, of the rows that it has."""
        with self._turn:
            held = self._find(name)
            return self._memory.read(held.tensor, held.desc, held.part)

    def __setitem__(self, name: str, value: Any) -> None:
        """Replaces what a state holds; a growing state then has the rows of the array."""
        with self._turn:
            held = self._find(name)
            other = held.holding(self._memory, _checked(name, held, np.asarray(value)))
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
        return sum(held.bytes for held in self._held.values())

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

    def stretch(self, rows: int) -> None:
        """Makes every growing state have so many rows; those that no run has written are zero.

        Raises:
            BindingError: a state has a smaller capacity.
        """
        with self._turn:
            grown = {name: held for name, held in self._held.items() if held.grows is not None}
            most = min((held.desc.sizes[held.grows or 0] for held in grown.values()), default=0)
            if isinstance(rows, bool) or not isinstance(rows, (int, np.integer)) or not 0 <= rows <= most:
                raise BindingError(
                    "a state cannot have so many rows", code="range", field="rows", got=rows, allowed=f"0 to {most}"
                )
            longer = {name: dataclasses.replace(held, length=int(rows)) for name, held in grown.items()}
            self._held = self._held | longer

    def put(self, name: str, part: Part, source: States, source_part: Part) -> None:
        """Copies a part of a growing state from that of the same name in another set of the device, or in this one.

        It stays on the device.  Lengths do not change, and rows beyond them may be written.

        Args:
            part, source_part: a slice for every axis.

        Raises:
            BindingError: the set is on another device, a state is missing or does not grow, or the parts do not fit.
        """
        if source._memory is not self._memory:
            message = "is a set on another device"
            raise BindingError(message, code="states", field="source", got=source.device, allowed=self.device)
        with self._turn, source._turn:
            held, other = self._find(name), source._find(name)
            if held.grows is None or (held.grows, held.desc.dtype) != (other.grows, other.desc.dtype):
                message = "the states do not grow alike"
                raise BindingError(message, code="states", field=name, got=str(other), allowed=str(held))
            sizes, given = _part_sizes(held.desc, part), _part_sizes(other.desc, source_part)
            if sizes is None or sizes != given:
                message = "the parts have other sizes"
                raise BindingError(message, code="sizes", field=name, got=str(given), allowed=str(sizes))
            held.written.rows = max(held.written.rows, range(held.desc.sizes[held.grows])[part[held.grows]].stop)
            self._memory.move(other.tensor, other.desc, source_part, held.tensor, held.desc, part)

    def reset(self) -> None:
        """Makes every state what it was at first."""
        with self._turn:
            self._held = {name: held.anew(self._memory) for name, held in self._held.items()}

    def copy(self) -> States:
        """Another set that holds the same."""
        other = States(self.device, self._memory)
        with self._turn:
            other._held = {
                name: dataclasses.replace(
                    held,
                    tensor=self._memory.copy(held.tensor, held.desc),
                    spares=(),
                    written=Written(held.written.rows),
                )
                for name, held in self._held.items()
            }
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

    def fit(self, graph: GraphDesc) -> None:
        """Gives growing states the capacities of a graph, `Executable.graph`; the rows that they have are copied.

        Executables of other capacities cannot use the set until `fit` gives it theirs.

        Raises:
            BindingError: a state has more rows; then none is changed.
        """
        if self._fits is graph:
            return
        with self._turn:
            fitted = {}
            for state, desc in graph.held:
                held = self._held.get(state.name)
                if held is None or not held.has_other_capacity(desc, state.grows):
                    continue
                assert state.grows is not None
                capacity = desc.sizes[state.grows]
                if held.length > capacity:
                    raise _full(state.name, f"{held.length} rows", capacity)
                fitted[state.name] = held.fitted(self._memory, desc)
            if fitted:
                self._held, self.layout = self._held | fitted, object()
            self._fits = graph

    def declare(self, graph: GraphDesc, device: str, memory: Memory) -> None:
        """Adds the states of a graph that the set does not have yet.

        Raises:
            BindingError: the set is on another device, or has a state of another data type, other sizes or axis.
            DeviceError: the set is lost with its device.
        """
        self._memory.check()
        if device != self.device or memory is not self._memory:
            raise BindingError("are on another device", code="states", field="states", got=self.device, allowed=device)
        with self._turn:
            new = {}
            for state, desc in graph.held:
                held = self._held.get(state.name)
                if held is None:
                    new[state.name] = Held.first(memory, desc, state.grows, state.initial)
                elif (held.desc.dtype, held.desc.sizes, held.grows) != (desc.dtype, desc.sizes, state.grows):
                    raise BindingError(
                        "the set has another state of this name",
                        code="states",
                        field=state.name,
                        got=str(held),
                        allowed=f"{desc.dtype} {list(desc.sizes)}",
                        hint="fit gives it the capacity" if held.has_other_capacity(desc, state.grows) else None,
                    )
            if new:
                self._held, self._fits = self._held | new, None

    @contextlib.contextmanager
    def turn(self, uses: Sequence[Use], steps: int, ready: Callable[[], None]) -> Iterator[Turn]:
        """The set for some steps of a graph, after `ready`; others wait.

        Raises:
            BindingError: the rows of these steps do not fit a state.
        """
        with self._turn:
            ready()
            found = self._held
            states = [(use, found[use.name]) for use in uses]
            for use, held in states:
                if use.rows and held.length + steps * use.rows > use.capacity:
                    hint = "rewind, reset, or use a graph with a larger capacity"
                    raise _full(use.name, f"{held.length} rows and {steps * use.rows} more", use.capacity, hint)
            yield Turn(self, states, steps)

    @property
    def _turn(self) -> contextlib.AbstractContextManager[None]:
        """The set for the calling thread, after the runs that were submitted before."""
        return self._turns.taken()

    def place(self) -> Place:
        """A place in the line of those that use the set, for a run that begins later."""
        return self._turns.place()

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


@dataclasses.dataclass(frozen=True, slots=True)
class Use:
    """How each run of a graph uses a state.

    Attributes:
        state: its slots in the graph.
        name, input, length, output: those of `state`; an empty text in the place of None.
        rows: how many rows a run appends.
        capacity: the most rows that it can have; 0 if it does not grow.
        is_updated: whether a run replaces all of it.
        before: the part of a tensor along the axes before that of its rows.
        place: the number of its input.
    """

    state: GraphState
    name: str
    input: str
    length: str
    output: str
    rows: int = 0
    capacity: int = 0
    is_updated: bool = False
    before: Part = ()
    place: int = 0


def uses_of(graph: GraphDesc) -> tuple[Use, ...]:
    """How runs of a graph use its states, in its order."""
    inputs = {slot.name: number for number, slot in enumerate(graph.inputs)}
    outputs = {slot.name: slot.desc for slot in graph.outputs}
    uses = []
    for state, desc in graph.held:
        named, axis = (state, state.name, state.input, state.length or "", state.output or ""), state.grows
        place = inputs[state.input]
        if axis is None:
            uses.append(Use(*named, is_updated=state.output is not None, place=place))
        else:
            rows = outputs[state.output].sizes[axis] if state.output is not None else 0
            uses.append(Use(*named, rows, desc.sizes[axis], before=tuple([slice(None)] * axis), place=place))
    return tuple(uses)


def _full(name: str, rows: str, capacity: int, hint: str | None = None) -> BindingError:
    message, allowed = "the rows do not fit the state", f"a capacity of {capacity}"
    return BindingError(message, code="capacity", field=name, got=rows, allowed=allowed, hint=hint)


@dataclasses.dataclass(slots=True)
class Updated:
    """A state that each step of a graph replaces.  Not frozen: every run makes one for each.

    Attributes:
        use: how each step uses it.
        held: what it holds before the first step.
        tensors: what the first step reads, then what the steps write in turns.
    """

    use: Use
    held: Held
    tensors: tuple[Any, ...]

    def tensor(self, step: int) -> Any:
        """What a step reads.  No step writes what the first one reads: if one fails, the state stays what it was."""
        return self.tensors[0 if step == 0 else 1 + (step - 1) % 2]

    def after(self, steps: int) -> Held:
        """What the state holds after the steps."""
        held, tensor = self.held, self.tensor(steps)
        spares = tuple([each for each in self.tensors if each is not tensor])
        return Held(held.desc, held.grows, held.initial, tensor, held.length, spares)


class Turn:
    """A set of states during some steps of a graph.

    Attributes:
        states: how each step uses the states of the graph, and what they hold before the first one.
        growing: those of them that grow.
        written: how many rows of these may be other than zero before the first step.
        updated: those that each step replaces.
        busy: held by who writes into the tensors.  A run that nobody waits for any more may still do so.
    """

    def __init__(self, owner: States, states: Sequence[tuple[Use, Held]], steps: int) -> None:
        self._owner, self.states, self._steps = owner, states, steps
        self.busy = owner._turns.busy
        self.growing = [pair for pair in states if pair[0].capacity]
        self.written = [held.written.rows for _, held in self.growing]
        self.updated = [Updated(use, held, self._tensors(held)) for use, held in states if use.is_updated]
        for use, held in self.growing:
            # From now on, also if the run fails.
            held.written.rows = max(held.written.rows, held.length + steps * use.rows)

    def _tensors(self, held: Held) -> tuple[Any, ...]:
        """What a state holds, and what the steps write in turns."""
        lacks = min(self._steps, 2) - len(held.spares)
        return (held.tensor, *held.spares, *[self._owner._memory.zeros(held.desc) for _ in range(lacks)])

    def arrays(self) -> dict[str, Array]:
        """Copies of what the states hold before the first step, and their lengths, by input."""
        read = self._owner._memory.read
        return {use.input: read(held.tensor, held.desc, ()) for use, held in self.states} | self.lengths(0)

    def counts(self, step: int) -> tuple[list[int], list[int]]:
        """Of states that grow: how many rows they have before a step, and how many may be other than zero."""
        lengths = [held.length + step * use.rows for use, held in self.growing]
        pairs = zip(self.written, lengths, strict=True)
        return lengths, [written if written > length else length for written, length in pairs]

    def lengths(self, step: int) -> dict[str, Array]:
        """How many rows growing states have before a step, by input; those of one length share an array."""
        arrays: dict[int, Array] = {}
        found = {}
        for use, held in self.growing:
            if use.length:
                length = held.length + step * use.rows
                array = arrays.get(length)
                if array is None:
                    array = arrays[length] = np.array([length], LENGTH.dtype.numpy)
                found[use.length] = array
        return found

    def place(self, step: int, arrays: list[Any]) -> dict[str, Any]:
        """Puts what the states hold before a step to their places among the inputs of the step before.

        Returns:
            Where the next values of states go that are updated whole, by output.
        """
        if step == 0:
            for use, held in self.states:
                arrays[use.place] = held.tensor
        for each in self.updated:
            arrays[each.use.place] = each.tensor(step)
        return {each.use.output: each.tensor(step + 1) for each in self.updated}

    def append(self, step: int, results: Mapping[str, Array]) -> None:
        """Writes the rows of a step behind those that states have; for tensors that are arrays."""
        for use, held in self.growing:
            if use.rows:
                begin = held.length + step * use.rows
                held.tensor[(*use.before, slice(begin, begin + use.rows))] = results[use.output]

    def commit(self) -> None:
        """Makes what the steps left what the states hold, all together."""
        steps, changed = self._steps, self._owner._held.copy()
        for use, held in self.growing:
            if use.rows:
                length = held.length + steps * use.rows
                changed[use.name] = Held(held.desc, held.grows, held.initial, held.tensor, length, (), held.written)
        for each in self.updated:
            changed[each.use.name] = each.after(steps)
        self._owner._held = changed


def rows(axis: int, begin: int, end: int) -> Part:
    """The part of a tensor that some rows are."""
    return (slice(None),) * axis + (slice(begin, end),)


def _part_sizes(desc: TensorDesc, part: Part) -> list[int] | None:
    """The sizes of a part; None if it is not a range without gaps along every axis."""
    if len(part) != desc.rank or any(each.step not in (None, 1) for each in part):
        return None
    return [len(range(size)[each]) for size, each in zip(desc.sizes, part, strict=True)]


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
