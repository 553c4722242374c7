"""What pip prints where the package cannot be compiled."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]


@pytest.mark.skipif(sys.platform == "win32", reason="CMake finds Visual Studio without CXX")
def test_without_a_compiler_pip_says_what_to_install(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("scikit_build_core", reason="the sources are not built here")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", f"-w{tmp_path}", str(ROOT)]
    result = subprocess.run(
        [*command, f"--config-settings=build-dir={tmp_path / 'build'}"],
        env={**os.environ, "CXX": "no-such-compiler"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    said = result.stdout + result.stderr
    assert "no-such-compiler" in said
    assert "dmlgraph was not compiled. It needs a compiler for C++20" in said
    assert "sudo apt-get install g++" in said
