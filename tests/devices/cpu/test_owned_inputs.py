"""Owned inputs of products: given once, packed when they are given, and used until others are given."""

from __future__ import annotations

import concurrent.futures
from typing import Any

import numpy as np
import pytest
from support.cpu.plans import kinds

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices.executable import Executable

Array = np.ndarray[Any, Any]

SIZES = {
    "gemm": ((30, 70), (70, 90)),
    "one row": ((1, 70), (70, 90)),
    "transposed": ((30, 70), (90, 70)),
    "batches": ((3, 20, 70), (3, 70, 40)),
    "convolution": ((2, 8, 9, 9), (20, 4, 3, 3)),
    "backward": ((1, 8, 9, 9), (8, 20, 3, 3)),
    "depthwise": ((1, 8, 9, 9), (8, 1, 3, 3)),
}


def build(kind: str, x: dg.Value, w: dg.Value) -> Any:
    if kind == "convolution":
        return dg.convolution(x, w, group_count=2)
    if kind == "depthwise":
        return dg.convolution(x, w, group_count=8)
    if kind == "backward":
        return dg.convolution(x, w, direction="backward", strides=(2, 2))
    return dg.gemm(x, w, trans_b="transpose" if kind == "transposed" else "none")


def numbers(sizes: tuple[int, ...], seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal(sizes, np.float32)


def compiled(kind: str, threads: int = 1) -> Executable:
    g = dg.Graph()
    x_sizes, w_sizes = SIZES[kind]
    x = g.input("x", sizes=x_sizes, dtype="float32")
    w = g.input("w", sizes=w_sizes, dtype="float32", owned=True)
    g.output("y", build(kind, x, w))
    return g.compile("cpu", threads=threads)


def expected(kind: str, x: Array, w: Array) -> Array:
    """The result with a constant."""
    g = dg.Graph()
    g.output("y", build(kind, g.input("x", sizes=x.shape, dtype="float32"), g.constant("w", w)))
    return g.compile("cpu").run({"x": x})["y"]


each_kind = pytest.mark.parametrize("kind", SIZES)


@each_kind
def test_they_are_kept_until_others_are_given(kind: str) -> None:
    x_sizes, w_sizes = SIZES[kind]
    x = [numbers(x_sizes, seed) for seed in range(2)]
    w = [numbers(w_sizes, seed) for seed in range(2, 5)]
    executable = compiled(kind)
    for weights in (*w, w[0]):
        given = weights.copy()
        first = executable.run({"x": x[0], "w": given})["y"]
        given[...] = np.nan  # the device has its own copy
        assert first.tobytes() == expected(kind, x[0], weights).tobytes()
        for each in x:
            assert executable.run({"x": each})["y"].tobytes() == expected(kind, each, weights).tobytes()


@each_kind
def test_a_bound_run_keeps_its_own(kind: str) -> None:
    x_sizes, w_sizes = SIZES[kind]
    x, first, second = numbers(x_sizes, 0), numbers(w_sizes, 1), numbers(w_sizes, 2)
    executable = compiled(kind, 2)
    bound = executable.bind({"x": x, "w": first})
    for weights in (second, first):
        assert executable.run({"x": x, "w": weights})["y"].tobytes() == expected(kind, x, weights).tobytes()
        assert bound()["y"].tobytes() == expected(kind, x, first).tobytes()
    steps = executable.profile({"x": x, "w": second})
    assert steps
    assert executable.run({"x": x})["y"].tobytes() == expected(kind, x, second).tobytes()


@each_kind
def test_threads_may_exchange_them_at_once(kind: str) -> None:
    x_sizes, w_sizes = SIZES[kind]
    x = numbers(x_sizes, 0)
    executable = compiled(kind, 2)

    def run(seed: int) -> bool:
        weights = numbers(w_sizes, seed)
        wanted = expected(kind, x, weights).tobytes()
        return all(executable.run({"x": x, "w": weights})["y"].tobytes() == wanted for _ in range(10))

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(1, 9)))


INTEGERS = {
    "gemm": ((30, 70), (70, 90), (1, 90)),
    "one row": ((1, 70), (70, 90), (1, 1)),
    "transposed": ((90, 70), (70, 3), (1, 3)),
    "batches": ((3, 20, 70), (3, 70, 40), (1, 1, 40)),
    "convolution": ((2, 8, 9, 9), (20, 4, 3, 3), (1, 20, 1, 1)),
    "depthwise": ((1, 8, 9, 9), (8, 1, 3, 3), (1, 8, 1, 1)),
}


