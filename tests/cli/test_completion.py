"""`dmlgraph completion`: the scripts of the shells, and what they complete."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from dmlgraph.cli.commands import main
from dmlgraph.cli.completion import SHELLS

SCRIPTS = pathlib.Path(sys.executable).parent  # where the command is installed


def completed(*words: str) -> set[str]:
    """The completions of the last word."""
    completer = ShellComplete(main, {}, "dmlgraph", "_DMLGRAPH_COMPLETE")
    return {item.value for item in completer.get_completions(list(words[:-1]), words[-1])}


@pytest.mark.parametrize(
    ("words", "items"),
    [
        (["che"], {"check"}),
        (["operators", "activation_rel"], {"activation_relu", "activation_relu_grad"}),
        (["operators", "FILL_VALUE_S"], {"fill_value_sequence"}),
        (["run", "g.yaml", "--device", "ref"], {"reference"}),
        (["run", "g.yaml", "--devi"], {"--device"}),
        (["new", "--template", "d"], {"dense"}),
        (["completion", ""], set(SHELLS)),
    ],
)
def test_words_are_completed(words: list[str], items: set[str]) -> None:
    assert completed(*words) == items


def test_devices_are_completed_but_for_the_indices_of_adapters() -> None:
    names = {"auto", "cpu", "reference", "directml", "directml:software"}
    assert completed("run", "g.yaml", "--device", "") == names


@pytest.mark.parametrize("command", ["run", "check", "lower"])
def test_a_file_is_completed_by_the_shell(command: str) -> None:
    (item,) = ShellComplete(main, {}, "dmlgraph", "_DMLGRAPH_COMPLETE").get_completions([command], "gra")
    assert item.type == "file"


ASKED = {
    "bash": "COMP_WORDS=(dmlgraph operators activation_rel); COMP_CWORD=2; _dmlgraph_completion dmlgraph;"
    ' printf "%s\\n" "${COMPREPLY[@]}"',
    "fish": 'complete -C "dmlgraph operators activation_rel"',
    "powershell": "$line = 'dmlgraph operators activation_rel'\n"
    "(TabExpansion2 $line $line.Length).CompletionMatches.CompletionText",
    "zsh": "autoload -U compinit; compinit -u -D; whence -w _dmlgraph_completion",
}
ANSWERED = {
    "bash": ["activation_relu", "activation_relu_grad"],
    "fish": ["activation_relu", "activation_relu_grad"],
    "powershell": ["activation_relu", "activation_relu_grad"],
    "zsh": ["_dmlgraph_completion: function"],
}


# PowerShell is tried where it is: Linux distributions do not package it.
PROGRAMS = {shell: shell for shell in SHELLS if shell != "powershell"} | (
    {"powershell": "pwsh"} if shutil.which("pwsh") else {}
)


@pytest.mark.parametrize("shell", PROGRAMS)
def test_the_script_works_in_its_shell(shell: str, tmp_path: pathlib.Path) -> None:
    script = CliRunner().invoke(main, ["completion", shell])
    assert script.exit_code == 0
    assert "_DMLGRAPH_COMPLETE" in script.stdout
    program = shutil.which(PROGRAMS[shell])
    if program is None:
        pytest.skip(f"{shell} is not installed")
    before, after = ("", ASKED[shell]) if shell != "zsh" else ("autoload -U compinit; compinit -u -D\n", ASKED[shell])
    (tmp_path / "ask.ps1").write_text(
        f"{before}{script.stdout}\n{after}\n", encoding="utf-8"
    )  # PowerShell wants the suffix
    environment = {"PATH": f"{SCRIPTS}:/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(
        [program, tmp_path / "ask.ps1"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout.split("\n")[:-1] == ANSWERED[shell], done.stderr


def test_another_shell_is_wrong_usage() -> None:
    result = CliRunner().invoke(main, ["completion", "tcsh"])
    assert result.exit_code == 2
    assert "'bash', 'zsh', 'fish', 'powershell'" in result.stderr


@pytest.mark.parametrize(
    ("line", "word", "printed"),
    [
        ("dmlgraph operators activation_relu_", 2, "plain\nactivation_relu_grad\n"),
        ("dmlgraph run 'a folder/g.yaml' --device ref", 4, "plain\nreference\n"),
        ("dmlgraph check gra", 2, "file\ngra\n"),
        ("dmlgraph nothing", 1, ""),
    ],
)
def test_what_powershell_asks_is_answered(line: str, word: int, printed: str) -> None:
    variables = {"COMP_WORDS": line, "COMP_CWORD": str(word), "_DMLGRAPH_COMPLETE": "powershell_complete"}
    code = "from dmlgraph.cli.command import main; import sys; sys.argv = ['dmlgraph']; main()"
    run = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert run.stderr == ""
    assert run.stdout.startswith(printed)
    assert bool(run.stdout.strip()) is bool(printed)
