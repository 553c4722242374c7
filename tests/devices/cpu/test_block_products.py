"""Products with weights in blocks: near the exact product of the numbers they stand for, which are never in memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dmlgraph as dg
from dmlgraph._native import cpu_kernels

Array = np.ndarray[Any, Any]
UNIT = 2.0**-24
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


def check(
    random: np.random.Generator, dtype: str, numbers: str, rows: int, blocks: tuple[int, int], block: tuple[int, int],
    *, transposes: bool = False, has_zeros: bool = True, fewer_zeros: bool = False, threads: int = 2,
) -> None:  # fmt: skip
    """`blocks` are rows and columns of blocks of the stored matrix, each of the sizes `block`."""
    sizes = (blocks[0] * block[0], blocks[1] * block[1])
    inner, columns = sizes[::-1] if transposes else sizes
    stored = weights(dtype, sizes, random)
    scale = (random.random(blocks) + 0.1).astype(numbers)
    zero = weights(dtype, (1, blocks[1]) if fewer_zeros else blocks, random)
    x = random.standard_normal((rows, inner)).astype(numbers)
    c = random.standard_normal(columns).astype(numbers)
    given = {"x": x, "c": c, "w": stored, "scale": scale, **({"zero": zero} if has_zeros else {})}
    g = dg.Graph()
    values = {name: g.input(name, sizes=each.shape, dtype=each.dtype) for name, each in given.items()}
    quantizations = [values[name] for name in ("scale", "zero") if name in given]
    kind: Any = "scale_zero_point" if has_zeros else "scale"
    matrix = dg.dequantize(values["w"], quantizations, quantization_type=kind)
    transform: Any = "transpose" if transposes else "none"
    g.output("y", dg.gemm(values["x"], matrix, values["c"], trans_b=transform))
    executable = g.compile("cpu", threads=threads)
    assert executable.stats["native"] == ["gemm"]
    assert not executable.stats["python"]
    assert len(executable.stats["regions"]) == (numbers == "float16")  # it converts the scales
    got = executable.run(given)["y"].astype(np.float64)

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
    st.tuples(sides, sides), st.tuples(sides, sides), st.booleans(), st.booleans(), st.booleans(),
    st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_any_sizes(dtype, numbers, rows, blocks, block, transposes, has_zeros, fewer_zeros, seed) -> None:
    check(
        np.random.default_rng(seed), dtype, numbers, rows, blocks, block, transposes=transposes, has_zeros=has_zeros,
        fewer_zeros=fewer_zeros,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("transposes", [False, True])
@pytest.mark.parametrize("rows", [1, 4, 5, 100])
def test_several_depths_and_blocks(dtype: str, transposes: bool, rows: int) -> None:
    """As in language models: blocks of 32 along 2080 depths."""
    blocks, block = ((150, 65), (1, 32)) if transposes else ((65, 150), (32, 1))
    check(np.random.default_rng(1), dtype, "float32", rows, blocks, block, transposes=transposes)


def check_levels() -> None:
    for transposes in (False, True):
        for dtype in TYPES:
            for rows in (1, 5):
                check(np.random.default_rng(2), dtype, "float32", rows, (9, 7), (5, 16), transposes=transposes)
                check(np.random.default_rng(3), dtype, "float32", rows, (7, 5), (1, 32), transposes=transposes)


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