def integers(sizes: tuple[int, ...], dtype: str, seed: int) -> Array:
    info = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(info.min, info.max + 1, sizes).astype(dtype)


def integer_product(kind: str, x: Any, x_zero: Any, w: Any, w_zero: Any) -> Any:
    if kind in ("convolution", "depthwise"):
        groups = 2 if kind == "convolution" else 8
        return dg.convolution_integer(
            input=x,
            input_zero_point=x_zero,
            filter=w,
            filter_zero_point=w_zero,
            group_count=groups,
            start_padding=(1, 1),
        )
    return dg.matrix_multiply_integer(a=x, a_zero_point=x_zero, b=w, b_zero_point=w_zero)


def integer_sums(kind: str, x: Array, x_zero: Array, w: Array, w_zero: Array) -> Array:
    """By NumPy, in 64 bits."""
    centred = x.astype(np.int64) - x_zero
    if kind not in ("convolution", "depthwise"):
        return np.matmul(centred, w.astype(np.int64) - w_zero)
    groups = 2 if kind == "convolution" else 8
    weights = w.astype(np.int64) - w_zero.reshape(-1, 1, 1, 1)
    padded = np.pad(centred, ((0, 0), (0, 0), (1, 0), (1, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], (2, 3))
    windows = windows.reshape(x.shape[0], groups, -1, *windows.shape[2:])
    sums = np.einsum("ngchwyx,gocyx->ngohw", windows, weights.reshape(groups, -1, *w.shape[1:]))
    return sums.reshape(x.shape[0], w.shape[0], *sums.shape[3:])


@pytest.mark.parametrize("zeros", ["owned", "constant", "given"])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("kind", INTEGERS)
def test_integers_are_kept_with_their_zero_points(kind: str, dtype: DataTypeName, zeros: str) -> None:
    x_sizes, w_sizes, zero_sizes = INTEGERS[kind]
    x_zero = integers((1,) * len(x_sizes), "uint8", 9)
    fixed = integers(zero_sizes, dtype, 10)
    g = dg.Graph()
    x = g.input("x", sizes=x_sizes, dtype="uint8")
    w = g.input("w", sizes=w_sizes, dtype=dtype, owned=True)
    if zeros == "constant":
        w_zero = g.constant("z", fixed)
    else:
        w_zero = g.input("z", sizes=zero_sizes, dtype=dtype, owned=zeros == "owned")
    g.output("y", integer_product(kind, x, g.constant("x_zero", x_zero), w, w_zero))
    executable = g.compile("cpu", threads=2)
    assert "python" not in kinds(executable)
    for seed in (1, 2, 1):
        weights = integers(w_sizes, dtype, seed)
        zero = fixed if zeros == "constant" else integers(zero_sizes, dtype, seed + 20)
        given = {"w": weights.copy()} | ({} if zeros == "constant" else {"z": zero.copy()})
        first = integers(x_sizes, "uint8", seed + 30)
        np.testing.assert_array_equal(
            executable.run({"x": first} | given)["y"], integer_sums(kind, first, x_zero, weights, zero)
        )
        if zeros != "given":
            for each in given.values():
                each[...] = 77  # the device has its own copy
            given = {}
        second = integers(x_sizes, "uint8", seed + 40)
        np.testing.assert_array_equal(
            executable.run({"x": second} | given)["y"], integer_sums(kind, second, x_zero, weights, zero)
        )
    if zeros == "owned":  # others, for the same weights
        zero = integers(zero_sizes, dtype, 50)
        np.testing.assert_array_equal(
            executable.run({"x": first, "z": zero})["y"], integer_sums(kind, first, x_zero, weights, zero)
        )


def test_both_operands_may_be_owned() -> None:
    g = dg.Graph()
    a, b = (g.input(name, sizes=[20, 20], dtype="float32", owned=True) for name in "ab")
    g.output("y", dg.gemm(a, b))
    executable = g.compile("cpu")
    one, two, three = (np.rint(4 * numbers((20, 20), seed)) for seed in range(3))  # whose sums are exact
    np.testing.assert_array_equal(executable.run({"a": one, "b": two})["y"], one @ two)
    np.testing.assert_array_equal(executable.run({"b": three})["y"], one @ three)
    np.testing.assert_array_equal(executable.run({"a": two})["y"], two @ three)
    np.testing.assert_array_equal(executable.run()["y"], two @ three)
