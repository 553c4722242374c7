"""Graph and Value: building, names, numbers, dims, levels, and refused input."""

from __future__ import annotations

import functools
import inspect
import math
import operator
import pathlib
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from support.problems import expect

import dmlgraph as dg
from dmlgraph.base.tensor import DataTypeName
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.operators import REGISTRY

DEEP = 20_000


@pytest.fixture
def graph() -> dg.Graph:
    return dg.Graph("g", dims={"N": 2})


@pytest.fixture
def x(graph: dg.Graph) -> dg.Value:
    return graph.input("x", sizes=[2, 3], dtype="float32")


def run(value: dg.Value, **inputs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    value.graph.output("result", value)
    return value.graph.compile("reference").run(inputs)["result"]


def operator_of(graph: dg.Graph, name: str) -> Any:
    node = graph.node(name)
    assert isinstance(node, OperatorNode)
    return node.operator


def refused(call: Callable[[], object], kind: type[dg.DmlGraphError] = dg.DmlGraphError) -> dg.DmlGraphError:
    with pytest.raises(kind) as caught:
        call()
    return caught.value


# Python's operators.

X = np.array([[1, -2, 3], [0.5, 4, -8]], np.float32)
Y = np.array([[2, 2, -1], [0.5, 3, 2]], np.float32)


@pytest.mark.parametrize(
    "function",
    [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.lt, operator.gt, operator.eq],
)
def test_pythons_operators_are_those_of_numpy(graph: dg.Graph, x: dg.Value, function: Callable[..., Any]) -> None:
    y = graph.input("y", sizes=[2, 3], dtype="float32")
    with np.errstate(all="ignore"):
        expected = function(X, Y)
    np.testing.assert_array_equal(run(function(x, y), x=X, y=Y), expected)


@pytest.mark.parametrize(
    "function",
    [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.lt, operator.gt, operator.eq],
)
@pytest.mark.parametrize("reflected", [False, True])
def test_a_number_stands_on_either_side(x: dg.Value, function: Callable[..., Any], reflected: bool) -> None:
    both = (lambda a: function(2, a)) if reflected else (lambda a: function(a, 2))
    with np.errstate(all="ignore"):
        expected = both(X.astype(np.float64))
    np.testing.assert_array_equal(run(both(x), x=X), expected.astype(np.float32))


def test_minus_and_abs_and_matmul(graph: dg.Graph, x: dg.Value) -> None:
    y = graph.input("y", sizes=[3, 2], dtype="float32")
    graph.output("negative", -x)
    graph.output("absolute", abs(x))
    np.testing.assert_array_equal(run(x @ y, x=X, y=Y.reshape(3, 2)), X @ Y.reshape(3, 2))
    results = graph.compile("reference").run({"x": X, "y": Y.reshape(3, 2)})
    np.testing.assert_array_equal(results["negative"], -X)
    np.testing.assert_array_equal(results["absolute"], abs(X))


@pytest.mark.parametrize("number", [2, 2.0, np.float32(2), np.int64(2), Fraction(2), Decimal(2)])
def test_a_number_becomes_a_fill_of_one_element_read_with_zero_strides(
    graph: dg.Graph, x: dg.Value, number: Any
) -> None:
    value = number * x
    fill = operator_of(graph, "fill_value_constant")
    assert fill.output == dg.TensorDesc(dtype="float32", sizes=[1, 1])
    assert fill.value == dg.Scalar.of(2, dg.DataType.FLOAT32)
    multiply = operator_of(graph, value.node)
    assert multiply.a == dg.TensorDesc(dtype="float32", sizes=[2, 3], strides=[0, 0])
    assert multiply.a.total_bytes == 4


@pytest.mark.parametrize("dtype", ["float16", "float32", "uint8", "int64"])
def test_a_number_takes_the_data_type_of_the_value_beside_it(graph: dg.Graph, dtype: DataTypeName) -> None:
    value = graph.input("v", sizes=[2], dtype=dtype)
    assert (value + 1).dtype is (1 + value).dtype is dg.DataType.parse(dtype)
    assert (value < 1).dtype is dg.DataType.UINT8
    assert operator_of(graph, "fill_value_constant").output.dtype is dg.DataType.parse(dtype)


def test_the_condition_does_not_decide_the_data_type_of_a_number(x: dg.Value) -> None:
    chosen = dg.if_(x < 0, -0.5, x)
    assert chosen.dtype is dg.DataType.FLOAT32
    np.testing.assert_array_equal(run(chosen, x=X), np.where(X < 0, np.float32(-0.5), X))


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.5, "node 'add', field 'b': uint8 holds whole numbers only; got 0.5"),
        (300, "node 'add', field 'b': does not fit in uint8; got 300; allowed: -128 to 255"),
        (math.nan, "node 'add', field 'b': uint8 holds whole numbers only; got nan"),
        (1j, "node 'add', field 'b': is not a number; got 1j"),
    ],
)
def test_a_number_its_data_type_cannot_hold_is_refused(graph: dg.Graph, number: Any, text: str) -> None:
    value = graph.input("v", sizes=[2], dtype="uint8")
    assert str(refused(lambda: value + number, dg.OperatorError)).startswith(text)


