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
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import helper

import dmlgraph as dg
from dmlgraph.cli.commands import main
from dmlgraph.formats.safetensors import Archive

Array = np.ndarray[Any, Any]
Weights = dict[str, Array]
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


ONNX_TRAINING = """\
training:
  loss: {op: softmax_cross_entropy, logits: scores, labels: label}
  parameters: [last.*]
  optimizer: {op: sgd, rate: 0.5}
"""
FIRST = np.array([[1, -1, 2], [0, 1, 1]], np.float32)  # {inputs, width}
LABEL = (X[:, 0] > X[:, 1]).astype(np.int32)


@pytest.fixture
def model(folder: pathlib.Path) -> Weights:
    """The weights of model.onnx, relu(x · first) · last + bias, as another tool writes it; its batch has no size."""
    weights = {"first": FIRST, "last.w": np.zeros((3, 2), np.float32), "last.b": np.zeros(2, np.float32)}
    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["h"]),
        helper.make_node("Relu", ["h"], ["relu"]),
        helper.make_node("Gemm", ["relu", "last.w", "last.b"], ["scores"]),
    ]
    values = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", 2]) for name in ("x", "scores")
    ]
    initializers = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "model", values[:1], values[1:], initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "model.onnx")
    (folder / "how.yaml").write_text(ONNX_TRAINING, "utf-8")
    np.save(folder / "label.npy", LABEL)
    return weights


def train_model(*arguments: str) -> Result:
    data = ("--input", "x=x.npy", "--input", "label=label.npy", "--dim", "batch=4", "--device", "cpu")
    result = CliRunner().invoke(main, ["train", "model.onnx", "--training", "how.yaml", *data, *arguments])
    assert result.exit_code == 0, result.stderr
    return result


def scores(weights: Weights, x: Array) -> Array:
    return np.asarray(np.maximum(x @ weights["first"], 0) @ weights["last.w"] + weights["last.b"])


def descended(weights: Weights, steps: int) -> tuple[list[float], Weights]:
    """The losses and the weights of the last layer's training, in NumPy and float64."""
    weights, found = {name: each.astype(np.float64) for name, each in weights.items()}, []
    for step in range(steps):
        order = np.random.default_rng([0, step // 5]).permutation(22)[step % 5 * 4 :][:4]
        h, exponentials = np.maximum(X[order] @ weights["first"], 0), np.exp(scores(weights, X[order]))
        shares = exponentials / exponentials.sum(1, keepdims=True)
        found.append(float(-np.log(shares[range(4), LABEL[order]]).mean()))
        error = (shares - np.eye(2)[LABEL[order]]) / 4
        changed = {"last.w": weights["last.w"] - 0.5 * h.T @ error, "last.b": weights["last.b"] - 0.5 * error.sum(0)}
        weights = weights | changed
    return found, weights


def test_a_model_is_trained_and_written_under_its_own_names(model: Weights) -> None:
    losses, weights = descended(model, 30)
    result = train_model("--steps", "30", "--save", "tuned.onnx", "--json")
    np.testing.assert_allclose(json.loads(result.stdout)["losses"], losses, rtol=1e-5)
    tuned = onnx.load("tuned.onnx")
    assert [each.name for each in (*tuned.graph.input, *tuned.graph.output)] == ["x", "scores"]
    assert tuned.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    held = {each.name: onnx.numpy_helper.to_array(each) for each in tuned.graph.initializer}
    for name, array in weights.items():
        np.testing.assert_allclose(held[name], array, rtol=1e-5, atol=1e-6)
    train_model("--steps", "30", "--save", "weights.safetensors")
    archive = Archive(pathlib.Path("weights.safetensors"), "")
    assert set(archive.entries) == {"last.w", "last.b"}
    np.testing.assert_array_equal(archive.read("last.w"), held["last.w"])
    train_model("--steps", "30", "--save", "tuned.yaml")
    again = dg.load("tuned.yaml", dims={"batch": 22})
    found = again.compile("reference").run({"x": X})["scores"]
    np.testing.assert_allclose(found, scores(weights, X), rtol=1e-5, atol=1e-6)


def test_a_model_is_adapted_by_pairs_that_the_weights_take_in(model: Weights, folder: pathlib.Path) -> None:
    pairs = "lora: {products: [h], rank: 2}"
    (folder / "how.yaml").write_text(ONNX_TRAINING.replace("parameters: [last.*]", pairs), "utf-8")
    random = np.random.default_rng(1).normal(size=(3, 2)).astype(np.float32)
    changed = onnx.load("model.onnx")
    changed.graph.initializer[1].CopyFrom(onnx.numpy_helper.from_array(random, "last.w"))
    onnx.save(changed, "model.onnx")
    held_out = ("--evaluate", "x=x.npy", "--evaluate", "label=label.npy")
    result = train_model("--steps", "30", "--save", "tuned.onnx", "--json", *held_out)
    tuned = {each.name: onnx.numpy_helper.to_array(each) for each in onnx.load("tuned.onnx").graph.initializer}
    assert not any("lora" in name for name in tuned)
    np.testing.assert_array_equal(tuned["last.w"], random)
    assert abs(tuned["first"] - FIRST).max() > 0.1
    logits = scores(tuned | {"last.b": model["last.b"]}, X[:20].astype(np.float64))
    expected = np.log(np.exp(logits).sum(1)) - logits[range(20), LABEL[:20]]
    assert json.loads(result.stdout)["evaluated"]["loss"] == pytest.approx(expected.mean(), rel=1e-5)
    train_model("--steps", "1", "--save", "pairs.safetensors")
    assert set(Archive(pathlib.Path("pairs.safetensors"), "").entries) == {"lora/h/down", "lora/h/up"}


@pytest.mark.usefixtures("model")
def test_a_model_needs_a_file_that_says_how() -> None:
    result = CliRunner().invoke(main, ["train", "model.onnx", "--dim", "batch=4", "--device", "cpu"])
    assert result.exit_code == 1
    assert "--training takes a file with training: {loss: error" in result.stderr
    result = CliRunner().invoke(main, ["train", "-", "--training", "how.yaml", "--device", "cpu"], input=LINE)
    assert result.exit_code == 2
    assert "--training needs a graph in a file of its own" in result.stderr


def test_a_file_must_say_how_it_is_trained(folder: pathlib.Path) -> None:
    (folder / "line.yaml").write_text("\n".join(LINE.splitlines()[:-1]), "utf-8")
    result = call()
    assert result.exit_code == 1
    assert "error[missing]: field 'training': the file does not say how the graph is trained" in result.stderr


def test_a_file_that_somebody_wrote_is_refused_before_the_training(folder: pathlib.Path) -> None:
    (folder / "mine.yaml").write_text("dmlgraph: 1  # mine\n", "utf-8")
    result = call("--steps", "1", "--save", "mine.yaml")
    assert result.exit_code == 1
    assert "step 1" not in result.output
    assert "error[unwritable]: 'mine.yaml' exists, and dmlgraph has not written it" in result.stderr
    assert (folder / "mine.yaml").read_text("utf-8") == "dmlgraph: 1  # mine\n"
    assert call("--steps", "1", "--save", "mine.yaml", "--force").exit_code == 0
    assert list(dg.load(folder / "mine.yaml").outputs) == ["y"]
