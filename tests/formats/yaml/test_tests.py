"""The section `tests` of a graph file: it is checked when the file is read, and kept when the graph is saved."""

from __future__ import annotations

import copy
import json
import pathlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.problems import expect, raises

import dmlgraph as dg
from dmlgraph.formats.yaml import dumps, loads, save
from dmlgraph.formats.yaml.tests import check_tests

HEAD = """\
dmlgraph: 1
dims: {N: 1}
inputs:
  x: {dtype: float32, sizes: [N, 3]}
nodes:
  y: {op: activation_relu, input: x}
  z: {op: exp, input: x}
outputs: [y, z]
"""
ONE = "inputs: {x: {value: 1}}"


def graph(test: str, **options: object) -> dg.Graph:
    """A graph with one test, `t`, in line 10."""
    return loads(f"{HEAD}tests:\n  t: {{{test}}}\n", **options)  # type: ignore[arg-type]


def test_everything_that_a_test_says_is_read() -> None:
    text = (
        "dims: {N: 2}, inputs: {x: {sequence: {delta: 2}}}, expect: {y: {data: [0, 2, 4, 6, 8, 10]}, "
        'z: {same_as: cpu}}, ulp: 2, absolute: 1e-6, relative: 0.5, devices: [cpu, "directml:1"]'
    )
    test = graph(text).origin.tests["t"]
    assert test.name == "t"
    assert (test.location.line, test.location.column) == (10, 3)
    assert test.dims == {"N": 2}
    assert test.inputs["x"].kind == "sequence"
    assert (test.expect["y"].kind, test.same_as) == ("data", {"z": "cpu"})
    assert (test.ulp, test.relative, test.absolute) == (2, 0.5, 1e-6)
    assert test.devices == ("cpu", "directml:1")


def test_what_is_not_said_is_exact_and_on_all_devices() -> None:
    test = graph(f"{ONE}, expect: {{y: {{value: 1}}}}").origin.tests["t"]
    assert (test.ulp, test.relative, test.absolute, test.devices, test.dims) == (0, 0, 0, None, {})


def test_one_device_may_compute_what_is_expected_of_every_output() -> None:
    test = graph(f"{ONE}, expect: {{same_as: reference}}").origin.tests["t"]
    assert (test.expect, test.same_as) == ({}, {"y": "reference", "z": "reference"})


def test_an_output_called_same_as_is_an_output() -> None:
    text = HEAD.replace("outputs: [y, z]", "outputs: {same_as: y}")
    test = loads(f"{text}tests: {{t: {{{ONE}, expect: {{same_as: {{value: 1}}}}}}}}").origin.tests["t"]
    assert list(test.expect) == ["same_as"]


FINE = f"{ONE}, expect: {{y: {{value: 1}}}}"
WRONG = [  # a test, a part of the message, and the text that is marked
    ("3", "kind", "tests.t", "3"),
    (f"{{{ONE}}}", "missing", "tests.t.expect", "t"),
    (f"{{{ONE}, expect: {{}}}}", "missing", "tests.t.expect", "{}"),
    ("{expect: {y: {value: 1}}}", "missing-input", "tests.t.inputs", "t"),
    ("{inputs: {}, expect: {y: {value: 1}}}", "missing-input", "tests.t.inputs", "t"),
    ("{inputs: [x], expect: {y: {value: 1}}}", "kind", "tests.t.inputs", "[x]"),
    (f"{{{ONE}, expect: {{w: {{value: 1}}}}}}", "unknown-array", "tests.t.expect.w", "w"),
    (f"{{{ONE}, expect: {{y: {{random: {{}}}}}}}}", "unknown-field", "tests.t.expect.y.random", "random"),
    (f"{{{ONE}, expect: {{y: {{data: [1, 2]}}}}}}", "sizes", "tests.t.expect.y.data", "[1, 2]"),
    ("{inputs: {x: {data: [1]}}, expect: {same_as: cpu}}", "sizes", "tests.t.inputs.x.data", "[1]"),
    ("{inputs: {x: {value: a}}, expect: {same_as: cpu}}", "kind", "tests.t.inputs.x.value", "a"),
    (f"{{{ONE}, expect: {{same_as: gpu}}}}", "unknown-device", "tests.t.expect.same_as", "gpu"),
    (f"{{{ONE}, expect: {{y: {{same_as: 3}}}}}}", "unknown-device", "tests.t.expect.y.same_as", "3"),
    (f"{{{FINE}, ulp: 1.5}}", "kind", "tests.t.ulp", "1.5"),
    (f"{{{FINE}, ulp: true}}", "kind", "tests.t.ulp", "true"),
    (f"{{{FINE}, relative: -1}}", "kind", "tests.t.relative", "-1"),
    (f"{{{FINE}, absolute: {'9' * 399}}}", "kind", "tests.t.absolute", "9" * 399),
    (f"{{{FINE}, absolute: .inf}}", "kind", "tests.t.absolute", ".inf"),
    (f"{{{FINE}, devices: cpu}}", "kind", "tests.t.devices", "cpu"),
    (f"{{{FINE}, devices: []}}", "kind", "tests.t.devices", "[]"),
    (f"{{{FINE}, devices: [cpu, cpu]}}", "duplicate", "tests.t.devices.1", "cpu"),
    (f"{{{FINE}, devices: [cuda]}}", "unknown-device", "tests.t.devices.0", "cuda"),
    (f"{{{FINE}, devices: ['cpu:1']}}", "unknown-device", "tests.t.devices.0", "'cpu:1'"),
    (f"{{{FINE}, dims: {{M: 2}}}}", "unknown-dim", "tests.t.dims.M", "M"),
    (f"{{{FINE}, dims: {{N: 0}}}}", "range", "tests.t.dims.N", "0"),
    (f"{{{FINE}, upl: 2}}", "unknown-field", "tests.t.upl", "upl"),
]


