"""Random graphs: their gradients agree with differences in float64, and on cpu with those.

The loss is a weighted sum of all float outputs.  Its gradients by the float inputs, along a random direction, are
compared with differences of two steps.  Where these disagree with one another the graph is not smooth there, and
nothing is compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from support.differences import Float64, operators_in
from support.random_graphs import FOCUSES, LEVELS, graph_of

import dmlgraph as dg
from campaigns.campaign import Campaign

STEP = 1e-3
GREATEST = 1e6  # number that is compared
# What differences see and gradients do not; and what has NaN inside, of a negative variance, that an activation hides.
LEFT_OUT = {"stop_gradient", "batch_normalization"}
JUMPING = {"modulus_floor", "modulus_truncate"}
Array = np.ndarray[Any, Any]


def loss_of(graph: dg.Graph, random: np.random.Generator) -> dg.Value | None:
    """One float32 that all float outputs change; None without such outputs."""
    total = None
    for name, value in graph.outputs.items():
        if value.dtype.is_float:
            weights = graph.constant(f"weights of {name}", random.uniform(0.5, 1.5, value.sizes).astype(np.float32))
            wide = value if value.dtype.bits == 32 else dg.cast(value, dtype="float32")
            part = dg.reduce(wide * weights, function="sum").reshape(1)
            total = part if total is None else total + part
    return total


def moved(inputs: Mapping[str, Array], directions: Mapping[str, Array], step: float) -> dict[str, Array]:
    return {name: each + directions[name] * step if name in directions else each for name, each in inputs.items()}


def one_case(seed: int) -> str | None:
    random, focuses = np.random.default_rng(seed), sorted(FOCUSES)
    level = [each for each in LEVELS if each is None or float(each) >= 3]
    sample = graph_of(seed, focuses[seed % len(focuses)], level[seed // len(focuses) % len(level)])
    graph = sample.graph
    if not LEFT_OUT.isdisjoint(operators_in(graph)):
        return None
    inputs: dict[str, Array] = {
        name: np.asarray(random.uniform(-1.5, 1.5, array.shape)) if array.dtype.kind == "f" else array
        for name, array in sample.inputs.items()
    }
    try:
        loss = loss_of(graph, random)
        upstream = set() if loss is None else graph.upstream(loss.node)
        names = [
            node.name
            for node in graph.inputs
            if node.desc.dtype.is_float and node.desc.strides is None and node.name in upstream
        ]
        if loss is None or not names:
            return None
        gradients = dict(zip(names, dg.gradient(loss, [graph.value(name) for name in names]), strict=True))
    except dg.DmlGraphError as error:
        return None if error.code in ("no-derivative", "level", "dtype") else f"{error}\n{sample}"
    directions: dict[str, Array] = {name: np.asarray(random.uniform(-1, 1, inputs[name].shape)) for name in names}
    compute = Float64(graph)
    with np.errstate(all="ignore"):
        values = compute(inputs)
        forward = {port: each for port, each in values.items() if not port[0].startswith("gradient/")}
        parts = [values[each.node, each.port] * directions[name] for name, each in gradients.items()]
        found, size = sum(float(part.sum()) for part in parts), sum(float(np.abs(part).sum()) for part in parts)
        again = Float64(graph, loss)
        at = {
            step: float(again(moved(inputs, directions, step))[loss.node, loss.port].reshape(()))
            for step in (STEP, -STEP, STEP / 2, -STEP / 2)
        }
    wide, narrow = ((at[step] - at[-step]) / (2 * step) for step in (STEP, STEP / 2))
    scale = 1e-3 + size + abs(narrow)
    if not all(np.abs(each).max() < GREATEST for each in forward.values() if each.dtype.kind == "f"):
        return None  # differences of these are not exact, and what is infinite has no derivative
    if any(np.isinf(each).any() for each in values.values() if each.dtype.kind == "f"):
        return None  # a slope is infinite, such as that of a root at 0
    if abs(wide - narrow) > 1e-3 * scale:
        return None  # not smooth here
    if size * STEP > 1 and not JUMPING.isdisjoint(operators_in(graph)):
        return None  # a step goes over many jumps, and the differences are those between them
    if not abs(found - narrow) <= 1e-2 * scale:
        return f"gradient {found:g}, differences {wide:g} and {narrow:g}:\n{sample}"
    return None


CAMPAIGN = Campaign("gradients", "random graphs: gradients agree with differences in float64", one_case)
