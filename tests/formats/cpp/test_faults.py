"""The self-check of an exported network names the node in which the software adapter is told to compute wrongly."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
from support.cpp_export import Program, require
from support.onnx.light_models import Trial

from dmlgraph.base.levels import FeatureLevel
from dmlgraph.formats import cpp

# In a process of its own: the adapter reads the fault once.
CHECK = """
import ctypes, sys
from dmlgraph.devices.directml.runtime import load_runtime
load_runtime(software=True)
words = [each.encode() for each in sys.argv[1:]]
sys.exit(ctypes.CDLL(sys.argv[1]).main(len(words), (ctypes.c_char_p * (len(words) + 1))(*words, None)))
"""


@pytest.fixture(scope="module")
def squeezenet(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The self-check of SqueezeNet, as a library."""
    require()
    folder = tmp_path_factory.mktemp("squeezenet")
    trial = Trial.of("squeezenet", folder)
    cpp.save(trial.graph, folder, level=FeatureLevel.V6_2, self_check=True, inputs=trial.inputs)
    Program(folder, "self_check")
    return folder


@pytest.mark.parametrize(("dispatch", "node"), [(4, "n8"), (53, "n65")])  # n8 is beside n6, which runs behind it
def test_the_node_with_a_planted_fault_is_named(
    squeezenet: pathlib.Path, directml_path: pathlib.Path, dispatch: int, node: str
) -> None:
    files = "--weights", squeezenet / "weights.bin", "--expected", squeezenet / "expected.bin"
    fault = {"DMLGRAPH_DIRECTML": str(directml_path), "DMLGRAPH_SOFTWARE_FAULT": f"dispatch={dispatch},element,float32"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", CHECK, str(squeezenet / "libself_check.so"), *map(str, files)],
        env=os.environ | fault,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.startswith(f"the first node that differs is '{node}': element ["), done.stdout
