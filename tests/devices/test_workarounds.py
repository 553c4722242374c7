"""Workarounds: for which device, adapter and driver they are, and what compiling for it does."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import dmlgraph as dg
from dmlgraph import devices
from dmlgraph.compiler.desc import OperatorDescNode
from dmlgraph.devices.compile import compile_graph, lower_graph
from dmlgraph.devices.reference import ReferenceDevice
from dmlgraph.devices.workarounds import Workaround

X = np.linspace(-3, 3, 8, dtype=np.float32).reshape(2, 4)


def graph(*workarounds: Workaround) -> dg.Graph:
    g = dg.Graph("net")
    x = g.input("x", sizes=[2, 4], dtype="float32")
    w = g.constant("w", np.eye(4, dtype=np.float32))
    g.output("y", dg.activation_softmax(dg.activation_relu(dg.gemm(x, w, name="g"), name="r"), name="s"))
    g.origin.workarounds = workarounds
    return g


class Old(ReferenceDevice):
    """The reference, as a GPU with a driver."""

    adapter_name = "Radeon RX 480"
    driver_version = "31.0.21001.5"


@pytest.mark.parametrize(
    ("more", "meant"),
    [
        ({}, True),
        ({"adapter": "Radeon*"}, True),
        ({"adapter": "GeForce*"}, False),
        ({"driver_from": "31.0.21001"}, True),
        ({"driver_from": "31.0.21001.5.0"}, True),
        ({"driver_from": "31.0.21002"}, False),
        ({"driver_below": "31.0.21001.5"}, False),
        ({"driver_below": "31.0.21001.6"}, True),
        ({"driver_from": "31", "driver_below": "100"}, True),
    ],
)
def test_the_adapter_and_the_driver_decide(more: dict[str, Any], meant: bool) -> None:
    assert Workaround("reference", **more).is_for(Old()) is meant


def test_a_device_without_a_driver_is_not_meant_by_a_version() -> None:
    assert not Workaround("reference", driver_from="1").is_for(ReferenceDevice())
    assert Workaround("reference").is_for(ReferenceDevice())


@pytest.mark.parametrize(
    ("name", "given", "meant"),
    [("directml:1", "directml", True), ("directml:1", "directml:1", True), ("directml:1", "directml:0", False)],
)
def test_a_family_means_all_of_its_devices(name: str, given: str, meant: bool) -> None:
    device = Old()
    device.name = name
    assert Workaround(given).is_for(device) is meant


def names(g: dg.Graph, device: ReferenceDevice) -> list[str]:
    return [node.name for node in lower_graph(g, device)[1].nodes if isinstance(node, OperatorDescNode)]


def test_only_the_device_that_is_meant_gets_it() -> None:
    g = graph(Workaround("reference", adapter="Radeon*", nodes={"s": "decomposed"}))
    assert names(g, ReferenceDevice()) == ["r", "s"]
    assert names(g, Old()) == ["r", "s/reduce", "s/subtract", "s/exp", "s/reduce_1", "s"]


def test_rules_that_do_not_run() -> None:
    assert names(graph(Workaround("reference", without=("fuse_activation",))), ReferenceDevice()) == ["g", "r", "s"]
    assert names(graph(Workaround("reference", fuse=False)), ReferenceDevice()) == ["g", "r", "s"]
    assert names(graph(Workaround("reference", nodes={"g": "apart"})), ReferenceDevice()) == ["g", "r", "s"]


def test_several_workarounds_add_up() -> None:
    g = graph(
        Workaround("reference", nodes={"*": "apart"}),
        Workaround("reference", nodes={"s": "output_copied"}),
        Workaround("cpu", fuse=False),
    )
    assert names(g, ReferenceDevice()) == ["g", "r", "s/activation_softmax", "s"]


def test_what_is_computed_is_the_same_and_the_record_says_how() -> None:
    plain = graph().compile("reference").run({"x": X})["y"]
    executable = graph(Workaround("reference", nodes={"s": "decomposed"})).compile("reference")
    np.testing.assert_allclose(executable.run({"x": X})["y"], plain, 1e-6)
    first = executable.fusion[0]
    assert (first.rule, first.node, first.applied) == ("decomposed", "s", True)
    assert set(first.added) > {"s/exp", "s"}


def test_permissions_are_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    told = []

    def noted(device: ReferenceDevice, **permissions: bool) -> ReferenceDevice:
        told.append(permissions)
        return device

    monkeypatch.setattr(ReferenceDevice, "with_permissions", noted)
    choice = devices.choose("reference", half_precision=True)
    told.clear()
    compile_graph(graph(Workaround("reference", metacommands=False)), choice)
    assert told.pop() == {"metacommands": False, "half_precision": True}
    compile_graph(graph(Workaround("reference", half_precision=False)), choice)
    assert told.pop() == {"metacommands": True, "half_precision": False}
    compile_graph(graph(Workaround("cpu", half_precision=False)), choice)
    assert told == []


def test_they_go_where_the_graph_goes() -> None:
    given = Workaround(
        "directml",
        adapter="Radeon*",
        driver_from="31.0",
        driver_below="32",
        why="NaN",
        metacommands=False,
        without=("share",),
        nodes={"s": "decomposed"},
    )
    g = graph(given)
    assert pickle.loads(pickle.dumps(g)).origin.workarounds == (given,)
    assert copy.copy(g).origin.workarounds == (given,)
    recipe = g.compile("reference").recipe
    assert recipe is not None
    assert pickle.loads(pickle.dumps(recipe)).source.graph.origin.workarounds == (given,)
