"""Executable: a graph compiled for a device, and the checks of the arrays it runs on."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import itertools
import operator
import pickle
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np

from dmlgraph.base.errors import BindingError, check_known, listing, plural
from dmlgraph.base.memory import enough_memory
from dmlgraph.base.tensor import MASKED, UNMASK, TensorDesc, is_masked
from dmlgraph.compiler.desc import GraphDesc, GraphInput, GraphOutput, OperatorDescNode
from dmlgraph.compiler.record import Entry
from dmlgraph.devices.host.overlap import overlap, overlaps_itself
from dmlgraph.devices.in_flight import RunsInFlight, Series, closed, in_order
from dmlgraph.devices.memory import HOST, Memory
from dmlgraph.devices.states import States, Turn, uses_of
from dmlgraph.devices.tensors import DeviceTensor
from dmlgraph.graph.constant_data import ConstantData
from dmlgraph.operators.declaration.operator import Operator

if TYPE_CHECKING:
    from concurrent.futures import Future

Array = np.ndarray[Any, Any]

_MISSING = np.empty(0)  # stands for an input that is not kept: a run is given it, or a set of states has it
_NAMED = 4  # how many inputs and outputs a repr names


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """A part of a run that is timed separately: one node, or several that run as one.

    Attributes:
        nodes: the names of the nodes it runs.
        how: how the device runs them, in a word.
        start: when it began, in seconds from the beginning of the run.
        seconds: how long it took.
        bytes: the size of the tensors it reads and writes.
        kernel: what runs the nodes, where a device has several kinds.
        operations: the multiplications and additions of its sums of products; 0 if it has none.
        of_integers: whether those are sums of integers of 8 bits.
        dispatches: how many the device made of it; None if it does not count them.
    """

    nodes: tuple[str, ...]
    how: str
    start: float
    seconds: float
    bytes: int
    kernel: str = ""
    operations: int = 0
    of_integers: bool = False
    dispatches: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Roof:
    """What a device can do at the most.

    Attributes:
        operations: multiplications and additions a second, of float32.
        integer_operations: the same of integers of 8 bits.
        bytes: read and written a second, in memory.
    """

    operations: float
    integer_operations: float
    bytes: float

    def share(self, step: Step) -> float:
        """The time that a step must take at least, as a share of what it took.

        It is above 1 for a step whose tensors are in the caches.
        """
        most = self.integer_operations if step.of_integers else self.operations
        least = max(step.operations / most, step.bytes / self.bytes)
        return least / max(step.seconds, 1e-9)


def tensor_bytes(operator: Operator) -> int:
    """The bytes of the tensors an operator reads and writes."""
    return sum(desc.total_bytes for desc in (*operator.input_descs, *operator.output_descs) if desc is not None)


@dataclasses.dataclass(slots=True)
class Wanted:
    """What is wanted of a call; nothing changes it.  Not frozen: every run makes one.

    Attributes:
        targets: arrays to write outputs into, by name.
        steps: how often to run.
        collect: outputs that are wanted of every step.
        keep: outputs that stay on the device.
    """

    targets: Mapping[str, Array] = dataclasses.field(default_factory=dict)
    steps: int = 1
    collect: Sequence[str] = ()
    keep: Sequence[str] = ()


def _element_bytes(desc: TensorDesc) -> int:
    """The bytes of a tensor's elements, without what strides leave out."""
    return desc.element_count * desc.dtype.bits // 8


class HowCompiled(Protocol):
    """How an executable was compiled: a `dmlgraph.devices.recipe.Recipe`."""

    def compile(self) -> Executable:
        """Another one."""

    def unpickled(self) -> Executable:
        """The one that stands for it in a process that unpickles it."""

    def forget(self, executable: Executable) -> None:
        """Takes one that cannot be used any more from those that the process keeps."""


