"""Warnings: each rule reports the probable mistake at its place, and nothing else."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.problems import expect, raises

import dmlgraph as dg
from dmlgraph.base.codes import WARNINGS
from dmlgraph.base.errors import Severity
from dmlgraph.formats.yaml.writer import dumps

HEAD = "dmlgraph: 1\n"
X = "inputs: {x: {dtype: float32, sizes: [2]}}\n"


def told(graph: dg.Graph) -> list[tuple[str | None, str]]:
    found = graph.warnings()
    assert all(each.severity is Severity.WARNING for each in found)
    return [(each.node, each.message) for each in found]


def sequence(dtype: str, count: int, start: float, delta: float) -> dg.Graph:
    g = dg.Graph()
    g.output("y", g.fill_value_sequence(name="s", dtype=dtype, sizes=[count], value_start=start, value_delta=delta))
    return g


def test_a_graph_that_means_what_it_says_has_no_warnings() -> None:
    g = dg.Graph("ramp", dims={"N": 2})
    x = g.input("x", sizes=["N", 3], dtype="float32")
    ramp = g.fill_value_sequence(sizes=["N", 3], dtype="float32", value_start=3, value_delta=2)
    g.output("y", x * ramp + g.constant("k", [1.0], dtype="float32"))
    assert g.warnings() == []
    assert g.with_dims({"N": 5}).warnings() == []


# Unused.


def test_what_nothing_reads_is_told_once_with_what_only_it_reads() -> None:
    g = dg.loads(
        f"{HEAD}{X}constants:\n  k: {{dtype: float32, sizes: [1], data: [1]}}\n"
        "nodes:\n  y: {op: exp, input: x}\n  a: {op: exp, input: k}\n  b: {op: add, a: a, b: y}\noutputs: [y]\n"
    )
    (warning,) = g.warnings()
    assert (warning.node, warning.code) == ("b", "unused-node")
    assert warning.hint == "only it reads: a, k"
    assert warning.location == dg.Location("<text>", 8, 3)


def test_what_two_dead_nodes_read_is_told_with_the_first() -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[2], dtype="float32")
    shared = dg.exp(g.constant("k", [1.0], dtype="float32"), name="shared")
    dg.sqrt(shared, name="first")
    dg.sin(shared, name="second")
    g.output("x", x)
    assert [(each.node, each.hint) for each in g.warnings()] == [
        ("first", "only it reads: k, shared"),
        ("second", None),
    ]


def test_a_long_dead_chain_is_one_short_warning() -> None:
    g = dg.Graph()
    x = value = g.input("x", sizes=[2], dtype="float32")
    for index in range(50):
        value = dg.exp(value, name=f"n{index:02}")
    g.output("y", x)
    (warning,) = g.warnings()
    assert warning.node == "n49"
    assert str(warning.hint).endswith("n07 and 41 more")


@pytest.mark.parametrize(
    ("text", "place", "code", "node", "field"),
    [
        (
            "inputs:\n  x: {dtype: int8, sizes: [1]}\n  z: {dtype: int8, sizes: [1]}\n",
            (4, 3),
            "unused-input",
            "z",
            None,
        ),
        (f"{X}constants:\n  k: {{dtype: int8, sizes: [1], data: [1]}}\n", (4, 3), "unused-constant", "k", None),
        (f"dims: {{N: 4}}\n{X}", (2, 8), "unused-dim", None, "dims.N"),
    ],
)
def test_what_is_declared_and_never_used_is_told_where_it_stands(
    text: str, place: tuple[int, int], code: str, node: str | None, field: str | None
) -> None:
    (warning,) = dg.loads(f"{HEAD}{text}outputs: [x]\n").warnings()
    expect(warning, code, node=node, field=field)
    assert warning.location == dg.Location("<text>", *place)
    assert warning.location.source is not None


@pytest.mark.parametrize(
    "section",
    [
        "inputs: {x: {dtype: float32, sizes: [N]}}\n",
        "inputs: {x: {dtype: float32, sizes: [4], strides: [N]}}\n",
        "constants: {x: {dtype: float32, sizes: [N], data: [1, 2]}}\n",
        "nodes: {x: {op: fill_value_constant, output: {dtype: float32, sizes: [N]}, value: 1}}\n",
    ],
)
def test_a_dim_is_used_wherever_a_size_may_stand(section: str) -> None:
    g = dg.loads(f"{HEAD}dims: {{N: 2}}\n{section}outputs: [x]\n")
    assert g.warnings() == g.with_dims({"N": 2}).warnings() == []


# Sequences.


@pytest.mark.parametrize(
    ("dtype", "count", "start", "delta", "said"),
    [
        ("int8", 3, 127, 1, "element 1 is -128, not 128"),
        ("int8", 3, -127, -1, "element 2 is 127, not -129"),
        ("uint8", 300, 0, 1, "element 256 is 0, not 256"),
        ("uint8", 30, 250, 10, "element 1 is 4, not 260"),
        ("uint8", 12, 10, -1, "element 11 is 255, not -1"),
        ("int64", 2, 2**63 - 1, 1, f"element 1 is {-(2**63)}, not {2**63}"),
        ("uint64", 2, 2**64 - 1, 2, f"element 1 is 1, not {2**64 + 1}"),
        ("float16", 3000, 60000, 100, "element 56 is inf"),
        ("float16", 3000, -60000, -100, "element 56 is -inf"),
        ("float16", 66000, 1, 0, "element 65520 is nan"),
        ("float32", 40, 0, 1e37, "element 35 is inf"),
        ("float32", 2**24 + 2, 0, 1, f"element {2**24 + 1} is {2**24}, not {2**24 + 1}"),
        ("float32", 10, 2**24 - 3, 1, f"element 4 is {2**24}, not {2**24 + 1}"),
        ("float32", 10, -(2**24) - 2, 1, f"element 1 is {-(2**24)}, not {-(2**24) - 1}"),
        ("float16", 2050, 0, 1, "element 2049 is 2048, not 2049"),
        ("float16", 800, 0, 3, "element 683 is 2048, not 2049"),
    ],
)
def test_a_sequence_that_goes_wrong_on_the_way_is_told_at_its_first_wrong_element(
    dtype: str, count: int, start: float, delta: float, said: str
) -> None:
    ((node, message),) = told(sequence(dtype, count, start, delta))
    assert node == "s"
    assert message.endswith(said)


@pytest.mark.parametrize(
    ("dtype", "count", "start", "delta"),
    [
        ("uint8", 4, 10, -2),  # counts down in an unsigned type, as intended
        ("uint8", 256, 0, 1),
        ("uint8", 256, 255, -1),
        ("int8", 256, -128, 1),
        ("uint64", 3, 2**64 - 1, -1),
        ("int32", 1, 2**31 - 1, 1),
        ("float32", 2**24 + 1, 0, 1),
        ("float16", 2049, 0, 1),
        ("float16", 1000, 0, 32),
        ("float32", 100_000, 0, 1024),  # beyond 2^24, in steps that are exact there
        ("float16", 3000, 0.5, 0.25),  # was never exact
        ("float32", 9, float("inf"), 1),
        ("float32", 2**31, 7, 0),
    ],
)
def test_a_sequence_that_stays_in_range_and_exact_is_not_told(
    dtype: str, count: int, start: float, delta: float
) -> None:
    assert told(sequence(dtype, count, start, delta)) == []


@given(
    count=st.integers(1, 5000),
    start=st.integers(-65_504, 65_504).filter(lambda n: float(np.float16(n)) == n),
    delta=st.integers(-300, 300),
)
def test_a_whole_float16_sequence_is_told_exactly_if_an_element_is_wrong(count: int, start: int, delta: int) -> None:
    graph = sequence("float16", count, start, delta)
    values = graph.compile("reference").run({})["y"]
    wrong = [index for index, value in enumerate(values.astype(float)) if value != start + index * delta]
    found = told(graph)
    assert bool(found) == bool(wrong)
    if found and "exact" in found[0][1]:
        assert f"element {wrong[0]} is" in found[0][1]


@given(
    dtype=st.sampled_from(["uint8", "int8"]),
    count=st.integers(1, 400),
    start=st.integers(-128, 255),
    delta=st.integers(-128, 127),
)
def test_an_8_bit_sequence_is_told_exactly_if_it_wraps(dtype: str, count: int, start: int, delta: int) -> None:
    info = np.iinfo(dtype)
    start = min(max(start, info.min), info.max)
    wraps = not info.min <= start + (count - 1) * delta <= info.max
    delta_bits = delta % 256 if dtype == "uint8" else delta
    also_right = delta_bits >= 128 and info.min <= start + (count - 1) * delta_bits <= info.max
    assert bool(told(sequence(dtype, count, start, delta))) == (wraps and not also_right)


def test_a_sequence_is_told_at_its_delta() -> None:
    fill = "op: fill_value_sequence, output: {dtype: int8, sizes: [999]}, value_start: 0, value_delta: 1"
    (warning,) = dg.loads(f"{HEAD}nodes:\n  s: {{{fill}}}\noutputs: [s]\n").warnings()
    assert (warning.field, warning.location) == ("value_delta", dg.Location("<text>", 3, 98))
    assert warning.allowed == "-128 to 127"


def test_warnings_come_in_the_order_of_the_file() -> None:
    text = (
        f"{HEAD}dims: {{N: 1, M: 2}}\n{X}nodes:\n  a: {{op: exp, input: x}}\n  b: {{op: sin, input: x}}\noutputs: [x]\n"
    )
    places = [each.location for each in dg.loads(text).warnings()]
    assert [(place.line, place.column) for place in places if place] == [(2, 8), (2, 14), (5, 3), (6, 3)]


# Allowed.

EVERY_WARNING = f"""{HEAD}dims: {{N: 1}}
inputs:
  x: {{dtype: float32, sizes: [2]}}
  unread: {{dtype: float32, sizes: [2]}}
  square: {{dtype: float32, sizes: [1, 4, 4]}}
  scale: {{dtype: float32, sizes: [4]}}
