"""BLAS in Python steps: it has one thread, the threads of the run share its products, and the limit is removed."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import threadpoolctl

import dmlgraph as dg
from dmlgraph import _native
from dmlgraph.devices.cpu import blas
from dmlgraph.operators.matrix import Gemm

Array = np.ndarray[Any, Any]
Graph = tuple[dg.Graph, dict[str, Array]]

BEFORE = 3  # threads that BLAS has outside of runs


def blas_threads() -> set[int]:
    """How many threads NumPy's BLAS has now."""
    return {library.get_threads() for library in blas.libraries()}


@pytest.fixture(autouse=True)
def many_threads() -> Iterator[None]:
    """Gives BLAS several threads on any machine."""
    if not blas.libraries():
        pytest.skip("NumPy's BLAS is one that threadpoolctl cannot limit")
    with threadpoolctl.threadpool_limits(BEFORE, "blas"):
        assert blas_threads() == {BEFORE}
        yield


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[set[int], int]]:
    """For each product of a run: the number of BLAS's threads, and of those that share the product."""
    noted: list[tuple[set[int], int]] = []
    original = _native.cpu_multiply

    def multiply(a: Array, b: Array, result: Array, threads: int) -> None:
        noted.append((blas_threads(), threads))
        original(a, b, result, threads)

    monkeypatch.setattr(_native, "cpu_multiply", multiply)
    return noted


