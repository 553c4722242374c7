"""How operators complete fields that are left out, one number for all entries, and negative axes."""

from __future__ import annotations

import copy
import dataclasses
import functools
import pickle
from collections.abc import Callable
from typing import Any

import jsonschema
import numpy as np
import pytest
import yaml
from support.problems import expect, raises

import dmlgraph as dg
from dmlgraph.base.errors import Problem
from dmlgraph.devices.names import DeviceName
from dmlgraph.formats.yaml import dumps, loads
from dmlgraph.formats.yaml.schema import schema
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.operators import REGISTRY, Operator
from dmlgraph.operators.catalog.examples import example
from dmlgraph.operators.declaration.fields import Kind
from dmlgraph.operators.declaration.struct import Member


def members(wanted: Callable[[Member], object]) -> list[Any]:
    return [
        pytest.param(operator, member, id=f"{name}-{member.field}")
        for name, operator in REGISTRY.items()
        for member in operator.members
        if member.field and wanted(member)
    ]


every_axis = pytest.mark.parametrize(("operator", "member"), list(members(lambda member: member.axes)))
every_list = pytest.mark.parametrize(("operator", "member"), list(members(lambda member: member.entries)))


def example_node(operator: type[Operator], text: str | None = None) -> tuple[dg.Graph, OperatorNode]:
    graph = loads(example(operator) if text is None else text)
    return graph, next(
        each for each in graph.nodes if isinstance(each, OperatorNode) and each.operator.name == operator.name
    )


def again(operator: type[Operator], **changes: Any) -> Operator:
    """The operator of the example with other attributes; those that are None are left out."""
    _, node = example_node(operator)
    inputs = {field: getattr(node.operator, field) for field in operator.input_fields}
    fields = {**inputs, **node.outputs, **{field: node.operator.attributes[field] for field in node.attributes}}
    given = {field: value for field, value in (fields | changes).items() if value is not None or field not in changes}
    return operator(**given)


def outcome(operator: type[Operator], **changes: Any) -> tuple[Operator | None, tuple[Problem, ...]]:
    """The result of `again`, or its problems."""
    try:
        return again(operator, **changes), ()
    except dg.OperatorError as error:
        return None, error.problems


def in_a_file(operator: type[Operator], field: str, value: Any) -> Operator:
    """The operator of the example with another value of a field, through the schema and a file and back."""
    graph, node = example_node(operator)
    tensors = {port: dg.Value(graph, source, from_port) for source, from_port, port in graph.producers(node.name)}
    given, port = {}, 0
    for each in operator.input_fields:
        desc = getattr(node.operator, each)
        count = len(desc) if isinstance(desc, tuple) else 1
        values = [tensors.get(index) for index in range(port, port + count)]
        given[each] = values if isinstance(desc, tuple) else values[0]
        port += count
    outputs = graph.add(operator, given, {**node.attributes, field: value}, node.outputs, "again")
    graph.output("again_out", next(each for each in outputs if each is not None))
    text = dumps(graph)
    loaded = loads(text)
    assert dumps(loaded) == text
    built, found = graph.node("again"), loaded.node("again")
    assert isinstance(built, OperatorNode)
    assert isinstance(found, OperatorNode)
    assert found.operator == built.operator
    return found.operator


# Axes.


@every_axis
def test_negative_axes_count_from_the_end(operator: type[Operator], member: Member) -> None:
    _, node = example_node(operator)
    assert member.field is not None
    rank = node.operator.input_rank
    assert rank is not None
    value = getattr(node.operator, member.field)
    negative = [axis - rank for axis in value] if isinstance(value, tuple) else value - rank
    assert again(operator, **{member.field: negative}) == node.operator
    assert getattr(in_a_file(operator, member.field, negative), member.field) == value


