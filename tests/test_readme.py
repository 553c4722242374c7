"""The README is correct: its Python prints what is shown, its files load, its commands answer as shown."""

from __future__ import annotations

import contextlib
import io
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import textwrap

import pytest
from support.pages import is_shown

import dmlgraph as dg

ROOT = pathlib.Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?) *```", README, flags=re.DOTALL)


def blocks(language: str) -> list[str]:
    return [text for found, text in BLOCKS if found == language]


def test_python_blocks_print_what_stands_below_them():
    names: dict[str, object] = {}
    shown = 0
    for (language, text), (following, expected) in zip(BLOCKS, [*BLOCKS[1:], ("", "")], strict=True):
        if language != "python":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(text, "README.md", "exec"), names)
        if following == "text":
            assert printed.getvalue() == expected
            shown += 1
    assert shown == 1


@pytest.mark.parametrize("text", blocks("yaml"))
def test_yaml_blocks_are_graphs(text: str):
    assert dg.loads(text).lower().nodes


def test_the_first_yaml_block_is_the_example():
    assert blocks("yaml")[0] == (ROOT / "examples" / "ramp.yaml").read_text(encoding="utf-8")


def commands() -> list[tuple[str, str]]:
    """Every `$ command` of the console blocks with the output shown below it."""
    found = []
    for text in blocks("console"):
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append((command, output))
    return found


@pytest.mark.skipif(sys.platform == "win32", reason="the commands are for a Linux shell")
@pytest.mark.usefixtures("directml_path")
def test_commands_answer_as_shown(tmp_path: pathlib.Path):
    """Runs them one after another in a folder with the examples, as a reader does; … matches any lines."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    ran = 0
    for command, output in commands():
        program, *arguments = shlex.split(command)
        installed = pathlib.Path(sys.executable).parent / "dmlgraph"
        done = subprocess.run(
            [installed if program == "dmlgraph" else program, *arguments],
            cwd=tmp_path,
            env=os.environ | {"NO_COLOR": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        wrong = "error[" in output
        assert done.returncode == int(wrong), done.stderr
        shown = done.stderr if wrong else done.stdout
        assert is_shown(output, shown), f"{command} prints\n{shown}"
        ran += 1
    assert ran == 9


def test_the_message_in_the_opening_is_the_one_below():
    (quoted,) = (text for language, text in BLOCKS if language == "text" and "error[" in text)
    (below,) = (output for _, output in commands() if "error[" in output)
    assert textwrap.dedent(quoted).rstrip() == below.replace("\n1 error\n", "")


def test_links_lead_to_files_that_are_there():
    links = re.findall(r"\]\(([^)\s]+)\)", README)
    assert len(links) > 10
    for link in links:
        assert (ROOT / link.partition("#")[0]).exists(), link


def test_continuous_integration_runs_the_readmes_test_command():
    (command,) = [text.strip() for text in blocks("sh") if "pytest" in text]
    assert command in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
