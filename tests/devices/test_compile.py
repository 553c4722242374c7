"""The driver from a graph to an executable, and that each command chooses a device once."""

from __future__ import annotations

import dataclasses
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from support.problems import raises

import dmlgraph as dg
from dmlgraph import devices
from dmlgraph.cli.commands import main
from dmlgraph.compiler.desc import OperatorDescNode
from dmlgraph.devices import choose
from dmlgraph.devices.compile import compile_graph, fuse_graph, lower_graph
from dmlgraph.devices.reference import ReferenceDevice


def graph() -> dg.Graph:
    g = dg.Graph("small")
    x = g.input("x", sizes=[2, 3], dtype="float32")
    product = dg.gemm(x, g.constant("w", np.ones((3, 4), np.float32)), name="product")
    g.output("y", dg.activation_relu(product, name="r"))
    return g


def operators(desc: dg.GraphDesc) -> list[str]:
    return [node.name for node in desc.nodes if isinstance(node, OperatorDescNode)]


def test_a_device_gets_what_it_absorbs(monkeypatch: pytest.MonkeyPatch) -> None:
    device = ReferenceDevice()
    assert operators(lower_graph(graph(), device)[1]) == ["r"]
    target = dataclasses.replace(device.target, absorption_refusal=lambda made, instead_of: "not here")
    monkeypatch.setattr(ReferenceDevice, "target", target)
    fused, desc = lower_graph(graph(), device)
    assert operators(desc) == ["product", "r"]
    assert [entry.applied for entry in fused.record] == [False]
    assert operators(lower_graph(graph(), fuse=["share"])[1]) == ["product", "r"]


def test_the_device_decides_the_level() -> None:
    device = ReferenceDevice()
    device.level = dg.FeatureLevel.V4_0
    assert lower_graph(graph(), device)[1].level == dg.FeatureLevel.V4_0
    assert lower_graph(graph())[1].level == graph().level
    g = dg.Graph()
    g.output("y", dg.activation_swish(g.input("x", sizes=[2], dtype="float32"), sigmoid_input_scale=1, name="m"))
    choice = devices.Choice("old", device, "for a test")
    with raises(dg.OperatorError, "level", node="m"):
        compile_graph(g, choice)


def test_an_executable_carries_what_the_passes_did_and_the_times() -> None:
    executable = compile_graph(graph(), choose("reference"))
    assert executable.fusion == fuse_graph(graph(), ReferenceDevice()).record
    assert {"fuse_seconds", "lower_seconds", "compile_seconds"} <= set(executable.stats)


def test_a_device_knows_neither_the_passes_nor_the_driver() -> None:
    script = """
import sys
from dmlgraph.devices import choose, executable, reference
print([each for each in sys.modules if each.startswith(("dmlgraph.compiler.passes", "dmlgraph.devices.compile"))])
"""
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.fixture
def permitted(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, bool]]:
    """What `reference` is told of metacommands and half precision."""
    told = []

    def noted(device: ReferenceDevice, **permissions: bool) -> ReferenceDevice:
        told.append(permissions)
        return device

    monkeypatch.setattr(ReferenceDevice, "with_permissions", noted)
    return told


@pytest.mark.parametrize(
    "command",
    ["run --device reference", "bench --repeats 1 --device reference", "diff --device reference --device cpu"],
)
def test_a_command_passes_permissions_on(
    command: str, permitted: list[dict[str, bool]], tmp_path: pathlib.Path
) -> None:
    graph().save(tmp_path / "small.yaml")
    name, *options = command.split()
    given = [name, str(tmp_path / "small.yaml"), *options, *(["--random", "0"] if name == "run" else [])]
    for option, expected in (
        ("--no-metacommands", {"metacommands": False, "half_precision": False}),
        ("--half-precision", {"metacommands": True, "half_precision": True}),
    ):
        done = CliRunner().invoke(main, [*given, option])
        assert done.exit_code == 0, done.output
        assert permitted.pop() == expected
        assert permitted == []


@pytest.mark.parametrize("option", ["--no-metacommands", "--half-precision"])
def test_tests_run_with_permissions(option: str, permitted: list[dict[str, bool]], tmp_path: pathlib.Path) -> None:
    graph().save(tmp_path / "small.yaml")
    with (tmp_path / "small.yaml").open("a", encoding="utf-8") as file:
        file.write("tests: {same: {inputs: {x: {value: 1}}, expect: {y: {value: 3}}}}\n")
    done = CliRunner().invoke(main, ["test", str(tmp_path / "small.yaml"), "--device", "reference", option])
    assert done.exit_code == 0, done.output
    expected = {"metacommands": option != "--no-metacommands", "half_precision": option == "--half-precision"}
    assert permitted == [expected]


def test_auto_keeps_permissions_on_its_next_device(permitted: list[dict[str, bool]]) -> None:
    first = devices.Choice("auto", ReferenceDevice(), "", lambda why: devices.Choice("auto", ReferenceDevice(), why))
    choice = devices.with_permissions(first, metacommands=False, half_precision=True)
    assert choice.otherwise is not None
    following = choice.otherwise("lacks something")
    assert (following.reason, following.metacommands, following.half_precision) == ("lacks something", False, True)
    assert permitted == [{"metacommands": False, "half_precision": True}] * 2


def test_a_permission_is_true_or_false() -> None:
    with raises(dg.DeviceError, "kind") as caught:
        graph().compile("cpu", metacommands="no")  # type: ignore[arg-type]
    assert (caught.value.field, caught.value.got, caught.value.code) == ("metacommands", "no", "kind")


@pytest.mark.parametrize(
    ("command", "times"),
    [
        ("run --device reference", 1),
        ("run", 1),
        ("lower --device cpu --explain", 1),
        ("lower", 0),
        ("bench --device reference --repeats 1", 1),
        ("bench --device cpu --device reference --repeats 1", 2),
        ("diff --device cpu --device reference", 2),
        ("diff --device cpu", 1),
    ],
)
def test_a_command_chooses_each_device_once(
    command: str, times: int, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    chosen = []
    choose_one = devices._choose

    def noted(name: str, *more: Any) -> Any:
        chosen.append(name)
        return choose_one(name, *more)

    monkeypatch.setattr(devices, "_choose", noted)
    g = dg.Graph("ramp")
    g.output("y", dg.exp(g.fill_value_sequence(sizes=[4], dtype="float32", value_start=0, value_delta=1)))
    g.save(tmp_path / "ramp.yaml")
    name, *options = command.split()
    done = CliRunner().invoke(main, [name, str(tmp_path / "ramp.yaml"), *options])
    assert done.exit_code == 0, done.output
    assert len(chosen) == times
