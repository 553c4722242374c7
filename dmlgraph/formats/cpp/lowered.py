"""The graph that is exported: lowered for DirectML as the device `directml` lowers it, with the same workarounds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from dmlgraph.base.errors import BindingError, OperatorError, Problem
from dmlgraph.base.free_names import FreeNames
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.compiler import pipeline
from dmlgraph.compiler.desc import ConstantDescNode, GraphDesc, GraphInput, GraphOutput, OperatorDescNode
from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import Source
from dmlgraph.compiler.lowering import CONSTANT_NODE_LEVEL, lower
from dmlgraph.devices.directml.faults import make_safe
from dmlgraph.devices.directml.resident import with_packed_states
from dmlgraph.devices.directml.target import target
from dmlgraph.devices.rules import enabled
from dmlgraph.graph.graph import Graph

MOST_BYTES = 2**32 - 2**16  # of a buffer that Direct3D 12 can bind
LEAST_LEVEL = FeatureLevel.V2_1  # that of IDMLDevice1, which compiles graphs


@dataclasses.dataclass(frozen=True, slots=True)
class Lowered:
    """What is exported.

    Attributes:
        desc: the graph.
        origins: node → the nodes of the source graph that went into it.
        level: what the device must support.
        level_node: the first node that needs it; None if no node needs more than DirectML's graphs do.
        types: the data types that the device must support, each with the first node that has it.
        plain: the graph before workarounds for DirectML's faults, for other devices.
        exposed: if every node is an output: the node of each output.
    """

    desc: GraphDesc
    origins: Mapping[str, tuple[str, ...]]
    level: FeatureLevel
    level_node: str | None
    types: Mapping[DataType, str]
    plain: GraphDesc
    exposed: Mapping[str, str]


def lowered(
    graph: Graph, *, fuse: bool, level: FeatureLevel | None, expose: bool = False, shared: bool = False
) -> Lowered:
    """The graph for DirectML.

    Args:
        graph: with at least one output.
        fuse: whether the passes of DirectML run.
        level: the highest feature level of the machines that will run it; by default the graph's.
        expose: make the outputs of all nodes outputs of the graph.
        shared: whether runs of several graphs read the same constants, so that DirectML makes no copies of them.

    Raises:
        GraphError: the graph has no outputs.
        OperatorError: a node needs a higher level.
        BindingError: a tensor does not fit a buffer.
    """
    level = min(level or graph.level, graph.level)
    fused = pipeline.fuse(graph, target(level), enabled(fuse, graph))
    ir, exposed = exposing(fused.graph) if expose else (fused.graph, {})
    plain = lower(ir, level)
    problems = [
        problem.at(node=node.name)
        for node in plain.nodes
        if not isinstance(node, ConstantDescNode)
        for problem in node.operator.level_problems(level)
    ]
    if problems:
        raise OperatorError(problems)
    desc, _ = make_safe(with_packed_states(plain)[0])
    if shared:
        desc = _without_owned_constants(desc)
    _check_sizes(desc)
    return Lowered(desc, fused.origins, *_least_level(desc), _types(desc), plain, exposed)


def alike(found: Sequence[Lowered], names: Sequence[str]) -> list[Lowered]:
    """Several graphs with these names, and with states in one order, so that a set serves all that have the same."""
    order: dict[str, int] = {}
    for each in found:
        for state in each.desc.states:
            order.setdefault(state.name, len(order))
    return [
        dataclasses.replace(
            each,
            desc=dataclasses.replace(
                each.desc, name=name, states=tuple(sorted(each.desc.states, key=lambda state: order[state.name]))
            ),
        )
        for each, name in zip(found, names, strict=True)
    ]


def _without_owned_constants(desc: GraphDesc) -> GraphDesc:
    """The graph with constants that are bound at every run."""
    constants = {index for index, slot in enumerate(desc.inputs) if slot.elements is not None}
    ports: dict[int, dict[int, TensorDesc]] = {}
    nodes = list(desc.nodes)
    for edge in desc.input_edges:
        node = nodes[edge.to_node]
        if edge.input in constants and (read := node.input_descs[edge.to_port]) is not None:
            ports.setdefault(edge.to_node, {})[edge.to_port] = _bound(read)
    for index, descs in ports.items():
        node = nodes[index]
        assert isinstance(node, OperatorDescNode)
        nodes[index] = dataclasses.replace(node, operator=node.operator.with_inputs(descs))
    inputs = tuple(
        slot if slot.elements is None else dataclasses.replace(slot, desc=_bound(slot.desc)) for slot in desc.inputs
    )
    return dataclasses.replace(desc, inputs=inputs, nodes=tuple(nodes))


def _bound(desc: TensorDesc) -> TensorDesc:
    return desc.like(strides=desc.strides)


def exposing(graph: IrGraph) -> tuple[IrGraph, dict[str, str]]:
    """The graph with the outputs of all nodes as outputs, in execution order; and the node of each output."""
    changing = {state.output for state in graph.states}
    names: dict[Source, list[str]] = {}
    for name, source in graph.outputs.items():
        if name not in changing:
            names.setdefault(source, []).append(name)
    free = FreeNames(graph.outputs)
    outputs: dict[str, Source] = {}
    for node in graph.in_order():
        for port, desc in enumerate(node.descs):
            source = Source(node.name, port)
            if desc is not None and node.operator is not None:
                shown = names.get(source) or [free.take(graph.reference(*source))]
                outputs |= dict.fromkeys(shown, source)
    # Outputs that no operator computes, and what changes states.
    outputs |= {name: source for name, source in graph.outputs.items() if name not in outputs}
    exposed = IrGraph(graph.name, graph.level, graph.target)
    nodes = [(node.content, node.sources) for node in graph.in_order()]
    exposed.assemble(nodes, outputs, graph.layouts)
    exposed.states = graph.states
    return exposed, {name: source.node for name, source in outputs.items()}


def _check_sizes(desc: GraphDesc) -> None:
    slots: list[GraphInput | GraphOutput] = [*desc.inputs, *desc.outputs]
    problems = [
        Problem(
            "is larger than a buffer that Direct3D 12 can bind",
            code="too-large",
            field=slot.name,
            got=f"{slot.desc.total_bytes} bytes",
            allowed=f"{MOST_BYTES} bytes",
            hint="split the tensor",
        )
        for slot in slots
        if slot.desc.total_bytes > MOST_BYTES
    ]
    if problems:
        raise BindingError(problems)


def _least_level(desc: GraphDesc) -> tuple[FeatureLevel, str | None]:
    """The lowest level at which all nodes are legal, and the first node that needs it."""
    levels = sorted(FeatureLevel)
    found, first = LEAST_LEVEL, None
    for node in desc.nodes:
        needed = found
        if isinstance(node, ConstantDescNode):
            needed = max(found, CONSTANT_NODE_LEVEL)
        else:
            while node.operator.level_problems(needed):
                needed = levels[levels.index(needed) + 1]
        if needed > found:
            found, first = needed, node.name
    return found, first


def _types(desc: GraphDesc) -> dict[DataType, str]:
    """The data types of nodes' tensors, each with the first node that has it."""
    found: dict[DataType, str] = {}
    for node in desc.nodes:
        for tensor in (*node.input_descs, *node.output_descs):
            if tensor is not None:
                found.setdefault(tensor.dtype, node.name)
    return found