@every_axis
def test_an_axis_beyond_the_tensor_is_told_as_it_was_given(operator: type[Operator], member: Member) -> None:
    assert member.field is not None
    rank = example_node(operator)[1].operator.input_rank
    assert rank is not None
    for wrong in (rank, -rank - 1):
        with pytest.raises(dg.OperatorError) as caught:
            again(operator, **{member.field: [wrong] if member.count else wrong})
        assert caught.value.field == (f"{member.field}.0" if member.count else member.field)
        assert (caught.value.got, caught.value.allowed) == (wrong, f"{-rank} to {rank - 1}")


def _may_be_empty(member: Member) -> bool:
    """Whether the field is a list of axes; a permutation names every axis."""
    return bool(member.axes and member.count and member.field != "permutation")


@pytest.mark.parametrize(("operator", "member"), members(_may_be_empty))
def test_no_axes_leave_every_element_by_itself(operator: type[Operator], member: Member) -> None:
    assert member.field is not None
    made = again(operator, **{member.field: []})
    assert getattr(made, member.field) == ()
    assert made.output_descs[0] is not None
    assert made.output_descs[0].sizes == made.input_descs[0].sizes  # type: ignore[union-attr]
    with raises(dg.OperatorError, "duplicate", field="axes.1", got=-4):
        again(operator, **{member.field: [0, -made.input_rank]})  # type: ignore[operator]


NO_AXES: dict[str, Callable[[dg.Value], dg.Value]] = {
    **{f"reduce_{name}": functools.partial(dg.reduce, function=name, axes=[]) for name in (
        "argmax", "argmin", "average", "l1", "l2", "log_sum", "log_sum_exp", "max", "min", "multiply", "sum",
        "sum_square",
    )},
    "argmin": lambda x: dg.argmin(x, axes=[]),
    "argmax": lambda x: dg.argmax(x, axes=[]),
    "softmax": lambda x: dg.activation_softmax1(x, axes=[]),
    "log_softmax": lambda x: dg.activation_log_softmax1(x, axes=[]),
    "hardmax": lambda x: dg.activation_hardmax1(x, axes=[]),
    "normalization": lambda x: dg.mean_variance_normalization1(x, axes=[], normalize_variance=True, epsilon=1),
    "fused": lambda x: dg.gemm(x, x, trans_b="transpose", fused_activation={"op": "activation_softmax1", "axes": []}),
}  # fmt: skip


@pytest.mark.parametrize("function", NO_AXES.values(), ids=NO_AXES)
def test_devices_agree_on_no_axes(function: Callable[[dg.Value], dg.Value], device: DeviceName) -> None:
    graph = dg.Graph()
    graph.output("y", function(graph.input("x", sizes=[1, 1, 3, 4], dtype="float32")))
    data = np.random.default_rng(0).uniform(0.25, 4, (1, 1, 3, 4)).astype(np.float32)
    expected = graph.compile("reference", fuse=False).run({"x": data})["y"]
    for fuse in (False, True):
        got = graph.compile(device, fuse=fuse).run({"x": data})["y"]
        np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_axes_of_a_fused_activation_are_its_hosts() -> None:
    text = """
dmlgraph: 1
inputs: {a: {dtype: float32, sizes: [1, 1, 2, 3]}, b: {dtype: float32, sizes: [1, 1, 3, 4]}}
nodes:
  last: {op: gemm, a: a, b: b, fused_activation: {op: activation_softmax1, axes: [-1]}}
  left_out: {op: gemm, a: a, b: b, fused_activation: activation_softmax1}
  written: {op: gemm, a: a, b: b, fused_activation: {op: activation_softmax1, axes: [3]}}
outputs: [last, left_out, written]
"""
    graph = loads(text)
    gemms = [node.operator for node in graph.nodes if isinstance(node, OperatorNode)]
    assert gemms[0] == gemms[1] == gemms[2]
    assert dumps(loads(dumps(graph))) == dumps(graph)
    assert dumps(graph).count("axes: [3]") == 3


# Lists with one entry per dimension.


