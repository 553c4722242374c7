"""Regions: element-wise nodes that run as one pass read every layout in place and agree with `reference`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cpu.plans import check_plan, check_steps

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices.cpu import CpuDevice

Array = np.ndarray[Any, Any]
DTYPES = ("float16", "float32", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def both(graph: dg.Graph, inputs: dict[str, Array], threads: int = 2) -> dict[str, Array]:
    """The results of `cpu`, which must have the same bits as those of `reference`."""
    desc = graph.lower(fuse=False)
    results = CpuDevice(threads).compile(desc, reason="test").run(inputs)
    expected = graph.compile("reference", fuse=False).run(inputs)
    assert list(results) == list(expected)
    for name, array in expected.items():
        assert results[name].dtype == array.dtype
        assert results[name].shape == array.shape
        np.testing.assert_array_equal(results[name].view(f"u{array.itemsize}"), array.view(f"u{array.itemsize}"), name)
    return results


def values(sizes: tuple[int, ...], dtype: str = "float32", seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(0, 100, sizes).astype(dtype)


def sums(a_sizes: tuple[int, ...], b_sizes: tuple[int, ...], dtype: DataTypeName = "float32") -> None:
    """a · b + a − b, broadcast."""
    g = dg.Graph()
    a, b = g.input("a", sizes=a_sizes, dtype=dtype), g.input("b", sizes=b_sizes, dtype=dtype)
    g.output("y", a * b + a - b)
    results = both(g, {"a": values(a_sizes, dtype), "b": values(b_sizes, dtype, 1)})
    x, z = values(a_sizes, dtype), values(b_sizes, dtype, 1)
    np.testing.assert_array_equal(results["y"], x * z + x - z)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_data_type(dtype: DataTypeName) -> None:
    sums((3, 700), (3, 700), dtype)


@pytest.mark.parametrize(
    ("a_sizes", "b_sizes"),
    [
        ((1,), (1,)),
        ((5,), (1,)),
        ((7, 3), (3,)),  # short rows: the operand is gathered once
        ((5000, 3), (3,)),
        ((5000, 3), (5000, 1)),
        ((40, 500), (500,)),  # long rows: read in place
        ((40, 500), (40, 1)),  # one number for each row
        ((40, 1), (1, 500)),  # an outer product
        ((4, 1, 6, 1), (1, 5, 1, 7)),
        ((2, 3, 300, 2), (3, 1, 1)),
        ((2, 3, 64, 64), (1, 3, 1, 1)),
        ((100001,), (100001,)),  # not a whole number of blocks
        ((3, 1, 1, 33333), (1, 2, 1, 33333)),
        ((2, 2, 2, 2, 2, 2, 2, 2), (2, 1, 2, 1, 2, 1, 2, 1)),
    ],
    ids=str,
)
def test_broadcasting(a_sizes: tuple[int, ...], b_sizes: tuple[int, ...]) -> None:
    sums(a_sizes, b_sizes)


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "fortran": np.asfortranarray,
    "reversed": lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
    "every third": lambda x: np.repeat(x, 3, axis=1)[:, ::3],
    "one for all": lambda x: np.broadcast_to(x[:1, :1], x.shape),
    "one for a row": lambda x: np.broadcast_to(x[:, :1], x.shape),
    "unaligned": lambda x: np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(x.dtype).reshape(x.shape),
    "read-only": lambda x: np.frombuffer(x.tobytes(), x.dtype).reshape(x.shape),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sizes", [(3, 5), (700, 3), (3, 700), (300, 400)], ids=str)
def test_the_callers_arrays_may_have_any_layout(layout: str, sizes: tuple[int, int]) -> None:
    g = dg.Graph()
    a, b = g.input("a", sizes=sizes, dtype="float32"), g.input("b", sizes=sizes, dtype="float32")
    g.output("y", (a - b) * a)
    g.output("copy", dg.identity(a))
    x, z = LAYOUTS[layout](values(sizes)), values(sizes, seed=1)
    results = both(g, {"a": x, "b": z})
    np.testing.assert_array_equal(results["y"], (x - z) * x)
    whole = np.full((sizes[0], 2 * sizes[1]), -1, np.float32)
    executable = g.compile("cpu", fuse=False)
    executable.run({"a": x, "b": z}, out={"y": whole[:, ::2], "copy": np.empty(sizes, np.float32, order="F")})
    np.testing.assert_array_equal(whole[:, ::2], (x - z) * x)
    assert (whole[:, 1::2] == -1).all()


@pytest.mark.parametrize("sizes", [(2, 3), (3, 700), (33, 65)], ids=str)
def test_transposed_operands_are_read_in_place(sizes: tuple[int, int]) -> None:
    """A transpose is a pair of strides: the second node reads the first one's output in the other order."""
    rows = sizes[0]
    g = dg.Graph()
    x = g.input("x", sizes=sizes, dtype="float32")
    turned = dg.identity(x + 1, output={"strides": [1, rows]})  # column by column
    g.output("y", turned * 2)
    g.output("turned", turned)
    data = values(sizes)
    assert (both(g, {"x": data})["y"] == (data + 1) * 2).all()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("channels", [2, 3, 33, 70])
