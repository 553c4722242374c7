"""The operators' functions as type checkers and editors see them."""

from __future__ import annotations

import pathlib
import pickle
import subprocess
import sys
from typing import Any

import pytest

import dmlgraph as dg
from dmlgraph import functions
from dmlgraph.formats.yaml import dumps, loads
from dmlgraph.graph.calls import outputs_of
from dmlgraph.graph.nodes import OperatorNode
from dmlgraph.operators import REGISTRY
from dmlgraph.operators.catalog.examples import example
from dmlgraph.operators.declaration.signatures import outputs_type

ROOT = pathlib.Path(__file__).parent.parent


def test_every_function_is_public():
    public = vars(dg)["__all__"]  # which type checkers do not see
    assert set(functions.__all__) <= set(public)
    for name in public:
        assert hasattr(dg, name)


# What functions return.


@pytest.fixture
def x() -> dg.Value:
    return dg.Graph().input("x", sizes=[1, 1, 4, 4], dtype="float32")


def test_one_output_is_a_value_and_several_are_named(x: dg.Value) -> None:
    one = dg.max_pooling1(x, window_size=2)
    assert isinstance(one, dg.Value)
    assert (one.reference, one.node) == ("max_pooling1", "max_pooling1")
    both = dg.max_pooling1(x, window_size=2, output_indices=True)
    assert type(both).__name__ == "MaxPooling1Outputs"
    assert both._fields == ("output", "output_indices")
    greatest, indices = both
    assert (greatest, indices) == (both.output, both.output_indices)
    assert (greatest.reference, indices.reference) == ("max_pooling1_1.output", "max_pooling1_1.output_indices")
    assert isinstance(dg.max_pooling1(x, window_size=2, output_indices=False), dg.Value)
    assert isinstance(dg.max_pooling1(x, window_size=2, output_indices={"dtype": "uint64"}), tuple)


def test_places_do_not_shift(x: dg.Value) -> None:
    graph = x.graph
    q = graph.input("q", sizes=[1, 2, 8], dtype="float32")
    made = dg.multihead_attention(q, q, q, head_count=2, scale=1, output_present_value=True)
    assert made._fields == ("output", "output_present_key", "output_present_value")
    assert made.output_present_key is None
    assert made[2] is made.output_present_value
    assert made.output_present_value is not None
    assert made.output_present_value.port == 2
    w, r = (
        graph.input("w", sizes=[1, 1, 20, 8], dtype="float32"),
        graph.input("r", sizes=[1, 1, 20, 5], dtype="float32"),
    )
    steps = graph.input("steps", sizes=[1, 3, 2, 8], dtype="float32")
    names = ["activation_sigmoid", "activation_tanh", "activation_tanh"]
    all_of_it = dg.lstm(steps, w, r, activation_descs=names)
    assert all(value is not None for value in all_of_it)
    last: Any = dg.lstm(steps, w, r, activation_descs=names, output_sequence=False)
    assert (last.output_sequence, last.output_single.port, last[2].port) == (None, 1, 2)
    cell = dg.lstm(steps, w, r, activation_descs=names, output_sequence=False, output_single=False)
    assert isinstance(cell, dg.Value)
    assert (cell.port, cell.reference) == (2, cell.node)


def test_a_state_that_is_left_out(x: dg.Value) -> None:
    state = x.graph.input("state", sizes=[1, 1, 1, 6], dtype="uint32")
    bits, following = dg.random_generator(state, sizes=[8])
    assert (bits.sizes, following.sizes) == ((8,), (1, 1, 1, 6))
    assert isinstance(dg.random_generator(state, sizes=[8], output_state=False), dg.Value)


def test_parts_are_a_plain_tuple(x: dg.Value) -> None:
    assert [type(dg.split(x, axis=3, outputs=parts)) for parts in ([4], [1, 3], 2)] == [tuple] * 3


