"""Constants that several steps, or executables, pack in the same way are packed once; others are not mistaken."""

from __future__ import annotations

import ctypes
import gc
import pathlib
import pickle
import sys
import weakref
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
import pytest

import dmlgraph as dg
from dmlgraph import _native
from dmlgraph.base.tensor import DataTypeName

Array = np.ndarray[Any, Any]

READERS = 6
# A recurrent network's weights cannot be owned; each part of a constant is made a constant of its own before.
LEFT_OUT = {("lstm", True), ("a part", False)}
LSTM_ACTIVATIONS = ["activation_sigmoid", "activation_tanh", "activation_tanh"]


Sizes = list[int]
Weights = list[dg.Value]


class Kind:
    """What reads weights: build(x, weights, number of the reader); sizes(n): those of x and of the weights."""

    def __init__(
        self,
        build: Callable[[dg.Value, Weights, int], Any],
        large: int,
        sizes: Callable[[int], list[Sizes]],
        dtype: DataTypeName = "float32",
        x_dtype: DataTypeName | None = None,
    ) -> None:
        self.build, self.large, self.sizes = build, large, sizes
        self.dtype, self.x_dtype = dtype, x_dtype or dtype

    def feed(self, n: int, owned: bool) -> dict[str, Array]:
        x, *weights = self.sizes(n)
        feed = {"x": numbers(x, self.x_dtype, 100)}
        if owned:
            feed |= {f"w{number}": numbers(sizes, self.dtype, number) for number, sizes in enumerate(weights)}
        return feed

    def bytes(self, n: int) -> int:
        return sum(int(np.prod(each)) * np.dtype(self.dtype).itemsize for each in self.sizes(n)[1:])

    def graph(self, n: int, readers: Iterable[int], owned: bool = False) -> dg.Graph:
        """These readers read the same weights."""
        g = dg.Graph()
        x_sizes, *weights = self.sizes(n)
        x = g.input("x", sizes=x_sizes, dtype=self.x_dtype)

        def weight(number: int) -> dg.Value:
            name, sizes = f"w{number}", weights[number]
            if owned:
                return g.input(name, sizes=sizes, dtype=self.dtype, owned=True)
            return g.constant(name, numbers(sizes, self.dtype, number))

        made = [weight(number) for number in range(len(weights))]
        for reader in readers:
            g.output(f"y{reader}", self.build(x, made, reader))
        return g


def numbers(sizes: list[int], dtype: str, seed: int) -> Array:
    random = np.random.default_rng(seed)
    if dtype in ("int8", "uint8"):
        return random.integers(0, 100, sizes, dtype)
    return random.standard_normal(sizes, np.float32).astype(dtype)


def convolved(**fields: Any) -> Callable[[dg.Value, list[dg.Value], int], Any]:
    return lambda x, w, _: dg.convolution(x, w[0], **fields)


def columns(n: int) -> list[Sizes]:
    return [[1, 1, 40, n], [1, 1, n, n]]


def rows(n: int) -> list[Sizes]:
    return [[1, 1, n, 40], [1, 1, n, n]]


def windows(size: int, taps: int) -> Callable[[int], list[Sizes]]:
    return lambda n: [[1, n, size, size], [n, n, taps, taps]]


