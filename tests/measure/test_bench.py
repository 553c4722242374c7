"""The measurement of a graph, and its trace."""

from __future__ import annotations

import itertools
import json
import time
from typing import Any

import jsonschema
import numpy as np
import pytest

import dmlgraph as dg
from dmlgraph.devices import choose
from dmlgraph.devices.names import DeviceName
from dmlgraph.measure import bench
from dmlgraph.measure.bench import Measurement, measure
from dmlgraph.measure.trace import trace

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


def graph() -> dg.Graph:
    g = dg.Graph("small")
    x = g.input("x", sizes=[3, 4], dtype="float32")
    w = g.input("w", sizes=[4, 5], dtype="float32", owned=True)
    k = g.constant("k", np.arange(400, dtype=np.float32).reshape(5, 80))
    g.output("y", dg.gemm(dg.exp(x, name="e"), dg.gemm(w, k, name="wk"), name="y"))
    return g


INPUTS = {"x": X, "w": np.ones((4, 5), np.float32)}


@pytest.fixture(scope="module", params=["reference", "cpu", "directml:software"])
def measurement(request: pytest.FixtureRequest) -> Measurement:
    if request.param.startswith("directml"):
        request.getfixturevalue("directml_path")
    return measure(graph(), choose(request.param), INPUTS, repeats=7)


def test_a_measurement_says_what_ran(measurement: Measurement) -> None:
    assert [node.name for node in measurement.graph.nodes] == ["e", "wk", "y"]
    assert measurement.reason == f"asked for as '{measurement.device}'"
    # The owned input and the constant stay on the device.
    assert (measurement.input_bytes, measurement.output_bytes) == (3 * 4 * 4, 3 * 80 * 4)


def test_times_follow_one_another(measurement: Measurement) -> None:
    spans = [measurement.compilation, measurement.first, *measurement.runs]
    spans += [measurement.in_flight] if measurement.in_flight else []
    spans += [measurement.profile.span] if measurement.profile else []
    for before, after in itertools.pairwise(spans):
        assert before.seconds > 0
        assert before.start + before.seconds <= after.start
    assert len(measurement.runs) == 7
    seconds = sorted(run.seconds for run in measurement.runs)
    assert (measurement.min_seconds, measurement.median_seconds) == (seconds[0], seconds[3])


def test_runs_are_in_flight_together(measurement: Measurement) -> None:
    assert measurement.in_flight is not None
    assert measurement.in_flight_seconds == measurement.in_flight.seconds / 7


def test_directml_tells_the_phases_of_the_last_run(measurement: Measurement) -> None:
    expected = ["upload", "execution", "readback"] if measurement.device.startswith("directml") else []
    assert list(measurement.phases) == expected
    assert sum(measurement.phases.values()) < measurement.runs[-1].seconds
    found = [event for event in slices(trace([measurement]), 1) if event["cat"] == "phase"]
    assert [event["name"] for event in found] == expected
    if found:
        (run,) = [each for each in slices(trace([measurement]), 1) if each["args"].get("index") == 6]
        assert run["ts"] <= found[0]["ts"]
        assert found[-1]["ts"] + found[-1]["dur"] == pytest.approx(run["ts"] + run["dur"], abs=0.01)


def test_compiling_is_told_in_its_stages(measurement: Measurement) -> None:
    assert list(measurement.stages) == ["fuse", "lower", "compile"]
    assert 0 < sum(measurement.stages.values()) <= measurement.compilation.seconds


def test_dispatches_and_memory_are_known_of_the_software_adapter(measurement: Measurement) -> None:
    if measurement.device == "directml:software":
        assert measurement.dispatches
        assert measurement.stats["persistent_bytes"] >= 4 * 5 * 4


def test_every_node_is_timed_within_its_run(measurement: Measurement) -> None:
    assert measurement.profile is not None
    steps = measurement.profile.steps
    assert sorted(name for step in steps for name in step.nodes) == ["e", "wk", "y"]
    end = 0.0
    for step in steps:
        assert step.start >= end
        end = step.start + step.seconds
        assert measurement.operators(step) == tuple("exp" if name == "e" else "gemm" for name in step.nodes)
    assert end <= measurement.profile.span.seconds


def test_everything_is_there_as_json(measurement: Measurement) -> None:
    told = json.loads(json.dumps(measurement.as_json()))
    assert told["device"] == measurement.device
    assert told["nodes"] == 3
    assert told["median_seconds"] == measurement.median_seconds
    assert len(told["run_seconds"]) == 7
    assert told["dispatches"] == measurement.dispatches
    assert told["output_bytes"] == 960
    of_device = {
        "reference": (),
        "cpu": ("packed_bytes", "arena_bytes", "scratch_bytes"),
        "directml:software": ("persistent_bytes", "temporary_bytes"),
    }[measurement.device]
    assert told["peak_bytes"] == (sum(told["stats"][key] for key in of_device) if of_device else None)
    if measurement.profile is None:
        assert told["steps"] is None
    else:
        assert sum(len(step["operators"]) for step in told["steps"]) == 3


def test_without_a_number_the_runs_take_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "SECONDS", 0.05)
    begin = time.perf_counter()
    runs = measure(graph(), choose("reference"), INPUTS).runs
    assert time.perf_counter() - begin > 0.05
    assert bench.LEAST_RUNS <= len(runs) <= bench.MOST_RUNS
    assert len(runs) == bench.MOST_RUNS or runs[-1].start + runs[-1].seconds - runs[0].start >= 0.04
    monkeypatch.setattr(bench, "SECONDS", 0.0)
    assert len(measure(graph(), choose("reference"), INPUTS).runs) == bench.LEAST_RUNS
    monkeypatch.setattr(bench, "SECONDS", 60.0)
    monkeypatch.setattr(bench, "MOST_RUNS", 8)
    assert len(measure(graph(), choose("reference"), INPUTS).runs) == 8