@pytest.mark.parametrize("other", [True, "2", [1, 2], {}, object()])
def test_what_is_neither_value_nor_number_is_refused(x: dg.Value, other: Any) -> None:
    error = refused(lambda: x + other, dg.OperatorError)
    assert (error.node, error.field) == ("add", "b")


def test_none_is_not_a_tensor(x: dg.Value) -> None:
    expect(refused(lambda: x == None, dg.OperatorError), "missing", node="logical_equals", field="b")  # noqa: E711


@pytest.mark.parametrize("function", [operator.add, operator.sub, operator.lt, operator.eq])
@pytest.mark.parametrize("reflected", [False, True])
def test_a_numpy_array_becomes_a_constant(x: dg.Value, function: Callable[..., Any], reflected: bool) -> None:
    both = (lambda a: function(Y, a)) if reflected else (lambda a: function(a, Y))
    np.testing.assert_array_equal(run(both(x), x=X), both(X))
    assert [node.name for node in x.graph.nodes][1] == "constant"


def test_what_python_cannot_do_with_a_value_is_refused_with_what_to_do(x: dg.Value) -> None:
    with pytest.raises(TypeError, match="use if_ to choose element by element"):
        bool(x)
    with pytest.raises(TypeError, match="use split"):
        list(x)
    with pytest.raises(TypeError, match="use if_"):
        _ = x == x and x  # noqa: PLR0124


def test_a_value_can_be_a_key(x: dg.Value) -> None:
    assert {x: 1}[x] == 1
    assert repr(x) == "<Value x: float32 [2,3]>"


# Functions.


def test_a_function_has_its_operators_signature_and_words() -> None:
    assert str(inspect.signature(dg.add)) == (
        "(a: Tensor, b: Tensor, *, output: Output | None = None, name: str | None = None) -> Value"
    )
    assert "the output has the input's data type" in (dg.pow.__doc__ or "")
    gemm = inspect.signature(dg.gemm).parameters
    assert list(gemm)[:3] == ["a", "b", "c"]
    assert gemm["c"].default is None
    assert gemm["alpha"].default == 1.0
    assert gemm["alpha"].kind is inspect.Parameter.KEYWORD_ONLY
    fill = inspect.signature(dg.Graph.fill_value_sequence).parameters
    assert {"sizes", "dtype", "strides", "value_start", "value_delta", "name"} <= set(fill)
    assert fill["sizes"].default is inspect.Parameter.empty
    assert fill["strides"].default is None


@pytest.mark.parametrize("name", REGISTRY)
def test_every_operator_is_a_documented_function_or_a_source(name: str) -> None:
    cls = REGISTRY[name]
    function = getattr(dg.Graph if cls.is_source() else dg, cls.function_name())
    assert function.__name__ == cls.function_name()
    assert function.__doc__ == cls.__doc__
    parameters = inspect.signature(function).parameters
    assert set(cls.attribute_fields) <= set(parameters)
    positional = [each.name for each in parameters.values() if each.kind is not inspect.Parameter.KEYWORD_ONLY]
    assert positional == ["self"] * cls.is_source() + list(cls.input_fields)


