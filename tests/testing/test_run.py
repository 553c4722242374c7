"""Tests beside graphs run on their devices, and a failure says where the devices part."""

from __future__ import annotations

import re

import numpy as np
import pytest

import dmlgraph as dg
from dmlgraph.devices import list_devices
from dmlgraph.formats.yaml import loads
from dmlgraph.testing import run
from dmlgraph.testing.records import Outcome, Result
from dmlgraph.testing.run import Runner, cases, devices_here

HEAD = """\
dmlgraph: 1
dims: {N: 1}
inputs:
  x: {dtype: float32, sizes: [N, 3]}
nodes:
  p: {op: multiply, a: x, b: x}
  y: {op: add, a: p, b: x}
outputs: [y, p]
tests:
"""
CPU = "devices: [cpu]"


def results(*tests: str, head: str = HEAD) -> dict[str, Result]:
    """The results of tests by their names and devices."""
    graph = loads(head + "".join(f"  t{index}: {{{test}}}\n" for index, test in enumerate(tests)), file="g.yaml")
    with Runner(graph) as runner:
        return {case.name: runner.run(case) for case in cases(graph)}


def result(test: str, head: str = HEAD) -> Result:
    (only,) = results(test, head=head).values()
    return only


def test_a_test_passes_where_the_graph_computes_what_it_expects() -> None:
    done = result(f"inputs: {{x: {{data: [1, 2, -3]}}}}, expect: {{y: {{data: [2, 6, 6]}}}}, {CPU}")
    assert (done.outcome, done.report) == (Outcome.PASSED, "")


def test_a_test_runs_on_every_device_that_is_here_unless_it_names_some() -> None:
    done = results(
        "inputs: {x: {value: 2}}, expect: {y: {value: 6}}",
        "inputs: {x: {value: 2}}, expect: {p: {value: 4}}, devices: [reference, cpu]",
    )
    here = [device.name for device in list_devices() if device.missing is None]
    assert here == list(devices_here())
    assert {"cpu", "reference"} <= set(here)
    assert list(done) == [*(f"t0[{name}]" for name in here), "t1[reference]", "t1[cpu]"]
    assert {each.outcome for each in done.values()} == {Outcome.PASSED}


def test_a_failure_shows_the_values_around_the_worst_element() -> None:
    done = result(f"inputs: {{x: {{data: [1, 2, 3]}}}}, expect: {{y: {{data: [2, 7, 12]}}}}, {CPU}")
    assert done.outcome is Outcome.FAILED
    assert done.report.splitlines() == [
        "g.yaml:10:3: test 't0' failed on cpu",
        "  output 'y': 1 of 3 elements differ, most of all this one: 2097152 ULP, 1",
        "       element  expected           cpu                    ULP  absolute",
        "       y[0, 0]  2.0 (0x40000000)   2.0 (0x40000000)         0         0",
        "    >  y[0, 1]  7.0 (0x40e00000)   6.0 (0x40c00000)   2097152         1",
        "       y[0, 2]  12.0 (0x41400000)  12.0 (0x41400000)        0         0",
        "  on 'reference', too: the graph computes something else than the test expects",
    ]


def test_without_a_tolerance_the_test_is_exact_and_each_tolerance_widens_it() -> None:
    inputs = "inputs: {x: {value: 1}}"
    near = f"expect: {{p: {{value: {np.nextafter(np.float32(1), np.float32(2))!s}}}}}, {CPU}"
    outcomes = [
        each.outcome
        for each in results(
            f"{inputs}, {near}",
            f"{inputs}, {near}, ulp: 1",
            f"{inputs}, {near}, absolute: 1e-6",
            f"{inputs}, {near}, relative: 1e-6",
            f"{inputs}, {near}, absolute: 1e-9, relative: 1e-9",
        ).values()
    ]
    assert outcomes == [Outcome.FAILED, Outcome.PASSED, Outcome.PASSED, Outcome.PASSED, Outcome.FAILED]


