"""What the contents of tests make: arrays of any data type and sizes."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.problems import raises

import dmlgraph as dg
from dmlgraph.base.report import DocumentReport
from dmlgraph.base.tensor import DataType, TensorDesc
from dmlgraph.formats.arrays import to_stored
from dmlgraph.formats.text_tree.tree import parse
from dmlgraph.formats.yaml.contents import KINDS, Content, read_content
from dmlgraph.testing import random_inputs

DTYPES = list(DataType)


def content(text: str, folder: pathlib.Path | None = None) -> Content:
    report = DocumentReport()
    tree = parse(text, "t.yaml", report)
    assert tree is not None
    found = read_content(tree, "x", KINDS, folder, report)
    assert not report.problems
    assert found is not None
    return found


def desc(dtype: DataType | str, *sizes: int) -> TensorDesc:
    return TensorDesc(dtype=dtype, sizes=sizes)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_value_is_everywhere(dtype: DataType) -> None:
    array = content("{value: 3}").array(desc(dtype, 2, 3), {})
    assert (array.dtype, array.shape) == (dtype.numpy, (2, 3))
    assert (array.astype(float) == 3).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_sequence_is_start_plus_index_times_delta_modulo_the_type(dtype: DataType) -> None:
    array = content("{sequence: {start: 5, delta: 3}}").array(desc(dtype, 2, 4), {})
    assert (array.dtype, array.shape) == (dtype.numpy, (2, 4))
    wanted = [5 + 3 * index for index in range(8)]
    if not dtype.is_float:
        bits = dtype.bits
        wanted = [number % (1 << bits) for number in wanted]
        wanted = [number - (1 << bits) if dtype.is_signed and number >> (bits - 1) else number for number in wanted]
    assert array.astype(float).ravel().tolist() == wanted


def test_a_sequence_counts_from_0_by_1_by_default() -> None:
    for text in ("{sequence: {}}", "{sequence: null}"):
        assert content(text).array(desc("int32", 3), {}).tolist() == [0, 1, 2]


def test_numbers_may_be_expressions_over_dims() -> None:
    dims = {"N": 4}
    assert content("{value: 2 * N}").array(desc("int8", 2), dims).tolist() == [8, 8]
    assert content("{sequence: {start: N, delta: 1 / N}}").array(desc("float32", 2), dims).tolist() == [4, 4.25]
    assert content("{random: {low: N, high: N}}").array(desc("int32", 2), dims).tolist() == [4, 4]


def test_a_value_may_be_bits() -> None:
    array = content("{value: {bits: 0x7fc00001}}").array(desc("float32", 2), {})
    assert array.view(np.uint32).tolist() == [0x7FC00001] * 2


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_random_numbers_depend_on_the_seed_and_the_name_and_stay_between_the_bounds(dtype: DataType) -> None:
    low, high = (1, 6) if not dtype.is_float else (-0.5, 0.25)
    tensor = desc(dtype, 200)

    def made(seed: int, name: str) -> list[float]:
        text = f"{{random: {{seed: {seed}, low: {low}, high: {high}}}}}"
        return content(text).array(tensor, {}, name).astype(float).tolist()

    assert made(1, "x") == made(1, "x")
    assert made(1, "x") != made(2, "x")
    assert made(1, "x") != made(1, "y")
    assert low <= min(made(1, "x")) <= max(made(1, "x")) <= high
    if not dtype.is_float:
        assert set(made(1, "x")) == {1, 2, 3, 4, 5, 6}


def test_random_numbers_reach_the_ends_of_every_integer_type() -> None:
    for dtype in DTYPES:
        if not dtype.is_float:
            low, high = dtype.range
            array = content(f"{{random: {{low: {low}, high: {high}}}}}").array(desc(dtype, 50), {})
            assert array.dtype == dtype.numpy


def test_floats_without_bounds_are_normal_as_those_of_other_commands() -> None:
    g = dg.Graph()
    g.output("y", dg.exp(g.input("x", sizes=[3], dtype="float32")))
    array = content("{random: {seed: 7}}").array(desc("float32", 3), {}, "x")
    assert array.tolist() == random_inputs(g, 7)["x"].tolist()


@given(st.sampled_from(DTYPES), st.lists(st.integers(0, 7), min_size=6, max_size=6))
def test_data_is_row_major_flat_or_nested(dtype: DataType, numbers: list[int]) -> None:
    for shown in (numbers, [numbers[:3], numbers[3:]]):
        array = content(f"{{data: {shown}}}").array(desc(dtype, 2, 3), {})
        assert array.astype(int).ravel().tolist() == numbers


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_file_holds_what_a_constants_file_would(dtype: DataType, tmp_path: pathlib.Path) -> None:
    array = np.arange(6).reshape(2, 3).astype(dtype.numpy)
    np.save(tmp_path / "x.npy", to_stored(array, dtype))
    made = content("{file: x.npy}", tmp_path).array(desc(dtype, 2, 3), {})
    assert made.dtype == dtype.numpy
    assert (made == array).all()


@pytest.mark.parametrize(
    ("text", "place", "code", "field", "got"),
    [
        ("{value: 300}", "1:9", "does-not-fit", "x.value", 300),
        ("{value: K}", "1:9", "kind", "x.value", "K"),
        ("{value: N / 0}", "1:9", "expression", "x.value", "N / 0 with N = 4"),
        ("{value: true}", "1:9", "kind", "x.value", True),
        ("{sequence: {start: 1.5}}", "1:20", "does-not-fit", "x.sequence.start", 1.5),
        ("{sequence: {delta: a}}", "1:20", "kind", "x.sequence.delta", "a"),
        ("{data: [1, 2, 3]}", "1:8", "sizes", "x.data", "3 numbers"),
        ("{data: [1, x]}", "1:12", "kind", "x.data.1", "x"),
        ("{data: 3}", "1:8", "kind", "x.data", 3),
        ("{random: {seed: -1}}", "1:17", "range", "x.random.seed", -1),
        ("{random: {low: 1}}", "1:10", "missing", "x.random.high", None),
        (
            "{random: {low: 3, high: 2}}",
            "1:25",
            "range",
            "x.random.high",
            2,
        ),
        ("{random: {low: 0, high: 999}}", "1:25", "does-not-fit", "x.random.high", 999),
        ("{file: nowhere.npy}", "1:8", "unreadable", "x.file", "nowhere.npy"),
        ("{file: ../x.npy}", "1:8", "outside-folder", "x.file", "../x.npy"),
        ("{file: long.npy}", "1:8", "sizes", "x.file", [3]),
        ("{file: wide.npy}", "1:8", "dtype", "x.file", "float64"),
    ],
)
def test_what_does_not_fit_is_refused_at_its_place(
    text: str, place: str, code: str, field: str, got: object, tmp_path: pathlib.Path
) -> None:
    np.save(tmp_path / "long.npy", np.zeros(3, np.uint8))
    np.save(tmp_path / "wide.npy", np.zeros(2))
    with raises(dg.GraphError, code, field=field, got=got) as caught:
        content(text, tmp_path).array(desc("uint8", 2), {"N": 4})
    assert str(caught.value.location) == f"t.yaml:{place}"


def test_bounds_must_be_finite() -> None:
    with raises(dg.GraphError, "range", field="x.random.high"):
        content("{random: {low: 0, high: .inf}}").array(desc("float32", 2), {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("3", "must be a mapping; got 3 (for this number everywhere: {value: 3})"),
        ("[1, 2]", "must be a mapping; got [1, 2] (for these numbers: {data: [1, 2]})"),
        ("x.npy", "must be a mapping; got x.npy (such as {value: 1}"),
        ("{}", "the content is missing; allowed: one of value, sequence, data, file, random"),
        ("{value: 1, data: [1]}", "a tensor has one content; got ['value', 'data']"),
        ("{valu: 1}", "is not known here; allowed: value, sequence, data, file, random (did you mean 'value'?)"),
        ("{sequence: 3}", "must be a mapping; got 3 (such as {sequence: {start: 1, delta: 1}})"),
        ("{random: 3}", "must be a mapping; got 3 (such as {random: {seed: 1, low: 1}})"),
        ("{random: {sed: 3}}", "is not known here; allowed: seed, low, high (did you mean 'seed'?)"),
    ],
)
def test_what_is_no_content_is_a_problem(text: str, message: str) -> None:
    report = DocumentReport()
    tree = parse(text, "t.yaml", report)
    assert tree is not None
    read_content(tree, "x", KINDS, None, report)
    (problem,) = report.problems
    assert message in str(problem)
    assert problem.location is not None
