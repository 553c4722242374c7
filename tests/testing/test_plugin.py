"""The pytest plugin, in processes of its own: what it collects, reports, skips and imports."""

from __future__ import annotations

import importlib.metadata
import json
import os
import pathlib
import subprocess
import sys
import tomllib
from collections.abc import Sequence

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PLUGIN = "dmlgraph.testing.plugin"
GRAPH = """\
dmlgraph: 1
inputs: {x: {dtype: float32, sizes: [3]}}
nodes: {y: {op: exp, input: x}}
outputs: [y]
tests:
  right: {inputs: {x: {value: 0}}, expect: {y: {value: 1}}, devices: [reference, cpu]}
"""
WRONG = GRAPH.replace("value: 1}", "value: 2}")
ABSENT = GRAPH.replace("[reference, cpu]", '["directml:77"]')


@pytest.fixture(autouse=True)
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(files: dict[str, str], globs: Sequence[str] = (), more: str = "") -> None:
    lines = "".join(f"\n  {glob}" for glob in globs)
    ini = f"[pytest]\n{f'dmlgraph_files ={lines}' if globs else ''}\n{more}\n"
    for name, text in {"pytest.ini": ini, **files}.items():
        pathlib.Path(name).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(name).write_text(text, "utf-8")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """pytest with this plugin alone, whether or not the package's metadata names it."""
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-P", "-m", "pytest", "-p", PLUGIN, "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def collected(*arguments: str) -> set[str]:
    done = run("--collect-only", "-q", *arguments)
    return {line for line in done.stdout.splitlines() if "::" in line}


def test_the_package_says_that_it_has_the_plugin() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"dmlgraph": PLUGIN}
    entry = importlib.metadata.EntryPoint("dmlgraph", project["entry-points"]["pytest11"]["dmlgraph"], "pytest11")
    assert entry.load().pytest_collect_file


def test_nothing_is_collected_without_the_ini_option() -> None:
    write({"g.yaml": GRAPH, "test_none.py": ""})
    done = run()
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, done.stdout


def test_nothing_of_dmlgraph_is_imported_without_the_ini_option() -> None:
    code = "import json, sys\ndef test_it():\n    print('modules', json.dumps(sorted(sys.modules)))\n"
    write({"g.yaml": GRAPH, "test_modules.py": code})
    done = run("-s", "-q")
    line = next(line for line in done.stdout.splitlines() if line.startswith("modules "))
    modules = set(json.loads(line.removeprefix("modules ")))
    ours = {each for each in modules if each.partition(".")[0] == "dmlgraph"}
    catalog = {f"dmlgraph.operators.catalog{module}" for module in ("", ".index", ".registry")}
    assert ours == {"dmlgraph", "dmlgraph.operators", *catalog, "dmlgraph.testing", PLUGIN}
    assert not modules & {"numpy", "yaml", "click", "pydantic", "networkx", "ml_dtypes", "llvmlite"}


def test_globs_are_relative_to_the_ini_file() -> None:
    files = [
        "a.yaml",
        "b.yml",
        "c.txt",
        "graphs/d.yaml",
        "graphs/deep/e.yaml",
        "other/graphs/f.yaml",
        "graphs/[g].yaml",
    ]
    write(dict.fromkeys(files, GRAPH))

    def found(*globs: str) -> list[str]:
        write({}, globs)
        return sorted({name.partition("::")[0] for name in collected()})

    assert found("*.yaml") == ["a.yaml"]
    assert found("*.yaml", "*.yml", "*.txt") == ["a.yaml", "b.yml"]
    assert found("**/*.yaml") == [
        "a.yaml",
        "graphs/[g].yaml",
        "graphs/d.yaml",
        "graphs/deep/e.yaml",
        "other/graphs/f.yaml",
    ]
    assert found("graphs/*.yaml") == ["graphs/[g].yaml", "graphs/d.yaml"]
    assert found("graphs/**") == ["graphs/[g].yaml", "graphs/d.yaml", "graphs/deep/e.yaml"]
    assert found("graphs/?.yaml", "[ab].y*ml") == ["a.yaml", "b.yml", "graphs/d.yaml"]
    os.chdir("graphs")
    assert {name.partition("::")[0] for name in collected()} >= {"graphs/d.yaml"}