def test_nan_equals_nan_and_the_two_zeros_are_one_unit_apart() -> None:
    head = HEAD.replace("op: multiply, a: x, b: x", "op: identity, input: x")
    expect = "inputs: {x: {data: [.nan, -0.0, 0.0]}}, expect: {p: {data: [.nan, 0.0, 0.0]}}"
    exact, wide = results(f"{expect}, {CPU}", f"{expect}, {CPU}, ulp: 1", head=head).values()
    assert (exact.outcome, wide.outcome) == (Outcome.FAILED, Outcome.PASSED)
    assert "1 of 3 elements differ, most of all this one: 1 ULP, 0" in exact.report
    assert ">  p[0, 1]  0.0 (0x00000000)  -0.0 (0x80000000)" in exact.report


def test_a_test_has_its_own_dims() -> None:
    done = result(f"dims: {{N: 2}}, inputs: {{x: {{value: N}}}}, expect: {{p: {{data: [4, 4, 4, 4, 4, 4]}}}}, {CPU}")
    assert done.outcome is Outcome.PASSED


def test_another_device_may_compute_what_is_expected() -> None:
    inputs = "dims: {N: 50}, inputs: {x: {random: {seed: 3}}}"
    done = results(f"{inputs}, expect: {{same_as: reference}}", f"{inputs}, expect: {{y: {{same_as: cpu}}}}")
    assert {each.outcome for each in done.values()} == {Outcome.PASSED}


def test_a_test_of_a_device_that_is_not_here_is_skipped_with_its_reason() -> None:
    for test in (
        'inputs: {x: {value: 1}}, expect: {p: {value: 1}}, devices: ["directml:77"]',
        f'inputs: {{x: {{value: 1}}}}, expect: {{p: {{same_as: "directml:77"}}}}, {CPU}',
    ):
        done = result(test)
        assert done.outcome is Outcome.SKIPPED
        assert re.fullmatch(r"'directml:77' is not here: .{10,}", done.report)


def test_a_device_that_cannot_run_the_graph_fails_only_tests_that_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """No library for Linux has feature level 6.4."""
    head = """\
dmlgraph: 1
inputs: {x: {dtype: float32, sizes: [1, 4, 4]}}
nodes: {y: {op: fold, input: x, window_sizes: [2, 2], output: {sizes: [1, 1, 3, 3]}}}
outputs: [y]
tests:
"""
    if "directml:software" not in devices_here():
        pytest.skip("directml:software is not here")
    monkeypatch.setattr(run, "devices_here", lambda: ("directml:software",))
    inputs = "inputs: {x: {value: 1}}, expect: {same_as: reference}"
    asked = result(f'{inputs}, devices: ["directml:software"]', head)
    assert asked.outcome is Outcome.FAILED
    assert "node 'y': " in asked.report
    assert "feature level" in asked.report
    assert result(inputs, head).outcome is Outcome.SKIPPED


def test_data_that_does_not_fit_dims_given_for_the_run_is_a_failure_with_its_place() -> None:
    text = f"{HEAD}  t: {{inputs: {{x: {{data: [1, 2, 3]}}}}, expect: {{y: {{value: 1}}}}, {CPU}}}\n"
    graph = loads(text, file="g.yaml", dims={"N": 2})
    with Runner(graph) as runner:
        (done,) = [runner.run(case) for case in cases(graph)]
    assert done.outcome is Outcome.FAILED
    assert done.report.startswith("g.yaml:10:26: field 'tests.t.inputs.x.data': the data does not fill the sizes")


def test_dims_with_which_the_graph_is_wrong_are_an_error_of_the_file_or_a_failure() -> None:
    head = HEAD.replace("sizes: [N, 3]", "sizes: [N / 2, 3]").replace("N: 1", "N: 2")
    with pytest.raises(dg.DocumentError, match=r"^g\.yaml:10:3: node 'x', field 'sizes\.0': must be a whole number"):
        result(f"dims: {{N: 3}}, inputs: {{x: {{value: 1}}}}, expect: {{y: {{value: 1}}}}, {CPU}", head)
    head = HEAD.replace("p: {op: multiply, a: x, b: x}", "p: {op: reduce, function: sum, input: x, axes: ['2 - N']}")
    done = result(f"dims: {{N: 9}}, inputs: {{x: {{value: 1}}}}, expect: {{y: {{value: 1}}}}, {CPU}", head)
    assert done.outcome is Outcome.FAILED
    assert re.match(r"(g\.yaml:6:\d+: )?node 'p', field 'axes", done.report)


