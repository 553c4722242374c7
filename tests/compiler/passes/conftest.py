"""Fixtures of the tests of the passes."""

from __future__ import annotations

import pytest

DEVICES = ("reference", "directml:software")


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    """The reference, and the real DirectML on a software adapter."""
    name = str(request.param)
    if name.startswith("directml"):
        request.getfixturevalue("directml_path")
    return name
