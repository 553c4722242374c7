"""Runs a graph with values between its nodes as outputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from dmlgraph.base.tensor import TensorDesc
from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import Source
from dmlgraph.devices import Choice
from dmlgraph.devices.compile import compile_ir
from dmlgraph.devices.executable import Array
from dmlgraph.graph.nodes import LENGTH

BATCH_BYTES = 1 << 28  # of values that are made outputs of one run …
BATCH_VALUES = 1000  # … and how many


def values_of(graph: IrGraph) -> Iterator[tuple[Source, TensorDesc]]:
    """The outputs of operators, in execution order."""
    for node in graph.in_order():
        if node.operator is not None:
            for port, desc in enumerate(node.descs):
                if desc is not None:
                    yield Source(node.name, port), desc


def batches(values: Iterable[tuple[Source, TensorDesc]]) -> Iterator[list[Source]]:
    """Values in the same order, in groups that fit in memory."""
    batch: list[Source] = []
    size = 0
    for source, desc in values:
        if batch and (size + desc.total_bytes > BATCH_BYTES or len(batch) == BATCH_VALUES):
            yield batch
            batch, size = [], 0
        batch.append(source)
        size += desc.total_bytes
    if batch:
        yield batch


def run_exposing(
    graph: IrGraph,
    values: Sequence[Source],
    device: Choice,
    inputs: Mapping[str, Array],
    states: Mapping[str, Array],
) -> dict[str, Array]:
    """Runs the same nodes with these values as outputs, named by their references."""
    with compile_ir(exposing(graph, values), device) as executable:
        return executable.run({**held(graph, states), **inputs})


def exposing(graph: IrGraph, values: Sequence[Source]) -> IrGraph:
    """The same nodes with these values as outputs, named by their references."""
    made = IrGraph(graph.name, graph.level)
    nodes = ((node.content, node.sources) for node in graph.in_order())
    made.assemble(nodes, {graph.reference(*source): source for source in values})
    return made


def held(graph: IrGraph, states: Mapping[str, Array]) -> dict[str, Array]:
    """What the inputs that stand for states have where these hold such arrays: of a growing state, its rows."""
    held = {}
    for state in graph.states:
        held[state.input] = value = states[state.name]
        if state.grows is None:
            continue
        desc = graph.desc(state.input, 0)
        held[state.input] = np.zeros(desc.sizes, desc.dtype.numpy)
        held[state.input][tuple(map(slice, value.shape))] = value
        if state.length is not None:
            held[state.length] = np.full(LENGTH.sizes, value.shape[state.grows], LENGTH.dtype.numpy)
    return held