@pytest.mark.parametrize(("test", "code", "field", "marked"), WRONG, ids=[each[0] for each in WRONG])
def test_a_wrong_test_is_one_problem_at_its_place(test: str, code: str, field: str, marked: str) -> None:
    with pytest.raises(dg.DocumentError) as caught:
        loads(f"{HEAD}tests:\n  t: {test}\n", file="t.yaml")
    (problem,) = caught.value.problems
    expect(problem, code, field=field)
    place = problem.location
    assert place is not None
    assert place.source is not None
    assert (place.line, place.source[place.column - 1 : (place.end_column or 0) - 1]) == (10, marked)


def test_all_problems_of_all_tests_are_reported_with_those_of_the_graph() -> None:
    text = HEAD.replace("exp", "expp") + "tests: {a: {ulp: x, expect: 3}, b: 4}\n"
    with pytest.raises(dg.DocumentError) as caught:
        loads(text)
    fields = [problem.field for problem in caught.value.problems]
    assert fields == ["op", "tests.a.inputs", "tests.a.ulp", "tests.a.expect", "tests.b"]


def test_sections_that_are_no_mappings_are_problems() -> None:
    for section in ("tests: [1]", "tests: 3"):
        with raises(dg.DocumentError, "kind", field="tests"):
            loads(f"{HEAD}{section}\n")
    assert loads(f"{HEAD}tests:\n").origin.tests == {}


def test_other_dims_of_one_run_do_not_make_a_test_wrong() -> None:
    text = f"{ONE}, expect: {{y: {{data: [1, 1, 1]}}}}"
    assert graph(text, dims={"N": 8}).outputs["y"].sizes == (8, 3)


def test_sizes_with_other_dims_and_files_are_checked_by_check_tests(tmp_path: pathlib.Path) -> None:
    fine = graph("inputs: {x: {file: x.npy}}, expect: {y: {data: [1, 1, 1, 1, 1, 1]}}, dims: {N: 2}", folder=tmp_path)
    with raises(dg.DocumentError, "unreadable", field="tests.t.inputs.x.file", got="x.npy"):
        check_tests(fine)
    np.save(tmp_path / "x.npy", np.zeros((2, 3), np.float32))
    check_tests(fine)
    wrong = graph(f"{ONE}, expect: {{y: {{data: [1, 1]}}}}, dims: {{N: 2}}")
    with raises(dg.DocumentError, "sizes", field="tests.t.expect.y.data", got="2 numbers", allowed="6, for [2, 3]"):
        check_tests(wrong)


def test_tests_are_kept_with_other_dims_and_in_copies() -> None:
    g = graph(f"{ONE}, expect: {{y: {{value: 1}}}}")
    assert list(g.with_dims({"N": 2}).origin.tests) == list(copy.copy(g).origin.tests) == ["t"]


