"""Chains: joined sums, products and bounds give the same bits as separate ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dmlgraph as dg
from dmlgraph._native import cpu_kernels
from dmlgraph.base.tensor import DataType
from dmlgraph.devices.cpu import CpuDevice

Array = np.ndarray[Any, Any]
SIZES = (3, 700)
EDGES = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3e38, -3e38, 1.0, -1.0, 0.1], np.float32)


def check(graph: dg.Graph, inputs: dict[str, Array]) -> None:
    """`cpu` and `reference` give the same results, in float32 bit for bit, except for the bits of NaN."""
    results = CpuDevice(2).compile(graph.lower(fuse=False), reason="test").run(inputs)
    with np.errstate(all="ignore"):
        expected = graph.compile("reference", fuse=False).run(inputs)
    for name, wanted in expected.items():
        got = results[name]
        same = got.view(np.uint32) == wanted.view(np.uint32)
        same |= np.isnan(got) & np.isnan(wanted)
        assert same.all(), (name, got[~same][:4], wanted[~same][:4])


def edges(seed: int, sizes: tuple[int, ...] = SIZES) -> Array:
    random = np.random.default_rng(seed)
    numbers = random.normal(size=sizes)
    return np.where(random.random(sizes) < 0.4, random.choice(EDGES, sizes), numbers).astype(np.float32)


# Steps: functions of the value so far and an operand.
STEPS = {
    "x + o": lambda x, o: x + o,
    "o + x": lambda x, o: o + x,
    "x - o": lambda x, o: x - o,
    "o - x": lambda x, o: o - x,
    "x * o": lambda x, o: x * o,
    "o * x": lambda x, o: o * x,
    "-x": lambda x, o: dg.negate(x),
    "relu": lambda x, o: dg.activation_relu(x),
    "threshold": lambda x, o: dg.threshold(x, min=0.25),
    "clip": lambda x, o: dg.clip(x, min=-0.5, max=1.25),
    "clip at zero": lambda x, o: dg.clip(x, min=0.0, max=6.0),
    "clip without bounds": lambda x, o: dg.clip(x, min=-np.inf, max=np.inf),
    "scale and bias": lambda x, o: dg.identity(x, scale_bias={"scale": -1.5, "bias": 0.3}),
    "bias": lambda x, o: dg.identity(x, scale_bias={"scale": 1.0, "bias": -0.0}),
    "sqrt": lambda x, o: dg.sqrt(x),  # ends a chain
}
OPERANDS = ("array", "row", "column", "number", "constant", "sequence", "shared sequence", "itself", "start", "sum")


def build(steps: list[tuple[str, str]], outputs: frozenset[int]) -> dg.Graph:
    graph = dg.Graph("chain")
    start = graph.input("x", sizes=SIZES, dtype="float32")
    x = start
    ramp = {"sizes": SIZES, "dtype": "float32", "value_start": -3.0, "value_delta": 0.0078125}
    shared = graph.fill_value_sequence(name="shared", **ramp)
    given = {
        "array": graph.input("array", sizes=SIZES, dtype="float32"),
        "row": graph.input("row", sizes=(1, SIZES[1]), dtype="float32"),
        "column": graph.input("column", sizes=(SIZES[0], 1), dtype="float32"),
        "number": graph.input("number", sizes=(1, 1), dtype="float32"),
        "start": start,
        "shared sequence": shared,
    }
    for index, (step, kind) in enumerate(steps):
        if kind == "constant":
            operand = graph.fill_value_constant(sizes=SIZES, dtype="float32", value=0.7)
        elif kind == "sequence":
            operand = graph.fill_value_sequence(**ramp)
        elif kind == "itself":
            operand = x
        elif kind == "sum":
            operand = given["array"] + given["row"]
        else:
            operand = given[kind]
        x = STEPS[step](x, operand)
        if index in outputs or index == len(steps) - 1:
            graph.output(f"y{index}", x)
    for name, value in given.items():  # every input must be read
        if isinstance(value, dg.Value):
            graph.output(f"used {name}", dg.identity(value))
    return graph


INPUTS = {
    "x": edges(0),
    "array": edges(1),
    "row": edges(2, (1, SIZES[1])),
    "column": edges(3, (SIZES[0], 1)),
    "number": np.array([[-0.3]], np.float32),
}


@settings(max_examples=300)
@given(
    st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.sampled_from(OPERANDS)), min_size=1, max_size=9),
    st.frozensets(st.integers(0, 8), max_size=2),
)
def test_chains_of_anything(steps: list[tuple[str, str]], outputs: frozenset[int]) -> None:
    check(build(steps, outputs), INPUTS)


@pytest.mark.parametrize("operand", OPERANDS)
@pytest.mark.parametrize(("first", "last"), [("x + o", "x - o"), ("o - x", "o + x"), ("x - o", "o - x")])
def test_all_that_one_instruction_can_be(first: str, last: str, operand: str) -> None:
    """(x ± b) · m ± a and a bound, with every kind of operand at each position."""
    for factor in OPERANDS:
        check(build([(first, operand), ("x * o", factor), (last, operand), ("relu", "array")], frozenset()), INPUTS)


def test_the_sign_of_zero_and_nan() -> None:
    """relu gives +0 for −0 and NaN; without it both stay."""
    x = np.array([0.0, -0.0, np.nan, -1.0], np.float32)
    graph = dg.Graph("signs")
    value = graph.input("x", sizes=x.shape, dtype="float32")
    none = graph.fill_value_constant(sizes=x.shape, dtype="float32", value=-0.0)
    one = graph.fill_value_constant(sizes=x.shape, dtype="float32", value=1.0)
    graph.output("line", (value + none) * one)
    graph.output("bounded", dg.activation_relu((value + none) * one))
    results = CpuDevice(1).compile(graph.lower(fuse=False), reason="test").run({"x": x})
    assert np.signbit(results["line"]).tolist()[:2] == [False, True]
    assert np.isnan(results["line"][2])
    np.testing.assert_array_equal(results["bounded"].view(np.uint32), np.zeros(4, np.uint32))


@pytest.mark.parametrize("level", cpu_kernels.levels())
@pytest.mark.parametrize("first", [0, 2**31 - 350, 2**32 - 700])
def test_sequences_count_beyond_signed_indices(first: int, level: str) -> None:
    """start + i · delta, each rounded, with indices on both sides of 2³¹."""
    float32 = DataType.FLOAT32.value
    start, delta = np.float32(-3.0), np.float32(2.0**-9)
    out = np.empty(700, np.float32)
    immediates = [int(start.view(np.uint32)), int(delta.view(np.uint32))]
    cpu_kernels.apply("SEQUENCE", float32, float32, [], out, immediates=immediates, level=level, first=first)
    ramp = start + (np.arange(700, dtype=np.uint32) + np.uint32(first)).astype(np.float32) * delta
    np.testing.assert_array_equal(out, ramp)


def test_rows_beside_reductions() -> None:
    """A chain whose operands have one number per row, as in a normalization."""
    graph = dg.Graph("rows")
    x = graph.input("x", sizes=SIZES, dtype="float32")
    scale = graph.input("scale", sizes=(1, SIZES[1]), dtype="float32")
    greatest = dg.reduce(x, function="max", axes=[1])
    graph.output("y", dg.activation_relu((x - greatest) * scale + x))
    check(graph, {"x": np.abs(edges(6)), "scale": edges(7, (1, SIZES[1]))})