def test_not_fused_is_measured_as_it_stands() -> None:
    g = dg.Graph()
    g.output("y", dg.activation_relu(g.input("x", sizes=[4], dtype="float32") * 2 + 1))
    x = np.ones(4, np.float32)
    fused, plain = (measure(g, choose("reference"), {"x": x}, fuse=fuse, repeats=1) for fuse in (True, False))
    assert len(plain.graph.nodes) == 5
    assert len(fused.graph.nodes) < 5


# The trace.

# https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["traceEvents"],
    "properties": {
        "displayTimeUnit": {"enum": ["ms", "ns"]},
        "traceEvents": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["ph", "name", "pid", "tid", "args"],
                "properties": {
                    "name": {"type": "string", "minLength": 1},
                    "pid": {"type": "integer"},
                    "tid": {"type": "integer"},
                    "args": {"type": "object"},
                },
                "oneOf": [
                    {
                        "properties": {
                            "ph": {"const": "M"},
                            "name": {"enum": ["process_name", "thread_name"]},
                            "args": {"required": ["name"]},
                        }
                    },
                    {
                        "required": ["ts", "dur", "cat"],
                        "properties": {
                            "ph": {"const": "X"},
                            "cat": {"type": "string"},
                            "ts": {"type": "number", "minimum": 0},
                            "dur": {"type": "number", "minimum": 0},
                        },
                    },
                ],
            },
        },
    },
}


def slices(made: dict[str, Any], process: int) -> list[dict[str, Any]]:
    return [event for event in made["traceEvents"] if event["ph"] == "X" and event["pid"] == process]


def test_a_trace_is_of_the_format_and_its_slices_nest() -> None:
    measurements = [measure(graph(), choose(device), INPUTS, repeats=3) for device in ("reference", "cpu")]
    made = json.loads(json.dumps(trace(measurements)))
    jsonschema.validate(made, SCHEMA)
    names = [event["args"]["name"] for event in made["traceEvents"] if event["name"] == "process_name"]
    assert names == ["reference", "cpu"]
    assert min(event["ts"] for event in made["traceEvents"] if "ts" in event) == 0
    for process in (1, 2):
        stack: list[dict[str, Any]] = []
        parents: dict[str, str] = {}
        for event in slices(made, process):
            # In nanoseconds, which are whole numbers, because sums of microseconds are rounded.
            begin, end = round(event["ts"] * 1000), round((event["ts"] + event["dur"]) * 1000)
            while stack and begin >= round((stack[-1]["ts"] + stack[-1]["dur"]) * 1000):
                stack.pop()
            for outer in stack:
                assert end <= round((outer["ts"] + outer["dur"]) * 1000)
            parents[event["name"]] = stack[-1]["name"] if stack else ""
            stack.append(event)
        tops = {"compile": "", "first run": "", "run": "", "runs in flight": "", "run by nodes": ""}
        stages = {"fuse": "compile", "lower": "compile", "compile on the device": "compile"}
        nodes = {name: "run by nodes" for name in parents if name not in tops | stages}
        assert parents == tops | stages | nodes
        assert nodes


def test_the_slices_of_a_trace_take_the_times_measured() -> None:
    measured = measure(graph(), choose("reference"), INPUTS, repeats=3)
    assert measured.profile is not None
    found = slices(trace([measured]), 1)
    for name, spans in {"compile": [measured.compilation], "first run": [measured.first], "run": measured.runs}.items():
        events = [event for event in found if event["name"] == name]
        for event, span in zip(events, spans, strict=True):
            assert event["ts"] == pytest.approx((span.start - measured.compilation.start) * 1e6, abs=0.01)
            assert event["dur"] == pytest.approx(span.seconds * 1e6, abs=0.01)
    nodes = {event["name"]: event for event in found if event["cat"] == "node"}
    assert list(nodes) == ["e", "wk", "y"]
    assert nodes["e"]["args"] == {
        "how": "evaluate",
        "kernel": "",
        "bytes": 2 * 3 * 4 * 4,
        "operations": 0,
        "of_integers": False,
        "nodes": {"e": {"operator": "exp", "outputs": ["float32 [3,4]"]}},
    }
    assert nodes["y"]["dur"] == pytest.approx(measured.profile.steps[2].seconds * 1e6, abs=0.01)


@pytest.mark.usefixtures("directml_path")
@pytest.mark.parametrize("device", ["cpu", "directml:software"])
def test_every_run_of_a_graph_with_states_begins_anew(device: DeviceName) -> None:
    """A growing state has room for the rows of one run."""
    g = dg.Graph("states")
    x = g.input("x", sizes=[1, 4], dtype="float32")
    k = g.state("k", sizes=[1, 4], dtype="float32", grows=0)
    g.append(k, x)
    g.output("y", k + 1)
    measured = measure(g, choose(device), {"x": np.ones((1, 4), np.float32)}, repeats=3)
    assert len(measured.runs) == 3
    assert measured.in_flight is None
    assert (measured.input_bytes, measured.output_bytes) == (16, 16)


def test_states_count_as_memory() -> None:
    g = dg.Graph()
    state = g.state("s", sizes=[1024], dtype="float32")
    g.update(state, state + g.input("x", sizes=[1024], dtype="float32"))
    g.output("y", state * 2)
    found = measure(g, choose("cpu"), {"x": np.ones(1024, np.float32)}, repeats=1)
    assert found.stats["state_bytes"] >= 4096
    assert found.peak_bytes == sum(found.stats[key] for key in bench.MEMORY if key in found.stats)
