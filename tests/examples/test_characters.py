"""The transformer on characters: it learns, and each step follows JAX."""

from __future__ import annotations

import pathlib
import runpy
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName

Array = np.ndarray[Any, Any]
STEPS: dict[str, int] = {"reference": 3, "cpu": 100, "directml:software": 3}
BOUND = 2e-6  # rounding differences grow from step to step, here to 1e-7


@pytest.fixture(scope="session")
def example(examples: pathlib.Path) -> dict[str, Any]:
    return runpy.run_path(str(examples / "characters" / "characters.py"))


@pytest.fixture(scope="session")
def batches(example: dict[str, Any]) -> list[Array]:
    rows, random = example["tokens_of"]("\n".join(example["topics"].values())), np.random.default_rng(3)
    return [rows[random.choice(len(rows), example["BATCH"])] for _ in range(max(STEPS.values()))]


def norm(x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)


def loss(weights: dict[str, Any], tokens: Any) -> Any:
    """The same network in JAX."""
    x = weights["embedding"][tokens[:, :-1]] + weights["position"]
    batch, length, width = x.shape
    parts = (norm(x) @ weights["qkv"]).reshape(batch, length, 3, 2, width // 2)
    q, k, v = (parts[:, :, index].transpose(0, 2, 1, 3) for index in range(3))
    scores = q @ k.swapaxes(-1, -2) / jnp.sqrt(width // 2)
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -jnp.inf)
    seen = jax.nn.softmax(scores, -1) @ v
    x = x + seen.transpose(0, 2, 1, 3).reshape(batch, length, width) @ weights["out"]
    x = x + jax.nn.gelu(norm(x) @ weights["up"], approximate=False) @ weights["down"]
    logs = jax.nn.log_softmax(norm(x) @ weights["head"])
    return -jnp.take_along_axis(logs, tokens[:, 1:, None], -1).mean()


@pytest.fixture(scope="session")
def expected(example: dict[str, Any], batches: list[Array]) -> list[float]:
    """The losses with the same batches and optimizer in JAX."""

    def train(step: Any, state: Any, tokens: Any) -> Any:
        weights, first, second = state
        value, gradients = jax.value_and_grad(loss)(weights, tokens)
        length = jnp.sqrt(sum(jnp.square(each).sum() for each in gradients.values()))
        gradients = jax.tree.map(lambda g: g * jnp.minimum(1 / (length + 1e-6), 1), gradients)
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradients)
        rate = 3e-3 * jnp.minimum(1.0, step / 20) / (1 - 0.9**step)
        weights = jax.tree.map(
            lambda w, m, v: w - rate * m / (jnp.sqrt(v / (1 - 0.999**step)) + 1e-8), weights, first, second
        )
        return value, (weights, first, second)

    states = example["training_graph"]().compile("cpu").states
    jitted, losses = jax.jit(train), []
    with jax.enable_x64(True):
        weights = {name: np.float64(states[name]) for name in example["WEIGHTS"]}
        zeros = jax.tree.map(np.zeros_like, weights)
        state: Any = (weights, zeros, zeros)
        for step, tokens in enumerate(batches, 1):
            value, state = jitted(float(step), state, tokens)
            losses.append(float(value))
    return losses


def test_each_step_follows_jax(
    example: dict[str, Any], batches: list[Array], expected: list[float], device: DeviceName
) -> None:
    exe, steps = example["training_graph"]().compile(device), STEPS[device]
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
