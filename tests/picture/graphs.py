"""Graphs that the tests of pictures draw."""

from __future__ import annotations

import numpy as np

import dmlgraph as dg
from dmlgraph.picture.drawing import Drawing, draw

HOSTILE = '<script>alert("1")</script> & \\N ]]> #35; 层 "é'  # printable, so it may be a name


def ramp() -> dg.Graph:
    """One of every kind but a fused node: an input, a constant, two fills, operators, an output."""
    g = dg.Graph("ramp")
    x = g.input("x", sizes=[2, 3], dtype="float32")
    w = g.constant("w", np.array([[1, 2, 3]], np.float32))
    steps = g.fill_value_sequence(sizes=[2, 3], dtype="float32", value_start=3, value_delta=-2, name="steps")
    seven = g.fill_value_constant(sizes=[1, 1], dtype="float32", value=7, name="seven")
    scaled = dg.multiply(x, steps, name="scaled")
    shifted = dg.add(scaled, w, name="shifted")
    g.output("y", dg.clip(dg.add(shifted, seven, name="more"), min=0, max=4, name="clipped"))
    return g


def hostile() -> dg.Graph:
    """A graph whose names would do harm where they are not escaped."""
    g = dg.Graph(HOSTILE)
    x = g.input(HOSTILE, sizes=[2], dtype="float32")
    g.output(f"out {HOSTILE}", dg.activation_relu(x, name=f"relu {HOSTILE}"))
    return g


def chain(length: int) -> dg.Graph:
    """Every second node of a chain reads the input again, from ever farther away."""
    g = dg.Graph("chain")
    x = value = g.input("x", sizes=[4, 4], dtype="float32")
    for index in range(length):
        value = dg.add(value, x, name=f"n{index}") if index % 2 else dg.activation_relu(value, name=f"n{index}")
    g.output("y", value)
    return g


def fused() -> list[Drawing]:
    """Before and after a fusion made by hand: `both` came of `scaled` and `shifted`."""
    before = draw(ramp(), title="before")
    g = dg.Graph("ramp")
    x = g.input("x", sizes=[2, 3], dtype="float32")
    w = g.constant("w", np.array([[1, 2, 3]], np.float32))
    g.output("y", dg.add(x, w, name="both"))
    origins = {"x": ("x",), "w": ("w",), "both": ("scaled", "shifted")}
    return [before, draw(g, title="after", origins=origins, source=before)]
