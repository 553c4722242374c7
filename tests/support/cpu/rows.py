"""What the tests of reductions, softmax and normalizations share: a graph on `cpu`, compared with `reference`.

Bounds are in units of 2^-24, half a unit in the last place of float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

import dmlgraph as dg
from dmlgraph.devices.cpu import CpuDevice

Array = np.ndarray[Any, Any]
Build = Callable[..., dg.Value | tuple[dg.Value, ...]]
UNIT = 2.0**-24
NAN, INF = np.nan, np.inf

# Shapes with rows of one element, short ones, of which several are a block, of one tile and of several tiles, along
# inner and outer axes.
SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((7, 1), (1,)),
    ((1, 1), (0, 1)),
    ((5, 3), (1,)),
    ((5, 3), (0,)),
    ((3, 70, 9), (1,)),
    ((3, 70, 9), (0, 2)),
    ((2, 3, 4, 5), (1, 3)),
    ((2, 3, 4, 5), (0, 1, 2, 3)),
    ((2000, 13), (1,)),
    ((2000, 13), (0,)),
    ((67, 32), (1,)),
    ((101, 75), (1,)),
    ((11, 2, 300), (2,)),
    ((3, 1000), (1,)),
    ((40, 300), (0,)),
    ((2, 20001), (1,)),
    ((1100, 33), (0,)),
    ((1030, 3, 6), (0, 2)),
]
shapes = st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple)


@st.composite
def shapes_and_axes(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    sizes = draw(shapes)
    axes = draw(st.lists(st.integers(0, len(sizes) - 1), min_size=1, max_size=len(sizes), unique=True))
    return sizes, tuple(axes)


def numbers(sizes: Sequence[int], dtype: str = "float32", seed: int = 0) -> Array:
    """Normally distributed floats, or integers of the whole range."""
    random = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return random.standard_normal(sizes).astype(kind)
    info = np.iinfo(kind)
    return random.integers(info.min, info.max, sizes, kind, endpoint=True)


def graph(build: Build, arrays: dict[str, Array], **layouts: Any) -> dg.Graph:
    """A graph of inputs by name, with the outputs that `build` returns: y, or y0, y1, …"""
    g = dg.Graph("rows")
    values = {
        name: g.input(name, sizes=each.shape, dtype=each.dtype, **layouts.get(name, {}))
        for name, each in arrays.items()
    }
    made = build(**values)
    for index, value in enumerate(made if isinstance(made, tuple) else (made,)):
        g.output(f"y{index}", value)
    return g


def both(g: dg.Graph, arrays: dict[str, Array], threads: int = 2) -> list[tuple[Array, Array]]:
    """Pairs of the results of `cpu` and `reference`."""
    device = CpuDevice(threads)
    got = device.compile(g.lower(fuse=False), reason="test").run(arrays)
    expected = g.compile("reference", fuse=False).run(arrays)
    return [(got[name], expected[name]) for name in expected]


def near(got: Array, expected: Array, units: float, magnitude: Array | float | None = None) -> None:
    """Checks results to `units` of the expected numbers' magnitudes, or of `magnitude`; NaN and infinities must match.

    A float16 is rounded once more, so it may be the neighbouring number.
    """
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
    wide = expected.astype(np.float64)
    scale = np.abs(wide) if magnitude is None else np.broadcast_to(np.abs(magnitude), wide.shape)
    with np.errstate(all="ignore"):
        bound = units * UNIT * scale + 2.0**-148
        if expected.dtype == np.float16:
            bound = bound + np.abs(np.spacing(expected).astype(np.float64))
        same = (got == expected) | (np.isnan(got) & np.isnan(expected))
        good = same | (np.abs(got.astype(np.float64) - wide) <= bound)
    assert good.all(), f"{got[~good][:3]} instead of {expected[~good][:3]}"
