"""Fixtures and settings of all tests."""

from __future__ import annotations

import gc
import json
import os
import pathlib
import signal
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from dmlgraph.devices.directml import install, library

pytest_plugins = ["support.agreement", "support.clusters", "support.packaged_models"]

ROOT = pathlib.Path(__file__).parent.parent
# Modules that tests share assert for them; campaigns import some of them first.
pytest.register_assert_rewrite("support")
REFERENCE = ROOT / "tests" / "reference"

# A shell's background jobs ignore Ctrl-C, and so would the commands that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The software adapter checks what the debug layer of Direct3D 12 checks, here and in the processes that tests start.
os.environ.setdefault("DMLGRAPH_SOFTWARE_STRICT", "validation")

# The time of an example depends on the load of the machine.  Continuous integration tries the same examples each time,
# so that only the change is tested; other runs look for new ones.
settings.register_profile(
    "steady",
    deadline=None,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
settings.load_profile("steady")


def pytest_collection_finish() -> None:
    """Keeps the garbage collector from looking through 50,000 tests each time; many tests ask it to collect."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def reference_operators() -> dict[str, Any]:
    """Every operator of the DirectML reference data by name."""
    path = REFERENCE / "directml_operators.json"
    return {operator["name"]: operator for operator in json.loads(path.read_text(encoding="utf-8"))["operators"]}


@pytest.fixture(scope="session")
def directml_path() -> pathlib.Path:
    """The DirectML library; on Linux it is fetched if it is missing."""
    if sys.platform == "linux":
        install.install()
    return library.find_directml().path
