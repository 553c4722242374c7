"""The hooks for pre-commit: their commands exist, and do what a hook must."""

from __future__ import annotations

import pathlib
import shlex
import shutil
import subprocess
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from dmlgraph.cli.commands import main

ROOT = pathlib.Path(__file__).parents[1]
HOOKS: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
KEYS = {"id", "name", "description", "entry", "language", "types", "require_serial"}
GRAPH = """\
dmlgraph: 1
inputs: {x: {dtype: float32, sizes: [1]}}
outputs: [x]
tests: {t: {inputs: {x: {value: 1}}, expect: {x: {value: 1}}, devices: [reference]}}
"""


def test_there_is_one_for_check_and_one_for_test() -> None:
    assert [hook["id"] for hook in HOOKS] == ["dmlgraph-check", "dmlgraph-test"]


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook["id"])
def test_a_hook_fails_for_wrong_graphs_alone(hook: dict[str, Any], tmp_path: pathlib.Path) -> None:
    assert set(hook) <= KEYS
    assert {"id", "name", "entry", "language"} <= set(hook)
    program, *arguments = shlex.split(hook["entry"])
    assert program == "dmlgraph"
    (tmp_path / "fine.yaml").write_text(GRAPH, "utf-8")
    (tmp_path / "ci.yaml").write_text("on: push\n", "utf-8")
    (tmp_path / "wrong.yaml").write_text(GRAPH.replace("x: {value: 1}}, e", "z: {value: 1}}, e"), "utf-8")
    files = {name: str(tmp_path / f"{name}.yaml") for name in ("fine", "ci", "wrong")}
    assert CliRunner().invoke(main, [*arguments, files["fine"], files["ci"]]).exit_code == 0
    assert CliRunner().invoke(main, [*arguments, files["ci"]]).exit_code == 0
    assert CliRunner().invoke(main, [*arguments, files["fine"], files["wrong"]]).exit_code == 1


@pytest.mark.skipif(shutil.which("pre-commit") is None, reason="pre-commit is not installed")
def test_pre_commit_accepts_the_file() -> None:
    subprocess.run(["pre-commit", "validate-manifest", str(ROOT / ".pre-commit-hooks.yaml")], check=True)
