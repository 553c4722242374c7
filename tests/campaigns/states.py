"""Random graphs with states: a loop in NumPy over the same graph without states gives the same bits.

Some inputs of a random graph become states, with an output, another input or the state itself as the next value; other
values are appended to growing states.  In the graph of the loop all of these are inputs and outputs.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from support.random_graphs import FOCUSES, LEVELS, graph_of

import dmlgraph as dg
from campaigns.campaign import Campaign
from dmlgraph.devices.names import DeviceName
from dmlgraph.graph.nodes import ConstantNode, InputNode, OperatorNode
from dmlgraph.operators.declaration.fields import Role

DEVICES: tuple[DeviceName, ...] = ("cpu", "directml:software", "reference")
STEPS = 4
Array = np.ndarray[Any, Any]


class Growing(NamedTuple):
    """A growing state: the rows that are appended, its axis, and how many rows it can have."""

    rows: str
    axis: int
    capacity: int


class Plan(NamedTuple):
    """What becomes of a graph: state → its next value, by reference; and its growing states."""

    next_values: Mapping[str, str]
    growing: Mapping[str, Growing]


def planned(graph: dg.Graph, dice: random.Random) -> Plan:
    """Some of the graph's inputs as states, and some of its values as rows."""
    whole = [node for node in graph.inputs if node.desc.strides is None and node.desc.dtype.bits >= 8]
    whole = [node for node in whole if not node.desc.owned and dice.random() < 0.6]
    values = [*graph.outputs.values(), *(graph.value(node.name) for node in graph.inputs)]
    values = [value for value in values if value.desc.dtype.bits >= 8]
    next_values = {}
    for node in whole:
        fitting = [each for each in values if (each.desc.dtype, each.sizes) == (node.desc.dtype, node.desc.sizes)]
        next_values[node.name] = dice.choice(fitting).reference
    growing = {}
    for index in range(dice.choice((0, 1, 1, 2))):
        if values and (value := dice.choice(values)).desc.total_bytes < 4096:
            axis = dice.randrange(value.rank)
            growing[f"grown{index}"] = Growing(value.reference, axis, value.sizes[axis] * STEPS + dice.randint(0, 2))
    return Plan(next_values, growing)


def rebuilt(graph: dg.Graph, plan: Plan, inputs: Mapping[str, Array], *, stateful: bool) -> dg.Graph:
    """The graph with states, or with their values as inputs and outputs."""
    other = dg.Graph(graph.name, target=graph.target)
    values: dict[str, tuple[dg.Value | None, ...]] = {}
    for node in graph.nodes:
        if isinstance(node, InputNode):
            values[node.name] = (_source(other, node, plan, inputs, stateful),)
        elif isinstance(node, ConstantNode):
            values[node.name] = (other.constant(node.name, node.data, dtype=node.desc.dtype),)
        elif isinstance(node, OperatorNode):
            bound = {port: values[source][out] for source, out, port in graph.producers(node.name)}
            tensors = node.operator.by_field(Role.INPUT, bound)
            values[node.name] = other.add(type(node.operator), tensors, node.attributes, node.outputs, node.name)
    for name, value in graph.outputs.items():
        other.output(name, other.value(value.reference))
    for name, reference in plan.next_values.items():
        _change(other, name, reference, stateful)
    for name, (reference, axis, capacity) in plan.growing.items():
        rows = other.value(reference)
        sizes = [capacity if place == axis else size for place, size in enumerate(rows.sizes)]
        if stateful:
            held = other.state(name, sizes=sizes, dtype=rows.dtype, grows=axis)
            length = held.length
        else:
            held = other.input(name, sizes=sizes, dtype=rows.dtype)
            length = other.input(f"{name}.length", sizes=[1], dtype="uint32")
        other.output(f"{name} was", held)
        other.output(f"{name} had", length)
        _change(other, name, reference, stateful, grows=True)
    return other