def test_tensors_may_be_given_by_name(graph: dg.Graph, x: dg.Value) -> None:
    assert operator_of(graph, dg.subtract(x, b=x).node) == operator_of(graph, dg.subtract(a=x, b=x).node)
    with pytest.raises(TypeError, match="got the tensor 'a' twice"):
        dg.add(x, x, a=x)  # type: ignore[misc]
    with pytest.raises(TypeError, match=r"takes 2 tensors \(a, b\); got 3"):
        dg.add(x, x, x)  # type: ignore[call-arg, arg-type]


def test_a_missing_tensor_and_an_unknown_keyword_are_named(x: dg.Value) -> None:
    error = refused(lambda: dg.add(x), dg.OperatorError)  # type: ignore[call-arg]
    expect(error, "missing", node="add", field="b")
    error = refused(lambda: dg.clip(x, mim=0, max=1), dg.OperatorError)  # type: ignore[call-arg]
    expect(error, "unknown-field", node="clip", field="mim", hint="did you mean 'min'?")


def test_numbers_alone_make_no_graph() -> None:
    expect(refused(lambda: dg.add(1, 2), dg.OperatorError), "missing", node="add")


def test_a_list_where_one_value_belongs_is_refused(x: dg.Value) -> None:
    error = refused(lambda: dg.exp([x]), dg.OperatorError)  # type: ignore[arg-type]
    expect(error, "kind", node="exp", field="input", got="1 value")


def test_sizes_that_do_not_broadcast_are_refused(graph: dg.Graph, x: dg.Value) -> None:
    error = refused(lambda: x + graph.input("y", sizes=[4, 3], dtype="float32"), dg.OperatorError)
    assert (error.node, error.got) == ("add", "[2, 3] and [4, 3]")


def test_data_types_that_differ_are_refused(graph: dg.Graph, x: dg.Value) -> None:
    error = refused(lambda: x + graph.input("y", sizes=[2, 3], dtype="uint8"), dg.OperatorError)
    expect(error, "dtype", node="add", field="b", got="uint8 [2,3]", allowed="float32 [2,3]")


# Several outputs.


def test_a_node_of_several_outputs_gives_a_value_for_each(x: dg.Value) -> None:
    first, second = dg.split(x, axis=1, outputs=[1, 2], name="parts")
    assert (first.reference, first.sizes) == ("parts.outputs.0", (2, 1))
    assert (second.reference, second.sizes) == ("parts.outputs.1", (2, 2))
    np.testing.assert_array_equal(run(second + first, x=X), X[:, 1:] + X[:, :1])


def test_a_reference_names_a_value(graph: dg.Graph, x: dg.Value) -> None:
    parts = dg.split(x, axis=1, outputs=[1, 2], name="parts")
    found = graph.value("parts.outputs.1")
    assert (found.node, found.port, found.desc) == ("parts", 1, parts[1].desc)
    assert graph.value("x").desc == x.desc
    expect(refused(lambda: graph.value("part")), "unknown-node", node="part", hint="did you mean 'parts'?")
    for reference in ("parts", "parts.outputs", "parts.outputs.2", "parts.outputs.01", "parts.0"):
        error = refused(functools.partial(graph.value, reference), dg.GraphError)
        assert (error.got, error.allowed) == (reference, "parts.outputs.0, parts.outputs.1")
    assert refused(lambda: graph.value("x.output")).allowed == "x"


# Names.


def test_names_are_the_operators_and_count(graph: dg.Graph, x: dg.Value) -> None:
    graph.constant("add_2", [1.0], dtype="float32")
    assert [(x + x).node for _ in range(4)] == ["add", "add_1", "add_3", "add_4"]
    assert dg.add(x, x, name="sum").node == "sum"
    assert [node.name for node in graph.nodes] == ["x", "add_2", "add", "add_1", "add_3", "add_4", "sum"]


def test_the_same_calls_give_the_same_names() -> None:
    def build() -> list[str]:
        g = dg.Graph()
        v = g.input("v", sizes=[2], dtype="float32")
        g.output("y", dg.exp(v * 2 + 1) / 3)
        return [node.name for node in g.nodes]

    assert build() == build()


