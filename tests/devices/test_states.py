"""States on devices: what runs leave for the runs after them, in sets that executables share."""

from __future__ import annotations

import copy
import pathlib
import pickle
import threading
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
from support.problems import raises

import dmlgraph as dg
from dmlgraph.devices.executable import Executable
from dmlgraph.devices.names import DeviceName

DEVICES: tuple[DeviceName, ...] = ("reference", "cpu", "directml:software")

pytestmark = pytest.mark.usefixtures("directml_path")


def cache(*, rows: int = 1, capacity: int = 5) -> dg.Graph:
    """A counter, and a cache of rows [2, capacity] with what it held before the run as an output."""
    g = dg.Graph("cache", dims={"capacity": capacity, "rows": rows})
    step = g.state("step", sizes=[1], dtype="float32", initial=10)
    g.update(step, step + 1)
    k = g.state("k", sizes=[2, "capacity"], dtype="float32", grows=1)
    x = g.input("x", sizes=[2, "rows"], dtype="float32")
    g.append(k, x * 2)
    g.output("step", dg.identity(step))
    g.output("held", k.T)
    g.output("length", dg.identity(k.length))
    return g


def numbers(*given: Any) -> list[Any]:
    """Arrays of one element as numbers; anything else as it is."""
    return [each.item() if isinstance(each, np.ndarray) else each for each in given]


def row(*given: float) -> dict[str, Any]:
    return {"x": np.array([given, [10 * each for each in given]], np.float32)}


@pytest.fixture(params=DEVICES)
def exe(request: pytest.FixtureRequest) -> Executable:
    return cache().compile(request.param)


def test_a_run_reads_what_was_before_it(exe: Executable) -> None:
    for count in range(3):
        got = exe.run(row(count + 1))
        assert got.keys() == {"step", "held", "length"}
        assert numbers(got["step"], got["length"]) == [10 + count, count]
        expected = np.zeros((5, 2), np.float32)
        for each in range(count):
            expected[each] = 2 * each + 2, 20 * each + 20
        np.testing.assert_array_equal(got["held"], expected)
    assert exe.states.lengths == {"k": 3}
    assert exe.states["step"] == 13
    np.testing.assert_array_equal(exe.states["k"], [[2, 4, 6], [20, 40, 60]])
    assert exe.stats["state_bytes_written"] == 4 + 2 * 4  # one number, and a row of two


def test_sets_do_not_know_of_one_another(exe: Executable) -> None:
    other = exe.new_states()
    exe.run(row(1))
    assert exe.run(row(5), states=other)["step"] == 10
    third = exe.states.copy()
    exe.run(row(2), states=third)
    assert (exe.states.lengths, other.lengths, third.lengths) == ({"k": 1}, {"k": 1}, {"k": 2})
    np.testing.assert_array_equal(third["k"], [[2, 4], [20, 40]])
    np.testing.assert_array_equal(copy.deepcopy(third)["k"], third["k"])
    np.testing.assert_array_equal(exe.states["k"], [[2], [20]])


@pytest.mark.parametrize("device", DEVICES)
def test_one_set_for_two_executables(device: DeviceName) -> None:
    """A prompt of three rows, then single ones; the second knows nothing of the first one's other states."""
    prompt = cache(rows=3)
    calls = prompt.state("calls", sizes=[1], dtype="int32")
    prompt.update(calls, calls + 1)
    long, short = prompt.compile(device), cache().compile(device)
    states = long.new_states()
    long.run(row(1, 2, 3), states=states)
    got = short.run(row(4), states=states)
    assert numbers(got["length"], got["step"], states["calls"]) == [3, 11, 1]
    np.testing.assert_array_equal(states["k"][0], [2, 4, 6, 8])
    own = short.new_states()
    assert set(own) == {"step", "k"}
    long.run(row(1, 2, 3), states=own)  # adds the state that it lacks
    assert set(own) == {"step", "k", "calls"}


