"""`dmlgraph train`: the loss as it goes, what is written, and checkpoints from which a killed training goes on."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import time
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from click.testing import CliRunner, Result

import dmlgraph as dg
from dmlgraph.cli.commands import main
from dmlgraph.formats.safetensors import Archive

LINE = """\
dmlgraph: 1
name: line
inputs:
  x: {dtype: float32, sizes: [4, 2]}
  target: {dtype: float32, sizes: [4, 1]}
constants:
  line.w: {dtype: float32, sizes: [2, 1], data: [0, 0]}
  line.b: {dtype: float32, sizes: [1], data: [0]}
nodes:
  p: {op: gemm, a: x, b: line.w}
  y: {op: add, a: p, b: line.b}
  squares: {op: difference_square, a: y, b: target}
  error: {op: reduce, input: squares, function: average}
outputs: [y]
training: {loss: error, parameters: ["line.*"], optimizer: {op: adam, rate: 0.05}}
"""
X = np.random.default_rng(0).normal(size=(22, 2)).astype(np.float32)
TARGET = X @ np.array([[2], [-1]], np.float32) + np.float32(0.5)
DATA = ("--input", "x=x.npy", "--input", "target=target.npy", "--device", "cpu")


@pytest.fixture(autouse=True)
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "line.yaml").write_text(LINE, "utf-8")
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "target.npy", TARGET)
    return tmp_path


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["train", "line.yaml", *DATA, *arguments])


def losses(*arguments: str) -> list[float]:
    result = call("--json", *arguments)
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    assert found["steps"] == len(found["losses"])
    return list(found["losses"])


def adam(steps: int, seed: int) -> list[float]:
    """The losses of the same training, in NumPy and float64."""
    w = np.zeros(3)
    first, second, found = np.zeros(3), np.zeros(3), []
    for step in range(steps):
        order = np.random.default_rng([seed, step // 5]).permutation(22)[step % 5 * 4 :][:4]
        inputs = np.hstack([X[order], np.ones((4, 1))])
        error = inputs @ w - TARGET[order, 0]
        found.append(float(np.square(error).mean()))
        gradient = 2 / 4 * inputs.T @ error
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        w = w - 0.05 * first / (1 - 0.9 ** (step + 1)) / (np.sqrt(second / (1 - 0.999 ** (step + 1))) + 1e-8)
    return found


def test_the_losses_are_those_of_the_same_steps() -> None:
    np.testing.assert_allclose(losses("--steps", "12", "--seed", "3"), adam(12, 3), rtol=1e-4)


def test_the_loss_is_shown_as_it_goes_and_evaluated_on_the_same_states() -> None:
    held_out = ("--evaluate", "x=x.npy", "--evaluate", "target=target.npy")
    result = call("--steps", "40", "--save", "weights.safetensors", *held_out)
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == [*(f"step {2 * each}" for each in range(1, 21)), "held out"]
    expected = adam(40, 0)
    assert float(lines[19].split()[-1]) == pytest.approx(np.mean(expected[-2:]), rel=1e-3)
    archive = Archive(pathlib.Path("weights.safetensors"), "weights.safetensors")
    assert set(archive.entries) == {"line.w", "line.b"}
    error = X[:20] @ archive.read("line.w") + archive.read("line.b") - TARGET[:20]
    assert lines[-1].startswith("held out: loss ")
    assert float(lines[-1].split()[-1]) == pytest.approx(float(np.square(error).mean()), rel=1e-4)


@pytest.mark.parametrize("name", ["tuned.onnx", "tuned.yaml"])
def test_the_model_is_written(name: str) -> None:
    call("--steps", "20", "--save", name)
    call("--steps", "20", "--save", "weights.safetensors")
    tuned = dg.load(name)
    assert not tuned.states
    weights = Archive(pathlib.Path("weights.safetensors"), "weights.safetensors")
    found = tuned.compile("reference").run({"x": X[:4], "target": TARGET[:4]})["y"]
    np.testing.assert_allclose(found, X[:4] @ weights.read("line.w") + weights.read("line.b"), rtol=1e-6)


def test_the_picture_shows_all_steps() -> None:
    call("--steps", "30", "--picture", "loss.svg")
    tree = ElementTree.parse("loss.svg")
    (line,) = tree.iter("{http://www.w3.org/2000/svg}polyline")
    assert len(line.attrib["points"].split()) == 30


def test_a_killed_training_goes_on_bit_for_bit(folder: pathlib.Path) -> None:
    checkpoint = folder / "run.safetensors"
    command = [sys.executable, "-P", "-m", "dmlgraph.cli", "train", "line.yaml", *DATA, "--steps", "1000000"]
    process = subprocess.Popen(
        [*command, "--checkpoint", str(checkpoint), "--every", "7"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while not checkpoint.exists():
            assert process.poll() is None
            time.sleep(0.01)
    finally:
        process.kill()
        process.wait()
    reached = Archive(checkpoint, "").read("dmlgraph.checkpoint/losses").size
    assert reached >= 7
    assert reached % 7 == 0
    steps = str(reached + 10)
    again = losses("--steps", steps, "--checkpoint", str(checkpoint), "--every", "3", "--save", "again.safetensors")
    assert again == losses("--steps", steps, "--save", "whole.safetensors")
    files = [Archive(pathlib.Path(f"{name}.safetensors"), name) for name in ("again", "whole")]
    for name in ("line.w", "line.b"):
        one, other = (file.read(name) for file in files)
        np.testing.assert_array_equal(one.view(np.uint32), other.view(np.uint32))


def test_a_finished_training_takes_no_step() -> None:
    first = losses("--steps", "9", "--checkpoint", "run.safetensors")
    result = call("--json", "--steps", "9", "--checkpoint", "run.safetensors")
    assert json.loads(result.stdout)["losses"] == first
    assert "goes on after step 9: 'run.safetensors'" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--seed", "1"), r"'run.safetensors' is the checkpoint of another training"),
        (("--checkpoint", "x.npy"), "is a broken safetensors file"),
    ],
)
def test_a_checkpoint_must_be_of_this_training(arguments: tuple[str, ...], message: str) -> None:
    losses("--steps", "2", "--checkpoint", "run.safetensors")
    result = call("--steps", "4", "--checkpoint", "run.safetensors", *arguments)
    assert result.exit_code == 1
    assert message in result.stderr


def test_a_loss_that_is_not_finite_is_told(folder: pathlib.Path) -> None:
    np.save(folder / "target.npy", TARGET * np.float32(np.inf))
    result = call("--steps", "2", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["losses"][0] in ("inf", "nan")
    assert "the loss is not finite at step 1" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("--input", "x=x.npy"), 2, "'x' is given twice"),
        (("--steps", "0"), 2, "--steps"),
        (("--save", "weights.bin"), 2, "must end in one of .safetensors, .onnx, .yaml, .yml"),
        (("--save", "none/weights.onnx"), 1, f"cannot write '{pathlib.Path('none', 'weights.onnx')}'"),
        (("--evaluate", "x=x.npy"), 1, "inputs are missing: target"),
        (("--input", "z=x.npy"), 1, "'z'"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], status: int, message: str) -> None:
    result = call("--steps", "1", *arguments)
    assert result.exit_code == status
    assert message in result.stderr


def test_a_file_must_say_how_it_is_trained(folder: pathlib.Path) -> None:
    (folder / "line.yaml").write_text("\n".join(LINE.splitlines()[:-1]), "utf-8")
    result = call()
    assert result.exit_code == 1
    assert "error[missing]: field 'training': the file does not say how the graph is trained" in result.stderr
