"""Every operator on tensors in other layouts than packed: what a device does with each.

    for instance in instances(LEVEL):
        for trial in trials(instance):
            print(trial, outcome(device, trial))

An instance is one operator with data; see layout_instances.  A trial gives one of its tensors another layout: as a
graph input, as a value that a node makes in a packed buffer of other sizes, or as an output.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from support.layout_instances import Instance

from dmlgraph.base.levels import FeatureLevel
from dmlgraph.base.tensor import TensorDesc, packed_strides
from dmlgraph.compiler.desc import (
    GraphDesc,
    GraphInput,
    GraphOutput,
    InputEdge,
    IntermediateEdge,
    OperatorDescNode,
    OutputEdge,
)
from dmlgraph.devices.device import Device
from dmlgraph.devices.directml.errors import DeviceRemovedError, DirectMLError
from dmlgraph.devices.reference import ReferenceDevice
from dmlgraph.operators import Operator, Slice
from dmlgraph.operators.declaration.bindings import Binding
from dmlgraph.operators.declaration.fields import Role

Array = np.ndarray[Any, Any]
Strides = tuple[int, ...]

PLACES = ("input", "owned", "made", "shared")


# ---- Layouts


def layouts(sizes: Sequence[int]) -> dict[str, Strides]:
    """Strides for these sizes, by name; only those that differ from packed ones in some dimension that is not 1."""
    axes = [axis for axis, size in enumerate(sizes) if size > 1]
    orders = {
        "reversed": axes[::-1],
        "channels last": [axes[0], *axes[2:], axes[1]] if len(axes) > 2 else [],
        "last two swapped": [*axes[:-2], *axes[:-3:-1]] if len(axes) > 2 else [],
    }
    found = {name: _ordered(sizes, order) for name, order in orders.items() if len(order) > 1}
    if axes:
        found["every second element"] = _ordered(sizes, axes, step=2)
        found["all repeated"] = (0,) * len(sizes)
    if len(axes) > 1:
        found["gaps after rows"] = _ordered(sizes, axes, gap=1)
        found["gaps after planes"] = _ordered(sizes, axes, gap=1, gap_at=axes[0])
        found["reversed with gaps"] = _ordered(sizes, axes[::-1], step=2, gap=1)
        for axis in axes:
            rest = [each for each in axes if each != axis]
            found[f"axis {axis} repeated"] = _ordered(sizes, rest)
        if len(axes) > 2:
            found["reversed and repeated"] = _ordered(sizes, axes[:0:-1])
    if 0 < len(axes) < len(sizes):
        packed = packed_strides(sizes)
        found["ones with stride 0"] = tuple(s if n > 1 else 0 for n, s in zip(sizes, packed, strict=True))
        found["ones with a large stride"] = tuple(s if n > 1 else 1000 for n, s in zip(sizes, packed, strict=True))
    return found


def _ordered(
    sizes: Sequence[int], order: Sequence[int], step: int = 1, gap: int = 0, gap_at: int | None = None
) -> Strides:
    """Strides with these dimensions from the outermost to the innermost; the others have a stride of 0.

    Args:
        step: of the innermost dimension.
        gap: elements left out after each row of every dimension, or only before the dimension `gap_at`.
    """
    strides, reach = [0] * len(sizes), step
    for axis in reversed(order):
        strides[axis] = reach + (gap if axis != order[-1] and gap_at in (None, axis) else 0)
        reach = strides[axis] * sizes[axis]
    return tuple(strides)


# ---- Trials


@dataclasses.dataclass(frozen=True, eq=False)
class Trial:
    """A graph of one operator with one tensor in some layout.

    Attributes:
        path: of the tensor.
        role: whether it is an input or an output.
        layout: the name of its layout; "packed" reads or writes a packed buffer.
        place: where an input comes from: a graph input ("input"), one that DirectML owns ("owned"), a value that a node
            made in a packed buffer of one dimension ("made"), one that is a graph output as well ("shared").  An output
            is a graph output ("output"), or is copied to a packed one ("read").
    """

    instance: Instance
    role: Role
    path: str
    layout: str
    place: str
    desc: TensorDesc
    graph: GraphDesc
    inputs: dict[str, Array]

    def __str__(self) -> str:
        return f"{self.instance.operator.name} {self.path} {self.desc}: {self.layout}, {self.place}"


def trials(instance: Instance, places: Sequence[str] = PLACES) -> Iterator[Trial]:
    """Every tensor of an instance in every layout."""
    for binding in instance.operator.bindings(Role.INPUT):
        if binding.desc is not None:
            for layout, strides in layouts(binding.desc.sizes).items():
                for place in places:
                    if place != "owned" or instance.operator.takes_owned:
                        yield input_trial(instance, binding, layout, strides, place)
            for place in ("made", "shared"):
                if place in places:
                    yield input_trial(instance, binding, "packed", None, place)
    for binding in instance.operator.bindings(Role.OUTPUT):
        if binding.desc is not None:
            for layout, strides in layouts(binding.desc.sizes).items():
                if "repeated" not in layout:
                    for place in ("output", "read"):
                        yield output_trial(instance, binding, layout, strides, place)


def input_trial(instance: Instance, binding: Binding, layout: str, strides: Strides | None, place: str) -> Trial:
    """An operator that reads one input in a layout."""
    port, desc = binding.port, binding.desc
    assert desc is not None
    read = desc.like(strides=strides, owned=place == "owned")
    data = dict(instance.data)
    data[port] = _repeated(data[port], strides)
    operator = instance.operator.with_inputs({port: read})
    if place in ("input", "owned"):
        graph, inputs = one_node(operator, data)
    else:
        graph, inputs = _after_producer(operator, data, port, shared=place == "shared")
    return Trial(instance, Role.INPUT, binding.path, layout, place, read, graph, inputs)


def output_trial(instance: Instance, binding: Binding, layout: str, strides: Strides, place: str) -> Trial:
    """An operator that writes one output in a layout."""
    assert binding.desc is not None
    written = binding.desc.like(strides=strides)
    operator = with_output(instance.operator, binding, written)
    graph, inputs = one_node(operator, instance.data)
    if place == "read":
        graph = _copied(graph, binding.port)
    return Trial(instance, Role.OUTPUT, binding.path, layout, place, written, graph, inputs)


def with_output(operator: Operator, binding: Binding, desc: TensorDesc) -> Operator:
    """The operator with another desc of one output, unchecked."""
    descs = {**dict(enumerate(operator.output_descs)), binding.port: desc}
    return operator.replace(**operator.by_field(Role.OUTPUT, descs))


def _repeated(values: Array, strides: Strides | None) -> Array:
    """The values that can be read with these strides: the first along every dimension that is repeated."""
    if strides is None:
        return values
    first = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in strides)
    return np.broadcast_to(values[first], values.shape)


def one_node(operator: Operator, data: Mapping[int, Array]) -> tuple[GraphDesc, dict[str, Array]]:
    """A graph of one operator: all its tensors are inputs and outputs of the graph."""
    ports = sorted(data)
    descs = operator.input_descs
    outputs = [(port, desc) for port, desc in enumerate(operator.output_descs) if desc is not None]
    graph = GraphDesc(
        name="trial",
        level=FeatureLevel.V6_2,
        inputs=tuple(GraphInput(f"x{port}", descs[port]) for port in ports),  # type: ignore[arg-type]
        outputs=tuple(GraphOutput(f"y{port}", desc) for port, desc in outputs),
        nodes=(OperatorDescNode("node", operator),),
        input_edges=tuple(InputEdge(slot, 0, port) for slot, port in enumerate(ports)),
        output_edges=tuple(OutputEdge(0, port, slot) for slot, (port, _) in enumerate(outputs)),
        intermediate_edges=(),
    )
    return graph, {f"x{port}": np.ascontiguousarray(data[port]) for port in ports}


def _after_producer(
    operator: Operator, data: Mapping[int, Array], port: int, *, shared: bool
) -> tuple[GraphDesc, dict[str, Array]]:
    """The graph of one operator that reads one input from the packed, larger value of one dimension of another node."""
    graph, inputs = one_node(operator, data)
    desc = operator.input_descs[port]
    assert desc is not None
    reach = max([desc.span, *(s * n for s, n in zip(desc.effective_strides, desc.sizes, strict=True) if n > 1)])
    whole = TensorDesc(dtype=desc.dtype, sizes=(1, 1, 1, reach))
    slot = sorted(data).index(port)
    flat = np.zeros(reach, desc.dtype.numpy)
    flat[: desc.span] = desc.pack(inputs[f"x{port}"]).view(desc.dtype.numpy)[: desc.span]
    given = list(graph.inputs)
    given[slot] = GraphInput(f"x{port}", whole)
    outputs = [*graph.outputs, GraphOutput("made", whole)] if shared else list(graph.outputs)
    edges = [dataclasses.replace(edge, from_node=1) for edge in graph.output_edges]
    if shared:
        edges.append(OutputEdge(0, 0, len(graph.outputs)))
    return dataclasses.replace(
        graph,
        inputs=tuple(given),
        outputs=tuple(outputs),
        nodes=(OperatorDescNode("made", _copy(whole, whole)), *graph.nodes),
        input_edges=tuple(
            InputEdge(edge.input, 0, 0) if edge.input == slot else dataclasses.replace(edge, to_node=1)
            for edge in graph.input_edges
        ),
        output_edges=tuple(edges),
        intermediate_edges=(IntermediateEdge(0, 0, 1, port),),
    ), {**inputs, f"x{port}": flat.reshape(whole.sizes)}


def _copied(graph: GraphDesc, port: int) -> GraphDesc:
    """The graph with one output of its node copied to a packed graph output."""
    (node,) = graph.nodes
    assert isinstance(node, OperatorDescNode)
    written = node.operator.output_descs[port]
    assert written is not None
    packed = written.like()
    edges, outputs = list(graph.output_edges), list(graph.outputs)
    slot = next(edge.output for edge in edges if edge.from_port == port)
    edges[slot] = OutputEdge(1, 0, slot)
    outputs[slot] = GraphOutput(outputs[slot].name, packed)
    return dataclasses.replace(
        graph,
        outputs=tuple(outputs),
        nodes=(node, OperatorDescNode("copy", _copy(written, packed))),
        output_edges=tuple(edges),
        intermediate_edges=(IntermediateEdge(0, port, 1, 0),),
    )


def _copy(source: TensorDesc, target: TensorDesc) -> Operator:
    """A slice of a whole tensor: DirectML never removes it."""
    rank = source.rank
    return Slice(input=source, output=target, offsets=(0,) * rank, sizes=source.sizes, strides=(1,) * rank)


# ---- Outcomes


def outcome(device: Device, trial: Trial, compile_graph: Callable[[GraphDesc], Any] | None = None) -> str:
    """What a device does: "right", "wrong", "refused: …", "removed", or "undefined" if it differs when packed too."""
    expected = ReferenceDevice().compile(trial.graph, reason="asked for").run(trial.inputs)
    got = _run(device, trial.graph, trial.inputs, compile_graph)
    if isinstance(got, str):
        return got
    if all(_close(got[name], expected[name]) for name in expected):
        return "right"
    data = {
        port: _repeated(values, trial.desc.strides) if port == _port(trial) else values
        for port, values in trial.instance.data.items()
    }
    packed = _run(device, *one_node(trial.instance.operator, data), compile_graph)
    assert not isinstance(packed, str), f"{trial}: packed: {packed}"
    if all(_close(got[name], packed[name]) for name in packed):
        return "right"
    want = {name: expected[name] for name in packed}
    return "wrong" if all(_close(packed[name], want[name]) for name in packed) else "undefined"


def _port(trial: Trial) -> int | None:
    if trial.role is Role.OUTPUT:
        return None
    return next(each.port for each in trial.instance.operator.bindings(Role.INPUT) if each.path == trial.path)


def _run(
    device: Device, graph: GraphDesc, inputs: Mapping[str, Array], compile_graph: Callable[[GraphDesc], Any] | None
) -> dict[str, Array] | str:
    try:
        compiled = compile_graph(graph) if compile_graph else device.compile(graph, reason="asked for")
        with compiled as executable:
            return dict(executable.run(inputs))
    except DeviceRemovedError as error:
        return f"removed: {error.call}"
    except DirectMLError as error:
        return f"refused: {error.call}"


def _close(got: Array, expected: Array) -> bool:
    if got.dtype != expected.dtype or got.shape != expected.shape:
        return False
    if got.dtype.kind != "f":
        return bool(np.array_equal(got, expected))
    relative = 1e-4 if got.dtype.itemsize > 2 else 4e-3
    with np.errstate(all="ignore"):
        return bool(np.allclose(got.astype("f8"), expected.astype("f8"), rtol=relative, atol=relative, equal_nan=True))


# ---- Several readers


def packed_value_read_as(
    descs: Sequence[TensorDesc], readers: Sequence[Operator], made_by: Operator | None, port: int = 0
) -> GraphDesc:
    """Operators that each read one packed value at a port: a graph input, or the output of an operator.

    Args:
        descs: how they read it.
        made_by: the operator, of one input.
    """
    (whole,) = {TensorDesc(dtype=each.dtype, sizes=[each.span]) for each in descs}
    first = 0 if made_by is None else 1
    nodes = [OperatorDescNode("made", made_by)] if made_by is not None else []
    nodes += [OperatorDescNode(f"reader{index}", reader) for index, reader in enumerate(readers)]
    given = whole if made_by is None else made_by.input_descs[0]
    assert given is not None
    inputs = [GraphInput("x", given)]
    edges = [InputEdge(0, first + index, port) for index in range(len(readers))] if not first else [InputEdge(0, 0, 0)]
    for index, reader in enumerate(readers):
        for other, desc in enumerate(reader.input_descs):
            if desc is not None and other != port:
                edges.append(InputEdge(len(inputs), first + index, other))
                inputs.append(GraphInput(f"x{len(inputs)}", desc))
    return GraphDesc(
        name="readers",
        level=FeatureLevel.V6_2,
        inputs=tuple(inputs),
        outputs=tuple(GraphOutput(f"y{index}", each.first_output) for index, each in enumerate(readers)),
        nodes=tuple(nodes),
        input_edges=tuple(edges),
        output_edges=tuple(OutputEdge(first + index, 0, index) for index in range(len(readers))),
        intermediate_edges=tuple(IntermediateEdge(0, 0, first + index, port) for index in range(len(readers) * first)),
    )
