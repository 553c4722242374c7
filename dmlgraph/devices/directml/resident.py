"""Tensors that stay in an adapter's memory: what states hold, and how runs read and change it there."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dmlgraph import _native
from dmlgraph.base.tensor import TensorDesc
from dmlgraph.compiler.desc import GraphDesc
from dmlgraph.compiler.lowering import frozen, thawed
from dmlgraph.devices.directml.faults.aliases import whole_slice
from dmlgraph.devices.directml.faults.edits import insert_before_output
from dmlgraph.devices.directml.transfer import Result, given_bytes
from dmlgraph.devices.memory import Array, Part
from dmlgraph.devices.states import Turn


class AdapterMemory:
    """Memory of an adapter: each tensor is a buffer of its own."""

    def __init__(self, device: _native.Device) -> None:
        self._device = device

    def check(self) -> None:
        """Raises a DeviceRemovedError if the device is lost."""
        self._device.require_alive("")

    def zeros(self, desc: TensorDesc) -> _native.Resident:
        return _native.Resident(self._device, desc.total_bytes, f"a tensor {desc}")

    def hold(self, array: Array, desc: TensorDesc) -> _native.Resident:
        tensor = self.zeros(desc)
        tensor.write(given_bytes(array, desc))
        return tensor

    def read(self, tensor: _native.Resident, desc: TensorDesc, part: Part) -> Array:
        result = Result(desc, None)
        tensor.read(result.bytes)
        array = result.array()
        return array[part].copy() if part else array

    def copy(self, tensor: _native.Resident, desc: TensorDesc) -> _native.Resident:
        return tensor.copy(f"a tensor {desc}")

    def move(
        self,
        source: _native.Resident,
        source_desc: TensorDesc,
        source_part: Part,
        target: _native.Resident,
        target_desc: TensorDesc,
        part: Part,
    ) -> None:
        if source is target:  # an adapter cannot copy a buffer to itself
            source = self.copy(source, source_desc)
        ranges = _ranges(source_desc, source_part), _ranges(target_desc, part)
        axis = max(map(_last_cut, ranges, (source_desc, target_desc)))
        (froms, count), (tos, _) = (
            _runs(desc, each, axis) for desc, each in zip((source_desc, target_desc), ranges, strict=True)
        )
        if count and len(froms):
            target.copy_from(source, [(at, to, count) for at, to in zip(froms, tos, strict=True)])

    def given(self, tensor: _native.Resident, desc: TensorDesc, wanted: TensorDesc) -> Any:
        """The tensor itself, or its elements if the input's lie otherwise in a buffer."""
        is_same = desc.effective_strides == wanted.effective_strides and desc.total_bytes == wanted.total_bytes
        return tensor if is_same else self.read(tensor, desc, ())

    def shared(self, tensor: _native.Resident) -> Array:
        raise BufferError("the tensor is in the adapter's memory, of which DLPack knows nothing; numpy() copies it")

    def resource(self, tensor: _native.Resident) -> int:
        return tensor.resource


def _ranges(desc: TensorDesc, part: Part) -> list[range]:
    """The places along each axis."""
    whole = [slice(None)] * (desc.rank - len(part))
    return [range(size)[each] for size, each in zip(desc.sizes, [*part, *whole], strict=True)]


def _last_cut(ranges: Sequence[range], desc: TensorDesc) -> int:
    """The last axis along which a part has not all places; what is behind it lies side by side."""
    cut = [axis for axis, (each, size) in enumerate(zip(ranges, desc.sizes, strict=True)) if len(each) != size]
    return max(cut, default=0)


def _runs(desc: TensorDesc, ranges: Sequence[range], axis: int) -> tuple[list[int], int]:
    """Where the bytes of a part begin that lie side by side from an axis on, and how many there are at each place."""
    steps = [math.prod(desc.sizes[each + 1 :]) * desc.dtype.bits // 8 for each in range(desc.rank)]
    places = np.array([ranges[axis].start * steps[axis]])
    for each in reversed(range(axis)):
        places = np.add.outer(np.array(ranges[each]) * steps[each], places).ravel()
    return places.tolist(), len(ranges[axis]) * steps[axis]


def with_packed_states(graph: GraphDesc) -> tuple[GraphDesc, int]:
    """The graph with copies of next values and rows that do not lie packed in a buffer, as in a state; and how many."""
    changing = {state.output for state in graph.states}
    strided = {
        slot.name: slot.desc
        for slot in graph.outputs
        if slot.name in changing and slot.desc.effective_strides != slot.desc.packed_strides
    }
    ir = thawed(graph) if strided else None
    if ir is None:
        return graph, 0
    for name, desc in strided.items():
        insert_before_output(ir, name, "packed", whole_slice(desc, desc.like(strides=None)))
    return frozen(ir), len(strided)


@dataclasses.dataclass(frozen=True, slots=True)
class StatesOfRun:
    """What the native runtime is given of the states of a run.

    Attributes:
        inputs: tensors and lengths, by input; None for a state that is updated whole.
        chains: of states that are updated whole: input, output, and the tensors that take turns.
        appends: of rows: output, state, place of the first row, rows of each step, how many blocks of rows there are
            along the axes before theirs, the bytes of a row in a block, rows of a block.
    """

    inputs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    chains: tuple[tuple[int, int, Sequence[_native.Resident]], ...] = ()
    appends: tuple[tuple[int, _native.Resident, int, int, int, int, int], ...] = ()

    @classmethod
    def of(cls, graph: GraphDesc, turn: Turn, steps: int) -> StatesOfRun:
        outputs = {slot.name: index for index, slot in enumerate(graph.outputs)}
        lengths = [turn.lengths(step) for step in range(steps)]
        given: dict[str, Any] = {name: np.concatenate([each[name] for each in lengths]) for name in lengths[0]}
        chains = [(each.use.place, outputs[each.use.output], each.tensors) for each in turn.updated]
        appends = []
        for use, held in turn.states:
            given[use.input] = None if use.is_updated else held.tensor
            if use.rows:
                axis, sizes = use.state.grows, held.desc.sizes
                assert axis is not None
                blocks, row = math.prod(sizes[:axis]), math.prod(sizes[axis + 1 :]) * held.desc.dtype.bits // 8
                place = outputs[use.output]
                appends.append((place, held.tensor, held.length, use.rows, blocks, row, sizes[axis]))
        return cls(given, tuple(chains), tuple(appends))


NO_STATES = StatesOfRun()
