"""The tables of the exported files: inputs, outputs and states as the caller sees them, slots and edges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dmlgraph.base.tensor import TensorDesc
from dmlgraph.compiler.desc import GraphInput, GraphOutput, GraphState
from dmlgraph.formats.cpp.descs import data_type
from dmlgraph.formats.cpp.layout import Contents, Growth, Scratch
from dmlgraph.formats.cpp.text import Identifiers, comment, quoted


def rows(lines: Iterable[str], empty: str = "{}") -> str:
    """The rows of a table; C++ has no empty arrays, so that one without rows has an empty one."""
    return "\n".join(lines) or f"    {empty},"


def enumerators(names: Iterable[str]) -> str:
    """The enumerators of an `enum class`, one a line, each with the name that it stands for if that differs."""
    identifiers = Identifiers()
    lines = []
    for name in names:
        taken = identifiers.take(name)
        lines.append(f"    {taken}," + ("" if taken == name else f"  // {comment(name)}"))
    return "".join(f"\n{line}" for line in lines) + ("\n" if lines else "")


def tensor_info(name: str, desc: TensorDesc) -> str:
    """A TensorInfo."""
    sizes, strides = (", ".join(map(str, each)) for each in (desc.sizes, desc.effective_strides))
    owned = "true" if desc.owned else "false"
    return (
        f"{{{quoted(name)}, {data_type(desc.dtype)}, {desc.rank}, {{{sizes}}}, {{{strides}}}, "
        f"{desc.total_bytes}, {owned}}}"
    )


class Tables:
    """The tables of a graph.

    Args:
        weights: what weights.bin has for it.
        scratch: where lengths and rows lie.
    """

    def __init__(self, weights: Contents, scratch: Scratch) -> None:
        self.graph, self.weights, self.scratch = weights.graph, weights, scratch
        graph = weights.graph
        self._inputs = {slot.name: index for index, slot in enumerate(graph.given)}
        self._outputs = {slot.name: index for index, slot in enumerate(graph.results)}
        self._held = {state.input: index for index, state in enumerate(graph.states)}
        self._lengths = {state.length: index for index, state in enumerate(graph.states)}
        self._changing = {state.output: index for index, state in enumerate(graph.states)}
        self._read = {edge.input for edge in graph.input_edges}

    # Of graph.h.

    def tensors(self, slots: Sequence[GraphInput | GraphOutput]) -> str:
        return rows(f"    {tensor_info(slot.name, slot.desc)}," for slot in slots)

    def states(self) -> str:
        return rows(map(self._state, self.graph.states))

    def _state(self, state: GraphState) -> str:
        desc = self.weights.state_desc(state)
        growth = Growth.of(state, self.graph, desc)
        grows = state.grows is not None
        buffers = 2 if state.output is not None and not grows else 1
        initial = self.weights.initial.get(state.name, "NoOffset")
        return (
            f"    {{{tensor_info(state.name, desc)}, {'true' if grows else 'false'}, {buffers}, {growth.capacity}, "
            f"{growth.rows}, {initial}}},"
        )

    def blocks(self) -> str:
        return rows(
            f"    {{{block.offset}, {block.bytes}, {'true' if block.stays else 'false'}}},"
            for block in self.weights.blocks
        )

    # Of graph.cpp.

    def input_slots(self) -> str:
        return rows(self._input_slot(index, slot) for index, slot in enumerate(self.graph.inputs))

    def _input_slot(self, index: int, slot: GraphInput) -> str:
        if slot.name in self.weights.places:
            found = self.weights.places[slot.name]
            source = "Weights", found.block, found.offset
        elif slot.name in self._held:
            source = "State", self._held[slot.name], 0
        elif slot.name in self._lengths:
            source = "StateLength", self._lengths[slot.name], self.scratch.lengths[slot.name]
        else:
            source = "Input", self._inputs[slot.name], 0
        kind, place_in, offset = source
        owned, read = ("true" if each else "false" for each in (slot.desc.owned, index in self._read))
        place = f"{place_in}, {offset}, {slot.desc.total_bytes}"
        return f"    {{{quoted(slot.name)}, Source::{kind}, {place}, {owned}, {read}}},"

    def output_slots(self) -> str:
        return rows(map(self._output_slot, self.graph.outputs))

    def _output_slot(self, slot: GraphOutput) -> str:
        if slot.name in self.scratch.rows:
            target = "Rows", self._changing[slot.name], self.scratch.rows[slot.name]
        elif slot.name in self._changing:
            target = "NextValue", self._changing[slot.name], 0
        else:
            target = "Output", self._outputs[slot.name], 0
        kind, place, offset = target
        return f"    {{{quoted(slot.name)}, Target::{kind}, {place}, {offset}, {slot.desc.total_bytes}}},"

    def growth(self) -> str:
        lines = []
        for state in self.graph.states:
            each = Growth.of(state, self.graph, self.weights.state_desc(state))
            offset = self.scratch.rows.get(state.output or "", 0)
            changes = "false" if state.output is None else "true"
            lines.append(f"    {{{each.blocks}, {each.row_bytes}, {offset}, {changes}}},  // {comment(state.name)}")
        return rows(lines)

    def edges(self) -> dict[str, str]:
        """The three lists of edges, each with the names of what it connects."""
        nodes, graph = [comment(node.name) for node in self.graph.nodes], self.graph
        inputs, outputs = ([comment(slot.name) for slot in slots] for slots in (graph.inputs, graph.outputs))
        return {
            "input_edges": rows(
                f"    {{{each.input}, {each.to_node}, {each.to_port}, nullptr}},"
                f"  // {inputs[each.input]} -> {nodes[each.to_node]}"
                for each in graph.input_edges
            ),
            "output_edges": rows(
                f"    {{{each.from_node}, {each.from_port}, {each.output}, nullptr}},"
                f"  // {nodes[each.from_node]} -> {outputs[each.output]}"
                for each in graph.output_edges
            ),
            "edges": rows(
                f"    {{{each.from_node}, {each.from_port}, {each.to_node}, {each.to_port}, nullptr}},"
                f"  // {nodes[each.from_node]} -> {nodes[each.to_node]}"
                for each in graph.intermediate_edges
            ),
        }
