"""Values between the nodes of a fused graph: on the host, and for parts of the graph that a device runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlgraph.base.free_names import FreeNames
from dmlgraph.base.scalar import Scalar
from dmlgraph.compiler.ir import IrGraph
from dmlgraph.compiler.ir_node import IrNode, Source
from dmlgraph.doctor.bounds import margin, units_of
from dmlgraph.doctor.judge import Judge
from dmlgraph.doctor.sums import FREE_ORDER, magnitudes_of
from dmlgraph.graph.graph import Graph
from dmlgraph.graph.network import Output
from dmlgraph.graph.nodes import LENGTH, ConstantNode, InputNode, OperatorNode
from dmlgraph.operators.element_wise import Max
from dmlgraph.operators.fill import FillValueConstant

if TYPE_CHECKING:
    from dmlgraph.devices.executable import Executable

Array = np.ndarray[Any, Any]
Values = dict[Source, Array]


def given(ir: IrGraph, inputs: Mapping[str, Array]) -> Values:
    """The values of the inputs and the constants."""
    values: Values = {}
    for node in ir.in_order():
        if isinstance(node.content, ConstantNode):
            values[Source(node.name, 0)] = node.content.data
        elif isinstance(node.content, InputNode) and node.name in inputs:
            values[Source(node.name, 0)] = np.asarray(inputs[node.name])
    return values


def at_first(ir: IrGraph) -> dict[str, Array]:
    """What the inputs that stand for states have before the first run."""
    found: dict[str, Array] = {}
    for state in ir.states:
        desc = ir.desc(state.input, 0)
        found[state.input] = np.zeros(desc.sizes, desc.dtype.numpy)
        if isinstance(state.initial, Scalar):
            found[state.input][...] = state.initial.value
        elif state.initial is not None:
            found[state.input] = state.initial.array
        if state.length is not None:
            found[state.length] = np.zeros(LENGTH.sizes, LENGTH.dtype.numpy)
    return found


def outputs_of(ir: IrGraph, values: Mapping[Source, Array]) -> dict[str, Array]:
    """The outputs and the next values of states, which may have another shape than the values that they are."""
    descs = ir.output_descs
    return {
        name: np.array(descs[name].unpack(ir.desc(*source).pack(values[source])))
        for name, source in ir.outputs.items()
    }


def first_step(executable: Executable, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of a run whose states are as at first, and what these hold after it, as their next values."""
    states = executable.new_states()
    found = executable.run(inputs, states=states)
    after = {state.output: states[state.name] for state in executable.graph.states if state.output is not None}
    return {name: np.array(value) for name, value in (found | after).items()}


def operators(ir: IrGraph) -> list[IrNode]:
    """The nodes that compute something, in execution order."""
    return [node for node in ir.in_order() if node.operator is not None]


def written(node: IrNode) -> list[Source]:
    """The outputs of a node that exist."""
    return [Source(node.name, port) for port, desc in enumerate(node.descs) if desc is not None]


def arguments(ir: IrGraph, node: IrNode, values: Mapping[Source, Array]) -> list[Array | None]:
    """What a node reads, by port, through its own descriptions."""
    found: list[Array | None] = []
    for source, desc in zip(node.sources, node.computation.input_descs, strict=True):
        if source is None or desc is None:
            found.append(None)
            continue
        produced, value = ir.desc(*source), values[source]
        found.append(value if produced == desc else desc.unpack(produced.pack(value)))
    return found


def evaluate(node: IrNode, given: Sequence[Array | None]) -> list[Array]:
    """The outputs of a node that exist, as the reference computes them."""
    with np.errstate(all="ignore"):
        results = node.computation.evaluate(*given)
    descs = [desc for desc in node.descs if desc is not None]
    return [np.asarray(value, desc.dtype.numpy) for value, desc in zip(results, descs, strict=True)]


def on_host(ir: IrGraph, inputs: Mapping[str, Array], judge: Judge | None = None, seed: int = 0) -> Values:
    """Every value as the reference computes it.

    Args:
        ir: the graph.
        inputs: by name.
        judge: by whose bounds each float is changed at random; None: not at all.
        seed: of the changes.
    """
    rng = np.random.default_rng(seed)
    values = given(ir, inputs)
    for node in operators(ir):
        read = arguments(ir, node, values)
        results = evaluate(node, read)
        if judge is not None:
            results = rounded_otherwise(node, read, results, rng, *judge.bounds(node.computation))
        values.update(zip(written(node), results, strict=True))
    return values