class Executable(abc.ABC):
    """A compiled graph.

    Attributes:
        graph: what it executes.
        device: the name of the device it runs on.
        reason: why this device was chosen.
        stats: how it runs; the keys depend on the device.
        fusion: what the passes changed in the graph, and what they left alone and why.
        recipe: how it was compiled, which is what it pickles as; None if it was compiled of a GraphDesc alone.
    """

    AT_ONCE: ClassVar = 1  # how many submitted runs it works on at the same time

    def __init__(self, graph: GraphDesc, device: str, reason: str) -> None:
        self.graph, self.device, self.reason = graph, device, reason
        self._stats: dict[str, Any] = {}
        self.fusion: tuple[Entry, ...] = ()
        self.recipe: HowCompiled | None = None
        self._given = {slot.name: slot for slot in graph.given}
        self._slots = {slot.name: slot for slot in graph.results}
        self._memory: Memory = HOST  # where the device has what states hold
        self._states: States | None = None
        self._making_states = threading.Lock()
        self._uses = uses_of(graph)
        self._inputs = {slot.name: at for at, slot in enumerate(graph.inputs)}
        self._layout: object = None  # of the set that a run used last
        changing = {state.output for state in graph.states}
        self._state_bytes = sum(_element_bytes(slot.desc) for slot in graph.outputs if slot.name in changing)
        self._in_flight = RunsInFlight(self.AT_ONCE)
        # By slot: constants, and owned inputs that were given.
        self._kept = [_MISSING if each.elements is None else self._constant(each.elements) for each in graph.inputs]
        self._closed = False

    @property
    def stats(self) -> dict[str, Any]:
        self._stats.update(self._native_stats())
        return self._stats

    def _native_stats(self) -> Mapping[str, Any]:
        """What the native module knows of how it runs."""
        return {}

    def _constant(self, elements: ConstantData) -> Array:
        """What a run gets in the slot of a constant."""
        return elements.array

    @property
    def states(self) -> States:
        """The set of states that runs use by default."""
        with self._making_states:
            if self._states is None:
                self._states = self.new_states()
            return self._states

    def new_states(self) -> States:
        """Another set of states, which hold what they hold at first."""
        states = States(self.device, self._memory)
        states.declare(self.graph, self.device, self._memory)
        return states

    def run(
        self,
        inputs: Mapping[str, Any] | None = None,
        out: Mapping[str, Any] | None = None,
        *,
        states: States | None = None,
        steps: int | None = None,
        collect: Sequence[str] = (),
        keep: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Runs the graph once, or a number of times.

        Args:
            inputs: an array or a DeviceTensor for every input, by name; an array may have any strides and be
                read-only.  An input declared `owned` must be given the first time; the device then keeps it until
                another one is given.
            out: arrays to write outputs into, by name; other outputs are new arrays.  They may also be inputs, or
                share memory with inputs: every input is read as it was before the run.
            states: the set to use, in place of `Executable.states`.
            steps: how often to run, with the same inputs; states go from one run to the next.  If a run fails, none
                changes the states.
            collect: outputs that are wanted of every step: they get a new first axis of `steps`.
            keep: outputs that stay on the device.

        Returns:
            An array for every output, of the last run, by name; for names in `out` it is the caller's array, for names
            in `keep` a DeviceTensor.

        Raises:
            BindingError: an array is missing or unknown, has the wrong data type or shape, or is on another device.
            NotEnoughMemoryError: there is not enough memory to run.
        """
        is_plain = states is None and steps is None and not collect and not keep and not self.graph.states
        if is_plain and (results := self._run_quickly(inputs, out)) is not None:
            return results
        with enough_memory("run", self.graph):
            arrays = self._check_inputs(by_name(inputs, "inputs"))
            targets = self._check_outputs(by_name(out, "out"))
            if is_plain:
                return self._run(arrays, targets)
            collected = self._named(collect, "collect", {"out": targets})
            kept = self._named(keep, "keep", {"out": targets, "collect": collected})
            return self._run_steps(arrays, Wanted(targets, _steps(steps), collected, kept), self._chosen(states))

    def submit(
        self, inputs: Mapping[str, Any] | None = None, *, states: States | None = None
    ) -> Future[dict[str, Array]]:
        """Begins a run that nobody waits for yet: a thread of the library does what `run` does.

        Runs on one set of states, and whatever reads or changes that set afterwards, are in the order of submission.

        Args:
            inputs: as in `run`; they are copied before `submit` returns.
            states: as in `run`.

        Returns:
            A future of what `run` returns, in new arrays.  `cancel` works until the run begins.  Its callbacks must not
            wait for other runs: they are called by the thread that would do them.

        Raises:
            BindingError, NotEnoughMemoryError: as `run`, for what is wrong with the arguments.
            DeviceError: the executable is closed.
        """
        return self._submit(inputs, states, lambda run: run)

    def map(
        self,
        items: Iterable[Mapping[str, Any]],
        in_flight: int = 2,
        *,
        states: States | None = None,
    ) -> Iterator[dict[str, Array]]:
        """The results of runs, in order, while the next inputs are on their way.

        While the caller works on a result or `items` makes the next inputs, the device works on up to `in_flight - 1`
        others.  What goes wrong for an item is raised in the place of its result, and nothing begins afterwards.  A
        caller that stops early waits for the runs that have begun; they may have changed the states.

        Args:
            items: the inputs of each run, as in `submit`; they are taken when they are needed.
            in_flight: how many of them are taken at most before their results are.
            states: as in `run`.

        Raises:
            BindingError: `in_flight` is not a positive number.
            DmlGraphError: as `submit` and `run`, from the iterator.
        """
        at_most = _positive(in_flight, "in_flight", "runs in flight")

        def submit(inputs: Mapping[str, Any], series: Series) -> Future[dict[str, Array]]:
            return self._submit(inputs, states, series.part)

        return in_order(items, submit, at_most)

    def _submit(
        self,
        inputs: Mapping[str, Any] | None,
        states: States | None,
        adapted: Callable[[Callable[[], dict[str, Array]]], Callable[[], dict[str, Array]]],
    ) -> Future[dict[str, Array]]:
        self._check_open()
        chosen = self._chosen(states) if self.graph.states or states is not None else None
        with enough_memory("run", self.graph):
            arrays = self._check_inputs(by_name(inputs, "inputs"), copied=True)

        @enough_memory("run", self.graph)
        def run() -> dict[str, Array]:
            return self._run(arrays, {}) if chosen is None else self._run_steps(arrays, Wanted(), chosen)

        return self._in_flight.submit(adapted(run), None if chosen is None else chosen.place)

    def bind(
        self, inputs: Mapping[str, Any] | None = None, out: Mapping[str, Any] | None = None
    ) -> Callable[[], dict[str, Array]]:
        """Checks the arrays once and returns a function that runs the graph on their current contents."""
        with enough_memory("run", self.graph):
            arrays = self._check_inputs(by_name(inputs, "inputs"))
            targets = self._check_outputs(by_name(out, "out"))

        @enough_memory("run", self.graph)
        def run() -> dict[str, Array]:
            if not self.graph.states:
                return self._run(arrays, targets)
            return self._run_steps(arrays, Wanted(targets), self.states)

        return run

    def profile(self, inputs: Mapping[str, Any] | None = None) -> list[Step] | None:
        """Runs the graph once, as `run` does, and measures how long each part of the run took.

        Returns:
            The steps in the order they ran; None if the device cannot tell them apart.

        Raises:
            BindingError: as `run`.
        """
        with enough_memory("run", self.graph):
            read = {
                name: value.numpy() if isinstance(value, DeviceTensor) else value
                for name, value in by_name(inputs, "inputs").items()
            }
            arrays = self._check_inputs(read)
            self._check_open()
            if self.graph.states:
                with self._turn(self.states, 0) as turn:
                    steps = self._profile_turn(arrays, turn)
            else:
                steps = self._profile(arrays)
        if steps is None:
            return None
        run = {each.name: each.operator for each in self.graph.nodes if isinstance(each, OperatorDescNode)}
        operators = [[run[name] for name in step.nodes if name in run] for step in steps]
        return [
            dataclasses.replace(
                step,
                operations=sum(each.operations() for each in those),
                of_integers=any(each.multiplies_integers for each in those),
            )
            for step, those in zip(steps, operators, strict=True)
        ]

    def roof(self) -> Roof | None:
        """What the device can do at the most, measured now; None if it cannot tell."""
        return None

    def close(self) -> None:
        """Frees what the device holds for the graph, which cannot be run afterwards; submitted runs are done first."""
        try:
            self._in_flight.close()
        finally:
            self._closed = True
        self._leave()

    def _leave(self) -> None:
        """Leaves the executables that the process keeps, since it cannot be used any more."""
        if self.recipe is not None:
            self.recipe.forget(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """What a process that unpickles it compiles, or has compiled already; see `dmlgraph.devices.recipe`."""
        return operator.methodcaller("unpickled"), (self._recipe(),)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Executable:
        """Another executable, compiled in the same way; it has no owned inputs yet."""
        memo[id(self)] = other = self._recipe().compile()
        return other

    def _recipe(self) -> HowCompiled:
        if self.recipe is None:
            raise pickle.PicklingError(
                f"{self!r} was compiled of a GraphDesc: only what Graph.compile has made can be copied and pickled"
            )
        return self.recipe

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is not None:
            self._in_flight.cancel()
        self.close()

    def __repr__(self) -> str:
        given = listing(self._given, at_most=_NAMED) or "none"
        made = listing(self._slots, at_most=_NAMED)
        state = ", closed" if self._closed else ""
        return (
            f"<{type(self).__name__} {self.graph.name} on {self.device}: "
            f"{plural(len(self.graph.nodes), 'node')}, inputs {given}, outputs {made}{state}>"
        )

    def _run_quickly(self, inputs: Mapping[str, Any] | None, out: Mapping[str, Any] | None) -> dict[str, Array] | None:
        """The results of a run without states, if the device checks the arrays itself; None: they are to be checked."""
        return None

    def _run(self, arrays: Sequence[Array], targets: Mapping[str, Array]) -> dict[str, Array]:
        self._check_open()
        results = {}
        for slot, value in zip(self.graph.outputs, self._execute(arrays), strict=True):
            target = targets.get(slot.name)
            if target is None:
                target = np.array(value, order="C", copy=True)
            else:
                np.copyto(target, value)
            results[slot.name] = target
        return results

    def _chosen(self, states: States | None) -> States:
        """The set of states of a run."""
        if states is None:
            return self.states if self.graph.states else self.new_states()
        if not isinstance(states, States):
            raise BindingError(
                "is not a set of states", code="kind", field="states", got=states, hint="exe.new_states() makes one"
            )
        return states

    def _named(self, names: Sequence[str], field: str, excluding: Mapping[str, Collection[str]]) -> tuple[str, ...]:
        """The outputs that are named in `field`, and not in the others."""
        if isinstance(names, str) or not isinstance(names, Iterable):
            hint = f"{field}=['{names}']" if isinstance(names, str) else None
            raise BindingError("must be a list of outputs", code="kind", field=field, got=names, hint=hint)
        names = tuple(names)
        check_known(names, self._slots, "output")
        for name in names:
            for other, those in excluding.items():
                if name in those:
                    raise BindingError(f"is in '{field}' and in '{other}'", code="conflict", field=name)
        return names

    def _run_steps(self, arrays: Sequence[Array], wanted: Wanted, states: States) -> dict[str, Any]:
        """Runs a number of times on a set of states, which change together after the last one."""
        with self._turn(states, wanted.steps) as turn:
            results = self._run_turn(arrays, wanted, turn)
            turn.commit()
        self._stats["state_bytes_written"] = wanted.steps * self._state_bytes
        return {name: results[name] for name in self._slots}

    def _turn(self, states: States, steps: int) -> contextlib.AbstractContextManager[Turn]:
        """A set of states for some steps of the graph."""

        def declare() -> None:
            if self._layout is not states.layout:
                states.declare(self.graph, self.device, self._memory)
                self._layout = states.layout

        return states.turn(self._uses, steps, declare)

    def _run_turn(self, arrays: Sequence[Array], wanted: Wanted, turn: Turn) -> dict[str, Any]:
        """The results of the last step; of outputs that are collected, those of all steps."""
        slots = {name: self._slots[name].desc for name in wanted.collect}
        collected = {name: np.empty((wanted.steps, *desc.sizes), desc.dtype.numpy) for name, desc in slots.items()}
        results: dict[str, Any] = {}
        placed = list(arrays)
        for step in range(wanted.steps):
            results = self._run_step(step, placed, {**wanted.targets, **turn.place(step, placed)}, turn)
            for name, array in collected.items():
                array[step] = results[name]
        results |= collected
        for name in wanted.keep:
            results[name] = DeviceTensor(results[name], self._slots[name].desc, self.device, self._memory)
        return results

    def _run_step(self, step: int, arrays: list[Array], targets: Mapping[str, Array], turn: Turn) -> dict[str, Array]:
        """Runs a step on arrays with those of its states, and puts new rows behind those that there are."""
        for name, length in turn.lengths(step).items():
            arrays[self._inputs[name]] = length
        results = self._run(arrays, targets)
        turn.append(step, results)
        return results

    def _profile_turn(self, arrays: Sequence[Array], turn: Turn) -> list[Step] | None:
        """The steps of one run on a set of states, which stays as it is."""
        return self._profile(self._placed(arrays, turn.arrays()))

    def _placed(self, arrays: Sequence[Array], held: Mapping[str, Array]) -> list[Array]:
        """The arrays of a run in slot order, with those of its states."""
        return [held.get(slot.name, array) for slot, array in zip(self.graph.inputs, arrays, strict=True)]

    def _check_open(self) -> None:
        if self._closed:
            raise closed()

    def _profile(self, inputs: Sequence[Array]) -> list[Step] | None:
        """The steps of one run on the inputs, in slot order; None if the device cannot tell them apart."""
        return None

    @abc.abstractmethod
    def _execute(self, inputs: Sequence[Array]) -> Sequence[Array]:
        """Computes the outputs, in slot order, from the inputs (constants included), in slot order."""

    def _check_inputs(self, inputs: Mapping[str, Any], *, copied: bool = False) -> list[Array]:
        """The arrays in slot order; or copies, which no caller changes."""
        check_known(inputs, self._given, "input")
        checked = {name: self._checked_input(name, value) for name, value in inputs.items()}
        if copied:
            given = {name: value for name, value in checked.items() if not isinstance(inputs[name], DeviceTensor)}
            checked |= {name: array.copy() for name, array in given.items()}
        owned = {name: array.copy() for name, array in checked.items() if self._given[name].desc.owned}
        missing = [slot for name, slot in self._given.items() if name not in checked and self._has_not(name)]
        if missing:
            raise BindingError(
                "inputs are missing: "
                + ", ".join(f"'{slot.name}' ({slot.desc.dtype} {list(slot.desc.sizes)})" for slot in missing),
                code="missing-input",
            )
        for name, array in owned.items():
            self._kept[self._inputs[name]] = array
        arrays = self._kept.copy()
        # The arrays of this call come last: other threads may set owned inputs in the meantime.
        for name, array in (checked | owned).items():
            arrays[self._inputs[name]] = array
        return arrays

    def _has_not(self, name: str) -> bool:
        """Whether an input must be given: it is not kept from a call before."""
        return self._kept[self._inputs[name]] is _MISSING

    def _checked_input(self, name: str, value: Any) -> Any:
        """What is given for an input: an array, or what the device takes in its place."""
        slot = self._given[name]
        if isinstance(value, DeviceTensor):
            return value.given(name, slot.desc, self.device, self._memory)
        return _checked(value, slot, "input")

    def _check_outputs(self, out: Mapping[str, Any]) -> dict[str, Array]:
        for name, value in out.items():
            check_known([name], self._slots, "output")
            if not isinstance(value, np.ndarray):
                raise BindingError(
                    "must be a NumPy array to write into", code="kind", field=name, got=type(value).__name__
                )
            if not value.flags.writeable:
                raise BindingError("cannot be written into: the array is read-only", code="read-only", field=name)
            _checked(value, self._slots[name], "output")
            if overlaps_itself(value):
                raise BindingError(
                    "cannot be written into: elements of the array share memory",
                    code="shared-memory",
                    field=name,
                    got=f"strides of {list(value.strides)} bytes",
                    hint="a new array, for example from np.empty, has memory for each element",
                )
        for one, other in itertools.combinations(out, 2):
            if overlap(out[one], out[other]):
                raise BindingError(
                    f"cannot be written into: the array shares memory with the array of '{one}'",
                    code="shared-memory",
                    field=other,
                )
        return dict(out)


def _steps(given: int | None) -> int:
    return 1 if given is None else _positive(given, "steps", "runs")


def _positive(given: int, field: str, what: str) -> int:
    if isinstance(given, bool) or not isinstance(given, (int, np.integer)) or given < 1:
        raise BindingError(f"is not a number of {what}", code="range", field=field, got=given, allowed="at least 1")
    return int(given)


def by_name(given: Mapping[str, Any] | None, what: str) -> Mapping[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise BindingError("must be a mapping from names to arrays", code="kind", field=what, got=type(given).__name__)
    return given


def _checked(value: Any, slot: GraphInput | GraphOutput, what: str) -> Array:
    """`value` as an array, which must have exactly the slot's data type and sizes."""
    if is_masked(value):
        raise BindingError(
            f"the {what} {MASKED}", code="masked", field=slot.name, hint=UNMASK if what == "input" else None
        )
    try:
        array = np.asarray(value)
    except ValueError as error:  # lists of different lengths
        raise BindingError(f"the {what} is not an array: {error}", code="kind", field=slot.name) from None
    dtype = slot.desc.dtype
    if what == "input":  # truth values are uint8 here, and a tensor has at least one dimension
        array = array.view(np.uint8) if array.dtype == np.bool_ else array
        array = array.reshape(1) if not array.ndim and isinstance(value, (np.ndarray, np.generic)) else array
    if array.dtype != dtype.numpy:
        hint = f"array.astype('{dtype}') converts" if what == "input" and dtype.bits > 4 else None
        raise BindingError.another("data type", slot.name, str(array.dtype), dtype, of=f"the {what}", hint=hint)
    if array.shape != slot.desc.sizes:
        raise BindingError.another("shape", slot.name, list(array.shape), list(slot.desc.sizes), of=f"the {what}")
    # Equal types may be marked otherwise: "<f4" on a little-endian machine.
    return array if array.dtype.byteorder in "=|" else array.view(dtype.numpy)
