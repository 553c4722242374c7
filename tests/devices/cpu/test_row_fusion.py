"""Element-wise nodes and reductions that run together, row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cpu.plans import check_steps, steps
from support.cpu.rows import Array, both, graph, near, numbers

import dmlgraph as dg

UNITS = 40  # for rounding at every node, which is the same on both devices except for functions and sums


# The nodes of `layer_norm`.
LAYER_NORM = "reduce, subtract, multiply, reduce_1, add, sqrt, divide, multiply_1, add_1"
PRODUCER = "region [exp, multiply, reduce]: x, z -> y0"


def compare(g: dg.Graph, arrays: dict[str, Array], magnitude: float = 1.0) -> None:
    for got, expected in both(g, arrays):
        near(got, expected, UNITS, np.abs(expected.astype(np.float64)) + magnitude)


def layer_norm(x: dg.Value, scale: dg.Value, bias: dg.Value, axis: int = 1) -> dg.Value:
    centred = x - dg.reduce(x, function="average", axes=[axis])
    variance = dg.reduce(centred * centred, function="average", axes=[axis])
    return centred / dg.sqrt(variance + 1e-5) * scale + bias


def softmax(x: dg.Value, axis: int = 1) -> dg.Value:
    powers = dg.exp(x - dg.reduce(x, function="max", axes=[axis]))
    return powers / dg.reduce(powers, function="sum", axes=[axis])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("sizes", [(1, 1), (1, 7), (500, 3), (9, 300), (3, 1024), (2, 16384), (3, 20000)])
def test_layer_normalization_in_primitives(sizes: tuple[int, int], dtype: str) -> None:
    arrays = {"x": numbers(sizes, dtype), "scale": numbers(sizes[1:], dtype), "bias": numbers(sizes[1:], dtype)}
    g = graph(layer_norm, arrays)
    if dtype == "float32":
        compare(g, arrays, 4.0)
    else:
        for got, expected in both(g, arrays):  # every node is rounded to float16: neighbours of neighbours
            np.testing.assert_allclose(got.astype(float), expected.astype(float), rtol=4e-3, atol=8e-3)
    if sizes[1] <= 16384 and sizes[1] > 1:
        check_steps(g, f"region [{LAYER_NORM}]: x, constants, scale, bias -> y0")


@pytest.mark.parametrize("sizes", [(5, 8), (3, 700), (2, 20000)])
def test_what_is_taken_after_a_result_keeps_its_own_memory(sizes: tuple[int, int]) -> None:
    def make(x: dg.Value) -> tuple[dg.Value, ...]:
        powers = dg.exp(x - dg.reduce(x, function="max", axes=[1]))
        shares = powers / dg.reduce(powers, function="sum", axes=[1])
        halves = shares * 0.5
        return shares, halves + powers, powers * dg.reduce(halves * x, function="sum", axes=[1])

    arrays = {"x": numbers(sizes)}
    compare(graph(make, arrays), arrays)


@pytest.mark.parametrize("sizes", [(6, 2), (70, 300), (1000, 40), (1200, 5)])
def test_along_the_first_axis(sizes: tuple[int, int]) -> None:
    arrays = {"x": numbers(sizes), "scale": numbers((sizes[0], 1)), "bias": numbers((1, sizes[1]))}
    g = graph(lambda x, scale, bias: (layer_norm(x, scale, bias, 0), softmax(x, 0)), arrays)
    compare(g, arrays, 4.0)
    if sizes[0] <= 1024:
        softmax_nodes = "reduce_2, subtract_1, exp, reduce_3, divide_1"
        check_steps(g, f"region [{LAYER_NORM}, {softmax_nodes}]: x, constants, scale, bias -> y0, y1")


@pytest.mark.parametrize("sizes", [(300, 7, 2), (90, 40, 3), (41, 350, 5), (12, 1000, 4), (200, 2, 17), (30, 17, 61)])
def test_several_groups_of_short_columns(sizes: tuple[int, int, int]) -> None:
    """Narrow values of their own, values that repeat along the columns or the groups, and results with strides."""
    outer, length, columns = sizes
    arrays = {
        "x": numbers(sizes), "scale": numbers((outer, 1, columns)), "bias": numbers((1, length, 1)),
        "shift": numbers((1, length, columns)),
    }  # fmt: skip
    g = graph(
        lambda x, scale, bias, shift: (
            layer_norm(x, scale, bias, 1),
            softmax(x + shift, 1),
            dg.reduce(x * scale, function="max", axes=[1]),
        ),
        arrays,
    )
    compare(g, arrays, 4.0)
    turned = {**arrays, "x": np.ascontiguousarray(arrays["x"].transpose(1, 2, 0)).transpose(2, 0, 1)}
    for name, expected in g.compile(device="cpu").run(arrays).items():
        for threads in (1, 3):
            got = g.compile(device="cpu", threads=threads).run(turned)[name]
            np.testing.assert_array_equal(got, expected)


def test_softmax_in_primitives_is_one_pass() -> None:
    x = numbers((40, 333))
    g = graph(softmax, {"x": x})
    compare(g, {"x": x}, 0.0)
    check_steps(g, "region [reduce, subtract, exp, reduce_1, divide]: x -> y0")


@pytest.mark.parametrize("sizes", [(50, 64), (2, 500_000), (500_000, 2)])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_producer_is_not_stored(sizes: tuple[int, int], axis: int) -> None:
    arrays = {"x": numbers(sizes), "z": numbers(sizes, seed=1)}
    g = graph(lambda x, z: dg.reduce(dg.exp(x) * z, function="sum", axes=[axis]), arrays)
    compare(g, arrays, float(np.exp(arrays["x"]).sum(axis).max()))
    (step,) = steps(g)
    assert step in (PRODUCER, f"{PRODUCER}, #1")  # with sums of parts of a long row or column


@pytest.mark.parametrize("function", ["sum", "average"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("sizes", [(3, 5), (7, 1000), (2, 20000), (700, 40)])
def test_a_sum_of_squares_adds_squares_that_are_rounded(sizes: tuple[int, int], axis: int, function: Any) -> None:
    """It has the bits of the sum of stored squares, of which some are infinite or subnormal."""
    x = numbers(sizes) * np.float32(10.0) ** np.random.default_rng(3).integers(-22, 3, sizes).astype(np.float32)
    x[1, 1] = 1e30

    def squares(x: dg.Value) -> dg.Value:
        return dg.reduce(x * x, function=function, axes=[axis])

    def shifted(x: dg.Value) -> tuple[dg.Value, ...]:
        y = x * 0.75
        return dg.reduce(y * y, function=function, axes=[axis]), y, y * y

    def stored(y: dg.Value) -> dg.Value:
        return dg.reduce(y, function=function, axes=[axis])

    with np.errstate(over="ignore", under="ignore"):
        (got,) = graph(squares, {"x": x}).compile("cpu").run({"x": x}).values()
        (expected,) = graph(stored, {"y": x * x}).compile("cpu").run({"y": x * x}).values()
        np.testing.assert_array_equal(got, expected)
        got, y, y_squared = graph(shifted, {"x": x}).compile("cpu").run({"x": x}).values()
        (expected,) = graph(stored, {"y": y * y}).compile("cpu").run({"y": y * y}).values()
        np.testing.assert_array_equal(got, expected)
        np.testing.assert_array_equal(y_squared, y * y)


def test_values_that_others_want_are_stored() -> None:
    x = numbers((30, 200))

    def build(x: dg.Value) -> tuple[dg.Value, ...]:
        mean = dg.reduce(x, function="average", axes=[1])
        centred = x - mean
        root = dg.sqrt(dg.reduce(centred * centred, function="sum", axes=[1]))
        return centred, mean, root, centred / root

    g = graph(build, {"x": x})
    compare(g, {"x": x})
    check_steps(g, "region [reduce, subtract, multiply, reduce_1, sqrt, divide]: x -> y1, y0, y2, y3")


def test_a_row_value_that_another_row_wants() -> None:
    """The matrix minus its row sums in reverse order."""
    x = numbers((60, 70))

    def build(x: dg.Value) -> dg.Value:
        sums = dg.reduce(x, function="sum", axes=[1])
        turned = dg.slice1(sums, input_window_offsets=[0, 0], input_window_sizes=[60, 1], input_window_strides=[-1, 1])
        return x - turned

    compare(graph(build, {"x": x}), {"x": x}, 10.0)


@pytest.mark.parametrize("sizes", [(60, 70), (7, 2000), (2000, 7)])
def test_results_with_strides_of_their_own(sizes: tuple[int, int]) -> None:
    """Column by column, with gaps: the reduced tensor, the reduction, and the normalized result."""

    def build(x: dg.Value) -> tuple[dg.Value, ...]:
        turned = dg.exp(x, output={"strides": [1, sizes[0] + 3]})
        sums = dg.reduce(turned, function="sum", axes=[1], output={"strides": [2, 2]})
        shares = dg.divide(turned, sums, output={"strides": [2 * sizes[1], 2]})
        return shares, dg.reduce(turned, function="max", axes=[0])

    x = numbers(sizes)
    compare(graph(build, {"x": x}), {"x": x}, 10.0)


def test_two_reductions_over_different_axes() -> None:
    x = numbers((60, 70))

    def build(x: dg.Value) -> dg.Value:
        rows, columns = (dg.reduce(x * x, function="average", axes=[axis]) for axis in (1, 0))
        return x / (rows + columns)

    compare(graph(build, {"x": x}), {"x": x}, 10.0)


def test_sequences_and_fills_inside_rows() -> None:
    x = numbers((30, 70))
    g = dg.Graph("weighted")
    value = g.input("x", sizes=x.shape, dtype="float32")
    ramp = g.fill_value_sequence(sizes=x.shape, dtype="float32", value_start=1, value_delta=0.5)
    half = g.fill_value_constant(sizes=x.shape, dtype="float32", value=0.5)
    for index, axis in enumerate((1, 0)):
        weighted = (value + half) * ramp
        g.output(f"y{index}", weighted / dg.reduce(dg.abs(weighted), function="sum", axes=[axis]))
        g.output(f"z{index}", dg.reduce(ramp, function="sum", axes=[axis]))
    compare(g, {"x": x})


def test_the_number_of_threads_changes_nothing() -> None:
    arrays = {"x": numbers((300, 700)), "scale": numbers((700,)), "bias": numbers((700,))}
    g = graph(layer_norm, arrays)
    first, *others = (both(g, arrays, threads)[0][0] for threads in (1, 2, 4))
    for other in others:
        np.testing.assert_array_equal(other, first)


@pytest.mark.parametrize("layout", [np.asfortranarray, lambda x: x[::-1, ::-1], lambda x: x[:1]])
def test_arrays_with_strides_and_results_into_them(layout: Any) -> None:
    given = {"x": numbers((90, 130)), "scale": numbers((130,)), "bias": numbers((130,))}
    arrays = {**given, "x": np.broadcast_to(layout(given["x"]), (90, 130))}
    g = graph(layer_norm, arrays)
    executable = g.compile("cpu")
    expected = g.compile("reference").run(arrays)["y0"]
    room = np.zeros((180, 260), np.float32)
    executable.run(arrays, out={"y0": room[::2, 1::2]})
    near(room[::2, 1::2], expected, UNITS, np.abs(expected) + 4)
    assert not room[1::2].any()
    if arrays["x"].flags.writeable:
        executable.run(arrays, out={"y0": arrays["x"]})  # in place: as if the input were read first
        near(arrays["x"], expected, UNITS, np.abs(expected) + 4)


# Random graphs of rows: values are wide, narrow, or the same in all rows.

STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "multiply", "exp", "sum", "max", "abs"]), st.integers(0, 99), st.integers(0, 99)),
    min_size=2,
    max_size=14,
)


@given(
    steps=STEPS,
    sizes=st.sampled_from([(4, 5), (1, 30), (30, 1), (3, 600), (700, 2), (2, 3, 4), (5, 17000), (1100, 20)]),
    axes=st.sets(st.integers(0, 2), min_size=1, max_size=2),
    outputs=st.integers(1, 3),
)
@settings(max_examples=60, deadline=None)
def test_random_rows(steps: Any, sizes: tuple[int, ...], axes: set[int], outputs: int) -> None:
    reduced = tuple(axis for axis in axes if axis < len(sizes)) or (0,)
    narrow = tuple(1 if axis in reduced else size for axis, size in enumerate(sizes))
    fixed = tuple(size if axis in reduced else 1 for axis, size in enumerate(sizes))
    arrays = {"x": numbers(sizes), "n": numbers(narrow, seed=1), "f": numbers(fixed, seed=2)}

    def build(**given: dg.Value) -> tuple[dg.Value, ...]:
        values = list(given.values())
        for name, first, second in steps:
            a, b = values[first % len(values)], values[second % len(values)]
            if name in ("add", "multiply"):
                values.append(a + b if name == "add" else a * b * 0.5)
            elif name == "exp":
                values.append(dg.exp(dg.negate(dg.abs(a))))
            elif name == "abs":
                values.append(dg.abs(a))
            else:
                values.append(dg.reduce(a, function="average" if name == "sum" else name, axes=reduced))
        return tuple(values[-outputs:])

    made = graph(build, arrays)
    with np.errstate(all="ignore"):
        for got, expected in both(made, arrays):
            scale = max(1.0, float(np.abs(np.nan_to_num(expected)).max()))
            near(got, expected, 4000, scale)
