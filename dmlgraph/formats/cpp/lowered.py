"""The graph that is exported: lowered for DirectML as the device `directml` lowers it, with the same workarounds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from dmlgraph.base.errors import BindingError, OperatorError, Problem
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.tensor import DataType
from dmlgraph.compiler import pipeline
from dmlgraph.compiler.desc import ConstantDescNode, GraphDesc, GraphInput, GraphOutput
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
    """

    desc: GraphDesc
    origins: Mapping[str, tuple[str, ...]]
    level: FeatureLevel
    level_node: str | None
    types: Mapping[DataType, str]


def lowered(graph: Graph, *, fuse: bool, level: FeatureLevel | None) -> Lowered:
    """The graph for DirectML.

    Args:
        graph: with at least one output.
        fuse: whether the passes of DirectML run.
        level: the highest feature level of the machines that will run it; by default the graph's.

    Raises:
        GraphError: the graph has no outputs.
        OperatorError: a node needs a higher level.
        BindingError: a tensor does not fit a buffer.
    """
    level = min(level or graph.level, graph.level)
    fused = pipeline.fuse(graph, target(level), enabled(fuse))
    desc = lower(fused.graph, level)
    problems = [
        problem.at(node=node.name)
        for node in desc.nodes
        if not isinstance(node, ConstantDescNode)
        for problem in node.operator.level_problems(level)
    ]
    if problems:
        raise OperatorError(problems)
    desc, _ = make_safe(with_packed_states(desc)[0])
    _check_sizes(desc)
    return Lowered(desc, fused.origins, *_least_level(desc), _types(desc))


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
