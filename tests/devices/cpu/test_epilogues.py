"""Element-wise nodes that follow a product are part of its step, where nobody else reads what lies between."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dmlgraph as dg
from dmlgraph._native import cpu_kernels
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices.cpu import CpuDevice
from dmlgraph.devices.executable import Executable

Array = np.ndarray[Any, Any]
SIZES = (2, 5, 7, 6)


def compiled(graph: dg.Graph, threads: int = 1) -> Executable:
    return CpuDevice(threads).compile(graph.lower(fuse=False), reason="test")


def weights(graph: dg.Graph, channels: int, taps: int) -> dg.Value:
    numbers = np.random.default_rng(taps).integers(-1, 2, (channels, channels, taps, taps))
    return graph.constant(f"w{sum(1 for _ in graph.nodes)}", numbers.astype(np.float32))


def convolved(x: dg.Value, taps: int = 3, **more: Any) -> dg.Value:
    """A convolution that keeps the sizes, of whole numbers that are small: so its sums are exact in any order."""
    small = dg.clip(x, min=-8, max=8, name=f"small{sum(1 for _ in x.graph.nodes)}")
    pad: dict[str, Any] = {"start_padding": [taps // 2] * 2, "end_padding": [taps // 2] * 2}
    return dg.convolution(small, weights(x.graph, x.desc.sizes[1], taps), **pad, **more)


def plan(graph: dg.Graph) -> list[str]:
    """The steps, but those that make numbers small, as `dmlgraph lower` prints them."""
    _, *steps = CpuDevice(1).plan(graph.lower(fuse=False)).split("\n")
    return [each for each in steps if each and not each.startswith("region [small")]


def check(graph: dg.Graph, threads: int = 1) -> Executable:
    """The results have the bits of the reference's."""
    random = np.random.default_rng(0)
    inputs = {each.name: random.integers(-9, 10, each.desc.sizes).astype(np.float32) for each in graph.inputs}
    expected = graph.compile("reference", fuse=False).run(inputs)
    executable = compiled(graph, threads)
    results = executable.run(inputs)
    for name, wanted in expected.items():
        np.testing.assert_array_equal(results[name], wanted, name)
    return executable


def test_what_follows_a_convolution_is_part_of_its_step() -> None:
    g = dg.Graph()
    x, skip = (g.input(name, sizes=SIZES, dtype="float32") for name in ("x", "skip"))
    scale = g.input("scale", sizes=(1, 5, 1, 1), dtype="float32")
    y = dg.add(dg.multiply(convolved(x, name="product"), scale, name="scaled"), skip, name="sum")
    g.output("y", dg.activation_relu(y, name="y"))
    assert plan(g) == ["convolution [product, scaled, sum, y]: #1, w4, scale, skip -> y"]
    steps = check(g).profile(
        dict.fromkeys(("x", "skip"), np.ones(SIZES, np.float32)) | {"scale": np.ones((1, 5, 1, 1), np.float32)}
    )
    assert steps is not None
    (product,) = (step for step in steps if step.kernel)
    assert product.nodes == ("product", "scaled", "sum", "y")


def test_a_matrix_product_takes_the_same() -> None:
    g = dg.Graph()
    x, w = g.input("x", sizes=(5, 7), dtype="float32"), g.input("w", sizes=(7, 33), dtype="float32")
    row, column = (g.input(name, sizes=sizes, dtype="float32") for name, sizes in (("r", (1, 33)), ("c", (5, 1))))
    g.output("y", dg.clip((dg.gemm(x, w, name="product") + row) * column, min=-50, max=60))
    assert plan(g) == ["gemm [product, add, multiply, clip]: x, w, r, c -> y"]
    check(g)


def test_nodes_that_meet_again_are_taken_together() -> None:
    g = dg.Graph()
    product = convolved(g.input("x", sizes=SIZES, dtype="float32"))
    g.output("y", dg.multiply(product, dg.clip(dg.add(product, 3), min=0, max=6)))  # x · clip(x + 3)
    assert plan(g) == ["convolution [convolution, add, clip, multiply]: #1, w2, constants -> y"]
    check(g)


