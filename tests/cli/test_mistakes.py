"""What is typed by mistake on a command line is answered with what to type."""

from __future__ import annotations

import pathlib

import pytest
from click.testing import CliRunner, Result

from dmlgraph.cli.commands import main

GRAPH = "dmlgraph: 1\ninputs: {x: {dtype: float32, sizes: [2]}}\nnodes: {y: {op: exp, input: x}}\noutputs: [y]\n"
TESTED = f"{GRAPH}tests: {{zero: {{inputs: {{x: {{value: 0}}}}, expect: {{y: {{value: 1}}}}}}}}\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g.yaml").write_text(GRAPH, "utf-8")
    (tmp_path / "t.yaml").write_text(TESTED, "utf-8")
    return tmp_path


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.mark.parametrize(
    ("word", "answer"),
    [
        ("rnu", "there is no command 'rnu': did you mean 'run'?"),
        ("help", "there is no command 'help': 'dmlgraph --help' lists them"),
        ("version", "there is no command 'version': 'dmlgraph --version' prints it"),
        ("validate", "there is no command 'validate': did you mean 'dmlgraph check'?"),
        ("g.yaml", "there is no command 'g.yaml': it is a file; did you mean 'dmlgraph run g.yaml'?"),
        ("qqqqqq", "there is no command 'qqqqqq': 'dmlgraph --help' lists them"),
    ],
)
def test_a_word_that_is_not_a_command_is_answered_with_one(word: str, answer: str) -> None:
    result = call(word)
    assert result.exit_code == 2
    assert answer in result.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["run", "g.yaml", "--random", "abc"], 2, "'abc' is not a valid whole number."),
        (["diff", "g.yaml", "--relative", "abc"], 2, "'abc' is not a valid number."),
        (["test", "-k", "nothing", "g.yaml"], 2, "-k and --device leave none of 0 tests"),
        (["test", "-k", "nothing", "t.yaml", "--device", "cpu"], 2, "-k and --device leave none of "),
        (
            ["test", "t.yaml", "--junit", "none/x.xml"],
            1,
            "there is no folder 'none' (make the folder, or name another)",
        ),
    ],
)
def test_wrong_arguments_are_answered_before_any_work(arguments: list[str], status: int, said: str) -> None:
    result = call(*arguments)
    assert result.exit_code == status
    assert said in result.stderr
    assert "passed" not in result.stdout


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("x.py", "x = 1\n", "the file is a Python program"),
        ("x.ipynb", '{"cells": []}', "the file is a notebook"),
    ],
)
def test_a_program_is_not_a_graph_file(folder: pathlib.Path, name: str, text: str, said: str) -> None:
    (folder / name).write_text(text, "utf-8")
    result = call("run", name)
    assert result.exit_code == 1
    assert said in result.stderr
    assert "Graph.save writes" in result.stderr


def test_a_graph_file_may_have_any_name(folder: pathlib.Path) -> None:
    (folder / "g.py").write_text(GRAPH, "utf-8")
    assert call("check", "g.py").exit_code == 0


def test_what_is_not_a_wheel_is_refused_also_where_the_library_is_installed() -> None:
    result = call("directml", "install", "--from", "g.yaml")
    assert result.exit_code == 1
    assert "g.yaml is not a wheel, or damaged" in result.stderr


def test_a_folder_fails_where_a_file_looks_like_a_graph(folder: pathlib.Path) -> None:
    (folder / "old.yaml").write_text(GRAPH.replace("dmlgraph", "dmlgrph"), "utf-8")
    (folder / "wide.yaml").write_bytes(GRAPH.encode("utf-16"))
    (folder / "other.yaml").write_text("on: push\n", "utf-8")
    result = call("check", ".")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [f"{each}: fine: 1 node at feature level 6.4" for each in ("g.yaml", "t.yaml")]
    assert "skipped other.yaml: not a graph file, it has no key 'dmlgraph'" in result.stderr
    assert "old.yaml:1:1: error[unknown-field]: field 'dmlgrph': is not known here" in result.stderr
    assert "wide.yaml:1:1: error[syntax]: not UTF-8 text, but UTF-16" in result.stderr
    assert "4 files checked, 2 with errors" in result.stderr


def adapters() -> list[str]:
    from dmlgraph.devices import list_devices

    return [each.name for each in list_devices() if each.name.startswith("directml") and each.missing is None]


@pytest.mark.skipif(adapters() != ["directml:software"], reason="it is about a machine with the software adapter only")
def test_directml_is_told_to_be_the_software_adapter() -> None:
    said = "warning: 'directml' is the software adapter here, which computes on the processor: there is no other\n"
    result = call("run", "g.yaml", "--device", "directml", "--random", "0")
    assert result.exit_code == 0
    assert said in result.stderr
    assert said not in call("run", "g.yaml", "--device", "directml:software", "--random", "0").stderr
    tested = call("test", "t.yaml", "t.yaml", "--device", "directml")
    assert tested.exit_code == 0
    assert tested.stdout.splitlines()[-1] == "1 passed, 3 left out"
    assert tested.stderr == said


def test_a_folder_is_answered_with_the_graph_files_in_it(folder: pathlib.Path) -> None:
    (folder / "sub").mkdir()
    assert "'sub' is a folder; there is no graph file in it" in call("run", "sub").output
    (folder / "sub" / "a.yaml").write_text(GRAPH, "utf-8")
    assert f"'sub' is a folder; name a graph file in it: {pathlib.Path('sub', 'a.yaml')}" in call("lower", "sub").output
