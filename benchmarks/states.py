"""Steps of a decoder a second: its caches as states, next to the same graph with caches that the caller passes.

    python benchmarks/states.py [--device cpu directml:software] [--rounds 5]

A step is one token through layers of causal attention and feed-forward.  Every round begins with half a cache; the ways
take turns of ten steps:

states        one call a step: keys and values are states that grow
10 a call     the same, ten steps to a call
caller        keys and values are inputs, the new rows outputs, which the caller writes into its arrays

A row says for each way the steps a second of its fastest turn, how much longer a step takes than with `states`, the
bytes of a call that the caller gives and gets, and, where the device counts them, those of a step that are uploaded and
read back.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import time
from collections.abc import Mapping

import numpy as np

import dmlgraph as dg
from dmlgraph.devices.executable import Array, Executable

TURN = 10  # steps
TURNS = 5  # of each way in a round


@dataclasses.dataclass(frozen=True)
class Size:
    """The sizes of a decoder."""

    layers: int
    heads: int
    depth: int
    capacity: int

    def __str__(self) -> str:
        bytes_held = 2 * self.layers * self.heads * self.capacity * self.depth * 4
        return f"{self.layers} layers, {self.heads} heads of {self.depth}, {self.capacity} rows: {bytes_held:,} bytes"

    @property
    def width(self) -> int:
        return self.heads * self.depth


SIZES = (Size(2, 4, 12, 1100), Size(4, 8, 32, 512))


def build(size: Size, *, with_states: bool) -> dg.Graph:
    """The graph of a step: x [1, width] → y, which is the next x."""
    g, rng = dg.Graph("step"), np.random.default_rng(0)

    def held(name: str) -> dg.Value:
        sizes = [1, size.heads, size.capacity, size.depth]
        if with_states:
            return g.state(name, sizes=sizes, dtype="float32", grows=2)
        return g.input(name, sizes=sizes, dtype="float32")

    def weights(name: str, rows: int, columns: int) -> dg.Value:
        return g.constant(name, (rng.standard_normal((rows, columns)) / math.sqrt(rows)).astype(np.float32))

    one = [1, size.width]
    x = first = (g.state if with_states else g.input)("x", sizes=one, dtype="float32")
    caches = [(held(f"keys.{n}"), held(f"values.{n}")) for n in range(size.layers)]
    length = caches[0][0].length if with_states else g.input("length", sizes=[1], dtype="uint32")
    place = g.fill_value_sequence(sizes=[size.capacity], dtype="uint32", value_start=0, value_delta=1)
    zero, never = (g.fill_value_constant(sizes=[1], dtype="float32", value=value) for value in (0, -math.inf))
    past = dg.if_(place < length, zero, never).reshape(1, 1, 1, size.capacity)
    mask = dg.join([past, zero.reshape(1, 1, 1, 1)], axis=3).broadcast_to([1, size.heads, 1, size.capacity + 1])
    for number, cache in enumerate(caches):
        projected = dg.gemm(norm(x), weights(f"qkv.{number}", size.width, 3 * size.width))
        q, *rows = (projected.reshape(1, 3, size.heads, 1, size.depth)[:, part] for part in range(3))
        keys, values = (dg.join([state, new], axis=2) for state, new in zip(cache, rows, strict=True))
        score = dg.gemm(q, keys, mask, trans_b="transpose", alpha=1 / math.sqrt(size.depth))
        seen = dg.gemm(dg.activation_softmax1(score, axes=[3]), values).reshape(*one)
        x = x + dg.gemm(seen, weights(f"out.{number}", size.width, size.width))
        hidden = dg.gemm(
            norm(x), weights(f"up.{number}", size.width, 4 * size.width), fused_activation="activation_relu"
        )
        x = x + dg.gemm(hidden, weights(f"down.{number}", 4 * size.width, size.width))
        for state, new, what in zip(cache, rows, ("keys", "values"), strict=True):
            if with_states:
                g.append(state, new)
            else:
                g.output(f"{what}.{number}.new", new)
    y = norm(x)
    g.output("y", y)
    if with_states:
        g.update(first, y)
    return g


def norm(x: dg.Value) -> dg.Value:
    return dg.mean_variance_normalization1(x, axes=[1], normalize_variance=True, epsilon=1e-5)


class WithStates:
    """Steps with a set of states, `at_once` to a call."""

    def __init__(self, executable: Executable, at_once: int) -> None:
        self.executable, self.at_once = executable, at_once
        self.states = executable.new_states()

    def begin(self, first: Array, half: Mapping[str, Array], _: int) -> None:
        """Starts with half a cache."""
        for name, array in {**half, "x": first}.items():
            self.states[name] = array

    def go_on(self) -> Array:
        """Makes the steps of a turn; returns the last y."""
        for _ in range(TURN // self.at_once):
            y = self.executable.run(states=self.states, steps=self.at_once)["y"]
        return y


class ByTheCaller:
    """Steps with caches that are passed: whoever calls writes the new rows into them."""

    at_once = 1

    def __init__(self, executable: Executable) -> None:
        self.executable = executable

    def begin(self, first: Array, half: Mapping[str, Array], capacity: int) -> None:
        self.x, self.arrays = first, {}
        for name, array in half.items():
            self.arrays[name] = np.concatenate([array, np.zeros_like(array)], axis=2)[:, :, :capacity]
            self.length = array.shape[2]

    def go_on(self) -> Array:
        for _ in range(TURN):
            length = self.length
            results = self.executable.run({"x": self.x, "length": np.array([length], np.uint32), **self.arrays})
            for name, array in self.arrays.items():
                array[:, :, length : length + 1] = results[f"{name}.new"]
            self.x, self.length = results["y"], length + 1
        return self.x


Way = WithStates | ByTheCaller


def measure(device: str, size: Size, rounds: int) -> None:
    stateful, plain = (build(size, with_states=each).compile(device) for each in (True, False))
    ways: dict[str, Way] = {
        "states": WithStates(stateful, 1),
        f"{TURN} a call": WithStates(stateful, TURN),
        "caller": ByTheCaller(plain),
    }
    least, moved = dict.fromkeys(ways, math.inf), dict.fromkeys(ways, "")
    for _ in range(rounds):
        begin(size, ways)
        for _ in range(TURNS):
            results = []
            for name, way in ways.items():
                start = time.perf_counter()
                results.append(way.go_on())
                least[name] = min(least[name], (time.perf_counter() - start) / TURN)
                moved[name] = counted(way)
            assert all(np.allclose(each, results[0], atol=1e-3) for each in results)
    print(f"{device}, {size}")
    for name, seconds in least.items():
        graph = ways[name].executable.graph
        passed = sum(slot.desc.total_bytes for slot in (*graph.given, *graph.results))
        ratio = seconds / least["states"]
        print(f"  {name:10}  {1 / seconds:9,.0f} steps/s  {ratio:5.2f}×  {passed:>12,} bytes passed  {moved[name]}")


def begin(size: Size, ways: Mapping[str, Way]) -> None:
    """Gives every way the same half of a cache."""
    rng = np.random.default_rng(1)
    first = rng.standard_normal((1, size.width)).astype(np.float32)
    sizes = (1, size.heads, size.capacity // 2, size.depth)
    names = [f"{what}.{number}" for number in range(size.layers) for what in ("keys", "values")]
    half = {name: rng.standard_normal(sizes).astype(np.float32) for name in names}
    for way in ways.values():
        way.begin(first, half, size.capacity)


def counted(way: Way) -> str:
    """The bytes of a step that the device has uploaded and read back, if it counts them."""
    stats = way.executable.stats
    if "uploaded_bytes" not in stats:
        return ""
    return f"{stats['uploaded_bytes'] // way.at_once:,} uploaded, {stats['read_bytes'] // way.at_once:,} read"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", nargs="+", default=["cpu", "directml:software"])
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    for name in arguments.device:
        for one in SIZES:
            measure(name, one, arguments.rounds)
