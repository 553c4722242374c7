"""Single operators of every family on special values and sizes of 1: cpu and DirectML agree with the reference."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from support.sketches import Array, Sample
from support.special_operators import case

from campaigns.campaign import Campaign
from dmlgraph.devices.directml import install
from dmlgraph.devices.names import DeviceName
from dmlgraph.doctor.bounds import ALLOWED, ULPS, Allowed, differing, moved
from dmlgraph.graph.nodes import ConstantNode, OperatorNode
from dmlgraph.operators import Operator

RUNS = 6


def compare(sample: Sample) -> Iterator[str]:
    """The devices' results that the table does not allow."""
    graph = sample.graph
    reference = graph.compile("reference", fuse=False)
    runs = [reference.run(sample.inputs), *(reference.run(moved(sample.inputs, seed)) for seed in range(RUNS))]
    runs = [{name: array.copy() for name, array in each.items()} for each in runs]
    devices: tuple[DeviceName, ...] = ("cpu", "directml:software")
    for device in devices:
        units = ULPS[device]
        allowed = [found for each in operators(sample) if (found := allowance(each, device))]
        if any(is_beyond(sample, each) for each in allowed):
            continue
        near = max((each.near for each in allowed), default=0.0)
        fused = any(each.attributes.get("fused_activation") is not None for each in operators(sample))
        keeps_nan = fused and device != "cpu"  # a separate RELU turns it into 0
        results = graph.compile(device, fuse=False).run(sample.inputs)
        for name, got in results.items():
            wrong = differing(got, [each[name] for each in runs], units, near)
            if keeps_nan:
                wrong &= ~np.isnan(got)
            if wrong.any():
                where = tuple(map(int, np.argwhere(wrong)[0]))
                yield f"{device}: output '{name}' is {got[where]!r} at {where}, not {runs[0][name][where]!r}"


def operators(sample: Sample) -> list[Operator]:
    return [node.operator for node in sample.graph.nodes if isinstance(node, OperatorNode)]


def allowance(operator: Operator, device: DeviceName) -> Allowed | None:
    return ALLOWED[device].get(type(operator))


def is_beyond(sample: Sample, allowed: Allowed) -> bool:
    """Whether there are numbers for which an entry allows any result."""
    return any(_is_beyond(array, allowed) for array in numbers(sample))


def _is_beyond(array: Array, allowed: Allowed) -> bool:
    finite = np.isfinite(array)
    large = np.abs(array[finite].astype(np.float64)) > allowed.beyond
    return bool((allowed.special and not finite.all()) or large.any())


def numbers(sample: Sample) -> Iterator[Array]:
    """The float numbers of a graph: its inputs, constants, fills and attributes."""
    yield from (each for each in sample.inputs.values() if each.dtype.kind == "f")
    for node in sample.graph.nodes:
        if isinstance(node, ConstantNode) and node.data.dtype.kind == "f":
            yield node.data
    for operator in operators(sample):
        given = [operator.attributes, getattr(operator.attributes.get("scale_bias"), "__dict__", {})]
        values = [each if isinstance(each, tuple) else (each,) for some in given for each in some.values()]
        yield np.array([each for several in values for each in several if isinstance(each, float)], np.float64)
        if operator.is_source():
            yield from operator.evaluate()


def one_case(seed: int) -> str | None:
    sample = case(seed)
    if sample is None:
        return None
    install.install()
    with np.errstate(all="ignore"):
        problems = list(compare(sample))
    return f"{'; '.join(problems)}\n{sample!r}\n{sample.inputs!r}" if problems else None


CAMPAIGN = Campaign("special_values", "single operators on NaN, infinities, extremes and sizes of 1", one_case)
