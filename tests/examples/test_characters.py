"""The transformer on characters: it learns, and each step follows PyTorch."""

from __future__ import annotations

import pathlib
import runpy
from typing import Any

import numpy as np
import pytest
from support import pytorch

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName

Array = np.ndarray[Any, Any]
STEPS: dict[str, int] = {"reference": 4, "cpu": 100, "directml:software": 30}
BOUND = 2e-6  # rounding differences grow from step to step, here to 1e-7


@pytest.fixture(scope="session")
def example(examples: pathlib.Path) -> dict[str, Any]:
    return runpy.run_path(str(examples / "characters" / "characters.py"))


def batches_of(example: dict[str, Any]) -> list[Array]:
    """Random rows of the text."""
    rows, random = example["tokens_of"]("\n".join(example["topics"].values())), np.random.default_rng(3)
    return [rows[random.choice(len(rows), example["BATCH"])] for _ in range(pytorch.STEPS)]


@pytest.fixture(scope="session")
def batches(example: dict[str, Any]) -> list[Array]:
    return batches_of(example)


def test_each_step_follows_pytorch(example: dict[str, Any], batches: list[Array], device: DeviceName) -> None:
    exe, steps, expected = example["training_graph"]().compile(device), STEPS[device], pytorch.losses("characters")
    losses = [exe.run({"tokens": tokens})["loss"].item() for tokens in batches[:steps]]
    np.testing.assert_allclose(losses, expected[:steps], rtol=BOUND)
    assert expected[-1] < 3 < np.log(example["CODES"]) < expected[0]


def test_the_file_trains_as_the_script(example: dict[str, Any], batches: list[Array], examples: pathlib.Path) -> None:
    graph = dg.load(examples / "characters" / "characters.yaml")
    training = graph.origin.training
    step, name = training.step(training.model(graph))
    exe, other = step.compile("cpu"), example["training_graph"]().compile("cpu")
    for tokens in batches[:3]:
        np.testing.assert_array_equal(exe.run({"tokens": tokens})[name], other.run({"tokens": tokens})["loss"])


def test_the_script_prints_the_loss(example: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    losses = example["train"](20, "cpu")
    assert capsys.readouterr().out == f"step 20: {np.mean(losses):.3f}\n"
    assert losses[-1] < losses[0]
