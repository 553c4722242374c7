"""Where things lie: constants in weights.bin, lengths and new rows of states in scratch memory."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

import numpy as np

from dmlgraph.base.tensor import TensorDesc
from dmlgraph.compiler.desc import GraphDesc, GraphInput, GraphState
from dmlgraph.devices.states import first_value
from dmlgraph.formats.cpp.lowered import MOST_BYTES

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


class Weights:
    """The file weights.bin: constants, and then what states hold at first.

    Args:
        graph: lowered.
        most_bytes: of a block.
    """

    def __init__(self, graph: GraphDesc, most_bytes: int = MOST_BYTES) -> None:
        self._graph, self._most_bytes = graph, most_bytes
        self.blocks: list[Block] = []
        self.places: dict[str, Place] = {}  # by the input's name
        self.initial: dict[str, int] = {}  # state → offset in the file; without one it is zero at first
        constants = [slot for slot in graph.inputs if slot.elements is not None]
        for stays in (False, True):  # what only the initialisation reads is together
            self._place([slot for slot in constants if slot.desc.owned is not stays], stays)
        end = self._end
        for state in graph.states:
            if state.initial is not None and first_value(self.state_desc(state), state.initial).any():
                self.initial[state.name] = end
                end = aligned(end + self.state_desc(state).total_bytes, BUFFER_ALIGNMENT)
        self.bytes = end

    def _place(self, slots: Iterable[GraphInput], stays: bool) -> None:
        block: Block | None = None
        for slot in slots:
            offset = 0 if block is None else aligned(block.bytes, TENSOR_ALIGNMENT)
            if block is None or offset + slot.desc.total_bytes > self._most_bytes:
                block, offset = Block(self._end, stays), 0
                self.blocks.append(block)
            self.places[slot.name] = Place(len(self.blocks) - 1, offset)
            block.bytes = offset + slot.desc.total_bytes

    @property
    def _end(self) -> int:
        return aligned(self.blocks[-1].offset + self.blocks[-1].bytes, BUFFER_ALIGNMENT) if self.blocks else 0

    def state_desc(self, state: GraphState) -> TensorDesc:
        return next(slot.desc for slot in self._graph.inputs if slot.name == state.input)

    def parts(self) -> Iterable[tuple[int, np.ndarray[tuple[int], np.dtype[np.uint8]]]]:
        """The bytes of the file in order, each with its offset; between them are zeros."""
        for slot in sorted(
            (slot for slot in self._graph.inputs if slot.name in self.places), key=lambda slot: self.offset(slot.name)
        ):
            assert slot.data is not None
            yield self.offset(slot.name), slot.desc.pack(slot.data)
        for state in self._graph.states:
            if state.name in self.initial:
                desc = self.state_desc(state)
                yield self.initial[state.name], desc.pack(first_value(desc, state.initial))

    def offset(self, name: str) -> int:
        """The offset of a constant in the file."""
        place = self.places[name]
        return self.blocks[place.block].offset + place.offset


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
