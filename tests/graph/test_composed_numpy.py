"""NumPy's functions of values compute what they compute of arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlgraph as dg

X = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
Y = np.random.default_rng(1).normal(size=(2, 3, 4)).astype(np.float32)

FUNCTIONS: list[Callable[[Any, Any], Any]] = [
    lambda x, y: np.sum(x, axis=1),
    lambda x, y: np.mean(x, axis=(0, 2), keepdims=True),
    lambda x, y: np.max(x, -1) - np.amin(y, -1),
    lambda x, y: np.var(x, axis=-1, keepdims=True),
    lambda x, y: np.std(x, 1),
    lambda x, y: np.argmax(x, axis=-1),
    lambda x, y: np.argmin(x, axis=0, keepdims=True),
    lambda x, y: np.concatenate([x, y], axis=-1),
    lambda x, y: np.concatenate([x, np.ones((1, 3, 4), np.float32)]),
    lambda x, y: np.stack([x, y, x], axis=1),
    lambda x, y: np.split(x, 2, axis=2)[1],
    lambda x, y: np.split(x, [1, 3], axis=-1)[1],
    lambda x, y: np.where(x > y, x, np.float32(0)),
    lambda x, y: np.clip(x, -0.5, 0.25),
    lambda x, y: np.clip(x, None, 0),
    lambda x, y: np.dot(np.reshape(x, (6, 4)), np.transpose(np.reshape(y, (6, 4)))),
    lambda x, y: np.transpose(x, (2, 0, 1)),
    lambda x, y: np.swapaxes(np.expand_dims(x, 0), 1, 2),
    lambda x, y: np.squeeze(np.max(x, axis=1, keepdims=True)),
    lambda x, y: np.broadcast_to(x[:1], (2, 3, 4)) + np.ravel(y)[:4],
    lambda x, y: np.full_like(x, 3) + np.ones_like(y) * np.shape(x)[1] - np.zeros_like(x) * np.ndim(x) * np.size(x),
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_result_is_that_of_arrays(function: Callable[[Any, Any], Any]) -> None:
    g = dg.Graph()
    x, y = (g.input(name, sizes=X.shape, dtype="float32") for name in "xy")
    g.output("z", function(x, y))
    with g.compile("cpu") as executable:
        np.testing.assert_allclose(executable.run({"x": X, "y": Y})["z"], function(X, Y), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda x: np.pad(x, 1), r"no operators compute np.pad of values .*dg\.padding"),
        (lambda x: np.hstack([x, x]), r"np.hstack .*dg\.join"),
        (np.linalg.norm, r"np.linalg.norm .*dg\.reduce"),
        (lambda x: np.einsum("ij->ji", x), "np.einsum .*gemm"),
        (lambda x: np.clip(x, 0, 1, np.zeros(3)), "np.clip of values .* too many positional .*a, a_min, a_max"),
        (lambda x: np.split(x, 4, axis=1), "cannot be split into equal parts; got 3; allowed: a multiple of 4"),
        (lambda x: np.stack([x, X]), r"np.stack takes values of a graph; .*graph\.constant"),
        (lambda x: np.dot(x, x), "np.dot of more than two dimensions .*a @ b"),
    ],
)
def test_what_no_operators_compute_is_an_error_with_what_to_write(function: Callable[[Any], Any], said: str) -> None:
    x = dg.Graph().input("x", sizes=X.shape, dtype="float32")
    with pytest.raises(dg.DmlGraphError, match=said):
        function(x)


def test_a_value_is_no_number_or_array() -> None:
    x = dg.Graph().input("x", sizes=[2, 2], dtype="float32")
    for function in (np.asarray, np.array, float):
        with pytest.raises(TypeError, match="has numbers only when it runs"):
            function(x)
    with pytest.raises(TypeError, match=r"value\.sizes"):
        len(x)
