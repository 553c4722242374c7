"""Products with weights in blocks: near the exact product of the numbers they stand for, which are never in memory."""

from __future__ import annotations

import os
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cpu.plans import kinds

import dmlgraph as dg
from dmlgraph._native import cpu_kernels
from dmlgraph.graph.nodes import ConstantNode

Array = np.ndarray[Any, Any]
UNIT = 2.0**-24
PACKED = ("w", "scale", "zero")
TYPES = {"int4": ml_dtypes.int4, "uint4": ml_dtypes.uint4, "int8": np.int8, "uint8": np.uint8}
RANGES = {"int4": (-8, 7), "uint4": (0, 15), "int8": (-128, 127), "uint8": (0, 255)}


def weights(dtype: str, sizes: tuple[int, ...], random: np.random.Generator) -> Array:
    low, high = RANGES[dtype]
    return random.integers(low, high, sizes, endpoint=True).astype(TYPES[dtype])


def repeated(x: Array, sizes: tuple[int, ...]) -> Array:
    """Each number over its block."""
    for axis, size in enumerate(sizes):
        x = x.repeat(size // x.shape[axis], axis)
    return x.astype(np.float64)


def values_of(g: dg.Graph, given: dict[str, Array], known: bool) -> dict[str, dg.Value]:
    """The arrays as inputs, or the weights as constants if they are known."""
    return {
        name: g.constant(name, each) if known and name in PACKED else g.input(name, sizes=each.shape, dtype=each.dtype)
        for name, each in given.items()
    }


def fed(given: dict[str, Array], known: bool) -> dict[str, Array]:
    return {name: each for name, each in given.items() if not known or name not in PACKED}


def check(
    random: np.random.Generator, dtype: str, numbers: str, rows: int, blocks: tuple[int, int], block: tuple[int, int],
    *, transposes: bool = False, has_zeros: bool = True, fewer_zeros: bool = False, known: bool = False,
    threads: int = 2,
) -> None:  # fmt: skip
    """`blocks` are rows and columns of blocks of the stored matrix, each of the sizes `block`.

    `known`: whether the weights are constants, so that they may be packed.
    """
    sizes = (blocks[0] * block[0], blocks[1] * block[1])
    inner, columns = sizes[::-1] if transposes else sizes
    stored = weights(dtype, sizes, random)
    scale = (random.random(blocks) + 0.1).astype(numbers)
    zero = weights(dtype, (1, blocks[1]) if fewer_zeros else blocks, random)
    x = random.standard_normal((rows, inner)).astype(numbers)
    c = random.standard_normal(columns).astype(numbers)
    given = {"x": x, "c": c, "w": stored, "scale": scale, **({"zero": zero} if has_zeros else {})}
    g = dg.Graph()
    values = values_of(g, given, known)
    quantizations = [values[name] for name in ("scale", "zero") if name in given]
    kind: Any = "scale_zero_point" if has_zeros else "scale"
    matrix = dg.dequantize(values["w"], quantizations, quantization_type=kind)
    transform: Any = "transpose" if transposes else "none"
    g.output("y", dg.gemm(values["x"], matrix, values["c"], trans_b=transform))
    executable = g.compile("cpu", threads=threads, fuse=not known)  # rules may fold small constants
    assert kinds(executable) == (
        ["region", "block_gemm"] if numbers == "float16" else ["block_gemm"]
    )  # a region converts scales
    got = executable.run(fed(given, known))["y"].astype(np.float64)

    steps = stored.astype(np.float64) - (repeated(zero, sizes) if has_zeros else 0)
    exact = steps * repeated(scale, sizes)
    exact = exact.T if transposes else exact
    expected = x.astype(np.float64) @ exact + c
    bound = (inner + 5) * UNIT * (np.abs(x).astype(np.float64) @ np.abs(exact) + np.abs(c))
    if numbers == "float16":
        bound = bound + 2.0**-10 * np.abs(expected) + 2.0**-24
    assert (np.abs(got - expected) <= bound).all()


sides = st.sampled_from([1, 2, 3, 7, 16, 33])


@given(
    st.sampled_from(sorted(TYPES)), st.sampled_from(["float32", "float16"]), st.sampled_from([1, 2, 4, 5, 13, 40]),
    st.tuples(sides, sides), st.tuples(sides, sides), st.booleans(), st.booleans(), st.booleans(), st.booleans(),
    st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_any_sizes(dtype, numbers, rows, blocks, block, transposes, has_zeros, fewer_zeros, known, seed) -> None:
    check(
        np.random.default_rng(seed), dtype, numbers, rows, blocks, block, transposes=transposes, has_zeros=has_zeros,
        fewer_zeros=fewer_zeros, known=known,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("transposes", [False, True])
@pytest.mark.parametrize("rows", [1, 4, 5, 100])
@pytest.mark.parametrize("known", [False, True])
def test_several_depths_and_blocks(dtype: str, transposes: bool, rows: int, known: bool) -> None:
    """As in language models: blocks of 32 along 2080 depths."""
    blocks, block = ((150, 65), (1, 32)) if transposes else ((65, 150), (32, 1))
    check(np.random.default_rng(1), dtype, "float32", rows, blocks, block, transposes=transposes, known=known)


def check_integers(
    rows: int, columns: int, depth: int, block: int, has_zeros: bool, known: bool = True, dtype: str = "uint4"
) -> None:
    """Both operands are integers in the same blocks: their products are exact within a block."""
    random = np.random.default_rng(rows + columns + depth)
    blocks = depth // block
    given: dict[str, Array] = {
        "x": random.integers(-127, 127, (rows, depth), np.int8, endpoint=True),
        "x_scale": (random.random((rows, blocks)) + 0.1).astype(np.float32),
        "w": weights(dtype, (columns, depth), random),
        "scale": (random.random((columns, blocks)) + 0.1).astype(np.float32),
        "zero": weights(dtype, (columns, blocks), random),
        "c": random.standard_normal(columns).astype(np.float32),
    }
    if not has_zeros:
        given["zero"][:] = 7
    g = dg.Graph()
    values = values_of(g, given, known)
    x = dg.dequantize(values["x"], [values["x_scale"]], quantization_type="scale")
    matrix = dg.dequantize(values["w"], [values["scale"], values["zero"]], quantization_type="scale_zero_point")
    g.output("y", dg.gemm(x, matrix, values["c"], trans_b="transpose"))
    executable = g.compile("cpu", threads=2, fuse=False)
    assert kinds(executable) == (["region", "block_gemm"] if dtype == "int8" else ["block_gemm"])
    got = executable.run(fed(given, known))["y"].astype(np.float64)

    sizes = (columns, depth)
    exact = (given["w"].astype(np.float64) - repeated(given["zero"], sizes)) * repeated(given["scale"], sizes)
    numbers = given["x"] * repeated(given["x_scale"], (rows, depth))
    expected = numbers @ exact.T + given["c"]
    bound = (
        ((depth if dtype == "int8" else blocks) + 5) * UNIT * (np.abs(numbers) @ np.abs(exact.T) + np.abs(given["c"]))
    )
    assert (np.abs(got - expected) <= bound).all()


@pytest.mark.parametrize("block", [8, 16, 32, 64, 128, 256])
@pytest.mark.parametrize("rows", [1, 3, 8, 13, 150])
def test_integers_in_the_same_blocks(rows: int, block: int) -> None:
    check_integers(rows, 77, 3 * block, block, has_zeros=rows % 2 == 0)
    check_integers(rows, 16, block, block, has_zeros=True, known=block == 32, dtype="int4")


def test_integers_times_integers_of_8_bits() -> None:
    """They are multiplied as floats."""
    check_integers(3, 33, 64, 32, has_zeros=True, dtype="int8")


def test_packed_weights_are_in_memory_once() -> None:
    """Whoever asks for them gets the same bits."""
    random = np.random.default_rng(6)
    for dtype in ("int4", "uint4"):
        given = {
            "w": weights(dtype, (64, 128), random),
            "scale": random.random((64, 4), np.float32),
            "zero": weights(dtype, (64, 4), random),
        }
        g = dg.Graph()
        values = {name: g.constant(name, each) for name, each in given.items()}
        matrix = dg.dequantize(values["w"], [values["scale"], values["zero"]], quantization_type="scale_zero_point")
        g.output("y", dg.gemm(g.input("x", sizes=[2, 128], dtype="float32"), matrix, trans_b="transpose"))
        arrays = [weakref.ref(data_of(g, name)) for name in given]
        executable = g.compile("cpu", fuse=False)
        assert [array() is None for array in arrays] == [True] * 3
        for name, each in given.items():
            np.testing.assert_array_equal(data_of(g, name), each)
        assert kinds(executable) == ["block_gemm"]


def data_of(graph: dg.Graph, name: str) -> Array:
    node = graph.node(name)
    assert isinstance(node, ConstantNode)
    assert node.data is not None
    return node.data


def check_levels() -> None:
    for transposes in (False, True):
        for dtype in TYPES:
            for rows in (1, 5):
                check(np.random.default_rng(2), dtype, "float32", rows, (9, 7), (5, 16), transposes=transposes)
                check(np.random.default_rng(3), dtype, "float32", rows, (7, 5), (1, 32), transposes=transposes)
                random = np.random.default_rng(4)
                check(random, dtype, "float32", rows, (20, 5), (1, 32), transposes=transposes, known=True)
    check_integers(5, 40, 96, 32, has_zeros=True)


@pytest.mark.parametrize("level", cpu_kernels.levels())
def test_every_instruction_set(level: str) -> None:
    command = [sys.executable, "-P", "-c", "from devices.cpu import test_block_products as t; t.check_levels()"]
    environment = {**os.environ, "DMLGRAPH_CPU_LEVEL": level, "PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run(command, env=environment, check=True)


def test_scales_of_rows() -> None:
    """ELEMENT_WISE_DEQUANTIZE_LINEAR of 8-bit weights, with a scale for each output channel; others read the floats."""
    random = np.random.default_rng(4)
    stored, scale = weights("int8", (24, 40), random), random.random((24, 1)).astype(np.float32)
    x = random.standard_normal((3, 40)).astype(np.float32)
    given = {"x": x, "w": stored, "s": scale}
    for reads in (False, True):
        g = dg.Graph()
        values = {name: g.input(name, sizes=each.shape, dtype=each.dtype) for name, each in given.items()}
        matrix = dg.dequantize_linear(values["w"], values["s"])
        g.output("y", dg.tanh(dg.gemm(values["x"], matrix, trans_b="transpose")))
        if reads:
            g.output("twice", matrix * 2)
        results = g.compile("cpu").run(given)
        numbers = stored.astype(np.float64) * scale
        np.testing.assert_allclose(results["y"], np.tanh(x.astype(np.float64) @ numbers.T), rtol=0, atol=1e-4)
        if reads:
            np.testing.assert_array_equal(results["twice"], (stored * scale * 2).astype(np.float32))


def test_its_own_transpose() -> None:
    """Both operands are the same weights: one is read as floats."""
    random = np.random.default_rng(5)
    stored = weights("uint4", (8, 8), random)
    g = dg.Graph()
    w, scale = g.input("w", sizes=stored.shape, dtype="uint4"), g.constant("s", np.array([[1]], np.float32))
    matrix = dg.dequantize(w, [scale], quantization_type="scale")
    g.output("y", dg.gemm(matrix, matrix, trans_b="transpose"))
    numbers = stored.astype(np.float64)
    np.testing.assert_array_equal(g.compile("cpu").run({"w": stored})["y"], numbers @ numbers.T)
