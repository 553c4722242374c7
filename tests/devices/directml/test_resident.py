"""States in the adapter's memory: what is copied between runs, what is submitted, and what a lost device leaves."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from devices.directml.test_memory import live_bytes
from devices.directml.test_strictness import run

import dmlgraph as dg
from dmlgraph.devices.compile import lower_graph
from dmlgraph.devices.directml.device import DirectMLDevice, DirectMLExecutable

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the adapter that counts is that of Linux")

Array = np.ndarray[Any, Any]

WIDTH = 64
GAP = 256  # tensors begin at multiples of it in a buffer


@pytest.fixture(params=[True, False], ids=["shared memory", "staging"])
def device(request: pytest.FixtureRequest, directml_path: Path) -> DirectMLDevice:
    return DirectMLDevice("software", library=directml_path, share_memory=request.param)


def attention(rows: int, capacity: int = 256, axis: int = 1) -> dg.Graph:
    """Scores of new rows against a cache of the rows before them, and how often it ran.

    The cache has sizes [2, capacity, 64], or those with its axes 1 and 2 exchanged.
    """
    g = dg.Graph("attention", dims={"rows": rows, "capacity": capacity})
    x = g.input("x", sizes=[2, "rows", WIDTH], dtype="float32")
    sizes: list[Any] = [2, "capacity", WIDTH] if axis == 1 else [2, WIDTH, "capacity"]
    keys = g.state("keys", sizes=sizes, dtype="float32", grows=axis)
    g.append(keys, x if axis == 1 else x.transpose(0, 2, 1))
    calls = g.state("calls", sizes=[1], dtype="int32")
    g.update(calls, calls + 1)
    read = keys.transpose(0, 2, 1) if axis == 1 else keys
    scores = dg.gemm(x.reshape(2, 1, rows, WIDTH), read.reshape(2, 1, WIDTH, capacity))
    mask = dg.length_mask(keys).reshape(1, 1, 1, capacity).broadcast_to([2, 1, rows, capacity])
    g.output("weights", dg.activation_softmax1(scores * 0.125 + mask, axes=[3]))
    return g


def compiled(device: DirectMLDevice, graph: dg.Graph) -> DirectMLExecutable:
    return device.compile(lower_graph(graph, device)[1], reason="asked for")


def tokens(count: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((2, count, WIDTH)).astype(np.float32)


class Counted:
    """What the adapter counts in the meantime: not what the package says of itself."""

    NAMES = ("submissions", "waits", "bytes_copied", "bytes_cleared")

    def __init__(self, device: DirectMLDevice) -> None:
        self._count, self._before = device.runtime.library.counter, [0] * len(self.NAMES)
        self._before = list(self.since().values())

    def since(self) -> dict[str, int]:
        found = [self._count(name) for name in self.NAMES]
        return {name: (now or 0) - before for name, now, before in zip(self.NAMES, found, self._before, strict=True)}


@pytest.mark.parametrize("axis", [1, 2])
def test_a_step_copies_inputs_rows_and_outputs(device: DirectMLDevice, axis: int) -> None:
    capacity = 2048  # a cache of 1 MiB
    exe = compiled(device, attention(1, capacity, axis))
    for count in range(3):
        exe.run({"x": tokens(1, count)})
    row, weights, scalar = 2 * WIDTH * 4, 2 * capacity * 4, 4
    counted = Counted(device)
    exe.run({"x": tokens(1)})
    found = counted.since()
    assert (found["submissions"], found["bytes_cleared"]) == (1, 0)
    assert found["waits"] <= 1  # 0 if it is done at once
    staged = 0 if device_shares(exe) else row + scalar + weights
    assert staged + row <= found["bytes_copied"] <= staged + row + GAP
    expected = {"submissions": 1, "waits": 1, "uploaded_bytes": row + scalar, "read_bytes": weights}
    expected["state_bytes_written"] = row + scalar
    assert {name: exe.stats[name] for name in expected} == expected


def test_many_steps_are_one_submission_and_one_wait(device: DirectMLDevice) -> None:
    exe = compiled(device, attention(1))
    given = {"x": tokens(1)}
    exe.run(given, steps=2)
    exe.states.reset()
    before = exe.states.bytes
    exe.run(given, steps=2)
    assert exe.states.bytes == before + 2 * 4  # `calls` has three tensors
    counted = Counted(device)
    exe.run(given, steps=50, collect=["weights"])
    found = counted.since()
    assert (found["submissions"], found["bytes_cleared"]) == (1, 0)
    assert found["waits"] <= 1  # 0 if it is done at once
    row, weights = 2 * WIDTH * 4, 2 * 256 * 4
    copied = 50 * (row + weights) + 49 * 4  # rows, weights, and the next step's length
    staged = 0 if device_shares(exe) else row + GAP + weights
    assert copied <= found["bytes_copied"] <= copied + staged
    assert exe.stats["uploaded_bytes"] == row + 50 * 4
    assert exe.stats["read_bytes"] == 50 * weights
    assert exe.stats["state_bytes_written"] == 50 * (row + 4)
    assert exe.states["calls"] == 52


def device_shares(exe: DirectMLExecutable) -> bool:
    return exe._device.shares_memory


def test_more_steps_than_are_submitted_together(device: DirectMLDevice) -> None:
    exe = compiled(device, attention(1, capacity=300))
    one, other = exe.new_states(), exe.new_states()
    got = exe.run({"x": tokens(1)}, states=one, steps=261, collect=["weights"])["weights"]
    alone = [exe.run({"x": tokens(1)}, states=other)["weights"] for _ in range(261)]
    np.testing.assert_array_equal(got, alone)
    np.testing.assert_array_equal(one["keys"], other["keys"])
    assert one["calls"] == other["calls"] == 261


@pytest.mark.parametrize("axis", [1, 2])
def test_prefill_and_decode_share_a_set(device: DirectMLDevice, axis: int) -> None:
    """64 rows by one executable and single ones by another; 10 taken back, and as if they had never been."""
    given = tokens(80)
    prefill, decode = (compiled(device, attention(rows, axis=axis)) for rows in (64, 1))
    states, fresh = prefill.new_states(), decode.new_states()

    def decoded(where: Any, begin: int, end: int) -> list[Array]:
        return [decode.run({"x": given[:, at : at + 1]}, states=where)["weights"] for at in range(begin, end)]

    prefill.run({"x": given[:, :64]}, states=states)
    first = decoded(states, 64, 80)
    states.rewind(10)
    again = decoded(states, 70, 80)
    np.testing.assert_array_equal(again, first[6:])
    prefill.run({"x": given[:, :64]}, states=fresh)
    np.testing.assert_array_equal(decoded(fresh, 64, 80), first)
    kept = given if axis == 1 else given.transpose(0, 2, 1)
    for where in (states, fresh):
        np.testing.assert_array_equal(where["keys"], kept)


def test_steps_on_sets_that_take_turns(device: DirectMLDevice) -> None:
    """One executable, several sets, and all numbers of steps: command lists are for the buffers of one set."""
    g = dg.Graph("sums")
    total = g.state("total", sizes=[3], dtype="float32")
    x = g.input("x", sizes=[3], dtype="float32")
    g.update(total, total * 0.5 + x)
    g.output("total", dg.identity(total))
    exe = compiled(device, g)
    sets = [exe.new_states() for _ in range(5)]
    expected = np.zeros((5, 3), np.float32)
    rng = np.random.default_rng(1)
    for _ in range(40):
        index, steps = int(rng.integers(5)), int(rng.integers(1, 6))
        given = rng.integers(0, 3, 3).astype(np.float32)
        got = exe.run({"x": given}, states=sets[index], steps=steps, collect=["total"])["total"]
        for step in range(steps):
            np.testing.assert_array_equal(got[step], expected[index])
            expected[index] = expected[index] * np.float32(0.5) + given
        for held, wanted in zip(sets, expected, strict=True):
            np.testing.assert_array_equal(held["total"], wanted)


def test_rows_that_were_never_written_are_zeros(device: DirectMLDevice) -> None:
    exe = compiled(device, attention(1))
    spoiled = exe.new_states()
    spoiled["keys"] = np.full((2, 256, WIDTH), np.nan, np.float32)
    del spoiled
    gc.collect()  # its memory is free for the next set
    states = exe.new_states()
    states["keys"] = tokens(3)
    held = states._held["keys"]
    everything = states._memory.read(held.tensor, held.desc, ())
    np.testing.assert_array_equal(everything[:, :3], tokens(3))
    assert not everything[:, 3:].any()


def test_memory_of_sets(device: DirectMLDevice) -> None:
    """A set takes its capacity; it lives on when its executable is closed, and goes with its last user."""
    capacity = 4096  # 2 MiB
    exe = compiled(device, attention(1, capacity))
    exe.run({"x": tokens(1)})
    before = live_bytes(device)
    states = [exe.new_states() for _ in range(3)]
    for each in states:
        exe.run({"x": tokens(1)}, states=each)
    size = capacity * 2 * WIDTH * 4
    assert 3 * size <= live_bytes(device) - before <= 3 * size + (1 << 20)
    copies = [each.copy() for each in states]
    exe.close()
    np.testing.assert_array_equal(copies[0]["keys"], states[0]["keys"])
    np.testing.assert_array_equal(copies[0]["keys"], tokens(1))
    del states, copies, each
    assert live_bytes(device) < before


class TestLostDevice:
    SCRIPT = """
