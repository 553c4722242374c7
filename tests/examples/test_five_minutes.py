"""The first five minutes of a newcomer work with the README's commands alone."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "five_minutes.sh"
RAMP = "y: float32 [1, 1, 2, 3]\n  [[[[ 0.   0.   7. ]\n     [18.   0.   6.5]]]]\n"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Windows has DirectML; the script is for a Linux shell")


def commands(text: str) -> list[str]:
    """The commands that a newcomer types: the script's lines about dmlgraph or the newcomer's own file."""
    found = re.findall(r"^ *(?:if )?((?:dmlgraph|pip|cp|sed) [^|;\n]*?)(?: 2?>.*| \|.*|;.*)?$", text, re.MULTILINE)
    return [each for each in found if not each.startswith("cp -r")]


def readme_commands() -> list[str]:
    """The commands of the README's shell and console blocks, in order."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    lines: list[str] = []
    for language, block in re.findall(r"^```(sh|console)\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        typed = block.splitlines() if language == "sh" else re.findall(r"^\$ (.*)$", block, re.MULTILINE)
        lines += [part for line in typed for part in line.split(" && ")]
    return lines


def test_the_script_has_what_the_readme_says_and_nothing_else() -> None:
    said, typed = iter(readme_commands()), commands(SCRIPT.read_text(encoding="utf-8"))
    assert len(typed) >= 9
    for command in typed:
        assert command in said, f"the README does not say, or not in this place: {command}"


def run(folder: pathlib.Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the script in a copy of the examples with this environment's dmlgraph; pip may not use the network."""
    return subprocess.run(
        [folder / "examples" / SCRIPT.name],
        env=os.environ
        | {"PATH": f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        | {"PIP_NO_INDEX": "1", "NO_COLOR": "1", "TMPDIR": str(folder)}
        | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copy(tmp_path: pathlib.Path) -> pathlib.Path:
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


@pytest.mark.usefixtures("directml_path")
def test_a_newcomer_runs_sees_breaks_mends_and_runs_on_directml(copy: pathlib.Path) -> None:
    done = run(copy)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(RAMP) == 2
    for line in ("    = help: did you mean 'activation_relu'?", "works: a graph ran on directml:software"):
        assert line in done.stdout.splitlines()
    assert "device: directml:software (asked for as 'directml:software')" in done.stderr
    (folder,) = (pathlib.Path(line.removeprefix("done, in ")) for line in done.stdout.splitlines()[-1:])
    assert (folder / "ramp.svg").read_text(encoding="utf-8") == (ROOT / "docs" / "ramp.svg").read_text(encoding="utf-8")


def test_the_script_fails_where_something_does(copy: pathlib.Path) -> None:
    done = run(copy, DMLGRAPH_DIRECTML="/nowhere.so")
    assert done.returncode == 1
    assert "/nowhere.so (the environment variable DMLGRAPH_DIRECTML) does not exist" in done.stderr
    assert "done, in" not in done.stdout