def test_saving_keeps_everything_and_copies_files(tmp_path: pathlib.Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    array = np.arange(3, dtype=np.float32).reshape(1, 3)
    np.save(first / "x.npy", array)
    text = (
        f"{HEAD}tests:\n"
        "  a: {inputs: {x: {file: x.npy}}, expect: {y: {file: x.npy}}, ulp: 3, devices: [cpu]}\n"
        "  'b: c': {inputs: {x: {random: {seed: 3}}}, expect: {same_as: reference}, dims: {N: 4}}\n"
    )
    (first / "g.yaml").write_text(text, "utf-8")
    dg.load(first / "g.yaml").save(second / "h.yaml")
    again = dg.load(second / "h.yaml")
    assert list(again.origin.tests) == ["a", "b: c"]
    assert (again.origin.tests["a"].input_arrays(again)["x"] == array).all()
    assert (again.origin.tests["a"].expected_arrays(again)["y"] == array).all()
    assert (again.origin.tests["a"].ulp, again.origin.tests["a"].devices) == (3, ("cpu",))
    assert again.origin.tests["b: c"].tree.plain == dg.load(first / "g.yaml").origin.tests["b: c"].tree.plain
    assert {path.name for path in second.iterdir()} == {
        "h.yaml",
        "h.tests.a.inputs.x.npy",
        "h.tests.a.expect.y.npy",
    }


def test_files_of_tests_stay_files_beside_one_file_of_weights(tmp_path: pathlib.Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((1, 3), np.float32))
    np.save(tmp_path / "w.npy", np.ones((40, 3), np.float32))
    text = HEAD.replace("nodes:", "constants: {w: {file: w.npy}}\nnodes:").replace("[y, z]", "[y, z, w]")
    g = loads(f"{text}tests: {{a: {{inputs: {{x: {{file: x.npy}}}}, expect: {{y: {{value: 1}}}}}}}}\n", folder=tmp_path)
    (tmp_path / "out").mkdir()
    save(g, tmp_path / "out" / "h.yaml", weights="h.safetensors")
    again = dg.load(tmp_path / "out" / "h.yaml")
    check_tests(again)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"h.yaml", "h.safetensors", "h.tests.a.inputs.x.npy"}


def test_a_graph_whose_tests_lack_a_file_can_be_saved(tmp_path: pathlib.Path) -> None:
    (tmp_path / "broken.npy").write_bytes(b"text")
    for file in ("nowhere.npy", "../x.npy", "broken.npy", "3"):
        g = graph(f"inputs: {{x: {{file: {file}}}}}, expect: {{y: {{value: 1}}}}", folder=tmp_path)
        g.save(tmp_path / "again.yaml")
        assert dg.load(tmp_path / "again.yaml").origin.tests["t"].tree.plain == g.origin.tests["t"].tree.plain


def test_saving_as_text_needs_tests_without_files(tmp_path: pathlib.Path) -> None:
    g = graph(f"{ONE}, expect: {{y: {{data: [[1, .nan, -0.0]]}}}}, relative: 1e-3")
    assert str(loads(dumps(g)).origin.tests["t"].tree.plain) == str(g.origin.tests["t"].tree.plain)
    np.save(tmp_path / "x.npy", np.zeros((1, 3), np.float32))
    with raises(dg.GraphError, "no-folder", got=["graph.tests.t.inputs.x.npy"]):
        dumps(graph("inputs: {x: {file: x.npy}}, expect: {same_as: cpu}", folder=tmp_path))


WORDS = "x y t N cpu inputs expect dims ulp absolute devices value sequence start delta data file random seed low high"
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats()
    | st.sampled_from(["x", "y", "N", "cpu", "1/0", "", "."]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*WORDS.split(), "same_as", "bits"]), inner, max_size=4)
    ),
    max_leaves=12,
)


def yaml_text(value: object) -> str:
    """A plain value as YAML in flow style."""
    return json.dumps(value).replace("NaN", ".nan").replace("Infinity", ".inf")


def read(tests: str) -> dg.Graph | None:
    """The graph with these tests; None if they are wrong, and every problem has a place."""
    try:
        return loads(f"{HEAD}tests: {tests}\n", folder="/nowhere")
    except dg.DocumentError as error:
        if not all(problem.location for problem in error.problems):
            raise
        return None


@given(PLAIN)
def test_no_tests_crash_the_reader_and_what_it_accepts_comes_back(value: object) -> None:
    g = read(yaml_text(value))
    if g is not None and not any(content.file for test in g.origin.tests.values() for _, _, content in test.contents):
        again = loads(dumps(g))
        plain = [[test.tree.plain for test in each.origin.tests.values()] for each in (g, again)]
        assert str(plain[0]) == str(plain[1])


