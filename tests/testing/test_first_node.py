"""A failing test shows the first node that differs: a fault that is planted in a device is found at its node."""

from __future__ import annotations

import dataclasses
import random
import sys
import types
from typing import Any

import numpy as np
import pytest

import dmlgraph as dg
from dmlgraph import devices
from dmlgraph.compiler.desc import GraphDesc, OperatorDescNode
from dmlgraph.compiler.target import Target
from dmlgraph.devices.device import Family
from dmlgraph.devices.executable import Executable
from dmlgraph.devices.reference import ReferenceDevice
from dmlgraph.formats.yaml import dumps, loads
from dmlgraph.testing import assert_devices_agree
from dmlgraph.testing.records import Outcome
from dmlgraph.testing.run import Runner, cases

LENGTH = 12


class _Wrong:
    """An operator whose result is one too large in one element."""

    def __init__(self, operator: Any) -> None:
        self._operator = operator

    def __getattr__(self, name: str) -> Any:
        return getattr(self._operator, name)

    def evaluate(self, *inputs: Any) -> Any:
        (output,) = self._operator.evaluate(*inputs)
        output = np.array(output)
        output.flat[1] += 1
        return (output,)


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> str:
    """The node in which the device `faulty` is wrong; the graph is a chain n0, n1, …"""
    wrong = f"n{random.randrange(LENGTH)}"

    class Faulty(ReferenceDevice):
        name = "faulty"

        @property
        def target(self) -> Target:
            return Target(self.level, ())

        def compile(self, graph: GraphDesc, *, reason: str, debug: bool = False) -> Executable:
            nodes = tuple(
                OperatorDescNode(node.name, _Wrong(node.operator))  # type: ignore[arg-type]
                if isinstance(node, OperatorDescNode) and node.name == wrong
                else node
                for node in graph.nodes
            )
            return super().compile(dataclasses.replace(graph, nodes=nodes), reason=reason, debug=debug)

    module = types.ModuleType("dmlgraph.devices.faulty")
    module.FAMILY = Family.of(Faulty)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "dmlgraph.devices.faulty", module)
    monkeypatch.setattr(devices, "_FAMILIES", (*devices._FAMILIES, "faulty"))
    return wrong


def chain() -> dg.Graph:
    g = dg.Graph("chain")
    value = g.input("x", sizes=[2, 3], dtype="float32")
    for index in range(LENGTH):
        function = random.choice([dg.tanh, dg.erf, dg.atan])  # increasing, and no rule removes one
        value = function(value, name=f"n{index}")
    g.output("y", value)
    return g


def test_the_node_with_the_fault_is_named_with_its_line_and_the_values_around(faulty: str) -> None:
    text = (
        dumps(chain())
        + "tests:\n  t: {inputs: {x: {random: {seed: 1}}}, expect: {y: {same_as: reference}}, devices: [faulty]}\n"
    )
    graph = loads(text, file="g.yaml")
    with Runner(graph) as runner:
        (result,) = [runner.run(case) for case in cases(graph)]
    assert result.outcome is Outcome.FAILED, faulty
    line = next(number for number, line in enumerate(text.splitlines(), 1) if line.startswith(f"  {faulty}:"))
    assert f"g.yaml:{line}:3: the first node that differs is '{faulty}'" in result.report
    after = result.report.partition("the first node")[2].splitlines()
    assert after[1].split()[:1] == ["element"]
    assert [each.split()[0] for each in after[2:6]] == [f"{faulty}[0,", ">", f"{faulty}[0,", f"{faulty}[1,"]
    assert "1 of 6 elements differ" in after[6]


def test_expected_numbers_lead_to_the_node_too(faulty: str) -> None:
    g = chain()
    inputs = {"x": np.full((2, 3), 0.5, np.float32)}
    numbers = g.compile("reference", fuse=False).run(inputs)["y"].ravel().tolist()
    text = f"{dumps(g)}tests:\n  t: {{inputs: {{x: {{value: 0.5}}}}, "
    text += f"expect: {{y: {{data: {numbers}}}}}, devices: [faulty]}}\n"
    graph = loads(text)
    with Runner(graph) as runner:
        (result,) = [runner.run(case) for case in cases(graph)]
    assert f"the first node that differs is '{faulty}'" in result.report


def test_python_tests_say_the_same(faulty: str) -> None:
    g = chain()
    with pytest.raises(AssertionError) as caught:
        assert_devices_agree(g, {"x": np.ones((2, 3), np.float32)}, devices=["reference", "faulty"])
    text = str(caught.value)
    assert text.startswith("'reference, fused' and 'faulty, fused' differ\noutput 'y': 1 of 6 elements differ")
    assert f"the first node that differs is '{faulty}'" in text
    assert_devices_agree(g, devices=["reference", "faulty"], absolute=1e9)