def rounded_otherwise(
    node: IrNode,
    read: Sequence[Array | None],
    results: Sequence[Array],
    rng: np.random.Generator,
    units: int = 1,
    near: float = 0.0,
) -> list[Array]:
    """The outputs of a node as another implementation might have them.

    Args:
        node: an operator.
        read: what it reads, by port.
        results: its outputs.
        rng: of the changes.
        units: by how many units in the last place, at most, each float is changed; sums of many terms by more.
        near: the error besides, of float32 and of numbers up to 1.
    """
    sums: Sequence[Array | float] = [FREE_ORDER * each for each in magnitudes_of(node.computation, read)]
    return [
        changed(value, units, near, rng, more)
        for value, more in zip(results, sums or [0.0] * len(results), strict=True)
    ]


def changed(value: Array, units: int, near: float, rng: np.random.Generator, more: Array | float = 0.0) -> Array:
    """Floats as far away as bounds allow; `more` is allowed besides."""
    if value.dtype.kind != "f":
        return value
    units = units_of(units, value.dtype)
    with np.errstate(all="ignore"):
        steps = rng.integers(-units, units, value.shape, endpoint=True) * np.spacing(value)
        error = margin(near, value.astype(np.float64), value.dtype) + more
        moved = value + steps.astype(value.dtype) + error * rng.choice((-1.0, 1.0), value.shape)
        moved = moved.astype(value.dtype)
    return np.asarray(np.where(np.isfinite(moved), moved, value), value.dtype)


def part(
    ir: IrGraph, names: Sequence[str], values: Mapping[Source, Array], copied: Collection[str] = ()
) -> tuple[IrGraph, dict[str, Array]]:
    """Some nodes as a graph whose outputs are those of the last one, and the arrays for its inputs.

    What the nodes in `copied` compute is not read from an input x, but from max(x, x), which devices compute.
    """
    chosen = set(names)
    kept = chosen | set(_fills(ir, chosen))
    made = IrGraph(ir.name, ir.level)
    free = FreeNames(kept)
    nodes: list[tuple[Any, list[Source | None]]] = []
    inputs: dict[str, Array] = {}
    places: dict[Source, Source] = {}
    for node in ir.in_order():
        if node.name not in kept:
            continue
        for source in node.sources:
            if source is None or source.node in kept or source in places:
                continue
            name = free.take(ir.reference(*source))
            places[source], inputs[name] = Source(name, 0), values[source]
            content = ir.node(source.node)
            desc = ir.desc(*source)
            if isinstance(content, ConstantNode):
                nodes.append((ConstantNode(name, desc, content.elements), []))
                del inputs[name]
            else:
                nodes.append((InputNode(name, desc, {}), []))
            if source.node in copied:
                copy = free.take(f"{name}_copy")
                nodes.append((OperatorNode(copy, Max(a=desc, b=desc), {}, {}), [places[source]] * 2))
                places[source] = Source(copy, 0)
        nodes.append((node.content, [source and places.get(source, source) for source in node.sources]))
    made.assemble(nodes, {ir.reference(*source): source for source in written(ir[names[-1]])})
    return made, inputs


def _fills(ir: IrGraph, names: Collection[str]) -> Iterator[str]:
    """The fills of one number that some nodes read: devices treat them as such."""
    for name in names:
        for source in ir[name].sources:
            if source is not None and isinstance(ir[source.node].operator, FillValueConstant):
                yield source.node


def in_source(graph: Graph, wanted: Sequence[Output], known: Mapping[Output, Array]) -> dict[Output, Array]:
    """Values of the source graph: those that are known, others as the reference computes them from these."""
    found = dict(known)
    waiting = list(wanted)
    while waiting:
        node = graph.node(waiting[-1][0])
        if waiting[-1] in found:
            waiting.pop()
        elif isinstance(node, ConstantNode):
            found[node.name, 0] = node.data
        elif isinstance(node, OperatorNode):
            sources = graph.sources(node.name)
            missing = [source for source in sources if source is not None and source not in found]
            waiting += missing
            if not missing:
                found |= _evaluated(graph, node, found)
        else:
            raise KeyError(f"input '{node.name}' has no value")
    return {each: found[each] for each in wanted}


def read_in_source(graph: Graph, node: OperatorNode, known: Mapping[Output, Array]) -> list[Array | None]:
    """What a node of the source graph reads, by port, through its own descriptions; `known` as in `in_source`."""
    sources = graph.sources(node.name)
    values = in_source(graph, [source for source in sources if source is not None], known)
    return [
        None if desc is None or source is None else desc.unpack(graph.desc(*source).pack(values[source]))
        for desc, source in zip(node.operator.input_descs, sources, strict=True)
    ]


def _evaluated(graph: Graph, node: OperatorNode, known: Mapping[Output, Array]) -> dict[Output, Array]:
    with np.errstate(all="ignore"):
        results = iter(node.operator.evaluate(*read_in_source(graph, node, known)))
    ports = enumerate(node.operator.output_descs)
    return {(node.name, port): np.asarray(next(results), desc.dtype.numpy) for port, desc in ports if desc is not None}
