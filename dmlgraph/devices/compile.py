"""The driver: runs the passes and lowering, and gives the result to a device, which compiles it.

    executable = compile_graph(graph, choose("cpu"))

No other module knows all three.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from dmlgraph.base.errors import DmlGraphError, OperatorError, Problem, listing, plural
from dmlgraph.base.memory import enough_memory
from dmlgraph.compiler import pipeline
from dmlgraph.compiler.desc import GraphDesc, OperatorDescNode
from dmlgraph.compiler.lowering import lower
from dmlgraph.compiler.pipeline import Fused
from dmlgraph.compiler.target import Target
from dmlgraph.devices import with_permissions
from dmlgraph.devices.device import lacks
from dmlgraph.devices.directml.layouts import refusal
from dmlgraph.devices.host.exit_gate import finishing
from dmlgraph.devices.recipe import Recipe, Source, chosen_rules

if TYPE_CHECKING:
    from dmlgraph.compiler.ir import IrGraph
    from dmlgraph.devices import Choice
    from dmlgraph.devices.device import Device
    from dmlgraph.devices.executable import Executable
    from dmlgraph.graph.graph import Graph


def fuse_graph(graph: Graph, device: Device | None = None, *, fuse: bool | Iterable[str] = True) -> Fused:
    """The graph after the passes of the device's target.

    Args:
        graph: with its dims resolved.
        device: None: DirectML at the graph's level.
        fuse: as in `Graph.compile`.
    """
    # The modules of the passes are a fifth of what a short command costs.
    if fuse is False and not graph.origin.workarounds:
        target = Target(graph.level, (), layout_refusal=refusal) if device is None else device.target
        return pipeline.fuse(graph, target, frozenset())
    from dmlgraph.devices.directml import target as directml
    from dmlgraph.devices.rules import enabled
    from dmlgraph.devices.workarounds import Applied

    target = directml.target(graph.level) if device is None else device.target
    workarounds = Applied.of(graph, device)
    other, kept, record = workarounds.take(graph)
    fused = pipeline.fuse(other, target, workarounds.rules(enabled(fuse, graph)), kept=kept)
    return dataclasses.replace(fused, record=(*record, *fused.record)) if record else fused


def lower_graph(
    graph: Graph, device: Device | None = None, *, fuse: bool | Iterable[str] = True
) -> tuple[Fused, GraphDesc]:
    """The fused graph and its GraphDesc; the arguments are those of `fuse_graph`."""
    with enough_memory("lower", graph):
        fused = fuse_graph(graph, device, fuse=fuse)
        return fused, lower(fused.graph, None if device is None else device.level)


@finishing
def compile_graph(
    graph: Graph, choice: Choice, *, fuse: bool | Iterable[str] = True, debug: bool = False
) -> Executable:
    """Fuses and lowers a graph for a device and compiles it there; `fuse` and `debug` are as in `Graph.compile`.

    With `auto` this goes on to the next device while one lacks something that the graph needs.

    The executable's `stats` hold the time of each of the three: fuse_seconds, lower_seconds, compile_seconds.

    Raises:
        OperatorError: a node needs a higher feature level than the device has.
        DeviceError: the device cannot run the graph, or failed.
        NotEnoughMemoryError: there is not enough memory to compile it.
    """
    rules = chosen_rules(fuse)

    def on(choice: Choice) -> Executable:
        executable = _compile(graph, choice, rules, debug)
        executable.recipe = Recipe(
            Source.of(graph),
            choice.name,
            rules,
            choice.threads,
            debug,
            metacommands=choice.metacommands,
            half_precision=choice.half_precision,
        )
        return executable

    with enough_memory("compile", graph):
        return _first(choice, on)


@finishing
def compile_ir(ir: IrGraph, choice: Choice) -> Executable:
    """Lowers what the passes made for a device and compiles it there; raises as `compile_graph`."""

    def on(choice: Choice) -> Executable:
        desc = lower(ir, choice.device.level)
        _check_level(desc, choice.device, None)
        return choice.device.compile(desc, reason=choice.reason)

    with enough_memory("compile", ir):
        return _first(choice, on)


def _first(choice: Choice, compile_on: Callable[[Choice], Executable]) -> Executable:
    """What is compiled on the first device that lacks nothing."""
    while True:
        try:
            return compile_on(choice)
        except DmlGraphError as error:
            if choice.otherwise is None or not lacks(error):
                raise
            choice = choice.otherwise(_why(error))


def _why(error: DmlGraphError) -> str:
    """The first problem of an error in a line, and how many more there are."""
    first, *others = error.problems
    line = first.headline.splitlines()[0]
    return f"{line}, and {plural(len(others), 'other problem')}" if others else line


def _compile(graph: Graph, choice: Choice, fuse: bool | Iterable[str], debug: bool) -> Executable:
    device = _permitted(graph, choice).device
    times = [time.perf_counter()]
    fused = fuse_graph(graph, device, fuse=fuse)
    times.append(time.perf_counter())
    desc = lower(fused.graph, device.level)
    times.append(time.perf_counter())
    if device.level < graph.level:
        _check_level(desc, device, f"import the model with target='{device.level}'" if graph.origin.is_model else None)
    try:
        executable = device.compile(desc, reason=choice.reason, debug=debug)
    except DmlGraphError as error:
        raise error.with_problems(_in_source(problem, graph, fused) for problem in error.problems) from None
    times.append(time.perf_counter())
    executable.fusion = fused.record
    for stage, (begin, end) in zip(("fuse", "lower", "compile"), itertools.pairwise(times), strict=True):
        executable.stats.setdefault(f"{stage}_seconds", end - begin)
    return executable


def _permitted(graph: Graph, choice: Choice) -> Choice:
    """The choice with what the graph's workarounds for its device do not forbid."""
    from dmlgraph.devices.workarounds import Applied

    workarounds = Applied.of(graph, choice.device)
    return with_permissions(
        choice,
        metacommands=choice.metacommands and workarounds.allows("metacommands"),
        half_precision=choice.half_precision and workarounds.allows("half_precision"),
    )


def _check_level(desc: GraphDesc, device: Device, hint: str | None) -> None:
    """Refuses nodes that need a higher feature level than the device has; `hint` says what to do about all of them."""
    problems = [
        dataclasses.replace(problem.at(node=node.name), hint=hint or problem.hint or device.newer)
        for node in desc.nodes
        if isinstance(node, OperatorDescNode)
        for problem in node.operator.level_problems(device.level)
    ]
    if problems:
        raise OperatorError(problems)


def _in_source(problem: Problem, graph: Graph, fused: Fused) -> Problem:
    """A problem of a node of the fused graph, with its origins and its place in the graph's file."""
    origins = fused.origins.get(problem.node or "", ())
    if not origins:
        return graph.origin.located(problem)
    if origins != (problem.node,):
        problem = dataclasses.replace(problem, message=f"{problem.message}, made of {listing(origins)}")
    place = problem.node if problem.node in origins else origins[0]
    return problem.at(location=graph.origin.location(place, problem.field))
