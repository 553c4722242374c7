"""Layers of networks that are made of several operators: their gradients are JAX's."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from support.derivatives.beside_jax import assert_same, random

import dmlgraph as dg
from dmlgraph.graph.nodes import OperatorNode


def test_group_normalization() -> None:
    """Of 6 channels in 3 groups: views around MEAN_VARIANCE_NORMALIZATION1."""

    def build(x: dg.Value, scale: dg.Value, bias: dg.Value) -> dg.Value:
        groups = x.reshape(2, 3, 2, 4, 4)
        normal = dg.mean_variance_normalization1(groups, axes=[2, 3, 4], normalize_variance=True, epsilon=1e-5)
        return normal.reshape(2, 6, 4, 4) * scale + bias

    def expected(x: Any, scale: Any, bias: Any) -> Any:
        groups = x.reshape(2, 3, -1)
        mean, variance = groups.mean(-1, keepdims=True), groups.var(-1, keepdims=True)
        return ((groups - mean) / jnp.sqrt(variance + 1e-5)).reshape(x.shape) * scale + bias

    assert_same(build, expected, random(2, 6, 4, 4), random(1, 6, 1, 1, seed=1), random(1, 6, 1, 1, seed=2))


def test_embedding_with_repeated_indices() -> None:
    indices = np.array([[3, 1, 3], [0, 3, 1]], np.int32)

    def build(table: dg.Value, indices: dg.Value) -> dg.Value:
        return dg.gather(table.reshape(1, 5, 4), indices.reshape(1, 1, 6), axis=1, index_dimensions=1).reshape(2, 3, 4)

    assert_same(build, lambda table, indices: table[indices], random(5, 4), indices)


def test_dropout() -> None:
    """The elements that the generator dropped have no gradient; the others have it times 1 / (1 − p)."""
    g = dg.Graph("dropout")
    x = g.input("x", sizes=[64], dtype="float32")
    state = g.state("random", sizes=[6], dtype="uint32", initial=np.array([0, 0, 0, 0, 7, 9], np.uint32))
    drawn = dg.random_generator(state, output={"sizes": [64]}, output_state=True)
    g.update(state, drawn.output_state)
    kept = dg.cast(drawn.output > 2**31, dtype="float32") * 2
    y = x * kept
    g.output("y", y)
    g.output("dx", dg.gradient(dg.reduce(y, function="sum"), [x])[0])
    exe = g.compile("cpu")
    seen = []
    for _ in range(2):
        results = exe.run({"x": np.ones(64, np.float32)})
        np.testing.assert_array_equal(results["dx"], results["y"])
        assert 10 < (results["dx"] == 0).sum() < 54
        assert set(results["dx"]) == {0, 2}
        seen.append(results["dx"])
    assert (seen[0] != seen[1]).any(), "each run draws others"


def test_lstm_cell() -> None:
    def build(x: dg.Value, h: dg.Value, c: dg.Value, w: dg.Value) -> dg.Value:
        i, f, o, n = dg.split(dg.join([x, h], axis=1) @ w, axis=1, outputs=4)
        new = dg.activation_sigmoid(f) * c + dg.activation_sigmoid(i) * dg.activation_tanh(n)
        return dg.activation_sigmoid(o) * dg.activation_tanh(new)

    def expected(x: Any, h: Any, c: Any, w: Any) -> Any:
        i, f, o, n = jnp.split(jnp.concatenate([x, h], 1) @ w, 4, 1)
        new = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(n)
        return jax.nn.sigmoid(o) * jnp.tanh(new)

    assert_same(build, expected, random(2, 3), random(2, 4, seed=1), random(2, 4, seed=2), random(7, 16, seed=3))


def test_the_steps_of_a_network_are_joined_at_once() -> None:
    """No gradient of a step is added to those of others as a tensor of all steps."""

    def operators(steps: int) -> list[str]:
        g = dg.Graph("steps")
        x = g.input("x", sizes=[1, steps, 2, 3], dtype="float32")
        weights = [g.input(name, sizes=[1, 1, 8, size], dtype="float32") for name, size in (("w", 3), ("r", 2))]
        functions = ["activation_sigmoid", "activation_tanh", "activation_tanh"]
        made: Any = dg.lstm(x, *weights, direction="forward", activation_descs=functions, output_single=True)
        before = len(g.nodes)
        dg.gradient(dg.reduce(made.output_single, function="sum"), [x, *weights])
        return [node.operator.name for node in g.nodes[before:] if isinstance(node, OperatorNode)]

    few, many = operators(3), operators(6)
    assert few.count("join") < many.count("join")  # of the gates, at each step
    assert [many.count(name) - few.count(name) for name in ("slice_grad", "padding")] == [0, 0]


def test_transformer_block() -> None:
    """Attention by DirectML's operator, a normalization and a GELU, each with a connection around."""
    width, heads = 8, 2

    def build(x: dg.Value, qkv: dg.Value, out: dg.Value, up: dg.Value, down: dg.Value) -> dg.Value:
        q, k, v = dg.split(x @ qkv, axis=2, outputs=3)
        x = x + dg.multihead_attention(q, k, v, scale=0.5, head_count=heads) @ out
        normal = dg.mean_variance_normalization1(
            x.reshape(2, 3, 1, width), axes=[3], normalize_variance=True, epsilon=1e-5
        )
        return x + dg.activation_gelu(normal.reshape(2, 3, width) @ up) @ down

    def expected(x: Any, qkv: Any, out: Any, up: Any, down: Any) -> Any:
        q, k, v = (each.reshape(2, 3, heads, -1).transpose(0, 2, 1, 3) for each in jnp.split(x @ qkv, 3, 2))
        weights = jax.nn.softmax(0.5 * q @ k.transpose(0, 1, 3, 2))
        x = x + (weights @ v).transpose(0, 2, 1, 3).reshape(2, 3, width) @ out
        normal = (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return x + jax.nn.gelu(normal @ up, approximate=False) @ down

    arrays = [random(2, 3, width)] + [
        random(*sizes, seed=seed) * 0.4
        for seed, sizes in enumerate(((width, 24), (width, width), (width, 16), (16, width)), 1)
    ]
    assert_same(build, expected, *arrays, relative=1e-3)


def test_a_network_of_convolutions() -> None:
    def build(x: dg.Value, first: dg.Value, second: dg.Value) -> dg.Value:
        h = dg.activation_relu(dg.convolution(x, first, start_padding=[1, 1], end_padding=[1, 1], strides=[2, 2]))
        h = dg.convolution(h, second, group_count=2, dilations=[2, 2])
        return dg.average_pooling(dg.activation_swish(h, sigmoid_input_scale=1), window_size=[2, 2], strides=[2, 2])

    def expected(x: Any, first: Any, second: Any) -> Any:
        h = jax.nn.relu(jax.lax.conv_general_dilated(x, first, (2, 2), ((1, 1), (1, 1))))
        h = jax.lax.conv_general_dilated(h, second, (1, 1), "VALID", rhs_dilation=(2, 2), feature_group_count=2)
        sums = jax.lax.reduce_window(jax.nn.silu(h), 0.0, jax.lax.add, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        return sums / 4

    assert_same(build, expected, random(2, 3, 16, 16), random(4, 3, 3, 3, seed=1) * 0.3, random(6, 2, 3, 3, seed=2))
