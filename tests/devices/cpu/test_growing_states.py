"""Products with growing states leave out rows that were never written, and give the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlgraph as dg
from dmlgraph.devices.executable import Executable
from dmlgraph.generation.caches import CacheType, narrowed

Array = np.ndarray[Any, Any]

HEADS, GROUP, DEPTH, CAPACITY = 2, 3, 16, 300


def attention(*, queries: int = 1, masked: bool = True) -> dg.Graph:
    """Queries [1, HEADS, GROUP · queries, DEPTH] over keys and values of before; without a mask no softmax."""
    g = dg.Graph("attention", dims={"rows": 1})
    q = g.input("q", sizes=[1, HEADS, GROUP * queries, DEPTH], dtype="float32")
    x = g.input("x", sizes=[2, HEADS, "rows", DEPTH], dtype="float32")
    keys, values = (
        g.state(name, sizes=[1, HEADS, CAPACITY, DEPTH], dtype="float32", grows=2) for name in ("keys", "values")
    )
    for at, state in enumerate((keys, values)):
        g.append(state, x[at : at + 1])
    scores = dg.gemm(q, keys, trans_b="transpose", alpha=0.25)
    if masked:
        places = g.constant("places", np.arange(CAPACITY, dtype=np.float32).reshape(1, 1, 1, CAPACITY))
        length = dg.cast(keys.length, dtype="float32").reshape(1, 1, 1, 1)
        never = g.fill_value_constant(sizes=[1], dtype="float32", value=-np.inf)
        scores = dg.activation_softmax1(dg.if_(places < length, scores, never), axes=[3])
    g.output("scores", dg.identity(scores))
    g.output("y", dg.gemm(scores, values))
    return g


def appended(exe: Executable, q: Array, rows: Array) -> dict[str, Array]:
    return exe.run({"q": q, "x": rows})


def numbers(*sizes: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(sizes, np.float32)


def spoil(exe: Executable, rows: int) -> None:
    """Puts what no product can hide where nothing was written."""
    for name in ("keys", "values"):
        exe.states._held[name].tensor[:, :, rows:] = np.nan


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("queries", [1, 40])
def test_rows_that_were_never_written_are_not_read(queries: int, threads: int) -> None:
    exe = attention(queries=queries).with_dims({"rows": 1}).compile("cpu", threads=threads)
    reference = attention(queries=queries).compile("reference")
    q = numbers(1, HEADS, GROUP * queries, DEPTH, seed=1)
    for step in range(1, 20):
        rows = numbers(2, HEADS, 1, DEPTH, seed=step)
        found, wanted = appended(exe, q, rows), appended(reference, q, rows)
        if step > 1:  # a softmax over nothing is not a number
            np.testing.assert_allclose(found["y"], wanted["y"], atol=1e-5)
        spoil(exe, step)
    assert np.count_nonzero(found["scores"]) == 18 * HEADS * GROUP * queries


@pytest.mark.parametrize("queries", [1, 40])
def test_the_bits_are_those_of_all_rows(queries: int) -> None:
    graph = attention(queries=queries).with_dims({"rows": 17})
    exe, whole = graph.compile("cpu"), graph.compile("cpu")
    q = numbers(1, HEADS, GROUP * queries, DEPTH, seed=1)
    for step in range(17):
        whole.states["keys"], whole.states["values"] = exe.states["keys"], exe.states["values"]
        for name in ("keys", "values"):
            whole.states._held[name].written.rows = CAPACITY
        rows = numbers(2, HEADS, 17, DEPTH, seed=step)
        found, wanted = appended(exe, q, rows), appended(whole, q, rows)
        for name, each in wanted.items():
            np.testing.assert_array_equal(found[name], each)


def test_what_was_taken_back_is_seen_until_it_is_written_over() -> None:
    """As in docs/states.md, on every device."""
    found = []
    for device in ("reference", "cpu"):
        exe = attention(masked=False).with_dims({"rows": 6}).compile(device)
        q = numbers(1, HEADS, GROUP, DEPTH, seed=1)
        appended(exe, q, numbers(2, HEADS, 6, DEPTH))
        exe.states.rewind(5)
        other = exe.states.copy()
        results = [exe.run({"q": q, "x": numbers(2, HEADS, 6, DEPTH, seed=2)}, states=each) for each in (None, other)]
        exe.states["keys"] = exe.states["keys"][:, :, :2]
        results.append(appended(exe, q, numbers(2, HEADS, 6, DEPTH, seed=3)))
        exe.states.reset()
        results.append(exe.run({"q": q, "x": numbers(2, HEADS, 6, DEPTH, seed=4)}, steps=3))
        found.append(results)
    for wanted, got in zip(*found, strict=True):
        for name, each in wanted.items():
            np.testing.assert_allclose(got[name], each, atol=1e-5)
    assert np.count_nonzero(found[1][0]["scores"][0, 0, 0]) == 6
    assert np.count_nonzero(found[1][3]["scores"][0, 0, 0]) == 12


def test_rows_of_a_run_that_failed_may_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    exe = attention(masked=False).compile("cpu")
    q = numbers(1, HEADS, GROUP, DEPTH, seed=1)
    with monkeypatch.context() as patch:
        patch.setattr("dmlgraph.devices.states.Turn.commit", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            appended(exe, q, numbers(2, HEADS, 1, DEPTH))
    assert exe.states.lengths == {"keys": 0, "values": 0}
    found = appended(exe, q, numbers(2, HEADS, 1, DEPTH, seed=2))
    assert np.count_nonzero(found["scores"][0, 0, 0]) == 1


@pytest.mark.parametrize("way", ["turned", "windows", "sum of all", "rows of the left operand", "along"])
def test_states_that_are_read_in_other_ways(way: str) -> None:
    """Only where a dimension goes along the rows are some left out."""
    g = dg.Graph()
    x = g.input("x", sizes=[1, 1, 3, 8], dtype="float32")
    held = g.state("held", sizes=[1, 1, 40, 8], dtype="float32", grows=2)
    g.append(held, x)
    ones = g.constant("ones", np.arange(1, 9, dtype=np.float32).reshape(1, 1, 1, 8))
    match way:
        case "turned":
            y = dg.gemm(held, held, trans_a="transpose")
        case "windows":
            y = dg.gemm(ones, held[:, :, 3:35], trans_b="transpose")
        case "sum of all":
            y = dg.gemm(held.reshape(1, 1, 1, 320), g.constant("all", numbers(1, 1, 320, 5)))
        case "rows of the left operand":
            y = dg.gemm(held, ones, trans_b="transpose")
        case _:
            y = dg.gemm(g.constant("many", numbers(1, 1, 2, 40)), held.reshape(1, 1, 8, 40), trans_b="transpose")
    g.output("y", y)
    exe, reference = g.compile("cpu"), g.compile("reference")
    for step in range(12):
        given = {"x": numbers(1, 1, 3, 8, seed=step)}
        np.testing.assert_allclose(exe.run(given)["y"], reference.run(given)["y"], atol=1e-4)


@pytest.mark.parametrize("kind", ["float16", "int8"])
def test_what_is_made_of_rows_is_made_of_those_that_were_written(kind: CacheType) -> None:
    """Floats of fewer bits: a product reads float16 itself, and a factor is multiplied with some rows more."""
    exe, reference = (narrowed(attention(), kind).compile(device) for device in ("cpu", "reference"))
    q = numbers(1, HEADS, GROUP, DEPTH, seed=1)
    for step in range(1, 2 * 64 + 3):
        rows = numbers(2, HEADS, 1, DEPTH, seed=step)
        got, expected = (appended(each, q, rows) for each in (exe, reference))
        np.testing.assert_allclose(got["y"], expected["y"], rtol=1e-5, atol=1e-6)
        for name, held in exe.states._held.items():
            held.tensor[:, :, step:] = 77 if name.endswith("int8") else np.nan
