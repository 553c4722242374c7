"""Dispatches of the software adapter that compute wrongly on request; tests/native/software_adapter has every fault."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlgraph as dg
from dmlgraph.devices.directml.software import adapter
from dmlgraph.devices.directml.software.errors import SoftwareAdapterError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the software adapter is that of Linux")

X = np.array([-2, 0, 1, 4], np.float32)


def chain() -> dg.Graph:
    """y = e^(x · x) + x."""
    graph = dg.Graph("chain")
    x = graph.input("x", sizes=[4], dtype="float32")
    graph.output("y", dg.add(dg.exp(dg.multiply(x, x)), x))
    return graph


@pytest.fixture(autouse=True)
def clean(directml_path: Path) -> Iterator[Path]:
    yield directml_path
    adapter.load().plant_fault("")


def test_a_fault_follows_a_node_into_another_graph() -> None:
    alone = dg.Graph("alone")
    alone.output("y", dg.exp(alone.input("x", sizes=[4], dtype="float32")))
    planted = adapter.load()
    planted.plant_fault("log")
    alone.compile("directml:software").run({"x": X})
    (kernel,) = planted.dispatched()
    with chain().compile("directml:software", fuse=False) as executable:
        right = executable.run({"x": X})["y"].copy()
        assert kernel in planted.dispatched()
        planted.plant_fault(f"kernel={kernel},element,float32")
        wrong = executable.run({"x": X})["y"].copy()
        assert (wrong != right).tolist() == [False, True, False, False]
        planted.plant_fault("")
        np.testing.assert_array_equal(executable.run({"x": X})["y"], right)


def test_a_fault_of_a_shader_follows_an_operator_to_other_sizes() -> None:
    """A normalization has several dispatches; the last one's shader is its own, for each data type another one."""
    planted = adapter.load()

    def normalized(sizes: tuple[int, ...], dtype: type[np.floating[Any]]) -> np.ndarray[Any, np.dtype[np.float64]]:
        graph = dg.Graph("normalized")
        x = graph.input("x", sizes=sizes, dtype=dtype)
        fields: dict[str, Any] = {"axes": [len(sizes) - 1], "normalize_variance": True, "epsilon": 1e-5}
        graph.output("y", dg.mean_variance_normalization1(x, None, None, **fields))
        with graph.compile("directml:software") as executable:
            values = np.arange(np.prod(sizes)).reshape(sizes).astype(dtype)
            return executable.run({"x": values})["y"].astype(np.float64)

    planted.plant_fault("log")
    cases: list[Any] = [(sizes, dtype) for sizes in ((3, 64), (1, 2, 5)) for dtype in (np.float16, np.float32)]
    right = [normalized(*case) for case in cases]
    normalized(*cases[0])
    planted.plant_fault(f"shader={planted.dispatched('shader')[-1]},element,float16")
    wrong = [np.count_nonzero(normalized(*case) != each) for case, each in zip(cases, right, strict=True)]
    assert wrong == [1, 0, 1, 0]


def test_what_is_not_a_fault_is_said() -> None:
    with pytest.raises(SoftwareAdapterError, match="DMLGRAPH_SOFTWARE_FAULT has the unknown word 'melt'; words: "):
        adapter.load().plant_fault("dispatch=1,melt")


def run(directml_path: Path, fault: str) -> subprocess.CompletedProcess[str]:
    script = """
import numpy as np
import dmlgraph as dg
graph = dg.Graph("g")
graph.output("y", dg.exp(graph.input("x", sizes=[3], dtype="float32")))
try:
    print(graph.compile("directml:software").run({"x": np.zeros(3, np.float32)})["y"])
except dg.DmlGraphError as error:
    print(type(error).__name__, error.code, error)
"""
    environment = os.environ | {"DMLGRAPH_DIRECTML": str(directml_path), "DMLGRAPH_SOFTWARE_FAULT": fault}
    return subprocess.run(
        [sys.executable, "-P", "-c", script], env=environment, check=True, capture_output=True, text=True
    )


def test_the_environment_plants_faults(directml_path: Path) -> None:
    done = run(directml_path, "log,dispatch=1,element,float32")
    assert done.stdout == "[1.  1.5 1. ]\n"
    line = r"dmlgraph software adapter: dispatch 1: kernel=[0-9a-f]{16} shader=[0-9a-f]{16}\n"
    assert re.fullmatch(line, done.stderr)
    assert run(directml_path, "dispatch=1,element").stdout.startswith(
        "SoftwareAdapterError software-adapter DMLGRAPH_SOFTWARE_FAULT: 'element' needs a data type"
    )
