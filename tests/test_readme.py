"""The README is true: its Python runs and prints what it says, its files load, its commands answer as shown."""

from __future__ import annotations

import contextlib
import io
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

import dmlgraph as dg

ROOT = pathlib.Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, flags=re.DOTALL)


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
    assert shown == 2


@pytest.mark.parametrize("text", blocks("yaml"))
def test_yaml_blocks_are_graphs(text: str):
    assert dg.loads(text).lower().nodes


def test_the_first_yaml_block_is_the_example():
    assert blocks("yaml")[0] == (ROOT / "examples" / "ramp.yaml").read_text()


def commands() -> list[tuple[str, str]]:
    """Every `$ command` of the console blocks with the output shown below it."""
    found = []
    for text in blocks("console"):
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append((command, output))
    return found


@pytest.mark.parametrize(("command", "output"), commands())
def test_commands_answer_as_shown(command: str, output: str):
    program, *arguments = shlex.split(command)
    assert program == "dmlgraph"
    installed = pathlib.Path(sys.executable).parent / "dmlgraph"
    done = subprocess.run([installed, *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == output


def test_every_command_is_in_the_table():
    from dmlgraph.cli import COMMANDS

    for name in COMMANDS:
        assert f"`dmlgraph {name}" in README


def test_continuous_integration_runs_the_readmes_test_command():
    (command,) = [text.strip() for text in blocks("sh") if "pytest" in text]
    assert command in (ROOT / ".ci" / "run").read_text().splitlines()
