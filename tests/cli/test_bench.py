"""`dmlgraph bench`."""

from __future__ import annotations

import json
import pathlib
import re
import sys

import numpy as np
import pytest
from click.testing import CliRunner, Result
from support.terminal import run_on_terminal

from dmlgraph.cli.commands import main

CHAIN = """\
dmlgraph: 1
name: chain
dims: {N: 2}
inputs:
  x: {dtype: float32, sizes: [N, 256]}
  w: {dtype: float32, sizes: [256]}
nodes:
  root: {op: sqrt, input: x}
  sum: {op: add, a: root, b: w}
  y: {op: activation_tanh, input: sum}
outputs: [y]
"""

INTEGERS = """\
dmlgraph: 1
inputs:
  a: {dtype: uint8, sizes: [64, 64]}
  b: {dtype: int8, sizes: [64, 64]}
nodes:
  y: {op: matrix_multiply_integer, a: a, b: b}
outputs: [y]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "chain.yaml").write_text(CHAIN, encoding="utf-8")
    return tmp_path


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["bench", *arguments])


def test_the_table_has_a_column_for_each_device_and_a_row_for_each_node() -> None:
    result = call("chain.yaml", "--device", "reference", "--device", "cpu", "--repeats", "2", "--no-fuse")
    assert result.exit_code == 0
    table, *nodes = result.stdout.split("\n\n")
    header, *rows = table.splitlines()
    assert header.split() == ["reference", "cpu"]
    cells = {re.split(r"  +", row)[0]: re.split(r"  +", row)[1:] for row in rows}
    assert cells["nodes of the file"] == cells["nodes after fusion"] == ["3", "3"]
    assert cells["runs"] == ["2", "2"]
    assert cells["dispatches"] == ["-", "-"]
    assert cells["inputs"] == ["3.00 KiB"] * 2
    assert cells["peak memory"][0] == "-"
    assert re.fullmatch(r"\d+(\.\d+)? [KM]?i?B", cells["peak memory"][1])
    assert cells["outputs"] == ["2.00 KiB"] * 2
    for label in ("compile", "first run", "steady, median", "steady, min", "two in flight, each"):
        assert all(re.fullmatch(r"\d+(\.\d+)? (n|µ|m|)s", time) for time in cells[label])
    assert len(nodes) == 2
    for device, block in zip(("reference", "cpu"), nodes, strict=True):
        assert block.startswith(f"{device}: node  ")
        named = " ".join(re.split("  +", line)[0] for line in block.splitlines()[1:] if not line.startswith("the roof"))
        assert set(re.findall(r"\w+", named)) == {"root", "sum", "y"}


def test_the_reference_tells_operator_share_and_bytes_of_every_node() -> None:
    result = call("chain.yaml", "--device", "reference", "--repeats", "1", "--no-fuse")
    rows = [re.split("  +", line) for line in result.stdout.split("\n\n")[1].splitlines()[1:]]
    assert {(row[0], row[1], row[5]) for row in rows} == {
        ("root", "sqrt", "4.00 KiB"),
        ("sum", "add", "5.00 KiB"),  # w is read by zero strides
        ("y", "activation_tanh", "4.00 KiB"),
    }
    shares = [float(row[4].rstrip("%")) for row in rows]
    assert sum(shares) == pytest.approx(100, abs=0.2)
    assert shares == sorted(shares, reverse=True)


def test_what_a_step_does_in_a_second_stands_beside_the_roof(folder: pathlib.Path) -> None:
    product = CHAIN.replace("root: {op: sqrt, input: x}", "root: {op: gemm, a: x, b: w}").replace("[256]", "[256, 256]")
    (folder / "product.yaml").write_text(product.replace("a: root, b: w", "a: root, b: x"), encoding="utf-8")
    result = call("product.yaml", "--device", "cpu", "--device", "reference", "--repeats", "1", "--dim", "N=64")
    assert result.exit_code == 0
    _, on_cpu, on_reference = result.stdout.split("\n\n")
    header, *rows, roof = on_cpu.splitlines()
    assert header.endswith("a second  of the roof")
    assert re.fullmatch(r"the roof: \d+ GFLOP/s, or \d+\.\d GB/s between memory and processor", roof)
    (gemm,) = (row for row in rows if "gemm" in row)
    assert re.search(r"native gemm .* \d+\.\d\d GFLOP  +\d+%", gemm)
    assert "GFLOP" in on_reference
    assert "roof" not in on_reference


def test_of_many_nodes_the_slowest_are_shown_and_the_others_summed(folder: pathlib.Path) -> None:
    nodes = "".join(f"  n{i}: {{op: sqrt, input: {f'n{i - 1}' if i else 'x'}}}\n" for i in range(30))
    head = "dmlgraph: 1\ninputs:\n  x: {dtype: float32, sizes: [8]}\nnodes:\n"
    (folder / "long.yaml").write_text(f"{head}{nodes}outputs: [n29]\n", encoding="utf-8")
    result = call("long.yaml", "--device", "reference", "--repeats", "1")
    rows = result.stdout.split("\n\n")[1].splitlines()
    assert len(rows) == 1 + 20 + 1
    assert rows[-1].startswith("10 more ")
    assert rows[-1].endswith("640 B")


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_lines_fit_a_terminal(folder: pathlib.Path) -> None:
    long = CHAIN.replace("root", "the_root_of_the_input_that_has_a_very_long_name_which_exporters_like")
    (folder / "chain.yaml").write_text(long, encoding="utf-8")
    arguments = ["bench", "chain.yaml", "--device", "cpu", "--repeats", "1", "--no-fuse"]
    code, shown = run_on_terminal(arguments, folder, {"COLUMNS": "90"})
    assert code == 0
    assert max(map(len, shown.splitlines())) <= 90
    assert re.search(r"\nthe_\w*…", shown)
    whole = call(*arguments[1:]).stdout
    assert "the_root_of_the_input_that_has_a_very_long_name_which_exporters_like" in whole
    assert max(map(len, whole.splitlines())) > 90


def test_integers_have_a_roof_of_their_own(folder: pathlib.Path) -> None:
    (folder / "integers.yaml").write_text(INTEGERS, encoding="utf-8")
    on_cpu = call("integers.yaml", "--device", "cpu", "--repeats", "1").stdout.split("\n\n")[1]
    _, step, roof = on_cpu.splitlines()
    assert re.search(r" \d+\.\d\d GOP  +\d+%", step)
    assert re.fullmatch(r"the roof: \d+ GFLOP/s, \d+ GOP/s of 8-bit integers, or \d+\.\d GB/s between .*", roof)


def test_inputs_are_made_up_where_none_are_given_and_that_is_said(folder: pathlib.Path) -> None:
    np.save(folder / "w.npy", np.ones(256, np.float32))
    result = call("chain.yaml", "--device", "reference", "--repeats", "1", "--input", "w=w.npy")
    assert (result.exit_code, result.stderr) == (0, "random numbers (seed 0) for: x\n")
    np.save(folder / "x.npy", np.ones((2, 256), np.float32))
    result = call("chain.yaml", "--device", "reference", "--repeats", "1", "--input", "w=w.npy", "--input", "x=x.npy")
    assert (result.exit_code, result.stderr) == (0, "")


def test_dims_and_json(folder: pathlib.Path) -> None:
    result = call("chain.yaml", "--device", "reference", "--dim", "N=5", "--repeats", "3", "--json", "--no-fuse")
    assert result.exit_code == 0
    told = json.loads(result.stdout)
    assert (told["graph"], told["fused"]) == ("chain", False)
    (device,) = told["devices"]
    assert device["output_bytes"] == 5 * 256 * 4
    assert len(device["run_seconds"]) == 3
    assert [step["operators"] for step in device["steps"]] == [["sqrt"], ["add"], ["activation_tanh"]]
    assert len(list(folder.iterdir())) == 1


def test_the_trace_is_written() -> None:
    result = call("chain.yaml", "--device", "reference", "--repeats", "4", "--trace", "trace.json", "--no-fuse")
    assert result.exit_code == 0
    events = json.loads(pathlib.Path("trace.json").read_text(encoding="utf-8"))["traceEvents"]
    names = [event["name"] for event in events if event["ph"] == "X"]
    assert names.count("run") == 4
    assert names[-3:] == ["root", "sum", "y"]


def test_directml_tells_dispatches_and_memory_and_times_nodes_alone(directml_path: pathlib.Path) -> None:
    assert directml_path
    result = call("chain.yaml", "--device", "directml:software", "--repeats", "1", "--no-fuse")
    assert result.exit_code == 0
    rows = [re.split("  +", line) for line in result.stdout.splitlines()]
    assert ["dispatches", "3"] in rows
    assert {"persistent", "temporary"} <= {row[0] for row in rows}
    nodes = [row for row in rows if len(row) > 2 and row[2] == "alone"]
    assert sorted(row[1] for row in nodes) == ["activation_tanh", "add", "sqrt"]


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (["chain.yaml", "--device", "cpuu"], 2, "is not a device; got cpuu"),
        (["none.yaml"], 2, "'none.yaml' does not exist"),
        (["chain.yaml", "--repeats", "0"], 2, "0 is not in the range x>=1"),
        (["chain.yaml", "--dim", "M=2"], 1, "is not a dim of the graph"),
        (["chain.yaml", "--input", "z=w.npy"], 1, "field 'z': is not an input of the graph"),
        (["chain.yaml", "--input", "x=w.npy"], 1, "field 'x': the input has another shape; got [256] in 'w.npy'"),
        (["chain.yaml", "--trace", "no/folder.json", "--repeats", "1"], 1, "there is no folder 'no'"),
    ],
)
def test_mistakes(folder: pathlib.Path, arguments: list[str], status: int, text: str) -> None:
    np.save(folder / "w.npy", np.ones(256, np.float32))
    result = call("--device", "reference", *arguments)
    assert result.exit_code == status
    assert text in result.stderr
    assert result.stdout == ""
