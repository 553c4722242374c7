"""Cases with which a device is lost or does not end."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import dmlgraph as dg
from dmlgraph.devices import choose
from dmlgraph.devices.directml.software import adapter
from dmlgraph.devices.names import DeviceName
from dmlgraph.doctor import report
from dmlgraph.doctor.ended import diagnose_ended
from dmlgraph.doctor.files import write
from dmlgraph.doctor.finding import Finding, Kind

DEVICE: DeviceName = "directml:software"
X = {"x": np.array([0.7310586, 3], np.float32)}
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the software adapter is that of Linux")


def graph() -> dg.Graph:
    made = dg.Graph("customer")
    inner = dg.exp(made.input("x", sizes=[2], dtype="float32"), name="secret")
    made.output("y", dg.negate(inner, name="last"))
    return made


@pytest.fixture
def shader(directml_path: Path) -> str:
    """The shader of the first node."""
    assert directml_path
    planted = adapter.load()
    planted.plant_fault("log")
    with graph().compile(DEVICE, fuse=False) as executable:
        executable.run(X)
    found = planted.dispatched("shader")[0]
    planted.plant_fault("")
    return found


def test_the_smallest_case_that_loses_a_device(shader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choice = choose(DEVICE)  # before the fault, which is for other processes
    monkeypatch.setenv("DMLGRAPH_SOFTWARE_FAULT", f"shader={shader},remove")
    finding = Finding(Kind.LOST, DEVICE, node="secret", executions=4)
    found = diagnose_ended(graph(), finding, X, choice, fuse=False, seconds=100)
    assert found.case is not None
    assert [desc.desc.sizes for desc in found.case.graph.inputs] == [(1,)]
    assert found.executions == 4 + found.case.executions
    text = report.text(found)
    assert "the device is lost, or its process ends" in text
    assert "  is lost in the node\n" in text
    assert not [each for each in ("customer", "secret", "0.73", "Ways round") if each in text]
    assert list(write(found, tmp_path)) == ["report.txt", "report.html", "case.yaml", "case.json", "cpp"]
    case = dg.load(tmp_path / "case.yaml")
    assert [each.name for each in case.nodes] == ["input", "y"]


def test_neighbours_that_lose_it_together_stay_as_they_are() -> None:
    finding = Finding(Kind.HANG, "cpu", node="last", group=("secret", "last"))
    found = diagnose_ended(graph(), finding, X, choose("cpu"), fuse=True, seconds=100)
    assert found.case is not None
    assert list(found.case.graph.outputs) == ["last"]
    np.testing.assert_array_equal(found.case.inputs["x"], X["x"])
    assert not found.case.is_anonymous
    assert report.HIDDEN in report.text(found)
    assert "there is no end within the time limit" in report.text(found, with_data=True)