@every_list
def test_one_number_counts_for_every_dimension(operator: type[Operator], member: Member) -> None:
    assert member.field is not None
    _, node = example_node(operator)
    count = len(getattr(node.operator, member.field))
    for number in (1, 2, 0, np.int64(1), np.array(1)):
        written_out, problems = outcome(operator, **{member.field: [int(number)] * count})
        if written_out is None:
            _, same = outcome(operator, **{member.field: number})
            assert [problem.message for problem in same] == [problem.message for problem in problems]
            continue
        assert again(operator, **{member.field: number}) == written_out
        if isinstance(number, int):
            assert in_a_file(operator, member.field, number) == written_out


@every_list
def test_a_wrong_number_is_told_of_the_field(operator: type[Operator], member: Member) -> None:
    wrong: Any
    for wrong in ("2", float("nan") if member.kind is not Kind.FLOATS else "x", True, {}):
        with pytest.raises(dg.OperatorError) as caught:
            again(operator, **{str(member.field): wrong})
        assert (caught.value.field or "").split(".")[0] == member.field


@every_list
def test_a_wrong_number_of_entries_is_told(operator: type[Operator], member: Member) -> None:
    _, node = example_node(operator)
    entries = getattr(node.operator, str(member.field))
    with pytest.raises(dg.OperatorError) as caught:
        again(operator, **{str(member.field): [*entries, 1]})
    assert (caught.value.field, caught.value.got) == (member.field, [*entries, 1])
    assert (caught.value.allowed or "").endswith("or one number for all")


@pytest.mark.parametrize(
    ("operator", "member"), members(lambda member: member.entries and member.entries.default is not None)
)
def test_lists_that_are_left_out_have_their_default_everywhere(operator: type[Operator], member: Member) -> None:
    assert member.entries is not None
    _, node = example_node(operator)
    count = len(getattr(node.operator, str(member.field)))
    written_out = [member.entries.default] * count
    assert outcome(operator, **{str(member.field): None}) == outcome(operator, **{str(member.field): written_out})


def test_fields_of_one_name_may_be_left_out_everywhere_or_nowhere() -> None:
    names: dict[str, set[bool]] = {}
    for operator in REGISTRY.values():
        for member in operator.members:
            if member.field and (member.entries or member.axes) and not member.axes:
                names.setdefault(member.field, set()).add(operator.fields[member.field].required)
    assert {name for name, required in names.items() if len(required) > 1} == set()
    switches = {"axis_direction", "rounding_direction", "direction", "include_padding", "mask_type", "group_count"}
    for operator in REGISTRY.values():
        for name in switches & set(operator.fields):
            assert not operator.fields[name].required, (operator.name, name)


def test_the_schema_takes_what_the_reader_takes() -> None:
    text = """
dmlgraph: 1
inputs: {x: {dtype: float32, sizes: [1, 4, 6, 6]}, w: {dtype: float32, sizes: [4, 2, 3, 3]}}
nodes:
  p: {op: max_pooling2, input: x, window_size: 2, strides: 2}
  a: {op: average_pooling, input: x, window_size: 3}
  c: {op: convolution, input: x, filter: w, start_padding: 1, end_padding: 1}
  r: {op: reduce, input: x, function: sum, axes: [-1, -2]}
  n: {op: reduce, input: x, function: sum, axes: []}
  s: {op: split, input: x, axis: -1, outputs: 3}
  u: {op: upsample_2d, input: x, scale_size: 2, interpolation_mode: nearest_neighbor}
  t: {op: cumulative_summation, input: x, axis: -1}
  m: {op: activation_softmax1, input: x}
outputs: {p: p, a: a, c: c, r: r, n: n, s: s.outputs.2, u: u, t: t, m: m}
"""

    validator = jsonschema.Draft202012Validator(schema())
    assert not list(validator.iter_errors(yaml.safe_load(text)))
    graph = loads(text)
    assert graph.outputs["p"].sizes == (1, 4, 3, 3)
    assert graph.outputs["s"].sizes == (1, 4, 6, 2)
    saved = dumps(graph)
    assert not list(validator.iter_errors(yaml.safe_load(saved)))
    assert dumps(loads(saved)) == saved
    for wrong in ("axis: 1.5", "axis: -9", "axis: 8"):
        node = {"op": "cumulative_summation", "input": "x", "axis": float(wrong.split()[1])}
        assert list(validator.iter_errors({"dmlgraph": 1, "nodes": {"y": node}, "outputs": ["y"]}))


