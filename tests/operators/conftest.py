"""Fixtures of the operator tests."""

from __future__ import annotations

import pytest
from support.agreement import LIBRARY_LEVEL

from dmlgraph.operators import find

DEVICES = ("reference", "cpu", "directml:software")


@pytest.fixture
def device(request: pytest.FixtureRequest) -> str:
    """Each device on which operators run: the reference, the CPU executor, and the real DirectML."""
    name = str(request.param)
    if name.startswith("directml"):
        request.getfixturevalue("directml_path")
    return name


def devices(operator: str) -> tuple[str, ...]:
    """The devices that have an operator: no DirectML library for Linux has the operators of the newest levels."""
    found = find(operator)
    return DEVICES[:2] if found is not None and found.support().introduced > LIBRARY_LEVEL else DEVICES


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with a parameter `device` runs on each; one with `case` runs for each row of its class's table."""
    if "device" in metafunc.fixturenames:
        metafunc.parametrize("device", devices(getattr(metafunc.cls, "operator", "")), indirect=True)
    if "case" in metafunc.fixturenames and metafunc.cls is not None:
        cases = metafunc.cls.cases
        metafunc.parametrize("case", cases, ids=[each.why for each in cases])
