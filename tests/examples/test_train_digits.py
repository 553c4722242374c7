"""The digits trained from scratch: a short run learns to read them, and each step follows JAX."""

from __future__ import annotations

import pathlib
import runpy
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dmlgraph.devices.names import DeviceName

# Rounding differences grow from step to step.  JAX in float32 is up to 4e-3 away from itself in float64.
BOUND = 5e-3
STEPS: dict[str, int] = {"reference": 2, "cpu": 100, "directml:software": 2}
Batches = list[tuple[Any, Any]]


@pytest.fixture(scope="session")
def example(examples: pathlib.Path) -> dict[str, Any]:
    return runpy.run_path(str(examples / "train_digits.py"))


def test_it_learns(example: dict[str, Any]) -> None:
    losses, right = example["train"](2, "cpu")
    assert losses[1] < losses[0] / 2
    assert right > 0.85


def jax_losses(weights: dict[str, Any], batches: Batches) -> list[float]:
    """The losses of the same network, batches and optimizer in JAX, in float64."""

    def loss(weights: dict[str, Any], pixels: Any, labels: Any) -> Any:
        h = pixels / 16
        for name in ("first", "second", "last"):
            padding = "VALID" if name == "last" else "SAME"
            if name == "last":
                h = jax.lax.reduce_window(h, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
            h = jax.lax.conv(h, weights[f"{name}.weight"], (1, 1), padding)
            h = h + weights[f"{name}.bias"][None, :, None, None]
            h = h if name == "last" else jax.nn.relu(h)
        logs = jax.nn.log_softmax(h.reshape(len(labels), -1))
        return -jnp.take_along_axis(logs, labels[:, None], 1).mean()

    def train(step: Any, state: Any, pixels: Any, labels: Any) -> Any:
        weights, first, second = state
        value, gradients = jax.value_and_grad(loss)(weights, pixels, labels)
        rate = 3e-3 * jnp.minimum(1.0, step / 20)
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradients)
        scale = rate / (1 - 0.9**step), 1 / (1 - 0.999**step)
        weights = jax.tree.map(
            lambda w, m, v: w - scale[0] * m / (jnp.sqrt(v * scale[1]) + 1e-8), weights, first, second
        )
        return value, (weights, first, second)

    jitted = jax.jit(train)
    zeros = jax.tree.map(jnp.zeros_like, weights)
    state: Any = (weights, zeros, zeros)
    losses = []
    for step, (pixels, labels) in enumerate(batches, 1):
        value, state = jitted(float(step), state, pixels, labels)
        losses.append(float(value))
    return losses


@pytest.fixture(scope="session")
def expected(example: dict[str, Any]) -> tuple[Batches, list[float]]:
    """Random batches, and the losses with them in JAX."""
    digits, random = example["load_digits"](), np.random.default_rng(7)
    batches = []
    for _ in range(max(STEPS.values())):
        chosen = random.choice(len(digits.target), example["BATCH"], replace=False)
        batches.append((digits.images[chosen, None].astype(np.float32), digits.target[chosen].astype(np.int32)))
    states = example["training_graph"]().compile("cpu").states
    weights = {name: np.float64(states[name]) for name in states if "/" not in name}
    with jax.enable_x64(True):
        return batches, jax_losses(weights, [(np.float64(pixels), labels) for pixels, labels in batches])


def test_each_step_follows_jax(
    example: dict[str, Any], expected: tuple[Batches, list[float]], device: DeviceName
) -> None:
    batches, wanted = expected[0][: STEPS[device]], expected[1][: STEPS[device]]
    exe = example["training_graph"]().compile(device)
    losses = [exe.run({"pixels": pixels, "labels": labels})["loss"].item() for pixels, labels in batches]
    np.testing.assert_allclose(losses, wanted, atol=BOUND)
    np.testing.assert_allclose(losses[:20], wanted[:20], rtol=1e-4)