def test_every_operator_returns_what_its_outputs_are() -> None:
    for name, operator in REGISTRY.items():
        several = outputs_type(operator)
        assert (several is None) == (len(operator.output_fields) == 1)
        if several is not None:
            assert several._fields == operator.output_fields  # type: ignore[attr-defined]
            assert getattr(functions, several.__name__) is several
        graph = loads(example(operator))
        node = graph.node(next(each.name for each in graph.nodes if getattr(each, "operator", None) is not None))
        assert isinstance(node, OperatorNode)
        if node.operator.name == name:
            present = [desc for desc in node.operator.output_descs if desc is not None]
            values = [None if desc is None else object() for desc in node.operator.output_descs]
            got = outputs_of(operator, values)  # type: ignore[arg-type]
            if several is not None and len(present) > 1:
                assert isinstance(got, several)
                assert list(got) == values


def test_a_named_tuple_goes_with_its_graph(x: dg.Value) -> None:
    pooled = dg.max_pooling1(x, window_size=2, output_indices=True)
    again = pickle.loads(pickle.dumps(pooled))
    assert type(again) is type(pooled)
    assert again.output_indices.desc == pooled.output_indices.desc


def test_several_outputs_are_no_tensor(x: dg.Value) -> None:
    pooled = dg.max_pooling1(x, window_size=2, output_indices=True)
    tensor: Any = pooled
    for call in (lambda: dg.exp(tensor), lambda: x.graph.output("y", tensor)):
        with pytest.raises(dg.DmlGraphError) as caught:
            call()
        assert caught.value.hint == "take one of its outputs: output, output_indices"


def test_the_only_output_of_a_node_is_its_name() -> None:
    text = """
dmlgraph: 1
inputs: {x: {dtype: float32, sizes: [1, 1, 4, 4]}}
nodes:
  p: {op: max_pooling1, input: x, window_size: 2}
  both: {op: max_pooling1, input: x, window_size: 2, output_indices: true}
  r: {op: activation_relu, input: p}
  s: {op: activation_relu, input: p.output}
outputs: {r: r, s: s, i: both.output_indices}
"""
    graph = loads(text)
    assert graph.value("p").desc == graph.value("p.output").desc
    for wrong in ("p.output_indices", "both", "p.outputs"):
        with pytest.raises(dg.GraphError):
            graph.value(wrong)
    saved = dumps(graph)
    assert "input: p}" in saved
    assert "p.output}" not in saved
    assert dumps(loads(saved)) == saved


CHECKED = """
from typing import assert_type
import dmlgraph as dg
from dmlgraph.functions import LstmOutputs, RandomGeneratorOutputs, TopKOutputs

x = dg.Graph().input("x", sizes=[1, 1, 4, 4], dtype="float32")
assert_type(dg.max_pooling1(x, window_size=2), dg.Value)
assert_type(dg.max_pooling1(x, window_size=[2, 2], output_indices=True).output_indices, dg.Value)
assert_type(dg.top_k(x, axis=-1, k=1), TopKOutputs)
assert_type(dg.split(x, axis=1, outputs=2), tuple[dg.Value, ...])
assert_type(dg.lstm(x, x, x, activation_descs=[]), LstmOutputs)
assert_type(dg.lstm(x, x, x, activation_descs=[], output_single=False), LstmOutputs | dg.Value)
assert_type(dg.gru(x, x, x, activation_descs=[], output_single=False), dg.Value)
assert_type(dg.random_generator(x, sizes=[4]), RandomGeneratorOutputs)
assert_type(dg.random_generator(x, sizes=[4], output_state=False), dg.Value)
assert_type(dg.quantize_linear(x, 0.5, 0, dtype="uint8"), dg.Value)
dg.average_pooling(x, window_size=2.5)
"""


def test_type_checkers_know_what_functions_return(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("mypy", reason="mypy is not installed")
    file = tmp_path / "uses.py"
    file.write_text(CHECKED, encoding="utf-8")
    checked = [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path), "--follow-imports=silent", str(file)]
    done = subprocess.run(checked, cwd=tmp_path, capture_output=True, text=True, check=False)
    wrong = [f"{line.partition(':')[2].partition(':')[0]} {line[-10:]}" for line in done.stdout.splitlines()[:-1]]
    assert wrong == [f"{CHECKED.count(chr(10))} [arg-type]"], done.stdout
