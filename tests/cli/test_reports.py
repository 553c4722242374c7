"""What commands print for programs: JSON with the documented keys, annotations of GitHub, SARIF."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from dmlgraph.base.codes import CODES
from dmlgraph.cli.check_formats import _escaped
from dmlgraph.cli.commands import main
from dmlgraph.cli.reports import SHAPES

GRAPH = """\
dmlgraph: 1
inputs: {x: {dtype: float32, sizes: [2]}, z: {dtype: float32, sizes: [2]}}
nodes: {y: {op: exp, input: x}}
outputs: [y]
"""
WRONG = GRAPH.replace("op: exp", "op: expp")


@pytest.fixture(autouse=True)
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g.yaml").write_text(GRAPH, "utf-8")
    (tmp_path / "wrong, 50 %.yaml").write_text(WRONG, "utf-8")
    (tmp_path / "other.yml").write_text("on: push\n", "utf-8")
    return tmp_path


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def report(*arguments: str, status: int = 0) -> Any:
    """The report that a command prints; its standard output has nothing else."""
    result = call(*arguments)
    assert result.exit_code == status, result.output
    return json.loads(result.stdout)


def has_shape(name: str, given: Mapping[str, Any], *, without: tuple[str, ...] = ()) -> None:
    """A mapping has the documented keys, in their order, and no others."""
    assert list(given) == [key for key in SHAPES[name] if key not in without]


# Each command, and what of its report has shapes of its own.
COMMANDS: dict[str, tuple[tuple[str, ...], Callable[[Any], list[tuple[str, Any]]]]] = {
    "check": (
        ("check", "g.yaml"),
        lambda got: [("file", got["files"][0]), ("problem", got["files"][0]["problems"][0])],
    ),
    "devices": (("devices",), lambda got: [("device", each) for each in got["devices"]]),
    "lower": (
        ("lower", "g.yaml", "--device", "cpu"),
        lambda got: [("slot", got["inputs"][0]), ("slot", got["outputs"][0]), ("node", got["nodes"][0])],
    ),
    "operators": (("operators", "gemm"), lambda got: [("operator", got["operators"][0])]),
    "bench": (
        ("bench", "g.yaml", "--device", "reference", "--repeats", "1"),
        lambda got: [("measurement", got["devices"][0])],
    ),
    "doctor": (("doctor", "g.yaml", "--device", "cpu"), lambda got: []),
    "run": (("run", "g.yaml", "--random", "0", "--device", "reference"), lambda got: []),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_report_has_the_documented_keys(command: str) -> None:
    arguments, parts = COMMANDS[command]
    got = report(*arguments, "--json")
    has_shape(command, got)
    assert (got["report"], got["version"]) == (command, 1)
    for name, part in parts(got):
        has_shape(name, part)


def test_every_command_with_json_has_a_shape() -> None:
    with click.Context(main) as context:
        commands = {name: main.get_command(context, name) for name in main.list_commands(context)}
    found = {name for name, each in commands.items() if each and any("--json" in option.opts for option in each.params)}
    assert found - {"train"} == set(COMMANDS)  # it prints a line for each step


def test_check_reports_what_is_wrong_and_what_it_skipped() -> None:
    got = report("check", ".", "--json", status=1)
    assert (got["errors"], got["warnings"], got["skipped"]) == (1, 1, ["other.yml"])
    fine, wrong = got["files"]
    assert list(fine.values())[:5] == ["g.yaml", "fine", 1, 1, "6.4"]
    assert [each["code"] for each in fine["problems"]] == ["unused-input"]
    assert list(wrong.values())[1:5] == ["wrong", None, None, None]
    assert wrong["problems"] == [
        {
            "severity": "error",
            "code": "unknown-operator",
            "message": "is not an operator",
            "node": "y",
            "field": "op",
            "got": "expp",
            "allowed": None,
            "hint": "did you mean 'exp'?",
            "file": "wrong, 50 %.yaml",
            "line": 3,
            "column": 17,
            "end_column": 21,
            "used_by": None,
        }
    ]


def test_operators_lists_all_of_them_in_short() -> None:
    got = report("operators", "--json")
    assert len(got["operators"]) > 180
    for each in got["operators"]:
        has_shape("operator", each, without=("fields", "support", "example"))


def test_lower_says_what_the_file_and_the_device_have() -> None:
    got = report("lower", "g.yaml", "--device", "cpu", "--json")
    assert got["source_nodes"] == 1
    assert got["nodes"][0]["fields"]["InputTensor"] == "float32 [2], 8 bytes"
    assert got["edges"]["input"] == [{"input": 0, "to_node": 0, "to_port": 0}]
    assert set(got["compiled"]["cpu"]) == {"arena_bytes", "scratch_bytes"}
    again = report("lower", "g.yaml", "--device", "cpu", "--json")
    assert again["digest"] == got["digest"]


def test_github_is_told_in_lines_of_its_workflow_commands() -> None:
    result = call("check", ".", "--format", "github")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "::warning file=g.yaml,line=2,col=43,endColumn=43,title=dmlgraph unused-input::"
        "node 'z': the input is never read",
        "::error file=wrong%2C 50 %25.yaml,line=3,col=17,endColumn=20,title=dmlgraph unknown-operator::"
        "node 'y', field 'op': is not an operator; got expp (did you mean 'exp'?)",
    ]


def test_what_ends_a_workflow_command_is_escaped() -> None:
    assert _escaped("100 %\r\na: b, c") == "100 %25%0D%0Aa: b, c"
    assert _escaped("a: b, c", ":,") == "a%3A b%2C c"


def test_code_scanning_is_told_in_sarif(folder: pathlib.Path) -> None:
    """The keys that SARIF 2.1.0 requires, by sections 3.13 to 3.30 of its specification."""
    log = report("check", ".", str(folder / "g.yaml"), "--format", "sarif", status=1)
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-2.1.0.json")
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "dmlgraph"
    assert run["columnKind"] in ("utf16CodeUnits", "unicodeCodePoints")
    rules = driver["rules"]
    assert [rule["id"] for rule in rules] == ["unknown-operator", "unused-input"]
    assert all(rule["shortDescription"]["text"] == CODES[rule["id"]] for rule in rules)
    assert len(run["results"]) == 3
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("none", "note", "warning", "error")
        assert result["message"]["text"]
        (location,) = result["locations"]
        region = location["physicalLocation"]["region"]
        assert region["startLine"] >= 1
        assert 1 <= region["startColumn"] < region["endColumn"]
    uris = [each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for each in run["results"]]
    assert uris == ["g.yaml", "wrong%2C%2050%20%25.yaml", (folder / "g.yaml").as_uri()]


def test_text_is_not_mixed_into_a_report() -> None:
    assert call("check", "g.yaml", "--json").stderr == ""


def test_quiet_tests_print_failures_and_the_summary(folder: pathlib.Path) -> None:
    given = "inputs: {x: {value: 0}, z: {value: 0}}"
    tests = f"good: {{{given}, expect: {{y: {{value: 1}}}}}}, bad: {{{given}, expect: {{y: {{value: 2}}}}}}"
    (folder / "t.yaml").write_text(f"{GRAPH}tests: {{{tests}}}\n", "utf-8")
    loud = call("test", "t.yaml", "--device", "reference").stdout.splitlines()
    quiet = call("test", "t.yaml", "--device", "reference", "--quiet").stdout.splitlines()
    assert loud[0] == "t.yaml::good[reference] passed"
    assert quiet == loud[1:]
    assert quiet[0] == "t.yaml::bad[reference] failed"
    assert quiet[-1].startswith("1 failed, 1 passed")