@pytest.mark.parametrize("images", [1, 2])
def test_numbers_of_channels_beside_interleaved_ones(images: int, channels: int, threads: int) -> None:
    """Tiles of all channels, of which the last one of an image is narrower, have the same numbers; others have not."""
    g = dg.Graph()
    photo = g.input("photo", sizes=(images, 1001, channels), dtype="uint8")
    offset = g.input("offset", sizes=(channels, 1), dtype="float32")
    factor = g.input("factor", sizes=(images, channels, 1), dtype="float32")
    planes = dg.cast(photo.transpose(0, 2, 1), dtype="float32")
    g.output("y", dg.cast((planes - offset) * dg.abs(offset) * factor, dtype="float16"))
    given = {
        "photo": values((images, 1001, channels), "uint8"),
        "offset": values((channels, 1), seed=1),
        "factor": values((images, channels, 1), seed=2) / np.float32(64),
    }
    both(g, given, threads)


@pytest.mark.parametrize("pixels", [1, 5, 64, 1001])
@pytest.mark.parametrize("channels", [2, 3, 4, 5])
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "int64"])
def test_pixels_become_planes_and_planes_pixels(dtype: DataTypeName, channels: int, pixels: int) -> None:
    """Interleaved channels are read and written as planes."""
    sizes, interleaved = (2, channels, pixels), (channels * pixels, 1, channels)
    g = dg.Graph()
    x = g.input("x", sizes=sizes, dtype=dtype, strides=interleaved)
    y = g.input("y", sizes=sizes, dtype=dtype)
    g.output("planes", x + y)
    g.output("pixels", dg.subtract(x, y, output={"dtype": dtype, "sizes": sizes, "strides": interleaved}))
    photo = values((2, pixels, channels), dtype).transpose(0, 2, 1)
    inputs = {"x": photo, "y": values(sizes, dtype, 1)}
    both(g, inputs)
    out = {"pixels": np.empty((2, pixels, channels), dtype).transpose(0, 2, 1)}
    CpuDevice(2).compile(g.lower(fuse=False), reason="test").run(inputs, out)
    np.testing.assert_array_equal(out["pixels"], photo - inputs["y"])


@st.composite
def graphs_of_pixels_and_planes(draw: st.DrawFn) -> tuple[dg.Graph, dict[str, Array]]:
    """Chains over {images, channels, pixels} whose operands and results lie in any order, some of them broadcast."""
    sizes = (
        draw(st.integers(1, 3)),
        draw(st.integers(1, 9)),
        draw(st.sampled_from([1, 7, 255, 256, 300, 1024, 1100, 2500])),
    )
    images, channels, pixels = sizes
    layouts = {
        "planes": (channels * pixels, pixels, 1),
        "pixels": (channels * pixels, 1, channels),
        "rows": (pixels, images * pixels, 1),
    }
    g, inputs = dg.Graph(), {}
    known = []
    for k in range(draw(st.integers(1, 4))):
        kept = draw(
            st.sampled_from([(1, 1, 1), (1, 1, 1), (0, 1, 0), (1, 1, 0), (0, 1, 1), (0, 0, 1), (1, 0, 0), (0, 0, 0)])
        )
        own = tuple(size if keeps else 1 for size, keeps in zip(sizes, kept, strict=True))
        dtype: DataTypeName = draw(st.sampled_from(["uint8", "float32", "float16"]))
        inputs[f"x{k}"] = (values(own, dtype, k) % 5).astype(dtype)
        strides = layouts[draw(st.sampled_from(sorted(layouts)))] if own == sizes else None
        x = g.input(f"x{k}", sizes=own, dtype=dtype, strides=strides)
        known.append(dg.cast(x, dtype="float32").broadcast_to(*sizes) if own != sizes else dg.cast(x, dtype="float32"))
    for _ in range(draw(st.integers(1, 6))):
        one, other = draw(st.sampled_from(known)), draw(st.sampled_from(known))
        function = draw(st.sampled_from([dg.add, dg.subtract, dg.max, dg.min]))
        known.append(function(one, other))
    for k in range(draw(st.integers(1, 3))):
        result = known[-1] if k == 0 else draw(st.sampled_from(known))
        dtype = draw(st.sampled_from(["float32", "float16"]))
        strides = layouts[draw(st.sampled_from(sorted(layouts)))]
        g.output(f"y{k}", dg.cast(result, dtype=dtype, output={"dtype": dtype, "sizes": sizes, "strides": strides}))
    return g, inputs


@settings(max_examples=150)
@given(graphs_of_pixels_and_planes(), st.integers(1, 2))
def test_pixels_and_planes_cross_at_random(made: tuple[dg.Graph, dict[str, Array]], threads: int) -> None:
    both(*made, threads)


