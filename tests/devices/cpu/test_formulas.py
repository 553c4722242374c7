"""Formulas: cheap operators that run as one instruction give the same bits as separate ones."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices.cpu import CpuDevice

Array = np.ndarray[Any, Any]
EDGES = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 6e-8, -6e-8, 6e4, -6e4, 1.0, -1.0, 0.1])
SIZES = (3, 1, 777)  # no whole number of vectors

UNARY = {
    "abs": dg.abs,
    "negate": dg.negate,
    "relu": dg.activation_relu,
    "clip": lambda x: dg.clip(x, min=-0.5, max=1.25),
    "clip at zero": lambda x: dg.clip(x, min=0.0, max=6.0),
    "threshold": lambda x: dg.threshold(x, min=0.25),
    "sqrt": dg.sqrt,
    "recip": dg.recip,
    "scale": lambda x: dg.identity(x, scale_bias={"scale": -1.5, "bias": 0.25}),
    "floor": dg.floor,  # belongs to no formula
}
BINARY = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "square": lambda a, b: a * a,
    "divide": lambda a, b: a / b,
    "max": dg.max,
    "min": dg.min,
    "mean": dg.mean,
    "difference square": dg.difference_square,
    "if less": lambda a, b: dg.if_(a < b, a, b),
    "if equal": lambda a, b: dg.if_(dg.logical_equals(a, b), b, a),
    "if not or": lambda a, b: dg.if_(dg.logical_not(dg.logical_or(a < b, b <= a)), a, b),
    "less": lambda a, b: dg.cast(a < b, dtype=a.dtype.name.lower()),
}


def same(got: Array, wanted: Array) -> bool:
    word = np.dtype(f"u{got.itemsize}")
    return bool(((got.view(word) == wanted.view(word)) | (np.isnan(got) & np.isnan(wanted))).all())


def numbers(seed: int, sizes: tuple[int, ...], dtype: str) -> Array:
    rng = np.random.default_rng(seed)
    return np.where(rng.random(sizes) < 0.3, rng.choice(EDGES, sizes), rng.normal(size=sizes)).astype(dtype)


def check(graph: dg.Graph, inputs: dict[str, Array]) -> None:
    results = CpuDevice(2).compile(graph.lower(fuse=False), reason="test").run(inputs)
    with np.errstate(all="ignore"):
        expected = graph.compile("reference", fuse=False).run(inputs)
    for name, wanted in expected.items():
        assert same(results[name], wanted), name


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("seed", range(30))
def test_random_formulas(seed: int, dtype: DataTypeName) -> None:
    rng = random.Random(seed)
    graph = dg.Graph("formula")
    shapes = {"x": SIZES, "z": SIZES, "row": (1, 1, 777), "column": (3, 1, 1), "number": (1, 1, 1)}
    inputs = {name: numbers(index, sizes, dtype) for index, (name, sizes) in enumerate(shapes.items())}
    values = [graph.input(name, sizes=sizes, dtype=dtype) for name, sizes in shapes.items()]
    mask = graph.input("mask", sizes=SIZES, dtype="uint8")
    inputs["mask"] = np.random.default_rng(9).integers(0, 3, SIZES, np.uint8)
    values.append(dg.cast(mask, dtype=dtype) + values[0])
    values.append(dg.if_(mask, values[0], values[1]))
    for _ in range(rng.randrange(4, 30)):
        if rng.random() < 0.35:
            values.append(UNARY[rng.choice(sorted(UNARY))](rng.choice(values[-8:])))
        else:
            values.append(BINARY[rng.choice(sorted(BINARY))](rng.choice(values), rng.choice(values[-4:])))
    total = values[0]
    for value in values[1:]:  # everything is read
        total = dg.max(total, value)
    graph.output("y", total)
    graph.output("z", values[-1] + values[0])
    check(graph, inputs)


@pytest.mark.parametrize("count", [1, 7, 8, 63, 64, 65, 127, 128, 129, 2047, 5000])
def test_every_length(count: int) -> None:
    graph = dg.Graph("lengths")
    x, z = (graph.input(name, sizes=(count,), dtype="float32") for name in "xz")
    graph.output("y", dg.abs((x - z) * x) - dg.max(x, z) * z)
    check(graph, {"x": numbers(1, (count,), "float32"), "z": numbers(2, (count,), "float32")})


def test_results_in_place_of_an_operand() -> None:
    graph = dg.Graph("place")
    x = graph.input("x", sizes=(1000,), dtype="float32")
    graph.output("y", dg.abs(x * x - 1.0) * x - x)
    array = numbers(3, (1000,), "float32")
    expected = graph.compile("reference", fuse=False).run({"x": array})["y"]
    graph.compile("cpu").run({"x": array}, out={"y": array})
    assert same(array, expected)


def test_a_photo() -> None:
    """Bytes to normalized float16, which is one formula between the copies."""
    graph = dg.Graph("photo")
    x = graph.input("x", sizes=(31, 45, 3), dtype="uint8")
    means = graph.constant("means", np.array([0.5, 0.4, 0.3], np.float32).reshape(3, 1, 1))
    planes = (dg.cast(x.transpose(2, 0, 1), dtype="float32") * (1 / 255) - means) * means
    graph.output("y", dg.cast(planes, dtype="float16"))
    check(graph, {"x": np.random.default_rng(0).integers(0, 256, (31, 45, 3), np.uint8)})


# Operands: their sizes as parts of the graph's, and their type if it is another one.
SHAPES = {
    "whole": (1, 1, 1),
    "other": (1, 1, 1),
    "row": (0, 0, 1),
    "plane": (0, 1, 1),
    "column": (1, 1, 0),
    "middle": (0, 1, 0),
    "number": (0, 0, 0),
    "bytes": (1, 1, 1),
    "row of bytes": (0, 0, 1),
    "one byte": (0, 0, 0),
    "halves": (1, 1, 1),
    "row of halves": (0, 0, 1),
    "singles": (1, 1, 1),
}
TYPES: dict[str, DataTypeName] = {"bytes": "uint8", "byte": "uint8", "halves": "float16", "singles": "float32"}
MOVES = st.tuples(st.sampled_from(sorted(UNARY | BINARY)), st.integers(0, 60), st.integers(0, 60))


def operands(
    graph: dg.Graph, sizes: tuple[int, int, int], dtype: DataTypeName
) -> tuple[list[dg.Value], dict[str, Array]]:
    values: list[dg.Value] = []
    inputs: dict[str, Array] = {}
    for seed, (name, kept) in enumerate(SHAPES.items()):
        own = tuple(size if keep else 1 for size, keep in zip(sizes, kept, strict=True))
        kind = TYPES.get(name.split()[-1], dtype)
        if kind == "uint8":
            inputs[name] = np.random.default_rng(seed).integers(0, 3, own, np.uint8)
        else:
            inputs[name] = numbers(seed, own, kind)
        value = graph.input(name, sizes=own, dtype=kind)
        if kind == "uint8":
            values.append(dg.if_(value, values[0], values[1]))
        values.append(value if kind == dtype else dg.cast(value, dtype=dtype))
    return values, inputs


@settings(max_examples=150)
@given(
    sizes=st.tuples(
        st.integers(1, 4), st.integers(1, 4), st.sampled_from([1, 2, 15, 16, 17, 64, 127, 128, 129, 300, 1025])
    ),
    dtype=st.sampled_from(["float32", "float16"]),
    moves=st.lists(MOVES, min_size=3, max_size=24),
    outputs=st.sets(st.integers(0, 60), max_size=3),
)
def test_crossings(
    sizes: tuple[int, int, int], dtype: DataTypeName, moves: list[tuple[str, int, int]], outputs: set[int]
) -> None:
    """Values with several readers, broadcast operands, conversions, and outputs in the middle."""
    graph = dg.Graph("crossings")
    values, inputs = operands(graph, sizes, dtype)
    given_count = len(values)
    for name, first, second in moves:
        recent = values[-4:]
        if name in UNARY:
            values.append(UNARY[name](recent[first % 4]))
        else:
            values.append(BINARY[name](recent[first % 4], values[second % len(values)]))
    made = values[given_count:]
    for index in sorted({each % len(made) for each in outputs}):
        graph.output(f"middle {index}", made[index] * 1.0)
    total = made[0]
    for value in made[1:]:
        total = dg.max(total, value)
    graph.output("last", total + values[0])
    other: DataTypeName = "float16" if dtype == "float32" else "float32"
    graph.output("converted", dg.cast(total * values[1], dtype=other))
    check(graph, inputs)
