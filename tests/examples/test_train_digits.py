"""The digits trained from scratch: a short run learns to read them, and each step follows PyTorch."""

from __future__ import annotations

import pathlib
import runpy
from typing import Any

import numpy as np
import pytest
from support import pytorch

from dmlgraph.devices.names import DeviceName

# Rounding differences grow from step to step.  PyTorch in float32 is up to 4e-3 away from itself in float64.
BOUND = 5e-3
STEPS: dict[str, int] = {"reference": 100, "cpu": 100, "directml:software": 100}
Batches = list[tuple[Any, Any]]


@pytest.fixture(scope="session")
def example(examples: pathlib.Path) -> dict[str, Any]:
    return runpy.run_path(str(examples / "train_digits.py"))


def test_it_learns(example: dict[str, Any]) -> None:
    losses, right = example["train"](2, "cpu")
    assert losses[1] < losses[0] / 2
    assert right > 0.85


def batches_of(example: dict[str, Any]) -> Batches:
    """Random ones."""
    digits, random = example["load_digits"](), np.random.default_rng(7)
    batches = []
    for _ in range(pytorch.STEPS):
        chosen = random.choice(len(digits.target), example["BATCH"], replace=False)
        batches.append((digits.images[chosen, None].astype(np.float32), digits.target[chosen].astype(np.int32)))
    return batches


def test_each_step_follows_pytorch(example: dict[str, Any], device: DeviceName) -> None:
    exe, expected = example["training_graph"]().compile(device), pytorch.losses("digits")
    batches = batches_of(example)[: STEPS[device]]
    losses = [exe.run({"pixels": pixels, "labels": labels})["loss"].item() for pixels, labels in batches]
    np.testing.assert_allclose(losses, expected[: len(losses)], atol=BOUND)
    np.testing.assert_allclose(losses[:20], expected[: min(20, len(losses))], rtol=1e-4)
    assert np.mean(expected[-10:]) < expected[0] / 5