g = dg.Graph("counter")
n = g.state("n", sizes=[1], dtype="int32")
g.update(n, n + 1)
k = g.state("k", sizes=[9], dtype="int32", grows=0)
g.append(k, n)
exe = g.compile("directml:software")
exe.run(steps=3)
states = exe.states
print(states["n"], states["k"])
exe._device.remove()

def refused(call):
    try:
        call()
    except dg.DmlGraphError as error:
        print(type(error).__name__, error.code)

refused(exe.run)
other = g.compile("directml:software")
for call in (lambda: states["n"], lambda: states.copy(), states.reset, lambda: exe.run(states=states),
             lambda: other.run(states=states), lambda: states.__setitem__("n", np.ones(1, np.int32))):
    refused(call)
print(states.lengths, list(states))
other.run(steps=2)
print(other.states["n"], other.states["k"])
"""

    @pytest.mark.parametrize("strict", ["one_device", "strict", "no_sharing,one_device"])
    def test_it_keeps_nothing_silently(self, directml_path: Path, strict: str) -> None:
        lines = run(self.SCRIPT, strict, directml_path).splitlines()
        removed = ["DeviceRemovedError device-removed"]
        assert lines == ["[3] [0 1 2]", *removed * 7, "{'k': 3} ['n', 'k']", "[2] [0 1]"]


def test_a_set_of_another_device(directml_path: Path) -> None:
    one, other = (
        compiled(DirectMLDevice("software", library=directml_path, share_memory=each), attention(1))
        for each in (True, False)
    )
    with pytest.raises(dg.BindingError) as caught:
        one.run({"x": tokens(1)}, states=other.states)
    assert (caught.value.code, caught.value.field) == ("states", "states")


def test_what_the_native_module_refuses(device: DirectMLDevice) -> None:
    """A run that does not fit is refused before anything is recorded."""
    exe = compiled(device, attention(1))
    exe.run({"x": tokens(1)})
    native, states = exe._native, exe.states
    keys, calls = (states._held[name] for name in ("keys", "calls"))
    outputs = [slot.name for slot in exe.graph.outputs]
    inputs = [slot.name for slot in exe.graph.inputs]
    given = {"x": tokens(1), "keys": keys.tensor, "keys.length": np.ones(1, np.uint32)}
    written = {"weights": np.empty((2, 256), np.float32)}
    chain = (inputs.index("calls"), outputs.index("calls.next"), (calls.tensor, *calls.spares))
    append = (outputs.index("keys.next"), keys.tensor, 1, 1, 2, WIDTH * 4, 256)

    def call(**changes: Any) -> None:
        arguments: dict[str, Any] = {"chains": [chain], "appends": [append], "steps": 1} | changes
        read, wanted = [given.get(name) for name in inputs], [written.get(name) for name in outputs]
        assert native.run(number, read, wanted, **arguments)

    assert exe._initialized is not None
    number = exe._initialized[1]
    call()
    for changes, message in (
        ({"chains": []}, "needs a tensor on the device"),
        ({"appends": []}, "needs a tensor on the device"),
        ({"chains": [(*chain[:2], (calls.tensor,))]}, "too few tensors"),
        ({"chains": [(*chain[:2], (calls.tensor, keys.tensor))]}, "a chain needs 4 bytes, the tensor has"),
        ({"chains": [(9, 0, (calls.tensor, calls.tensor))]}, "missing input or output"),
        ({"appends": [(*append[:2], 256, *append[3:])]}, "rows that do not fit"),
        ({"appends": [(*append[:6], 257)]}, "do not fit"),
        ({"steps": 0}, "at least one step"),
    ):
        with pytest.raises(dg.DeviceError, match=message):
            call(**changes)


def doubled(device: DirectMLDevice, elements: int) -> DirectMLExecutable:
    g = dg.Graph("doubled")
    x = g.input("x", sizes=[elements], dtype="float32")
    g.output("y", x + x)
    return compiled(device, g)


class TestKeptOutputs:
    def test_nothing_is_copied(self, device: DirectMLDevice) -> None:
        exe = doubled(device, 1 << 16)
        kept = exe.run({"x": np.ones(1 << 16, np.float32)}, keep=["y"])["y"]
        for _ in range(3):
            counted = Counted(device)
            kept = exe.run({"x": kept}, keep=["y"])["y"]
            found = counted.since()
            assert found.pop("waits") <= 1  # 0 if it is done at once
            assert found == {"submissions": 1, "bytes_copied": 0, "bytes_cleared": 0}
        assert (exe.stats["uploaded_bytes"], exe.stats["read_bytes"]) == (0, 0)
        np.testing.assert_array_equal(kept.numpy(), np.full(1 << 16, 16, np.float32))

    def test_they_are_freed_when_nobody_holds_them(self, device: DirectMLDevice) -> None:
        size = 4 << 20
        exe = doubled(device, size // 4)
        given = {"x": np.ones(size // 4, np.float32)}
        before = live_bytes(device)
        kept = [exe.run(given, keep=["y"])["y"] for _ in range(3)]
        assert live_bytes(device) - before == 3 * size
        del kept[1:]
        assert live_bytes(device) - before == 2 * size  # one for the next run
        exe.close()
        assert live_bytes(device) <= before
        np.testing.assert_array_equal(kept.pop().numpy(), 2 * given["x"])
        assert live_bytes(device) < before

    def test_a_lost_device(self, directml_path: Path) -> None:
        script = """
exe = doubled().compile("directml:software")
kept = exe.run({"x": X}, keep=["y"])["y"]
print(kept.numpy())
exe._device.remove()
other = doubled()
for call in (kept.numpy, lambda: kept.resource, lambda: exe.run({"x": kept})):
    try:
        call()
    except dg.DeviceError as error:
        print(type(error).__name__)
other = doubled().compile("directml:software")
fresh = other.run({"x": X}, keep=["y"])["y"]
for each in (fresh, kept):
    print(other.run({"x": each})["y"])
"""
        *lines, last = run(script, "strict", directml_path).splitlines()
        assert lines == ["[0. 2. 4. 6.]", *["DeviceRemovedError"] * 3, "[ 0.  4.  8. 12.]"]
        assert last.startswith("BindingError other-device")