def test_a_graph_is_compiled_once_for_each_device_and_choice_of_dims(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []

    def compile_graph(graph: object, device: object, **options: object) -> object:
        compiled.append(device)
        return original(graph, device, **options)

    original = vars(run)["compile_graph"]
    monkeypatch.setattr(run, "compile_graph", compile_graph)
    test = "inputs: {x: {value: 1}}, expect: {p: {value: 1}}, devices: [cpu, reference]"
    done = results(test, test, f"dims: {{N: 1}}, {test}", f"dims: {{N: 2}}, {test}")
    assert {each.outcome for each in done.values()} == {Outcome.PASSED}
    assert len(compiled) <= 6


STATES = """\
dmlgraph: 1
dims: {capacity: 6}
inputs:
  x: {dtype: float32, sizes: [1, 2]}
states:
  sum: {dtype: float32, sizes: [1, 2], initial: {value: 1}, next: after}
  keys: {dtype: float32, sizes: [capacity, 2], grows: 0, append: x}
nodes:
  after: {op: add, a: sum, b: x}
outputs: {after: after, keys: keys, length: keys.length}
tests:
"""
X = "inputs: {x: {data: [1, 2]}}"


def test_states_are_set_before_and_compared_after_all_steps_on_every_device() -> None:
    done = results(
        f"{X}, states: {{sum: {{value: 4}}, keys: {{data: [9, 8]}}}}, steps: 3, collect: [after, length], "
        "expect: {after: {data: [5, 6, 6, 8, 7, 10]}, length: {data: [1, 2, 3]}, "
        "keys: {data: [[9, 8], [1, 2], [1, 2], [0, 0], [0, 0], [0, 0]]}}, "
        "expect_states: {sum: {data: [7, 10]}, keys: {data: [[9, 8], [1, 2], [1, 2], [1, 2]]}}",
        f"{X}, expect_states: {{sum: {{data: [2, 3]}}, keys: {{data: [1, 2]}}}}",
        f"{X}, states: {{keys: {{random: {{seed: 3}}, length: 2}}}}, steps: 2, expect_states: {{same_as: reference}}",
        head=STATES,
    )
    assert {each.report for each in done.values()} == {""}
    assert len(done) == 3 * len(devices_here())


def test_a_state_that_is_not_as_expected_is_named() -> None:
    done = result(
        f"{X}, steps: 2, expect: {{length: {{value: 1}}}}, expect_states: {{sum: {{data: [3, 4]}}}}, {CPU}", STATES
    )
    assert done.report.splitlines()[1:] == [
        "  state 'sum': 1 of 2 elements differ, most of all this one: 2097152 ULP, 1",
        "       element    expected          cpu                   ULP  absolute",
        "       sum[0, 0]  3.0 (0x40400000)  3.0 (0x40400000)        0         0",
        "    >  sum[0, 1]  4.0 (0x40800000)  5.0 (0x40a00000)  2097152         1",
        "  on 'reference', too: the graph computes something else than the test expects",
    ]


def test_another_number_of_rows_is_said() -> None:
    done = result(f"{X}, steps: 2, expect_states: {{keys: {{data: [1, 2]}}}}, {CPU}", STATES)
    assert "state 'keys': has 2 rows on cpu, 1 row expected" in done.report
    done = result(f"{X}, steps: 1, expect_states: {{keys: {{data: []}}}}, {CPU}", STATES)
    assert "state 'keys': has 1 row on cpu, 0 rows expected" in done.report


def test_rows_that_do_not_fit_fail_the_test() -> None:
    done = result(
        f"{X}, states: {{keys: {{value: 0, length: 5}}}}, steps: 2, expect_states: {{same_as: cpu}}, {CPU}", STATES
    )
    assert done.outcome is Outcome.FAILED
    assert "the rows do not fit the state; got 5 rows and 2 more" in done.report


def test_a_graph_without_states_may_run_several_steps() -> None:
    done = result(
        f"inputs: {{x: {{value: 1}}}}, steps: 2, collect: [p], expect: {{p: {{data: [1, 1, 1, 1, 1, 1]}}}}, {CPU}"
    )
    assert done.report == ""
