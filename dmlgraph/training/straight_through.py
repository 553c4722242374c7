"""The straight-through rule: rounding counts as the identity, so that quantized networks can be trained.

    dg.gradient(loss, [w], straight_through=True)

Numbers that are quantized and turned back pass their gradient where they were within the range of the integers, and
none where they were clamped (Jacob et al., 2018).  What the scale gets follows from the same rule (Esser et al., 2020).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dmlgraph import operators as ops
from dmlgraph.graph.calls import apply
from dmlgraph.graph.nodes import Node, OperatorNode
from dmlgraph.graph.value import Value
from dmlgraph.training.custom_gradient import OwnGradient, Port

if TYPE_CHECKING:
    from dmlgraph.graph.graph import Graph


def straight_through_rules(graph: Graph, nodes: Sequence[Node]) -> Iterator[OwnGradient]:
    """The rules of `round`, and of each `quantize_linear` that only `dequantize_linear` read, among some nodes."""
    readers: dict[Port, list[OperatorNode]] = {}
    for node in nodes:
        for source in filter(None, graph.sources(node.name)):
            if isinstance(node, OperatorNode):
                readers.setdefault(source, []).append(node)
    for node in nodes:
        if not isinstance(node, OperatorNode):
            continue
        sources = tuple(filter(None, graph.sources(node.name)))
        if isinstance(node.operator, ops.Round):
            name, port = node.name, (node.name, 0)
            yield OwnGradient(name, frozenset([name]), sources, (port,), lambda _, __, gradients: gradients)
        elif isinstance(node.operator, ops.QuantizeLinear):
            own = _quantized(graph, node, readers.get((node.name, 0), []))
            if own is not None:
                yield own


def _quantized(graph: Graph, node: OperatorNode, readers: Sequence[OperatorNode]) -> OwnGradient | None:
    """The rule of a quantization and what turns it back; None if something else reads the integers."""
    if not readers or not all(_turns_back(graph, each, (node.name, 0)) for each in readers):
        return None
    of_zero = _padded(graph, node)[2]
    zero_point = None if of_zero is None else Value(graph, *of_zero)
    low, high = node.operator.output_descs[0].dtype.range  # type: ignore[union-attr]  # it has an output
    scales = [_padded(graph, each)[1] for each in readers]

    def rule(inputs: list[Value], outputs: list[Value], gradients: list[Value | None]) -> list[Value | None]:
        x, scale, *backs = inputs
        steps = apply(ops.Round, x / scale)
        if zero_point is not None:
            steps = steps + apply(ops.Cast, zero_point, dtype=x.dtype)
        is_within = (steps >= low) & (steps <= high)
        of_steps: Value | None = None  # the gradient of x / scale
        of_scales: list[Value | None] = []
        for back, output, gradient in zip(backs, outputs, gradients, strict=True):
            assert gradient is not None  # the outputs are floats
            part = gradient * back
            of_steps = part if of_steps is None else of_steps + part
            of_scales.append(gradient * (output / back))
        assert of_steps is not None
        of_quotient = apply(ops.If, is_within, of_steps, 0)
        return [of_quotient / scale, -(of_quotient * (x / scale) / scale), *of_scales]

    nodes = frozenset([node.name, *(each.name for each in readers)])
    sources = graph.sources(node.name)
    inputs = tuple(filter(None, (*sources[:2], *scales)))
    return OwnGradient(node.name, nodes, inputs, tuple((each.name, 0) for each in readers), rule)


def _turns_back(graph: Graph, reader: OperatorNode, port: Port) -> bool:
    is_back = isinstance(reader.operator, ops.DequantizeLinear) and reader.operator.output.dtype.is_float
    return is_back and graph.sources(reader.name)[0] == port


def _padded(graph: Graph, node: OperatorNode) -> tuple[Port | None, Port | None, Port | None]:
    """The sources of the input, the scale and the zero point."""
    x, scale, *rest = graph.sources(node.name)
    return x, scale, rest[0] if rest else None
