"""Faults planted in random nodes of ten graphs are named, and no sound random graph is accused."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import random
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from support.random_graphs import graph_of

import dmlgraph as dg
from campaigns.campaign import Campaign
from dmlgraph.devices import choose
from dmlgraph.devices.compile import compile_graph, compile_ir, fuse_graph
from dmlgraph.devices.directml import install
from dmlgraph.devices.directml.software import adapter
from dmlgraph.devices.names import DeviceName
from dmlgraph.doctor.find import find
from dmlgraph.doctor.finding import Finding, Kind
from dmlgraph.doctor.judge import Judge, is_exact
from dmlgraph.doctor.search import most_executions
from dmlgraph.doctor.values import Values, arguments, at_first, given, operators, part, written
from dmlgraph.measure.exposing import exposing, values_of
from dmlgraph.measure.inputs import complete

Array = np.ndarray[Any, Any]

DEVICE: DeviceName = "directml:software"
EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
WHATS = ("element", "element", "row=8", "row=8", "nan", "random", "late", "ulp")


# The ten graphs.


def _weights(rng: np.random.Generator, *sizes: int) -> Array:
    return (rng.normal(size=sizes) / np.sqrt(np.prod(sizes[1:]))).astype(np.float32)


def _convolution(
    graph: dg.Graph, x: dg.Value, name: str, filters: int, size: int, rng: np.random.Generator
) -> dg.Value:
    w = graph.constant(f"{name}.w", _weights(rng, filters, x.sizes[1], size, size))
    pad = [size // 2] * 2
    return dg.activation_relu(dg.convolution(x, w, None, start_padding=pad, end_padding=pad), name=name)


def squeezenet() -> dg.Graph:
    """Fire modules: a narrow convolution, then two wide ones side by side."""
    graph, rng = dg.Graph("squeezenet"), np.random.default_rng(0)
    x = _convolution(graph, graph.input("x", sizes=[1, 3, 24, 24], dtype="float32"), "first", 8, 3, rng)
    for index in range(8):
        narrow = _convolution(graph, x, f"fire{index}/squeeze", 4, 1, rng)
        sides = [_convolution(graph, narrow, f"fire{index}/expand{size}", 4 + index, size, rng) for size in (1, 3)]
        x = dg.join(sides, axis=1, name=f"fire{index}")
        if index in (2, 5):
            x = dg.max_pooling(x, strides=[2, 2], window_size=[2, 2], start_padding=[0, 0], end_padding=[0, 0])
    x = _convolution(graph, x, "last", 10, 1, rng)
    mean = dg.reduce(x, function="average", axes=[2, 3], name="mean")
    graph.output("y", dg.activation_softmax1(mean, axes=[1], name="classes"))
    return graph


def transformer(layers: int = 12, dtype: Literal["float32", "float16"] = "float32") -> dg.Graph:
    """Layers of attention and of two products, with normalisations before each."""
    graph, rng, width, heads, tokens = dg.Graph("transformer"), np.random.default_rng(1), 16, 2, 6
    x = graph.input("x", sizes=[1, 1, tokens, width], dtype=dtype)

    def product(value: dg.Value, name: str, size: int) -> dg.Value:
        data = _weights(rng, value.sizes[-1], size).astype(dtype)
        return dg.gemm(value, graph.constant(f"{name}.w", data[None, None]), name=name)

    def normalised(value: dg.Value, name: str) -> dg.Value:
        return dg.mean_variance_normalization1(
            value, None, None, axes=[3], normalize_variance=True, epsilon=1e-5, name=name
        )

    for index in range(layers):
        with graph.scope(f"layer{index}"):
            normal = normalised(x, "before")
            q, k, v = (
                product(normal, name, width).reshape(1, tokens, heads, width // heads).transpose(0, 2, 1, 3)
                for name in "qkv"
            )
            scores = dg.multiply(dg.gemm(q, k.transpose(0, 1, 3, 2), name="scores"), 0.35, name="scaled")
            mixed = dg.gemm(dg.activation_softmax1(scores, axes=[3], name="weights"), v, name="mixed")
            joined = dg.identity(mixed.transpose(0, 2, 1, 3).reshape(1, 1, tokens, width), name="joined")
            x = dg.add(x, product(joined, "out", width), name="attended")
            wide = dg.activation_gelu(product(normalised(x, "middle"), "up", 3 * width), name="gelu")
            x = dg.add(x, product(wide, "down", width), name="after")
    graph.output("y", product(normalised(x, "end"), "logits", 40))
    return graph


def speech() -> dg.Graph:
    """Convolutions over a spectrogram, a recurrent layer, and scores for each letter."""
    graph, rng, steps, size = dg.Graph("speech"), np.random.default_rng(2), 12, 8
    x = graph.input("x", sizes=[1, 1, 24, 16], dtype="float32")
    x = _convolution(graph, dg.log(dg.abs(x) + 0.1, name="log"), "first", 6, 3, rng)
    x = dg.average_pooling(
        x, strides=[2, 2], window_size=[2, 2], start_padding=[0, 0], end_padding=[0, 0], include_padding=False
    )
    x = _convolution(graph, x, "second", 4, 3, rng)
    frames = dg.identity(x.transpose(2, 0, 1, 3).reshape(1, steps, 1, 32), name="frames")
    w, r = (graph.constant(name, _weights(rng, 1, 1, 3 * size, inner)) for name, inner in (("w", 32), ("r", size)))
    sequence = dg.gru(
        frames, w, r, None, None, None, direction="forward", linear_before_reset=False,
        activation_descs=[{"op": "activation_sigmoid"}, {"op": "activation_tanh"}],
        output_sequence=True, name="gru",
    ).output_sequence  # fmt: skip
    letters = dg.gemm(sequence.reshape(1, 1, steps, size), graph.constant("out", _weights(rng, size, 29)[None, None]))
    graph.output("y", dg.activation_log_softmax1(letters, axes=[3], name="letters"))
    return graph


def _example(name: str, **dims: int) -> dg.Graph:
    return dg.load(EXAMPLES / name, dims=dims)


GRAPHS: tuple[Callable[[], dg.Graph], ...] = (
    squeezenet,
    transformer,
    functools.partial(transformer, 4, "float16"),
    speech,
    functools.partial(_example, "causal_attention/causal_attention.yaml"),
    functools.partial(_example, "feed_forward/feed_forward.yaml"),
    functools.partial(_example, "unet_block.yaml"),
    functools.partial(_example, "normalize_photo.yaml"),
    functools.partial(_example, "positional_encoding.yaml"),
    functools.partial(_example, "moving_average.yaml"),
)


# Planting.


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """A graph with its inputs, and the kernels of its nodes.

    Attributes:
        kernels: by kernel, the nodes of the fused graph that have it.
        origins: by node of the fused graph, those of the source graph.
        types: by node of the fused graph, the data type of its first output.
    """

    graph: dg.Graph
    inputs: dict[str, Array]
    kernels: dict[str, tuple[str, ...]]
    origins: dict[str, tuple[str, ...]]
    types: dict[str, str]


@functools.cache
def subject(index: int) -> Subject:
    graph = GRAPHS[index]()
    inputs, _ = complete(graph, {}, seed=index)
    choice, planted = choose(DEVICE), adapter.load()
    fused = fuse_graph(graph, choice.device)
    values, whole = _computed(graph, inputs)
    found: dict[str, list[str]] = {}
    types = {}
    for node in fused.graph.in_order():
        if node.operator is None or not node.operator.input_fields:
            continue
        ir, arrays = part(fused.graph, [node.name], values)
        planted.plant_fault("log")
        with compile_ir(ir, choice) as executable:
            executable.run(arrays)
        types[node.name] = str(fused.graph.desc(*written(node)[0]).dtype).replace("uint", "int")
        for kernel in planted.dispatched():
            if kernel in whole:
                found.setdefault(kernel, []).append(node.name)
    planted.plant_fault("")
    kernels = {kernel: tuple(dict.fromkeys(nodes)) for kernel, nodes in found.items()}
    return Subject(graph, inputs, kernels, fused.origins, types)


def _computed(graph: dg.Graph, inputs: dict[str, Array]) -> tuple[Values, set[str]]:
    """The values between the nodes, and the kernels of a run of the whole graph."""
    choice, planted = choose(DEVICE), adapter.load()
    fused = fuse_graph(graph, choice.device)
    arrays = {**at_first(fused.graph), **inputs}
    sources = [source for source, _ in values_of(fused.graph)]
    with compile_ir(exposing(fused.graph, sources), choice) as executable:
        results = executable.run(arrays)
    values = given(fused.graph, arrays)
    values |= {source: np.array(results[fused.graph.reference(*source)]) for source in sources}
    planted.plant_fault("log")
    with compile_graph(graph, choice) as executable:
        executable.run(inputs)
    return values, set(planted.dispatched())


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a planted fault."""

    fault: str
    meant: tuple[str, ...]
    finding: Finding
    named: bool
    visible: bool
    most: int