def numbers(*sizes: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(sizes).astype(np.float32)


def graph_of(build: Callable[..., Any], *arrays: Array, **fields: Any) -> Graph:
    g = dg.Graph("products")
    inputs = {f"x{index}": array for index, array in enumerate(arrays)}
    values = [g.input(name, sizes=array.shape, dtype=array.dtype) for name, array in inputs.items()]
    made = build(*values, **fields)
    for index, value in enumerate(made if isinstance(made, tuple) else (made,)):
        g.output(f"y{index}", value)
    return g, inputs


def softmax() -> Graph:
    return graph_of(dg.gemm, numbers(300, 200), numbers(200, 600), fused_activation="activation_softmax")


def attention() -> Graph:
    g = dg.Graph("attention")
    arrays = {name: numbers(2, 160, 256, seed=seed) for seed, name in enumerate(("query", "key", "value"))}
    values = {name: g.input(name, sizes=array.shape, dtype="float32") for name, array in arrays.items()}
    made = dg.multihead_attention(**values, scale=0.2, mask_filter_value=-1e9, head_count=4, mask_type="none")
    g.output("y", made[0] if isinstance(made, tuple) else made)
    return g, arrays


def resampling_gradient() -> Graph:
    return graph_of(
        dg.resample_grad,
        numbers(1, 8, 180, 180),
        interpolation_mode="linear",
        scales=[1, 1, 3, 3],
        output_gradient={"sizes": [1, 8, 60, 60]},
    )


def recurrent() -> Graph:
    g = dg.Graph("rnn")
    arrays = {"x": numbers(1, 5, 70, 200), "w": numbers(1, 1, 300, 200) / 30, "r": numbers(1, 1, 300, 300) / 30}
    x, w, r = (g.input(name, sizes=array.shape, dtype="float32") for name, array in arrays.items())
    made = dg.rnn(
        x, w, r, activation_descs=["activation_tanh"], direction="forward", output_sequence={}, output_single={}
    )
    for index, value in enumerate(made):
        g.output(f"y{index}", value)
    return g, arrays


GRAPHS = [softmax, attention, resampling_gradient, recurrent]


@pytest.mark.parametrize("build", GRAPHS, ids=lambda build: build.__name__)
def test_blas_has_one_thread_in_a_run_and_the_run_shares_its_products(
    build: Callable[[], Graph], seen: list[tuple[set[int], int]]
) -> None:
    graph, inputs = build()
    for threads in (1, 2, 3):
        seen.clear()
        graph.compile("cpu", threads=threads).run(inputs)
        assert seen
        assert all(each == ({1}, threads) for each in seen)
        assert blas_threads() == {BEFORE}


@pytest.mark.parametrize("build", GRAPHS, ids=lambda build: build.__name__)
def test_the_number_of_threads_changes_no_bit(build: Callable[[], Graph]) -> None:
    graph, inputs = build()
    one, *others = (graph.compile("cpu", threads=threads).run(inputs) for threads in (1, 2, 3, 8))
    for other in others:
        assert all(other[name].tobytes() == one[name].tobytes() for name in one)
    expected = graph.compile("reference").run(inputs)
    for name, values in expected.items():
        np.testing.assert_allclose(one[name], values, rtol=1e-3, atol=1e-3)


def test_the_environment_reaches_the_products(seen: list[tuple[set[int], int]]) -> None:
    graph, inputs = softmax()
    graph.compile("cpu").run(inputs)
    assert seen == [({1}, _native.cpu_default_threads())]


def test_what_the_definition_computes_has_one_thread_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers that are not finite are left to `evaluate`."""
    noted: list[set[int]] = []
    original = Gemm.evaluate

    def evaluate(self: Gemm, *given: Any) -> Any:
        noted.append(blas_threads())
        return original(self, *given)

    monkeypatch.setattr(Gemm, "evaluate", evaluate)
    graph, inputs = softmax()
    inputs["x0"][0, 0] = np.inf
    graph.compile("cpu").run(inputs)
    assert noted == [{1}]
    assert blas_threads() == {BEFORE}


def test_a_run_that_fails_leaves_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(_native, "cpu_multiply", fail)
    graph, inputs = softmax()
    executable = graph.compile("cpu")
    with pytest.raises(KeyboardInterrupt):
        executable.run(inputs)
    assert blas_threads() == {BEFORE}


def test_the_last_of_several_runs_takes_the_limit_back() -> None:
    """Overlapping runs: BLAS has one thread as long as any of them runs."""
    inside, leave = [threading.Event() for _ in range(2)], [threading.Event() for _ in range(2)]

    def run(number: int) -> None:
        with blas.step(1):
            inside[number].set()
            leave[number].wait()

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(2)]
    for number, thread in enumerate(threads):
        thread.start()
        inside[number].wait()
        assert blas_threads() == {1}
    for number, thread in enumerate(threads):
        leave[number].set()
        thread.join()
        assert blas_threads() == ({1} if number == 0 else {BEFORE})


def test_many_runs_at_once(seen: list[tuple[set[int], int]]) -> None:
    graph, inputs = softmax()
    executable = graph.compile("cpu", threads=2)
    expected = executable.run(inputs)["y0"].tobytes()
    wrong: list[int] = []

    def work() -> None:
        for _ in range(20):
            if executable.run(inputs)["y0"].tobytes() != expected:
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert {count for counts, _ in seen for count in counts} == {1}
    assert blas_threads() == {BEFORE}


def test_a_number_that_somebody_sets_meanwhile_stays() -> None:
    with blas.step(1):
        for library in blas.libraries():
            library.set_threads(2)
    assert blas_threads() == {2}


def test_a_step_that_an_interrupt_left_behind_ends_with_the_next() -> None:
    blas._one_thread.enter()
    with blas.step(1):
        assert blas_threads() == {1}
    assert blas_threads() == {BEFORE}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_process_forked_in_a_run_has_no_limit() -> None:
    inside, leave = threading.Event(), threading.Event()

    def run() -> None:
        with blas.step(1):
            inside.set()
            leave.wait()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    inside.wait()
    child = os.fork()
    if child == 0:
        os._exit(0 if blas_threads() == {BEFORE} else 1)
    status = os.waitpid(child, 0)[1]
    leave.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0
    assert blas_threads() == {BEFORE}


class TestMultiply:
    """The native products, on arrays of every layout."""

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize(
        ("a", "b"),
        [((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((0, 4), (4, 2))],
    )
    def test_batches_broadcast(self, a: tuple[int, ...], b: tuple[int, ...], dtype: type) -> None:
        left, right = numbers(*a).astype(dtype), numbers(*b, seed=1).astype(dtype)
        np.testing.assert_allclose(blas.multiply(left, right), left @ right, rtol=1e-5)

    def test_no_terms_make_zeros(self) -> None:
        assert (blas.multiply(np.ones((2, 0), np.float32), np.ones((0, 3), np.float32)) == np.zeros((2, 3))).all()

    @pytest.mark.parametrize(
        ("a", "b", "result"),
        [
            (np.ones((2, 3), np.float32), np.ones((2, 3), np.float32), np.ones((2, 3), np.float32)),
            (np.ones((2, 3), np.float32), np.ones((3, 2), np.float32), np.ones((2, 3), np.float32)),
            (np.ones((2, 3), np.float32), np.ones((3, 2), np.float64), np.ones((2, 2), np.float32)),
            (np.ones((2, 3), np.int32), np.ones((3, 2), np.int32), np.ones((2, 2), np.int32)),
            (np.ones((4, 2, 3), np.float32), np.ones((3, 2), np.float32), np.ones((3, 2, 2), np.float32)),
            (np.ones(3, np.float32), np.ones((3, 2), np.float32), np.ones((1, 2), np.float32)),
            (np.ones((2, 3), np.float32), np.ones((3, 2), np.float32), np.broadcast_to(np.float32(1), (2, 2))),
        ],
    )
    def test_what_does_not_agree_is_refused(self, a: Array, b: Array, result: Array) -> None:
        with pytest.raises(ValueError, match=r"product|matrices"):
            _native.cpu_multiply(a, b, result, 1)
