"""Faults planted in random nodes of ten graphs are named, and no sound random graph is accused."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import random
from collections.abc import Callable
from typing import Any

import numpy as np
from support.onnx.exported_nets import imported, in_float16, speech, squeezenet, transformer
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
from dmlgraph.doctor.runs import most_executions
from dmlgraph.doctor.values import Values, arguments, at_first, given, operators, part, written
from dmlgraph.measure.exposing import exposing, values_of
from dmlgraph.measure.inputs import complete

Array = np.ndarray[Any, Any]

DEVICE: DeviceName = "directml:software"
EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
WHATS = ("element", "element", "row=8", "row=8", "nan", "random", "late", "ulp")


# The ten graphs.


def _example(name: str, **dims: int) -> dg.Graph:
    return dg.load(EXAMPLES / name, dims=dims)


GRAPHS: tuple[Callable[[], dg.Graph], ...] = (
    lambda: imported(squeezenet(side=48)),
    lambda: imported(transformer(layers=12)),
    lambda: imported(in_float16(transformer(layers=4))),
    lambda: imported(speech()),
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
        return f"graph {seed % len(GRAPHS)}: {outcome.fault} in {outcome.meant}, and not {outcome.finding.node}"
    if outcome.finding.executions > outcome.most:
        return f"{outcome.finding.executions} executions, and not {outcome.most}"
    return None


CAMPAIGN = Campaign("doctor", "faults planted in nodes: each is named; and sound graphs: none is accused", one_case)