def test_inputs_and_outputs_with_strides_of_their_own_leave_gaps() -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[2, 3], dtype="float32", strides=[1, 4])
    y = dg.add(x, x, output={"strides": [8, 2]})
    sequence = g.fill_value_sequence(sizes=[2, 3], dtype="float32", strides=[5, 1], value_start=0, value_delta=1)
    g.output("y", dg.identity(y) - sequence)
    g.output("gaps", y)
    both(g, {"x": values((2, 3))})


def test_fills_and_sequences_cost_no_step() -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[3, 50], dtype="float32")
    fill = g.fill_value_constant(sizes=[3, 50], dtype="float32", value=2.5)
    sequence = g.fill_value_sequence(sizes=[3, 50], dtype="float32", value_start=3, value_delta=-0.5)
    g.output("y", (x + fill) * sequence - fill)
    data = values((3, 50))
    both(g, {"x": data})
    check_plan(
        g,
        """
        arena: 0 bytes
        region [add, multiply, subtract]: x, constants -> y
        """,
    )


def test_fills_and_sequences_can_be_outputs_and_be_read_by_other_steps() -> None:
    g = dg.Graph()
    fill = g.fill_value_constant(sizes=[3, 5000], dtype="float16", value={"bits": 0x7E01})
    sequence = g.fill_value_sequence(sizes=[5000, 3], dtype="int32", value_start=-3, value_delta=7)
    g.output("fill", fill)
    g.output("again", fill)
    g.output("sequence", sequence)
    g.output("total", dg.reduce(sequence, function="sum", axes=[1]))
    g.output("fills", dg.reduce(g.fill_value_constant(sizes=[4, 4], dtype="int32", value=3), function="sum", axes=[1]))
    both(g, {})


def test_single_elements_are_computed_once_and_spread() -> None:
    g = dg.Graph()
    x, one = g.input("x", sizes=[30, 40], dtype="float32"), g.input("one", sizes=[1, 1], dtype="float32")
    scalar = one * 3 + g.fill_value_constant(sizes=[1, 1], dtype="float32", value=1)
    g.output("y", x + scalar)
    g.output("scalar", scalar)
    data = values((30, 40))
    assert (both(g, {"x": data, "one": np.full((1, 1), 5, np.float32)})["y"] == data + 16).all()


def test_a_region_that_reads_the_same_tensor_in_several_ways() -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[64, 64], dtype="float32")
    flipped = dg.slice1(x, input_window_offsets=[0, 0], input_window_sizes=[64, 64], input_window_strides=[-1, -1])
    part = dg.slice(x, offsets=[3, 0], sizes=[1, 64], strides=[1, 1])
    g.output("y", x * flipped + part - x)
    data = values((64, 64))
    np.testing.assert_array_equal(both(g, {"x": data})["y"], data * data[::-1, ::-1] + data[3:4] - data)


def test_many_values_live_at_a_time() -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[3000], dtype="float32")
    terms = [x * float(k) for k in range(60)]
    pairs = [one - other for one, other in zip(terms, reversed(terms), strict=True)]
    total = pairs[0]
    for one in pairs[1:]:
        total = dg.max(total, one)
    g.output("y", total)
    for k in range(0, 60, 7):
        g.output(f"t{k}", terms[k])
    both(g, {"x": values((3000,))})


def test_data_types_of_different_widths_share_a_region() -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[5, 999], dtype="uint8")
    wide = dg.cast(x, dtype="float32") * 0.25
    half = dg.cast(wide, dtype="float16")
    g.output("wide", dg.cast(half, dtype="float64"))
    g.output("long", dg.cast(half, dtype="int64") + dg.cast(x, dtype="int64"))
    g.output("half", half)
    g.output("low", dg.cast(wide + 300, dtype="uint8"))
    both(g, {"x": values((5, 999), "uint8")})
    casts = "cast, multiply, cast_1, cast_2, cast_3, cast_4, add, add_1, cast_5"
    check_steps(g, f"region [{casts}]: x, constants -> half, wide, long, low")


def test_results_that_no_cache_holds() -> None:
    """Stores go past the caches: of 32 MiB, and with reductions of 16 MiB."""
    g = dg.Graph()
    x = g.input("x", sizes=[1, 1000], dtype="uint8")
    g.output("y", x.broadcast_to((1 << 25) // 1000 + 1, 1000) + x)
    data = values((1, 1000), "uint8")
    got = CpuDevice(2).compile(g.lower(fuse=False), reason="test").run({"x": data})["y"]
    assert (got == data + data).all()

    g = dg.Graph()
    x = g.input("x", sizes=[5000, 1000], dtype="float32")
    g.output("y", x - dg.reduce(x, function="max", axes=[1]))
    data = values((5000, 1000))
    got = CpuDevice(2).compile(g.lower(fuse=False), reason="test").run({"x": data})["y"]
    assert (got == data - data.max(1, keepdims=True)).all()
