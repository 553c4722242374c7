"""Random graphs of exact operators give the same bits on `cpu` and `reference`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from campaigns import ones
from hypothesis import given, settings
from hypothesis import strategies as st

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices.cpu import CpuDevice

Array = np.ndarray[Any, Any]

UNARY = [
    lambda x: dg.clip(x, min=3, max=40),
    dg.identity,
    lambda x: dg.cast(dg.cast(x, dtype="int8"), dtype=x.dtype),
    lambda x: dg.cast(dg.cast(x, dtype="float16"), dtype=x.dtype),
]
SIGNED = [*UNARY, dg.abs, dg.negate, dg.sign]
BINARY = [
    dg.add,
    dg.subtract,
    dg.multiply,
    dg.max,
    dg.min,
    lambda a, b: dg.if_(dg.logical_less_than(a, b), a, b),
]


def transposed(value: dg.Value) -> dg.Value:
    """The same values in a layout with the last dimension outermost."""
    sizes = value.desc.sizes
    inner = math.prod(sizes[:-1])
    strides = [math.prod(sizes[axis + 1 : -1]) for axis in range(len(sizes) - 1)] + [inner]
    return dg.identity(value, output={"strides": strides})


@st.composite
def layouts(draw: st.DrawFn, sizes: tuple[int, ...], dtype: str) -> Array:
    """An array of numbers in a random layout."""
    steps = [draw(st.sampled_from([1, 1, 1, 2, -1])) for _ in sizes]
    order = draw(st.permutations(range(len(sizes))))
    whole = np.zeros([sizes[axis] * abs(steps[axis]) for axis in order], dtype)
    array = whole.transpose(np.argsort(order))[tuple(slice(None, None, step) for step in steps)]
    seed = draw(st.integers(0, 1000))
    array[...] = np.random.default_rng(seed).integers(-50 if dtype[0] != "u" else 0, 50, sizes)
    return array


@st.composite
def graphs(draw: st.DrawFn) -> tuple[dg.Graph, dict[str, Array], dict[str, Array]]:
    """A graph, its inputs and arrays for some of its outputs."""
    dtype: DataTypeName = draw(st.sampled_from(["float32", "float32", "int32", "uint8", "float16"]))
    sizes = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 5, 17, 300]), min_size=1, max_size=4)))
    while math.prod(sizes) > 30_000:
        sizes = sizes[1:]
    unary = UNARY if dtype == "uint8" else SIGNED
    g = dg.Graph("random")
    inputs: dict[str, Array] = {}
    values: list[dg.Value] = []
    for index in range(draw(st.integers(1, 3))):
        own = tuple(size if draw(st.booleans()) or index == 0 else 1 for size in sizes)
        values.append(g.input(f"x{index}", sizes=own, dtype=dtype))
        inputs[f"x{index}"] = draw(layouts(own, dtype))
    values.append(g.fill_value_constant(sizes=sizes, dtype=dtype, value=draw(st.integers(0, 9))))
    values.append(g.fill_value_sequence(sizes=sizes, dtype=dtype, value_start=1, value_delta=2))
    for _ in range(draw(st.integers(1, 14))):
        a = draw(st.sampled_from(values[-6:]))
        whole = a.desc.sizes == sizes
        axis = draw(st.integers(0, len(sizes) - 1))
        size = a.desc.sizes[axis]
        kind = draw(st.sampled_from(["unary", "binary", "binary", "binary", "reduce", "transpose", "cut", "flip"]))
        if kind == "unary":
            values.append(draw(st.sampled_from(unary))(a))
        elif kind == "binary":
            values.append(draw(st.sampled_from(BINARY))(a, draw(st.sampled_from(values))))
        elif kind == "reduce":
            values.append(dg.reduce(a, function="max", axes=[axis]))
        elif kind == "transpose" and whole:
            values.append(transposed(a))
        elif kind == "cut" and size > 1:
            parts = dg.split(a, axis=axis, outputs=[size // 2, size - size // 2])
            values.append(dg.join([parts[1], draw(st.sampled_from(unary))(parts[0])], axis=axis))
        elif kind == "flip":
            rank = len(sizes)
            window: dict[str, Any] = {"input_window_offsets": [0] * rank, "input_window_sizes": list(a.desc.sizes)}
            values.append(dg.slice1(a, **window, input_window_strides=[-1] * rank))
    out: dict[str, Array] = {}
    names = draw(st.lists(st.sampled_from(values[len(inputs) :]), min_size=1, max_size=4))
    for index, value in enumerate(names):
        g.output(f"y{index}", value)
        given = inputs["x0"]
        if draw(st.booleans()):
            out[f"y{index}"] = draw(layouts(value.desc.sizes, str(value.desc.dtype)))
        elif index == 0 and given.shape == value.desc.sizes and str(value.desc.dtype) == dtype:
            out["y0"] = given  # in the memory of an input
    return g, inputs, out


@settings(max_examples=300)
@given(case=graphs(), threads=st.sampled_from([1, 2]))
def test_random_graphs(case: tuple[dg.Graph, dict[str, Array], dict[str, Array]], threads: int) -> None:
    g, inputs, out = case
    expected = g.compile("reference", fuse=False).run({name: array.copy() for name, array in inputs.items()})
    executable = CpuDevice(threads).compile(g.lower(fuse=False), reason="test")
    before = {name: array.copy() for name, array in inputs.items()}
    results = executable.run(inputs, out)
    for name, array in expected.items():
        np.testing.assert_array_equal(results[name], array, name)
        assert results[name] is out.get(name, results[name])
    for name, array in inputs.items():
        if not any(target is array for target in out.values()):
            np.testing.assert_array_equal(array, before[name])


def test_views_of_shapes_with_many_ones() -> None:
    for seed in range(40):
        ones.one_case(seed)