def _source(graph: dg.Graph, node: InputNode, plan: Plan, inputs: Mapping[str, Array], stateful: bool) -> dg.Value:
    desc = node.desc
    if stateful and node.name in plan.next_values:
        return graph.state(node.name, sizes=desc.sizes, dtype=desc.dtype, initial=inputs[node.name])
    return graph.input(node.name, sizes=desc.sizes, dtype=desc.dtype, strides=desc.strides, owned=desc.owned)


def _change(graph: dg.Graph, name: str, reference: str, stateful: bool, *, grows: bool = False) -> None:
    value = graph.value(reference)
    if not stateful:
        graph.output(f"next {name}", value)
    elif grows:
        graph.append(graph.value(name), value)
    else:
        graph.update(graph.value(name), value)


def looped(
    graph: dg.Graph, plan: Plan, inputs: Mapping[str, Array], device: DeviceName, fuse: bool
) -> list[dict[str, Array]]:
    """The results of every step, and what all states hold after it."""
    given = dict(inputs)
    for name in plan.growing:
        desc = graph.value(name).desc
        given |= {name: np.zeros(desc.sizes, desc.dtype.numpy), f"{name}.length": np.zeros(1, np.uint32)}
    found = []
    with graph.compile(device, fuse=fuse) as executable:
        for _ in range(STEPS):
            results = executable.run(given)
            after = {name: results.pop(f"next {name}") for name in (*plan.next_values, *plan.growing)}
            given = given | {name: after[name] for name in plan.next_values}
            for name, grown in plan.growing.items():
                begin = int(given[f"{name}.length"][0])
                end = begin + after[name].shape[grown.axis]
                held = given[name] = given[name].copy()
                held[(slice(None),) * grown.axis + (slice(begin, end),)] = after[name]
                given[f"{name}.length"] = np.array([end], np.uint32)
            found.append(results | {f"held {name}": given[name] for name in (*plan.next_values, *plan.growing)})
    return found


def stepped(
    graph: dg.Graph, plan: Plan, inputs: Mapping[str, Array], device: DeviceName, fuse: bool
) -> list[dict[str, Array]]:
    """The same by an executable with states."""
    given = {name: array for name, array in inputs.items() if name not in plan.next_values}
    found = []
    with graph.compile(device, fuse=fuse) as executable:
        states = executable.new_states()
        for _ in range(STEPS):
            results = executable.run(given, states=states)
            found.append(results | {f"held {name}": states[name] for name in states})
        at_once = executable.run(given, steps=STEPS, collect=list(results))
        for name in results:
            steps = np.stack([each[name] for each in found])
            assert steps.tobytes() == at_once[name].tobytes(), f"{name}: {STEPS} steps in one call"
    return found


def one_case(seed: int) -> str | None:
    dice = random.Random(seed)
    focuses = sorted(FOCUSES)
    sample = graph_of(seed, focuses[seed % len(focuses)], LEVELS[seed // len(focuses) % len(LEVELS)])
    plan = planned(sample.graph, dice)
    if not plan.next_values and not plan.growing:
        return None
    device, fuse = DEVICES[seed % len(DEVICES)], dice.random() < 0.7
    try:
        plain = rebuilt(sample.graph, plan, sample.inputs, stateful=False)
        expected = looped(plain, plan, sample.inputs, device, fuse)
    except dg.DmlGraphError:
        return None  # the device cannot run it
    got = stepped(rebuilt(sample.graph, plan, sample.inputs, stateful=True), plan, sample.inputs, device, fuse)
    for step, (one, other) in enumerate(zip(got, expected, strict=True)):
        for name, array in one.items():
            wanted = other[name]
            grown = plan.growing.get(name.removeprefix("held "))
            if grown is not None and name.startswith("held "):
                wanted = wanted[(slice(None),) * grown.axis + (slice(0, array.shape[grown.axis]),)]
            if array.tobytes() != np.ascontiguousarray(wanted).tobytes():
                return f"{name} after {step + 1} steps on {device}, fuse={fuse}:\n{sample}\n{plan}"
    return None


CAMPAIGN = Campaign("states", "random graphs with states: the same bits as a loop over the graph without", one_case)
