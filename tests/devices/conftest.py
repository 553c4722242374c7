"""Fixtures of the device tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from dmlgraph.devices.directml.device import DirectMLDevice


@pytest.fixture(scope="session")
def directml(directml_path: Path) -> DirectMLDevice:
    """The real DirectML over a software adapter."""
    return DirectMLDevice("software", library=directml_path)