def test_a_name_is_taken_once(graph: dg.Graph, x: dg.Value) -> None:
    for call in (
        lambda: graph.input("x", sizes=[1], dtype="int8"),
        lambda: graph.constant("x", [1.0]),
        lambda: dg.exp(x, name="x"),
        lambda: graph.fill_value_constant(sizes=[1], dtype="int8", value=1, name="x"),
    ):
        error = refused(call, dg.GraphError)
        expect(error, "duplicate", node="x")
    assert len(list(graph.nodes)) == 1


@pytest.mark.parametrize("name", ["", " a", "a ", "a\nb", "a\0b", "\t", 5, None, "\ud800"])
def test_a_name_is_printable_text(graph: dg.Graph, x: dg.Value, name: Any) -> None:
    for call in (
        lambda: graph.input(name, sizes=[1], dtype="int8"),
        lambda: graph.constant(name, [1.0]),
        lambda: graph.output(name, x),
    ):
        error = refused(call, dg.GraphError)
        expect(error, "name", allowed="printable text without spaces at its ends")
    assert len(list(graph.nodes)) == 1
    assert not graph.outputs


@pytest.mark.parametrize("name", ["", "a\nlevel 1.0", "\0", 5, None])
def test_a_graphs_name_is_printable_text(name: Any) -> None:
    error = refused(lambda: dg.Graph(name), dg.GraphError)
    assert (error.field, error.got, error.allowed) == ("name", name, "printable text")
    assert dg.Graph("model.v2 (draft)").name == "model.v2 (draft)"


@pytest.mark.parametrize(
    "name", ["a b", "null", "übergröße", "入力", "a/b", "x-1", "0", "layer.0.weight", ".", "..", "a."]
)
def test_any_other_text_is_a_name(graph: dg.Graph, name: str) -> None:
    graph.output(name, graph.input(name, sizes=[1], dtype="int8"))
    assert list(graph.outputs) == [node.name for node in graph.nodes] == [name]


def test_an_unknown_node_gets_a_suggestion(graph: dg.Graph) -> None:
    graph.input("weights", sizes=[1], dtype="int8")
    assert refused(lambda: graph.node("wieghts"), dg.GraphError).hint == "did you mean 'weights'?"


# Values of other graphs.


def test_a_value_of_another_graph_is_refused(graph: dg.Graph, x: dg.Value) -> None:
    foreign = dg.Graph("other").input("f", sizes=[2, 3], dtype="float32")
    error = refused(lambda: x + foreign, dg.GraphError)
    expect(error, "foreign-value", node="add", field="b", got="f")
    expect(refused(lambda: graph.output("y", foreign), dg.GraphError), "foreign-value", got="f")
    expect(
        refused(lambda: dg.join([x, foreign], axis=0), dg.GraphError),
        "foreign-value",
        node="join",
        field="inputs.1",
        got="f",
    )
    assert len(list(graph.nodes)) == 1


@pytest.mark.parametrize("thing", [3, "x", None, Y])
def test_an_output_is_a_value(graph: dg.Graph, thing: Any) -> None:
    error = refused(lambda: graph.output("y", thing), dg.GraphError)
    expect(error, "not-a-value", field="outputs.y")


def test_an_output_is_named_once(graph: dg.Graph, x: dg.Value) -> None:
    graph.output("y", x)
    error = refused(lambda: graph.output("y", x), dg.GraphError)
    expect(error, "duplicate", field="outputs.y")


def test_a_node_no_output_depends_on_is_allowed(graph: dg.Graph, x: dg.Value) -> None:
    dg.exp(dg.log(x))
    graph.output("y", x * x)
    assert graph.live_nodes() == {"x", "multiply"}
    np.testing.assert_array_equal(graph.compile("reference").run({"x": X})["y"], X * X)


# Constants.


def test_a_constant_is_a_copy(graph: dg.Graph) -> None:
    array = np.array([1, 2, 3], np.float32)
    value = graph.constant("c", array)
    array[:] = 0
    np.testing.assert_array_equal(run(value), [1, 2, 3])
    stored = graph.node("c").data  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="read-only"):
        stored[0] = 9


