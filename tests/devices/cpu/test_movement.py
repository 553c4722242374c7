"""Movement: slices, splits, joins, tiles, paddings and blocks of pixels as views and strided copies."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.cpu.plans import check_plan, kinds, plan

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices.cpu import CpuDevice

Array = np.ndarray[Any, Any]


def image(sizes: tuple[int, ...] = (2, 4, 6, 8), dtype: str = "float32") -> Array:
    return np.arange(np.prod(sizes)).reshape(sizes).astype(dtype)


def small(sizes: tuple[int, ...], dtype: str) -> Array:
    """Numbers that each type holds, in no order."""
    return np.random.default_rng(1).integers(0, 200, sizes).astype(dtype)


def check(graph: dg.Graph, **inputs: Array) -> None:
    """The results equal those of `reference`, and nothing ran in Python."""
    executable = CpuDevice(2).compile(graph.lower(fuse=False), reason="test")
    results = executable.run(inputs)
    for name, expected in graph.compile("reference", fuse=False).run(inputs).items():
        np.testing.assert_array_equal(results[name], expected, name)
    assert "python" not in kinds(executable)


OPERATORS: dict[str, Callable[[dg.Value], Any]] = {
    "slice": lambda x: dg.slice(x, offsets=[0, 1, 2, 0], sizes=[2, 2, 3, 3], strides=[1, 2, 1, 3]),
    "slice1": lambda x: dg.slice1(
        x,
        input_window_offsets=[0, 1, 1, 0],
        input_window_sizes=[2, 3, 5, 8],
        input_window_strides=[1, -2, 2, -3],
    ),
    "slice_grad": lambda x: dg.slice_grad(
        x,
        output_gradient={"sizes": [4, 9, 7, 11]},
        input_window_offsets=[1, 2, 0, 1],
        input_window_sizes=[3, 7, 7, 8],
        input_window_strides=[-2, 2, -1, 1],
    ),
    "slice_grad without gaps": lambda x: dg.slice_grad(
        x,
        output_gradient={"sizes": [2, 7, 9, 8]},
        input_window_offsets=[0, 3, 1, 0],
        input_window_sizes=[2, 4, 6, 8],
    ),
    "unfold": lambda x: dg.unfold(x, window_sizes=[2, 3], strides=[2, 1], dilations=[1, 2]),
    "unfold, padded": lambda x: dg.unfold(x, window_sizes=[3, 3], start_padding=[1, 2], end_padding=[0, 1]),
    "unfold of points": lambda x: dg.unfold(x, window_sizes=[1, 1]),
    "unfold of all": lambda x: dg.unfold(x, window_sizes=[6, 8]),
    "tile": lambda x: dg.tile(x, repeats=[1, 2, 1, 3]),
    "tile of one": lambda x: dg.tile(
        dg.slice(x, offsets=[0, 0, 0, 0], sizes=[1, 4, 1, 8], strides=[1] * 4), repeats=[3, 2, 5, 1]
    ),
    "padding": lambda x: dg.padding(
        x, padding_mode="constant", padding_value=7, start_padding=[0, 1, 2, 0], end_padding=[1, 0, 3, 2]
    ),
    "padding1": lambda x: dg.padding1(
        x, padding_mode="constant", padding_value=7, start_padding=[1, 1, 1, 1], end_padding=[0, 0, 0, 0]
    ),
    **{
        f"padding, {mode}": functools.partial(
            dg.padding, padding_mode=mode, start_padding=[0, 1, 2, 9], end_padding=[1, 0, 3, 2]
        )
        for mode in ("edge", "reflection", "symmetric", "wrap")
    },
    "padding of one": lambda x: dg.padding(
        dg.slice(x, offsets=[0, 0, 0, 0], sizes=[2, 4, 1, 1], strides=[1] * 4),
        padding_mode="reflection",
        start_padding=[0, 0, 1, 2],
        end_padding=[0, 0, 2, 0],
    ),
    "space_to_depth": lambda x: dg.space_to_depth(x, block_size=2),
    "space_to_depth1": lambda x: dg.space_to_depth1(x, block_size=2, order="column_row_depth"),
    "depth_to_space": lambda x: dg.depth_to_space(x, block_size=2),
    "depth_to_space1": lambda x: dg.depth_to_space1(x, block_size=2, order="column_row_depth"),
}


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "int64"])
@pytest.mark.parametrize("name", OPERATORS)
def test_alone_and_between_others(name: str, dtype: DataTypeName) -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[2, 4, 6, 8], dtype=dtype)
    moved = OPERATORS[name](x)
    g.output("moved", moved)
    g.output("after", OPERATORS[name](x + x) + moved)
    check(g, x=image(dtype=dtype))


# Sizes and orders of their dimensions: a thin side of every width, both ways, short lines, many rows, rectangles.
ORDERS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    *[((thin, 5000), (1, 0)) for thin in range(2, 10)],
    *[((700, thin), (1, 0)) for thin in range(2, 10)],
    ((2, 90, 61), (1, 2, 0)),
    ((33, 3, 4, 9), (1, 2, 0, 3)),
    ((40, 3, 2, 2), (0, 2, 1, 3)),
    ((3, 5, 7, 2), (3, 1, 0, 2)),
    ((9, 40, 30), (0, 2, 1)),
    ((2, 8, 3, 50), (0, 3, 2, 1)),
    ((24, 25), (1, 0)),
    ((65, 4097), (1, 0)),
    ((30, 7, 70), (2, 1, 0)),
    ((2, 128, 3, 64), (0, 2, 3, 1)),
]


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "int64"])
@pytest.mark.parametrize(("sizes", "order"), ORDERS, ids=str)
def test_transpositions(sizes: tuple[int, ...], order: tuple[int, ...], dtype: DataTypeName) -> None:
    """Arrays of the caller lie in another order than the results."""
    turned = small(sizes, dtype).transpose(order)
    g = dg.Graph()
    x = g.input("x", sizes=list(turned.shape), dtype=dtype)
    g.output("y", dg.identity(x))
    for threads in (1, 2):
        got = CpuDevice(threads).compile(g.lower(fuse=False), reason="test").run({"x": turned})["y"]
        assert got.flags.c_contiguous
        np.testing.assert_array_equal(got, turned)


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "int64"])
@pytest.mark.parametrize("sizes", [(1, 12, 10, 50), (3, 36, 6, 6), (1, 4, 90, 130), (2, 9, 30, 66)], ids=str)
@pytest.mark.parametrize("block", [2, 3])
@pytest.mark.parametrize("order", ["depth_column_row", "column_row_depth"])
def test_blocks_of_pixels(sizes: tuple[int, ...], block: int, order: Any, dtype: DataTypeName) -> None:
    n, c, h, w = sizes
    g = dg.Graph()
    if c % block**2 == 0:
        x = g.input("x", sizes=list(sizes), dtype=dtype)
        g.output("wide", dg.depth_to_space1(x, block_size=block, order=order))
    deep = g.input("z", sizes=[n, c, h * block, w * block], dtype=dtype)
    g.output("deep", dg.space_to_depth1(deep, block_size=block, order=order))
    inputs = {"z": small((n, c, h * block, w * block), dtype)}
    check(g, **inputs, **({"x": small(sizes, dtype)} if c % block**2 == 0 else {}))


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "int64"])
@pytest.mark.parametrize(
    ("sizes", "repeats"),
    [
        ((700, 11, 2), (2, 2, 2)),
        ((60, 14), (2, 2)),
        ((5, 69, 5), (2, 2, 2)),
        ((9, 88), (1, 3)),
        ((7, 1, 300), (1, 9, 2)),
    ],
    ids=str,
)
def test_repeated_lines(sizes: tuple[int, ...], repeats: tuple[int, ...], dtype: DataTypeName) -> None:
    g = dg.Graph()
    g.output("y", dg.tile(g.input("x", sizes=list(sizes), dtype=dtype), repeats=list(repeats)))
    check(g, x=small(sizes, dtype))


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
def test_split_and_join(axis: int) -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[2, 4, 6, 8], dtype="float32")
    half = [2, 4, 6, 8][axis] // 2
    low, high = dg.split(x, axis=axis, outputs=[half, half])
    g.output("y", dg.join([high, low * 2, x, high], axis=axis))
    g.output("low", low)
    g.output("sum", low + high)
    check(g, x=image())


def test_views_cost_nothing() -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[6, 8], dtype="float32")
    left, right = dg.split(x, axis=1, outputs=[4, 4])
    g.output("y", dg.add(left, dg.slice(right, offsets=[0, 0], sizes=[6, 4], strides=[1, 1]), name="sum"))
    check(g, x=image((6, 8)))
    check_plan(g, "arena: 0 bytes\nregion [sum]: x -> y\n")


def test_the_parts_of_a_join_are_computed_in_place() -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[6, 8], dtype="float32")
    g.output("y", dg.join([dg.negate(x, name="left"), dg.negate(x + 1, name="right")], axis=0))
    check(g, x=image((6, 8)))
    check_plan(g, "arena: 0 bytes\nregion [left, add, right]: x, constants -> y\n")


def test_a_part_that_is_joined_twice_and_read_elsewhere() -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[6, 8], dtype="float32")
    part = dg.negate(x)
    inner = dg.join([part, x, part], axis=1)
    g.output("y", dg.join([inner, inner], axis=0))
    g.output("part", dg.abs(part))
    check(g, x=image((6, 8)))


# Of the same elements, with dimensions of size 1 at other places.
ONES = [(3, 1, 8), (1, 3, 8), (3, 8, 1), (3, 8), (1, 3, 1, 8), (3, 1, 1, 8)]


@pytest.mark.parametrize("read", ONES, ids=str)
@pytest.mark.parametrize("made", ONES, ids=str)
def test_a_view_with_dimensions_of_size_1_elsewhere_is_joined(made: tuple[int, ...], read: tuple[int, ...]) -> None:
    data, other = image(made), image(read) * 100
    for axis in range(len(read)):
        g = dg.Graph()
        x, z = g.input("x", sizes=list(made), dtype="float32"), g.input("z", sizes=list(read), dtype="float32")
        view = dg.negate(x).reshape(read)
        g.output("y", dg.join([z, view, view], axis=axis))
        executable = CpuDevice(2).compile(g.lower(fuse=False), reason="test")
        turned = -data.reshape(read)
        expected = np.concatenate([other, turned, turned], axis)
        np.testing.assert_array_equal(executable.run({"x": data, "z": other})["y"], expected)
        assert plan(g).startswith("arena: 0 bytes\n")  # it is computed where it is joined


@pytest.mark.parametrize("read", ONES, ids=str)
@pytest.mark.parametrize("made", ONES, ids=str)
def test_a_view_with_dimensions_of_size_1_elsewhere_is_padded(made: tuple[int, ...], read: tuple[int, ...]) -> None:
    g = dg.Graph()
    view = dg.negate(g.input("x", sizes=list(made), dtype="float32")).reshape(read)
    around = [1] * len(read)
    padded = dg.padding(view, padding_mode="constant", padding_value=0, start_padding=around, end_padding=around)
    g.output("y", padded)
    expected = np.pad(-image(made).reshape(read), 1)
    executable = CpuDevice(2).compile(g.lower(fuse=False), reason="test")
    np.testing.assert_array_equal(executable.run({"x": image(made)})["y"], expected)


def test_the_cache_of_keys_of_one_token() -> None:
    g = dg.Graph()
    past = g.input("past", sizes=[1, 4, 5, 8], dtype="float32")
    heads = dg.negate(g.input("x", sizes=[1, 1, 4, 8], dtype="float32"))
    g.output("y", dg.join([past, heads.transpose(0, 2, 1, 3)], axis=2))
    g.output("squeezed", dg.join([heads.squeeze(0).expand_dims(1), heads.reshape(1, 1, 4, 8)], axis=0))
    x, old = image((1, 1, 4, 8)), image((1, 4, 5, 8)) * 10
    results = CpuDevice(2).compile(g.lower(fuse=False), reason="test").run({"past": old, "x": x})
    np.testing.assert_array_equal(results["y"], np.concatenate([old, -x.transpose(0, 2, 1, 3)], 2))
    np.testing.assert_array_equal(results["squeezed"], np.concatenate([-x, -x], 0))


def test_joined_fills_and_sequences() -> None:
    g = dg.Graph()
    fill = g.fill_value_constant(sizes=[2, 3], dtype="int16", value=-3)
    sequence = g.fill_value_sequence(sizes=[2, 4], dtype="int16", value_start=5, value_delta=2)
    g.output("y", dg.join([fill, sequence, fill], axis=1))
    g.output("part", dg.slice(fill, offsets=[0, 1], sizes=[2, 2], strides=[1, 1]))
    check(g)


def test_moved_arrays_of_the_caller_may_have_any_layout() -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[6, 8], dtype="float32")
    left, right = dg.split(x, axis=1, outputs=[3, 5])
    g.output("y", dg.join([right, left], axis=1))
    g.output(
        "flipped", dg.slice1(x, input_window_offsets=[0, 0], input_window_sizes=[6, 8], input_window_strides=[-1, -1])
    )
    data = image((6, 8))
    expected = np.concatenate([data[:, 3:], data[:, :3]], 1)
    executable = CpuDevice(2).compile(g.lower(fuse=False), reason="test")
    for given in (np.asfortranarray(data), np.repeat(data, 2, axis=1)[:, ::2], data[::-1].copy()[::-1]):
        wide = np.zeros((6, 16), np.float32)
        results = executable.run({"x": given}, out={"y": wide[:, ::2]})
        np.testing.assert_array_equal(wide[:, ::2], expected)
        np.testing.assert_array_equal(results["flipped"], data[::-1, ::-1])
