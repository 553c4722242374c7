"""The commands `dmlgraph doctor` and `dmlgraph golden`."""

from __future__ import annotations

import json
import math
import pathlib
import sys

import numpy as np
import pytest
from click.testing import CliRunner, Result

from dmlgraph.cli.commands import main

GRAPH = """\
dmlgraph: 1
inputs: {x: {dtype: float32, sizes: [4]}}
constants: {w: {dtype: float32, sizes: [4], data: [1, 2, 3, 4]}}
nodes:
  product: {op: multiply, a: x, b: w}
  y: {op: tanh, input: product}
outputs: [y]
"""
# Values that need memory in turn.
PRODUCTS = f"""\
dmlgraph: 1
inputs: {{x: {{dtype: float32, sizes: [1, 1, 8, 8]}}}}
constants: {{w: {{dtype: float32, sizes: [1, 1, 8, 8], data: {[round(math.cos(i) / 2, 3) for i in range(64)]}}}}}
nodes:
  p0: {{op: gemm, a: x, b: w}}
  t0: {{op: tanh, input: p0}}
  p1: {{op: gemm, a: t0, b: w}}
  t1: {{op: tanh, input: p1}}
  p2: {{op: gemm, a: t1, b: w}}
  t2: {{op: tanh, input: p2}}
  p3: {{op: gemm, a: t2, b: w}}
  t3: {{op: tanh, input: p3}}
  p4: {{op: gemm, a: t3, b: w}}
outputs: [p4]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "graph.yaml").write_text(GRAPH, "utf-8")
    (tmp_path / "other.yaml").write_text(GRAPH.replace("1, 2, 3, 4", "1, 2, 3, 5"), "utf-8")
    return tmp_path


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_a_sound_device() -> None:
    done = call("doctor", "graph.yaml", "--device", "cpu")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[:2] == ["cpu computes every node right", "  output 'y':"]


def test_recorded_values_of_another_weight(folder: pathlib.Path) -> None:
    assert call("golden", "graph.yaml", "-o", "values.npz").stdout == "values.npz: 3 values\n"
    same = call("doctor", "graph.yaml", "--device", "cpu", "--golden", "values.npz")
    assert (same.exit_code, same.stderr) == (0, "")  # the inputs are those recorded
    assert same.stdout.splitlines()[:2] == ["cpu computes every node right", "  2 recorded values agree"]
    refused = call("doctor", "other.yaml", "--device", "cpu", "--golden", "values.npz")
    assert refused.exit_code == 1
    assert "'values.npz' has the values of another graph" in refused.stderr
    (folder / "dump").mkdir()
    with np.load("values.npz") as values:
        for name in ("x", "product", "y"):
            np.save(f"dump/{name}.npy", values[name])
    found = call("doctor", "other.yaml", "--device", "cpu", "--golden", "dump", "--json", "--image", "where.svg")
    told = json.loads(found.stdout)
    assert (found.exit_code, told["kind"], told["node"]) == (1, "recorded", "product")
    assert told["place"] == "other.yaml:5:3"
    assert told["measures"]["differing"] == 1
    assert told["places"] == ["axis 0: only 3 of 0 to 3"]
    assert (folder / "where.svg").read_text("utf-8").startswith("<svg ")


def test_recorded_values_need_the_inputs_of_which_they_are() -> None:
    """Random numbers in their place would accuse the first node."""
    call("golden", "graph.yaml", "-o", "values.npz")
    with np.load("values.npz") as values:
        np.savez("dump.npz", product=values["product"])
        np.save("x.npy", values["x"])
    command = ("doctor", "graph.yaml", "--device", "cpu", "--golden", "dump.npz")
    refused = call(*command)
    assert refused.exit_code == 1
    assert "error[missing-input]: node 'x': is not recorded in 'dump.npz'" in refused.stderr
    assert call(*command, "--input", "x=x.npy").stdout.splitlines()[1] == "  1 recorded value agrees"


def test_only_chosen_values_are_recorded() -> None:
    assert call("golden", "graph.yaml", "-o", "v.npz", "--keep", "product").stdout == "v.npz: 3 values\n"
    assert "there is no node of this name" in call("golden", "graph.yaml", "-o", "v.npz", "--keep", "z").stderr


@pytest.mark.skipif(sys.platform != "linux", reason="the software adapter is that of Linux")
def test_a_fault_is_reported(directml_path: pathlib.Path, folder: pathlib.Path) -> None:
    assert directml_path
    from dmlgraph.devices.directml.software import adapter

    planted = adapter.load()
    planted.plant_fault("log")
    assert call("run", "graph.yaml", "--device", "directml:software", "--random", "0", "--no-fuse").exit_code == 0
    try:
        planted.plant_fault(f"kernel={planted.dispatched()[0]},element,float32")
        command = "doctor", "graph.yaml", "--device", "directml:software", "--no-fuse"
        done, treated = call(*command), call(*command, "-o", "diagnosis", "--json")
    finally:
        planted.plant_fault("")
    lines = done.stdout.splitlines()
    assert done.exit_code == 1
    assert lines[0] == "graph.yaml:5:3: directml:software computes 'product' wrong"
    assert lines[1] == "  multiply of float32 [4], float32 [4]"
    assert "  axis 0: only 1 of 0 to 3" in lines
    assert lines[-2:] == ["  | @  |", "  5 executions on the device"]
    assert json.loads(treated.stdout)["node"] == "product"
    assert "report.txt: the report, for the vendor" in treated.stderr
    report = (folder / "diagnosis" / "report.txt").read_text("utf-8")
    assert "multiply" in report
    assert "product" not in report
    assert len((folder / "diagnosis" / "case.yaml").read_text("utf-8").splitlines()) < 20


@pytest.mark.skipif(sys.platform != "linux", reason="the software adapter is that of Linux")
def test_a_fault_that_vanishes_is_told_and_gone_round(directml_path: pathlib.Path, folder: pathlib.Path) -> None:
    assert directml_path
    from dmlgraph.devices.directml.software import adapter

    (folder / "products.yaml").write_text(PRODUCTS, "utf-8")
    planted = adapter.load()
    planted.plant_fault("log")
    assert call("run", "products.yaml", "--device", "directml:software", "--random", "0", "--no-fuse").exit_code == 0
    try:
        planted.plant_fault(f"kernel={planted.dispatched()[0]},dispatch=4,reused,row=8,float32")
        command = "doctor", "products.yaml", "--device", "directml:software", "--no-fuse"
        done = call(*command, "-o", "found", "--image", "i.svg")
    finally:
        planted.plant_fault("")
    lines = done.stdout.splitlines()
    assert done.exit_code == 1
    assert lines[0] == (
        "directml:software computes the whole graph wrong, and every node right when the values between are outputs"
    )
    assert "i.svg: not written, because no values of a node are wrong" in lines
    assert "a way round it: with an output more, with which the whole graph is right" in lines
    assert (folder / "found" / "detoured.yaml").exists()
    report = (folder / "found" / "report.txt").read_text("utf-8")
    assert "Each node is right alone" in report
    assert "with an output more: A value between the nodes is an output of the graph, too." in report


def test_nothing_is_written_of_a_sound_device(folder: pathlib.Path) -> None:
    done = call("doctor", "graph.yaml", "--device", "cpu", "-o", "diagnosis")
    assert done.exit_code == 0
    assert done.stdout.splitlines()[-1].startswith("diagnosis: not written, because no node")
    assert not (folder / "diagnosis").exists()