def planted_case(seed: int) -> Outcome:
    """Plants a fault in a random node of one of the graphs, and looks for it."""
    rng = random.Random(seed)
    install.install()
    one = subject(seed % len(GRAPHS))
    kernel = rng.choice(sorted(one.kernels))
    nodes = one.kernels[kernel]
    dtype = one.types[nodes[0]]
    whats = [what for what in WHATS if dtype.startswith("float") or what != "nan"]
    fused = fuse_graph(one.graph, choose(DEVICE).device)
    if not all(is_exact(fused.graph[name].computation) for name in nodes):
        whats = [what for what in whats if what != "ulp"]  # it is as near as the operator's bound allows
    fault = f"kernel={kernel},{rng.choice(whats)},{dtype}"
    planted = adapter.load()
    planted.plant_fault(fault)
    try:
        finding = find(one.graph, DEVICE, one.inputs)
        visible = finding.kind not in (Kind.SOUND, Kind.AMPLIFICATION) or _is_visible(one, fault, nodes)
    finally:
        planted.plant_fault("")
    meant = tuple(dict.fromkeys(origin for name in nodes for origin in (name, *one.origins[name])))
    return Outcome(fault, meant, finding, finding.node in meant, visible, most_executions(len(fused.graph)))


def _is_visible(one: Subject, fault: str, nodes: tuple[str, ...]) -> bool:
    """Whether a fault changes a result by more than the operator's bound: a softmax does not mind a wrong maximum."""
    planted, judge = adapter.load(), Judge(DEVICE)
    planted.plant_fault(fault)
    wrong, _ = _computed(one.graph, one.inputs)
    planted.plant_fault("")
    right, _ = _computed(one.graph, one.inputs)
    ir = fuse_graph(one.graph, choose(DEVICE).device).graph
    for node in operators(ir):
        if node.name in nodes or "late" in fault:
            got, expected = ([values[source] for source in written(node)] for values in (wrong, right))
            if judge.wrong(node.computation, arguments(ir, node, right), got, expected):
                return True
    return False


def one_case(seed: int) -> str | None:
    install.install()
    sample = graph_of(seed)
    try:
        with np.errstate(all="ignore"):
            finding = find(sample.graph, DEVICE, sample.inputs)
    except dg.DmlGraphError:  # a level that the device does not have
        finding = None
    if finding is not None and finding.kind not in (Kind.SOUND, Kind.AMPLIFICATION):
        return f"a sound graph is accused: {finding}\n{sample!r}"
    outcome = planted_case(seed)
    if outcome.visible and not outcome.named:
        return f"{GRAPHS[seed % len(GRAPHS)]}: {outcome.fault} in {outcome.meant}, and not {outcome.finding.node}"
    if outcome.finding.executions > outcome.most:
        return f"{outcome.finding.executions} executions, and not {outcome.most}"
    return None


CAMPAIGN = Campaign("doctor", "faults planted in nodes: each is named; and sound graphs: none is accused", one_case)
