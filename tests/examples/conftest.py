"""The folder of the examples, and a fixture that runs one."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName

Array = np.ndarray[Any, Any]
RunExample = Callable[..., dict[str, Array]]


@pytest.fixture(scope="session")
def examples() -> pathlib.Path:
    return pathlib.Path(__file__).parent.parent.parent / "examples"


@pytest.fixture(params=["reference", "cpu", "directml:software"])
def device(request: pytest.FixtureRequest) -> str:
    if request.param.startswith("directml"):
        request.getfixturevalue("directml_path")
    return str(request.param)


@pytest.fixture
def run_example(examples: pathlib.Path, device: DeviceName) -> RunExample:
    """Runs an example by name, such as "digits/digits", on the device, with inputs and dims by name."""

    def run(name: str, dims: dict[str, int] | None = None, **inputs: Array) -> dict[str, Array]:
        return dg.load(examples / f"{name}.yaml").compile(device, dims=dims).run(inputs)

    return run