def test_the_second_of_two_products_stays_apart() -> None:
    g = dg.Graph()
    x = g.input("x", sizes=SIZES, dtype="float32")
    g.output("y", dg.add(convolved(x), convolved(x, 1), name="y"))
    assert plan(g) == ["convolution [convolution_1]: #2, w5 -> #3", "convolution [convolution, y]: #1, w2, #3 -> y"]
    check(g)


def _output_between(product: dg.Value) -> dg.Value:
    product.graph.output("between", product)
    return dg.abs(product)


def _other_reader(product: dg.Value) -> dg.Value:
    product.graph.output("joined", dg.join([product, product], axis=1))
    return dg.abs(product)


def _flattened(product: dg.Value) -> dg.Value:
    return dg.abs(dg.reshape(product, sizes=(1, 1, 2, 210)))


def _way_out_and_back(product: dg.Value) -> dg.Value:
    return dg.add(product, convolved(product), name="sum")


def _beside_a_sequence(product: dg.Value) -> dg.Value:
    return dg.add(
        product, product.graph.fill_value_sequence(sizes=SIZES, dtype="float32", value_start=1, value_delta=2)
    )


def _across_memory(product: dg.Value) -> dg.Value:
    other = product.graph.input("turned", sizes=(2, 6, 7, 5), dtype="float32")
    return dg.add(product, dg.transpose(other, permutation=[0, 3, 2, 1]))


@pytest.mark.parametrize(
    ("follow", "stored", "afterwards"),
    [
        (_output_between, "between", ["region [abs, activation_relu]: between -> y"]),
        (_other_reader, "joined", ["region [join]: joined -> joined", "region [abs, activation_relu]: joined -> y"]),
        (_flattened, "#2", ["region [abs, activation_relu]: #2 -> y"]),
        (_beside_a_sequence, "#2", ["region [add, activation_relu]: #2 -> y"]),
        (_across_memory, "#2", ["region [add, activation_relu]: #2, turned -> y"]),
        (_way_out_and_back, "#2", ["convolution [convolution, sum, activation_relu]: #3, w5, #2 -> y"]),
    ],
)
def test_what_cannot_join_runs_afterwards(
    follow: Callable[[dg.Value], dg.Value], stored: str, afterwards: list[str]
) -> None:
    g = dg.Graph()
    product = convolved(g.input("x", sizes=SIZES, dtype="float32"), name="product")
    g.output("y", dg.activation_relu(follow(product)))
    assert plan(g) == [f"convolution [product]: #1, w2 -> {stored}", *afterwards]
    check(g)


# Endings: numbers and tensors that are added, and bounds, in the registers of a convolution.

EDGES = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3e38, -3e38, 1.5, -2.0, 6.0], np.float32)
BOUNDS: dict[str, Callable[[dg.Value], dg.Value]] = {
    "none": lambda x: x,
    "relu": dg.activation_relu,
    "threshold": lambda x: dg.threshold(x, min=-0.5),
    "threshold at NaN": lambda x: dg.threshold(x, min=np.nan),
    "relu6": lambda x: dg.clip(x, min=0, max=6),
    "clip": lambda x: dg.clip(x, min=-1.5, max=2.5),
    "clip at zeros": lambda x: dg.clip(x, min=-0.0, max=0.0),
    "clip above": lambda x: dg.clip(x, min=-np.inf, max=1),
    "clip without bounds": lambda x: dg.clip(x, min=-np.inf, max=np.inf),
}


def edges(seed: int, sizes: tuple[int, ...], dtype: str) -> Array:
    random = np.random.default_rng(seed)
    numbers = np.where(random.random(sizes) < 0.4, random.choice(EDGES, sizes), random.normal(size=sizes) * 4)
    with np.errstate(over="ignore"):
        return numbers.astype(dtype)


