"""Weights that steps have packed are in memory once, and whoever asks for them gets the same bits."""

from __future__ import annotations

import concurrent.futures
import copy
import gc
import os
import pathlib
import pickle
import subprocess
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from devices.cpu.test_recurrent import arrays_of, made
from support.cpu.near import compiled
from support.problems import raises

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.devices.executable import Executable
from dmlgraph.devices.recipe import Recipe
from dmlgraph.graph.constant_data import ConstantData
from dmlgraph.graph.nodes import ConstantNode

Array = np.ndarray[Any, Any]
Build = Callable[[dg.Graph, Callable[[str, list[int]], dg.Value]], None]


def numbers(sizes: list[int], seed: int = 0) -> Array:
    """float32 of any kind, also zeros with a sign, denormals, infinities, and NaNs of all kinds."""
    bits = np.random.default_rng(seed).integers(0, 2**32, sizes, np.uint32)
    bits.reshape(-1)[:6] = [0x80000000, 1, 0x7F800000, 0xFF800000, 0x7F800001, 0xFFC12345][: bits.size]
    return bits.view(np.float32)


def integers(dtype: str, kind: str = "any") -> Callable[[list[int], int], Array]:
    """All of 8 bits; or those near 0, of which two products fit into 16 bits; or a few others among these."""
    limits, zero = np.iinfo(dtype), 0 if dtype == "int8" else 128
    first, last = (limits.min, limits.max) if kind == "any" else (zero - 64, zero + 64)

    def make(sizes: list[int], seed: int) -> Array:
        found = np.random.default_rng(seed).integers(first, last, sizes, dtype, endpoint=True)
        if kind == "few large":
            found.reshape(-1)[:: max(found.size // 8, 1)] = limits.max
        return found

    return make


class Weights:
    """Makes constants, and knows their bits and whether their arrays exist."""

    def __init__(self, graph: dg.Graph, make: Callable[[list[int], int], Array] = numbers) -> None:
        self.graph, self.make = graph, make
        self.bits: dict[str, bytes] = {}
        self.arrays: dict[str, weakref.ref[Array]] = {}

    def __call__(self, name: str, sizes: list[int]) -> dg.Value:
        data = self.make(sizes, len(self.bits))
        value = self.graph.constant(name, data)
        array = constant(self.graph, name).data
        self.bits[name], self.arrays[name] = data.tobytes(), weakref.ref(array)
        return value

    def gone(self) -> set[str]:
        return {name for name, array in self.arrays.items() if array() is None}

    def check(self, exe: Executable) -> None:
        """That everyone who has the constants gets their bits."""
        slots = {slot.name: slot.data for slot in exe.graph.inputs if slot.elements is not None}
        assert isinstance(exe.recipe, Recipe)
        for name, bits in self.bits.items():
            for array in (slots[name], constant(self.graph, name).data, constant(exe.recipe.source.graph, name).data):
                assert array is not None
                assert array.tobytes() == bits
                assert array.flags.c_contiguous
                assert not array.flags.writeable


def constant(graph: dg.Graph, name: str) -> ConstantNode:
    node = graph.node(name)
    assert isinstance(node, ConstantNode)
    return node


def small(sizes: list[int], seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(sizes, np.float32)


def gemm(x: list[int], w: list[int], **fields: Any) -> Build:
    def build(g: dg.Graph, weight: Callable[[str, list[int]], dg.Value]) -> None:
        g.output("y", dg.gemm(g.input("x", sizes=x, dtype="float32"), weight("w", w), **fields))

    return build


def gemm_of_rows(w: list[int], x: list[int], **fields: Any) -> Build:
    def build(g: dg.Graph, weight: Callable[[str, list[int]], dg.Value]) -> None:
        g.output("y", dg.gemm(weight("w", w), g.input("x", sizes=x, dtype="float32"), **fields))

    return build


def convolution(x: list[int], w: list[int], **fields: Any) -> Build:
    def build(g: dg.Graph, weight: Callable[[str, list[int]], dg.Value]) -> None:
        g.output("y", dg.convolution(g.input("x", sizes=x, dtype="float32"), weight("w", w), **fields))

    return build


def integer_product(a: list[int], b: list[int], kept: str, dtype: DataTypeName) -> Build:
    def build(g: dg.Graph, weight: Callable[[str, list[int]], dg.Value]) -> None:
        x = g.input("x", sizes=b if kept == "a" else a, dtype="uint8")
        w = weight("w", a if kept == "a" else b)
        zero = g.constant("zero", [3], dtype=dtype)
        if kept == "a":
            g.output("y", dg.matrix_multiply_integer(w, zero, x))
        else:
            g.output("y", dg.matrix_multiply_integer(x, None, w, zero))

    return build


def integer_convolution(x: list[int], w: list[int], **fields: Any) -> Build:
    def build(g: dg.Graph, weight: Callable[[str, list[int]], dg.Value]) -> None:
        given = g.input("x", sizes=x, dtype="uint8")
        g.output("y", dg.convolution_integer(given, None, weight("w", w), **fields))

    return build


PACKED_INTEGERS = {
    "columns": lambda dtype: integer_product([40, 70], [70, 90], "b", dtype),
    "columns of a batch": lambda dtype: integer_product([2, 3, 40, 7], [2, 3, 7, 50], "b", dtype),
    "a row": lambda dtype: integer_product([1, 71], [71, 90], "b", dtype),
    "rows": lambda dtype: integer_product([40, 69], [69, 90], "a", dtype),
    "rows, few columns": lambda dtype: integer_product([400, 70], [70, 3], "a", dtype),
    "windows": lambda _: integer_convolution([2, 5, 20, 21], [7, 5, 3, 3], start_padding=[1, 1], end_padding=[1, 1]),
    "elements": lambda _: integer_convolution([1, 33, 14, 14], [50, 33, 1, 1]),
    "groups": lambda _: integer_convolution([1, 14, 9, 9], [8, 7, 3, 3], group_count=2),
}
PACKED: dict[str, Build] = {
    "columns": gemm([1, 1, 40, 70], [1, 1, 70, 90]),
    "columns, transposed": gemm([1, 1, 40, 70], [1, 1, 90, 70], trans_b="transpose"),
    "columns of a batch": gemm([2, 3, 40, 7], [2, 3, 7, 50]),
    "rows": gemm_of_rows([1, 1, 40, 70], [1, 1, 70, 90]),
    "rows, transposed": gemm_of_rows([1, 1, 70, 40], [1, 1, 70, 90], trans_a="transpose"),
    "rows, a few columns": gemm_of_rows([1, 1, 70, 400], [1, 1, 70, 5], trans_a="transpose"),
    "columns, few": gemm([1, 1, 400, 70], [1, 1, 70, 5]),
    "one depth": gemm([1, 1, 40, 1], [1, 1, 1, 50]),
    "columns of a row": gemm([1, 1, 1, 70], [1, 1, 70, 90]),
    "windows": convolution([2, 5, 20, 21], [7, 5, 3, 3], start_padding=[1, 1], end_padding=[1, 1]),
    "windows, stride": convolution([1, 5, 20, 21], [70, 5, 3, 5], strides=[2, 2]),
    "windows along outputs": convolution([1, 40, 7, 7], [130, 40, 3, 3]),
    "elements": convolution([1, 33, 14, 14], [50, 33, 1, 1]),
    "whole pictures": convolution([9, 6, 5, 5], [12, 6, 5, 5]),
    "groups": convolution([1, 6, 9, 9], [8, 3, 3, 3], group_count=2),
    "by channel": convolution([1, 6, 40, 41], [6, 1, 3, 3], group_count=6),
    "mirrored": convolution([1, 5, 9, 9], [4, 5, 3, 2], mode="convolution"),
    "volumes": convolution([1, 3, 5, 6, 7], [4, 3, 2, 3, 2]),
}
READ = {
    "integers by channel": integer_convolution([1, 16, 40, 41], [16, 1, 3, 3], group_count=16),
    "columns of a row, along the memory": gemm([1, 1, 1, 70], [1, 1, 90, 70], trans_b="transpose"),
    "backward": convolution([1, 5, 9, 9], [5, 4, 3, 3], direction="backward"),
}


@pytest.mark.parametrize("name", PACKED)
def test_packed_weights_have_no_array_and_keep_their_bits(name: str) -> None:
    g = dg.Graph()
    weights = Weights(g)
    PACKED[name](g, weights)
    exe = g.compile("cpu")
    assert weights.gone() == set(weights.bits)
    weights.check(exe)


@pytest.mark.parametrize("kind", ["any", "small", "few large"])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("name", PACKED_INTEGERS)
def test_packed_integers_have_no_array_and_keep_their_bits(name: str, dtype: str, kind: str) -> None:
    g = dg.Graph()
    weights = Weights(g, integers(dtype, kind))
    PACKED_INTEGERS[name](dtype)(g, weights)
    exe = g.compile("cpu")
    assert weights.gone() == {"w"}
    x = np.random.default_rng(1).integers(0, 256, exe.graph.inputs[0].desc.sizes, np.uint8)
    wanted = g.compile("reference").run({"x": x})["y"]
    np.testing.assert_array_equal(g.compile("cpu").run({"x": x})["y"], wanted)
    np.testing.assert_array_equal(exe.run({"x": x})["y"], wanted)
    weights.check(exe)


@pytest.mark.parametrize("name", READ)
def test_weights_that_runs_read_stay_as_they_are(name: str) -> None:
    g = dg.Graph()
    weights = Weights(g, integers("int8") if name.startswith("integers") else numbers)
    READ[name](g, weights)
    exe = g.compile("cpu")
    assert weights.gone() == set()
    weights.check(exe)


@pytest.mark.parametrize("name", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize(("direction", "batch"), [("forward", 1), ("bidirectional", 5)])
def test_weights_of_recurrent_networks(name: str, direction: str, batch: int) -> None:
    operator = made(name, 3, batch, 5, 21, direction=direction)
    arrays = arrays_of(operator, 0)
    free = compiled(operator, {})
    feed = {f"x{port}": each for port, each in enumerate(arrays) if each is not None}
    wanted = free.run(feed)
    constants = {1: arrays[1].copy(), 2: arrays[2].copy()}
    refs = [weakref.ref(each) for each in constants.values()]
    exe = compiled(operator, constants)
    constants.clear()
    assert [each() for each in refs] == [None, None]
    found = exe.run({key: each for key, each in feed.items() if key not in ("x1", "x2")})
    for key, each in wanted.items():  # rows of a run meet weights in another order where these are not packed
        np.testing.assert_allclose(found[key], each, rtol=1e-5, atol=1e-6)
    for port in (1, 2):
        np.testing.assert_array_equal(exe.graph.inputs[port].data, arrays[port])


# Who else reads them.


def test_a_weight_of_two_products_is_packed_by_both() -> None:
    g = dg.Graph()
    weights = Weights(g, small)
    w, x = weights("w", [1, 1, 30, 30]), g.input("x", sizes=[1, 1, 40, 30], dtype="float32")
    g.output("y", dg.gemm(dg.gemm(x, w), w, trans_b="transpose"))
    exe = g.compile("cpu")
    assert weights.gone() == {"w"}
    given = small([1, 1, 40, 30], 7)
    wide = np.frombuffer(weights.bits["w"], np.float32).reshape(30, 30).astype(np.float64)
    np.testing.assert_allclose(exe.run({"x": given})["y"], given @ wide @ wide.T, rtol=1e-4, atol=1e-4)
    weights.check(exe)


@pytest.mark.parametrize(
    "other",
    [
        lambda g, w: w * g.input("number", sizes=[1, 1, 1, 1], dtype="float32"),
        lambda g, w: dg.gemm(g.input("row", sizes=[1, 1, 1, 30], dtype="float32"), w, trans_b="transpose"),
        lambda g, w: dg.identity(w),
        lambda g, w: dg.gather(w, g.input("index", sizes=[1, 1, 1, 2], dtype="uint32"), axis=3, index_dimensions=1),
    ],
    ids=["element-wise", "product in place", "output", "gather"],
)
def test_a_weight_that_something_else_reads_stays(other: Callable[[dg.Graph, dg.Value], dg.Value]) -> None:
    g = dg.Graph()
    weights = Weights(g, small)
    w, x = weights("w", [1, 1, 30, 30]), g.input("x", sizes=[1, 1, 40, 30], dtype="float32")
    g.output("y", dg.gemm(x, w))
    g.output("other", other(g, w))
    exe = g.compile("cpu")
    assert weights.gone() == set()
    feed = {"x": small([1, 1, 40, 30], 7), "row": small([1, 1, 1, 30], 8), "number": small([1, 1, 1, 1], 9)}
    feed["index"] = np.array([[[[1, 5]]]], np.uint32)
    inputs = {slot.name: feed[slot.name] for slot in exe.graph.inputs if slot.elements is None}
    found, wanted = exe.run(inputs), g.compile("reference").run(inputs)
    for name, each in wanted.items():
        np.testing.assert_allclose(found[name], each, rtol=1e-4, atol=1e-4)
    weights.check(exe)


def test_a_weight_of_which_products_read_parts_stays() -> None:
    g = dg.Graph()
    weights = Weights(g, small)
    w, x = weights("w", [1, 1, 30, 60]), g.input("x", sizes=[1, 1, 40, 30], dtype="float32")
    g.output("y", dg.gemm(x, w[..., :30]) + dg.gemm(x, w[..., 30:]))
    exe = g.compile("cpu", fuse=False)
    assert weights.gone() == set()
    weights.check(exe)


def test_a_weight_of_which_one_product_reads_all_and_one_a_part_stays() -> None:
    g = dg.Graph()
    weights = Weights(g, small)
    w, x = weights("w", [1, 1, 30, 60]), g.input("x", sizes=[1, 1, 40, 30], dtype="float32")
    g.output("whole", dg.gemm(x, w))
    g.output("part", dg.gemm(x, w[..., :30]))
    exe = g.compile("cpu", fuse=False)
    assert weights.gone() == set()
    found = exe.run({"x": small([1, 1, 40, 30], 7)})
    np.testing.assert_allclose(found["part"], found["whole"][..., :30], rtol=1e-5, atol=1e-5)
    weights.check(exe)


def test_a_weight_that_is_both_operands_of_a_product() -> None:
    g = dg.Graph()
    weights = Weights(g, small)
    w = weights("w", [1, 1, 30, 30])
    g.output("y", dg.gemm(w, w, c=w))
    exe = g.compile("cpu", fuse=False)
    wide = np.frombuffer(weights.bits["w"], np.float32).reshape(30, 30)
    np.testing.assert_allclose(exe.run()["y"][0, 0], wide @ wide + wide, rtol=1e-4, atol=1e-4)
    weights.check(exe)


def test_float16_stays() -> None:  # panels have float32
    g = dg.Graph()
    weights = Weights(g, lambda sizes, seed: small(sizes, seed).astype(np.float16))
    g.output("y", dg.gemm(g.input("x", sizes=[1, 1, 40, 30], dtype="float16"), weights("w", [1, 1, 30, 30])))
    exe = g.compile("cpu")
    assert weights.gone() == set()
    weights.check(exe)


# What is done with executables and graphs afterwards.


def layers() -> tuple[dg.Graph, Weights, dict[str, Array], Array]:
    """Products that are packed, and a bias that is not: the graph, its constants, inputs, and the output."""
    g = dg.Graph("layers", dims={"rows": 40})
    weights = Weights(g, small)
    x = g.input("x", sizes=[1, 1, "rows", 30], dtype="float32")
    owned = g.input("owned", sizes=[1, 1, 20, 25], dtype="float32", owned=True)
    one, two, bias = weights("one", [1, 1, 30, 50]), weights("two", [1, 1, 50, 20]), weights("bias", [1, 1, 1, 25])
    y = dg.gemm(dg.gemm(dg.gemm(x, one), two), owned)
    g.output("y", y + bias)
    feed = {"x": small([1, 1, 40, 30], 7), "owned": small([1, 1, 20, 25], 8)}
    return g, weights, feed, g.compile("reference").run(feed)["y"]


PACKED_LAYERS = {"one", "two"}


def close(found: Array, wanted: Array) -> None:
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)


def test_weights_go_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    g, weights, _, _ = layers()
    there: list[set[str]] = []
    let_go = ConstantData.let_go

    def watched(elements: ConstantData, restore: Callable[[], Array]) -> None:
        there.append(set(weights.bits) - weights.gone())
        let_go(elements, restore)

    monkeypatch.setattr(ConstantData, "let_go", watched)
    g.compile("cpu")
    assert there == [{"one", "two", "bias"}, {"two", "bias"}]


def test_every_way_to_run() -> None:
    g, weights, feed, wanted = layers()
    exe = g.compile("cpu")
    bound = exe.bind(feed)
    out = np.empty_like(wanted)
    close(exe.run(feed)["y"], wanted)
    close(exe.run({"x": np.asfortranarray(feed["x"])})["y"], wanted)  # the device has the owned input
    exe.run({"x": feed["x"]}, {"y": out})
    close(out, wanted)
    close(bound()["y"], wanted)
    assert exe.profile(feed)
    bias = np.frombuffer(weights.bits["bias"], np.float32)
    close(exe.run({"x": feed["x"], "owned": 2 * feed["owned"]})["y"], 2 * wanted - bias)
    assert weights.gone() == PACKED_LAYERS  # nobody has asked for them
    weights.check(exe)


@pytest.mark.parametrize(
    "again",
    [lambda exe: pickle.loads(pickle.dumps(exe)), copy.deepcopy, lambda exe: exe.recipe.compile()],
    ids=["pickle", "deepcopy", "recipe"],
)
def test_other_executables_of_it(again: Callable[[Executable], Executable]) -> None:
    g, weights, feed, wanted = layers()
    exe = g.compile("cpu")
    other = again(exe)
    found = exe.run(feed)["y"]
    np.testing.assert_array_equal(other.run(feed)["y"], found)
    close(found, wanted)
    weights.check(exe)
    weights.check(other)


def test_the_graph_is_compiled_again() -> None:
    g, weights, feed, wanted = layers()
    first = g.compile("cpu")
    second = g.compile("cpu", fuse=False)
    for device in ("reference", "cpu"):
        close(g.compile(device).run(feed)["y"], wanted)
    more = g.with_dims({"rows": 41}).compile("cpu").run({**feed, "x": small([1, 1, 41, 30], 7)})["y"]
    assert more.shape == (1, 1, 41, 25)
    for exe in (first, second):
        close(exe.run(feed)["y"], wanted)
        weights.check(exe)


def test_a_device_that_has_the_array_keeps_it() -> None:
    g, weights, feed, wanted = layers()
    reference = g.compile("reference")
    exe = g.compile("cpu")
    assert weights.gone() == set()
    close(reference.run(feed)["y"], wanted)
    weights.check(exe)


def test_it_is_saved(tmp_path: pathlib.Path) -> None:
    g, weights, feed, wanted = layers()
    g.compile("cpu")
    for name in ("layers.yaml", "layers.onnx"):
        g.save(tmp_path / name)
    loaded = dg.load(tmp_path / "layers.yaml")
    for name, bits in weights.bits.items():
        assert constant(loaded, name).data.tobytes() == bits
    close(loaded.compile("cpu").run(feed)["y"], wanted)
    assert pickle.loads(pickle.dumps(g)).compile("cpu").run(feed)["y"].shape == wanted.shape


def test_the_weights_outlive_the_executable() -> None:
    g, weights, feed, wanted = layers()
    exe = g.compile("cpu")
    close(exe.run(feed)["y"], wanted)
    exe.close()
    with raises(dg.DeviceError, "closed"):
        exe.run(feed)
    with raises(dg.DeviceError, "closed"):
        exe.bind(feed)()
    gone = weakref.ref(exe)
    del exe
    gc.collect()
    assert gone() is None
    assert weights.gone() == PACKED_LAYERS
    close(g.compile("cpu").run(feed)["y"], wanted)


def test_the_executable_outlives_the_graph() -> None:
    g, weights, feed, wanted = layers()
    exe = g.compile("cpu")
    weights.graph = dg.Graph()
    del g
    gc.collect()
    close(exe.run(feed)["y"], wanted)
    assert weights.gone() == PACKED_LAYERS
    slots = {slot.name: slot.data for slot in exe.graph.inputs if slot.elements is not None}
    for name, bits in weights.bits.items():
        array = slots[name]
        assert array is not None
        assert array.tobytes() == bits


def test_who_asks_once_gets_the_same_array_again() -> None:
    g, _, _, _ = layers()
    g.compile("cpu")
    assert constant(g, "one").data is constant(g, "one").data
    restored = weakref.ref(constant(g, "one").data)
    g.compile("cpu")
    gc.collect()
    assert restored() is None  # packed again


def test_threads_compile_and_read_at_the_same_time() -> None:
    g, weights, feed, wanted = layers()

    def work() -> None:
        for _ in range(20):
            exe = g.compile("cpu", threads=1)
            weights.check(exe)
            close(exe.run(feed)["y"], wanted)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for each in [pool.submit(work) for _ in range(4)]:
            each.result()


def test_elements_pickle_as_an_array() -> None:
    elements = ConstantData(np.arange(3.0))
    elements.let_go(lambda: np.arange(3.0))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(elements)).array, [0, 1, 2])
    assert not elements.array.flags.writeable


LEVELS = """
import sys
sys.path.insert(0, {tests!r})
from devices.cpu import test_packed_weights as tests
for name in tests.PACKED:
    tests.test_packed_weights_have_no_array_and_keep_their_bits(name)
for name in tests.PACKED_INTEGERS:
    for kind in ("any", "small", "few large"):
        tests.test_packed_integers_have_no_array_and_keep_their_bits(name, "int8", kind)
        tests.test_packed_integers_have_no_array_and_keep_their_bits(name, "uint8", kind)
tests.test_weights_of_recurrent_networks("lstm", "bidirectional", 1)
"""


@pytest.mark.parametrize("level", ["baseline", "avx2", "avx512"])
def test_every_level(level: str) -> None:
    environment = os.environ | {"DMLGRAPH_CPU_LEVEL": level}
    code = LEVELS.format(tests=str(pathlib.Path(__file__).parents[2]))
    subprocess.run([sys.executable, "-P", "-c", code], check=True, env=environment)