KINDS = {
    "columns": Kind(lambda x, w, _: dg.gemm(x, w[0]), 1024, columns),
    "many rows and one": Kind(lambda x, w, i: dg.gemm(x if i % 2 else x[:, :, :1, :], w[0]), 1024, columns),
    "transposed": Kind(lambda x, w, _: dg.gemm(x, w[0], trans_b="transpose"), 1024, columns),
    "rows": Kind(lambda x, w, _: dg.gemm(w[0], x), 1024, rows),
    "float16": Kind(lambda x, w, _: dg.gemm(x, w[0]), 1024, columns, "float16"),
    "a part": Kind(lambda x, w, _: dg.gemm(x, w[0][..., 3:]), 1024, columns),
    "windows": Kind(convolved(), 320, windows(6, 3)),
    "elements": Kind(convolved(), 1024, windows(6, 1)),
    "few windows": Kind(convolved(), 1024, windows(1, 1)),
    "backward": Kind(convolved(direction="backward", strides=[2, 2]), 512, windows(3, 2)),
    "phases": Kind(convolved(direction="backward", strides=[2, 2]), 256, windows(9, 4)),
    "by channel": Kind(convolved(group_count=64), 2048, lambda n: [[1, 64, 6, n + 20], [64, 1, 6, n]]),
    "by channel, short rows": Kind(
        lambda x, w, _: dg.convolution(x, w[0], group_count=x.sizes[1]), 65536, lambda n: [[1, n, 4, 4], [n, 1, 4, 4]]
    ),
    "integers": Kind(lambda x, w, _: dg.matrix_multiply_integer(x, None, w[0], None), 2048, columns, "int8"),
    "rows of integers": Kind(
        lambda x, w, _: dg.matrix_multiply_integer(w[0], None, x, None), 2048, rows, "int8", "uint8"
    ),
    "windows of integers": Kind(
        lambda x, w, _: dg.convolution_integer(x, None, w[0]), 640, windows(5, 3), "int8", "uint8"
    ),
    "lstm": Kind(
        lambda x, w, _: dg.lstm(
            x, *w, activation_descs=LSTM_ACTIVATIONS, output_sequence=False, output_cell_single=False
        ),
        512,
        lambda n: [[1, 3, 1, n], [1, 1, 4 * n, n], [1, 1, 4 * n, n]],
    ),
}
each_kind = pytest.mark.parametrize("kind", KINDS)