def test_each_test_is_an_item_for_each_device_with_the_outcome_of_the_command() -> None:
    write({"right.yaml": GRAPH, "wrong.yaml": WRONG, "absent.yaml": ABSENT}, ["*.yaml"])
    done = run("-v", "-rs")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    outcomes = {line.split()[0]: line.split()[1] for line in done.stdout.splitlines() if "::" in line and "%" in line}
    assert outcomes == {
        "right.yaml::right[reference]": "PASSED",
        "right.yaml::right[cpu]": "PASSED",
        "wrong.yaml::right[reference]": "FAILED",
        "wrong.yaml::right[cpu]": "FAILED",
        "absent.yaml::right[directml:77]": "SKIPPED",
    }
    assert "'directml:77' is not here: " in done.stdout
    assert "wrong.yaml:6:3: test 'right' failed on cpu\n  output 'y': 3 of 3 elements differ" in done.stdout
    assert "Traceback" not in done.stdout
    assert "dmlgraph/testing" not in done.stdout


def test_items_are_chosen_as_others_are() -> None:
    write({"g.yaml": GRAPH}, ["*.yaml"])
    assert collected("-k", "cpu") == {"g.yaml::right[cpu]"}
    assert collected("g.yaml::right[reference]") == {"g.yaml::right[reference]"}


def test_a_file_that_is_wrong_is_an_error_with_its_place() -> None:
    write({"g.yaml": GRAPH.replace("op: exp", "op: expp")}, ["*.yaml"])
    done = run()
    assert done.returncode == pytest.ExitCode.INTERRUPTED
    assert "g.yaml:3:17: node 'y', field 'op': is not an operator; got expp" in done.stdout
    assert "Traceback" not in done.stdout


def test_workers_of_xdist_share_the_items() -> None:
    pytest.importorskip("xdist", reason="pytest-xdist is not installed")
    write({f"g{index}.yaml": GRAPH if index else WRONG for index in range(4)}, ["*.yaml"])
    done = run("-p", "xdist", "-n", "2", "-q")
    assert "2 failed, 6 passed" in done.stdout, done.stdout + done.stderr


DEVICE_TEST = """
import pytest
def test_it(dmlgraph_device):
    print("on", dmlgraph_device)
"""


def test_the_fixture_has_every_device_that_has_a_name_and_skips_those_that_are_not_here() -> None:
    write({"test_it.py": DEVICE_TEST})
    assert collected() == {
        f"test_it.py::test_it[{device}]" for device in ("cpu", "reference", "directml", "directml:software")
    }
    done = run("-rs", "-s")
    assert "on cpu" in done.stdout
    assert "on reference" in done.stdout
    assert "failed" not in done.stdout


def test_the_ini_option_lists_the_devices_of_the_fixture() -> None:
    write({"test_it.py": DEVICE_TEST}, more="dmlgraph_devices = reference directml:77")
    done = run("-v", "-rs")
    assert "test_it[reference] PASSED" in done.stdout
    assert "test_it[directml:77] SKIPPED" in done.stdout
    assert "'directml:77' is not here: " in done.stdout
    assert "1 passed, 1 skipped" in done.stdout


@pytest.mark.parametrize("names", ['"dmlgraph_device"', '"n, dmlgraph_device"', '["n", "dmlgraph_device"]'])
def test_a_test_may_choose_its_devices(names: str) -> None:
    values = '["cpu"]' if "n" not in names.replace("dmlgraph_device", "") else '[(1, "cpu")]'
    mark = f'@pytest.mark.parametrize({names}, {values}, indirect=["dmlgraph_device"])\n'
    code = DEVICE_TEST.replace("def test_it(", f"{mark}def test_it({'n, ' if '(1' in values else ''}")
    write({"test_it.py": code})
    (name,) = collected()
    assert name.endswith("cpu]")
    assert "1 passed" in run().stdout


def test_an_unknown_device_is_an_error_and_not_skipped() -> None:
    write({"test_it.py": DEVICE_TEST}, more="dmlgraph_devices = cuda")
    done = run()
    assert "is not a device; got cuda" in done.stdout
    assert "1 error" in done.stdout
