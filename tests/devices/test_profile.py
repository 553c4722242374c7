"""Profiling: how long each part of a run took, if the device can measure it."""

from __future__ import annotations

import dataclasses
import threading
import time
from typing import Any

import numpy as np
import pytest
from support.problems import raises

import dmlgraph as dg
from dmlgraph.devices.directml import profile
from dmlgraph.devices.executable import Executable, Roof, Step

X = np.ones((64, 64), np.float32)
WORK = 1000  # rows of the large node


def graph() -> dg.Graph:
    """A small node, one that takes much longer, and a constant, which does not run."""
    g = dg.Graph("g")
    x = g.input("x", sizes=[64, 64], dtype="float32")
    small = dg.exp(x, name="small")
    many = g.input("many", sizes=[WORK, 64], dtype="float32")
    k = g.constant("k", np.ones((1, 4), np.float32))
    g.output("large", dg.gemm(many, small, name="large"))
    g.output("four", dg.negate(k, name="four"))
    return g


INPUTS = {"x": X, "many": np.ones((WORK, 64), np.float32)}


@pytest.fixture(params=["reference", "cpu", "directml:software"])
def executable(request: pytest.FixtureRequest) -> Executable:
    if request.param == "directml:software":
        request.getfixturevalue("directml_path")
    return graph().compile(request.param, fuse=False)


def test_every_node_is_in_one_step_and_the_steps_are_in_order(executable: Executable) -> None:
    begin = time.perf_counter()
    steps = executable.profile(INPUTS)
    seconds = time.perf_counter() - begin
    assert steps is not None
    assert sorted(name for step in steps for name in step.nodes) == ["four", "large", "small"]
    end = 0.0
    for step in steps:
        assert step.how
        assert step.seconds > 0
        assert step.start >= end
        end = step.start + step.seconds
    assert end <= seconds


def test_a_step_says_how_many_bytes_it_reads_and_writes(executable: Executable) -> None:
    steps = executable.profile(INPUTS)
    assert steps is not None
    sizes = {step.nodes: step.bytes for step in steps}
    assert sizes["large",] == 4 * (WORK * 64 + 64 * 64 + WORK * 64)
    assert sizes["small",] == 4 * 2 * 64 * 64
    assert sizes["four",] == 4 * 2 * 4


def test_a_step_says_what_it_computes_and_with_which_kernel(executable: Executable) -> None:
    steps = executable.profile(INPUTS)
    assert steps is not None
    found = {step.nodes: step for step in steps}
    assert found["large",].operations == 2 * WORK * 64 * 64
    assert found["small",].operations == 0
    assert found["large",].kernel == ("gemm" if executable.device == "cpu" else "")


def test_only_the_processor_has_a_roof(executable: Executable) -> None:
    roof = executable.roof()
    assert (roof is not None) == (executable.device == "cpu")


def test_the_share_of_the_roof_is_that_of_the_slower_part() -> None:
    roof = Roof(operations=1e9, integer_operations=4e9, bytes=1e8)
    computing = Step(("y",), "native", 0.0, seconds=4.0, bytes=10, operations=2 * 10**9)
    moving = Step(("y",), "native", 0.0, seconds=4.0, bytes=10**8, operations=10)
    assert (roof.share(computing), roof.share(moving)) == (0.5, 0.25)
    of_integers = dataclasses.replace(computing, of_integers=True)
    assert roof.share(of_integers) == 0.125


@pytest.mark.parametrize(
    ("inputs", "code", "field"), [({"x": X}, "missing-input", None), ({**INPUTS, "z": X}, "unknown-array", "z")]
)
def test_profiling_checks_its_inputs_as_a_run_does(
    executable: Executable, inputs: Any, code: str, field: str | None
) -> None:
    with raises(dg.BindingError, code, field=field):
        executable.profile(inputs)


def test_a_closed_executable_profiles_nothing(executable: Executable) -> None:
    executable.close()
    with raises(dg.DeviceError, "closed"):
        executable.profile(INPUTS)


@pytest.mark.usefixtures("directml_path")
def test_directml_runs_the_nodes_on_the_values_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Constants, owned inputs, nodes with several outputs and readers; every node sees what the graph gives it."""
    g = dg.Graph("g")
    x = g.input("x", sizes=[1, 1, 4, 8], dtype="float32")
    w = g.input("w", sizes=[1, 1, 8, 8], dtype="float32", owned=True)
    many = g.constant("many", np.arange(4 * 8, dtype=np.float32).reshape(1, 1, 4, 8))
    product = dg.gemm(x, w, name="product")
    top = dg.top_k1(product + many, axis=3, k=2, axis_direction="decreasing", name="top")
    g.output("value", dg.activation_relu(top.output_value, name="relu"))
    g.output("index", top.output_index)
    g.output("again", product * product)
    rng = np.random.default_rng(0)
    inputs = {"x": rng.standard_normal((1, 1, 4, 8), np.float32), "w": rng.standard_normal((1, 1, 8, 8), np.float32)}
    seen: dict[str, Any] = {}
    real = profile.steps

    def noting(graph: Any, arrays: Any, run: Any) -> Any:
        def noted(part: Any, given: Any) -> Any:
            ran = run(part, given)
            seen[part.nodes[-1].name] = ran.outputs
            assert ran.dispatches >= 1
            return ran

        return real(graph, arrays, noted)

    monkeypatch.setattr("dmlgraph.devices.directml.device.steps", noting)
    with g.compile("directml:software", fuse=False) as executable:
        expected = executable.run(inputs)
        steps = executable.profile(inputs)
    assert steps is not None
    assert {name for step in steps for name in step.nodes} >= {"product", "top", "relu"}
    np.testing.assert_array_equal(seen["relu"][0], expected["value"])
    index = next(result for result in seen["top"] if result.dtype == np.uint32)
    np.testing.assert_array_equal(index, expected["index"])


def test_compiling_is_told_in_its_stages(executable: Executable) -> None:
    assert all(executable.stats[f"{stage}_seconds"] > 0 for stage in ("fuse", "lower", "compile"))


def test_profiles_on_several_threads_while_others_run() -> None:
    for _ in range(20):
        executable = graph().compile("cpu", fuse=False)
        executable.run(INPUTS)
        begin = threading.Barrier(4)
        found: list[list[tuple[str, ...]] | None] = []

        def profile(executable: Executable = executable, begin: threading.Barrier = begin, found: Any = found) -> None:
            begin.wait()
            steps = executable.profile(INPUTS)
            found.append(steps and sorted(step.nodes for step in steps))

        threads = [threading.Thread(target=profile) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [[("four",), ("large",), ("small",)]] * 4
