"""Graphs on adapters that are as strict as real systems: native/software_adapter/strictness.h lists the restrictions.

A process reads the restrictions once, so each test runs its script in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the adapter that can be strict is that of Linux")

START = """
import numpy as np
import dmlgraph as dg
from dmlgraph.devices.directml.device import DirectMLDevice

def doubled(dtype="float32"):
    graph = dg.Graph("doubled")
    x = graph.input("x", sizes=[4], dtype=dtype)
    graph.output("y", dg.add(x, x))
    return graph
X = np.arange(4, dtype=np.float32)
"""


def run(script: str, strict: str, directml_path: Path, **variables: str) -> str:
    """What a script prints on an adapter with these restrictions; an exception of dmlgraph is printed."""
    code = START + "try:\n" + "".join(f"    {line}\n" for line in script.strip().splitlines())
    code += "except dg.DmlGraphError as error:\n    print(type(error).__name__, error.code, error)\n"
    environment = os.environ | {"DMLGRAPH_DIRECTML": str(directml_path), "DMLGRAPH_SOFTWARE_STRICT": strict}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], env=environment | variables, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, f"exit status {done.returncode}: {done.stderr}"
    return done.stdout.strip()


def test_unknown_restriction(directml_path: Path) -> None:
    printed = run("DirectMLDevice('software')", "strict,lenient", directml_path)
    assert printed.startswith("SoftwareAdapterError software-adapter DMLGRAPH_SOFTWARE_STRICT has the unknown option")
    assert "'lenient'; options: strict, gpu, npu" in printed
