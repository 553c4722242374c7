"""Ctrl-C: exit status 130 and no traceback at any moment from the command's first long import on."""

from __future__ import annotations

import os
import pathlib
import random
import signal
import subprocess
import sys
import textwrap
import time
import tomllib

import pytest
from click.testing import CliRunner

from dmlgraph.cli.command import INTERRUPTED
from dmlgraph.cli.commands import main
from dmlgraph.cli.operators import operators

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")
ROOT = pathlib.Path(__file__).parents[2]
GRAPH = """
dmlgraph: 1
nodes: {y: {op: fill_value_constant, output: {dtype: float32, sizes: [4]}, value: 1}}
outputs: [y]
"""
LONG = ["bench", "g.yaml", "--device", "cpu", "--repeats", "1000000000"]
# The command's script as an installer makes it, which also prints a line just before the first long import.
SCRIPT = """
import sys

class Told:
    def find_spec(self, name, *_):
        if name == "dmlgraph.cli.commands":
            sys.meta_path.remove(self)
            print("begun", flush=True)

sys.meta_path.insert(0, Told())
from {module} import {function}
sys.exit({function}())
"""


@pytest.fixture
def script(tmp_path: pathlib.Path) -> pathlib.Path:
    """A script that runs the function that pyproject.toml names as the command."""
    entry = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]["dmlgraph"]
    module, _, function = entry.partition(":")
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.format(module=module, function=function), encoding="utf-8")
    (tmp_path / "g.yaml").write_text(GRAPH, encoding="utf-8")
    return path


def interrupted(script: pathlib.Path, arguments: list[str], seconds: float) -> tuple[int, str]:
    """The exit status and the standard error of a command that is interrupted `seconds` after it began."""
    command = [sys.executable, "-P", str(script), *arguments]
    with subprocess.Popen(
        command, cwd=script.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "begun\n"
        time.sleep(seconds)
        os.killpg(run.pid, signal.SIGINT)
        _, told = run.communicate(timeout=120)
    return run.returncode, told


def ended(script: pathlib.Path, code: str) -> tuple[int, str]:
    """The exit status and the standard error of a script that interrupts itself."""
    script.write_text(textwrap.dedent(code), encoding="utf-8")
    run = subprocess.run([sys.executable, "-P", script], capture_output=True, text=True, timeout=120, check=False)
    return run.returncode, run.stderr


@pytest.mark.parametrize("seed", range(8))
def test_at_start_up(script: pathlib.Path, seed: int) -> None:
    """At any moment of the imports and of a short command, which may have ended by then."""
    status, told = interrupted(script, ["check", "g.yaml"], random.Random(seed).uniform(0, 0.6))
    assert (status, told) in ((INTERRUPTED, ""), (0, ""))


def test_as_soon_as_it_begins(script: pathlib.Path) -> None:
    assert interrupted(script, LONG, 0) == (INTERRUPTED, "")


def test_during_a_long_command(script: pathlib.Path) -> None:
    assert interrupted(script, LONG, 3) == (INTERRUPTED, "")


HEAVY = """
dmlgraph: 1
inputs: {x: {sizes: [1, 1, 2048, 2048], dtype: float32}}
nodes:
  a: {op: gemm, a: x, b: x}
  b: {op: gemm, a: a, b: x}
  c: {op: gemm, a: b, b: x}
outputs: [c]
"""


@pytest.mark.parametrize(
    ("command", "threads", "seconds"),
    [
        (["bench", "h.yaml", "--device", "cpu", "--repeats", "1000000"], "2", 1.5),
        (["run", "h.yaml", "--device", "cpu", "--random", "0"], "1", 1.2),
        (["diff", "h.yaml", "--device", "cpu", "--device", "cpu"], "2", 1.8),
    ],
    ids=["bench", "run", "diff"],
)
def test_during_products(
    script: pathlib.Path, monkeypatch: pytest.MonkeyPatch, command: list[str], threads: str, seconds: float
) -> None:
    """The command may have ended by then; it never ends by a signal."""
    (script.parent / "h.yaml").write_text(HEAVY, encoding="utf-8")
    monkeypatch.setenv("DMLGRAPH_THREADS", threads)
    status, told = interrupted(script, command, seconds)
    # What a command says before it computes may be there, and nothing else.
    said = [line for line in told.splitlines() if not line.startswith(("random numbers (seed", "device: cpu"))]
    assert status == 0 or said == []
    assert status == INTERRUPTED or (status == 0 and command[0] != "bench")


def test_in_a_callback_whose_exceptions_python_ignores(script: pathlib.Path) -> None:
    """As happens when a module's lock is deleted after an import."""
    code = """
        import os, signal, time
        import dmlgraph.cli.commands

        class Dropped:
            def __del__(self):
                signal.raise_signal(signal.SIGINT)
                os.getpid()

        def command():
            Dropped()
            time.sleep(600)

        dmlgraph.cli.commands.main = command
        from dmlgraph.cli.command import main
        main()
    """
    assert ended(script, code) == (INTERRUPTED, "")


def test_where_python_wraps_it_in_another_error(script: pathlib.Path) -> None:
    """As Python 3.11 does while it creates a class."""
    code = """
        import dmlgraph.cli.commands

        class Named:
            def __set_name__(self, owner, name):
                raise KeyboardInterrupt

        def command():
            type("Owner", (), {"named": Named()})

        dmlgraph.cli.commands.main = command
        from dmlgraph.cli.command import main
        main()
    """
    assert ended(script, code) == (INTERRUPTED, "")


def test_after_the_command(script: pathlib.Path) -> None:
    """While Python exits, when the status is already decided."""
    code = """
        import dmlgraph.cli.commands

        class Last:
            def __del__(self):
                os.kill(os.getpid(), signal.SIGINT)

        def command():
            sys.last = Last()
            sys.exit(3)

        import os, signal, sys
        dmlgraph.cli.commands.main = command
        from dmlgraph.cli.command import main
        main()
    """
    assert ended(script, code) == (3, "")


def test_where_it_is_ignored_it_stays_so(script: pathlib.Path) -> None:
    """As a shell ignores it for a script's background commands."""
    code = "import signal, runpy, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); runpy.run_path(sys.argv[1])"
    ignoring = script.with_name("ignoring.py")
    ignoring.write_text(f"{code.replace('sys.argv[1]', repr(str(script)))}\n", encoding="utf-8")
    assert interrupted(ignoring, ["check", "g.yaml"], 0.2) == (0, "")


@pytest.mark.parametrize("where", ["a command", "its arguments"])
def test_without_a_process(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(operators, "invoke" if where == "a command" else "make_context", interrupt)
    result = CliRunner().invoke(main, ["operators"])
    assert (result.exit_code, result.stdout, result.stderr) == (INTERRUPTED, "", "")
