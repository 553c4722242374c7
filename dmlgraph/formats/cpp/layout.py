"""Where things lie: constants in weights.bin, lengths and new rows of states in scratch memory."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from dmlgraph.base.scalar import Scalar
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.compiler.desc import GraphDesc, GraphInput, GraphState
from dmlgraph.devices.states import first_value
from dmlgraph.formats.cpp.lowered import MOST_BYTES
from dmlgraph.graph.constant_data import ConstantData

Packed = np.ndarray[Any, np.dtype[np.uint8]]  # elements as they lie in a buffer

TENSOR_ALIGNMENT = 16  # DML_MINIMUM_BUFFER_TENSOR_ALIGNMENT
BUFFER_ALIGNMENT = 256  # DML_TEMPORARY_BUFFER_ALIGNMENT, and that of persistent buffers
LENGTH_STRIDE = 16  # bytes between lengths of states in scratch and staging


def aligned(offset: int, alignment: int) -> int:
    return (offset + alignment - 1) // alignment * alignment


@dataclasses.dataclass(slots=True)
class Block:
    """A part of weights.bin that has a buffer of its own; `stays`: every run reads it."""

    offset: int
    stays: bool
    bytes: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """Where a constant lies: its block, and its offset in it."""

    block: int
    offset: int


@dataclasses.dataclass(frozen=True, slots=True)
class Contents:
    """What weights.bin has for a graph.

    Attributes:
        graph: lowered.
        blocks: all of the file.
        places: where each constant lies, by the input's name.
        initial: state → offset in the file of what it holds at first; without one it is zero at first.
    """

    graph: GraphDesc
    blocks: list[Block]
    places: dict[str, Place] = dataclasses.field(default_factory=dict)
    initial: dict[str, int] = dataclasses.field(default_factory=dict)

    def constants(self, stays: bool) -> Iterator[tuple[GraphInput, ConstantData]]:
        """The constants that every run reads, or the others."""
        for slot in self.graph.inputs:
            if slot.elements is not None and slot.desc.owned is not stays:
                yield slot, slot.elements

    def state_desc(self, state: GraphState) -> TensorDesc:
        return next(slot.desc for slot in self.graph.inputs if slot.name == state.input)

    def offset(self, name: str) -> int:
        """The offset of a constant in the file."""
        place = self.places[name]
        return self.blocks[place.block].offset + place.offset


class Weights:
    """The file weights.bin: constants, and then what states hold at first.  What several graphs have lies there once.

    Args:
        graphs: lowered.
        most_bytes: of a block.

    Attributes:
        blocks: its parts.
        contents: of each graph.
        bytes: of the file.
    """

    def __init__(self, graphs: Sequence[GraphDesc], most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._data: dict[int, Callable[[], Packed]] = {}  # offset in the file → what lies there
        self.blocks: list[Block] = []
        self.contents = [Contents(graph, self.blocks) for graph in graphs]
        places: dict[str, Place] = {}  # by digest
        for stays in (False, True):  # what only the initialisation reads is together
            for each in self.contents:
                for slot, elements in each.constants(stays):
                    self._add_constant(each, slot, functools.partial(_packed, slot.desc, elements), places)
        self.bytes = self._end
        initial: dict[str, int] = {}
        for each in self.contents:
            for state in each.graph.states:
                self._add_state(each, state, initial)

    def _key(self, name: str, data: Callable[[], Packed]) -> str:
        """What is equal of things that may lie at one place: their bytes; of one graph, whose differ, the name."""
        return name if len(self.contents) == 1 else hashlib.sha256(data().tobytes()).hexdigest()

    def _add_constant(
        self, to: Contents, slot: GraphInput, data: Callable[[], Packed], places: dict[str, Place]
    ) -> None:
        key = self._key(slot.name, data)
        if key not in places:
            places[key] = self._place(slot.desc.total_bytes, stays=not slot.desc.owned)
            self._data[self.blocks[places[key].block].offset + places[key].offset] = data
        to.places[slot.name] = places[key]

    def _place(self, size: int, stays: bool) -> Place:
        last = self.blocks[-1] if self.blocks and self.blocks[-1].stays is stays else None
        offset = 0 if last is None else aligned(last.bytes, TENSOR_ALIGNMENT)
        if last is None or offset + size > self._most_bytes:
            last, offset = Block(self._end, stays), 0
            self.blocks.append(last)
        last.bytes = offset + size
        return Place(len(self.blocks) - 1, offset)

    def _add_state(self, to: Contents, state: GraphState, initial: dict[str, int]) -> None:
        desc = to.state_desc(state)
        if state.initial is None or not first_value(desc, state.initial).any():
            return
        data = functools.partial(_packed, desc, state.initial)
        key = self._key(state.name, data)
        if key not in initial:
            initial[key] = self.bytes
            self._data[self.bytes] = data
            self.bytes = aligned(self.bytes + desc.total_bytes, BUFFER_ALIGNMENT)
        to.initial[state.name] = initial[key]

    @property
    def _end(self) -> int:
        return aligned(self.blocks[-1].offset + self.blocks[-1].bytes, BUFFER_ALIGNMENT) if self.blocks else 0

    def parts(self) -> Iterator[tuple[int, Packed]]:
        """The bytes of the file in order, each with its offset; between them are zeros."""
        for offset in sorted(self._data):
            yield offset, self._data[offset]()


def _packed(desc: TensorDesc, elements: ConstantData | Scalar) -> Packed:
    """The elements as they lie in a buffer."""
    return desc.pack(elements.array if isinstance(elements, ConstantData) else first_value(desc, elements))


class Scratch:
    """The memory that a run with growing states needs: their lengths, for nodes that read them, and the new rows.

    Attributes:
        lengths: offset of a state's length, by input.
        rows: offset of the rows, by output.
        staging_bytes: of the lengths.
        bytes: of all.
    """

    def __init__(self, graph: GraphDesc) -> None:
        outputs = {slot.name: slot.desc for slot in graph.outputs}
        self.lengths = {
            state.length: index * LENGTH_STRIDE for index, state in enumerate(graph.states) if state.length is not None
        }
        self.staging_bytes = len(graph.states) * LENGTH_STRIDE if self.lengths else 0
        self.rows: dict[str, int] = {}
        self.bytes = self.staging_bytes
        for state in graph.states:
            if state.grows is not None and state.output is not None:
                self.rows[state.output] = aligned(self.bytes, BUFFER_ALIGNMENT)
                self.bytes = self.rows[state.output] + outputs[state.output].total_bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Growth:
    """How rows lie in a growing state: `blocks` times `capacity` rows of `row_bytes`; a run appends `rows`."""

    blocks: int
    row_bytes: int
    capacity: int
    rows: int

    @classmethod
    def of(cls, state: GraphState, graph: GraphDesc, desc: TensorDesc) -> Growth:
        if state.grows is None:
            return cls(0, 0, 0, 0)
        sizes, axis = desc.sizes, state.grows
        output = next((slot.desc for slot in graph.outputs if slot.name == state.output), None)
        return cls(
            blocks=math.prod(sizes[:axis]),
            row_bytes=math.prod(sizes[axis + 1 :]) * desc.dtype.bits // 8,
            capacity=sizes[axis],
            rows=0 if output is None else output.sizes[axis],
        )