def resident_bytes() -> int:
    """The memory of this process after malloc has given back all it can."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(pathlib.Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * 4096


def held(kind: Kind, readers: int, owned: bool) -> int:
    """The bytes that an executable holds, with the constants that are still there."""
    feed = kind.feed(kind.large, owned)
    before = resident_bytes()
    exe = kind.graph(kind.large, range(readers), owned=owned).compile("cpu", fuse=False)
    bound = exe.bind(feed)
    after = resident_bytes()
    del bound
    return after - before


@pytest.mark.skipif(sys.platform != "linux", reason="the memory of a process is read as Linux has it")
@pytest.mark.parametrize(
    ("kind", "owned"),
    [(kind, owned) for kind in KINDS for owned in (False, True) if (kind, owned) not in LEFT_OUT],
)
def test_several_readers_hold_as_much_as_one(kind: str, owned: bool) -> None:
    chosen = KINDS[kind]
    one, several = held(chosen, 1, owned), held(chosen, READERS, owned)
    assert several - one < 1.5 * chosen.bytes(chosen.large)


@each_kind
def test_they_give_the_bits_of_readers_with_weights_of_their_own(kind: str) -> None:
    chosen = KINDS[kind]
    n = chosen.large // 8
    feed = chosen.feed(n, owned=False)
    found = chosen.graph(n, range(READERS)).compile("cpu", fuse=False).run(feed)
    before = packed_bytes()
    for reader in range(READERS):
        alone = chosen.graph(n, range(reader, reader + 1)).compile("cpu", fuse=False).run(feed)
        np.testing.assert_array_equal(found[f"y{reader}"], alone[f"y{reader}"])
    assert packed_bytes() == before


# Executables.


def packed_bytes() -> int:
    """Of all executables of the process."""
    gc.collect()
    return _native.cpu_packed_bytes()


def rows_times(weights: Array) -> dg.Graph:
    """Any number of rows times a constant."""
    g = dg.Graph(dims={"rows": 1})
    x = g.input("x", sizes=[1, 1, "rows", weights.shape[0]], dtype="float32")
    g.output("y", dg.gemm(x, g.constant("w", weights[None, None])))
    return g


def test_executables_share_what_they_pack_of_equal_constants() -> None:
    before = packed_bytes()
    weights = numbers([64, 256], "float32", 1)
    changed = weights.copy()
    changed[63, 255] = np.nextafter(changed[63, 255], np.float32(9))
    graph = rows_times(weights)
    one = graph.compile("cpu")
    assert one.stats["packed_bytes"] == packed_bytes() - before == weights.nbytes
    several = [
        graph.with_dims({"rows": 40}).compile("cpu"),  # another size
        graph.compile("cpu", threads=2),
        rows_times(weights).compile("cpu"),  # an equal constant
        rows_times(np.concatenate([weights, weights])[:64]).compile("cpu"),
    ]
    assert packed_bytes() - before == weights.nbytes
    assert all(each.stats["packed_bytes"] == weights.nbytes for each in several)
    other = rows_times(changed).compile("cpu")
    assert packed_bytes() - before == 2 * weights.nbytes
    x = np.eye(64, dtype=np.float32)[None, None, 63:]
    np.testing.assert_array_equal(one.run({"x": x})["y"][0, 0, 0], weights[63])
    np.testing.assert_array_equal(other.run({"x": x})["y"][0, 0, 0], changed[63])
    del one, graph
    assert packed_bytes() - before == 2 * weights.nbytes
    many = np.repeat(x, 40, axis=2)
    np.testing.assert_array_equal(several[0].run({"x": many})["y"][0, 0, 39], weights[63])
    del several, other
    assert packed_bytes() == before


def test_arrays_that_are_given_again_with_other_numbers_are_packed_again() -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[1, 1, 4, 64], dtype="float32")
    g.output("y", dg.gemm(x, g.input("w", sizes=[1, 1, 64, 256], dtype="float32", owned=True)))
    exe = g.compile("cpu")
    x_data = np.eye(64, dtype=np.float32)[None, None, :4]
    for seed in range(3):
        weights = numbers([1, 1, 64, 256], "float32", seed)
        np.testing.assert_array_equal(exe.run({"x": x_data, "w": weights})["y"], weights[:, :, :4])


def test_threads_that_compile_at_the_same_time_share_weights() -> None:
    before = packed_bytes()
    weights = numbers([64, 256], "float32", 1)
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(lambda _: rows_times(weights).compile("cpu"), range(8)))
    assert packed_bytes() - before == weights.nbytes
    del made
    assert packed_bytes() == before


# Readers that pack in other ways.


def wide(w: Array) -> Array:
    return w.astype(np.float64)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_products_that_read_a_square_in_different_ways(dtype: DataTypeName) -> None:
    """The sizes are the same: only what is read differs."""
    n = 90
    x, w = numbers([1, 1, n, n], dtype, 1), numbers([1, 1, n, 2 * n], dtype, 2)
    ways: dict[str, tuple[Callable[[dg.Value, dg.Value], Any], Array]] = {}

    def columns(read: Any, x: dg.Value, w: dg.Value, **fields: Any) -> dg.Value:
        return dg.gemm(x, read(w), **fields)

    def rows(read: Any, x: dg.Value, w: dg.Value, **fields: Any) -> dg.Value:
        return dg.gemm(read(w), x, **fields)

    left, right, even = w[..., :n], w[..., n:], w[..., ::2]
    for name, part in {"left": left, "right": right, "even": even}.items():
        read = itemgetter({"left": np.s_[..., :n], "right": np.s_[..., n:], "even": np.s_[..., ::2]}[name])
        turned = part.swapaxes(2, 3)
        ways[f"{name}, columns"] = (partial(columns, read), wide(x) @ wide(part))
        ways[f"{name}, columns, transposed"] = (
            partial(columns, read, trans_b="transpose"),
            wide(x) @ wide(turned),
        )
        ways[f"{name}, rows"] = (partial(rows, read), wide(part) @ wide(x))
        ways[f"{name}, rows, transposed"] = (
            partial(rows, read, trans_a="transpose"),
            wide(turned) @ wide(x),
        )
    g = dg.Graph()
    given, weight = g.input("x", sizes=x.shape, dtype=dtype), g.constant("w", w)
    for repeat in range(2):  # each way has two readers
        for number, (build, _) in enumerate(ways.values()):
            g.output(f"y{number}_{repeat}", build(given, weight))
    found = g.compile("cpu", fuse=False).run({"x": x})
    tolerance = {"float32": 1e-4, "float16": 5e-2}[dtype]
    for number, (name, (_, wanted)) in enumerate(ways.items()):
        for repeat in range(2):
            np.testing.assert_allclose(
                found[f"y{number}_{repeat}"], wanted, rtol=tolerance, atol=tolerance, err_msg=name
            )


def test_filters_that_are_a_matrix_too() -> None:
    n = 64
    x, w = numbers([1, n, 1, n], "float32", 1), numbers([1, 1, n, n], "float32", 2)
    g = dg.Graph()
    given, weight = g.input("x", sizes=x.shape, dtype="float32"), g.constant("w", w)
    filters = dg.reshape(weight, sizes=[n, n, 1, 1])
    g.output("forward", dg.convolution(given, filters, direction="forward"))
    g.output("backward", dg.convolution(given, filters, direction="backward"))
    matrix = dg.reshape(given, sizes=[1, 1, n, n])
    g.output("rows", dg.gemm(weight, matrix))
    g.output("columns", dg.gemm(matrix, weight))
    found = g.compile("cpu", fuse=False).run({"x": x})
    one, other = wide(x[0, :, 0]), wide(w[0, 0])
    for name, wanted in {
        "forward": other @ one,
        "backward": other.T @ one,
        "rows": other @ one,
        "columns": one @ other,
    }.items():
        np.testing.assert_allclose(found[name].reshape(n, n), wanted, rtol=1e-4, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_integers_with_other_zero_points_and_sides(dtype: DataTypeName) -> None:
    n = 70
    limits = np.iinfo(dtype)
    random = np.random.default_rng(3)
    x = random.integers(0, 255, [1, 1, n, n], np.uint8, endpoint=True)
    w = random.integers(limits.min, limits.max, [1, 1, n, n], dtype, endpoint=True)
    g = dg.Graph()
    given, weight = g.input("x", sizes=x.shape, dtype="uint8"), g.constant("w", w)
    wanted = {}
    one, other = x[0, 0].astype(np.int64), w[0, 0].astype(np.int64)
    for zero in (0, 3, 100):
        point = g.constant(f"zero{zero}", [zero], dtype=dtype)
        for rows in (n, 1):  # few rows read bytes
            g.output(f"columns{zero}_{rows}", dg.matrix_multiply_integer(given[:, :, :rows, :], None, weight, point))
            wanted[f"columns{zero}_{rows}"] = one[:rows] @ (other - zero)
        g.output(f"rows{zero}", dg.matrix_multiply_integer(weight, point, given))
        wanted[f"rows{zero}"] = (other - zero) @ one
    found = g.compile("cpu", fuse=False).run({"x": x})
    for name, each in wanted.items():
        np.testing.assert_array_equal(found[name][0, 0], each, err_msg=name)


# What follows.


def test_constants_of_the_same_array_are_packed_once_and_each_has_its_bits() -> None:
    w = numbers([1, 1, 60, 70], "float32", 1)
    g = dg.Graph()
    x = g.input("x", sizes=[1, 1, 40, 60], dtype="float32")
    constants = [g.constant(name, w) for name in ("one", "other")]
    for number, each in enumerate(constants):
        g.output(f"y{number}", dg.gemm(x, each))
    exe = g.compile("cpu", fuse=False)
    feed = {"x": numbers([1, 1, 40, 60], "float32", 2)}
    found = exe.run(feed)
    again = pickle.loads(pickle.dumps(exe)).run(feed)
    for name in ("y0", "y1"):
        np.testing.assert_allclose(found[name], wide(feed["x"]) @ wide(w), rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(again[name], found[name])
    for slot in exe.graph.inputs:
        if slot.elements is not None:
            np.testing.assert_array_equal(slot.data, w)


def test_the_array_goes_after_the_last_reader() -> None:
    kind = KINDS["columns"]
    g = kind.graph(64, range(READERS))
    node: Any = g.node("w0")
    wanted = node.data.copy()
    array = weakref.ref(node.data)
    exe = g.compile("cpu", fuse=False)
    assert array() is None
    feed = kind.feed(64, owned=False)
    found = exe.run(feed)
    again = pickle.loads(pickle.dumps(exe)).run(feed)
    for name, each in found.items():
        np.testing.assert_allclose(each, wide(feed["x"]) @ wide(wanted), rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(again[name], each)
    np.testing.assert_array_equal(node.data, wanted)
