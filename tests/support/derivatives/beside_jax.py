"""Gradients of a graph beside those of JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import dmlgraph as dg
from dmlgraph.devices.names import DeviceName

Array = np.ndarray[Any, Any]


def random(*sizes: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=sizes).astype(np.float32)


def assert_same(
    build: Callable[..., dg.Value],
    expected: Callable[..., Any],
    *arrays: Array,
    device: DeviceName = "cpu",
    relative: float = 2e-4,
) -> None:
    """The sum of sin of what both compute has the same gradients by all float arrays."""
    g = dg.Graph("network")
    values = [g.input(f"x{index}", sizes=each.shape, dtype=each.dtype) for index, each in enumerate(arrays)]
    floats = [index for index, each in enumerate(arrays) if each.dtype.kind == "f"]
    loss = dg.reduce(dg.sin(build(*values)), function="sum").reshape(1)
    for index, gradient in zip(floats, dg.gradient(loss, [values[index] for index in floats]), strict=True):
        g.output(f"gradient {index}", gradient)
    results = g.compile(device).run({f"x{index}": each for index, each in enumerate(arrays)})
    wanted = jax.jit(jax.grad(lambda *given: jnp.sin(expected(*given)).sum(), argnums=tuple(floats)))(*arrays)
    for index, each in zip(floats, wanted, strict=True):
        np.testing.assert_allclose(results[f"gradient {index}"], each, relative, 2e-5, err_msg=f"of input {index}")
