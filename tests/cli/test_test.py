"""`dmlgraph test`."""

from __future__ import annotations

import pathlib
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from dmlgraph.cli.commands import main

GRAPH = """\
dmlgraph: 1
dims: {N: 2}
inputs: {x: {dtype: float32, sizes: [N]}}
nodes: {y: {op: activation_relu, input: x}}
outputs: [y]
"""
TESTS = """\
tests:
  ones: {inputs: {x: {value: 1}}, expect: {y: {value: 1}}, devices: [reference, cpu]}
  ramp: {inputs: {x: {sequence: {start: -1}}}, expect: {y: {same_as: reference}}, devices: [cpu, "directml:77"]}
"""
FAILING = GRAPH + "tests: {bad: {inputs: {x: {value: 1}}, expect: {y: {value: 2}}, devices: [cpu]}}\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g.yaml").write_text(GRAPH + TESTS, "utf-8")
    return tmp_path


def call(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, ["test", *arguments], input=stdin)


def test_each_test_has_a_line_for_each_device_and_a_summary_counts_them() -> None:
    result = call("g.yaml")
    assert (result.exit_code, result.stderr) == (0, "")
    *lines, skipped, summary = result.stdout.splitlines()
    assert lines == [f"g.yaml::{name} passed" for name in ("ones[reference]", "ones[cpu]", "ramp[cpu]")]
    assert skipped.startswith("g.yaml::ramp[directml:77] skipped: 'directml:77' is not here: ")
    assert summary == "3 passed, 1 skipped"


def test_a_failure_is_status_1_and_the_others_still_run(folder: pathlib.Path) -> None:
    (folder / "f.yaml").write_text(FAILING, "utf-8")
    (folder / "h.yaml").write_text(GRAPH.replace("relu", "rellu"), "utf-8")
    (folder / "none.yaml").write_text(GRAPH, "utf-8")
    (folder / "other.yaml").write_text("a: 1\n", "utf-8")
    result = call(".")
    assert result.exit_code == 1
    assert "f.yaml::bad[cpu] failed\n  f.yaml:6:9: test 'bad' failed on cpu\n    output 'y': 2 of 2" in result.stdout
    assert "g.yaml::ones[cpu] passed" in result.stdout
    assert "none.yaml: no tests\n" in result.stdout
    assert "skipped other.yaml: not a graph file, it has no key 'dmlgraph'\n" in result.stderr
    assert "h.yaml:4:17: error[unknown-operator]" in result.stderr
    summary = "1 failed, 3 passed, 1 skipped, 1 file with errors, 1 file without tests"
    assert result.stdout.splitlines()[-1] == summary


def test_a_file_without_tests_says_so_and_is_no_failure(folder: pathlib.Path) -> None:
    (folder / "none.yaml").write_text(GRAPH, "utf-8")
    result = call("none.yaml")
    assert (result.exit_code, result.stdout) == (0, "none.yaml: no tests\n")


@pytest.mark.parametrize(
    ("options", "ran"),
    [
        (["-k", "ones"], ["ones[reference]", "ones[cpu]"]),
        (["-k", "ONES", "--device", "cpu"], ["ones[cpu]"]),
        (["--device", "cpu"], ["ones[cpu]", "ramp[cpu]"]),
        (["-k", "ramp[c", "-k", "s[r"], ["ones[reference]", "ramp[cpu]"]),
    ],
)
def test_names_and_devices_choose_tests(options: list[str], ran: list[str]) -> None:
    result = call("g.yaml", *options)
    assert result.exit_code == 0
    *lines, summary = result.stdout.splitlines()
    assert lines == [f"g.yaml::{name} passed" for name in ran]
    assert summary == f"{len(ran)} passed, {4 - len(ran)} left out"


@pytest.mark.parametrize("options", [["-k", "nothing"], ["--device", "directml:1"]])
def test_a_choice_that_leaves_nothing_is_wrong_usage(options: list[str]) -> None:
    result = call("g.yaml", *options)
    assert result.exit_code == 2
    assert "-k and --device leave none of 4 tests" in result.stderr


def test_an_unknown_device_is_wrong_usage() -> None:
    result = call("g.yaml", "--device", "gpu")
    assert result.exit_code == 2
    assert "'gpu' is not a device" in result.stderr


def test_sizes_are_those_of_the_option_where_a_test_has_none(folder: pathlib.Path) -> None:
    fixed = "  two: {dims: {N: 2}, inputs: {x: {data: [1, 2]}}, expect: {y: {data: [1, 2]}}, devices: [cpu]}\n"
    (folder / "g.yaml").write_text(GRAPH + TESTS + fixed, "utf-8")
    result = call("g.yaml", "--dim", "N=1,5", "--device", "cpu")
    assert result.exit_code == 0, result.output
    lines = [f"g.yaml::{name}[cpu] with N={n} passed" for n in (1, 5) for name in ("ones", "ramp", "two")]
    assert result.stdout.splitlines()[:-1] == lines


def test_a_dim_that_a_file_does_not_have_is_its_error() -> None:
    result = call("g.yaml", "--dim", "M=1")
    assert result.exit_code == 1
    assert "field 'dims.M': is not a dim of the graph" in result.stderr


def test_a_graph_may_come_from_standard_input() -> None:
    result = call("-", "--device", "cpu", stdin=GRAPH + TESTS)
    assert result.stdout.splitlines()[0] == "<stdin>::ones[cpu] passed"


def test_junit_xml_has_every_test(folder: pathlib.Path) -> None:
    (folder / "f.yaml").write_text(FAILING, "utf-8")
    (folder / "h.yaml").write_text("dmlgraph: 2\n", "utf-8")
    assert call("g.yaml", "f.yaml", "h.yaml", "--junit", "r.xml").exit_code == 1
    root = ElementTree.parse(folder / "r.xml").getroot()
    assert {key: root.get(key) for key in ("tests", "failures", "errors")} == {
        "tests": "6",
        "failures": "1",
        "errors": "1",
    }
    assert [suite.get("skipped") for suite in root] == ["1", "0", "0"]
    assert [case.get("name") for case in root.iter("testcase")][-2:] == ["bad[cpu]", "the file"]
    failure = next(root.iter("failure"))
    assert "test 'bad' failed on cpu" in (failure.text or "")


def test_a_folder_without_graph_files_is_wrong_usage(folder: pathlib.Path) -> None:
    (folder / "empty").mkdir()
    assert call("empty").exit_code == 2
    assert (call("empty", "--skip-others").exit_code, call("empty", "--skip-others").stdout) == (0, "")