def test_numbers_become_a_constant_of_the_data_type_that_is_given(graph: dg.Graph) -> None:
    assert graph.constant("a", [[1, 2]], dtype="float16").desc == dg.TensorDesc(dtype="float16", sizes=[1, 2])
    assert graph.constant("b", np.arange(3.0), dtype="uint4").dtype is dg.DataType.UINT4
    assert graph.constant("c", [1, -2], dtype="uint8").dtype is dg.DataType.UINT8
    assert graph.node("c").data.tolist() == [1, 254]  # type: ignore[union-attr]
    assert graph.constant("d", [1.5]).dtype is dg.DataType.FLOAT64
    assert graph.constant("e", [2**64 - 1, 0], dtype="uint64").graph is graph
    assert graph.node("e").data.tolist() == [2**64 - 1, 0]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("data", "dtype", "text"),
    [
        ([1.5], "uint8", "node 'c': uint8 holds whole numbers only; got 1.5"),
        (np.array([1.5]), "uint8", "node 'c': uint8 holds whole numbers only; got 1.5"),
        ([300], "uint8", "node 'c': does not fit in uint8; got 300"),
        ([1e10], "float16", "node 'c': is beyond the range of float16"),
        (["a"], "float32", "node 'c': is not a number; got a"),
        ([[1], [1, 2]], "float32", "node 'c': is not a number; got [1]"),
        ([[1], [1, 2]], None, "node 'c': is not an array; allowed: an array, or numbers in lists of equal lengths"),
        (["a"], None, "node 'c', field 'dtype': not a data type of DirectML; got dtype('<U1')"),
        ([True], None, "node 'c', field 'dtype': not a data type of DirectML; got dtype('bool')"),
        (np.ones(2, ">f4"), None, "node 'c', field 'dtype': not a data type of DirectML; got dtype('>f4')"),
        (5.0, None, "node 'c', field 'sizes': a tensor has 1 to 8 dimensions; got []"),
        ([], "float32", "node 'c', field 'sizes.0': a size must be at least 1"),
    ],
)
def test_what_is_no_constant_is_refused(graph: dg.Graph, data: Any, dtype: Any, text: str) -> None:
    assert str(refused(lambda: graph.constant("c", data, dtype=dtype))).startswith(text)
    assert not list(graph.nodes)


# Dims.


def test_dims_stand_in_place_of_sizes_everywhere(graph: dg.Graph) -> None:
    v = graph.input("v", sizes=["N", 4], dtype="float32", strides=[4, 1])
    fill = graph.fill_value_constant(sizes=["N", 1], dtype="float32", value=2)
    first, rest = dg.split(v * fill, axis=1, outputs=["N", 2])
    graph.output("first", first)
    graph.output("rest", rest)
    graph.output("total", dg.reduce(v, function="sum", axes=[0]))
    assert (v.sizes, fill.sizes, first.sizes, rest.sizes) == ((2, 4), (2, 1), (2, 2), (2, 2))
    assert refused(lambda: graph.with_dims({"N": 3})).field == "outputs"  # 3 + 2 is not 4
    data = np.arange(8, dtype=np.float32).reshape(2, 4)
    results = graph.compile("reference").run({"v": data})
    np.testing.assert_array_equal(results["first"], 2 * data[:, :2])


def test_other_dims_build_the_graph_again(graph: dg.Graph) -> None:
    v = graph.input("v", sizes=["N", 3], dtype="float32")
    graph.constant("unused", [1.0], dtype="float32")
    graph.output(
        "y", dg.exp(v) + graph.fill_value_sequence(sizes=["N", 1], dtype="float32", value_start=0, value_delta=1)
    )
    wider = graph.with_dims({"N": 5})
    assert wider.dims == {"N": 5}
    assert wider.outputs["y"].sizes == (5, 3)
    assert graph.outputs["y"].sizes == (2, 3)
    assert [node.name for node in wider.nodes] == [node.name for node in graph.nodes]
    assert wider.with_dims({"N": 2}).lower() == graph.lower()
    result = graph.compile("reference", dims={"N": 4}).run({"v": np.zeros((4, 3), np.float32)})["y"]
    np.testing.assert_array_equal(result, 1 + np.repeat(np.arange(4), 3).reshape(4, 3))