def test_a_dim_may_stand_for_every_entry() -> None:
    text = """
dmlgraph: 1
dims: {STEP: 2, HEADS: 2}
inputs:
  x: {dtype: float32, sizes: [1, 1, 4, 4]}
  q: {dtype: float32, sizes: [1, 2, 8]}
nodes:
  p: {op: max_pooling, input: x, window_size: STEP, strides: STEP}
  a: {op: multihead_attention, query: q, key: q, value: q, scale: 1, head_count: HEADS}
outputs: {p: p, a: a}
"""
    graph = loads(text)
    assert graph.outputs["p"].sizes == (1, 1, 2, 2)
    saved = dumps(graph)
    assert "strides: STEP" in saved
    assert "head_count: HEADS" in saved
    assert loads(saved, dims={"STEP": 1}).outputs["p"].sizes == (1, 1, 4, 4)


# Counts.


@pytest.fixture
def g() -> dg.Graph:
    return dg.Graph()


def operator_of(value: dg.Value) -> Any:
    node = value.graph.node(value.node)
    assert isinstance(node, OperatorNode)
    return node.operator


@pytest.mark.parametrize(("filtered", "groups"), [(6, 1), (3, 2), (2, 3), (1, 6)])
def test_groups_follow_from_the_channels(g: dg.Graph, filtered: int, groups: int) -> None:
    x = g.input("x", sizes=[1, 6, 5, 5], dtype="float32")
    w = g.input("w", sizes=[6, filtered, 3, 3], dtype="float32")
    assert operator_of(dg.convolution(x, w)).group_count == groups
    assert dg.convolution(x, w).sizes == (1, 6, 3, 3)


@pytest.mark.parametrize("sizes", [[6, 4, 3, 3], [6, 12, 3, 3], [5, 3, 3, 3]])
def test_a_filter_of_no_groups_is_refused(g: dg.Graph, sizes: list[int]) -> None:
    x, w = g.input("x", sizes=[1, 6, 5, 5], dtype="float32"), g.input("w", sizes=sizes, dtype="float32")
    with pytest.raises(dg.OperatorError) as caught:
        dg.convolution(x, w)
    assert (caught.value.field, caught.value.allowed) == ("filter.sizes.1", "6")


def test_backward_groups_are_not_determined(g: dg.Graph) -> None:
    x, w = g.input("x", sizes=[1, 6, 5, 5], dtype="float32"), g.input("w", sizes=[6, 3, 3, 3], dtype="float32")
    assert operator_of(dg.convolution(x, w, direction="backward")).group_count == 1


def heads(graph: dg.Graph, function: str = "multihead_attention", **tensors: Any) -> Any:
    values = {name: graph.input(name, sizes=sizes, dtype="float32") for name, sizes in tensors.items()}
    return operator_of(getattr(dg, function)(**values, scale=1))


def test_heads_follow_from_stacked_and_past_tensors(g: dg.Graph) -> None:
    assert heads(g, stacked_query_key_value=[1, 3, 4, 3, 5]).head_count == 4
    assert heads(dg.Graph(), query=[1, 3, 20], stacked_key_value=[1, 3, 4, 2, 5]).head_count == 4
    past: dict[str, Any] = {"past_key": [1, 4, 2, 5], "past_value": [1, 4, 2, 5]}
    assert heads(dg.Graph(), query=[1, 3, 20], key=[1, 3, 20], value=[1, 3, 20], **past).head_count == 4
    biased = heads(dg.Graph(), query=[1, 3, 20], key=[1, 3, 20], value=[1, 3, 20], relative_position_bias=[1, 4, 3, 3])
    assert biased.head_count == 4


