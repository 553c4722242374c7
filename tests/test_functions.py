"""What type checkers and editors see of the operators' functions."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import dmlgraph as dg
from dmlgraph import functions

ROOT = pathlib.Path(__file__).parent.parent


def test_the_stubs_are_what_their_script_makes():
    script = "import sys; sys.path.insert(0, 'tools'); import generate_function_stubs as g; sys.stdout.write(g.stubs())"
    # -P: the installed package, not the folder of sources the script is run in.
    made = subprocess.run([sys.executable, "-P", "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert made.stdout == (ROOT / "dmlgraph" / "functions.pyi").read_text()


def test_every_function_is_public():
    assert set(functions.__all__) <= set(dg.__all__)
    for name in dg.__all__:
        assert hasattr(dg, name)
