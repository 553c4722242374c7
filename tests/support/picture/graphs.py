"""Graphs that the tests of pictures draw."""

from __future__ import annotations

import numpy as np

import dmlgraph as dg
from dmlgraph.picture.drawing import Drawing, draw

HOSTILE = '<script>alert("1")</script> & \\N ]]> #35; 层 "é'  # printable, so it may be a name


def ramp() -> dg.Graph:
    """One node of every kind except a fused one: an input, a constant, two fills, operators, an output."""
    g = dg.Graph("ramp")
    x = g.input("x", sizes=[2, 3], dtype="float32")
    w = g.constant("w", np.array([[1, 2, 3]], np.float32))
    steps = g.fill_value_sequence(sizes=[2, 3], dtype="float32", value_start=3, value_delta=-2, name="steps")
    seven = g.fill_value_constant(sizes=[1, 1], dtype="float32", value=7, name="seven")
    scaled = dg.multiply(x, steps, name="scaled")
    shifted = dg.add(scaled, w, name="shifted")
    g.output("y", dg.clip(dg.add(shifted, seven, name="more"), min=0, max=4, name="clipped"))
    return g


def dense() -> dg.Graph:
    """Two products with the same weight, the first with a bias."""
    g = dg.Graph("dense")
    x = g.input("x", sizes=[1, 4], dtype="float32")
    w, bias = g.constant("w", np.ones((4, 4), np.float32)), g.constant("bias", np.full((1, 4), 0.5, np.float32))
    g.output("y", dg.gemm(dg.gemm(x, w, bias, name="product"), w, name="again"))
    return g


def decoder(layers: int, separator: str | None, weights: str = "model") -> dg.Graph:
    """A decoder of 22 nodes a layer.

    Args:
        layers: how many.
        separator: between the parts of nodes' names; None: nodes are named by their operators.
        weights: what their names begin with; "w": they tell nothing of the layer.
    """
    g = dg.Graph("decoder")

    def named(*parts: object) -> str | None:
        return None if separator is None else separator.join(map(str, parts))

    def weight(*parts: object) -> dg.Value:
        name = f"w{len(g.nodes)}" if weights == "w" else ".".join(map(str, (weights, *parts)))
        return g.constant(name, np.full((4, 4), 0.1, np.float32))

    value = g.input("ids", sizes=[4, 4], dtype="float32")
    for layer in range(layers):
        at = ("layers", layer)

        def linear(x: dg.Value, *parts: object, at: tuple[object, ...] = at) -> dg.Value:
            return dg.gemm(x, weight(*at, *parts, "weight"), name=named(*at, *parts))

        def norm(x: dg.Value, name: str, at: tuple[object, ...] = at) -> dg.Value:
            whole = {"normalize_variance": True, "epsilon": 1e-5}
            return dg.mean_variance_normalization1(x, axes=[1], name=named(*at, name), **whole)  # type: ignore[arg-type]

        x = norm(value, "norm")
        q, k, v = (linear(x, "attn", name) for name in "qkv")
        scores = dg.gemm(q, k, trans_b="transpose", name=named(*at, "attn", "scores"))
        shares = dg.activation_softmax1(scores, axes=[1], name=named(*at, "attn", "shares"))
        mixed = dg.gemm(shares, v, name=named(*at, "attn", "mixed"))
        value = dg.add(value, linear(mixed, "attn", "out"), name=named(*at, "sum"))
        x = linear(norm(value, "norm2"), "mlp", "up")
        for index in range(8):
            x = (
                dg.activation_gelu(x, name=named(*at, "mlp", "act", index))
                if index % 2
                else dg.abs(x, name=named(*at, "mlp", "abs", index))
            )
        value = dg.add(value, linear(x, "mlp", "down"), name=named(*at, "sum2"))
    g.output("logits", dg.gemm(value, value, name="head"))
    return g


def network(layers: int, nodes: int) -> dg.Graph:
    """Layers in scopes, each with a scope in it and a weight."""
    g = dg.Graph("network")
    value = g.input("x", sizes=[1, 4], dtype="float32")
    for layer in range(layers):
        with g.scope(f"layers/{layer}"):
            w = g.input("w", sizes=[4, 4], dtype="float32")
            value = dg.gemm(value, w)
            with g.scope("act"):
                for _ in range(nodes):
                    value = dg.activation_relu(value)
    g.output("y", value)
    return g


def hostile() -> dg.Graph:
    """A graph whose names would do harm if they were not escaped."""
    g = dg.Graph(HOSTILE)
    x = g.input(HOSTILE, sizes=[2], dtype="float32")
    g.output(f"out {HOSTILE}", dg.activation_relu(x, name=f"relu {HOSTILE}"))
    return g


def chain(length: int) -> dg.Graph:
    """Every second node of a chain also reads the input, which is farther away each time."""
    g = dg.Graph("chain")
    x = value = g.input("x", sizes=[4, 4], dtype="float32")
    for index in range(length):
        value = dg.add(value, x, name=f"n{index}") if index % 2 else dg.activation_relu(value, name=f"n{index}")
    g.output("y", value)
    return g


def residual(layers: int) -> dg.Graph:
    """Layers of a product with constants, a line, an activation, and the sum with the layer's input: 16 boxes each."""
    g = dg.Graph("residual")
    value = g.input("x", sizes=[1, 1, 4, 4], dtype="float32")
    for index in range(layers):
        hidden = value
        for half in range(2):
            weights = g.constant(f"w{index}_{half}", np.ones((1, 1, 4, 4), np.float32))
            hidden = dg.activation_tanh(dg.gemm(hidden, weights) * 0.5 + 1)
        value = value + hidden
    g.output("y", value)
    return g


def irregular(nodes: int) -> dg.Graph:
    """A line of random activations in which nothing repeats; now and then the sum with what was before."""
    g = dg.Graph("irregular")
    rng = np.random.default_rng(3)
    value = before = g.input("x", sizes=[4], dtype="float32")
    for choice in rng.integers(0, 11, nodes):
        if choice:
            value = (dg.abs, dg.exp, dg.log, dg.negate, dg.activation_relu)[choice % 5](value)
        else:
            value = before = value + before
    g.output("y", value)
    return g


def wide() -> dg.Graph:
    """Many consumers of one input, each an output."""
    g = dg.Graph("wide")
    x = g.input("x", sizes=[4], dtype="float32")
    for index in range(200):
        g.output(f"y{index}", dg.activation_relu(x))
    return g


def lopsided() -> dg.Graph:
    """A long chain with very many nodes beside its end: the middle of the picture's top is empty."""
    g = dg.Graph("lopsided")
    value = g.input("x", sizes=[4], dtype="float32")
    for _ in range(150):
        value = dg.activation_relu(value)
    for index in range(60):
        g.output(f"y{index}", dg.negate(value))
    return g


def apart() -> dg.Graph:
    """Many parts that are not connected."""
    g = dg.Graph("apart")
    for index in range(120):
        g.output(f"y{index}", dg.abs(g.input(f"x{index}", sizes=[4], dtype="float32")))
    return g


def fused() -> list[Drawing]:
    """Before and after a fusion made by hand: `both` was made from `scaled` and `shifted`."""
    before = draw(ramp(), title="before")
    g = dg.Graph("ramp")
    x = g.input("x", sizes=[2, 3], dtype="float32")
    w = g.constant("w", np.array([[1, 2, 3]], np.float32))
    g.output("y", dg.add(x, w, name="both"))
    origins = {"x": ("x",), "w": ("w",), "both": ("scaled", "shifted")}
    return [before, draw(g, title="after", origins=origins, source=before)]
