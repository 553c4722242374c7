"""The last state of a recurrent network, which DirectML reads where an operator has overwritten all states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlgraph as dg
from dmlgraph.compiler.desc import GraphDesc
from dmlgraph.compiler.lowering import lower
from dmlgraph.devices.directml import device as module
from dmlgraph.devices.directml.device import DirectMLDevice
from dmlgraph.devices.directml.faults import make_safe

GATES = {"rnn": 1, "gru": 3, "lstm": 4}
FUNCTIONS = {
    "rnn": ["activation_tanh"],
    "gru": ["activation_sigmoid", "activation_tanh"],
    "lstm": ["activation_sigmoid", "activation_tanh", "activation_tanh"],
}
HIDDEN, NUMBERS = 8, 3


def network(operator: str, direction: str = "forward", steps: int = 5, *, single: bool = True) -> dg.Graph:
    """A graph with the negative of all states and, if asked for, the last one."""
    directions = 2 if direction == "bidirectional" else 1
    graph = dg.Graph("network")
    x = graph.input("x", sizes=[1, steps, 2, NUMBERS], dtype="float32")
    w = graph.input("w", sizes=[1, directions, GATES[operator] * HIDDEN, NUMBERS], dtype="float32")
    r = graph.input("r", sizes=[1, directions, GATES[operator] * HIDDEN, HIDDEN], dtype="float32")
    fields: dict[str, Any] = {"linear_before_reset": False} if operator == "gru" else {}
    functions = [{"op": name} for name in FUNCTIONS[operator] * directions]
    made = getattr(dg, operator)(
        x, w, r, activation_descs=functions, direction=direction, output_sequence=True, output_single=single, **fields
    )
    graph.output("all", dg.negate(made.output_sequence))
    if single:
        graph.output("last", made.output_single)
    return graph


def differences(device: DirectMLDevice, desc: GraphDesc) -> dict[str, float]:
    """The greatest difference from `reference`, by output."""
    from dmlgraph.devices.reference import ReferenceDevice

    rng = np.random.default_rng(0)
    values = {slot.name: rng.normal(size=slot.desc.sizes).astype(np.float32) for slot in desc.inputs}
    expected = ReferenceDevice().compile(desc, reason="asked for").run(values)
    got = device.compile(desc, reason="asked for").run(values)
    return {name: float(np.abs(got[name] - expected[name]).max()) for name in expected}


@pytest.mark.parametrize("direction", ["forward", "backward", "bidirectional"])
@pytest.mark.parametrize("operator", list(GATES))
def test_the_last_state_is_right(directml: DirectMLDevice, operator: str, direction: str) -> None:
    assert max(differences(directml, lower(network(operator, direction))).values()) < 1e-6


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("operator", list(GATES))
def test_directml_overwrites_the_last_state(
    directml: DirectMLDevice, operator: str, direction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, DirectML is right, and `keep_last_states` can be removed."""
    monkeypatch.setattr(module, "make_safe", lambda graph: (graph, 0))
    found = differences(directml, lower(network(operator, direction)))
    assert found["all"] < 1e-6
    assert found["last"] > 0.1


@pytest.mark.parametrize(
    "graph",
    [network("lstm", "bidirectional"), network("lstm", steps=1), network("lstm", single=False)],
    ids=["bidirectional", "one step", "without the last state"],
)
def test_nothing_is_copied_where_nothing_goes_wrong(directml: DirectMLDevice, graph: dg.Graph) -> None:
    desc = lower(graph)
    assert make_safe(desc) == (desc, 0)
    assert max(differences(directml, desc).values()) < 1e-6
