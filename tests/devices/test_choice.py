"""Devices by name: which exist, which one `auto` chooses, and names that are not devices."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys
from typing import Any

import pytest
from support.problems import raises

import dmlgraph as dg
from dmlgraph.devices import choose, list_devices
from dmlgraph.devices.names import DeviceName


@pytest.fixture
def graph() -> dg.Graph:
    g = dg.Graph()
    g.output("y", dg.exp(g.input("x", sizes=[2], dtype="float32")))
    return g


@pytest.mark.parametrize("name", ["cpu", "reference"])
def test_a_device_is_taken_by_name_and_says_why(graph: dg.Graph, name: DeviceName) -> None:
    executable = graph.compile(device=name)
    assert executable.device == name
    assert executable.reason == f"asked for as '{name}'"


def test_auto_says_what_it_took_and_why(graph: dg.Graph) -> None:
    choice = choose("auto")
    executable = graph.compile()
    assert executable.device == choice.device.name
    assert executable.reason == choice.reason
    assert executable.reason.startswith("auto: ")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("cpuu", "did you mean 'cpu'?"),
        ("refrence", "did you mean 'reference'?"),
        ("quantum", "'dmlgraph devices' lists the devices of this machine"),
        ("cuda", "did you mean 'directml'?"),
    ],
)
def test_an_unknown_device_is_refused_with_those_there_are(graph: dg.Graph, name: DeviceName, hint: str | None) -> None:
    with raises(dg.DeviceError, "unknown-device") as caught:
        graph.compile(device=name)
    assert (caught.value.field, caught.value.got, caught.value.hint) == ("device", name, hint)
    assert {"auto", "cpu", "reference"} <= set((caught.value.allowed or "").split(", "))


@pytest.mark.parametrize("name", [None, 3, ["cpu"]])
def test_a_device_is_a_name(graph: dg.Graph, name: Any) -> None:
    with raises(dg.DeviceError, "kind") as caught:
        graph.compile(device=name)
    assert (caught.value.field, caught.value.got) == ("device", name)


def test_every_device_is_listed_with_what_it_does_or_why_it_is_missing() -> None:
    devices = {device.name: device for device in list_devices()}
    assert {"cpu", "reference"} <= set(devices)
    assert all(device.description or device.missing for device in devices.values())
    assert devices["reference"].missing is None
    assert "node by node" in devices["reference"].description
    assert "natively, fused, on several threads" in devices["cpu"].description


def test_sources_that_were_not_built_run_on_the_cpu_and_say_why(tmp_path: pathlib.Path) -> None:
    """In the source folder, Python imports the sources instead of the package, and they have no native module."""
    native = shutil.ignore_patterns("*.so", "*.pyd")
    shutil.copytree(pathlib.Path(dg.__file__).parent, tmp_path / "dmlgraph", ignore=native)
    script = """
import dmlgraph as dg
from dmlgraph.devices import choose, list_devices
print(choose("auto").device.name, choose("auto").reason)
print([device.name for device in list_devices() if device.missing])
try:
    choose("directml:software")
except dg.DeviceError as error:
    print(error.hint)
"""
    # -S: no installed package beside the sources; the path names the libraries that they need.
    libraries = [path for path in sys.path if path.endswith("site-packages")]
    shadowed = f"import sys; sys.path += {libraries!r}\nsys.meta_path[:] = sys.meta_path[-3:]\n" + script
    command = [sys.executable, "-S", "-c", shadowed]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    chosen, missing, hint = done.stdout.splitlines()
    assert chosen.startswith("cpu auto: the embedded default, since the native module of dmlgraph cannot be loaded")
    assert missing == "['directml']"
    assert hint.startswith("in a folder with dmlgraph's sources, change to another folder")