def test_rewinding_and_going_on(exe: Executable) -> None:
    for each in range(4):
        exe.run(row(each))
    exe.states.rewind(3)
    got = exe.run(row(7))
    assert got["length"] == 1
    np.testing.assert_array_equal(exe.states["k"], [[0, 14], [0, 140]])
    assert exe.states["step"] == 15  # which does not grow
    for wrong in (3, -1, True, "1"):
        with pytest.raises(dg.BindingError) as caught:
            exe.states.rewind(wrong)  # type: ignore[arg-type]
        assert (caught.value.code, caught.value.field) == ("range", "rows")
    exe.states.reset()
    assert numbers(exe.states.lengths, exe.states["step"]) == [{"k": 0}, 10]
    np.testing.assert_array_equal(exe.run(row(1))["held"], np.zeros((5, 2)))


def test_parts_go_from_set_to_set(exe: Executable) -> None:
    """Also rows beyond the length, and to another capacity; within a set a part may overlap what it becomes."""
    other = cache(capacity=7).compile(exe.device)  # type: ignore[arg-type]
    for each in range(1, 5):
        other.run(row(each))
    states, second = exe.states, slice(1, 2)
    states.put("k", (slice(1), slice(2, 4)), other.states, (second, slice(1, 3)))
    assert states.lengths == {"k": 0}
    states.stretch(4)
    np.testing.assert_array_equal(states["k"], [[0, 0, 40, 60], [0, 0, 0, 0]])
    states.put("k", (slice(None), slice(1, 4)), states, (slice(None), slice(0, 3)))
    np.testing.assert_array_equal(states["k"], [[0, 0, 0, 40], [0, 0, 0, 0]])
    assert exe.run(row(1))["held"].T.tolist() == [[0, 0, 0, 40, 0], [0] * 5]
    whole = slice(None), slice(3)
    wrong_parts = ("k", whole[:1], "sizes"), ("k", (slice(1), whole[1]), "sizes"), ("step", whole, "states")
    for name, part, code in wrong_parts:
        with raises(dg.BindingError, code, field=name):
            states.put(name, part, other.states, whole)
    with raises(dg.BindingError, "unknown-state", field="j"):
        states.put("j", whole, other.states, whole)
    for wrong in (6, -1, True):
        with raises(dg.BindingError, "range", field="rows", got=wrong):
            states.stretch(wrong)
    if exe.device.startswith("directml"):
        with raises(dg.BindingError, "states", field="source", got="cpu"):
            states.put("k", whole, cache().compile("cpu").states, whole)


def test_rows_that_do_not_fit_change_nothing(exe: Executable) -> None:
    exe.run(row(1), steps=4)
    with pytest.raises(dg.BindingError) as caught:
        exe.run(row(1), steps=2)
    assert (caught.value.code, caught.value.field, caught.value.got) == ("capacity", "k", "4 rows and 2 more")
    assert numbers(exe.states.lengths, exe.states["step"]) == [{"k": 4}, 14]


def test_several_steps_are_one_call(exe: Executable) -> None:
    got = exe.run(row(3), steps=3, collect=["step", "length"])
    np.testing.assert_array_equal(got["step"], [[10], [11], [12]])
    np.testing.assert_array_equal(got["length"], [[0], [1], [2]])
    assert got["held"].shape == (5, 2)  # of the last step
    for steps in (0, -1, True, 1.5, "2"):
        with pytest.raises(dg.BindingError) as caught:
            exe.run(row(3), steps=steps)  # type: ignore[arg-type]
        assert (caught.value.code, caught.value.field) == ("range", "steps")
    mistakes: list[tuple[dict[str, Any], str, str | None]] = [
        ({"collect": ["k"]}, "unknown-array", "k"),
        ({"collect": "step"}, "kind", "collect"),
        ({"collect": 5}, "kind", "collect"),
        ({"collect": ["step"], "out": {"step": np.empty(1, "f4")}}, "conflict", "step"),
        ({"states": {}}, "kind", "states"),
    ]
    for keywords, code, field in mistakes:
        with pytest.raises(dg.BindingError) as caught:
            exe.run(row(3), **keywords)
        assert (caught.value.code, caught.value.field) == (code, field)


