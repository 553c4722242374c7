"""Numbers in place of tensors: every input of every operator accepts one, of the right type, or says why not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dmlgraph as dg
from dmlgraph.formats.yaml import loads
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.operators import REGISTRY
from dmlgraph.operators.catalog.examples import example
from dmlgraph.operators.declaration.fields import Kind
from dmlgraph.operators.declaration.operator import same_dtype_fields

# The type of a number if the example has no tensor there, or one of another legal type.
OPTIONAL = {
    ("batch_normalization_training", "fused_add"): "float32",
    ("convolution_integer", "input_zero_point"): "uint8",
    ("convolution_integer", "filter"): "uint8",  # the input's
    ("convolution_integer", "filter_zero_point"): "int8",
    ("quantized_linear_convolution", "filter"): "uint8",
    ("matrix_multiply_integer", "a"): "int8",  # the other matrix's
    ("matrix_multiply_integer", "b"): "uint8",
    ("quantized_linear_matrix_multiply", "a"): "int8",
    ("quantized_linear_matrix_multiply", "b"): "uint8",
    ("quantize", "quantizations"): "float32",
}


def cases() -> Iterator[Any]:
    for name, operator in REGISTRY.items():
        for field in operator.input_fields:
            if len(operator.input_fields) > 1:
                yield pytest.param(name, field, id=f"{name}-{field}")


def with_number(name: str, field: str, number: Any) -> tuple[dg.Graph, OperatorNode, dg.DataType | None]:
    """The operator's example with a number for one of its tensors, and the type of that tensor in the example.

    Raises:
        DmlGraphError: the number is refused.
    """
    graph = loads(example(REGISTRY[name]))
    (node,) = (each for each in graph.nodes if isinstance(each, OperatorNode) and each.operator.name == name)
    bound = {port: dg.Value(graph, source, from_port) for source, from_port, port in graph.producers(node.name)}
    tensors: dict[str, Any] = {}
    port = 0
    for each in node.operator.input_fields:
        desc = getattr(node.operator, each)
        count = len(desc) if isinstance(desc, tuple) else 1
        values = [bound.get(index) for index in range(port, port + count)]
        tensors[each] = values if isinstance(desc, tuple) else values[0]
        port += count
    given = tensors[field]
    known = given[0] if isinstance(given, list) else given
    tensors[field] = [number, *given[1:]] if isinstance(given, list) else number
    graph.add(REGISTRY[name], tensors, node.attributes, node.outputs, "node")
    added = graph.node("node")
    assert isinstance(added, OperatorNode)
    return graph, added, None if known is None else known.dtype


@pytest.mark.parametrize("number", [1, 0.5, -1])
@pytest.mark.parametrize(("name", "field"), list(cases()))
def test_every_input_takes_a_number_or_says_what_to_do(name: str, field: str, number: float) -> None:
    refused: dg.DmlGraphError | None = None
    try:
        graph, node, known = with_number(name, field, number)
    except dg.DmlGraphError as error:
        refused = error
    if refused is not None:
        assert all((problem.field or "").split(".")[0] in REGISTRY[name].fields for problem in refused.problems)
        assert any(problem.hint or problem.allowed for problem in refused.problems)
        assert refused.node == "node"
        return
    got = getattr(node.operator, field)
    got = got[0] if isinstance(got, tuple) else got
    wanted = OPTIONAL.get((name, field)) or (str(known) if known else None)
    if field in ("indices", "updates_indices") and number < 0:
        wanted = "int32"
    if wanted is None:  # left out in the example: its type is that of its group
        group = same_dtype_fields(REGISTRY[name], field)
        peers = (getattr(node.operator, each) for each in group if each != field)
        wanted = next((str(peer.dtype) for peer in peers if peer is not None), None)
    assert str(got.dtype) == (wanted or str(got.dtype))
    assert not node.operator.level_problems(graph.level)


def test_most_inputs_take_one() -> None:
    taken = 0
    total = 0
    for case in cases():
        total += 1
        try:
            name, field = case.values
            with_number(str(name), str(field), 1)
        except dg.DmlGraphError:
            continue
        taken += 1
    assert taken > total / 2


@pytest.fixture
def g() -> dg.Graph:
    return dg.Graph()


def fills(graph: dg.Graph) -> list[str]:
    """The data types of the fills that numbers became, in order."""
    return [
        str(node.operator.output.dtype)  # type: ignore[attr-defined]
        for node in graph.nodes
        if isinstance(node, OperatorNode) and node.operator.name == "fill_value_constant"
    ]


def test_quantizing_with_numbers(g: dg.Graph) -> None:
    x = g.input("x", sizes=[3], dtype="float32")
    q = dg.quantize_linear(x, 0.5, 100, dtype="uint8")
    g.output("q", q)
    g.output("y", dg.dequantize_linear(q, 0.5, 100))
    assert fills(g) == ["float32", "uint8", "float32", "uint8"]
    given = np.array([-50, 0.75, 1.1], np.float32)
    got = g.compile("reference").run({"x": given})
    np.testing.assert_array_equal(got["q"], np.array([0, 102, 102], np.uint8))
    np.testing.assert_array_equal(got["y"], np.array([-50, 1, 1], np.float32))


def test_a_scale_is_of_the_inputs_type_where_that_is_a_float(g: dg.Graph) -> None:
    dg.quantize_linear(g.input("half", sizes=[3], dtype="float16"), 0.5, 0, dtype="int8")
    dg.quantize_linear(g.input("whole", sizes=[3], dtype="int32"), 0.5, 0, dtype="int8")
    assert fills(g) == ["float16", "int8", "float32", "int8"]


def test_what_is_asked_of_the_output_decides(g: dg.Graph) -> None:
    q = g.input("q", sizes=[3], dtype="uint8")
    y = dg.dequantize_linear(q, 0.5, 0, output={"dtype": "float16"})
    assert (y.dtype, fills(g)) == (dg.DataType.FLOAT16, ["float16", "uint8"])


def test_both_branches_of_if(g: dg.Graph) -> None:
    x = g.input("x", sizes=[3], dtype="float16")
    with pytest.raises(dg.OperatorError) as caught:
        dg.if_(x > 0, 1.0, 0.5)
    assert (caught.value.node, caught.value.field, caught.value.got) == ("if", "a", 1.0)
    assert caught.value.hint == "give the output's: dtype=…"
    y = dg.if_(x > 0, 1.0, 0.5, dtype="float32")
    assert (y.dtype, fills(g)[-2:]) == (dg.DataType.FLOAT32, ["float32", "float32"])
    assert dg.if_(x > 0, x, 0.5).dtype is dg.DataType.FLOAT16
    assert dg.if_(1, x, x).dtype is dg.DataType.FLOAT16


def test_an_index_from_the_end_is_signed(g: dg.Graph) -> None:
    x = g.input("x", sizes=[3, 2], dtype="float32")
    g.output("y", dg.gather(x, -1, axis=0, index_dimensions=1))
    data = np.arange(6, dtype=np.float32).reshape(3, 2)
    np.testing.assert_array_equal(g.compile("reference").run({"x": data})["y"], data[2:])
    assert fills(g) == ["int32"]


@pytest.mark.parametrize("number", [2, 2.0, np.int64(2), np.float16(2), Fraction(2), Decimal(2)])
def test_any_kind_of_number_is_one(g: dg.Graph, number: Any) -> None:
    dg.pow(g.input("x", sizes=[3], dtype="float16"), number)
    assert fills(g) == ["float16"]


@pytest.mark.parametrize(
    ("call", "field", "hint"),
    [
        (lambda x, q: dg.if_(True, x, x), "condition", "write 1 or 0"),
        (lambda x, q: dg.add(q, 0.5), "b", None),
        (lambda x, q: dg.add(q, 300), "b", None),
        (lambda x, q: dg.quantize_linear(x, 0.5, 0), "zero_point", "give the output's: dtype=…"),
        (lambda x, q: dg.batch_normalization(1, x, x, 1, 1, spatial=True, epsilon=0), "mean.sizes", None),
        (lambda x, q: dg.gather(5, q, axis=0), "input", "give the output's: output={'dtype': …}"),
    ],
)
def test_what_cannot_be_a_number_says_what_to_do(
    g: dg.Graph, call: Callable[[dg.Value, dg.Value], Any], field: str, hint: str | None
) -> None:
    x, q = g.input("x", sizes=[2, 3], dtype="float32"), g.input("q", sizes=[2, 3], dtype="uint8")
    with pytest.raises(dg.DmlGraphError) as caught:
        call(x, q)
    assert (caught.value.field or "").startswith(field)
    assert caught.value.hint == hint or (hint is None and (caught.value.allowed or "holds whole" in str(caught.value)))


def test_a_number_is_told_to_be_one_element(g: dg.Graph) -> None:
    x = g.input("x", sizes=[1, 3, 2, 4], dtype="float32")
    w, r = g.input("w", sizes=[1, 1, 5, 4], dtype="float32"), g.input("r", sizes=[1, 1, 5, 5], dtype="float32")
    with pytest.raises(dg.OperatorError) as caught:
        dg.rnn(x, w, r, 0.5, activation_descs=["activation_tanh"])
    assert (caught.value.field, caught.value.allowed) == ("bias.sizes", "[1, 1, 1, 10]")
    assert caught.value.hint == "a number is a tensor of one element: give a tensor of these sizes, a fill for example"


def test_declared_sources_are_fields_and_types() -> None:
    for operator in REGISTRY.values():
        for member in operator.members:
            if member.number_type is None:
                continue
            each_of = member.number_type.sources
            assert all(isinstance(each, tuple) for each in each_of) == (member.kind is Kind.TENSORS)
            flat = [source for each in each_of for source in (each if isinstance(each, tuple) else (each,))]
            assert all(source in operator.fields for source in flat if isinstance(source, str))