@st.composite
def ends(draw: st.DrawFn) -> dict[str, Any]:
    """A convolution, and what follows it: summands by their kind, then bounds."""
    channels = draw(st.sampled_from([1, 3, 9, 20]))
    return {
        "dtype": draw(st.sampled_from(["float32", "float32", "float16"])),
        "sizes": (draw(st.integers(1, 2)), channels, draw(st.integers(1, 9)), draw(st.integers(1, 40))),
        "groups": draw(st.sampled_from([1, channels])),
        "taps": draw(st.sampled_from([1, 3, 3, 5])),
        "stride": draw(st.sampled_from([1, 1, 2])),
        "summands": draw(st.lists(st.sampled_from(["channels", "whole", "whole", "one", "rows"]), max_size=3)),
        "swapped": draw(st.booleans()),
        "bounds": draw(st.sampled_from(sorted(BOUNDS))),
        "bias": draw(st.booleans()),
    }


def check_ending(of: dict[str, Any], threads: int) -> None:
    """A graph whose convolution takes all that follows gives the bits of one in which every value is an output."""
    n, channels, height, width = of["sizes"]
    taps, stride, dtype = of["taps"], of["stride"], of["dtype"]
    outputs = (n, channels, (height - 1) // stride + 1, (width - 1) // stride + 1)
    shapes = {
        "channels": (1, channels, 1, 1),
        "whole": outputs,
        "one": (1, 1, 1, 1),
        "rows": (*outputs[:3], 1),
    }

    def build(separate: bool) -> dg.Graph:
        g = dg.Graph("ending")
        x = g.input("x", sizes=of["sizes"], dtype=dtype)
        filters = np.random.default_rng(taps).integers(-1, 2, (channels, channels // of["groups"], taps, taps))
        bias: dict[str, Any] = (
            {"bias": g.input("bias", sizes=shapes["channels"], dtype=dtype)} if of["bias"] and not separate else {}
        )
        y = dg.convolution(
            x, g.constant("w", filters.astype(dtype)), **bias, strides=[stride] * 2,
            start_padding=[taps // 2] * 2, end_padding=[taps // 2] * 2, group_count=of["groups"],
        )  # fmt: skip
        summands = [g.input(f"s{k}", sizes=shapes[kind], dtype=dtype) for k, kind in enumerate(of["summands"])]
        if separate:  # every value is an output: so nothing joins the convolution
            g.output("sums", y)
            if of["bias"]:
                y = dg.add(y, g.input("bias", sizes=shapes["channels"], dtype=dtype))
                g.output("with bias", y)
        for k, summand in enumerate(summands):
            y = dg.add(summand, y) if of["swapped"] else dg.add(y, summand)
            if separate:
                g.output(f"sum {k}", y)
        y = BOUNDS[of["bounds"]](y)
        g.output("y", dg.identity(y) if of["bounds"] == "none" and not summands else y)
        return g

    random = np.random.default_rng(1)
    inputs = {"x": random.integers(-4, 5, of["sizes"]).astype(dtype)}
    if of["bias"]:
        inputs["bias"] = edges(2, shapes["channels"], dtype)
    inputs |= {f"s{k}": edges(3 + k, shapes[kind], dtype) for k, kind in enumerate(of["summands"])}
    (joined,) = compiled(build(False), threads).run(inputs).values()
    apart = compiled(build(True), threads).run(inputs)["y"]
    bits = np.uint32 if dtype == "float32" else np.uint16
    same = (joined.view(bits) == apart.view(bits)) | (np.isnan(joined) & np.isnan(apart))
    assert same.all(), (of, joined[~same][:4], apart[~same][:4])


@settings(max_examples=150, deadline=None)
@given(of=ends(), threads=st.sampled_from([1, 2, 3]))
def test_endings_have_the_bits_of_separate_steps(of: dict[str, Any], threads: int) -> None:
    check_ending(of, threads)


def check_deep_ending(summand: tuple[int, int], m: int, n: int, k: int, threads: int, dtype: DataTypeName) -> None:
    """A product of several depths with an ending has the bits of the product, then NumPy's sum and bound."""
    random = np.random.default_rng(m * n + k)
    numbers = {"x": random.normal(size=(1, 1, m, k)).astype(dtype), "s": edges(k, (1, 1, *summand), dtype)}
    w = random.normal(size=(1, 1, k, n)).astype(dtype)

    def run(ending: bool) -> Array:
        g = dg.Graph("deep")
        y = dg.gemm(g.input("x", sizes=(1, 1, m, k), dtype=dtype), g.constant("w", w))
        s = g.input("s", sizes=(1, 1, *summand), dtype=dtype)
        g.output("y", dg.clip(y + s, min=-1.5, max=20) if ending else y)
        if not ending:
            g.output("s too", dg.identity(s))
        return compiled(g, threads).run(numbers)["y"]

    with np.errstate(over="ignore"):
        sums = run(False) + numbers["s"]
    expected = np.fmax(sums.dtype.type(-1.5), np.fmin(sums, sums.dtype.type(20)))
    result = run(True)
    same = (result == expected) | np.isnan(numbers["s"])
    assert same.all(), (summand, m, n, k, result[~same][:4], expected[~same][:4])


def check_deep_endings(threads: int) -> None:
    for m, n, k in [
        (37, 45, 700),
        (29, 49, 64),
        (41, 117, 500),
        (40, 216, 400),
        (5, 130, 321),
        (3, 40, 330),
        (14, 7, 641),
    ]:
        dtypes: tuple[DataTypeName, ...] = ("float32", "float16")
        for summand, dtype in itertools.product([(m, n), (1, n), (m, 1), (1, 1)], dtypes):
            check_deep_ending(summand, m, n, k, threads, dtype)


@pytest.mark.parametrize("channels", [330, 20])
@pytest.mark.parametrize("summands", [["whole"], ["whole", "whole"], ["channels"]])
@pytest.mark.parametrize("bounds", ["none", "relu", "relu6"])
def test_endings_of_deep_convolutions_in_float16(channels: int, summands: list[str], bounds: str) -> None:
    """More channels than are added up at a time, and rows that end within a vector."""
    for taps, stride in [(1, 1), (1, 2), (5, 1)] if channels < 100 else [(1, 1), (1, 2)]:
        of = {"dtype": "float16", "sizes": (1, channels, 7, 7), "groups": 1, "taps": taps, "stride": stride}
        for threads in (1, 3):
            check_ending(of | {"summands": summands, "swapped": False, "bounds": bounds, "bias": True}, threads)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("taps", [2, 3, 5])
def test_float16_pictures_in_any_layout_give_the_same(taps: int, stride: int) -> None:
    """Rows that follow one another, with gaps, and whose elements are apart; and so the results."""
    sizes, random = (2, 20, 31, 37), np.random.default_rng(taps)
    g = dg.Graph("layouts")
    x = g.input("x", sizes=sizes, dtype="float16")
    fields: dict[str, Any] = {"strides": [stride] * 2, "start_padding": [taps // 2] * 2, "end_padding": [taps // 2] * 2}
    w = g.constant("w", random.normal(size=(20, 1, taps, taps)).astype(np.float16))
    g.output("convolved", dg.activation_relu(dg.convolution(x, w, **fields, group_count=20)))
    g.output("greatest", dg.max_pooling(x, window_size=[taps] * 2, **fields))
    executable = compiled(g, 2)
    numbers = edges(taps, sizes, "float16")
    expected = executable.run({"x": numbers})
    for step in (1, 2):
        wide = np.full((*sizes[:3], 2 * sizes[3]), np.nan, np.float16)[..., : step * sizes[3] : step]
        wide[...] = numbers
        out = {
            name: np.zeros((*each.shape[:3], 3 * each.shape[3]), np.float16)[..., : step * each.shape[3] : step]
            for name, each in expected.items()
        }
        executable.run({"x": wide}, out=out)
        for name, each in expected.items():
            np.testing.assert_array_equal(np.ascontiguousarray(out[name]).view(np.uint16), each.view(np.uint16), name)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_endings_of_deep_products(threads: int) -> None:
    check_deep_endings(threads)


def check_level() -> None:
    """Endings of direct and depthwise convolutions and of products; a process for each level runs this."""
    for dtype, (groups, taps, stride), summands, bounds, width in itertools.product(
        ["float32", "float16"],
        [(1, 3, 1), (1, 3, 2), (9, 3, 1), (9, 3, 2), (9, 5, 1), (1, 1, 1)],
        [[], ["whole"], ["channels", "whole"]],
        sorted(BOUNDS),
        [3, 37],
    ):
        of = {"dtype": dtype, "sizes": (1, 9, 5, width), "groups": groups, "taps": taps, "stride": stride}
        check_ending(of | {"summands": summands, "swapped": False, "bounds": bounds, "bias": not summands}, 1)
    check_deep_endings(1)


@pytest.mark.parametrize("level", cpu_kernels.levels())
def test_endings_of_every_instruction_set(level: str) -> None:
    environment = os.environ | {"DMLGRAPH_CPU_LEVEL": level, "PYTHONPATH": str(Path(__file__).parents[2])}
    code = "from devices.cpu import test_epilogues; test_epilogues.check_level()"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


# Random crossings.

_UNARY = (
    dg.abs,
    dg.negate,
    dg.activation_relu,
    lambda x: dg.clip(x, min=-20, max=40),
    lambda x: dg.cast(dg.cast(x, dtype="float16"), dtype="float32"),
    lambda x: dg.identity(x, scale_bias={"scale": 2, "bias": 1}),
)
_BINARY = (dg.add, dg.subtract, dg.max, dg.min)


@st.composite
def graphs(draw: st.DrawFn) -> dg.Graph:
    """Convolutions and products of matrices with element-wise nodes around them, and a view now and then."""
    g = dg.Graph("random")
    sizes = (
        draw(st.integers(1, 2)),
        draw(st.sampled_from([1, 3, 8])),
        *draw(st.sampled_from([(1, 1), (5, 3), (9, 35)])),
    )
    whole = [g.input(name, sizes=sizes, dtype="float32") for name in ("a", "b")]
    parts = [
        g.input(f"part{index}", sizes=[size if draw(st.booleans()) else 1 for size in sizes], dtype="float32")
        for index in range(2)
    ]
    square = np.random.default_rng(1).integers(-1, 2, (sizes[0], sizes[1], sizes[3], sizes[3])).astype(np.float32)
    square_value = g.constant("square", square)
    for _ in range(draw(st.integers(2, 12))):
        x = draw(st.sampled_from(whole[-4:]))
        kind = draw(st.sampled_from(["product", "product", "unary", "binary", "binary", "binary", "view"]))
        if kind == "product" and draw(st.booleans()):
            groups = draw(st.sampled_from([1, sizes[1]]))
            taps = draw(st.sampled_from([1, 3]))
            filters = np.random.default_rng(2).integers(-1, 2, (sizes[1], sizes[1] // groups, taps, taps))
            named = g.constant(f"w{len(whole)}", filters.astype(np.float32))
            small, pad = dg.clip(x, min=-8, max=8), [taps // 2] * 2
            whole.append(dg.convolution(small, named, start_padding=pad, end_padding=pad, group_count=groups))
        elif kind == "product":
            whole.append(dg.gemm(dg.clip(x, min=-8, max=8), square_value))
        elif kind == "unary":
            whole.append(draw(st.sampled_from(_UNARY))(x))
        elif kind == "binary":
            other = draw(st.sampled_from(whole + parts))
            whole.append(draw(st.sampled_from(_BINARY))(*((x, other) if draw(st.booleans()) else (other, x))))
        else:
            window: dict[str, Any] = {"input_window_offsets": [0] * 4, "input_window_sizes": list(sizes)}
            whole.append(dg.slice1(x, **window, input_window_strides=[1, 1, -1, 1]))
    made = whole[2:]
    for index, value in enumerate([*draw(st.lists(st.sampled_from(made), max_size=2)), made[-1]]):
        g.output(f"y{index}", value)
    return g


@settings(max_examples=200, deadline=None)
@given(g=graphs(), threads=st.sampled_from([1, 2, 3]), in_place=st.booleans())
def test_random_graphs(g: dg.Graph, threads: int, in_place: bool) -> None:
    random = np.random.default_rng(0)
    inputs = {each.name: random.integers(-9, 10, each.desc.sizes).astype(np.float32) for each in g.inputs}
    expected = g.compile("reference", fuse=False).run({name: each.copy() for name, each in inputs.items()})
    out = {"y0": inputs["a"]} if in_place else {}
    results = compiled(g, threads).run(inputs, out)
    for name, wanted in expected.items():
        np.testing.assert_array_equal(results[name], wanted, name)