def test_a_run_that_fails_changes_nothing(exe: Executable) -> None:
    exe.run(row(1))
    before = {name: exe.states[name] for name in exe.states}
    method = "_run_native" if exe.device.startswith("directml") else "_run"
    with mock.patch.object(exe, method, side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        exe.run(row(5))
    assert exe.states.lengths == {"k": 1}
    for name, value in before.items():
        np.testing.assert_array_equal(exe.states[name], value)


def test_writing_what_a_state_holds(exe: Executable) -> None:
    exe.states["k"] = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    exe.states["step"] = np.array([7], np.float32)
    got = exe.run(row(0))
    assert numbers(got["length"], got["step"]) == [3, 7]
    np.testing.assert_array_equal(got["held"][:, 0], [1, 2, 3, 0, 0])
    exe.states["k"] = np.zeros((2, 0), np.float32)
    assert exe.run(row(0))["length"] == 0
    wrong = (np.zeros((2, 6), "f4"), "sizes"), (np.zeros((3, 1), "f4"), "sizes"), (np.zeros((2, 1)), "dtype")
    for value, code in wrong:
        with pytest.raises(dg.BindingError) as caught:
            exe.states["k"] = value
        assert (caught.value.code, caught.value.field) == (code, "k")
    with pytest.raises(dg.BindingError) as caught:
        exe.states["keys"]
    assert (caught.value.code, caught.value.field) == ("unknown-state", "keys")


def test_a_set_is_read_as_a_mapping(exe: Executable) -> None:
    states = exe.states
    assert (list(states), len(states), states.keys()) == (["step", "k"], 2, ("step", "k"))
    assert "k" in states
    assert "keys" not in states
    assert {name: value.shape for name, value in dict(states).items()} == {"step": (1,), "k": (2, 0)}
    assert states == exe.states != exe.new_states()
    assert states.bytes == 4 + 2 * 5 * 4
    assert repr(states) == f"<States on {exe.device}: step: float32 [1], k: float32 [2, 5], grows along 1>"


def test_what_is_read_is_a_copy(exe: Executable) -> None:
    exe.states["step"][...] = 99
    assert exe.states["step"] == 10


def test_a_file_of_states(exe: Executable, tmp_path: pathlib.Path) -> None:
    exe.run(row(1), steps=2)
    path = tmp_path / "states.safetensors"
    exe.states.save(path)
    other = exe.new_states()
    other.load(path)
    assert other.lengths == {"k": 2}
    assert exe.run(row(4), states=other)["step"] == 12
    np.testing.assert_array_equal(other["k"][0], [2, 2, 8])
    bigger = cache(capacity=64).compile(exe.device)  # type: ignore[arg-type]
    bigger.states.load(path)
    assert bigger.states.lengths == {"k": 2}
    smaller = cache(capacity=1).compile(exe.device)  # type: ignore[arg-type]
    with pytest.raises(dg.BindingError) as caught:
        smaller.states.load(path)
    assert (caught.value.code, caught.value.field) == ("sizes", "k")
    assert smaller.states["step"] == 10  # nothing was taken
    graph = cache()
    graph.update(graph.state("more", sizes=[1], dtype="float32"), graph.value("step"))
    with pytest.raises(dg.GraphError) as missing:
        graph.compile(exe.device).states.load(path)  # type: ignore[arg-type]
    assert missing.value.field == "tensor"


def test_another_set_of_the_same_names_is_refused() -> None:
    exe = cache().compile("cpu")
    other = cache(capacity=6).compile("cpu")
    with pytest.raises(dg.BindingError) as caught:
        exe.run(row(1), states=other.states)
    assert (caught.value.code, caught.value.field) == ("states", "k")
    with pytest.raises(dg.BindingError) as caught:
        exe.run(row(1), states=cache().compile("reference").states)
    assert (caught.value.code, caught.value.field) == ("states", "states")


def test_threads_take_turns() -> None:
    exe = cache(capacity=400).compile("cpu")
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for _ in range(100):
                exe.run(row(number))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failures
    assert numbers(exe.states.lengths, exe.states["step"]) == [{"k": 400}, 410]
    values, counts = np.unique(exe.states["k"][0], return_counts=True)
    assert (values.tolist(), counts.tolist()) == ([0, 2, 4, 6], [100] * 4)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("fuse", [False, True])
def test_what_a_next_value_may_be(device: DeviceName, fuse: bool) -> None:
    """An output, an input, another state, a constant, and a state that is read through views."""
    g = dg.Graph("g")
    a, b, c, d = (g.state(name, sizes=[2, 3], dtype="float32", initial=index) for index, name in enumerate("abcd"))
    x = g.input("x", sizes=[2, 3], dtype="float32")
    total = a.T + b.reshape(3, 2)
    g.output("total", total)
    g.update(a, x)
    g.update(b, a)
    g.update(c, g.constant("k", np.full((2, 3), 5, np.float32)))
    after = d + 1
    g.output("d", after)
    g.update(d, after)
    exe = g.compile(device, fuse=fuse)
    rng = np.random.default_rng(0)
    held = {name: np.full((2, 3), index, np.float32) for index, name in enumerate("abcd")}
    for _ in range(4):
        given = rng.integers(0, 9, (2, 3)).astype(np.float32)
        got = exe.run({"x": given})
        np.testing.assert_array_equal(got["total"], held["a"].T + held["b"].reshape(3, 2))
        np.testing.assert_array_equal(got["d"], held["d"] + 1)
        held = {"a": given, "b": held["a"], "c": np.full((2, 3), 5), "d": held["d"] + 1}
        for name, value in held.items():
            np.testing.assert_array_equal(exe.states[name], value)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("fuse", [False, True])
def test_next_values_and_rows_in_other_layouts(device: DeviceName, fuse: bool) -> None:
    """A state lies packed in its memory, whatever strides the value has that changes it."""
    g = dg.Graph("g")
    x = g.input("x", sizes=[2, 3], dtype="float32")
    whole = g.state("whole", sizes=[2, 3], dtype="float32")
    grown = g.state("grown", sizes=[2, 9], dtype="float32", grows=1)
    g.update(whole, dg.add(whole, x, output={"strides": [1, 2]}))
    g.append(grown, dg.negate(x, output={"strides": [4, 1]}))
    g.output("whole", dg.identity(whole))
    given = np.arange(6, dtype=np.float32).reshape(2, 3)
    with g.compile(device, fuse=fuse) as exe:
        exe.run({"x": given})
        got = exe.run({"x": given}, steps=2, collect=["whole"])["whole"]
        np.testing.assert_array_equal(got, [given, 2 * given])
        np.testing.assert_array_equal(exe.states["whole"], 3 * given)
        np.testing.assert_array_equal(exe.states["grown"], np.concatenate([-given] * 3, axis=1))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_mask_of_the_length(device: DeviceName, dtype: str) -> None:
    g = dg.Graph("g", dims={"capacity": 6})
    k = g.state("k", sizes=["capacity", 2], dtype="float32", grows=0)
    g.append(k, g.input("x", sizes=[2, 2], dtype="float32"))
    g.output("mask", dg.length_mask(k, dtype=dtype))  # type: ignore[arg-type]
    exe = g.compile(device)
    for length in (0, 2, 4):
        mask = exe.run({"x": np.ones((2, 2), "f4")})["mask"]
        assert mask.dtype == dtype
        np.testing.assert_array_equal(mask, [0] * length + [np.finfo(dtype).min] * (6 - length))


@pytest.mark.parametrize("device", DEVICES)
def test_every_data_type_of_whole_bytes(device: DeviceName) -> None:
    for dtype in ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32"):
        g = dg.Graph("g")
        s = g.state("s", sizes=[3], dtype=dtype, initial=np.array([1, 2, 3], dtype))
        k = g.state("k", sizes=[1, 9], dtype=dtype, grows=1)
        g.update(s, s.reshape(1, 3).reshape(3))
        g.append(k, s.reshape(1, 3))
        g.output("y", s)
        exe = g.compile(device)
        exe.run(steps=3)
        np.testing.assert_array_equal(exe.states["k"], [[1, 2, 3] * 3])
        assert exe.states["s"].dtype == dtype


def test_bound_arrays_run_on_the_set_of_the_executable(exe: Executable) -> None:
    given = row(1)
    again = exe.bind(given)
    assert [again()["length"].item() for _ in range(3)] == [0, 1, 2]
    given["x"][:] = 4
    again()
    np.testing.assert_array_equal(exe.states["k"][0], [2, 2, 2, 8])


def test_a_copy_of_an_executable_starts_anew(exe: Executable) -> None:
    exe.run(row(1))
    makes: tuple[Callable[[Executable], Executable], ...]
    makes = copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))
    for make in makes:
        assert make(exe).new_states().lengths == {"k": 0}


def test_a_profile_changes_nothing(exe: Executable) -> None:
    exe.run(row(1))
    assert exe.profile(row(2))
    assert numbers(exe.states.lengths, exe.states["step"]) == [{"k": 1}, 11]
