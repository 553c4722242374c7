"""Helpers for the tests of those who use dmlgraph.

    from dmlgraph.testing import assert_devices_agree, random_inputs

    def test_my_graph(dmlgraph_device):
        assert_devices_agree(graph, random_inputs(graph, seed=0), devices=["reference", dmlgraph_device], ulp=2)

The pytest plugin that comes with the package has the fixture `dmlgraph_device`: the name of a device that is here; a
test of another device is skipped with the device's own reason.  The ini option `dmlgraph_devices` lists the devices.

The plugin is in this package, so importing it imports nothing else of dmlgraph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from dmlgraph.devices.device import DeviceName
    from dmlgraph.graph.graph import Graph

    Array = np.ndarray[Any, Any]

__all__ = ["assert_devices_agree", "random_inputs"]


def assert_devices_agree(
    graph: Graph,
    inputs: Mapping[str, Any] | None = None,
    *,
    devices: Sequence[DeviceName | str] | None = None,
    states: Mapping[str, Any] | None = None,
    steps: int = 1,
    ulp: int = 0,
    relative: float = 0.0,
    absolute: float = 0.0,
) -> None:
    """Asserts that devices compute the same outputs of a graph, and leave the same in its states.

    Numbers are equal within any of `ulp`, `relative` and `absolute`.  −0.0 and 0.0 are one unit apart; any two NaNs are
    equal.

    Args:
        graph: with its dims resolved.
        inputs: an array for every input; random ones by default.
        devices: the first is compared with each other one, all of them fused; by default `reference` with all other
            devices of this machine.  One device is compared with itself without fusion.
        states: arrays that states hold before, by name; of a growing state, its rows.  Others hold what they hold at
            first.
        steps: how often to run, with the same inputs; outputs and states are compared after each step.
        ulp: units in the last place.
        relative: a fraction of the larger magnitude.
        absolute: the difference.

    Raises:
        AssertionError: they differ; says in which step, output or state and from which node on, with the values around
            the element that differs most.
        DmlGraphError: a device is not here, or cannot run the graph, or an array does not fit.
    """
    from dmlgraph.devices import choose
    from dmlgraph.measure.diff import Side, diff
    from dmlgraph.measure.ulp import Tolerance
    from dmlgraph.testing.report import difference
    from dmlgraph.testing.run import devices_here

    names = list(devices) if devices is not None else ["reference", *(n for n in devices_here() if n != "reference")]
    if isinstance(devices, str) or not names:
        raise ValueError(f"devices must be a list of names, not {devices!r}")
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise ValueError(f"steps must be a whole number of at least 1, not {steps!r}")
    first, *others = (Side(choose(name), fuse=True) for name in names)
    arrays = random_inputs(graph) if inputs is None else inputs
    for other in others or [Side(first.device, fuse=False)]:
        found = diff(graph, (first, other), arrays, Tolerance(ulp, relative, absolute), states=states, steps=steps)
        if not found.equal:
            raise AssertionError("\n".join(difference(graph, found)))


def random_inputs(graph: Graph, seed: int = 0) -> dict[str, Array]:
    """An array for every input of a graph: normally distributed floats, integers from 0 to 7.

    They are the same for the same seed.  An input's numbers do not depend on the other inputs.
    """
    from dmlgraph.measure.inputs import complete

    return complete(graph, {}, seed)[0]