def test_a_dim_stands_in_an_integer_attribute() -> None:
    g = dg.Graph(dims={"A": 1})
    v = g.input("v", sizes=[2, 3, 4], dtype="float32")
    g.output("y", dg.reduce(v, function="sum", axes=["A"]))
    g.output("z", dg.join([v, v], axis="A"))
    assert (g.outputs["y"].sizes, g.outputs["z"].sizes) == ((2, 1, 4), (2, 6, 4))
    other = g.with_dims({"A": 2})
    assert (other.outputs["y"].sizes, other.outputs["z"].sizes) == ((2, 3, 1), (2, 3, 8))


def test_an_unknown_dim_is_refused_where_it_stands() -> None:
    g = dg.Graph(dims={"batch": 1})
    error = refused(lambda: g.input("v", sizes=[1, "bacth"], dtype="int8"), dg.GraphError)
    assert (error.node, error.field, error.got) == ("v", "sizes.1", "bacth")
    assert (error.allowed, error.hint) == ("a number, batch", "did you mean 'batch'?")
    error = refused(lambda: g.fill_value_constant(sizes=["M"], dtype="int8", value=1), dg.GraphError)
    assert error.field == "output.sizes.0"
    assert refused(lambda: g.with_dims({"bach": 2}), dg.GraphError).hint == "did you mean 'batch'?"
    expect(
        refused(lambda: dg.Graph().input("v", sizes=["N"], dtype="int8")),
        "unknown-dim",
        node="v",
        field="sizes.0",
        got="N",
    )


@pytest.mark.parametrize("size", [0, -1, True, 1.0, "2", None])
def test_a_dim_is_a_whole_number_of_at_least_1(graph: dg.Graph, size: Any) -> None:
    for call in (lambda: dg.Graph(dims={"N": size}), lambda: graph.with_dims({"N": size})):
        error = refused(call, dg.GraphError)
        assert (error.field, error.got) == ("dims.N", size)
        expect(error, "range", field="dims.N")


@pytest.mark.parametrize("dims", [3, "N", [("N", 2)], 0])
def test_dims_are_a_mapping(graph: dg.Graph, dims: Any) -> None:
    for call in (lambda: dg.Graph(dims=dims), lambda: graph.compile("reference", dims=dims)):
        error = refused(call, dg.GraphError)
        assert (error.field, error.got) == ("dims", dims)


def test_a_graph_without_dims_says_so() -> None:
    assert refused(lambda: dg.Graph().with_dims({"N": 2}), dg.GraphError).allowed == "nothing: the graph has no dims"


def test_a_dim_may_be_a_numpy_integer() -> None:
    number: Any = np.int64(3)
    g = dg.Graph(dims={"N": number})
    assert g.dims == {"N": 3}
    assert type(g.dims["N"]) is int


def test_what_was_given_is_out_of_the_callers_reach(graph: dg.Graph) -> None:
    sizes: list[Any] = ["N", 4]
    axes = [0]
    v = graph.input("v", sizes=sizes, dtype="float32")
    graph.output("y", dg.reduce(v, function="sum", axes=axes))
    before = graph.lower()
    sizes[1] = 9
    axes[0] = 1
    assert graph.with_dims({"N": 2}).lower() == before


# Levels.


def test_a_5_d_fill_at_2_1_is_told_the_level_at_which_it_becomes_legal() -> None:
    g = dg.Graph(target="2.1")
    error = refused(
        lambda: g.fill_value_constant(sizes=[1] * 5, dtype="float32", value=1, name="big"), dg.OperatorError
    )
    expect(error, "level", node="big", field="output.sizes", got="5 dimensions")
    assert dg.Graph(target="4.0").fill_value_constant(sizes=[1] * 8, dtype="float32", value=1).sizes == (1,) * 8


def test_an_int64_sequence_below_5_0_is_told_the_level_at_which_it_becomes_legal() -> None:
    def build(target: str) -> dg.Value:
        g = dg.Graph(target=target)
        return g.fill_value_sequence(sizes=[1] * 4, dtype="int64", value_start=1, value_delta=1, name="seq")

    for target in ("2.1", "4.1"):
        error = refused(functools.partial(build, target), dg.OperatorError)
        assert (error.node, error.field, error.got) == ("seq", "output.dtype", "int64")
        assert f"FILL_VALUE_SEQUENCE does not take int64 here at feature level {target}; legal from 5.0" in str(error)
        assert error.allowed == "float32, float16, uint32, uint16, uint8, int32, int16, int8"
    assert build("5.0").dtype is dg.DataType.INT64


