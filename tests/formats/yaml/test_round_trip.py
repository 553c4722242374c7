"""Documents: a saved graph loads as the same graph, whatever its names, numbers and constants."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.problems import raises

import dmlgraph as dg
from dmlgraph.formats.yaml import dumps, loads
from dmlgraph.graph.nodes import ConstantNode, OperatorNode
from dmlgraph.operators.declaration.fields import ScaleBias

NAMES_LIKE_YAML = [
    *("on", "off", "yes", "no", "y", "n", "null", "Null", "~", "true", "False", ".inf", "-.inf", ".nan"),
    *("1e3", "0x10", "0o7", "12", "-1", "+1", "1_000", "2026-11-21", "12:30", "1e999", "<<", "=", "---"),
    *(
        "a b",
        "a: b",
        "a #b",
        "# a",
        "- a",
        "? a",
        "&a",
        "*a",
        "!a",
        "%a",
        "@a",
        "`a",
        "'a'",
        '"a"',
        "[a]",
        "{a}",
        "a,b",
    ),
    *("é", "入力", "x̂", "🙂", "\\n", "a\\", "|", ">"),
]
REACHED_BY_FLOAT = st.floats(width=32, allow_nan=False, allow_infinity=False)


def check(graph: dg.Graph) -> dg.Graph:
    """Saves a graph as text, and returns the graph loaded from it."""
    text = dumps(graph)
    again = loads(text)
    assert again.lower() == graph.lower()
    assert (again.name, again.target, again.dims) == (graph.name, graph.target, graph.dims)
    assert dumps(again) == text
    return again


LIKE_NUMBERS = ("1e3", "12", "-1", "+1", "2026-11-21")


@pytest.mark.parametrize("name", LIKE_NUMBERS)
def test_a_number_is_not_the_name_of_a_dim(name: str) -> None:
    with raises(dg.GraphError, "name"):
        dg.Graph("g", dims={name: 2})


@pytest.mark.parametrize("name", [name for name in NAMES_LIKE_YAML if "." not in name and name not in LIKE_NUMBERS])
def test_any_name_comes_back(name: str) -> None:
    g = dg.Graph(name, dims={name: 2})
    x = g.input(name, sizes=[name, 2], dtype="float32")
    g.output(name, dg.exp(x, name=f"{name}!"))
    g.output("other", x)
    again = check(g)
    assert [node.name for node in again.inputs] == [name]
    assert again.with_dims({name: 5}).outputs[name].sizes == (5, 2)


@pytest.mark.parametrize("name", NAMES_LIKE_YAML)
def test_any_graph_name_comes_back(name: str) -> None:
    g = dg.Graph(name)
    g.output("y", g.fill_value_constant(sizes=[1], dtype="int8", value=1))
    check(g)


@pytest.mark.parametrize("dtype", [dtype for dtype in dg.DataType if dtype.bits > 4])
@given(st.data())
def test_any_bits_of_a_fill_come_back(dtype: dg.DataType, data: st.DataObject) -> None:
    bits = data.draw(st.integers(0, 2**dtype.bits - 1))
    g = dg.Graph()
    g.output("y", g.fill_value_constant(sizes=[1], dtype=dtype, value={"bits": bits}))
    (node,) = check(g).nodes
    assert isinstance(node, OperatorNode)
    assert node.operator.value.bits == bits  # type: ignore[attr-defined]


@pytest.mark.parametrize("bits", [0x7FC00000, 0x7FC00001, 0xFFC00000, 0x7F800001, 0x80000000, 0x7F800000, 0xFF800000])
def test_special_floats_come_back(bits: int) -> None:
    g = dg.Graph()
    g.output("y", g.fill_value_constant(sizes=[1], dtype="float32", value={"bits": bits}))
    (result,) = check(g).compile("reference").run().values()
    assert result.view(np.uint32).tolist() == [bits]


@given(REACHED_BY_FLOAT, REACHED_BY_FLOAT)
def test_any_float_attribute_comes_back(low: float, high: float) -> None:
    g = dg.Graph()
    x = g.input("x", sizes=[1], dtype="float32")
    g.output("y", dg.clip(x, min=low, max=high, scale_bias=ScaleBias(scale=high, bias=low)))
    node = check(g).node("clip")
    assert isinstance(node, OperatorNode)
    assert (node.operator.min, node.operator.max) == (low, high)  # type: ignore[attr-defined]


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan, -0.0])
def test_a_special_float_attribute_comes_back(number: float) -> None:
    g = dg.Graph()
    g.output("y", dg.clip(g.input("x", sizes=[1], dtype="float32"), min=number, max=1))
    node = check(g).node("clip")
    assert isinstance(node, OperatorNode)
    assert str(node.operator.min) == str(number)  # type: ignore[attr-defined]


def test_everything_an_input_says_comes_back() -> None:
    g = dg.Graph("g", target="5.0", dims={"N": 2, "S": 12})
    x = g.input("x", sizes=["N", 3], strides=["S", 1], dtype="float16", owned=True)
    g.input("unused", sizes=[1], dtype="int4")
    g.output("y", x)
    again = check(g)
    assert again.with_dims({"N": 3, "S": 9}).inputs[0].desc == dg.TensorDesc(
        dtype="float16", sizes=[3, 3], strides=[9, 1], owned=True
    )
    assert 'target: "5.0"' in dumps(g)


def test_attributes_outputs_and_fused_activations_come_back() -> None:
    g = dg.Graph("g", dims={"N": 2})
    a = g.input("a", sizes=["N", 4], dtype="float32")
    first, second = dg.split(a, axis=1, outputs=["N", 2], name="parts")
    product = dg.gemm(first, second, trans_a="transpose", alpha=0.1, fused_activation="activation_relu")
    g.output("p", dg.identity(product, output={"strides": [1, 8]}, scale_bias=ScaleBias(scale=0.1)))
    g.output("s", dg.reduce(a, function="argmax", axes=[1], dtype="int32"))
    g.output("j", dg.join([first, second, first], axis=0))
    g.output("c", dg.cast(a < 0.5, dtype="float16"))
    g.output("f", g.fill_value_sequence(sizes=["N", 3], strides=[4, 1], dtype="int8", value_start=-2, value_delta=3))
    g.output("parts 0", first)
    text = dumps(g)
    assert (
        "outputs: {p: identity, s: reduce, j: join, c: cast, f: fill_value_sequence, parts 0: parts.outputs.0}" in text
    )
    check(g)


@pytest.mark.parametrize("dtype", dg.DataType)
@pytest.mark.parametrize("count", [5, 100])
def test_constants_of_every_data_type_come_back_inline_or_in_a_file(
    dtype: dg.DataType, count: int, tmp_path: pathlib.Path
) -> None:
    rng = np.random.default_rng(count)
    if dtype.bits == 4:
        data = rng.integers(*dtype.range, (count, 1), endpoint=True).astype(dtype.numpy)
    else:
        data = np.frombuffer(rng.bytes(count * dtype.bits // 8), dtype.numpy).reshape(count, 1)
    g = dg.Graph("g")
    g.constant("c/d", data)
    g.output("y", g.fill_value_constant(sizes=[1], dtype="int8", value=1))
    g.save(tmp_path / "g.yaml")
    assert {file.name for file in tmp_path.iterdir()} == {"g.yaml"} | (set() if count == 5 else {"g.safetensors"})
    node = dg.load(tmp_path / "g.yaml").node("c/d")
    assert isinstance(node, ConstantNode)
    assert node.data.dtype == dtype.numpy
    assert node.data.tobytes() == data.tobytes()


def test_constants_whose_names_differ_only_by_odd_characters_get_files_of_their_own(tmp_path: pathlib.Path) -> None:
    g = dg.Graph("g")
    for index, name in enumerate(["a b", "a_b", "a/b"]):
        g.output(f"y{index}", g.constant(name, np.full(100, index, np.float32)) * 1)
    g.save(tmp_path / "g.yaml")
    results = dg.load(tmp_path / "g.yaml").compile("reference").run()
    assert [array[0] for array in results.values()] == [0, 1, 2]


def test_a_large_constant_wants_a_file() -> None:
    g = dg.Graph()
    g.output("y", g.constant("c", np.zeros(100, np.float32)))
    with raises(dg.GraphError, "no-folder", got=["graph.c.npy"]):
        dumps(g)


def test_the_reference_runs_what_was_loaded(tmp_path: pathlib.Path) -> None:
    g = dg.Graph("g")
    x = g.input("x", sizes=[100], dtype="float32")
    g.output("y", dg.exp(x * g.constant("w", np.linspace(0, 1, 100, dtype=np.float32)) - 1))
    g.save(tmp_path / "g.yaml")
    data = np.linspace(-1, 1, 100, dtype=np.float32)
    expected = g.compile("reference").run({"x": data})["y"]
    loaded = dg.load(str(tmp_path / "g.yaml")).compile("reference").run({"x": data})["y"]
    np.testing.assert_array_equal(loaded, expected)


# Random graphs.

UNARY = [dg.exp, dg.log, dg.sqrt, dg.sin, dg.cos, dg.identity, dg.abs]
PLAIN_UNARY = [dg.activation_relu, dg.activation_sigmoid, dg.activation_tanh, dg.negate]
BINARY: list[Callable[..., dg.Value]] = [dg.add, dg.subtract, dg.multiply, dg.divide, dg.max, dg.min, dg.pow]
NUMBERS = st.floats(width=16, allow_nan=False, allow_infinity=False)


def one_node(draw: st.DrawFn, g: dg.Graph, values: list[dg.Value]) -> Any:
    """A node of some kind on existing values; all values are float32 or float16 of rank 2."""

    def pick() -> dg.Value:
        return draw(st.sampled_from(values))

    def alike(value: dg.Value) -> dg.Value:
        return draw(st.sampled_from([each for each in values if each.desc.like() == value.desc.like()]))

    x = pick()
    kind = draw(st.integers(0, 9))
    if kind == 0:
        function = draw(st.sampled_from(UNARY))
        bias = draw(st.none() | st.builds(ScaleBias, scale=NUMBERS, bias=NUMBERS))
        return function(x, scale_bias=bias)
    if kind == 1:
        return draw(st.sampled_from(PLAIN_UNARY))(x)
    if kind == 2:
        return draw(st.sampled_from(BINARY))(x, alike(x))
    if kind == 3:
        return draw(st.sampled_from(BINARY))(x, draw(NUMBERS))
    if kind == 4:
        return dg.if_(x < alike(x), alike(x), draw(NUMBERS))
    if kind == 5:
        fused = draw(st.sampled_from([None, "activation_relu", "activation_tanh"]))
        return dg.gemm(x, alike(x), trans_a="transpose", alpha=draw(NUMBERS), fused_activation=fused)
    if kind == 6:
        return dg.join([x, alike(x)], axis=draw(st.integers(0, 1)))
    if kind == 7:
        axis = draw(st.integers(0, 1))
        cut = draw(st.integers(1, x.sizes[axis]))
        return dg.split(x, axis=axis, outputs=[each for each in (cut, x.sizes[axis] - cut) if each])
    if kind == 8:
        return dg.reduce(
            x, function=draw(st.sampled_from(["sum", "max", "l2"])), axes=draw(st.sampled_from([[0], [1], [1, 0]]))
        )
    sizes = draw(st.sampled_from([["N", 3], [2, "M"], [1, 1]]))
    if draw(st.booleans()):
        return g.fill_value_constant(sizes=sizes, dtype=x.dtype, value=draw(NUMBERS | st.just(math.nan)))
    return g.fill_value_sequence(sizes=sizes, dtype=x.dtype, value_start=draw(NUMBERS), value_delta=draw(NUMBERS))


@st.composite
def graphs(draw: st.DrawFn) -> dg.Graph:
    name = draw(st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1))
    g = dg.Graph(name, target=draw(st.sampled_from([None, "6.2", "5.0"])), dims={"N": 2, "M": 3})
    values = [
        g.input("x", sizes=["N", "M"], dtype="float32"),
        g.input("h", sizes=["M", 2], strides=[1, "M"] if draw(st.booleans()) else None, dtype="float16"),
        g.constant(
            "c", draw(st.lists(NUMBERS, min_size=6, max_size=6).map(lambda each: [each[:3], each[3:]])), dtype="float32"
        ),
    ]
    for _ in range(draw(st.integers(1, 12))):
        made = one_node(draw, g, values)
        values += made if isinstance(made, tuple) else [made]
    for index, value in enumerate(draw(st.lists(st.sampled_from(values), min_size=1, max_size=4))):
        g.output(f"out{index}", value)
    return g


@settings(max_examples=150)
@given(graphs())
def test_any_graph_comes_back(graph: dg.Graph) -> None:
    check(graph)


@settings(max_examples=40)
@given(graphs())
def test_what_comes_back_runs_to_the_same_bits(graph: dg.Graph) -> None:
    inputs = {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "h": np.ones((3, 2), np.float16)}
    results = graph.compile("reference").run(inputs)
    again = loads(dumps(graph)).compile("reference").run(inputs)
    for name, array in results.items():
        assert again[name].tobytes() == array.tobytes()
