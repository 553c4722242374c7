"""`dmlgraph test` with a process for each test, and its reports; see also tests/testing/test_sweeps.py."""

from __future__ import annotations

import json
import pathlib
import sys

import pytest
from click.testing import CliRunner, Result

pytest.importorskip("psutil")

from support.case_processes import BAD, GOOD, LONG, RELU

from dmlgraph.cli.commands import main


@pytest.fixture(autouse=True)
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    for name, text in (("good", GOOD), ("bad", BAD), ("long", LONG), ("plain", RELU)):
        (tmp_path / f"{name}.yaml").write_text(text, "utf-8")
    return tmp_path


def call(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, ["test", *arguments], input=stdin)


def test_a_time_limit_ends_a_test_and_the_others_run() -> None:
    done = call("long.yaml", "--time-limit", "3")
    lines = done.stdout.splitlines()
    assert (done.exit_code, lines[0]) == (1, "long.yaml::long[reference] timed out")
    assert (lines[1], lines[-1]) == ("  no end after 3 s: the process was killed", "1 timed out")


def test_with_a_time_limit_all_else_is_as_without() -> None:
    done = call("bad.yaml", "-", "plain.yaml", "--time-limit", "100", "--dim", "N=3", "--device", "cpu", stdin=GOOD)
    first, *more = done.stdout.splitlines()
    assert (done.exit_code, first) == (1, "bad.yaml::bad[cpu] failed")
    assert "  bad.yaml:6:9: test 'bad' failed on cpu" in more
    assert more[-3:] == [
        "<stdin>::good[cpu] passed",
        "plain.yaml: no tests",
        "1 failed, 1 passed, 1 file without tests",
    ]
    assert call("good.yaml", "--time-limit", "100", "-k", "nothing").exit_code == 2


@pytest.mark.skipif(sys.platform != "linux", reason="the software adapter is that of Linux")
def test_the_doctor_names_what_a_device_computes_wrong(
    directml_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DMLGRAPH_DIRECTML", str(directml_path))
    monkeypatch.setenv("DMLGRAPH_SOFTWARE_FAULT", "dispatch=1,element,float32")
    done = call("bad.yaml", "--doctor", "--device", "directml:software", "--device", "cpu", "--no-metacommands")
    lines = done.stdout.splitlines()
    assert (done.exit_code, lines[:2]) == (
        1,
        ["bad.yaml::doctor[cpu] passed", "bad.yaml::doctor[directml:software] failed"],
    )
    assert lines[2].endswith("directml:software computes 'y' wrong")
    assert lines[-1] == "1 failed, 1 passed, 1 left out"


def test_what_may_fail_does_not_count_and_what_passes_is_said(folder: pathlib.Path) -> None:
    text = "- {graph: bad.yaml, reason: known}\n- {test: good, reason: was wrong}\n- {test: x, reason: old}\n"
    (folder / "may.yaml").write_text(text, "utf-8")
    done = call("bad.yaml", "good.yaml", "--allow-failures", "may.yaml", "--junit", "r.xml")
    assert (done.exit_code, done.stdout.splitlines()) == (
        0,
        [
            "bad.yaml::bad[cpu] allowed to fail: known",
            "good.yaml::good[cpu] passed",
            "good.yaml::good[cpu] passed, and is allowed to fail: was wrong",
            "may.yaml:3:3: no test that ran fits this, which is allowed to fail: old",
            "1 allowed to fail, 1 passed",
        ],
    )
    assert 'failures="0" errors="0"' in (folder / "r.xml").read_text("utf-8")


def test_a_wrong_file_of_allowances_is_an_error(folder: pathlib.Path) -> None:
    (folder / "may.yaml").write_text("- {graph: bad.yaml}\n", "utf-8")
    done = call("good.yaml", "--allow-failures", "may.yaml")
    assert (done.exit_code, "may.yaml:1:3: error[missing]: field 'reason'" in done.stderr) == (1, True), done.stderr


def test_lines_of_json_and_a_page_have_every_result(folder: pathlib.Path) -> None:
    (folder / "wrong.yaml").write_text("dmlgraph: 2\n", "utf-8")
    assert (
        call(".", "--jsonl", "r.jsonl", "--html", "r.html", "-k", "bad", "-k", "good", "--dim", "N=1,2").exit_code == 1
    )
    results = [json.loads(line) for line in (folder / "r.jsonl").read_text("utf-8").splitlines()]
    assert [(each["graph"], each["test"], each["sizes"], each["outcome"]) for each in results] == [
        ("bad.yaml", "bad", "N=1", "failed"),
        ("bad.yaml", "bad", "N=2", "failed"),
        ("good.yaml", "good", "N=1", "passed"),
        ("good.yaml", "good", "N=2", "passed"),
        ("long.yaml", "", "", "broken"),
        ("wrong.yaml", "", "", "broken"),
    ]
    assert results[0]["report"].startswith("bad.yaml:6:9: test 'bad' failed on cpu")
    assert "Tests of 6 graphs on 1 device" in (folder / "r.html").read_text("utf-8")


@pytest.mark.parametrize("option", ["--jsonl", "--html", "--junit"])
def test_a_report_that_cannot_be_written_is_an_error(option: str) -> None:
    done = call("good.yaml", option, "none/r")
    assert (done.exit_code, "cannot write 'none/r'" in done.stderr) == (1, True), done.output