@given(PLAIN, PLAIN)
def test_no_contents_crash_the_reader(x: object, y: object) -> None:
    g = read(f"{{t: {{inputs: {{x: {yaml_text(x)}}}, expect: {{y: {yaml_text(y)}}}}}}}")
    assert g is None or list(g.origin.tests) == ["t"]


# Several inputs at once.

MANY = """\
dmlgraph: 1
inputs:
  x: {dtype: float32, sizes: [2]}
  layer.0.w: {dtype: float32, sizes: [2]}
  layer.1.w: {dtype: float32, sizes: [2]}
  layer.1.b: {dtype: float32, sizes: [2]}
nodes:
  all: {op: join, inputs: [x, layer.0.w, layer.1.w, layer.1.b], axis: 0}
outputs: [all]
"""


def contents(inputs: str) -> dict[str, object]:
    graph = loads(f"{MANY}tests: {{t: {{inputs: {inputs}, expect: {{same_as: reference}}}}}}\n")
    return {name: content.tree.plain for name, content in graph.origin.tests["t"].inputs.items()}


def test_a_name_with_a_star_stands_for_the_inputs_it_fits() -> None:
    named = {"x": 1, "layer.0.w": 2, "layer.1.w": 2, "layer.1.b": 3}
    expected = {name: {"value": value} for name, value in named.items()}
    for inputs in (
        '{x: {value: 1}, "layer.*.w": {value: 2}, "*": {value: 3}}',
        '{"*.w": {value: 2}, "*.b": {value: 3}, "*": {value: 9}, x: {value: 1}}',  # a name of its own comes first
        '{"x*": {value: 1}, "l*.*.*w": {value: 2}, "layer*b": {value: 3}}',
    ):
        assert contents(inputs) == expected


def test_random_numbers_of_inputs_with_one_star_differ() -> None:
    graph = loads(f"{MANY}tests: {{t: {{inputs: {{'*': {{random: {{seed: 0}}}}}}, expect: {{same_as: reference}}}}}}\n")
    arrays = graph.origin.tests["t"].input_arrays(graph)
    assert len({array.tobytes() for array in arrays.values()}) == 4
    again = loads(dumps(graph))
    assert {name: array.tobytes() for name, array in again.origin.tests["t"].input_arrays(again).items()} == {
        name: array.tobytes() for name, array in arrays.items()
    }


@pytest.mark.parametrize(
    ("inputs", "code", "field", "got"),
    [
        ('{"*": {value: 1}, "y*": {value: 2}}', "unknown-array", "tests.t.inputs.y*", None),
        ('{"layer.*": {value: 1}}', "missing-input", "tests.t.inputs", ["x"]),
        ('{"x*x": {value: 1}, "*": {value: 1}}', "unknown-array", "tests.t.inputs.x*x", None),
        ('{"layer.*": {value: 1}, x: 1}', "kind", "tests.t.inputs.x", 1),
    ],
)
def test_stars_that_fit_nothing_are_told(inputs: str, code: str, field: str, got: object) -> None:
    with pytest.raises(dg.DocumentError) as caught:
        contents(inputs)
    expect(caught.value, code, field=field, got=got)


def test_a_test_cannot_change_the_number_of_copies() -> None:
    text = (
        "dmlgraph: 1\ndims: {layers: 2}\ninputs: {x: {dtype: float32, sizes: [2]}}\n"
        "templates: {t: {inputs: [x], nodes: {y: {op: exp, input: x}}, outputs: [y]}}\n"
        "nodes: {tower: {use: t, repeat: layers, x: {first: x, then: y}}}\noutputs: [tower]\n"
        "tests:\n  same: {dims: {layers: 2}, inputs: {x: {value: 0}}, expect: {same_as: reference}}\n"
    )
    assert list(loads(text).origin.tests) == ["same"]
    with pytest.raises(dg.DocumentError) as caught:
        loads(f"{text}  other: {{dims: {{layers: 3}}, inputs: {{x: {{value: 0}}}}, expect: {{same_as: reference}}}}\n")
    (problem,) = caught.value.problems
    assert problem.location is not None
    assert (problem.code, problem.field, problem.location.line) == ("fixed-dim", "tests.other.dims.layers", 9)
    assert "the number of copies of 'tower'" in problem.message
    assert problem.hint == "test the file with another: dmlgraph test --dim layers=3"
