"""`dmlgraph check`, and the warnings of other commands."""

from __future__ import annotations

import pathlib

import pytest
from click.testing import CliRunner, Result

from dmlgraph.cli.commands import main
from dmlgraph.devices.directml.versions import NEWER

ODD = """\
dmlgraph: 1
inputs:
  x: {dtype: float32, sizes: [2]}
  forgotten: {dtype: float32, sizes: [2]}
nodes:
  y: {op: fill_value_constant, output: {dtype: float32, sizes: [2]}, value: 1}
outputs: [x, y]
"""
WARNED = """\
odd.yaml:4:3: warning[unused-input]: node 'forgotten': the input is never read
  4 |   forgotten: {dtype: float32, sizes: [2]}
    |   ^^^^^^^^^
1 warning
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "odd.yaml").write_text(ODD, encoding="utf-8")
    return tmp_path


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_warnings_are_shown_and_are_no_failure() -> None:
    result = call("check", "odd.yaml")
    assert result.exit_code == 0
    assert result.stdout.startswith("odd.yaml: fine: ")
    assert result.stderr == WARNED


def test_strict_makes_failures_of_warnings() -> None:
    result = call("check", "--strict", "odd.yaml")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"{WARNED}error[strict]: --strict counts warnings as errors\n"


def test_strict_has_nothing_against_a_graph_without_warnings(folder: pathlib.Path) -> None:
    (folder / "fine.yaml").write_text(ODD.replace("outputs: [x,", "outputs: [x, forgotten,"), encoding="utf-8")
    result = call("check", "--strict", "fine.yaml")
    assert (result.exit_code, result.stderr) == (0, "")


NEEDING = """\
dmlgraph: 1
name: g
inputs: {{x: {{dtype: float32, sizes: [1, 1, 2, 3]}}}}
nodes: {{y: {{op: {op}, input: x}}}}
outputs: [y]
"""


@pytest.mark.parametrize(
    ("op", "needs"),
    [
        ("activation_relu", "feature level 2.1, DirectML 1.2 or newer (that of Windows 11 21H2 or newer)"),
        ("activation_gelu", f"feature level 5.1, DirectML 1.9 or newer ({NEWER})"),
    ],
)
def test_what_a_graph_needs_is_said(op: str, needs: str, folder: pathlib.Path) -> None:
    (folder / "needing.yaml").write_text(NEEDING.format(op=op), encoding="utf-8")
    result = call("check", "--needs", "needing.yaml")
    assert (result.exit_code, result.stdout.splitlines()[1:]) == (0, [f"needing.yaml: needs {needs}"])


@pytest.mark.parametrize("command", ["lower", "run"])
def test_other_commands_warn_on_stderr_and_go_on(command: str, folder: pathlib.Path) -> None:
    (folder / "odd.yaml").write_text(
        "dmlgraph: 1\ndims: {N: 1}\nnodes:\n"
        "  y: {op: fill_value_constant, output: {dtype: float32, sizes: [2]}, value: 1}\noutputs: [y]\n",
        encoding="utf-8",
    )
    result = call(command, "odd.yaml")
    assert result.exit_code == 0
    assert result.stderr.startswith("odd.yaml:2:8: warning[unused-dim]: field 'dims.N': nothing uses this dim\n")
    assert "warning" not in result.stdout


def test_allowed_warnings_are_neither_told_nor_counted(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(
        ODD.replace("dmlgraph: 1\n", "dmlgraph: 1\nallow: [unused-input, unused-node, unused-dim]\n"), encoding="utf-8"
    )
    result = CliRunner().invoke(main, ["check", "--strict", str(path)])
    assert (result.exit_code, result.stderr) == (0, "")


SIZED = """\
dmlgraph: 1
dims: {N: 4, M: 2}
inputs: {x: {dtype: float32, sizes: [N / 2, M]}}
outputs: [x]
"""


def test_every_combination_of_sizes_is_checked(folder: pathlib.Path) -> None:
    (folder / "sized.yaml").write_text(SIZED, "utf-8")
    result = call("check", "--dim", "N=2,8", "--dim", "M=1,3", "sized.yaml")
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        f"sized.yaml: fine with N={n}, M={m}: 1 node at feature level 6.4" for n in (2, 8) for m in (1, 3)
    ]


def test_the_sizes_with_which_a_graph_is_wrong_are_named(folder: pathlib.Path) -> None:
    (folder / "sized.yaml").write_text(SIZED, "utf-8")
    result = call("check", "--dim", "N=2,3,4", "sized.yaml")
    assert result.exit_code == 1
    assert "sized.yaml: fine with N=2: 1 node" in result.output
    assert "with N=3:" in result.output
    assert "got 1.5 = N / 2 with N = 3" in result.stderr
    assert "N=4" not in result.output


def test_warnings_of_several_sizes_are_shown_once(folder: pathlib.Path) -> None:
    (folder / "sized.yaml").write_text(SIZED.replace("M]}", "M]}, unused: {dtype: int8, sizes: [1]}"), "utf-8")
    result = call("check", "--strict", "--dim", "N=2,8", "sized.yaml")
    assert result.exit_code == 1
    assert result.stderr.count("warning[unused-input]") == 1
    assert "fine" not in result.output


@pytest.mark.parametrize("value", ["N", "N=", "=3", "N=1,", "N=a", "N=1,-2", "N=" + ",".join(["1"] * 1001)])
def test_what_is_not_a_size_is_refused(value: str) -> None:
    result = call("check", "--dim", value, "odd.yaml")
    assert result.exit_code == 2
    assert "Error: Invalid value for '--dim'" in result.stderr


FINE = "dmlgraph: 1\ninputs: {x: {dtype: float32, sizes: [2]}}\noutputs: [x]\n"


def test_the_problems_of_all_files_are_reported(folder: pathlib.Path) -> None:
    (folder / "a.yaml").write_text(FINE.replace("float32", "float31"), "utf-8")
    (folder / "b.yaml").write_text(FINE, "utf-8")
    (folder / "c.yaml").write_text("dmlgraph: 2\n", "utf-8")
    result = call("check", "c.yaml", "b.yaml", "a.yaml")
    assert result.exit_code == 1
    assert result.stdout == "b.yaml: fine: 1 node at feature level 6.4\n"
    places = [line.partition(" ")[0] for line in result.stderr.splitlines() if " error[" in line]
    assert places == ["c.yaml:1:1:", "c.yaml:1:11:", "a.yaml:2:21:"]
    assert result.stderr.endswith("3 files checked, 2 with errors\n")


def test_a_folder_stands_for_its_graph_files(folder: pathlib.Path) -> None:
    (folder / "deep").mkdir()
    (folder / "deep" / "fine.yml").write_text(FINE, "utf-8")
    (folder / "other.yaml").write_text("a: 1\n", "utf-8")
    result = call("check", ".", "deep/fine.yml")
    assert result.exit_code == 0
    names = [line.partition(":")[0] for line in result.stdout.splitlines()]
    assert names == ["odd.yaml", str(pathlib.Path("deep", "fine.yml"))]
    assert "skipped other.yaml: not a graph file, it has no key 'dmlgraph'\n" in result.stderr
    assert call("check", "--strict", ".").exit_code == 1


def test_a_given_file_must_be_a_graph_unless_others_are_skipped(folder: pathlib.Path) -> None:
    (folder / "other.yaml").write_text("a: 1\n", "utf-8")
    assert call("check", "other.yaml").exit_code == 1
    assert call("check", "--skip-others", "other.yaml").exit_code == 0
    assert call("check", "--skip-others", "odd.yaml").stdout.startswith("odd.yaml: fine")


def test_the_files_and_sizes_of_tests_are_checked_too(folder: pathlib.Path) -> None:
    (folder / "t.yaml").write_text(
        FINE + "tests: {t: {inputs: {x: {file: x.npy}}, expect: {x: {value: 1}}}}\n", "utf-8"
    )
    result = call("check", "t.yaml")
    assert result.exit_code == 1
    assert "t.yaml:4:32: error[unreadable]: field 'tests.t.inputs.x.file': there is no such file" in result.stderr
    assert call("run", "t.yaml", "--random", "0").exit_code == 0