constants: {{k: {{dtype: float32, sizes: [1], data: [1]}}}}
templates:
  never: {{inputs: [a], nodes: {{y: {{op: exp, input: a}}}}, outputs: [y]}}
  once: {{inputs: [a, b], nodes: {{y: {{op: exp, input: a}}}}, outputs: [y]}}
states: {{held: {{dtype: float32, sizes: [2]}}}}
nodes:
  used: {{use: once, a: x, b: x}}
  dead: {{op: exp, input: x}}
  wraps: {{op: fill_value_sequence, output: {{dtype: int8, sizes: [999]}}, value_start: 0, value_delta: 1}}
  inexact: {{op: fill_value_sequence, output: {{dtype: float16, sizes: [2059]}}, value_start: 0, value_delta: 1}}
  aligned: {{op: mean_variance_normalization2, input: square, scale: scale, axes: 2, use_mean: true, use_variance: true,
    epsilon: 1}}
outputs: [x, wraps, inexact, used, aligned]
"""


@given(st.lists(st.sampled_from(sorted(WARNINGS))))
def test_warnings_of_allowed_codes_are_not_told(allow: list[str]) -> None:
    text = EVERY_WARNING.replace(HEAD, f"{HEAD}allow: [{', '.join(allow)}]\n")
    graph = dg.loads(text)
    left = set(WARNINGS) - set(allow)
    assert {each.code for each in graph.warnings()} == left
    written = dg.loads(dumps(graph))  # without templates
    for other in (graph.with_dims({"N": 3}), copy.copy(graph), written):
        assert other.allow == graph.allow
        of_templates = {"unused-template", "unused-template-input"} if other is written else set()
        assert {each.code for each in other.warnings()} == left - of_templates


@pytest.mark.parametrize(
    ("allow", "code", "field", "hint"),
    [
        (["unused-inptu"], "unknown-code", "allow.0", "did you mean 'unused-input'?"),
        (["unused-dim", "level"], "unknown-code", "allow.1", "an error cannot be allowed"),
        (["unused-dim", 3, ["level"]], "unknown-code", "allow.1", None),
        ("unused-dim", "kind", "allow", 'such as ["unused-input"]'),
        ({"unused-dim": 1}, "kind", "allow", 'such as ["unused-input"]'),
        (1, "kind", "allow", 'such as ["unused-input"]'),
    ],
)
def test_what_is_not_a_list_of_warnings_is_refused(allow: Any, code: str, field: str, hint: str | None) -> None:
    with pytest.raises(dg.GraphError) as caught:
        dg.Graph(allow=allow)
    error = caught.value
    assert (error.code, error.field, error.hint) == (code, field, hint)
    if code == "unknown-code":
        assert error.allowed == ", ".join(WARNINGS)
    with pytest.raises(dg.DocumentError) as document:
        dg.loads(f"{HEAD}{X}allow: {json.dumps(allow)}\noutputs: [x]\n")
    told = document.value
    assert (told.code, told.field, told.hint) == (code, field, hint)
    assert told.location is not None
    assert told.location.line == 3


def test_a_large_graph_is_looked_through_in_linear_time() -> None:
    g = dg.Graph()
    x = value = g.input("x", sizes=[2], dtype="float32")
    for _ in range(1500):
        value = dg.exp(value)
        dg.sin(value)  # a dead end at every step of a dead chain
    g.output("x", x)
    assert len(g.warnings()) == 1500


def test_a_scale_that_fits_the_normalised_axis_too_is_doubtful() -> None:
    def made(sizes: list[int], scale: list[int], axes: list[int]) -> dg.Graph:
        g = dg.Graph()
        x, w = g.input("x", sizes=sizes, dtype="float32"), g.input("w", sizes=scale, dtype="float32")
        g.output("y", dg.mean_variance_normalization1(x, w, axes=axes, normalize_variance=True, epsilon=1e-5, name="y"))
        return g

    (problem,) = made([2, 4, 4], [4], [2]).warnings()
    assert (problem.code, problem.node, problem.field) == ("aligned-axis", "y", "scale")
    assert problem.hint == "reshape(1, 1, 4) reads it along axis 2"
    hint = "from one dimension, reshape(1, 1, 4) reads it along axis 2"
    with raises(dg.OperatorError, "sizes", node="y", field="scale.sizes.1", got=4, hint=hint):
        made([2, 3, 4], [4], [2])
    (problem,) = made([2, 4, 4, 3], [4], [2]).warnings()
    assert problem.hint == "reshape(1, 1, 4, 1) reads it along axis 2"
    assert made([4, 4, 3], [4], [0]).warnings() == []
    for fine in (([2, 4, 4], [1, 1, 4], [2]), ([2, 4, 4], [4], [1]), ([2, 4, 4, 4], [4], [2, 3])):
        assert made(*fine).warnings() == []