def test_an_operator_newer_than_the_target_is_told_its_level() -> None:
    g = dg.Graph(target="1.0")
    error = refused(lambda: g.fill_value_constant(sizes=[1] * 4, dtype="float32", value=1), dg.OperatorError)
    expect(error, "level", node="fill_value_constant")


def test_what_is_legal_nowhere_says_so() -> None:
    g = dg.Graph()
    error = refused(
        lambda: g.fill_value_sequence(sizes=[1], dtype="float64", value_start=1, value_delta=1), dg.OperatorError
    )
    expect(error, "level", node="fill_value_sequence", field="output.dtype", got="float64")


def test_a_refused_node_is_not_in_the_graph() -> None:
    g = dg.Graph(target="2.1")
    refused(lambda: g.fill_value_constant(sizes=[1] * 5, dtype="float32", value=1, name="big"))
    assert not list(g.nodes)
    assert g.fill_value_constant(sizes=[1] * 4, dtype="float32", value=1, name="big").node == "big"


def test_without_a_target_the_newest_level_counts(graph: dg.Graph) -> None:
    assert graph.target is None
    assert graph.level is max(dg.FeatureLevel)
    assert dg.Graph(target="5.0").level is dg.FeatureLevel.V5_0
    assert dg.Graph(target=dg.FeatureLevel.V5_0).level is dg.FeatureLevel.V5_0


def test_an_output_that_overlaps_itself_is_refused(graph: dg.Graph) -> None:
    error = refused(
        lambda: graph.fill_value_constant(sizes=[2, 2], strides=[1, 1], dtype="float32", value=1, name="f"),
        dg.OperatorError,
    )
    assert (error.node, error.field, error.got) == ("f", "output.strides", [1, 1])
    assert graph.input("overlapping", sizes=[2, 2], strides=[1, 1], dtype="float32").sizes == (2, 2)


# Depth.


def test_a_chain_of_20_000_nodes_hits_no_recursion_limit(tmp_path: pathlib.Path) -> None:
    g = dg.Graph("deep", dims={"N": 1})
    value = g.input("v", sizes=["N", 2], dtype="float32")
    one = g.fill_value_constant(sizes=[1, 1], dtype="float32", value=1)
    for _ in range(DEEP):
        value = value + one
    g.output("y", value)
    desc = g.lower(fuse=False)
    assert len(desc.nodes) == DEEP + 1
    assert str(desc).count("ELEMENT_WISE_ADD") == DEEP
    assert len(g.with_dims({"N": 3}).lower(fuse=False).nodes) == DEEP + 1
    g.save(tmp_path / "deep.yaml")
    assert dg.load(tmp_path / "deep.yaml").lower(fuse=False) == desc


def test_a_chain_of_thousands_of_nodes_runs() -> None:
    g = dg.Graph()
    value = g.input("v", sizes=[2], dtype="float32")
    one = g.fill_value_constant(sizes=[1], dtype="float32", value=1)
    for _ in range(3000):
        value = value + one
    np.testing.assert_array_equal(run(value, v=np.array([0, 5], np.float32)), [3000, 3005])


def test_a_node_that_is_refused_is_refused_again() -> None:
    graph = dg.Graph(target="4.1")
    x = graph.input("x", sizes=[2], dtype="float32")
    for _ in range(2):
        assert refused(lambda: dg.negate(x), dg.OperatorError).code == "level"
    assert [node.name for node in graph.nodes] == ["x"]


def test_a_refused_node_leaves_nothing_behind():
    g = dg.Graph("test")
    x = g.input("x", sizes=[2, 3], dtype="float32")
    with pytest.raises(dg.OperatorError):
        dg.gemm(x, 2)
    assert [node.name for node in g.nodes] == ["x"]
    assert (x * 2).node == "multiply"
    assert [node.name for node in g.nodes] == ["x", "fill_value_constant", "multiply"]