def test_heads_of_keys_follow_from_their_size(g: dg.Graph) -> None:
    shared = heads(g, "multihead_attention1", query=[1, 3, 40], stacked_key_value=[1, 3, 2, 2, 5])
    assert (shared.query_head_count, shared.key_value_head_count) == (8, 2)


def test_heads_that_nothing_says_must_be_given(g: dg.Graph) -> None:
    with pytest.raises(dg.OperatorError) as caught:
        heads(g, query=[1, 3, 20], key=[1, 3, 20], value=[1, 3, 20])
    assert (caught.value.field, caught.value.code) == (
        "head_count",
        "undetermined",
    )


def test_a_mask_wants_its_value_and_type(g: dg.Graph) -> None:
    q = g.input("q", sizes=[1, 2, 8], dtype="float32")
    mask = g.constant("mask", np.array([[2]], np.int32))
    with pytest.raises(dg.OperatorError) as caught:
        dg.multihead_attention(q, q, q, mask=mask, scale=1, head_count=2)
    assert caught.value.field == "mask_filter_value"
    with pytest.raises(dg.OperatorError) as caught:
        dg.multihead_attention(q, q, q, mask=mask, scale=1, head_count=2, mask_filter_value=-1e4)
    assert caught.value.field == "mask"
    assert "key_sequence_length" in (caught.value.hint or "")
    assert isinstance(dg.multihead_attention(q, q, q, scale=1, head_count=2), dg.Value)


def test_indices_of_fewer_dimensions_gather_like_numpy(device: DeviceName) -> None:
    rng = np.random.default_rng(0)
    data = rng.normal(size=(4, 5, 6)).astype(np.float32)
    graph = dg.Graph()
    x = graph.input("x", sizes=data.shape, dtype="float32")
    picked = np.array([3, 0, 2], np.uint32)
    pairs = np.array([[1, 2], [3, 4], [0, 0]], np.uint32)
    for axis in range(-3, 3):
        graph.output(f"axis{axis}", dg.gather(x, graph.constant(f"i{axis}", picked), axis=axis))
    graph.output("pairs", dg.gather_nd(x, graph.constant("pairs_", pairs)))
    got = graph.compile(device).run({"x": data})
    for axis in range(-3, 3):
        np.testing.assert_array_equal(got[f"axis{axis}"], data.take(picked, axis))
    np.testing.assert_array_equal(got["pairs"], data[pairs[:, 0], pairs[:, 1]][None])


def test_rows_are_scattered_by_indices_of_fewer_dimensions() -> None:
    graph = dg.Graph()
    x = graph.input("x", sizes=[4, 5, 6], dtype="float32")
    places = graph.constant("places", np.array([[1, 2], [3, 4]], np.uint32))
    updates = graph.constant("updates", np.full((2, 6), 7, np.float32))
    graph.output("y", dg.scatter_nd(x, places, updates))
    expected = np.zeros((4, 5, 6), np.float32)
    expected[[1, 3], [2, 4]] = 7
    got = graph.compile("reference").run({"x": np.zeros((4, 5, 6), np.float32)})["y"]
    np.testing.assert_array_equal(got, expected)


# Switches.


def lstm(graph: dg.Graph, **fields: Any) -> Any:
    x = graph.input("x", sizes=[1, 3, 2, 4], dtype="float32")
    w, r = (
        graph.input("w", sizes=[1, 1, 20, 4], dtype="float32"),
        graph.input("r", sizes=[1, 1, 20, 5], dtype="float32"),
    )
    names = ["activation_sigmoid", "activation_tanh", "activation_tanh"]
    return operator_of(dg.lstm(x, w, r, activation_descs=names, **fields).output_sequence)


