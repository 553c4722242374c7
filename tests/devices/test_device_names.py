"""The names of devices follow from the modules that have them."""

from __future__ import annotations

import pathlib
import sys
from typing import get_args

import pytest

import dmlgraph as dg
from dmlgraph import devices
from dmlgraph.devices import names

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tools"))

from generators import device_names
from support.problems import raises

QUANTUM = """
from dmlgraph.devices.device import Family
from dmlgraph.devices.reference import ReferenceDevice

class Quantum(ReferenceDevice):
    name = "quantum"
    description = "runs everything at once"

FAMILY = Family.of(Quantum)
"""


@pytest.fixture
def quantum(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The module of one more device."""
    monkeypatch.setattr(devices, "__path__", [*devices.__path__, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "dmlgraph.devices.quantum", raising=False)
    path = tmp_path / "quantum.py"
    path.write_text(QUANTUM, "utf-8")
    return path


def test_editors_and_shells_have_the_same_names() -> None:
    assert get_args(names.DeviceName) == tuple(names.NAMES)


@pytest.mark.usefixtures("quantum")
def test_a_device_takes_one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    made: dict[str, object] = {}
    exec(device_names.page(), made)
    assert "quantum" in get_args(made["DeviceName"])
    monkeypatch.setattr(devices, "_FAMILIES", (*devices._FAMILIES, "quantum"))  # as it follows from the names
    assert devices.choose("quantum").device.description == "runs everything at once"
    assert "quantum" in [each.name for each in devices.list_devices()]
    with raises(dg.DeviceError, "unknown-device", field="device", got="quantum:1"):
        devices.choose("quantum:1")


def test_names_begin_with_that_of_the_module(quantum: pathlib.Path) -> None:
    quantum.write_text(QUANTUM.replace('"quantum"', '"other"'), "utf-8")
    with pytest.raises(ValueError, match=r"the names of quantum\.FAMILY must begin with 'quantum': \['other'\]"):
        device_names.page()