@pytest.mark.parametrize(
    ("fields", "clips", "bound"),
    [
        ({}, False, 0.0),
        ({"clip_threshold": 3}, True, 3.0),
        ({"clip_threshold": 3, "use_clip_threshold": False}, False, 3.0),
        ({"clip_threshold": 0, "use_clip_threshold": True}, True, 0.0),
    ],
)
def test_lstm_clips_where_a_threshold_is_given(g: dg.Graph, fields: Any, clips: bool, bound: float) -> None:
    made = lstm(g, **fields)
    assert (made.use_clip_threshold, made.clip_threshold, made.couple_input_forget) == (clips, bound, False)


def test_clipping_wants_a_threshold(g: dg.Graph) -> None:
    with pytest.raises(dg.OperatorError) as caught:
        lstm(g, use_clip_threshold=True)
    assert caught.value.field == "clip_threshold"


def test_top_k1_gives_the_greatest_as_top_k_does(g: dg.Graph) -> None:
    x = g.input("x", sizes=[3, 4], dtype="float32")
    g.output("left_out", dg.top_k1(x, axis=-1, k=2).output_value)
    g.output("top_k", dg.top_k(x, axis=-1, k=2).output_value)
    data = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    got = g.compile("reference").run({"x": data})
    np.testing.assert_array_equal(got["left_out"], got["top_k"])


def test_none_is_left_out(g: dg.Graph) -> None:
    x = g.input("x", sizes=[1, 1, 4, 4], dtype="float32")
    assert dg.reduce(x, function="sum", axes=None).sizes == (1, 1, 1, 1)
    assert dg.max_pooling(x, window_size=2, strides=None).sizes == (1, 1, 3, 3)


@pytest.mark.parametrize("parts", [1, 2, 3, 6])
def test_split_into_equal_parts(g: dg.Graph, parts: int) -> None:
    x = g.input("x", sizes=[2, 6], dtype="float32")
    values = dg.split(x, axis=-1, outputs=parts)
    assert [value.sizes for value in values] == [(2, 6 // parts)] * parts


def test_parts_that_are_not_equal_are_refused(g: dg.Graph) -> None:
    with pytest.raises(dg.OperatorError) as caught:
        dg.split(g.input("x", sizes=[2, 6], dtype="float32"), axis=1, outputs=4)
    expect(caught.value, "sizes", node="split", field="outputs", got=4)


@pytest.mark.parametrize("name", REGISTRY)
def test_an_operator_never_changes_and_its_copies_equal_it(name: str) -> None:
    nodes = loads(example(REGISTRY[name])).nodes
    operator = next(each.operator for each in nodes if isinstance(each, OperatorNode) and each.operator.name == name)
    for field in operator.fields:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(operator, field, None)
        with pytest.raises(dataclasses.FrozenInstanceError):
            delattr(operator, field)
    assert list(vars(operator)) == list(operator.fields)
    for again in (copy.copy(operator), copy.deepcopy(operator), pickle.loads(pickle.dumps(operator))):
        assert again == operator
        assert hash(again) == hash(operator)
        assert repr(again) == repr(operator)


@pytest.mark.parametrize("name", REGISTRY)
def test_no_field_is_absent_unless_its_annotation_says_so(name: str) -> None:
    nodes = loads(example(REGISTRY[name])).nodes
    operator = next(each.operator for each in nodes if isinstance(each, OperatorNode) and each.operator.name == name)
    assert not [field for field, each in operator.fields.items() if vars(operator)[field] is None and not each.optional]
    assert not [field for field in operator.fields if hasattr(type(operator), field)]


def test_a_replaced_field_leaves_the_others_and_the_operator() -> None:
    desc = dg.TensorDesc(dtype="float32", sizes=[2])
    operator = REGISTRY["add"](a=desc, b=desc)
    other = operator.replace(b=desc.like(strides=[2]))
    assert (other.a, other.b.strides, operator.b.strides) == (desc, (2,), None)  # type: ignore[attr-defined]
    assert other != operator
